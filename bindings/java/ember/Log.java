package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.util.function.BiConsumer;

/** What the library says beside its results. It says nothing until asked to. */
public final class Log {
    private Log() {}

    /** How much a line matters. */
    public enum Level { ERROR, WARN, INFO, DEBUG }

    private static volatile BiConsumer<Level, String> lines = (level, text) -> {};

    /** Called by the library for each line, on any thread; it is never freed. */
    private static final class Line {
        static final Callback CALLBACK = new Callback(FunctionDescriptor.ofVoid(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS), null, values -> {
            try {
                var text = Native.text(Callback.at(values[1], (long) values[2]));
                lines.accept(Level.values()[(int) values[0] - 1], text);
            } catch (Throwable e) { // which nobody looks for
                var thread = Thread.currentThread();
                thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
            }
            return null;
        });
    }

    /** Has the lines of this level and of those that matter more come to `lines`, for all models of the process and on any thread. */
    public static void to(Level level, BiConsumer<Level, String> lines) {
        Log.lines = lines;
        Native.call("ember_log_set", Line.CALLBACK.pointer, MemorySegment.NULL, level.ordinal() + 1);
    }

    /** Makes the library silent again. */
    public static void off() {
        Native.call("ember_log_set", MemorySegment.NULL, MemorySegment.NULL, 1);
    }
}

package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.*;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.function.BiConsumer;

/** What the library says beside its results. It says nothing until asked to. */
public final class Log {
    private Log() {}

    /** How much a line matters. */
    public enum Level { ERROR, WARN, INFO, DEBUG }

    private static volatile BiConsumer<Level, String> lines = (level, text) -> {};

    /** Called by the library for each line, on any thread; the one stub is never freed. */
    private static void line(int level, MemorySegment text, long length, MemorySegment user) {
        try {
            lines.accept(Level.values()[level - 1], Native.text(text.reinterpret(length)));
        } catch (Throwable e) { // which must not pass through C
            var thread = Thread.currentThread();
            thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
        }
    }

    private static final class Stub {
        static final MemorySegment LINE;

        static {
            try {
                var type = MethodType.methodType(void.class, int.class, MemorySegment.class, long.class, MemorySegment.class);
                LINE = Linker.nativeLinker().upcallStub(MethodHandles.lookup().findStatic(Log.class, "line", type),
                        FunctionDescriptor.ofVoid(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS), Arena.global());
            } catch (ReflectiveOperationException e) {
                throw new ExceptionInInitializerError(e);
            }
        }
    }

    /** Has the lines of this level and of those that matter more come to `lines`, for all models of the process and on any thread. */
    public static void to(Level level, BiConsumer<Level, String> lines) {
        Log.lines = lines;
        set(Stub.LINE, level);
    }

    /** Makes the library silent again. */
    public static void off() {
        set(MemorySegment.NULL, Level.ERROR);
    }

    private static void set(MemorySegment callback, Level level) {
        try (var arena = Arena.ofConfined()) {
            Native.call(arena, "ember_log_set", callback, MemorySegment.NULL, level.ordinal() + 1);
        }
    }
}

package ember;

import java.lang.foreign.MemorySegment;
import java.lang.ref.Cleaner;
import java.util.function.Function;

/** What belongs to the library until it is closed, or forgotten. It is not freed while a call uses it. */
final class Handle implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();

    /** Refers to nothing of the handle, so that a forgotten one is found. */
    private record Free(String function, MemorySegment pointer) implements Runnable {
        @Override
        public void run() {
            Native.run(function, pointer);
        }
    }

    private final String what;
    private final MemorySegment pointer;
    private final Cleaner.Cleanable cleanable;
    private int users;
    private boolean closed;

    Handle(String what, MemorySegment pointer, String free) {
        this.what = what;
        this.pointer = pointer;
        this.cleanable = CLEANER.register(this, new Free(free, pointer));
    }

    <T> T use(Function<MemorySegment, T> f) {
        synchronized (this) {
            if (closed) throw new EmberException(0, "the " + what + " is closed");
            users++;
        }
        try {
            return f.apply(pointer);
        } finally {
            boolean last;
            synchronized (this) {
                last = --users == 0 && closed;
            }
            if (last) cleanable.clean();
        }
    }

    synchronized boolean isClosed() {
        return closed;
    }

    @Override
    public void close() {
        synchronized (this) {
            if (closed) return;
            closed = true;
            if (users > 0) return; // the last user frees it
        }
        cleanable.clean();
    }
}

package ember;

import java.lang.foreign.MemorySegment;
import java.lang.ref.Cleaner;
import java.util.List;
import java.util.function.Function;

/** What belongs to the library until its last owner closes it, or it is forgotten. It is not freed while a call uses it. */
final class Handle implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();

    /** Refers to nothing of the handle, so that a forgotten one is found. What C calls is there until it is freed. */
    private record Free(String function, MemorySegment pointer, List<Callback> callbacks) implements Runnable {
        @Override
        public void run() {
            Native.run(function, pointer);
        }
    }

    private final String what;
    private final MemorySegment pointer;
    private final List<Callback> callbacks;
    private final Cleaner.Cleanable cleanable;
    private int owners = 1;
    private int users;
    private boolean closed;

    Handle(String what, MemorySegment pointer, String free) {
        this(what, pointer, free, List.of());
    }

    /** Of what calls these functions. */
    Handle(String what, MemorySegment pointer, String free, List<Callback> callbacks) {
        this.what = what;
        this.pointer = pointer;
        this.callbacks = callbacks;
        this.cleanable = CLEANER.register(this, new Free(free, pointer, callbacks));
    }

    /** The pointer, which is not freed until `release`. */
    synchronized MemorySegment acquire() {
        if (closed) throw new EmberException(0, "the " + what + " is closed");
        users++;
        return pointer;
    }

    void release() {
        boolean last;
        synchronized (this) {
            last = --users == 0 && closed;
        }
        if (last) cleanable.clean();
    }

    <T> T use(Function<MemorySegment, T> f) {
        acquire();
        try {
            return f.apply(pointer);
        } finally {
            release();
        }
    }

    /** Calls a function of the pointer alone, which returns nothing. */
    void run(String function) {
        use(p -> {
            Native.run(function, p);
            return null;
        });
    }

    List<Callback> callbacks() {
        return callbacks;
    }

    /** Throws what a function of Java's threw that C called. */
    void check() {
        callbacks.forEach(Callback::check);
    }

    synchronized boolean isClosed() {
        return closed;
    }

    /** Has one more owner, who closes it too. */
    synchronized Handle share() {
        owners++;
        return this;
    }

    @Override
    public void close() {
        synchronized (this) {
            if (closed || --owners > 0) return;
            closed = true;
            if (users > 0) return; // the last user frees it
        }
        cleanable.clean();
    }
}

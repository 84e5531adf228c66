package ember;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;

/**
 * Bytes that a model and a context take.
 *
 * @param file of the file's mapping, which the system may take back and read again
 * @param weights of weights in memory of their own
 * @param kv of what sequences are kept in
 * @param workspace of all else that computing needs
 */
public record Memory(long file, long weights, long kv, long workspace) {
    /** What `read` has the library write to an ember_memory. */
    static Memory of(Arena arena, Consumer<MemorySegment> read) {
        var raw = Native.allocate(arena, Native.MEMORY);
        read.accept(raw);
        return new Memory(n(raw, "file"), n(raw, "weights"), n(raw, "kv"), n(raw, "workspace"));
    }

    private static long n(MemorySegment raw, String field) {
        return raw.get(JAVA_LONG, Native.offset(Native.MEMORY, field));
    }
}

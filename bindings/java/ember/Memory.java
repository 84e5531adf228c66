package ember;

/**
 * Bytes that a model and a context take.
 *
 * @param file of the file's mapping, which the system may take back and read again
 * @param weights of weights in memory of their own
 * @param kv of what sequences are kept in
 * @param workspace of all else that computing needs
 */
public record Memory(long file, long weights, long kv, long workspace) {
    static Memory of(Native.Struct raw) {
        return new Memory(raw.whole("file"), raw.whole("weights"), raw.whole("kv"), raw.whole("workspace"));
    }
}

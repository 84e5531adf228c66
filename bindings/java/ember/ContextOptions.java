package ember;

/** How a context is made. 0 stands for the default. Texts are those of ember.h. */
public final class ContextOptions extends Settings<ContextOptions> {
    /** What keys and values are rounded to, as in ember_kv_type. */
    public enum KvType { F16, F32, Q8_0, I16, AUTO }

    /** Implementation of the mathematics: the fastest there is, or the plain scalar definition. */
    public enum Backend { AUTO, SCALAR }

    public ContextOptions() {
        super("ember_context_options");
    }

    /** Positions of each sequence; by default what the model was trained on, but no more than 4096. */
    public ContextOptions positions(int n) {
        return set("ember_context_options_set_n_ctx", Native.unsigned("positions", n));
    }

    /** Threads, the calling one included; by default one for each core. */
    public ContextOptions threads(int n) {
        return set("ember_context_options_set_n_threads", Native.unsigned("threads", n));
    }

    /** Number of sequences; by default 1. */
    public ContextOptions sequences(int n) {
        return set("ember_context_options_set_n_seq", Native.unsigned("sequences", n));
    }

    /** Rows run through the model at a time. */
    public ContextOptions batch(int n) {
        return set("ember_context_options_set_n_batch", Native.unsigned("batch", n));
    }

    /** The CPUs, by the system's numbers, that the context's own threads run on; by default the system chooses. */
    public ContextOptions workerCpus(int... cpus) {
        return set("ember_context_options_set_worker_cpus", cpus);
    }

    /** What keys and values are rounded to; by default AUTO. */
    public ContextOptions kvType(KvType type) {
        return set("ember_context_options_set_kv_type", type.ordinal());
    }

    /** As kvType, for keys alone. */
    public ContextOptions kType(KvType type) {
        return set("ember_context_options_set_k_type", type.ordinal());
    }

    /** As kvType, for values alone. */
    public ContextOptions vType(KvType type) {
        return set("ember_context_options_set_v_type", type.ordinal());
    }

    /** Implementation of the mathematics. */
    public ContextOptions backend(Backend backend) {
        return set("ember_context_options_set_backend", backend.ordinal());
    }

    /** Most bytes of the KV cache. */
    public ContextOptions kvLimit(long bytes) {
        return set("ember_context_options_set_kv_limit", Native.unsigned("kvLimit", bytes));
    }

    /** Whether pages are kept that no sequence has, so that texts which begin alike need not be computed again. */
    public ContextOptions keepPrefixes(boolean keep) {
        return set("ember_context_options_set_keep_prefixes", keep);
    }

    /** Whether sequences keep all their positions in layers with a window. */
    public ContextOptions keepAllPositions(boolean keep) {
        return set("ember_context_options_set_keep_all_positions", keep);
    }

    /** How many snapshots of recurrent states there can be. */
    public ContextOptions snapshots(int n) {
        return set("ember_context_options_set_n_snapshots", Native.unsigned("snapshots", n));
    }

    /** How many tokens lie between two of them within a prompt. */
    public ContextOptions snapshotDistance(int tokens) {
        return set("ember_context_options_set_snapshot_distance", Native.unsigned("snapshotDistance", tokens));
    }

    /** Most bytes of the context's large buffers. */
    public ContextOptions memoryLimit(long bytes) {
        return set("ember_context_options_set_memory_limit", Native.unsigned("memoryLimit", bytes));
    }
}

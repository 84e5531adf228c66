import CEmber

/// How to make a context.
public struct ContextOptions: Hashable, Sendable {
    /// What keys and values in the KV cache are rounded to.
    public enum KVType: Int32, Hashable, Sendable {
        /// binary16.
        case f16 = 0
        /// binary32: twice the memory, no rounding.
        case f32 = 1
        /// Bytes with scales: a little more than half the memory of binary16.
        case q8 = 2
        /// Integers with a unit for each vector: about as exact as binary16, and faster on x86-64.
        case i16 = 3
        /// The default: integers on x86-64 where the model's heads allow it, else binary16. States can only be loaded where
        /// keys and values are of the same types.
        case auto = 4
    }

    /// An implementation of the mathematics.
    public enum Backend: Int32, Hashable, Sendable {
        /// The fastest there is.
        case auto = 0
        /// The plain reference, on the calling thread.
        case scalar = 1
    }

    /// Positions per sequence; 0: what the model was trained on, but no more than 4096.
    public var size = 0
    /// Sequences, 1 to 4096.
    public var sequences = 1
    /// Rows run through the model at a time; 0: 256, or the whole text for an encoder.
    public var batch = 0
    /// Threads, the calling one included; 0: one for each core that the process may use.
    public var threads = 0
    /// The CPUs that the threads which the context makes are bound to; none: the system chooses.
    public var workerCPUs: [UInt32] = []
    /// What keys are rounded to.
    public var keyType = KVType.auto
    /// What values are rounded to.
    public var valueType = KVType.auto
    /// The implementation.
    public var backend = Backend.auto
    /// The most bytes that the large buffers of the context may have; 0: no limit of its own.
    public var memoryLimit: UInt64 = 0
    /// The most bytes of the KV cache, whose pages all sequences share; 0: what all sequences need at full length. When no
    /// page is left, calls throw ``EmberError/Status/contextFull``.
    public var kvLimit: UInt64 = 0
    /// Whether whole pages of the KV cache are kept when no sequence has them any more, until the pages are needed: texts that
    /// begin alike need not be computed again. Generations with ``GenerateOptions/reusePrefix`` find them.
    public var keepPrefixes = false
    /// Whether sequences keep all their positions in layers with a window. By default they give back what
    /// no token to come sees, and cannot be cut where it would be seen again.
    public var keepAllPositions = false
    /// How many snapshots of recurrent states a context can hold, in models with recurrent layers (LFM2). A sequence
    /// that is shortened goes on from the nearest one, and what lies between is run once more. 0: 8 for each sequence,
    /// 64 at most.
    public var snapshots = 0
    /// Tokens between two snapshots within a prompt; 0: 256.
    public var snapshotDistance = 0

    /// The defaults, or what differs from them. `kvType` is for keys and values alike.
    public init(
        size: Int = 0, sequences: Int = 1, batch: Int = 0, threads: Int = 0, workerCPUs: [UInt32] = [],
        kvType: KVType = .auto, backend: Backend = .auto, memoryLimit: UInt64 = 0,
        kvLimit: UInt64 = 0, keepPrefixes: Bool = false, keepAllPositions: Bool = false,
        snapshots: Int = 0, snapshotDistance: Int = 0
    ) {
        self.size = size
        self.sequences = sequences
        self.batch = batch
        self.threads = threads
        self.workerCPUs = workerCPUs
        keyType = kvType
        valueType = kvType
        self.backend = backend
        self.memoryLimit = memoryLimit
        self.kvLimit = kvLimit
        self.keepPrefixes = keepPrefixes
        self.keepAllPositions = keepAllPositions
        self.snapshots = snapshots
        self.snapshotDistance = snapshotDistance
    }

    func withHandle<R>(_ body: (OpaquePointer) throws -> R) throws -> R {
        let options = try make(ember_context_options_new)
        defer { ember_context_options_free(options) }
        let size = try number("the size", size)
        let sequences = try number("the number of sequences", sequences)
        let batch = try number("the batch", batch)
        let threads = try number("the number of threads", threads)
        let snapshots = try number("the number of snapshots", snapshots)
        let snapshotDistance = try number("the distance of snapshots", snapshotDistance)
        try check { ember_context_options_set_n_ctx(options, size, $0) }
        try check { ember_context_options_set_n_seq(options, sequences, $0) }
        try check { ember_context_options_set_n_batch(options, batch, $0) }
        try check { ember_context_options_set_n_threads(options, threads, $0) }
        try check { ember_context_options_set_worker_cpus(options, workerCPUs, workerCPUs.count, $0) }
        try check { ember_context_options_set_k_type(options, keyType.rawValue, $0) }
        try check { ember_context_options_set_v_type(options, valueType.rawValue, $0) }
        try check { ember_context_options_set_backend(options, backend.rawValue, $0) }
        try check { ember_context_options_set_memory_limit(options, memoryLimit, $0) }
        try check { ember_context_options_set_kv_limit(options, kvLimit, $0) }
        try check { ember_context_options_set_keep_prefixes(options, keepPrefixes, $0) }
        try check { ember_context_options_set_keep_all_positions(options, keepAllPositions, $0) }
        try check { ember_context_options_set_n_snapshots(options, snapshots, $0) }
        try check { ember_context_options_set_snapshot_distance(options, snapshotDistance, $0) }
        return try body(options)
    }
}

/// The options in force in a context.
public struct ContextInfo: Hashable, Sendable {
    /// Positions per sequence.
    public let size: Int
    /// Sequences, numbered from 0.
    public let sequences: Int
    /// Rows run through the model at a time.
    public let batch: Int
    /// Threads, the caller's included.
    public let threads: Int
    /// Tokens of a page of the KV cache; a sequence takes whole pages.
    public let pageLength: Int
    /// Pages of the KV cache.
    public let pages: Int

    init(_ info: ember_context_info) {
        size = Int(info.n_ctx)
        sequences = Int(info.n_seq)
        batch = Int(info.n_batch)
        threads = Int(info.n_threads)
        pageLength = Int(info.page_len)
        pages = Int(info.n_pages)
    }
}

import CEmber

/// How to load a model.
public struct ModelOptions: Hashable, Sendable {
    /// Which matrices are packed when a model is loaded.
    public enum Pack: Int32, Hashable, Sendable {
        /// Those that this machine multiplies faster packed.
        case auto = 0
        /// None: quick to load, shared between processes, slower to run.
        case never = 1
        /// All that can be packed.
        case always = 2
    }

    /// Whether the files are mapped or read into memory. A mapped file must not be changed or shortened while the model
    /// lives: calls would fail, or the operating system end the process.
    public var useMmap = true
    /// The highest instruction-set level to use, for example "scalar" or "avx2"; empty: no limit. ``EmberLibrary/buildInfo``
    /// names those of the machine.
    public var isa = ""
    /// Which matrices are packed.
    public var pack = Pack.auto
    /// Whether the weights are kept in memory, whatever else the system is short of. Systems let a process lock little as a
    /// rule.
    public var lock = false
    /// Whether loading looks at every number of every tensor and refuses one that is not finite.
    public var checkTensors = false
    /// The most bytes that the large buffers of the model and of all its contexts may have together; 0: no limit.
    public var memoryLimit: UInt64 = 0
    /// Values to be taken instead of the file's, whether it has these keys or not: to correct a wrong number.
    public var metadata: [String: MetadataValue] = [:]

    /// The defaults, or what differs from them.
    public init(
        useMmap: Bool = true, isa: String = "", pack: Pack = .auto, lock: Bool = false, checkTensors: Bool = false,
        memoryLimit: UInt64 = 0, metadata: [String: MetadataValue] = [:]
    ) {
        self.useMmap = useMmap
        self.isa = isa
        self.pack = pack
        self.lock = lock
        self.checkTensors = checkTensors
        self.memoryLimit = memoryLimit
        self.metadata = metadata
    }

    func withHandle<R>(_ body: (OpaquePointer) throws -> R) throws -> R {
        let options = try make(ember_model_options_new)
        defer { ember_model_options_free(options) }
        try check { ember_model_options_set_use_mmap(options, useMmap, $0) }
        try isa.withChars { isa, count in try check { ember_model_options_set_isa(options, isa, count, $0) } }
        try check { ember_model_options_set_pack(options, pack.rawValue, $0) }
        try check { ember_model_options_set_lock(options, lock, $0) }
        try check { ember_model_options_set_check_tensors(options, checkTensors, $0) }
        try check { ember_model_options_set_memory_limit(options, memoryLimit, $0) }
        for (key, value) in metadata {
            try key.withChars { name, count in try set(options, key, name, count, value) }
        }
        return try body(options)
    }

    private func set(
        _ options: OpaquePointer, _ key: String, _ name: UnsafePointer<CChar>?, _ count: Int, _ value: MetadataValue
    ) throws {
        switch value {
        case .string(let text):
            try text.withChars { text, length in
                try check { ember_model_options_set_meta_string(options, name, count, text, length, $0) }
            }
        case .bool(let value): try check { ember_model_options_set_meta_bool(options, name, count, value, $0) }
        case .int(let value): try check { ember_model_options_set_meta_i64(options, name, count, value, $0) }
        case .double(let value): try check { ember_model_options_set_meta_f64(options, name, count, value, $0) }
        case .uint(let value):
            guard let value = Int64(exactly: value) else {
                throw EmberError(.invalidArgument, "\(key) is set to \(value), which does not fit 64 signed bits")
            }
            try check { ember_model_options_set_meta_i64(options, name, count, value, $0) }
        case .array: throw EmberError(.invalidArgument, "\(key) is an array, which options cannot set")
        }
    }
}

/// A loading: its options, and whom it calls meanwhile.
struct Loading {
    private let options: ModelOptions
    private let cancelToken: CancelToken?
    private let progress: ProgressBox?
    let allocator: AllocatorBox?

    init(
        _ options: ModelOptions, _ cancelToken: CancelToken?, _ allocator: (any Allocator)?, _ progress: Model.Progress?
    ) {
        self.options = options
        self.cancelToken = cancelToken
        self.allocator = allocator.map(AllocatorBox.init)
        self.progress = progress.map(ProgressBox.init)
    }

    func run(_ load: (OpaquePointer) throws -> OpaquePointer) throws -> OpaquePointer {
        try withExtendedLifetime((cancelToken, allocator, progress)) {
            do {
                return try options.withHandle { options in
                    try check { ember_model_options_set_cancel_token(options, cancelToken?.handle, $0) }
                    try allocator?.give(to: options)
                    try progress?.give(to: options)
                    return try load(options)
                }
            } catch {
                throw progress?.error ?? error
            }
        }
    }
}

/// Carries a progress closure through C, and what it throws back. Only the loading thread touches it.
private final class ProgressBox {
    private let body: Model.Progress
    private(set) var error: (any Error)?

    init(_ body: @escaping Model.Progress) { self.body = body }

    func give(to options: OpaquePointer) throws {
        try check { error in
            ember_model_options_set_progress(
                options,
                { done, box in
                    guard let box else { return 0 }
                    return Unmanaged<ProgressBox>.fromOpaque(box).takeUnretainedValue().tell(done)
                }, Unmanaged.passUnretained(self).toOpaque(), error)
        }
    }

    private func tell(_ done: Float) -> Int32 {
        do {
            try body(done)
            return 0
        } catch {
            self.error = error
            return 1
        }
    }
}

/// Carries the closure that takes lent bytes back.
final class ReleaseBox: Sendable {
    let release: @Sendable () -> Void
    init(release: @escaping @Sendable () -> Void) { self.release = release }
}

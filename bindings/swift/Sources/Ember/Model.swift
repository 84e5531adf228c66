import CEmber
import Dispatch

/// A loaded model: immutable, for any number of threads and tasks at once.
///
/// Contexts over it keep it in memory.
public final class Model: Sendable {
    nonisolated(unsafe) let handle: OpaquePointer

    /// The model's dimensions.
    public let info: ModelInfo

    /// The instruction-set level that the model computes with, for example "avx512".
    public let isa: String

    /// Loads a GGUF file (one of several brings the others) or a Hugging Face folder. `cancelToken` ends the loading.
    public convenience init(
        _ path: String, options: ModelOptions = ModelOptions(), cancelToken: CancelToken? = nil
    ) throws {
        let handle = try options.withHandle(cancelToken) { options in
            try path.withChars { path, count in try make { ember_model_load(path, count, options, $0, $1) } }
        }
        try self.init(taking: handle)
    }

    /// Loads a GGUF file that lies in memory. The library keeps a copy of it.
    public convenience init(bytes: some Sequence<UInt8>) throws {
        func load(_ bytes: UnsafeBufferPointer<UInt8>) throws -> OpaquePointer {
            try make { ember_model_load_buffer(bytes.baseAddress, bytes.count, $0, $1) }
        }
        let handle = try bytes.withContiguousStorageIfAvailable(load) ?? Array(bytes).withUnsafeBufferPointer(load)
        try self.init(taking: handle)
    }

    /// As ``init(_:options:cancelToken:)``, on a thread of its own. Cancelling the task ends the loading, which then throws
    /// `CancellationError`.
    public static func load(_ path: String, options: ModelOptions = ModelOptions()) async throws -> Model {
        let token = CancelToken()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                DispatchQueue.global(qos: .userInitiated).async {
                    let model = Result { try Model(path, options: options, cancelToken: token) }
                    continuation.resume(with: model.mapError { EmberError.isCancelled($0) ? CancellationError() : $0 })
                }
            }
        } onCancel: {
            token.cancel()
        }
    }

    private init(taking handle: OpaquePointer) throws {
        do {
            var info = ember_model_info()
            info.struct_size = MemoryLayout.size(ofValue: info)
            self.info = ModelInfo(try read(info) { ember_model_info_get(handle, $0, $1) })
        } catch {
            ember_model_release(handle)
            throw error
        }
        isa = String(cString: ember_model_isa(handle))
        self.handle = handle
    }

    deinit { ember_model_release(handle) }
}

/// The dimensions of a model.
public struct ModelInfo: Hashable, Sendable {
    /// Number of weights.
    public let parameters: UInt64
    /// Bytes of the model's files.
    public let fileSize: UInt64
    /// Logits per position; tokens are below it.
    public let vocabularySize: Int
    /// Positions the model was trained on.
    public let trainedContext: Int
    /// Width of the residual stream, and length of embeddings.
    public let embeddingLength: Int
    /// Layers.
    public let layers: Int
    /// Query heads.
    public let heads: Int
    /// Key/value heads.
    public let keyValueHeads: Int
    /// Length of a head's vector.
    public let headLength: Int
    /// Width of the feed-forward block.
    public let feedForwardLength: Int
    /// Beginning of a sequence.
    public let bos: Token?
    /// End of a sequence.
    public let eos: Token?
    /// Whether the file has a tokenizer.
    public let hasTokenizer: Bool
    /// Whether a sequence begins with ``bos``.
    public let addsBOS: Bool
    /// True: gives logits; false: an encoder, which gives embeddings only.
    public let isCausal: Bool
    /// How embeddings are pooled, as the file says; `auto` when it says nothing.
    public let pooling: Pooling

    init(_ info: ember_model_info) {
        parameters = info.n_params
        fileSize = info.file_size
        vocabularySize = Int(info.n_vocab)
        trainedContext = Int(info.n_ctx_train)
        embeddingLength = Int(info.n_embd)
        layers = Int(info.n_layer)
        heads = Int(info.n_head)
        keyValueHeads = Int(info.n_head_kv)
        headLength = Int(info.head_dim)
        feedForwardLength = Int(info.n_ff)
        bos = info.bos_token == EMBER_TOKEN_NONE ? nil : info.bos_token
        eos = info.eos_token == EMBER_TOKEN_NONE ? nil : info.eos_token
        hasTokenizer = info.has_tokenizer != 0
        addsBOS = info.add_bos != 0
        isCausal = info.causal != 0
        pooling = Pooling(rawValue: info.pooling) ?? .auto
    }
}

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
    /// lives: the operating system would end the process.
    public var useMmap = true
    /// The highest instruction-set level to use, for example "scalar" or "avx2"; empty: no limit. ``EmberLibrary/buildInfo``
    /// names those of the machine.
    public var isa = ""
    /// Which matrices are packed.
    public var pack = Pack.auto

    /// The defaults, or what differs from them.
    public init(useMmap: Bool = true, isa: String = "", pack: Pack = .auto) {
        self.useMmap = useMmap
        self.isa = isa
        self.pack = pack
    }

    func withHandle<R>(_ cancelToken: CancelToken?, _ body: (OpaquePointer) throws -> R) throws -> R {
        let options = try make(ember_model_options_new)
        defer { ember_model_options_free(options) }
        try check { ember_model_options_set_use_mmap(options, useMmap, $0) }
        try isa.withChars { isa, count in try check { ember_model_options_set_isa(options, isa, count, $0) } }
        try check { ember_model_options_set_pack(options, pack.rawValue, $0) }
        try withExtendedLifetime(cancelToken) {
            try check { ember_model_options_set_cancel_token(options, cancelToken?.handle, $0) }
        }
        return try body(options)
    }
}

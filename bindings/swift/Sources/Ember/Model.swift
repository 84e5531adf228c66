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

    /// What must be there as long as the model is: contexts keep the model, and generations the context.
    private let allocator: AllocatorBox?

    /// Called with how far a loading is, from 0 to 1. An error that it throws ends the loading, which rethrows it.
    public typealias Progress = (Float) throws -> Void

    /// Loads a GGUF file (one of several brings the others) or a Hugging Face folder. `cancelToken` ends the loading, and
    /// `allocator` gives the large buffers of the model and of its contexts.
    public convenience init(
        _ path: String, options: ModelOptions = ModelOptions(), cancelToken: CancelToken? = nil,
        allocator: (any Allocator)? = nil, progress: Progress? = nil
    ) throws {
        try self.init(Loading(options, cancelToken, allocator, progress)) { options in
            try path.withChars { path, count in try make { ember_model_load(path, count, options, $0, $1) } }
        }
    }

    /// Loads a GGUF file that is part of an open file: `length` bytes from `offset` on, nil for all that there are. The
    /// descriptor stays the caller's, who may close it afterwards; its position is neither used nor moved.
    public convenience init(
        fileDescriptor: Int32, offset: UInt64 = 0, length: UInt64? = nil, options: ModelOptions = ModelOptions(),
        cancelToken: CancelToken? = nil, allocator: (any Allocator)? = nil, progress: Progress? = nil
    ) throws {
        if length == 0 { throw EmberError(.invalidArgument, "<fd \(fileDescriptor)>: a part of no bytes is no model") }
        try self.init(Loading(options, cancelToken, allocator, progress)) { options in
            try make { ember_model_load_fd(fileDescriptor, offset, length ?? 0, options, $0, $1) }
        }
    }

    /// Loads a GGUF file that lies in memory. The library keeps a copy of it.
    public convenience init(
        bytes: some Sequence<UInt8>, options: ModelOptions = ModelOptions(), cancelToken: CancelToken? = nil,
        allocator: (any Allocator)? = nil, progress: Progress? = nil
    ) throws {
        try self.init(Loading(options, cancelToken, allocator, progress)) { options in
            func load(_ bytes: UnsafeBufferPointer<UInt8>) throws -> OpaquePointer {
                try make { ember_model_load_buffer(bytes.baseAddress, bytes.count, options, $0, $1) }
            }
            return try bytes.withContiguousStorageIfAvailable(load) ?? Array(bytes).withUnsafeBufferPointer(load)
        }
    }

    /// Loads a GGUF file that lies in memory, without a copy. The bytes must stay as they are until `release` is
    /// called. That happens once, when the model and all that uses it are gone, on the thread that lets go last. When
    /// the loading fails, `release` is not called.
    public convenience init(
        bytesNoCopy bytes: UnsafeRawBufferPointer, options: ModelOptions = ModelOptions(),
        cancelToken: CancelToken? = nil,
        allocator: (any Allocator)? = nil, progress: Progress? = nil, release: @escaping @Sendable () -> Void
    ) throws {
        try self.init(Loading(options, cancelToken, allocator, progress)) { options in
            let data = bytes.bindMemory(to: UInt8.self)
            let lent = Unmanaged.passRetained(ReleaseBox(release: release))
            do {
                return try make { model, error in
                    ember_model_load_borrowed(
                        data.baseAddress, data.count,
                        { lent in lent.map { Unmanaged<ReleaseBox>.fromOpaque($0).takeRetainedValue().release() } },
                        lent.toOpaque(), options, model, error)
                }
            } catch {
                lent.release()
                throw error
            }
        }
    }

    /// As ``init(_:options:cancelToken:allocator:progress:)``, on a thread of its own. Cancelling the task ends the loading,
    /// which then throws `CancellationError`.
    public static func load(
        _ path: String, options: ModelOptions = ModelOptions(), allocator: (any Allocator)? = nil,
        progress: (@Sendable (Float) throws -> Void)? = nil
    ) async throws -> Model {
        let token = CancelToken()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                DispatchQueue.global(qos: .userInitiated).async {
                    let model = Result {
                        try Model(path, options: options, cancelToken: token, allocator: allocator, progress: progress)
                    }
                    continuation.resume(with: model.mapError { EmberError.isCancelled($0) ? CancellationError() : $0 })
                }
            }
        } onCancel: {
            token.cancel()
        }
    }

    private init(_ loading: Loading, _ load: (OpaquePointer) throws -> OpaquePointer) throws {
        let handle = try loading.run(load)
        do {
            info = ModelInfo(try read(sized(ember_model_info())) { ember_model_info_get(handle, $0, $1) })
        } catch {
            ember_model_release(handle)
            throw error
        }
        isa = String(cString: ember_model_isa(handle))
        allocator = loading.allocator
        self.handle = handle
    }

    deinit { ember_model_release(handle) }

    /// What the header of the model at `path` says: "architecture", "n_params", "types", "metadata", "supported" and more. No
    /// weight is read.
    public static func inspect(_ path: String) throws -> JSON {
        let bytes = try path.withChars { path, count in
            try fill(16384) { ember_model_inspect(path, count, $0, $1, $2, $3) }
        }
        return try JSON(parsing: String(decoding: bytes, as: UTF8.self))
    }
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
    /// Width of the residual stream.
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
    /// Experts of a layer, 0 where there are none.
    public let experts: Int
    /// Experts of a token.
    public let expertsUsed: Int
    /// End of a turn.
    public let eot: Token?
    /// What stands for what no other token does.
    public let unknown: Token?
    /// Padding.
    public let padding: Token?
    /// Whether the file has a chat template.
    public let hasChatTemplate: Bool
    /// Numbers of a text's vector: ``embeddingLength``, but in models with dense modules after the pooling.
    public let vectorLength: Int
    /// Prompts for texts to be embedded, by their names (``EmbedOptions/prompt``).
    public let prompts: Int

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
        bos = token(info.bos_token)
        eos = token(info.eos_token)
        hasTokenizer = info.has_tokenizer != 0
        addsBOS = info.add_bos != 0
        isCausal = info.causal != 0
        pooling = Pooling(rawValue: info.pooling) ?? .auto
        experts = Int(info.n_expert)
        expertsUsed = Int(info.n_expert_used)
        eot = token(info.eot_token)
        unknown = token(info.unk_token)
        padding = token(info.pad_token)
        hasChatTemplate = info.has_chat_template != 0
        vectorLength = Int(info.n_embd_out)
        prompts = Int(info.n_prompts)
    }
}

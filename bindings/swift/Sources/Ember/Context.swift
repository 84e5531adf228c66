import CEmber

/// Token sequences being processed over a model: KV cache, scratch memory, threads.
///
/// One thread at a time uses a context, and the compiler sees to that. A context is not `Sendable`, so it stays with
/// the task or thread that has it, or goes to another one for good. Its calls block. Where tasks share a context, or
/// must not block, use an ``AsyncContext``.
public final class Context {
    package let handle: OpaquePointer
    /// Set while somebody looks at logits, which other calls would change.
    private var lent = false

    /// The model.
    public let model: Model

    /// The options in force.
    public let info: ContextInfo

    /// The token that ends the context's calls early; see ``setCancelToken(_:)``.
    public private(set) var cancelToken: CancelToken?

    /// Makes a context over a model. `cancelToken` may end the context's calls.
    public init(_ model: Model, options: ContextOptions = ContextOptions(), cancelToken: CancelToken? = nil) throws {
        let handle = try options.withHandle { options in
            try make { ember_context_new(model.handle, options, $0, $1) }
        }
        do {
            info = ContextInfo(try read(sized(ember_context_info())) { ember_context_info_get(handle, $0, $1) })
        } catch {
            ember_context_free(handle)
            throw error
        }
        self.handle = handle
        self.model = model
        try setCancelToken(cancelToken)
    }

    deinit { ember_context_free(handle) }

    /// Runs a call that has the context for itself.
    func use<R>(_ body: (OpaquePointer) throws -> R) throws -> R {
        if lent { throw EmberError(.busy, "the context is in use: its logits are being looked at") }
        return try body(handle)
    }

    /// The token that may end the context's calls early from now on: decoding, embedding and scoring then throw
    /// ``EmberError/Status/cancelled`` and leave every sequence as it was; generations end with
    /// ``FinishReason/cancelled``. nil: none.
    public func setCancelToken(_ token: CancelToken?) throws {
        try withExtendedLifetime(token) {
            try use { context in try check { ember_context_set_cancel_token(context, token?.handle, $0) } }
        }
        cancelToken = token
    }

    /// Runs tokens through the model after a sequence; the last one gives logits. On an error the sequence is as before.
    public func decode(_ tokens: [Token], sequence: Int = 0) throws {
        let sequence = try number("the sequence", sequence)
        try decode(Batch(tokens, sequences: Array(repeating: sequence, count: tokens.count)))
    }

    /// Runs tokens of several sequences through the model. On an error all sequences are as before.
    public func decode(_ batch: Batch) throws {
        let count = batch.tokens.count
        for (name, other) in [
            ("positions", batch.positions?.count), ("sequences", batch.sequences?.count),
            ("wantLogits", batch.wantLogits?.count),
        ] {
            if let other, other != count {
                throw EmberError(.invalidArgument, "\(name) has \(other) elements, tokens \(count)")
            }
        }
        let want = batch.wantLogits?.map { $0 ? UInt8(1) : 0 }
        try use { context in
            try check { ember_context_decode(context, batch.tokens, batch.positions, batch.sequences, want, count, $0) }
        }
    }

    /// What ``decode(_:)`` runs. Every array has an element for each token.
    public struct Batch: Hashable, Sendable {
        /// What to run.
        public var tokens: [Token]
        /// Where each goes, to be checked; nil: not checked.
        public var positions: [UInt32]?
        /// The sequence of each; nil: all in sequence 0.
        public var sequences: [UInt32]?
        /// Which give logits; nil: the last one.
        public var wantLogits: [Bool]?

        /// A batch of these tokens.
        public init(
            _ tokens: [Token], positions: [UInt32]? = nil, sequences: [UInt32]? = nil, wantLogits: [Bool]? = nil
        ) {
            self.tokens = tokens
            self.positions = positions
            self.sequences = sequences
            self.wantLogits = wantLogits
        }
    }

    /// Runs `body` with the logits of token `index` of the last decode, without a copy: they are the library's memory, valid
    /// until `body` returns. Meanwhile other calls of the context throw ``EmberError/Status/busy``. A token that asked for
    /// no logits is ``EmberError/Status/notFound``.
    public func withLogits<R>(at index: Int, _ body: (UnsafeBufferPointer<Float>) throws -> R) throws -> R {
        guard index >= 0 else { throw EmberError(.notFound, "there is no token \(index)") }
        return try use { context in
            let first = try read(nil) { ember_context_logits(context, index, $0, $1) }
            lent = true
            defer { lent = false }
            return try body(UnsafeBufferPointer(start: first, count: model.info.vocabularySize))
        }
    }

    /// A copy of the logits of token `index` of the last decode.
    public func logits(at index: Int) throws -> [Float] { try withLogits(at: index) { Array($0) } }

    /// The number of tokens in a sequence, which is the position of its next one.
    public func past(sequence: Int = 0) throws -> Int {
        let sequence = try number("the sequence", sequence)
        return try use { context in Int(try read(0) { ember_context_n_past(context, sequence, $0, $1) }) }
    }

    /// The tokens of a sequence, in order: those that decoding, generating and loading a state brought there, after a shift those
    /// that are left.
    public func tokens(sequence: Int = 0) throws -> [Token] {
        let sequence = try number("the sequence", sequence)
        return try use { context in
            let n = Int(try read(0) { ember_context_n_past(context, sequence, $0, $1) })
            return try fill(n) { ember_context_tokens(context, sequence, $0, $1, $2, $3) }
        }
    }

    /// Pages of the KV cache that no sequence has at the moment.
    public var freePages: Int {
        get throws {
            try use { context in
                Int(try read(sized(ember_context_info())) { ember_context_info_get(context, $0, $1) }.n_free_pages)
            }
        }
    }

    /// Forgets the tokens of a sequence from position `past` on; 0 empties it. The logits of the last decode are gone.
    public func rewind(to past: Int = 0, sequence: Int = 0) throws {
        let sequence = try number("the sequence", sequence)
        let past = try number("the position", past)
        try use { context in try check { ember_context_rewind(context, sequence, past, $0) } }
    }
}

@available(*, unavailable, message: "one thread at a time uses a Context; share an AsyncContext instead")
extension Context: Sendable {}

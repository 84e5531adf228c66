import CEmber

/// Which hidden states of a text make its vector.
public enum Pooling: Int32, Hashable, Sendable {
    /// What the model file says, or the mean where it says nothing.
    case auto = -1
    /// All of them: a vector for each token.
    case none = 0
    /// The mean of all tokens'.
    case mean = 1
    /// The first token's.
    case cls = 2
    /// The last token's.
    case last = 3
    /// No vector: scores, which ``Context/classify(_:options:)`` and ``Context/rerank(_:_:options:)`` give. In ``ModelInfo``
    /// alone; such a model embeds only with another pooling.
    case rank = 4
}

/// How to embed.
public struct EmbedOptions: Hashable, Sendable {
    /// Which hidden states make a text's vector.
    public var pooling = Pooling.auto
    /// Whether each vector is scaled to length 1, so that the dot product of two is their cosine; nil: for one vector per
    /// text, and not for one per token.
    public var normalize: Bool?
    /// Whether a text that is too long is cut instead of refused.
    public var truncate = false
    /// How many numbers of each vector are kept, the first ones; 0: all.
    public var dimensions = 0
    /// The name of the model's prompt that is put before each text, such as "query"; empty: the model's default. Texts
    /// that are tokens have none.
    public var prompt = ""

    /// The defaults, or what differs from them.
    public init(
        pooling: Pooling = .auto, normalize: Bool? = nil, truncate: Bool = false, dimensions: Int = 0,
        prompt: String = ""
    ) {
        self.pooling = pooling
        self.normalize = normalize
        self.truncate = truncate
        self.dimensions = dimensions
        self.prompt = prompt
    }

    /// Numbers of a model's vector with this pooling, before ``dimensions`` of them are kept.
    func wholeLength(_ info: ModelInfo) -> Int {
        (pooling == .auto ? info.pooling : pooling) == .none ? info.embeddingLength : info.vectorLength
    }

    func withHandle<R>(_ body: (OpaquePointer) throws -> R) throws -> R {
        let options = try make(ember_embed_options_new)
        defer { ember_embed_options_free(options) }
        try check { ember_embed_options_set_pooling(options, pooling.rawValue, $0) }
        if let normalize { try check { ember_embed_options_set_normalize(options, normalize, $0) } }
        try check { ember_embed_options_set_truncate(options, truncate, $0) }
        guard dimensions >= 0 else {
            throw EmberError(.invalidArgument, "dimensions is \(dimensions), which is less than 0")
        }
        try check { ember_embed_options_set_dimensions(options, dimensions, $0) }
        try prompt.withChars { name, count in try check { ember_embed_options_set_prompt(options, name, count, $0) } }
        return try body(options)
    }
}

extension Context {
    /// A vector for each text, in their order; with ``Pooling/none`` one for each token of each text. The texts run in
    /// batches, so give many at once. The context's sequences stay as they are.
    public func embed(_ texts: [String], options: EmbedOptions = EmbedOptions()) throws -> [[Float]] {
        try texts.withChars { starts, lengths in
            try embed(texts.count, options) { context, options, vectors, capacity, needed, error in
                ember_embed(context, starts, lengths, lengths.count, options, vectors, capacity, needed, error)
            }
        }
    }

    /// As ``embed(_:options:)`` for texts that are tokens already, to which nothing is added.
    public func embed(tokens texts: [[Token]], options: EmbedOptions = EmbedOptions()) throws -> [[Float]] {
        let tokens = texts.flatMap { $0 }
        let lengths = texts.map(\.count)
        return try embed(texts.count, options) { context, options, vectors, capacity, needed, error in
            ember_embed_tokens(
                context, tokens, tokens.count, lengths, lengths.count, options, vectors, capacity, needed, error)
        }
    }

    private typealias Call = (
        OpaquePointer, OpaquePointer, UnsafeMutablePointer<Float>?, Int, UnsafeMutablePointer<Int>, ErrorOut
    ) -> Int32

    private func embed(_ count: Int, _ options: EmbedOptions, _ call: Call) throws -> [[Float]] {
        let whole = options.wholeLength(model.info)
        let width = options.dimensions > 0 ? options.dimensions : whole
        let numbers: [Float] = try options.withHandle { options in
            try use { context in try fill(count * whole) { call(context, options, $0, $1, $2, $3) } }
        }
        return stride(from: 0, to: numbers.count, by: width).map { Array(numbers[$0..<$0 + width]) }
    }
}

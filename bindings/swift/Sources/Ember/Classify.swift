import CEmber

/// How texts are scored.
public struct ClassifyOptions: Hashable, Sendable {
    /// What is done to the outputs of a head.
    public enum Activation: Int32, Hashable, Sendable {
        /// What the model's source says, or sigmoid for one label and softmax for more.
        case auto = -1
        /// Nothing: the scores are any numbers.
        case none = 0
        /// Each score is a probability of its own.
        case sigmoid = 1
        /// The scores of a text are probabilities that add up to 1.
        case softmax = 2
    }

    /// What is done to the head's outputs.
    public var activation = Activation.auto
    /// Whether of a text that is too long what fits is taken, instead of refusing it.
    public var truncate = false
    /// The prompt of rerankers that are decoders, with the places `{query}` and `{document}`; nil: the model's.
    public var template: String?
    /// Whether the score of a model without a head is the probability of "yes" against "no".
    public var yesNo = false

    /// The defaults, or what differs from them.
    public init(
        activation: Activation = .auto, truncate: Bool = false, template: String? = nil, yesNo: Bool = false
    ) {
        self.activation = activation
        self.truncate = truncate
        self.template = template
        self.yesNo = yesNo
    }

    func withHandle<R>(_ body: (OpaquePointer) throws -> R) throws -> R {
        let options = try make(ember_classify_options_new)
        defer { ember_classify_options_free(options) }
        try check { ember_classify_options_set_activation(options, activation.rawValue, $0) }
        try check { ember_classify_options_set_truncate(options, truncate, $0) }
        try template?.withChars { text, count in
            try check { ember_classify_options_set_template(options, text, count, $0) }
        }
        try check { ember_classify_options_set_yes_no(options, yesNo, $0) }
        return try body(options)
    }
}

extension Context {
    /// The scores of each text, one for each of ``Model/labels``. Texts run together: give many at once.
    public func classify(_ texts: [String], options: ClassifyOptions = ClassifyOptions()) throws -> [[Float]] {
        let all: [Float] = try options.withHandle { options in
            try texts.withChars { starts, lengths in
                try use { context in
                    try fill(texts.count) {
                        ember_classify(context, starts, lengths, lengths.count, options, $0, $1, $2, $3)
                    }
                }
            }
        }
        if texts.isEmpty { return [] }
        let width = all.count / texts.count
        return texts.indices.map { Array(all[$0 * width..<($0 + 1) * width]) }
    }

    /// How well each document answers the query: a score for each, the higher the better. Give many at once.
    public func rerank(
        _ query: String, _ documents: [String], options: ClassifyOptions = ClassifyOptions()
    ) throws -> [Float] {
        try options.withHandle { options in
            try query.withChars { query, count in
                try documents.withChars { starts, lengths in
                    try use { context in
                        try fill(documents.count) {
                            ember_rerank(
                                context, query, count, starts, lengths, lengths.count, options, $0, $1, $2, $3)
                        }
                    }
                }
            }
        }
    }
}

extension Model {
    /// What ``Context/classify(_:options:)`` scores, in the order of the scores.
    public var labels: [String] {
        get throws {
            let count = try read(0) { ember_model_label_count(handle, $0, $1) }
            return try (0..<count).map { index in
                String(decoding: try fill(64) { ember_model_label(handle, index, $0, $1, $2, $3) }, as: UTF8.self)
            }
        }
    }
}

import CEmber

/// A tokenizer: a model's (``Model/tokenizer``), or one that was loaded alone. Any number of threads may use it at once.
public final class Tokenizer: Sendable {
    nonisolated(unsafe) let handle: OpaquePointer

    /// What the tokenizer knows of its tokens.
    public let info: TokenizerInfo

    /// Loads a tokenizer without a model: from a GGUF file, of which no tensor is looked at, from a tokenizer.json, or from the
    /// folder of one.
    public convenience init(_ path: String) throws {
        try self.init(
            taking: path.withChars { path, count in try make { ember_tokenizer_load(path, count, $0, $1) } })
    }

    /// Loads a tokenizer from a GGUF file, or a tokenizer.json, that lies in memory. Nothing of it is kept.
    public convenience init(bytes: [UInt8]) throws {
        try self.init(taking: make { ember_tokenizer_load_buffer(bytes, bytes.count, $0, $1) })
    }

    fileprivate init(taking handle: OpaquePointer) throws {
        do {
            info = TokenizerInfo(
                try read(sized(ember_tokenizer_info())) { ember_tokenizer_info_get(handle, $0, $1) })
        } catch {
            ember_tokenizer_release(handle)
            throw error
        }
        self.handle = handle
    }

    deinit { ember_tokenizer_release(handle) }

    /// As ``Model/tokenize(_:addSpecial:parseSpecial:)``.
    public func tokenize(_ text: String, addSpecial: Bool = true, parseSpecial: Bool = false) throws -> [Token] {
        try text.withChars { text, count in
            try fill(count / 3 + 8) {
                ember_tokenizer_tokenize(handle, text, count, addSpecial, parseSpecial, $0, $1, $2, $3)
            }
        }
    }

    /// As ``tokenize(_:addSpecial:parseSpecial:)`` for bytes that need not be UTF-8.
    public func tokenize(bytes: [UInt8], addSpecial: Bool = true, parseSpecial: Bool = false) throws -> [Token] {
        try fill(bytes.count / 3 + 8) {
            ember_tokenizer_tokenize_bytes(handle, bytes, bytes.count, addSpecial, parseSpecial, $0, $1, $2, $3)
        }
    }

    /// How many tokens ``tokenize(_:addSpecial:parseSpecial:)`` gives.
    public func count(_ text: String, addSpecial: Bool = true, parseSpecial: Bool = false) throws -> Int {
        try text.withChars { text, count in
            try read(0) { ember_tokenizer_count(handle, text, count, addSpecial, parseSpecial, $0, $1) }
        }
    }

    /// The text of tokens; what is no UTF-8 in it is U+FFFD. `renderSpecial` writes control tokens as their text.
    public func detokenize(_ tokens: [Token], renderSpecial: Bool = false) throws -> String {
        String(decoding: try detokenizeBytes(tokens, renderSpecial: renderSpecial), as: UTF8.self)
    }

    /// The exact bytes of tokens, joined.
    public func detokenizeBytes(_ tokens: [Token], renderSpecial: Bool = false) throws -> [UInt8] {
        try fill(8 * tokens.count) {
            ember_tokenizer_detokenize(handle, tokens, tokens.count, renderSpecial, $0, $1, $2, $3)
        }
    }

    /// The exact bytes of one token.
    public func bytes(of token: Token) throws -> [UInt8] {
        try fill(32) { ember_tokenizer_token_bytes(handle, token, $0, $1, $2, $3) }
    }

    /// Whether a token ends a generation (end of sequence, of turn, of message).
    public func isEndOfGeneration(_ token: Token) throws -> Bool {
        try read(false) { ember_tokenizer_token_is_eog(handle, token, $0, $1) }
    }

    /// Whether a token is a control token, which stands for no text.
    public func isControl(_ token: Token) throws -> Bool {
        try read(false) { ember_tokenizer_token_is_control(handle, token, $0, $1) }
    }

    /// The tokens of a prompt that asks for what stands between `prefix` and `suffix`, for
    /// ``Context/generate(tokens:options:sampler:cancelToken:)``. ``EmberError/Status/unsupported`` names the token that the
    /// tokenizer lacks.
    public func fimPrompt(prefix: String, suffix: String, options: FIMOptions = FIMOptions()) throws -> [Token] {
        try options.withHandle { options in
            try prefix.withChars { prefix, before in
                try suffix.withChars { suffix, after in
                    try fill((before + after) / 3 + 64) {
                        ember_tokenizer_fim_prompt(
                            handle, prefix, before, suffix, after, options, $0, $1, $2, $3)
                    }
                }
            }
        }
    }
}

extension Model {
    /// The model's own tokenizer, which may outlive it.
    public var tokenizer: Tokenizer {
        get throws { try Tokenizer(taking: make { ember_model_tokenizer(handle, $0, $1) }) }
    }
}

/// What a tokenizer knows of its tokens; nil: there is no such token.
public struct TokenizerInfo: Hashable, Sendable {
    /// Tokens are below it.
    public let vocabularySize: Int
    /// Beginning of a sequence.
    public let bos: Token?
    /// End of a sequence.
    public let eos: Token?
    /// End of a turn.
    public let eot: Token?
    /// What stands for what no other token does.
    public let unknown: Token?
    /// Padding.
    public let padding: Token?
    /// Whether a text gets a token put before it where that is asked for.
    public let addsBOS: Bool
    /// Whether a text gets a token put after it where that is asked for.
    public let addsEOS: Bool
    /// Whether there is a chat template.
    public let hasChatTemplate: Bool
    /// Fill-in-the-middle: before the text in front of a gap.
    public let fimPrefix: Token?
    /// Before the text after a gap.
    public let fimSuffix: Token?
    /// Before what fills a gap.
    public let fimMiddle: Token?
    /// Before the name of a repository.
    public let fimRepository: Token?
    /// Before the name of a file.
    public let fimFile: Token?

    init(_ info: ember_tokenizer_info) {
        vocabularySize = Int(info.n_vocab)
        bos = token(info.bos_token)
        eos = token(info.eos_token)
        eot = token(info.eot_token)
        unknown = token(info.unk_token)
        padding = token(info.pad_token)
        addsBOS = info.add_bos != 0
        addsEOS = info.add_eos != 0
        hasChatTemplate = info.has_chat_template != 0
        fimPrefix = token(info.fim_prefix_token)
        fimSuffix = token(info.fim_suffix_token)
        fimMiddle = token(info.fim_middle_token)
        fimRepository = token(info.fim_repository_token)
        fimFile = token(info.fim_file_token)
    }
}

/// What a prompt to fill a gap has beside the text around it.
public struct FIMOptions: Hashable, Sendable {
    /// In which order the parts stand.
    public enum Order: Int32, Hashable, Sendable {
        /// The model's: prefix, suffix, middle as a rule.
        case auto = 0
        /// Prefix, suffix, middle.
        case prefixFirst = 1
        /// Suffix, prefix, middle.
        case suffixFirst = 2
        /// The tokens of prefix and suffix, the suffix, the token of the middle, the prefix.
        case suffixFirstJoined = 3
    }

    /// The name and the text of a file.
    public struct File: Hashable, Sendable {
        /// Its name.
        public var name: String
        /// Its text.
        public var text: String

        /// A file.
        public init(_ name: String, _ text: String) {
            self.name = name
            self.text = text
        }
    }

    /// In which order the parts stand.
    public var order = Order.auto
    /// The name of the repository, which stands first.
    public var repository = ""
    /// The name of the file that has the gap.
    public var file = ""
    /// Other files, to stand before the one with the gap.
    public var files: [File] = []

    /// The defaults, or what differs from them.
    public init(order: Order = .auto, repository: String = "", file: String = "", files: [File] = []) {
        self.order = order
        self.repository = repository
        self.file = file
        self.files = files
    }

    func withHandle<R>(_ body: (OpaquePointer) throws -> R) throws -> R {
        let options = try make(ember_fim_options_new)
        defer { ember_fim_options_free(options) }
        try check { ember_fim_options_set_order(options, order.rawValue, $0) }
        try repository.withChars { name, count in
            try check { ember_fim_options_set_repository(options, name, count, $0) }
        }
        try file.withChars { name, count in try check { ember_fim_options_set_file(options, name, count, $0) } }
        for file in files {
            try file.name.withChars { name, count in
                try file.text.withChars { text, length in
                    try check { ember_fim_options_add_file(options, name, count, text, length, $0) }
                }
            }
        }
        return try body(options)
    }
}

import CEmber

/// What a text has to follow, compiled for the tokens of a model: for ``GenerateOptions/constraint`` and
/// ``Sampler/Stage/constraint(_:)``. It is made once and used by many generations of the model, on any number of
/// threads. Ember refuses what it cannot enforce: an ``EmberError`` names it.
public final class Constraint: Sendable {
    nonisolated(unsafe) let handle: OpaquePointer

    /// What describes the text.
    public enum Form: Hashable, Sendable {
        /// JSON that a JSON Schema describes.
        case jsonSchema(JSON)
        /// The same for the text of a schema.
        case jsonSchemaText(String)
        /// A JSON object, whatever it holds.
        case jsonObject
        /// What a regular expression matches as a whole, in the syntax of Rust's crate regex.
        case regex(String)
        /// What a grammar in the syntax of Lark derives from its rule "start".
        case lark(String)
        /// One of these texts.
        case choices([String])
    }

    /// Makes a constraint. The first of a model takes about a second for a large vocabulary.
    public init(_ model: Model, _ form: Form, options: ConstraintOptions = ConstraintOptions()) throws {
        let model = model.handle
        handle = try options.withHandle { options in
            switch form {
            case .jsonSchema(let schema):
                try schema.description.withChars { text, count in
                    try make { ember_constraint_new_json_schema(model, text, count, options, $0, $1) }
                }
            case .jsonSchemaText(let schema):
                try schema.withChars { text, count in
                    try make { ember_constraint_new_json_schema(model, text, count, options, $0, $1) }
                }
            case .jsonObject:
                try make { ember_constraint_new_json_object(model, options, $0, $1) }
            case .regex(let regex):
                try regex.withChars { text, count in
                    try make { ember_constraint_new_regex(model, text, count, options, $0, $1) }
                }
            case .lark(let grammar):
                try grammar.withChars { text, count in
                    try make { ember_constraint_new_lark(model, text, count, options, $0, $1) }
                }
            case .choices(let texts):
                try texts.withChars { starts, lengths in
                    try make {
                        ember_constraint_new_choices(model, starts, lengths, lengths.count, options, $0, $1)
                    }
                }
            }
        }
    }

    private init(taking handle: OpaquePointer) { self.handle = handle }

    /// The constraint of a reply that may call the tools of the options: calls follow the schemas of their tools, and where
    /// ``ChatOptions/toolChoice`` asks for a call, the reply is one. `prompt` is what ``Model/applyChatTemplate(_:options:)``
    /// gave with the same options. nil: there is nothing to constrain. A ``Conversation`` does this by itself.
    public static func chat(_ model: Model, options: ChatOptions, prompt: String = "") throws -> Constraint? {
        try options.withHandle { options in
            try prompt.withChars { prompt, count in
                try read(nil) { ember_chat_constraint(model.handle, options, prompt, count, $0, $1) }
            }
        }.map(Constraint.init(taking:))
    }

    deinit { ember_constraint_free(handle) }

    /// How far a text is that follows a constraint.
    public enum Progress: Int32, Hashable, Sendable {
        /// There is no constraint.
        case none = 0
        /// No trigger came, so the text is free.
        case waiting = 1
        /// The text is a beginning of what it has to be, and cut off.
        case unfinished = 2
        /// The text is what it has to be.
        case complete = 3
    }

    /// A bound on work or memory.
    public enum Limit: Int32, Hashable, Sendable {
        /// Bytes of the schema, the expression, the grammar, or all choices together.
        case source = 0
        /// Symbols of the compiled grammar.
        case grammar = 1
        /// Steps of compiling.
        case compile = 2
        /// Steps in the expressions for one token.
        case mask = 3
        /// Items of the parser for one token.
        case items = 4
        /// States of the expressions in one text.
        case states = 5
    }
}

extension Constraint: Hashable {
    /// Whether the two are one and the same.
    public static func == (a: Constraint, b: Constraint) -> Bool { a === b }

    /// Feeds which object this is into a hasher.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// How to make a ``Constraint``.
public struct ConstraintOptions: Hashable, Sendable {
    /// Most characters of white space between two parts of JSON, at most 256.
    public var whitespace = 32
    /// Texts, the first of which to be complete is where the constraint begins; the text before it is free.
    public var triggers: [String] = []
    /// The same for tokens.
    public var triggerTokens: [Token] = []
    /// Whether the text is free again after the constraint's end, until the next trigger. Otherwise it ends there.
    public var repeats = false
    /// Bounds on work and memory. Where one is reached, making the constraint fails, or the generation ends with an error.
    public var limits: [Constraint.Limit: UInt64] = [:]

    /// The defaults, or what differs from them.
    public init(
        whitespace: Int = 32, triggers: [String] = [], triggerTokens: [Token] = [], repeats: Bool = false,
        limits: [Constraint.Limit: UInt64] = [:]
    ) {
        self.whitespace = whitespace
        self.triggers = triggers
        self.triggerTokens = triggerTokens
        self.repeats = repeats
        self.limits = limits
    }

    func withHandle<R>(_ body: (OpaquePointer) throws -> R) throws -> R {
        let options = try make(ember_constraint_options_new)
        defer { ember_constraint_options_free(options) }
        let whitespace = try number("the white space", whitespace)
        try check { ember_constraint_options_set_whitespace(options, whitespace, $0) }
        for trigger in triggers {
            try trigger.withChars { text, count in
                try check { ember_constraint_options_add_trigger_text(options, text, count, $0) }
            }
        }
        for token in triggerTokens { try check { ember_constraint_options_add_trigger_token(options, token, $0) } }
        try check { ember_constraint_options_set_repeat(options, repeats, $0) }
        for (limit, most) in limits {
            try check { ember_constraint_options_set_limit(options, limit.rawValue, most, $0) }
        }
        return try body(options)
    }
}

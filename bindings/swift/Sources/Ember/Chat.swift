import CEmber

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A part of a conversation.
public struct Message: Codable, Hashable, Sendable {
    /// "system", "user", "assistant" or "tool".
    public var role: String
    /// The text.
    public var content: String
    /// Who speaks, for templates that look at it.
    public var name: String?
    /// What the model thought before it answered.
    public var reasoningContent: String?
    /// The calls of tools that the model asked for.
    public var toolCalls: [JSON]?
    /// The call that this is the answer to.
    public var toolCallID: String?

    private enum CodingKeys: String, CodingKey {
        case role, content, name
        case reasoningContent = "reasoning_content"
        case toolCalls = "tool_calls"
        case toolCallID = "tool_call_id"
    }

    /// A message.
    public init(
        role: String, content: String, name: String? = nil, reasoningContent: String? = nil, toolCalls: [JSON]? = nil,
        toolCallID: String? = nil
    ) {
        self.role = role
        self.content = content
        self.name = name
        self.reasoningContent = reasoningContent
        self.toolCalls = toolCalls
        self.toolCallID = toolCallID
    }

    /// What the model is to be.
    public static func system(_ content: String) -> Message { Message(role: "system", content: content) }
    /// What the user says.
    public static func user(_ content: String) -> Message { Message(role: "user", content: content) }
    /// What the model says.
    public static func assistant(_ content: String) -> Message { Message(role: "assistant", content: content) }
    /// The result of a call that a reply had.
    public static func tool(_ content: String, for call: ReplyEvent) -> Message {
        Message(role: "tool", content: content, name: call.name, toolCallID: call.id)
    }

    /// The message as templates get it.
    var json: JSON {
        var members = [JSON.Member("role", .string(role)), JSON.Member("content", .string(content))]
        let more: [(CodingKeys, JSON?)] = [
            (.name, name.map(JSON.string)), (.reasoningContent, reasoningContent.map(JSON.string)),
            (.toolCalls, toolCalls.map(JSON.array)), (.toolCallID, toolCallID.map(JSON.string)),
        ]
        for case (let key, let value?) in more { members.append(JSON.Member(key.rawValue, value)) }
        return .object(members)
    }
}

/// How a conversation becomes text, and how its replies are read.
public struct ChatOptions: Hashable, Sendable {
    /// The tools that the model may call, as a rule objects with "type" and "function".
    public var tools: [JSON] = []
    /// Whether the model calls tools: "auto", "none", "required", or a tool's name. For ``Conversation``, ``ChatParser`` and
    /// ``Constraint/chat(_:options:prompt:)``.
    public var toolChoice = "auto"
    /// Whether a reply may have several calls.
    public var parallelCalls = true
    /// Whether a ``Conversation`` constrains calls to the schemas of the tools, so that they always parse.
    public var strictTools = true
    /// Whether the model thinks before it answers; nil: as the template has it.
    public var thinking: Bool?
    /// More variables for the template, for example `["enable_thinking": false]`; which matter is the template's to say.
    public var variables: [String: JSON] = [:]
    /// A template to use instead of the model's, in the Jinja language.
    public var template: String?
    /// Which of the model's templates to use; nil: "tool_use" when there are tools and the model has one of that name, and
    /// else "default".
    public var templateName: String?
    /// Whether the text ends with what comes before an answer of the assistant.
    public var addGenerationPrompt = true
    /// What time it is for templates that write the date; nil: the system's universal time.
    public var now: Date?
    /// The time zone that ``now`` is written in.
    public var timeZone = TimeZone.gmt

    /// The defaults, or what differs from them.
    public init(
        tools: [JSON] = [], toolChoice: String = "auto", parallelCalls: Bool = true, strictTools: Bool = true,
        thinking: Bool? = nil, variables: [String: JSON] = [:], template: String? = nil, templateName: String? = nil,
        addGenerationPrompt: Bool = true, now: Date? = nil, timeZone: TimeZone = .gmt
    ) {
        self.tools = tools
        self.toolChoice = toolChoice
        self.parallelCalls = parallelCalls
        self.strictTools = strictTools
        self.thinking = thinking
        self.variables = variables
        self.template = template
        self.templateName = templateName
        self.addGenerationPrompt = addGenerationPrompt
        self.now = now
        self.timeZone = timeZone
    }

    func withHandle<R>(_ body: (OpaquePointer) throws -> R) throws -> R {
        let options = try make(ember_chat_options_new)
        defer { ember_chat_options_free(options) }
        if !tools.isEmpty {
            try JSON.array(tools).description.withChars { text, count in
                try check { ember_chat_options_set_tools(options, text, count, $0) }
            }
        }
        try toolChoice.withChars { choice, count in
            try check { ember_chat_options_set_tool_choice(options, choice, count, $0) }
        }
        try check { ember_chat_options_set_parallel_calls(options, parallelCalls, $0) }
        try check { ember_chat_options_set_strict_tools(options, strictTools, $0) }
        if let thinking {
            let mode = thinking ? number(of: EMBER_THINKING_ON) : number(of: EMBER_THINKING_OFF)
            try check { ember_chat_options_set_thinking(options, mode, $0) }
        }
        if !variables.isEmpty {
            let members = variables.sorted { $0.key < $1.key }.map { JSON.Member($0.key, $0.value) }
            try JSON.object(members).description.withChars { text, count in
                try check { ember_chat_options_set_variables(options, text, count, $0) }
            }
        }
        try template?.withChars { text, count in
            try check { ember_chat_options_set_template(options, text, count, $0) }
        }
        try templateName?.withChars { name, count in
            try check { ember_chat_options_set_template_name(options, name, count, $0) }
        }
        try check { ember_chat_options_set_add_generation_prompt(options, addGenerationPrompt, $0) }
        if let now {
            let seconds = now.timeIntervalSince1970.rounded(.down) + Double(timeZone.secondsFromGMT(for: now))
            try check { ember_chat_options_set_now(options, Int64(seconds), $0) }
        }
        return try body(options)
    }
}

extension Model {
    /// The text of a conversation as the model was trained on it. It spells control tokens, and BOS where the template says
    /// so: tokenize it with `parseSpecial` alone. Texts of users that spell control tokens become these tokens; a host that
    /// minds must look for them first. A model without a template throws ``EmberError/Status/unsupported``.
    public func applyChatTemplate(_ messages: [Message], options: ChatOptions = ChatOptions()) throws -> String {
        try applyChatTemplate(json: .array(messages.map(\.json)), options: options)
    }

    /// As ``applyChatTemplate(_:options:)`` for messages that are JSON already, perhaps with what ``Message`` lacks.
    public func applyChatTemplate(json messages: JSON, options: ChatOptions = ChatOptions()) throws -> String {
        let bytes = try options.withHandle { options in
            try messages.description.withChars { text, count in
                try fill(2 * count + 256) {
                    ember_chat_apply_template(handle, text, count, options, $0, $1, $2, $3)
                }
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The text of the model's chat template of this name.
    public func chatTemplate(_ name: String = "default") throws -> String {
        let bytes = try name.withChars { name, count in
            try fill(4096) { ember_model_chat_template(handle, name, count, $0, $1, $2, $3) }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The tokens of what ``applyChatTemplate(_:options:)`` writes. No text of a message or tool can spell a control token.
    public func tokenizeChat(_ messages: [Message], options: ChatOptions = ChatOptions()) throws -> [Token] {
        try options.withHandle { options in
            try JSON.array(messages.map(\.json)).description.withChars { text, count in
                try fill(count / 2 + 256) { ember_chat_tokenize(handle, text, count, options, $0, $1, $2, $3) }
            }
        }
    }
}

extension Context {
    /// The answer to a conversation, which the model's chat template writes. Give all of the conversation each time; what the
    /// sequence holds of it is not run again, whatever `reusePrefix` says. No text of a message can spell a control token.
    public func chat(
        _ messages: [Message], chatOptions: ChatOptions = ChatOptions(), options: GenerateOptions = GenerateOptions(),
        sampler: Sampler? = nil, cancelToken: CancelToken? = nil
    ) throws -> Generation {
        var options = options
        options.reusePrefix = true
        return try start(.tokens(model.tokenizeChat(messages, options: chatOptions)), options, sampler, cancelToken)
    }
}

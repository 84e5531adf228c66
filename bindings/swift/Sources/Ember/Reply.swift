import CEmber

/// A piece of a reply. It is a copy, valid for good.
public struct ReplyEvent: Hashable, Sendable {
    /// What an event is.
    public enum Kind: Int32, Hashable, Sendable {
        /// More of the answer: ``ReplyEvent/text``.
        case text = 1
        /// More of what the model thinks before it answers.
        case thinking = 2
        /// A call of a tool begins: index, id and name.
        case callBegin = 3
        /// More of the call's arguments: JSON.
        case callArguments = 4
        /// The call is complete: index, id, name, and as text all of its arguments, a JSON object.
        case callDone = 5
        /// What began as a call is none: index, reason, and the text as the model wrote it, which belongs to the
        /// answer. Earlier events of a call with this index are void.
        case callBroken = 6
        /// The reply is over; only from conversations.
        case end = 7
    }

    /// What the event is.
    public let kind: Kind
    /// Text or JSON, as the kind says.
    public let text: String
    /// The name of the tool that is called.
    public let name: String
    /// The id of the call.
    public let id: String
    /// Why a call is broken.
    public let reason: String
    /// The place of the call among those of the reply.
    public let index: Int
    /// Why the reply ended, of the `end` event.
    public let finishReason: FinishReason?

    /// A copy of an event of the library's; nil where there is none.
    init?(_ event: ember_chat_event) {
        guard let kind = Kind(rawValue: event.kind) else { return nil }
        self.kind = kind
        text = Ember.text(event.text, event.text_len)
        name = Ember.text(event.name, event.name_len)
        id = Ember.text(event.id, event.id_len)
        reason = Ember.text(event.reason, event.reason_len)
        index = Int(event.index)
        finishReason = kind == .end ? FinishReason(ifAny: event.finish_reason) : nil
    }
}

/// How replies to a template's prompts are written. An empty text: there is none.
public struct ReplyFormat: Hashable, Sendable {
    /// The form of calls: "hermes", "llama3", "mistral", "harmony" …
    public let name: String
    /// The mark before a thought.
    public let thinkingOpen: String
    /// The mark after a thought.
    public let thinkingClose: String
    /// The variable of the template that switches thinking.
    public let thinkingVariable: String
    /// Its value with which the model thinks, in JSON.
    public let thinkingOn: String
    /// The value with which it does not.
    public let thinkingOff: String
}

/// Reads one reply of a model while it streams: the answer, thoughts, and calls of tools. Marks are often control tokens: have
/// the generation write them (``GenerateOptions/renderSpecial``).
public final class ChatParser {
    private let handle: OpaquePointer

    /// Prepares to read the reply to `prompt`, which ``Model/applyChatTemplate(_:options:)`` gave, best with the same options.
    public init(_ model: Model, options: ChatOptions = ChatOptions(), prompt: String = "") throws {
        handle = try options.withHandle { options in
            try prompt.withChars { prompt, count in
                try make { ember_chat_parser_new(model.handle, options, prompt, count, $0, $1) }
            }
        }
    }

    deinit { ember_chat_parser_free(handle) }

    /// More of the reply, and the events that come of it.
    public func push(_ piece: String) throws -> [ReplyEvent] {
        try piece.withChars { text, count in try check { ember_chat_parser_push(handle, text, count, $0) } }
        return try events()
    }

    /// The reply is over. Text that waited for more comes now, and a call that is not complete is broken.
    public func finish(_ reason: FinishReason) throws -> [ReplyEvent] {
        try check { ember_chat_parser_finish(handle, reason.rawValue, $0) }
        return try events()
    }

    private func events() throws -> [ReplyEvent] {
        var events: [ReplyEvent] = []
        while let event = ReplyEvent(
            try read(sized(ember_chat_event())) { ember_chat_parser_next(handle, $0, $1) })
        {
            events.append(event)
        }
        return events
    }

    /// Whether the reply is inside a thought now.
    public var isThinking: Bool {
        get throws { try read(0) { ember_chat_parser_is_thinking(handle, $0, $1) } != 0 }
    }

    /// How the replies are written.
    public var format: ReplyFormat {
        get throws {
            let raw = try read(sized(ember_chat_format())) { ember_chat_parser_format(handle, $0, $1) }
            return ReplyFormat(
                name: text(raw.name, raw.name_len),
                thinkingOpen: text(raw.thinking_open, raw.thinking_open_len),
                thinkingClose: text(raw.thinking_close, raw.thinking_close_len),
                thinkingVariable: text(raw.thinking_variable, raw.thinking_variable_len),
                thinkingOn: text(raw.thinking_on, raw.thinking_on_len),
                thinkingOff: text(raw.thinking_off, raw.thinking_off_len))
        }
    }
}

@available(*, unavailable, message: "one thread at a time uses a ChatParser")
extension ChatParser: Sendable {}

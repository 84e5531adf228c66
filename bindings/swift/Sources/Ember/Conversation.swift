import CEmber

/// A conversation with a model, in one sequence of a context.
///
///     let conversation = try Conversation(context, system: "Be brief.")
///     try conversation.send("Hello!").forEach { print($0.text, terminator: "") }
///
/// A reply runs only what the sequence does not hold; use the sequence for nothing else. Text from a user can never
/// spell a control token. One thread at a time uses a conversation.
public final class Conversation {
    /// What happens where a conversation becomes longer than its sequence.
    public enum WhenFull: Int32, Hashable, Sendable {
        /// Whole turns are dropped, the oldest first; the system text and the first turn stay.
        case dropOldest = 0
        /// The same, but the first turn may go too.
        case dropOldestAndFirst = 1
        /// The reply is ``EmberError/Status/contextFull``.
        case refuse = 2
    }

    /// What a reply took.
    public struct Usage: Hashable, Sendable {
        /// Tokens of the whole conversation, as it was when the reply began.
        public let promptTokens: Int
        /// Of these, those that the sequence held already: the others were run.
        public let reusedTokens: Int
        /// Tokens generated, an end-of-generation token not counted.
        public let generatedTokens: Int
        /// Of these, those of thoughts.
        public let thinkingTokens: Int
        /// Turns that were dropped before the reply, since the context was full.
        public let droppedTurns: Int
        /// Tokens that the sequence forgot with them, without running what stands after them again.
        public let forgottenTokens: Int
        /// Time spent on the prompt.
        public let prefill: Duration
        /// Time spent on the generated tokens.
        public let decode: Duration
        /// Why the reply ended; nil while it is under way.
        public let finishReason: FinishReason?
    }

    /// Says how many turns are dropped, the oldest first, of the tokens needed, those that a sequence holds, and the turns that
    /// can be dropped; 0: the reply is ``EmberError/Status/contextFull``.
    public typealias OnFull = (_ needed: Int, _ size: Int, _ turns: Int) throws -> Int

    fileprivate let handle: OpaquePointer
    fileprivate let context: Context
    /// Its stages may be the caller's own, which it holds.
    fileprivate let sampler: Sampler?
    /// Its model's memory may be of the caller's own allocator, which that holds.
    private let draft: DraftContext?
    private var onFull: FullBox?

    /// Begins a conversation. `system` is the system text, if there is one; `options` say how replies are generated, and in
    /// which sequence. Without a sampler the likeliest token is taken.
    public convenience init(
        _ context: Context, system: String = "", chat: ChatOptions = ChatOptions(),
        options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil, cancelToken: CancelToken? = nil
    ) throws {
        try self.init(context, chat, options, sampler, cancelToken) { context, chat, options in
            try system.withChars { system, count in
                try make { ember_conversation_new(context, system, count, chat, options, $0, $1) }
            }
        }
    }

    /// Continues what ``save()`` gave, with options of its own. Where the sequence does not hold what it held, the next
    /// reply runs it again.
    public convenience init(
        _ context: Context, saved: [UInt8], chat: ChatOptions = ChatOptions(),
        options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil, cancelToken: CancelToken? = nil
    ) throws {
        try self.init(context, chat, options, sampler, cancelToken) { context, chat, options in
            try make { ember_conversation_load(context, saved, saved.count, chat, options, $0, $1) }
        }
    }

    private init(
        _ context: Context, _ chat: ChatOptions, _ options: GenerateOptions, _ sampler: Sampler?,
        _ cancelToken: CancelToken?, _ make: (OpaquePointer, OpaquePointer, OpaquePointer) throws -> OpaquePointer
    ) throws {
        handle = try chat.withHandle { chat in
            try options.withHandle(cancelToken) { options in try context.use { try make($0, chat, options) } }
        }
        self.context = context
        self.sampler = sampler
        draft = options.draft?.context
    }

    private init(_ original: Conversation, taking handle: OpaquePointer) {
        self.handle = handle
        context = original.context
        sampler = original.sampler
        draft = original.draft
    }

    deinit { ember_conversation_free(handle) }

    /// Adds a message without having it answered: the result of a tool, say.
    public func add(_ message: Message) throws { try add(json: message.json) }

    /// As ``add(_:)`` for a message that is JSON already, perhaps with what ``Message`` lacks.
    public func add(json message: JSON) throws {
        try message.description.withChars { text, count in
            try check { ember_conversation_add(handle, text, count, $0) }
        }
    }

    /// Adds a user's message, and gives the reply; an empty one has the messages answered that were added. Letting the reply go
    /// before its end gives it up: it becomes no message.
    public func send(_ message: String = "") throws -> Reply {
        do {
            try message.withChars { text, count in
                try context.use { _ in
                    try check { ember_conversation_begin(handle, text, count, sampler?.handle, $0) }
                }
            }
        } catch {
            throw onFull?.takeError() ?? error
        }
        return Reply(self)
    }

    /// Forgets the last turn: the user's last message and all after it.
    public func undo() throws { try check { ember_conversation_undo(handle, $0) } }

    /// All messages so far, a JSON array, those that were dropped included.
    public var messages: JSON {
        get throws {
            let bytes = try fill(4096) { ember_conversation_messages(handle, $0, $1, $2, $3) }
            return try JSON(parsing: String(decoding: bytes, as: UTF8.self))
        }
    }

    /// What the last reply took.
    public var usage: Usage {
        get throws {
            let raw = try read(sized(ember_conversation_usage())) { ember_conversation_usage_get(handle, $0, $1) }
            return Usage(
                promptTokens: Int(raw.n_prompt), reusedTokens: Int(raw.n_reused),
                generatedTokens: Int(raw.n_generated), thinkingTokens: Int(raw.n_thinking),
                droppedTurns: Int(raw.n_dropped_turns), forgottenTokens: Int(raw.n_forgotten),
                prefill: duration(raw.prefill_ns), decode: duration(raw.decode_ns),
                finishReason: FinishReason(ifAny: raw.finish_reason))
        }
    }

    /// The conversation as bytes: its messages, and which tokens its sequence holds. Save the sequence too
    /// (``Context/saveState(sequence:)``) where it shall not be run again.
    public func save() throws -> [UInt8] { try fill(8192) { ember_conversation_save(handle, $0, $1, $2, $3) } }

    /// The same conversation in another sequence of the context; both go on by themselves.
    public func fork(sequence: Int) throws -> Conversation {
        let sequence = try number("the sequence", sequence)
        let fork = try context.use { _ in try make { ember_conversation_fork(handle, sequence, $0, $1) } }
        return Conversation(self, taking: fork)
    }

    /// Ends a thought after so many tokens; 0: none does.
    public func setThinkingBudget(_ tokens: Int) throws {
        let tokens = try number("the number of tokens", tokens)
        try check { ember_conversation_set_thinking_budget(handle, tokens, $0) }
    }

    /// Whether replies from now on have to call a tool: "auto", "none", "required", or a tool's name. It holds until another choice
    /// is set.
    public func setToolChoice(_ choice: String) throws {
        try choice.withChars { text, count in
            try check { ember_conversation_set_tool_choice(handle, text, count, $0) }
        }
    }

    /// What happens where the conversation becomes longer than its sequence, and how many tokens must be free for a
    /// reply. 0: as many as the reply may have, and a quarter of the sequence at most.
    public func setWhenFull(_ whenFull: WhenFull, reserve: Int = 0) throws {
        let reserve = try number("the number of tokens to reserve", reserve)
        try check { ember_conversation_set_when_full(handle, whenFull.rawValue, reserve, $0) }
    }

    /// Has a function say what is dropped where the conversation becomes too long; nil: as few turns as need be. ``send(_:)``
    /// calls it, and throws what it throws. Copies of the conversation do without.
    public func setOnFull(_ body: OnFull?) throws {
        let box = body.map(FullBox.init)
        try check { error in
            guard let box else { return ember_conversation_set_on_full(handle, nil, nil, error) }
            return ember_conversation_set_on_full(
                handle,
                { needed, size, turns, box in
                    guard let box else { return 0 }
                    return Unmanaged<FullBox>.fromOpaque(box).takeUnretainedValue().run(needed, size, turns)
                }, Unmanaged.passUnretained(box).toOpaque(), error)
        }
        onFull = box
    }
}

@available(*, unavailable, message: "one thread at a time uses a Conversation")
extension Conversation: Sendable {}

/// Carries a function through C, and what it throws back.
private final class FullBox {
    private let body: Conversation.OnFull
    private var error: (any Error)?

    init(_ body: @escaping Conversation.OnFull) { self.body = body }

    func run(_ needed: UInt32, _ size: UInt32, _ turns: UInt32) -> UInt32 {
        do {
            return try number("the number of turns to drop", try body(Int(needed), Int(size), Int(turns)))
        } catch {
            self.error = error
            return 0
        }
    }

    func takeError() -> (any Error)? {
        defer { error = nil }
        return error
    }
}

/// A reply under way. ``next()`` gives its events, the last of which is the `end`. Letting it go before that gives the reply up:
/// it becomes no message.
public final class Reply {
    private let conversation: Conversation
    private var isOver = false

    fileprivate init(_ conversation: Conversation) { self.conversation = conversation }

    deinit { giveUp() }

    /// The next event, the first time by running the prompt; nil after the `end` event. After an error it may be called again.
    public func next() throws -> ReplyEvent? {
        if isOver { return nil }
        let event = try conversation.context.use { _ in
            try read(sized(ember_chat_event())) { ember_conversation_next(conversation.handle, $0, $1) }
        }
        guard let reply = ReplyEvent(event) else { throw EmberError(.internal, "a reply without an event") }
        isOver = reply.kind == .end
        if reply.finishReason == .cancelled, let error = conversation.sampler?.takeError() { throw error }
        return reply
    }

    /// Runs `body` with every event that is left.
    public func forEach(_ body: (ReplyEvent) throws -> Void) throws {
        while let event = try next() { try body(event) }
    }

    /// Takes all events that are left, and gives the text of the answer.
    public func text() throws -> String {
        var text = ""
        try forEach { if $0.kind == .text || $0.kind == .callBroken { text += $0.text } }
        return text
    }

    /// Gives the reply up: it becomes no message.
    public func giveUp() {
        if isOver { return }
        isOver = true
        _ = ember_conversation_abandon(conversation.handle, nil)
    }
}

@available(*, unavailable, message: "one thread at a time uses a Reply")
extension Reply: Sendable {}

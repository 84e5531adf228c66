/// A ``Conversation`` for tasks, over an ``AsyncContext``, whose queue does the work: no thread of Swift's pool is blocked.
///
///     let conversation = try await AsyncConversation(context, system: "Be brief.")
///     for try await event in conversation.send("Hello!") { print(event.text, terminator: "") }
///
/// One reply at a time is under way. Other work of the context comes between two of its events; give the conversation a
/// sequence of its own then.
public final class AsyncConversation: Sendable {
    private let context: AsyncContext
    private let slot: Slot

    /// Begins a conversation; see ``Conversation/init(_:system:chat:options:sampler:cancelToken:)``.
    public init(
        _ context: AsyncContext, system: String = "", chat: ChatOptions = ChatOptions(),
        options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil
    ) async throws {
        self.context = context
        slot = try await context.withContext {
            Slot(try Conversation($0, system: system, chat: chat, options: options, sampler: sampler))
        }
    }

    /// Continues what ``save()`` gave, with options of its own.
    public init(
        _ context: AsyncContext, saved: [UInt8], chat: ChatOptions = ChatOptions(),
        options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil
    ) async throws {
        self.context = context
        slot = try await context.withContext {
            Slot(try Conversation($0, saved: saved, chat: chat, options: options, sampler: sampler))
        }
    }

    /// Runs `body` with the conversation for itself, on the context's queue.
    public func withConversation<R: Sendable>(_ body: @Sendable (Conversation) throws -> R) async throws -> R {
        let slot = slot
        return try await context.withContext { _ in try body(slot.settled()) }
    }

    /// Adds a message without having it answered: the result of a tool, say.
    public func add(_ message: Message) async throws { try await withConversation { try $0.add(message) } }

    /// All messages so far, a JSON array, those that were dropped included.
    public var messages: JSON {
        get async throws { try await withConversation { try $0.messages } }
    }

    /// What the last reply took.
    public var usage: Conversation.Usage {
        get async throws { try await withConversation { try $0.usage } }
    }

    /// The conversation as bytes; see ``Conversation/save()``.
    public func save() async throws -> [UInt8] { try await withConversation { try $0.save() } }

    /// Adds a user's message, and gives the reply; an empty one has the messages answered that were added. Nothing runs before the
    /// first event. Leaving the loop gives the reply up: it becomes no message. When the task is cancelled, the last event's
    /// reason is ``FinishReason/cancelled``.
    public func send(_ message: String = "") -> Events { Events(context: context, slot: slot, message: message) }

    /// The events of a reply, the last of which is the `end`.
    public struct Events: AsyncSequence, Sendable {
        fileprivate let context: AsyncContext
        fileprivate let slot: Slot
        fileprivate let message: String

        /// Nothing runs before the first event.
        public func makeAsyncIterator() -> Iterator { Iterator(events: self) }

        /// Gives the events. Letting it go gives the reply up.
        public struct Iterator: AsyncIteratorProtocol, Sendable {
            fileprivate let events: Events
            private let reader = Reader()

            fileprivate init(events: Events) { self.events = events }

            /// The next event, the first time by running the prompt; nil after the `end` event.
            public mutating func next() async throws -> ReplyEvent? {
                let (reader, slot, message) = (reader, events.slot, events.message)
                return try await events.context.withContext { _ in try slot.next(reader, message) }
            }
        }
    }

    /// Who reads a reply: when it is gone, nobody does. Only the context's queue touches it.
    fileprivate final class Reader: @unchecked Sendable {
        var hasBegun = false
    }

    /// A place for a conversation and its reply, which only the context's queue touches.
    fileprivate final class Slot: @unchecked Sendable {
        private let conversation: Conversation
        private var reply: Reply?
        private weak var reader: Reader?

        init(_ conversation: Conversation) { self.conversation = conversation }

        /// The conversation, without a reply that nobody reads any more.
        func settled() -> Conversation {
            if reader == nil { reply = nil }
            return conversation
        }

        func next(_ reader: Reader, _ message: String) throws -> ReplyEvent? {
            if !reader.hasBegun {
                reply = try settled().send(message)
                self.reader = reader
                reader.hasBegun = true
            }
            return self.reader === reader ? try reply?.next() : nil
        }
    }
}

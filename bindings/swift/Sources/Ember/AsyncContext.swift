import Dispatch

/// A ``Context`` for tasks: any number of them may share it, and its calls wait for each other.
///
/// The work is done on a queue of its own, so that no thread of Swift's pool is blocked. Cancelling a task ends the call that
/// it waits for, within a layer of the model: what the context holds stays good. Events come as they are asked for; a task
/// that does not ask stops the generation, and keeps nobody else from the context.
public actor AsyncContext {
    private let queue = ContextQueue()
    private let context: Context

    /// The model.
    public nonisolated let model: Model

    /// The options in force.
    public nonisolated let info: ContextInfo

    /// The queue that the calls run on.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { queue.asUnownedSerialExecutor() }

    /// Makes a context over a model.
    public init(_ model: Model, options: ContextOptions = ContextOptions()) throws {
        context = try Context(model, options: options)
        self.model = model
        info = context.info
    }

    /// Runs `body` with the context for itself, on the context's queue. When the task is cancelled, decoding, embedding and
    /// scoring in `body` end with ``EmberError/Status/cancelled``, of which this makes a `CancellationError`, and generations
    /// with ``FinishReason/cancelled``.
    public nonisolated func withContext<R: Sendable>(_ body: @Sendable (Context) throws -> R) async throws -> R {
        let token = CancelToken()
        return try await withTaskCancellationHandler {
            try await run(token, body)
        } onCancel: {
            token.cancel()
        }
    }

    private func run<R>(_ token: CancelToken, _ body: (Context) throws -> R) throws -> R {
        try context.setCancelToken(token)
        defer { try? context.setCancelToken(nil) }
        do {
            return try body(context)
        } catch let error where token.isCancelled && EmberError.isCancelled(error) {
            throw CancellationError()
        }
    }

    /// Continues a sequence of the context by `prompt` and then by generated tokens. Nothing is run before the first event;
    /// each loop over the result is a generation of its own. When the task is cancelled, the last event's reason is
    /// ``FinishReason/cancelled``.
    public nonisolated func generate(
        _ prompt: String, options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil
    ) -> Events {
        Events(context: self) { context, token in
            try context.start(.text(prompt), options, sampler, token)
        }
    }

    /// As ``generate(_:options:sampler:)`` for a prompt of tokens, to which nothing is added.
    public nonisolated func generate(
        tokens: [Token], options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil
    ) -> Events {
        Events(context: self) { context, token in
            try context.start(.tokens(tokens), options, sampler, token)
        }
    }

    /// The answer to a conversation; see ``Context/chat(_:chatOptions:options:sampler:cancelToken:)``.
    public nonisolated func chat(
        _ messages: [Message], chatOptions: ChatOptions = ChatOptions(), options: GenerateOptions = GenerateOptions(),
        sampler: Sampler? = nil
    ) -> Events {
        Events(context: self) { context, token in
            try context.chat(
                messages, chatOptions: chatOptions, options: options, sampler: sampler, cancelToken: token)
        }
    }

    /// A generation run to its end, or until the task is cancelled, which its reason tells.
    public nonisolated func complete(
        _ prompt: String, options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil
    ) async throws -> Completion {
        try await withContext { try $0.complete(prompt, options: options, sampler: sampler) }
    }

    /// A vector for each text; see ``Context/embed(_:options:)``.
    public nonisolated func embed(
        _ texts: [String], options: EmbedOptions = EmbedOptions()
    ) async throws -> [[Float]] {
        try await withContext { try $0.embed(texts, options: options) }
    }

    /// Tells how likely a continuation is; see ``Context/score(_:_:sequence:parseSpecial:)``.
    public nonisolated func score(
        _ prompt: String, _ continuation: String, sequence: Int = 0, parseSpecial: Bool = false
    ) async throws -> Score {
        try await withContext {
            try $0.score(prompt, continuation, sequence: sequence, parseSpecial: parseSpecial)
        }
    }

    /// Forgets the tokens of a sequence from position `past` on; 0 empties it.
    public func rewind(to past: Int = 0, sequence: Int = 0) throws {
        try context.rewind(to: past, sequence: sequence)
    }

    /// The number of tokens in a sequence.
    public func past(sequence: Int = 0) throws -> Int { try context.past(sequence: sequence) }

    /// The next event of a generation, which the first call starts.
    fileprivate func next(_ slot: Events.Slot, _ start: Events.Start) throws -> Event? {
        let generation = try slot.generation ?? start(context, slot.token)
        slot.generation = generation
        return try generation.next()
    }

    /// The events of a generation, one for each token and one for the end.
    public struct Events: AsyncSequence, Sendable {
        fileprivate typealias Start = @Sendable (Context, CancelToken) throws -> Generation

        fileprivate let context: AsyncContext
        fileprivate let start: Start

        /// Nothing runs before the first event.
        public func makeAsyncIterator() -> Iterator { Iterator(events: self) }

        /// Gives the events. Letting it go ends the generation.
        public struct Iterator: AsyncIteratorProtocol, Sendable {
            fileprivate let events: Events
            private let slot = Slot()

            fileprivate init(events: Events) { self.events = events }

            /// The next event, the first time by running the prompt; nil after the `end` event.
            public mutating func next() async throws -> Event? {
                let (slot, events) = (slot, events)
                return try await withTaskCancellationHandler {
                    try await events.context.next(slot, events.start)
                } onCancel: {
                    slot.token.cancel()
                }
            }
        }

        /// A place for a generation, which only the actor touches.
        fileprivate final class Slot: @unchecked Sendable {
            let token = CancelToken()
            var generation: Generation?
        }
    }
}

/// Runs the jobs of an actor on a queue, one after the other.
private final class ContextQueue: SerialExecutor {
    private let queue = DispatchQueue(label: "ember.context", qos: .userInitiated)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}

import CEmber

/// A generation under way. ``next()`` gives its events, one for each token and one for the end.
///
///     let generation = try context.generate("Once upon a time")
///     while let event = try generation.next() {
///         print(event.text, terminator: "")
///     }
///
/// Between two events the context is not in use, so that generations on several of its sequences can take turns. Letting a
/// generation go ends it; the sequence then lacks the last token that was seen.
public final class Generation {
    private let handle: OpaquePointer
    private let context: Context
    /// Its stages may be the caller's own, which it holds.
    private let sampler: Sampler?
    /// Its model's memory may be of the caller's own allocator, which that holds.
    private let draft: DraftContext?
    private var event = sized(ember_event())

    /// Why the generation ended; nil while it has not.
    public private(set) var finishReason: FinishReason?

    init(_ context: Context, _ sampler: Sampler?, _ draft: DraftContext?, taking handle: OpaquePointer) {
        self.context = context
        self.sampler = sampler
        self.draft = draft
        self.handle = handle
    }

    deinit { ember_generator_free(handle) }

    /// The next event, the first time by running the prompt; nil after the `end` event. On an error the sequence is as
    /// before, and the next call tries again; but what a sampler's own stage throws ends the generation.
    public func next() throws -> Event? {
        if finishReason != nil { return nil }
        try context.use { _ in try check { ember_generator_next(handle, &event, $0) } }
        finishReason = FinishReason(ifAny: event.finish_reason)
        if finishReason == .cancelled, let error = sampler?.takeError() { throw error }
        return try Event(event, usage: try usage)
    }

    /// Runs `body` with every event that is left.
    public func forEach(_ body: (Event) throws -> Void) throws {
        while let event = try next() { try body(event) }
    }

    /// What the generation did so far.
    public var usage: Usage {
        get throws {
            Usage(try read(sized(ember_generate_result())) { ember_generator_usage(handle, $0, $1) })
        }
    }

    /// Runs the generation to its end.
    func complete() throws -> Completion {
        var text = ""
        var tokens: [Token] = []
        try forEach { event in
            text += event.text
            if let token = event.token { tokens.append(token) }
        }
        return Completion(text: text, tokens: tokens, usage: try usage)
    }
}

@available(*, unavailable, message: "one thread at a time uses a Generation; AsyncContext gives one to tasks")
extension Generation: Sendable {}

/// What a generation continues a sequence by.
enum Prompt: Sendable {
    case text(String)
    case tokens([Token])
}

extension Context {
    /// Continues a sequence of the context by `prompt` and then by generated tokens; the first ``Generation/next()`` runs the
    /// prompt. An empty sequence begins with the special tokens the model asks for (BOS); an empty prompt continues the text
    /// itself. Without a sampler the likeliest token is taken.
    public func generate(
        _ prompt: String, options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil,
        cancelToken: CancelToken? = nil
    ) throws -> Generation {
        try start(.text(prompt), options, sampler, cancelToken)
    }

    /// As ``generate(_:options:sampler:cancelToken:)`` for a prompt of tokens, to which nothing is added.
    public func generate(
        tokens: [Token], options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil,
        cancelToken: CancelToken? = nil
    ) throws -> Generation {
        try start(.tokens(tokens), options, sampler, cancelToken)
    }

    /// A generation run to its end.
    public func complete(
        _ prompt: String, options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil,
        cancelToken: CancelToken? = nil
    ) throws -> Completion {
        try start(.text(prompt), options, sampler, cancelToken).complete()
    }

    /// A generation from tokens run to its end.
    public func complete(
        tokens: [Token], options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil,
        cancelToken: CancelToken? = nil
    ) throws -> Completion {
        try start(.tokens(tokens), options, sampler, cancelToken).complete()
    }

    func start(
        _ prompt: Prompt, _ options: GenerateOptions, _ sampler: Sampler?, _ cancelToken: CancelToken?
    ) throws -> Generation {
        let handle = try options.withHandle(cancelToken) { options in
            try withExtendedLifetime(sampler) {
                try use { context in
                    switch prompt {
                    case .text(let text):
                        try text.withChars { text, count in
                            try make { ember_generator_new(context, text, count, options, sampler?.handle, $0, $1) }
                        }
                    case .tokens(let tokens):
                        try make {
                            ember_generator_new_tokens(
                                context, tokens, tokens.count, options, sampler?.handle, $0, $1)
                        }
                    }
                }
            }
        }
        return Generation(self, sampler, options.draft?.context, taking: handle)
    }
}

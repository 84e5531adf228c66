import CEmber

/// Several completions of one prompt under way, which take turns, a token each. ``next()`` gives their events.
///
///     let all = try context.completions("Once upon a time", count: 3, sampler: Sampler(seed: 7, .temperature(0.8)))
///     while let turn = try all.next() {
///         if turn.event.kind == .end { print(turn.index, try all.text(of: turn.index)) }
///     }
///
/// Completion i is in sequence s + i of the context, where s is ``GenerateOptions/sequence``, and draws with the sampler's seed + i.
/// Between two events the context is not in use. Letting the completions go ends them.
public final class Completions {
    /// What happened in one of them.
    public struct Turn: Hashable, Sendable {
        /// Which completion, from 0 on.
        public let index: Int
        /// The event.
        public let event: Event
    }

    private let handle: OpaquePointer
    private let context: Context
    /// Its stages may be the caller's own, which it holds.
    private let sampler: Sampler?
    private var event = sized(ember_event())

    init(_ context: Context, _ sampler: Sampler?, taking handle: OpaquePointer) {
        self.context = context
        self.sampler = sampler
        self.handle = handle
    }

    deinit { ember_completions_free(handle) }

    /// The next event and which completion it is of, the first time by running the prompt; nil when all have ended. Each ends with one
    /// `end` event. On an error the sequences are as before, and the next call tries again; but what a sampler's own stage throws ends
    /// the completion.
    public func next() throws -> Turn? {
        var index: UInt32 = 0
        try context.use { _ in try check { ember_completions_next(handle, &event, &index, $0) } }
        if event.kind == number(of: EMBER_EVENT_NONE) { return nil }
        let isCancelled = FinishReason(ifAny: event.finish_reason) == .cancelled
        if isCancelled, let error = sampler?.takeError() { throw error }
        return Turn(index: Int(index), event: try Event(event, usage: try usage(of: Int(index))))
    }

    /// Runs all of them to their ends.
    public func finish() throws { while try next() != nil {} }

    /// The text of a completion so far.
    public func text(of index: Int) throws -> String {
        let index = try number("the completion", index)
        return String(
            decoding: try fill(256) { ember_completions_text(handle, index, $0, $1, $2, $3) } as [UInt8], as: UTF8.self)
    }

    /// What a completion did so far.
    public func usage(of index: Int) throws -> Usage {
        let index = try number("the completion", index)
        return Usage(try read(sized(ember_generate_result())) { ember_completions_usage(handle, index, $0, $1) })
    }

    /// All completions by the mean log-probability of their tokens, the likeliest first, when all have ended. Needs
    /// ``GenerateOptions/logprobs``.
    public func rank() throws -> [Int] {
        let order: [UInt32] = try fill(8) { ember_completions_rank(handle, $0, $1, $2, $3) }
        return order.map(Int.init)
    }
}

@available(*, unavailable, message: "one thread at a time uses Completions; AsyncContext.withContext has tasks wait")
extension Completions: Sendable {}

extension Context {
    /// Prepares `count` completions of a prompt, which the first ``Completions/next()`` runs once for all. The context needs as many
    /// sequences (``ContextOptions/sequences``). Without a sampler all are the same.
    public func completions(
        _ prompt: String, count: Int, options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil,
        cancelToken: CancelToken? = nil
    ) throws -> Completions {
        try start(.text(prompt), count, options, sampler, cancelToken)
    }

    /// As ``completions(_:count:options:sampler:cancelToken:)`` for a prompt of tokens, to which nothing is added.
    public func completions(
        tokens: [Token], count: Int, options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil,
        cancelToken: CancelToken? = nil
    ) throws -> Completions {
        try start(.tokens(tokens), count, options, sampler, cancelToken)
    }

    private func start(
        _ prompt: Prompt, _ count: Int, _ options: GenerateOptions, _ sampler: Sampler?, _ cancelToken: CancelToken?
    ) throws -> Completions {
        let n = try number("the number of completions", count)
        let handle = try options.withHandle(cancelToken) { options in
            try withExtendedLifetime(sampler) {
                try use { context in
                    switch prompt {
                    case .text(let text):
                        try text.withChars { text, count in
                            try make {
                                ember_completions_new(context, text, count, n, options, sampler?.handle, $0, $1)
                            }
                        }
                    case .tokens(let tokens):
                        try make {
                            ember_completions_new_tokens(
                                context, tokens, tokens.count, n, options, sampler?.handle, $0, $1)
                        }
                    }
                }
            }
        }
        return Completions(self, sampler, taking: handle)
    }
}

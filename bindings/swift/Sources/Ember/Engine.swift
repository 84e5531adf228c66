import CEmber

/// How to make an engine.
public struct EngineOptions: Hashable, Sendable {
    /// How many requests run together, 1 to 4096. More give more tokens in all, fewer to each.
    public var parallel = 8
    /// How many requests may wait until one of those that run has ended; more are refused.
    public var maxQueue = 256
    /// Whether requests that begin alike, such as with the same system prompt, share what was computed for the first of
    /// them. Their results do not change.
    public var sharePrefixes = true
    /// How the engine's context is made: the positions of each request, the rows of a step, threads, memory. The number of its
    /// sequences and whether it keeps prefixes are the engine's own matter.
    public var context = ContextOptions()

    /// The defaults, or what differs from them.
    public init(
        parallel: Int = 8, maxQueue: Int = 256, sharePrefixes: Bool = true,
        context: ContextOptions = ContextOptions()
    ) {
        self.parallel = parallel
        self.maxQueue = maxQueue
        self.sharePrefixes = sharePrefixes
        self.context = context
    }

    func withHandle<R>(_ body: (OpaquePointer) throws -> R) throws -> R {
        let options = try make(ember_engine_options_new)
        defer { ember_engine_options_free(options) }
        let parallel = try number("the number of requests that run together", parallel)
        let maxQueue = try number("the length of the queue", maxQueue)
        try check { ember_engine_options_set_n_parallel(options, parallel, $0) }
        try check { ember_engine_options_set_max_queue(options, maxQueue, $0) }
        try check { ember_engine_options_set_share_prefixes(options, sharePrefixes, $0) }
        try check { ember_engine_options_set_thread(options, true, $0) }
        try context.withHandle { context in
            try check { ember_engine_options_set_context_options(options, context, $0) }
        }
        return try body(options)
    }
}

/// Runs many generations on one model together, which takes far less time than one after the other. Requests wait in a queue
/// of bounded length, in order of their priority; each gives what it would give alone. Any number of tasks and threads may use
/// an engine at once. A thread of its own does the work; tasks that wait block no thread.
///
/// Its requests end, as cancelled, when the engine goes. A sampler's own stage, which runs on the engine's thread, must not hold
/// the last reference to it.
public final class Engine: Sendable {
    nonisolated(unsafe) private let handle: OpaquePointer
    /// The options in force in its context: the size are the positions of each request, for its prompt and what is generated,
    /// the sequences how many requests run together.
    public let info: ContextInfo

    /// Makes an engine over a model.
    public init(_ model: Model, options: EngineOptions = EngineOptions()) throws {
        let handle = try options.withHandle { options in
            try make { ember_engine_new(model.handle, options, $0, $1) }
        }
        do {
            info = ContextInfo(try read(sized(ember_context_info())) { ember_engine_info_get(handle, $0, $1) })
        } catch {
            ember_engine_free(handle)
            throw error
        }
        self.handle = handle
    }

    deinit { ember_engine_free(handle) }

    /// Has `prompt` continued, which is the whole text. When as many requests wait as may, this throws
    /// ``EmberError/Status/queueFull``. The sampler is copied as it is: requests that shall differ need samplers of different
    /// seeds. ``GenerateOptions/sequence``, ``GenerateOptions/reusePrefix``, ``GenerateOptions/lookup`` and
    /// ``GenerateOptions/draft`` mean nothing here, and ``GenerateOptions/shift`` is refused.
    public func submit(
        _ prompt: String, options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil
    ) throws -> Request {
        try submit(.text(prompt), options, sampler)
    }

    /// As ``submit(_:options:sampler:)`` for a prompt of tokens, to which nothing is added.
    public func submit(
        tokens: [Token], options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil
    ) throws -> Request {
        try submit(.tokens(tokens), options, sampler)
    }

    /// A request run to its end, or until the task is cancelled, which its reason tells.
    public func complete(
        _ prompt: String, options: GenerateOptions = GenerateOptions(), sampler: Sampler? = nil
    ) async throws -> Completion {
        try await submit(.text(prompt), options, sampler).complete()
    }

    private func submit(_ prompt: Prompt, _ options: GenerateOptions, _ sampler: Sampler?) throws -> Request {
        let mailbox = Mailbox(sampler)
        let box = Unmanaged.passRetained(mailbox)  // the last event releases it
        do {
            let request = try options.withHandle(nil) { options in
                switch prompt {
                case .text(let text):
                    try text.withChars { text, count in
                        try make {
                            ember_engine_submit(
                                handle, text, count, options, sampler?.handle, putEvent, box.toOpaque(), $0, $1)
                        }
                    }
                case .tokens(let tokens):
                    try make {
                        ember_engine_submit_tokens(
                            handle, tokens, tokens.count, options, sampler?.handle, putEvent, box.toOpaque(), $0, $1)
                    }
                }
            }
            return Request(self, mailbox, taking: request)
        } catch {
            box.release()
            throw error
        }
    }

    /// What the engine has done, and how things stand.
    public var metrics: EngineMetrics {
        get throws {
            EngineMetrics(try read(sized(ember_engine_metrics())) { ember_engine_metrics_get(handle, $0, $1) })
        }
    }
}

/// What an engine has done since it was made, and how things stand.
public struct EngineMetrics: Hashable, Sendable {
    /// Requests that were taken.
    public let submitted: Int
    /// Requests that were refused because the queue was full.
    public let refused: Int
    /// Requests that ended by themselves, by a stop text, or where the context was full.
    public let finished: Int
    /// Requests that were cancelled, or ended by their time limit.
    public let cancelled: Int
    /// Requests that an error ended.
    public let failed: Int
    /// How often a request gave its memory up for others and was run again later.
    public let preempted: Int
    /// Tokens of the prompts of requests that generated.
    public let promptTokens: Int
    /// Of these, those that were in the cache already.
    public let reusedTokens: Int
    /// Tokens of prompts that were run, those that were run again included.
    public let prefilledTokens: Int
    /// Tokens generated.
    public let generatedTokens: Int
    /// Steps that ran something.
    public let steps: Int
    /// Time spent in steps.
    public let busy: Duration
    /// Tokens generated for each second spent in steps.
    public let tokensPerSecond: Double
    /// Reused tokens for each token of a prompt, 0 to 1.
    public let cacheHitRate: Double
    /// Requests that wait.
    public let queued: Int
    /// Requests that run.
    public let active: Int
    /// Pages of the KV cache.
    public let pages: Int
    /// Pages that no request has; the cache may keep prefixes in them until they are needed.
    public let freePages: Int

    init(_ metrics: ember_engine_metrics) {
        submitted = Int(metrics.n_submitted)
        refused = Int(metrics.n_refused)
        finished = Int(metrics.n_finished)
        cancelled = Int(metrics.n_cancelled)
        failed = Int(metrics.n_failed)
        preempted = Int(metrics.n_preempted)
        promptTokens = Int(metrics.n_prompt)
        reusedTokens = Int(metrics.n_reused)
        prefilledTokens = Int(metrics.n_prefilled)
        generatedTokens = Int(metrics.n_generated)
        steps = Int(metrics.n_steps)
        busy = duration(metrics.busy_ns)
        tokensPerSecond = metrics.tokens_per_s
        cacheHitRate = metrics.cache_hit_rate
        queued = Int(metrics.n_queued)
        active = Int(metrics.n_active)
        pages = Int(metrics.n_pages)
        freePages = Int(metrics.n_free_pages)
    }
}

import CEmber

/// How to generate.
public struct GenerateOptions: Hashable, Sendable {
    /// Most tokens to generate.
    public var maxTokens = 128
    /// The sequence of the context to continue.
    public var sequence = 0
    /// Whether the text of control tokens in the prompt stands for these tokens. Not for text that users type.
    public var parseSpecial = false
    /// Whether control tokens that the model generates appear in the text.
    public var renderSpecial = false
    /// Whether to go on after an end-of-generation token.
    public var ignoreEndOfGeneration = false
    /// Texts that end the generation. Its text ends before them; what may be the beginning of one is held back until that
    /// is certain.
    public var stop: [String] = []
    /// Whether the stop text that ended a generation is the end of its text.
    public var includeStop = false
    /// Whether the prompt is the whole of what the sequence shall hold. What it begins with already is kept, and only what is
    /// new is run: give all of a conversation each time and pay for what was added.
    public var reusePrefix = false
    /// Whether the first event is the prompt's text.
    public var echo = false
    /// Whether events tell the log-probability of their token.
    public var logprobs = false
    /// How many of the likeliest tokens events tell, at most 64; more than 0 means ``logprobs`` too.
    public var topLogprobs = 0
    /// How long the generation may take; a token that comes later ends it as ``FinishReason/timeLimit``.
    public var timeLimit: Duration?
    /// Which of the requests that wait in an engine's queue begins first: that of the highest priority.
    public var priority: Int32 = 0

    /// The defaults, or what differs from them.
    public init(
        maxTokens: Int = 128, sequence: Int = 0, parseSpecial: Bool = false, renderSpecial: Bool = false,
        ignoreEndOfGeneration: Bool = false, stop: [String] = [], includeStop: Bool = false, reusePrefix: Bool = false,
        echo: Bool = false, logprobs: Bool = false, topLogprobs: Int = 0, timeLimit: Duration? = nil,
        priority: Int32 = 0
    ) {
        self.maxTokens = maxTokens
        self.sequence = sequence
        self.parseSpecial = parseSpecial
        self.renderSpecial = renderSpecial
        self.ignoreEndOfGeneration = ignoreEndOfGeneration
        self.stop = stop
        self.includeStop = includeStop
        self.reusePrefix = reusePrefix
        self.echo = echo
        self.logprobs = logprobs
        self.topLogprobs = topLogprobs
        self.timeLimit = timeLimit
        self.priority = priority
    }

    func withHandle<R>(_ cancelToken: CancelToken?, _ body: (OpaquePointer) throws -> R) throws -> R {
        let options = try make(ember_generate_options_new)
        defer { ember_generate_options_free(options) }
        let maxTokens = try number("the number of tokens", maxTokens)
        let sequence = try number("the sequence", sequence)
        let topLogprobs = try number("the number of likeliest tokens", topLogprobs)
        try check { ember_generate_options_set_max_tokens(options, maxTokens, $0) }
        try check { ember_generate_options_set_sequence(options, sequence, $0) }
        try check { ember_generate_options_set_parse_special(options, parseSpecial, $0) }
        try check { ember_generate_options_set_render_special(options, renderSpecial, $0) }
        try check { ember_generate_options_set_ignore_eog(options, ignoreEndOfGeneration, $0) }
        for stop in stop {
            try stop.withChars { stop, count in try check { ember_generate_options_add_stop(options, stop, count, $0) }
            }
        }
        try check { ember_generate_options_set_include_stop(options, includeStop, $0) }
        try check { ember_generate_options_set_reuse_prefix(options, reusePrefix, $0) }
        try check { ember_generate_options_set_echo(options, echo, $0) }
        try check { ember_generate_options_set_logprobs(options, logprobs, $0) }
        try check { ember_generate_options_set_n_top(options, topLogprobs, $0) }
        if let timeLimit {
            let (seconds, attoseconds) = timeLimit.components
            let rest = (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000
            guard timeLimit >= .zero, let whole = UInt64(exactly: seconds), whole < .max / 2000 else {
                throw EmberError(.invalidArgument, "the time limit is \(timeLimit)")
            }
            let milliseconds = whole * 1000 + UInt64(rest)
            try check { ember_generate_options_set_time_limit(options, milliseconds, $0) }
        }
        try check { ember_generate_options_set_priority(options, priority, $0) }
        try withExtendedLifetime(cancelToken) {
            try check { ember_generate_options_set_cancel_token(options, cancelToken?.handle, $0) }
        }
        return try body(options)
    }
}

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
    /// Whether the prompt is the whole of what the sequence shall hold. Ember keeps the beginning that it has already,
    /// and runs only the rest: give all of a conversation each time and pay for what was added.
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
    /// What to forget where the sequence is full, to go on; nil: the generation ends as ``FinishReason/contextFull``.
    public var shift: Shift?
    /// Whether there are draft tokens from the text itself.
    public var lookup: Lookup?
    /// Whether there are draft tokens from a smaller model.
    public var draft: Draft?
    /// What the generated text has to follow; ``Usage/progress`` tells whether it is complete.
    public var constraint: Constraint?

    /// Tokens to forget, as ``Context/shift(keep:drop:sequence:)`` does it, each time the sequence is full. A prompt that does
    /// not fit is an error all the same. Not for models with learned positions (GPT-2), and not in an engine.
    public struct Shift: Hashable, Sendable {
        /// How many tokens at the sequence's beginning stay.
        public var keep: Int
        /// How many after them are forgotten; together the two are below the context's size. 0: none, the generation ends.
        public var drop: Int

        /// Forgets `drop` tokens after the first `keep`.
        public init(keep: Int = 0, drop: Int) {
            self.keep = keep
            self.drop = drop
        }
    }

    /// Draft tokens from the text itself, to run several tokens in one step: what followed the last tokens where they stood in
    /// the text before. That pays where texts repeat what they have said or were given, as summaries, corrections and code do.
    /// Where drafts are rejected Ember makes fewer.
    ///
    /// The tokens are the same as without, drawn or likeliest, one for each event. A call that decodes on the same context
    /// between two events discards the drafts, so that generations which take turns gain nothing. An engine does without
    /// drafts.
    public struct Lookup: Hashable, Sendable {
        /// The most draft tokens of a step, at most 32. 0: none.
        public var count: Int
        /// How many of the last tokens to look for, 1 to 16, and then fewer, down to 2.
        public var ngram: Int

        /// Makes up to `count` draft tokens a step.
        public init(count: Int = 8, ngram: Int = 3) {
            self.count = count
            self.ngram = ngram
        }
    }

    /// Draft tokens from a smaller model, to run several tokens in one step; where ``GenerateOptions/lookup`` finds
    /// some, those are taken. All that ``Lookup`` says of tokens, turns and engines holds here.
    public struct Draft: Hashable, Sendable {
        /// The smaller model's context, which a generation uses in its calls alone.
        public var context: DraftContext
        /// The sequence of that context which becomes the beginning of the text, whatever it held.
        public var sequence: Int
        /// The most draft tokens of a step, at most 32. 0: none.
        public var count: Int

        /// Makes up to `count` draft tokens a step.
        public init(_ context: DraftContext, sequence: Int = 0, count: Int = 4) {
            self.context = context
            self.sequence = sequence
            self.count = count
        }
    }

    /// The defaults, or what differs from them.
    public init(
        maxTokens: Int = 128, sequence: Int = 0, parseSpecial: Bool = false, renderSpecial: Bool = false,
        ignoreEndOfGeneration: Bool = false, stop: [String] = [], includeStop: Bool = false, reusePrefix: Bool = false,
        echo: Bool = false, logprobs: Bool = false, topLogprobs: Int = 0, timeLimit: Duration? = nil,
        priority: Int32 = 0, shift: Shift? = nil, lookup: Lookup? = nil, draft: Draft? = nil,
        constraint: Constraint? = nil
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
        self.shift = shift
        self.lookup = lookup
        self.draft = draft
        self.constraint = constraint
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
        if let shift {
            let keep = try number("the number of tokens to keep", shift.keep)
            let drop = try number("the number of tokens to drop", shift.drop)
            try check { ember_generate_options_set_shift(options, keep, drop, $0) }
        }
        if let lookup {
            let count = try number("the number of tokens to look up", lookup.count)
            let ngram = try number("the length of an n-gram", lookup.ngram)
            try check { ember_generate_options_set_lookup(options, count, ngram, $0) }
        }
        if let draft {
            let sequence = try number("the draft context's sequence", draft.sequence)
            let count = try number("the number of tokens to draft", draft.count)
            try withExtendedLifetime(draft) {
                try check { ember_generate_options_set_draft(options, draft.context.handle, sequence, count, $0) }
            }
        }
        if let constraint {
            try withExtendedLifetime(constraint) {
                try check { ember_generate_options_set_constraint(options, constraint.handle, $0) }
            }
        }
        try withExtendedLifetime(cancelToken) {
            try check { ember_generate_options_set_cancel_token(options, cancelToken?.handle, $0) }
        }
        return try body(options)
    }
}

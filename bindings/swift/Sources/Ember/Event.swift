import CEmber

/// What happens in a generation. It is a copy, valid for good.
public struct Event: Hashable, Sendable {
    /// What an event is.
    public enum Kind: Int32, Hashable, Sendable {
        /// The prompt's text, if it was asked for; the first event.
        case echo = 0
        /// A token was generated.
        case token = 1
        /// The generation has ended; the last event.
        case end = 2
    }

    /// A token and the natural logarithm of its probability.
    public struct Candidate: Hashable, Sendable {
        /// The token.
        public let token: Token
        /// Its log-probability, before the sampler's stages.
        public let logprob: Float
    }

    /// What the event is.
    public let kind: Kind
    /// New text, of whole code points, perhaps none. Text that may begin a stop text comes with a later event. The
    /// texts of all events in a row are the whole text.
    public let text: String
    /// The token of a `token` event.
    public let token: Token?
    /// The bytes that the token stands for, perhaps a part of a code point.
    public let bytes: [UInt8]
    /// The log-probability of the token, before the sampler's stages, if it was asked for.
    public let logprob: Float?
    /// The likeliest tokens at the place of this one, the likeliest first, if they were asked for.
    public let top: [Candidate]
    /// Why the generation ended, of the `end` event.
    public let finishReason: FinishReason?
    /// What the generation did, of the `end` event.
    public let usage: Usage?
}

extension Event {
    /// A copy of an event of the library's.
    init(_ event: ember_event, usage: @autoclosure () throws -> Usage?) rethrows {
        let finishReason = FinishReason(ifAny: event.finish_reason)
        self.init(
            kind: Kind(rawValue: event.kind) ?? .token,
            text: Ember.text(event.text, event.text_len),
            token: Ember.token(event.token),
            bytes: Array(UnsafeBufferPointer(start: event.bytes, count: event.n_bytes)),
            logprob: event.logprob.isNaN ? nil : event.logprob,
            top: UnsafeBufferPointer(start: event.tops, count: event.n_tops).map {
                Candidate(token: $0.token, logprob: $0.logprob)
            },
            finishReason: finishReason,
            usage: finishReason == nil ? nil : try usage())
    }
}

/// Why a generation ended.
public struct FinishReason: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The number in the C library.
    public let rawValue: Int32
    /// The reason with this number.
    public init(rawValue: Int32) { self.rawValue = rawValue }

    /// As many tokens as asked for were generated.
    public static let maxTokens = FinishReason(EMBER_FINISH_MAX_TOKENS)
    /// The model gave an end-of-generation token.
    public static let endOfGeneration = FinishReason(EMBER_FINISH_EOG)
    /// The context has no position for another token.
    public static let contextFull = FinishReason(EMBER_FINISH_CONTEXT_FULL)
    /// A stop text was generated.
    public static let stopString = FinishReason(EMBER_FINISH_STOP_STRING)
    /// A ``CancelToken``, or the end of the task, ended it.
    public static let cancelled = FinishReason(EMBER_FINISH_CANCELLED)
    /// It took longer than ``GenerateOptions/timeLimit``.
    public static let timeLimit = FinishReason(EMBER_FINISH_TIME_LIMIT)
    /// An error ended the request of an engine.
    public static let failed = FinishReason(EMBER_FINISH_FAILED)

    private init(_ reason: some RawRepresentable<some BinaryInteger>) { rawValue = number(of: reason) }

    /// The reason that the library gave; nil while there is none.
    init?(ifAny reason: Int32) {
        if reason == number(of: EMBER_FINISH_NONE) { return nil }
        rawValue = reason
    }

    /// A short name, for example "max_tokens".
    public var description: String {
        switch self {
        case .maxTokens: "max_tokens"
        case .endOfGeneration: "eog"
        case .contextFull: "context_full"
        case .stopString: "stop_string"
        case .cancelled: "cancelled"
        case .timeLimit: "time_limit"
        case .failed: "failed"
        default: "reason \(rawValue)"
        }
    }
}

/// What a generation did.
public struct Usage: Hashable, Sendable {
    /// Tokens of the prompt, BOS included.
    public let promptTokens: Int
    /// Tokens of the prompt that the sequence held already.
    public let reusedTokens: Int
    /// Tokens generated, an end-of-generation token not counted.
    public let generatedTokens: Int
    /// Draft tokens that were run ahead (``GenerateOptions/lookup``, ``GenerateOptions/draft``).
    public let draftedTokens: Int
    /// Of these, those that were accepted.
    public let acceptedTokens: Int
    /// Tokens that were forgotten to go on (``GenerateOptions/shift``).
    public let shiftedTokens: Int
    /// Tokens that a constraint left no choice for and that were run together with others.
    public let forcedTokens: Int
    /// How far the text is that follows a constraint; one that is cut off is ``Constraint/Progress/unfinished``.
    public let progress: Constraint.Progress
    /// Time spent on the prompt.
    public let prefill: Duration
    /// Time spent on the generated tokens, the caller's own work between them not counted.
    public let decode: Duration
    /// Why it ended; nil while it has not.
    public let finishReason: FinishReason?

    init(_ result: ember_generate_result) {
        promptTokens = Int(result.n_prompt)
        reusedTokens = Int(result.n_reused)
        generatedTokens = Int(result.n_generated)
        draftedTokens = Int(result.n_drafted)
        acceptedTokens = Int(result.n_accepted)
        shiftedTokens = Int(result.n_shifted)
        forcedTokens = Int(result.n_forced)
        progress = Constraint.Progress(rawValue: result.progress) ?? .none
        prefill = duration(result.prefill_ns)
        decode = duration(result.decode_ns)
        finishReason = FinishReason(ifAny: result.finish_reason)
    }
}

/// A whole generation.
public struct Completion: Hashable, Sendable {
    /// The texts of all events.
    public let text: String
    /// The tokens generated.
    public let tokens: [Token]
    /// What the generation did.
    public let usage: Usage

    /// Why it ended; ``FinishReason/cancelled`` when it was cut short.
    public var finishReason: FinishReason? { usage.finishReason }
}

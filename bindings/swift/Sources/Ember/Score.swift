import CEmber

/// How likely a continuation is.
public struct Score: Hashable, Sendable {
    /// What a token of a continuation scores.
    public struct TokenScore: Hashable, Sendable {
        /// The token.
        public let token: Token
        /// Natural logarithm of its probability given all tokens before it.
        public let logprob: Float
        /// How many tokens are likelier at its place.
        public let rank: Int
    }

    /// The tokens of the continuation.
    public let tokens: [TokenScore]
    /// The sum of their log-probabilities.
    public let logprob: Double
    /// Tokens before them.
    public let promptTokens: Int
    /// Of these, what the sequence held already.
    public let reusedTokens: Int
    /// Whether taking the likeliest token each time would have given the continuation.
    public let isGreedy: Bool
}

extension Context {
    /// Tells how likely `continuation` is after `prompt`; both are tokenized as one text. The sequence keeps what it has in
    /// common with the prompt, so that scoring many continuations of one prompt runs the prompt once.
    public func score(
        _ prompt: String, _ continuation: String, sequence: Int = 0, parseSpecial: Bool = false
    ) throws -> Score {
        let options = GenerateOptions(sequence: sequence, parseSpecial: parseSpecial)
        return try prompt.withChars { head, headCount in
            try continuation.withChars { tail, tailCount in
                try score(tailCount, options) { context, options, scores, capacity, needed, result, error in
                    ember_score(
                        context, head, headCount, tail, tailCount, options, scores, capacity, needed, result, error)
                }
            }
        }
    }

    /// As ``score(_:_:sequence:parseSpecial:)`` for tokens, to which nothing is added.
    public func score(tokens prompt: [Token], _ continuation: [Token], sequence: Int = 0) throws -> Score {
        let tokens = prompt + continuation
        return try score(continuation.count, GenerateOptions(sequence: sequence)) {
            context, options, scores, capacity, needed, result, error in
            ember_score_tokens(
                context, tokens, tokens.count, prompt.count, options, scores, capacity, needed, result, error)
        }
    }

    private typealias Call = (
        OpaquePointer, OpaquePointer, UnsafeMutablePointer<ember_token_score>?, Int, UnsafeMutablePointer<Int>,
        UnsafeMutablePointer<ember_score_result>, ErrorOut
    ) -> Int32

    /// `length` is that of the continuation. A token is a byte at least, but for few that the tokenizer adds; a buffer that
    /// is too small costs a second call.
    private func score(_ length: Int, _ options: GenerateOptions, _ call: Call) throws -> Score {
        var result = sized(ember_score_result())
        let scores: [ember_token_score] = try options.withHandle(nil) { options in
            try use { context in try fill(length + 8) { call(context, options, $0, $1, $2, &result, $3) } }
        }
        return Score(
            tokens: scores.map { Score.TokenScore(token: $0.token, logprob: $0.logprob, rank: Int($0.rank)) },
            logprob: result.logprob,
            promptTokens: Int(result.n_prompt),
            reusedTokens: Int(result.n_reused),
            isGreedy: result.is_greedy != 0)
    }
}

import CEmber

/// Tokens run by a context, and the time that took. Calls that ended with an error do not count.
public struct Timings: Hashable, Sendable {
    /// Time that loading the model took.
    public let load: Duration
    /// Tokens of calls with several tokens of a sequence: prompts.
    public let prefillTokens: UInt64
    /// Their time.
    public let prefill: Duration
    /// Tokens of calls with one token of a sequence: generation.
    public let decodeTokens: UInt64
    /// Their time.
    public let decode: Duration
    /// Tokens of texts that were embedded.
    public let embedTokens: UInt64
    /// Their time.
    public let embed: Duration
    /// Tokens that were run once more for the states of recurrent layers, since their sequence was shortened.
    public let replayTokens: UInt64
    /// Their time.
    public let replay: Duration
}

extension Context {
    /// What the context has done since it was made or ``resetTimings()``, and how long it took.
    public var timings: Timings {
        get throws {
            let timings = try use { context in
                try read(sized(ember_timings())) { ember_context_timings_get(context, $0, $1) }
            }
            return Timings(
                load: duration(timings.load_ns),
                prefillTokens: timings.n_prefill, prefill: duration(timings.prefill_ns),
                decodeTokens: timings.n_decode, decode: duration(timings.decode_ns),
                embedTokens: timings.n_embed, embed: duration(timings.embed_ns),
                replayTokens: timings.n_replay, replay: duration(timings.replay_ns))
        }
    }

    /// Sets the counters to 0; the model's time of loading stays.
    public func resetTimings() throws { try use { context in try check { ember_context_timings_reset(context, $0) } } }
}

import CEmber

/// Chooses tokens: an ordered chain of stages that narrow or reweigh the candidates, then one random draw.
///
/// It may be handed from thread to thread. One call at a time uses it; a second one throws ``EmberError/Status/busy``, and
/// nothing happens to the first.
public final class Sampler: @unchecked Sendable {
    // The library guards the handle with a lock, and gives nothing away that points into it.
    let handle: OpaquePointer

    /// Stages of the caller's own: the library has their addresses only.
    private var own: [CustomStage] = []

    /// A step of a sampler.
    public enum Stage: Sendable {
        /// Keeps the most probable token only; of equals the one with the lowest number.
        case greedy
        /// Divides the logits by a number that is not below 0; 0 is greedy.
        case temperature(Float)
        /// Keeps the most probable tokens; 0 keeps all.
        case topK(Int)
        /// Keeps the most probable tokens whose probabilities add up to this (above 0, at most 1), at least one.
        case topP(Float)
        /// Keeps tokens at least so many times (0 to 1) as probable as the likeliest; 0 keeps all.
        case minP(Float)
        /// Keeps the tokens whose surprise is closest to the expected one, until their probabilities add up to more than
        /// this (above 0, at most 1); 1 keeps all.
        case typicalP(Float)
        /// A temperature between `temperature - range` (at least 0) and `temperature + range`, which grows with the entropy
        /// of the distribution to the power `exponent`.
        case dynamicTemperature(Float, range: Float, exponent: Float = 1)
        /// As often as `probability` (0 to 1) says, removes all tokens at least as probable as `threshold` (0 to 1) but the
        /// least likely of them.
        case xtc(probability: Float, threshold: Float)
        /// Makes tokens less likely that are among the `last` accepted ones. A positive logit is divided by `repeat`
        /// (above 0; 1 changes nothing), another one multiplied. Then `frequency` is taken off for each time the token
        /// occurred, and `presence` once. A generation accepts its tokens by itself; see ``Sampler/accept(_:)``.
        case penalties(last: Int, repeat: Float = 1, frequency: Float = 0, presence: Float = 0)
        /// Has `frequency` and `presence` of the penalties count the tokens that were generated since the last one of a prompt and no
        /// others, as OpenAI's API has them; `repeat` always counts all.
        case penaltiesOfGenerated
        /// Makes tokens less likely that would continue a passage which the `last` accepted tokens have already (DRY).
        /// It takes `multiplier` times `base` to the power of (length of the passage - `allowedLength`) off their
        /// logits. No passage goes beyond one of the `breakers`; nil: line end, colon, quotation mark, asterisk. The
        /// model is the one to sample for.
        case dry(
            Model, multiplier: Float = 0.8, base: Float = 1.75, allowedLength: Int = 2, last: Int = 1024,
            breakers: [String]? = nil)
        /// A stage of one's own; see ``Candidates``.
        case custom(Candidates)
        /// Keeps tokens whose surprise is below a bound, which follows the surprise that is wanted, `tau` in bits, at the
        /// rate `eta`. It is the last stage as a rule.
        case mirostat(tau: Float, eta: Float)
        /// Mirostat's first version, which looks at the `candidates` likeliest tokens. It is the last stage as a rule.
        case mirostat1(tau: Float, eta: Float, candidates: Int = 100)
        /// Keeps the tokens whose logits are at most so many standard deviations of all below the largest; 0 keeps all.
        case topNSigma(Float)
        /// Makes tokens the likelier, the nearer their probability is to a target, which moves so that accepted tokens have
        /// the probability `target` on average. It is the last stage as a rule, after `minP`.
        case adaptiveP(target: Float, decay: Float = 0.9)
        /// For filling a gap in a text: after `topK` and `topP`, it ends the text rather than go on with something
        /// unlikely. The model is the one to sample for.
        case infill(Model)
        /// Keeps the tokens that may be next in a text that follows the constraint. Make it the first stage.
        case constraint(Constraint)
        /// Adds to the logits of tokens; minus infinity rules a token out.
        case bias([Token: Float])
        /// Keeps these tokens only. When none of them is left, sampling fails.
        case allow([Token])
        /// Rules these tokens out. When no other is left, sampling fails.
        case deny([Token])
    }

    /// Looks at the tokens that the stages before have left, at least one, in ascending order, and at their logits,
    /// which it may change; minus infinity rules a token out. An error that it throws ends the call, which rethrows it.
    public typealias Candidates =
        @Sendable (UnsafeBufferPointer<Token>, UnsafeMutableBufferPointer<Float>) throws -> Void

    /// A sampler of these stages, in their order. Without a stage it draws from the softmax of the logits. A seed gives the
    /// same choices on every platform for the same logits; nil takes one at random.
    public init(seed: UInt64? = nil, _ stages: [Stage]) throws {
        handle = try make { ember_sampler_new(seed ?? EMBER_SWIFT_SEED_RANDOM, $0, $1) }
        try stages.forEach(add)
    }

    /// As ``init(seed:_:)-(UInt64?,[Stage])``.
    public convenience init(seed: UInt64? = nil, _ stages: Stage...) throws { try self.init(seed: seed, stages) }

    /// A sampler with the stages that the model's file proposes. ``EmberError/Status/notFound`` for a file that proposes nothing.
    public init(of model: Model, seed: UInt64? = nil) throws {
        handle = try make { ember_model_sampler(model.handle, seed ?? EMBER_SWIFT_SEED_RANDOM, $0, $1) }
    }

    private init(_ original: Sampler, taking handle: OpaquePointer) {
        self.handle = handle
        own = original.own
    }

    deinit { ember_sampler_free(handle) }

    private func add(_ stage: Stage) throws {
        switch stage {
        case .greedy:
            try check { ember_sampler_add_greedy(handle, $0) }
        case .temperature(let temperature):
            try check { ember_sampler_add_temperature(handle, temperature, $0) }
        case .topK(let k):
            let k = try number("top-k", k)
            try check { ember_sampler_add_top_k(handle, k, $0) }
        case .topP(let p):
            try check { ember_sampler_add_top_p(handle, p, $0) }
        case .minP(let p):
            try check { ember_sampler_add_min_p(handle, p, $0) }
        case .typicalP(let p):
            try check { ember_sampler_add_typical_p(handle, p, $0) }
        case .dynamicTemperature(let temperature, let range, let exponent):
            try check { ember_sampler_add_dynamic_temperature(handle, temperature, range, exponent, $0) }
        case .xtc(let probability, let threshold):
            try check { ember_sampler_add_xtc(handle, probability, threshold, $0) }
        case .penalties(let last, let `repeat`, let frequency, let presence):
            let last = try number("the number of tokens to look back", last)
            try check { ember_sampler_add_penalties(handle, last, `repeat`, frequency, presence, $0) }
        case .penaltiesOfGenerated:
            try check { ember_sampler_set_penalties_generated_only(handle, true, $0) }
        case .dry(let model, let multiplier, let base, let allowedLength, let last, let breakers):
            let allowedLength = try number("the allowed length", allowedLength)
            let last = try number("the number of tokens to look back", last)
            try (breakers ?? []).withChars { starts, lengths in
                // An empty array has an address too: only NULL stands for the usual breakers.
                try starts.withUnsafeBufferPointer { starts in
                    let starts = breakers == nil ? nil : starts.baseAddress
                    try check {
                        ember_sampler_add_dry(
                            handle, model.handle, multiplier, base, allowedLength, last, starts, lengths, lengths.count,
                            $0)
                    }
                }
            }
        case .custom(let body):
            let stage = CustomStage(body)
            own.append(stage)
            try stage.give(to: handle)
        case .mirostat(let tau, let eta):
            try check { ember_sampler_add_mirostat(handle, tau, eta, $0) }
        case .mirostat1(let tau, let eta, let candidates):
            let candidates = try number("the number of likeliest tokens", candidates)
            try check { ember_sampler_add_mirostat_1(handle, tau, eta, candidates, $0) }
        case .topNSigma(let n):
            try check { ember_sampler_add_top_n_sigma(handle, n, $0) }
        case .adaptiveP(let target, let decay):
            try check { ember_sampler_add_adaptive_p(handle, target, decay, $0) }
        case .infill(let model):
            try check { ember_sampler_add_infill(handle, model.handle, $0) }
        case .constraint(let constraint):
            try check { ember_sampler_add_constraint(handle, constraint.handle, $0) }
        case .bias(let biases):
            let tokens = biases.keys.sorted()
            let values = tokens.map { biases[$0] ?? 0 }
            try check { ember_sampler_add_bias(handle, tokens, values, tokens.count, $0) }
        case .allow(let tokens):
            try check { ember_sampler_add_allow(handle, tokens, tokens.count, $0) }
        case .deny(let tokens):
            try check { ember_sampler_add_deny(handle, tokens, tokens.count, $0) }
        }
    }

    /// The token chosen from logits, whose index is the token.
    public func sample(_ logits: UnsafeBufferPointer<Float>) throws -> Token {
        do {
            return try read(0) { ember_sampler_sample(handle, logits.baseAddress, logits.count, $0, $1) }
        } catch {
            throw takeError() ?? error
        }
    }

    /// The token chosen from logits, whose index is the token.
    public func sample(_ logits: [Float]) throws -> Token { try logits.withUnsafeBufferPointer(sample) }

    /// Tells the stages that look back that `token` is now part of the text: one that ``sample(_:)-([Float])`` gave, or one
    /// of a prompt.
    public func accept(_ token: Token) throws { try check { ember_sampler_accept(handle, token, $0) } }

    /// Starts over, as if the sampler were new: the random numbers and what was accepted; the stages stay.
    public func reset() throws { try check { ember_sampler_reset(handle, $0) } }

    /// A copy: the stages and their state, the random numbers where they stand.
    public func copy() throws -> Sampler { Sampler(self, taking: try make { ember_sampler_clone(handle, $0, $1) }) }

    /// How far the text is that follows a constraint of the sampler.
    public var progress: Constraint.Progress {
        get throws {
            Constraint.Progress(rawValue: try read(0) { ember_sampler_progress(handle, $0, $1) }) ?? .none
        }
    }

    /// The seed of the random numbers.
    public var seed: UInt64 {
        get throws { try read(0) { ember_sampler_seed(handle, $0, $1) } }
    }
}

extension Sampler {
    /// What a stage of the caller's own has thrown.
    func takeError() -> (any Error)? {
        for stage in own {
            if let error = stage.takeError() { return error }
        }
        return nil
    }
}

/// Carries a stage of the caller's own through C, and what it throws back.
private final class CustomStage: Sendable {
    private let body: Sampler.Candidates
    private let thrown = Locked<[any Error]>([])

    init(_ body: @escaping Sampler.Candidates) { self.body = body }

    func takeError() -> (any Error)? { thrown.with { $0.popLast() } }

    func give(to sampler: OpaquePointer) throws {
        try check { error in
            ember_sampler_add_callback(
                sampler,
                { tokens, logits, count, stage in
                    guard let stage else { return 0 }
                    return Unmanaged<CustomStage>.fromOpaque(stage).takeUnretainedValue().run(
                        UnsafeBufferPointer(start: tokens, count: count),
                        UnsafeMutableBufferPointer(start: logits, count: count))
                }, Unmanaged.passUnretained(self).toOpaque(), error)
        }
    }

    private func run(_ tokens: UnsafeBufferPointer<Token>, _ logits: UnsafeMutableBufferPointer<Float>) -> Int32 {
        do {
            try body(tokens, logits)
            return 0
        } catch {
            thrown.with { $0.append(error) }
            return 1
        }
    }
}

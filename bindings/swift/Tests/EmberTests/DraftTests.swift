import Ember
import Foundation
import Testing

/// A text that repeats itself, for which drafts pay.
private let counting = "one two three, one two three, one two three, one two"
private let how = GenerateOptions(maxTokens: 40, ignoreEndOfGeneration: true)

private func newDraft(sequences: Int = 1) throws -> DraftContext {
    try DraftContext(bundled, options: ContextOptions(size: 256, sequences: sequences, threads: 1))
}

private func drafting(
    _ lookup: GenerateOptions.Lookup? = nil, _ draft: GenerateOptions.Draft? = nil
) -> GenerateOptions {
    var options = how
    (options.lookup, options.draft) = (lookup, draft)
    return options
}

@Suite struct DraftTests {
    @Test func lookupGivesTheSame() throws {
        let plain = try newContext().complete(counting, options: how)
        #expect(plain.usage.draftedTokens == 0 && plain.usage.acceptedTokens == 0 && plain.usage.shiftedTokens == 0)
        let drafted = try newContext().complete(counting, options: drafting(.init()))
        #expect(drafted.text == plain.text && drafted.tokens == plain.tokens && drafted.tokens.count == 40)
        #expect(drafted.usage.draftedTokens > 0)
        #expect((0...drafted.usage.draftedTokens).contains(drafted.usage.acceptedTokens))
        let none = try newContext().complete(counting, options: drafting(.init(count: 0)))
        #expect(none.text == plain.text && none.usage.draftedTokens == 0)

        // Tokens that are drawn too, and the sequence holds at each event what it would hold without.
        func draw(_ options: GenerateOptions) throws -> ([Token?], [Int]) {
            let context = try newContext()
            let sampler = try Sampler(seed: 4, .topK(20), .temperature(0.9))
            var (tokens, past): ([Token?], [Int]) = ([], [])
            try context.generate(counting, options: options, sampler: sampler).forEach {
                tokens.append($0.token)
                past.append(try context.past())
            }
            return (tokens, past)
        }
        #expect(try draw(drafting(.init(count: 8, ngram: 2))) == draw(how))
    }

    @Test func draftGivesTheSame() throws {
        let plain = try newContext().complete(counting, options: how)
        let context = try newContext()
        let draft = try newDraft(sequences: 2)
        #expect(draft.info.sequences == 2 && draft.model === bundled)
        for sequence in [1, 0, 1] {
            try context.rewind()
            let drafted = try context.complete(counting, options: drafting(nil, .init(draft, sequence: sequence)))
            #expect(drafted.text == plain.text && drafted.tokens == plain.tokens)
            let usage = drafted.usage
            #expect(usage.acceptedTokens > 0 && usage.acceptedTokens <= usage.draftedTokens)
        }
        try context.rewind()
        let both = try context.complete(counting, options: drafting(.init(), .init(draft, count: 3)))
        #expect(both.text == plain.text && both.usage.draftedTokens > 0)
    }

    /// Generations in turn, each with a sequence of its own.
    @Test func generationsShareADraft() throws {
        let texts = [counting, "The wolf said"]
        let alone = try texts.map { try newContext().complete($0, options: how).text }
        let draft = try newDraft(sequences: 2)
        let generations = try texts.indices.map {
            try newContext().generate(texts[$0], options: drafting(nil, .init(draft, sequence: $0)))
        }
        var together = ["", ""]
        for _ in 0...how.maxTokens {
            for (at, generation) in generations.enumerated() { together[at] += try generation.next()?.text ?? "ended" }
        }
        #expect(together == alone)
        for generation in generations { #expect(try generation.usage.draftedTokens > 0) }
    }

    /// Options are values, so a draft goes to whichever task generates.
    @Test func tasksDraft() async throws {
        let plain = try newContext().complete(counting, options: how)
        let options = drafting(nil, .init(try newDraft()))
        #expect(options == options && options != how && Set([options, options, how]).count == 2)
        let context = try AsyncContext(bundled, options: ContextOptions(threads: 1))
        var text = ""
        var usage: Usage?
        for try await event in context.generate(counting, options: options) {
            text += event.text
            usage = event.usage
        }
        #expect(text == plain.text)
        #expect(usage?.acceptedTokens ?? 0 > 0)
    }

    /// A generation keeps its draft, with all that the draft's model needs.
    @Test func theDraftIsKept() throws {
        let plain = try newContext().complete(counting, options: how)
        weak var draft: DraftContext?
        weak var mark: CountingAllocator?
        do {
            var generation: Generation?
            let allocator = CountingAllocator()
            mark = allocator
            do {
                let model = try Model(modelPath, options: ModelOptions(pack: .always), allocator: allocator)
                let strong = try DraftContext(model, options: ContextOptions(size: 256, threads: 1))
                draft = strong
                generation = try newContext().generate(counting, options: drafting(nil, .init(strong)))
            }
            #expect(draft != nil && allocator.blocks.count > 0)
            var text = ""
            try generation?.forEach { text += $0.text }
            #expect(text == plain.text)
            let usage = try #require(try generation?.usage)
            #expect(usage.acceptedTokens > 0)
            generation = nil
            #expect(draft == nil && allocator.blocks.count == 0)
        }
        #expect(mark == nil)
    }

    /// An engine runs many together instead.
    @Test func anEngineDoesWithout() async throws {
        let plain = try newContext().complete(counting, options: how)
        let engine = try Engine(
            bundled, options: EngineOptions(parallel: 2, context: ContextOptions(size: 256, threads: 1)))
        let options = drafting(.init(), .init(try newDraft()))
        let answer = try await engine.complete(counting, options: options)
        #expect(answer.text == plain.text && answer.usage.draftedTokens == 0)
        expectRefusal(.unsupported, "shift") {
            try engine.submit(counting, options: GenerateOptions(shift: .init(drop: 8)))
        }
    }

    @Test func refusals() throws {
        let context = try newContext()
        let draft = try newDraft()
        let encoder = try DraftContext(Model(fixture("bert")), options: ContextOptions(threads: 1))
        let stranger = try DraftContext(Model(fixture("gemma3")), options: ContextOptions(threads: 1))
        let options: [(EmberError.Status, String, GenerateOptions)] = [
            (.invalidArgument, "33", drafting(.init(count: 33))), (.invalidArgument, "-1", drafting(.init(count: -1))),
            (.invalidArgument, "17", drafting(.init(ngram: 17))), (.invalidArgument, "0", drafting(.init(ngram: 0))),
            (.invalidArgument, "-2", drafting(.init(ngram: -2))),
            (.invalidArgument, "33", drafting(nil, .init(draft, count: 33))),
            (.invalidArgument, "-3", drafting(nil, .init(draft, count: -3))),
            (.invalidArgument, "sequence 1", drafting(nil, .init(draft, sequence: 1))),
            (.invalidArgument, "-4", drafting(nil, .init(draft, sequence: -4))),
            (.invalidArgument, "vocabulary", drafting(nil, .init(stranger))),
            (.unsupported, "", drafting(nil, .init(encoder))),
        ]
        for (status, culprit, options) in options {
            expectRefusal(status, culprit) { try context.generate(counting, options: options) }
        }
        #expect(try context.complete(counting, options: how).tokens.count == 40)
        expectRefusal(.invalidArgument, "0") { try DraftContext(bundled, options: ContextOptions(sequences: 0)) }
    }
}

@Suite struct ShiftTests {
    private let opening: [Token] = [1, 2, 3, 4, 5, 6]

    /// A small model whose positions can be moved, in a context of 32.
    private func newRotary(sequences: Int = 1) throws -> Context {
        try Context(Model(fixture("gemma3")), options: ContextOptions(size: 32, sequences: sequences, threads: 1))
    }

    @Test func aGenerationGoesOn() throws {
        let context = try newRotary()
        var options = GenerateOptions(maxTokens: 100, ignoreEndOfGeneration: true, shift: .init(keep: 2, drop: 10))
        let shifted = try context.complete(tokens: opening, options: options)
        #expect(shifted.finishReason == .maxTokens && shifted.tokens.count == 100)
        #expect(shifted.usage.shiftedTokens == 80)

        // The same by hand: forget where the sequence is full, run the last token, take the likeliest.
        let hand = try newRotary()
        try hand.decode(opening)
        let greedy = try Sampler(.greedy)
        var tokens = [try greedy.sample(hand.logits(at: opening.count - 1))]
        while tokens.count < 100 {
            if try hand.past() == 32 { try hand.shift(keep: 2, drop: 10) }
            try hand.decode([tokens[tokens.count - 1]])
            tokens.append(try greedy.sample(hand.logits(at: 0)))
        }
        #expect(tokens == shifted.tokens)

        try context.rewind()
        options.shift = .init(keep: 22, drop: 0)  // none
        let full = try context.complete(tokens: opening, options: options)
        #expect(full.finishReason == .contextFull && full.usage.shiftedTokens == 0)
        #expect(full.tokens == Array(shifted.tokens.prefix(full.tokens.count)))
    }

    @Test func aSequenceForgets() throws {
        let context = try newRotary(sequences: 2)
        let one = GenerateOptions(maxTokens: 1, sequence: 1, ignoreEndOfGeneration: true)
        try context.decode(Array(1...20), sequence: 1)
        let next = try Sampler(.greedy).sample(context.logits(at: 19))
        try context.shift(keep: 4, drop: 6, sequence: 1)
        #expect(try context.past(sequence: 1) == 14 && context.past() == 0)
        // The logits after the last token stay, so a generation goes on from them.
        #expect(try context.complete(tokens: [], options: one).tokens == [next])
        try context.shift(drop: context.past(sequence: 1), sequence: 1)
        #expect(try context.past(sequence: 1) == 0)
        expectRefusal(.invalidArgument) { try context.complete(tokens: [], options: one) }
    }

    @Test func refusals() throws {
        let context = try newRotary()
        try context.decode(opening)
        expectRefusal(.invalidArgument, "6") { try context.shift(keep: 4, drop: 3) }
        expectRefusal(.invalidArgument, "7") { try context.shift(drop: 1, sequence: 7) }
        expectRefusal(.invalidArgument, "-1") { try context.shift(keep: -1, drop: 1) }
        expectRefusal(.invalidArgument, "-2") { try context.shift(drop: -2) }
        expectRefusal(.invalidArgument, "-3") { try context.shift(drop: 1, sequence: -3) }
        #expect(try context.past() == 6)
        for (culprit, shift) in [
            ("n_ctx 32", GenerateOptions.Shift(keep: 22, drop: 10)), ("-4", .init(keep: -4, drop: 1)),
            ("-5", .init(drop: -5)),
        ] {
            expectRefusal(.invalidArgument, culprit) {
                try context.generate(tokens: opening, options: GenerateOptions(shift: shift))
            }
        }
        // Learned positions cannot be moved.
        let learned = try newContext()
        try learned.decode(opening)
        expectRefusal(.unsupported) { try learned.shift(drop: 2) }
        expectRefusal(.unsupported) { try learned.generate(prompt, options: GenerateOptions(shift: .init(drop: 2))) }
        #expect(try learned.past() == 6)
    }
}

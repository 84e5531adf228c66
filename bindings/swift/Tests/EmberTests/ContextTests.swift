import Ember
import Testing

@Suite struct ContextTests {
    @Test func info() throws {
        let options = ContextOptions(size: 64, sequences: 3, batch: 16, threads: 1, kvType: .f32)
        let info = try newContext(options).info
        #expect((info.size, info.sequences, info.batch, info.threads) == (64, 3, 16, 1))
        expectRefusal(.invalidArgument, "0") { try newContext(ContextOptions(sequences: 0)) }
        expectRefusal(.invalidArgument, "-1") { try newContext(ContextOptions(size: -1)) }
        expectRefusal(.invalidArgument) { try newContext(ContextOptions(threads: Int(Int32.max))) }
        expectRefusal(.invalidArgument) { try newContext(ContextOptions(threads: Int.max)) }
        expectRefusal(.invalidArgument) { try newContext(ContextOptions(workerCPUs: [1 << 20])) }
        var mixed = ContextOptions(threads: 1, backend: .scalar)
        mixed.keyType = .q8
        _ = try newContext(mixed)
    }

    @Test func decodeAndLogits() throws {
        let context = try newContext()
        let tokens = try bundled.tokenize(prompt)
        try context.decode(tokens)
        #expect(try context.past() == tokens.count)
        let last = tokens.count - 1
        let logits = try context.logits(at: last)
        #expect(logits.count == 3072)
        let greedy = try Sampler(.greedy)
        let token = try context.withLogits(at: last) { view in
            #expect(view.elementsEqual(logits))
            // In use meanwhile: nothing may change the numbers.
            expectRefusal(.busy) { try context.past() }
            expectRefusal(.busy) { try context.decode([1]) }
            expectRefusal(.busy) { try context.generate(prompt) }
            return try greedy.sample(view)
        }
        #expect(token == 12)  // as in the golden file
        struct Stop: Error {}
        #expect(throws: Stop.self) { try context.withLogits(at: last) { _ in throw Stop() } }
        #expect(try greedy.sample(logits) == 12)

        expectRefusal(.notFound) { try context.logits(at: 0) }
        expectRefusal(.notFound, "-1") { try context.logits(at: -1) }
        try context.rewind(to: 2)
        #expect(try context.past() == 2)
        expectRefusal(.notFound) { try context.logits(at: last) }
        expectRefusal(.invalidArgument) { try context.rewind(to: 3) }
        expectRefusal(.invalidArgument, "-1") { try context.rewind(sequence: -1) }
        expectRefusal(.invalidArgument, "7") { try context.past(sequence: 7) }
    }

    @Test func decodeBatch() throws {
        let context = try newContext(ContextOptions(sequences: 2, threads: 1))
        try context.decode(
            Context.Batch(
                [47, 47, 1069, 602], positions: [0, 0, 1, 1], sequences: [0, 1, 0, 1],
                wantLogits: [true, false, true, true]))
        expectRefusal(.notFound) { try context.logits(at: 1) }
        let alone = try newContext()
        try alone.decode([47, 1069])
        #expect(try context.logits(at: 2) == alone.logits(at: 1))
        try context.decode([588], sequence: 1)
        #expect(try context.past(sequence: 1) == 3)

        expectRefusal(.invalidArgument, "sequences") { try context.decode(Context.Batch([1, 2], sequences: [0])) }
        expectRefusal(.invalidArgument, "9") { try context.decode(Context.Batch([1], positions: [9])) }
        expectRefusal(.invalidArgument, "99999") { try context.decode([99999]) }
        expectRefusal(.invalidArgument) { try context.decode([]) }
        expectRefusal(.contextFull) { try newContext(ContextOptions(size: 2, threads: 1)).decode([1, 2, 3]) }
    }

    @Test func sampler() throws {
        let logits: [Float] = [0, 3, 2, 1]
        let sampler = try Sampler(seed: 5, .topK(3), .topP(0.99), .temperature(2))
        let first = try (0..<20).map { _ in try sampler.sample(logits) }
        try sampler.reset()
        #expect(try (0..<20).map { _ in try sampler.sample(logits) } == first)
        #expect(!first.contains(0))
        expectRefusal(.invalidArgument, "-1") { try Sampler(.temperature(-1)) }
        expectRefusal(.invalidArgument, "0") { try Sampler(.topP(0)) }
        expectRefusal(.invalidArgument, "-4") { try Sampler(.topK(-4)) }
        expectRefusal(.invalidArgument) { try sampler.sample([]) }
        expectRefusal(.invalidArgument) { try sampler.sample([.nan]) }

        let chance = try Sampler()
        let copy = try chance.copy()
        #expect(try copy.seed == chance.seed)
        for _ in 0..<8 { #expect(try copy.sample(logits) == chance.sample(logits)) }
    }

    @Test func stages() throws {
        let logits: [Float] = [1, 5, 4, 3]
        func sample(_ stages: Sampler.Stage...) throws -> Token {
            let sampler = try Sampler(seed: 3, stages)
            try sampler.accept(1)
            return try sampler.sample(logits)
        }
        #expect(try sample(.minP(1)) == 1)
        #expect(try sample(.penalties(last: 8, presence: 9), .greedy) == 2)
        #expect(try sample(.penalties(last: 8, presence: 9), .penaltiesOfGenerated, .greedy) == 1)
        #expect(try sample(.bias([0: 9, 1: -.infinity]), .greedy) == 0)
        #expect(try sample(.allow([0, 3]), .greedy) == 3)
        #expect(try sample(.deny([1, 2]), .greedy) == 3)
        #expect(try sample(.xtc(probability: 1, threshold: 0.2), .greedy) == 2)
        for stage: Sampler.Stage in [.typicalP(0.9), .dynamicTemperature(1, range: 0.5), .mirostat(tau: 5, eta: 0.1)] {
            #expect(try sample(stage) < 4)
        }
        expectRefusal(.invalidArgument, "2") { try Sampler(.minP(2)) }
        expectRefusal(.invalidArgument, "-5") { try Sampler(.penalties(last: -5)) }
        expectRefusal(.invalidArgument, "0") { try Sampler(.penalties(last: 1, repeat: 0)) }
        expectRefusal(.invalidArgument) { try Sampler(.bias([1: .nan])) }
    }

    @Test func dry() throws {
        let logits: [Float] = [1, 5, 4, 3]
        func sample(_ breakers: [String]?) throws -> Token {
            let sampler = try Sampler(.dry(bundled, multiplier: 9, breakers: breakers), .greedy)
            for token: Token in [12, 302, 1, 12, 302] { try sampler.accept(token) }
            return try sampler.sample(logits)
        }
        let comma = try bundled.detokenize([12])
        #expect(comma == ",")
        #expect(try sample(nil) == 2)  // 1 would say ", I" and the next again
        #expect(try sample([]) == 2)
        #expect(try sample([comma]) == 1)
        expectRefusal(.invalidArgument, "-3") { try Sampler(.dry(bundled, last: -3)) }
        expectRefusal(.invalidArgument) { try Sampler(.dry(bundled, multiplier: .nan)) }
    }

    @Test func aStageOfOnesOwn() throws {
        let logits: [Float] = [1, 5, 4, 3]
        let sampler = try Sampler(
            .topK(3),
            .custom { tokens, logits in
                #expect(Array(tokens) == [1, 2, 3])
                logits[0] = -.infinity
            }, .greedy)
        #expect(try sampler.sample(logits) == 2)
        #expect(try sampler.copy().sample(logits) == 2)

        struct Own: Error {}
        weak var mark: Counter?
        do {
            let counter = Counter()
            mark = counter
            let context = try newContext()
            // The generation keeps the sampler, and that its stages; a copy keeps them too.
            let generation = try context.generate(
                prompt,
                sampler: Sampler(
                    .custom { _, _ in
                        counter.add()
                        if counter.count == 3 { throw Own() }
                    }, .greedy
                ).copy())
            #expect(try generation.next()?.text == ",")
            _ = try generation.next()
            #expect(throws: Own.self) { try generation.next() }
            #expect(try generation.next() == nil && generation.finishReason == .cancelled)
            #expect(try context.complete(" and", options: GenerateOptions(maxTokens: 2)).tokens.count == 2)
        }
        #expect(mark == nil)
        expectRefusal(.invalidArgument) { try Sampler(.custom { _, logits in logits[0] = .nan }).sample(logits) }
    }

    @Test func embed() throws {
        let context = try newContext()
        let texts = ["The sea.", "A longer text about the old king.", "🌙"]
        let vectors = try context.embed(texts)
        #expect(vectors.count == 3)
        #expect(isNear(dot(vectors[1], vectors[1]), 1, 1e-5))
        let tokens = try texts.map { try bundled.tokenize($0) }
        #expect(try context.embed(tokens: tokens) == vectors)
        #expect(try context.embed(texts, options: EmbedOptions(pooling: .none)).count == tokens.joined().count)
        let raw = try context.embed(texts, options: EmbedOptions(pooling: .last, normalize: false))
        #expect(!isNear(dot(raw[0], raw[0]), 1, 1e-3))

        #expect((try? context.embed([]))?.isEmpty ?? true)
        expectRefusal(.invalidArgument, "1") { try context.embed(["fine", ""]) }
        let long = [String(repeating: "word ", count: 2000)]
        expectRefusal(.contextFull, "0") { try context.embed(long) }
        #expect(try context.embed(long, options: EmbedOptions(truncate: true)).count == 1)
    }
}

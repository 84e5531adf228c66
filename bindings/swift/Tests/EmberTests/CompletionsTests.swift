import Ember
import Testing

@Suite struct CompletionsTests {
    private func drawn(_ seed: UInt64) throws -> Sampler { try Sampler(seed: seed, .temperature(1.1)) }

    private let options = GenerateOptions(maxTokens: 12, logprobs: true)

    @Test func eachIsAsAlone() throws {
        let context = try newContext(ContextOptions(size: 128, sequences: 3, threads: 1))
        let all = try context.completions(prompt, count: 3, options: options, sampler: drawn(21))
        #expect(try all.usage(of: 1).finishReason == nil)
        expectRefusal(.invalidArgument, "has not ended") { try all.rank() }
        var texts = ["", "", ""]
        var sums = [0.0, 0, 0]
        var ends: [Int] = []
        while let turn = try all.next() {
            texts[turn.index] += turn.event.text
            sums[turn.index] += Double(turn.event.logprob ?? 0)
            if turn.event.kind == .end {
                ends.append(turn.index)
                #expect(try turn.event.usage == all.usage(of: turn.index))
                #expect(turn.event.usage?.generatedTokens == 12 && turn.event.finishReason == .maxTokens)
            }
        }
        #expect(ends.sorted() == [0, 1, 2])
        #expect(try all.next() == nil)
        #expect(Set(texts).count > 1)
        for index in 0..<3 {
            let alone = try newContext(ContextOptions(size: 128, threads: 1)).complete(
                prompt, options: options, sampler: drawn(21 + UInt64(index)))
            #expect(alone.text == texts[index])
            #expect(try all.text(of: index) == texts[index])
        }
        let rank = try all.rank()
        #expect(rank.sorted() == [0, 1, 2])
        // All have 12 tokens.
        for (better, worse) in zip(rank, rank.dropFirst()) { #expect(sums[better] >= sums[worse]) }
        expectRefusal(.invalidArgument, "no completion 3") { try all.text(of: 3) }
        expectRefusal(.invalidArgument, "-1") { try all.usage(of: -1) }
        expectRefusal(.invalidArgument, "4 completions") { try context.completions(prompt, count: 4) }
    }

    @Test func tokensAndSequences() throws {
        let context = try newContext(ContextOptions(size: 128, sequences: 3, threads: 1))
        let two = GenerateOptions(maxTokens: 6, sequence: 1)
        let greedy = try context.completions(tokens: bundled.tokenize(prompt), count: 2, options: two)
        try greedy.finish()
        let alone = try newContext().complete(prompt, options: GenerateOptions(maxTokens: 6))
        #expect(try greedy.text(of: 0) == alone.text)
        #expect(try greedy.text(of: 1) == alone.text)
        #expect(try context.past(sequence: 0) == 0 && context.past(sequence: 2) > 6)
    }

    @Test func endEarly() async throws {
        let token = CancelToken()
        let context = try newContext(ContextOptions(sequences: 2, threads: 1))
        let endless = GenerateOptions(maxTokens: 200, ignoreEndOfGeneration: true)
        let all = try context.completions(prompt, count: 2, options: endless, cancelToken: token)
        _ = try #require(try all.next())
        token.cancel()
        var reasons: [FinishReason] = []
        while let turn = try all.next() { if let reason = turn.event.finishReason { reasons.append(reason) } }
        #expect(reasons == [.cancelled, .cancelled])

        struct Enough: Error {}
        let stage = try Sampler(.custom { _, _ in throw Enough() })
        #expect(throws: Enough.self) { try context.completions("The", count: 2, sampler: stage).finish() }

        let shared = try AsyncContext(bundled, options: ContextOptions(sequences: 2, threads: 1))
        let texts = try await shared.withContext { context in
            let all = try context.completions(prompt, count: 2, options: GenerateOptions(maxTokens: 4))
            try all.finish()
            return [try all.text(of: 0), try all.text(of: 1)]
        }
        #expect(texts[0] == texts[1] && !texts[0].isEmpty)
    }
}

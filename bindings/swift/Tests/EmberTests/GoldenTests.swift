import Ember
import Foundation
import Testing

/// `tests/golden/bindings.json`, which the C library made and every binding must give.
struct Golden: Decodable {
    struct Generate: Decodable {
        struct Sampling: Decodable {
            struct Stage: Decodable {
                let stage: String
                let value: Double
            }
            let seed: UInt64
            let stages: [Stage]
        }
        let name: String
        let prompt: String
        let promptTokens: [Token]
        let maxTokens: Int
        let stops: [String]
        let sampler: Sampling?
        let tokens: [Token]
        let text: String
        let finish: String
    }
    struct Embeddings: Decodable {
        let texts: [String]
        let nEmbd: Int
        let vectors: [[Float]]
        let cosine: Double
    }
    struct Score: Decodable {
        struct Entry: Decodable {
            let token: Token
            let logprob: Double
            let rank: Int
        }
        let prompt: String
        let continuation: String
        let tokens: [Entry]
        let logprob: Double
        let isGreedy: Bool
    }
    struct Shift: Decodable {
        let model: String
        let nCtx: Int
        let promptTokens: [Token]
        let maxTokens: Int
        let nKeep: Int
        let nDrop: Int
        let tokens: [Token]
        let finish: String
        let nShifted: Int
    }
    let generate: [Generate]
    let embeddings: Embeddings
    let score: Score
    let shift: Shift

    static func read() throws -> Golden {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(Golden.self, from: Data(readFile("tests/golden/bindings.json").utf8))
    }
}

extension Golden.Generate {
    var options: GenerateOptions { GenerateOptions(maxTokens: maxTokens, stop: stops) }

    func newSampler() throws -> Sampler? {
        guard let sampler else { return nil }
        return try Sampler(
            seed: sampler.seed,
            sampler.stages.map { stage in
                switch stage.stage {
                case "temperature": .temperature(Float(stage.value))
                case "top_k": .topK(Int(stage.value))
                case "top_p": .topP(Float(stage.value))
                default: throw EmberError.Unknown(stage: stage.stage)
                }
            })
    }
}

extension EmberError {
    struct Unknown: Error { let stage: String }
}

@Suite struct GoldenTests {
    @Test func generations() async throws {
        let golden = try Golden.read().generate
        #expect(golden.count >= 8)
        for want in golden {
            #expect(try bundled.tokenize(want.prompt) == want.promptTokens)

            var text = ""
            var tokens: [Token] = []
            var last: Event?
            let generation = try newContext().generate(want.prompt, options: want.options, sampler: want.newSampler())
            while let event = try generation.next() {
                text += event.text
                if event.kind == .token { tokens.append(try #require(event.token)) }
                last = event
            }
            #expect(tokens == want.tokens, "\(want.name)")
            #expect(text == want.text, "\(want.name)")
            #expect(last?.kind == .end)
            #expect(last?.finishReason?.description == want.finish, "\(want.name)")
            #expect(last?.usage?.promptTokens == want.promptTokens.count)
            #expect(generation.finishReason == last?.finishReason)

            // The same through tasks, and from tokens.
            text = ""
            let context = try AsyncContext(bundled, options: ContextOptions(threads: 1))
            for try await event in context.generate(want.prompt, options: want.options, sampler: try want.newSampler())
            {
                text += event.text
            }
            #expect(text == want.text, "\(want.name)")
            let whole = try newContext().complete(
                tokens: want.promptTokens, options: want.options, sampler: want.newSampler())
            #expect(whole.text == want.text, "\(want.name)")
            #expect(whole.tokens == want.tokens, "\(want.name)")
        }
    }

    /// The vectors of a folder with a Dense module are narrower than the model's layers.
    @Test func denseVectors() throws {
        struct Dense: Decodable {
            struct Case: Decodable {
                let base: String
                let normalize: Bool
                let dimensions: Int?
                let rows: [[Float]]
            }
            let texts: [String]
            let cases: [Case]
        }
        let golden = try JSONDecoder().decode(Dense.self, from: Data(readFile("tests/fixtures/dense.json").utf8))
        let model = try Model(root + "/tests/fixtures/dense-folder")
        #expect(model.info.embeddingLength == 36 && model.info.vectorLength == 7 && model.info.prompts == 3)
        let context = try Context(model)
        // Those of BERT with a Dense module: 7 numbers, or the first 3 of them.
        let cases = golden.cases.filter { $0.base == "bert" && [3, 7].contains($0.rows[0].count) }
        #expect(cases.count == 2)
        for want in cases {
            let options = EmbedOptions(normalize: want.normalize, dimensions: want.dimensions ?? 0)
            let vectors = try context.embed(golden.texts, options: options)
            #expect(vectors.count == want.rows.count)
            for (vector, row) in zip(vectors, want.rows) {
                #expect(vector.count == row.count)
                #expect(zip(vector, row).allSatisfy { abs($0 - $1) <= 2e-3 })
            }
        }
        let prompted = try context.embed(golden.texts.map { "w5 w6 " + $0 })
        #expect(try context.embed(golden.texts, options: EmbedOptions(prompt: "query")) == prompted)
        let rows = try context.embed(["w7 w8"], options: EmbedOptions(pooling: .none))
        #expect(rows.allSatisfy { $0.count == 36 })
        let cut = try context.embed(["w7 w8"], options: EmbedOptions(pooling: .none, dimensions: 5))
        #expect(cut == rows.map { Array($0.prefix(5)) })
        expectRefusal(.invalidArgument, "1 to 7") {
            try context.embed(["w7"], options: EmbedOptions(dimensions: 8))
        }
        expectRefusal(.invalidArgument, "\"passage\"") {
            try context.embed(["w7"], options: EmbedOptions(prompt: "passage"))
        }
    }

    @Test func embeddings() async throws {
        let want = try Golden.read().embeddings
        let vectors = try newContext().embed(want.texts)
        #expect(vectors.count == want.vectors.count)
        for (vector, want) in zip(vectors, want.vectors) {
            #expect(vector.count == want.count)
            #expect(zip(vector, want).allSatisfy { abs($0 - $1) <= 0.01 })
        }
        #expect(isNear(dot(vectors[0], vectors[1]), want.cosine, 0.01))
        let context = try AsyncContext(bundled, options: ContextOptions(threads: 1))
        #expect(try await context.embed(want.texts) == vectors)
    }

    @Test func score() async throws {
        let want = try Golden.read().score
        let context = try newContext()
        let score = try context.score(want.prompt, want.continuation)
        #expect(score.tokens.map(\.token) == want.tokens.map(\.token))
        #expect(score.tokens.map(\.rank) == want.tokens.map(\.rank))
        #expect(zip(score.tokens, want.tokens).allSatisfy { isNear(Double($0.logprob), $1.logprob, 0.1) })
        #expect(isNear(score.logprob, want.logprob, 0.2))
        #expect(score.isGreedy == want.isGreedy)

        let promptTokens = try bundled.tokenize(want.prompt)
        let again = try context.score(tokens: promptTokens, score.tokens.map(\.token))
        #expect(isNear(again.logprob, score.logprob, 1e-3))
        #expect(again.promptTokens == promptTokens.count)
        #expect(again.reusedTokens > 0)
        let async = try AsyncContext(bundled, options: ContextOptions(threads: 1))
        #expect(try await async.score(want.prompt, want.continuation).logprob == score.logprob)
    }

    @Test func shift() throws {
        let want = try Golden.read().shift
        let context = try Context(
            Model(root + "/" + want.model), options: ContextOptions(size: want.nCtx, threads: 1))
        let options = GenerateOptions(
            maxTokens: want.maxTokens, shift: .init(keep: want.nKeep, drop: want.nDrop))
        let answer = try context.complete(tokens: want.promptTokens, options: options)
        #expect(answer.tokens == want.tokens)
        #expect(answer.finishReason?.description == want.finish)
        #expect(answer.usage.shiftedTokens == want.nShifted)
    }
}

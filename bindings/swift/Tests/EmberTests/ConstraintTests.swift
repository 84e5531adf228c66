import Ember
import Foundation
import Testing

@Suite struct ConstraintTests {
    private func constrained(_ form: Constraint.Form) throws -> String {
        let context = try newContext()
        let options = GenerateOptions(maxTokens: 200, constraint: try Constraint(bundled, form))
        let done = try context.complete(
            "The king said", options: options, sampler: Sampler(seed: 5, .temperature(1.5)))
        #expect(done.finishReason == .endOfGeneration && done.usage.progress == .complete)
        return done.text
    }

    @Test func forms() throws {
        let schema: JSON = [
            "type": "object", "properties": ["answer": ["enum": ["yes", "no"]]], "required": ["answer"],
            "additionalProperties": false,
        ]
        for form in [Constraint.Form.jsonSchema(schema), .jsonSchemaText(schema.description)] {
            let answer = try JSON(parsing: constrained(form))["answer"]
            #expect(answer == "yes" || answer == "no")
        }
        let code = try constrained(.regex("[a-c]{3}-[0-9]{1,3}0"))
        #expect(try /[a-c]{3}-[0-9]{1,3}0/.wholeMatch(in: code) != nil, "\(code)")
        #expect(try constrained(.lark("start: \"ab\" \"cd\"\n")) == "abcd")
        #expect(try ["Grüße", "🌙"].contains(constrained(.choices(["Grüße", "🌙"]))))
    }

    @Test func cutOffAndWaiting() throws {
        let object = try Constraint(bundled, .jsonObject)
        let cut = try newContext().complete("The king", options: GenerateOptions(maxTokens: 1, constraint: object))
        #expect(cut.usage.progress == .unfinished)
        let lazy = ConstraintOptions(whitespace: 0, triggers: ["never said"], repeats: true)
        let waits = try Constraint(bundled, .jsonObject, options: lazy)
        let free = try newContext().complete(prompt, options: GenerateOptions(maxTokens: 4, constraint: waits))
        #expect(free.text == ", I was in" && free.usage.progress == .waiting)
        let comma = try bundled.tokenize(",", addSpecial: false)
        let after = try Constraint(bundled, .choices([" he said"]), options: ConstraintOptions(triggerTokens: comma))
        let said = try newContext().complete(prompt, options: GenerateOptions(maxTokens: 9, constraint: after))
        #expect(said.text == ", he said")
        #expect(try newContext().complete(prompt, options: GenerateOptions(maxTokens: 1)).usage.progress == .none)
    }

    @Test func stagesAndEngines() async throws {
        let only = try Constraint(bundled, .choices(["only this"]))
        let sampler = try Sampler(.constraint(only), .greedy)
        #expect(try newContext().complete(prompt, sampler: sampler).text == "only this")
        #expect(try sampler.progress == .complete)
        let engine = try Engine(bundled)
        let done = try await engine.complete(prompt, options: GenerateOptions(constraint: only))
        #expect(done.text == "only this" && done.usage.forcedTokens > 0)
    }

    @Test func refusals() throws {
        expectRefusal(.unsupported, "propertyNames") {
            try Constraint(bundled, .jsonSchema(["propertyNames": ["maxLength": 3]]))
        }
        expectRefusal(.invalidArgument) { try Constraint(bundled, .jsonSchemaText("{\"type\": \"nothing\"}")) }
        expectRefusal(.invalidArgument) { try Constraint(bundled, .choices([])) }
        expectRefusal(.invalidArgument, "repeat") {
            try Constraint(bundled, .jsonObject, options: ConstraintOptions(repeats: true))
        }
        expectRefusal(.invalidArgument, "limit") {
            try Constraint(bundled, .regex("abc"), options: ConstraintOptions(limits: [.source: 2]))
        }
    }

    @Test func stagesOfLate() throws {
        var logits = [Float](repeating: -9, count: bundled.info.vocabularySize)
        logits[7] = 9
        let proposing = try Model(modelPath, options: ModelOptions(metadata: ["general.sampling.temp": .double(0)]))
        let proposed = try Sampler(of: proposing, seed: 7)
        #expect(try proposed.seed == 7)
        for sampler in [
            try Sampler(seed: 1, .topNSigma(1), .minP(0.05), .adaptiveP(target: 0.5)),
            try Sampler(seed: 1, .mirostat1(tau: 5, eta: 0.1)),
            try Sampler(seed: 1, .topK(40), .infill(bundled), .greedy),
            proposed,
        ] {
            #expect(try sampler.sample(logits) == 7)
        }
        expectRefusal(.notFound, "general.sampling") { try Sampler(of: bundled) }
        expectRefusal(.invalidArgument, "target") { try Sampler(.adaptiveP(target: 2)) }
    }

    @Test(arguments: ["bert-rerank", "bert-labels"]) func scores(_ name: String) throws {
        let golden = try JSON(parsing: readFile("tests/fixtures/rank/scores.json"))
        let wanted = try #require(golden["scores"]?[name])
        func list(_ json: JSON?) -> [JSON] { if case .array(let values)? = json { values } else { [] } }
        func number(_ json: JSON) -> Double {
            switch json {
            case .double(let value): value
            case .int(let value): Double(value)
            default: .nan
            }
        }
        func text(_ json: JSON) -> String { if case .string(let text) = json { text } else { "" } }
        let texts = list(golden["texts"]).map(text)
        let model = try Model(root + "/tests/fixtures/rank/\(name).gguf")
        #expect(model.info.pooling == .rank)
        #expect(try model.labels == list(wanted["labels"]).map(text))
        let context = try Context(model)
        let got = try context.classify(texts)
        #expect(got.count == texts.count)
        for (scores, numbers) in zip(got, list(wanted["texts"])) {
            for (score, wanted) in zip(scores, list(numbers)) { #expect(isNear(Double(score), number(wanted), 1e-4)) }
        }
        #expect(try context.classify([]).isEmpty)
        if name == "bert-labels" {
            expectRefusal(.unsupported) { try context.rerank("a", ["b"]) }
            return
        }
        let pairs = try context.rerank(text(try #require(golden["query"])), texts)
        #expect(pairs.count == texts.count)
        for (score, wanted) in zip(pairs, list(wanted["pairs"])) {
            #expect(isNear(Double(score), number(wanted), 1e-4))
        }
        let raw = try context.rerank("who", ["the cat"], options: ClassifyOptions(activation: .none))
        let sigmoid: Double = 1 / (1 + exp(-Double(raw[0])))
        let score = try context.rerank("who", ["the cat"])
        #expect(isNear(Double(score[0]), sigmoid, 1e-6))
        let lengthy = String(repeating: "a ", count: 200)
        expectRefusal(.contextFull, "text 0") { try context.rerank("who", [lengthy]) }
        #expect(try context.rerank("who", [lengthy], options: ClassifyOptions(truncate: true)).count == 1)
    }

    @Test func tokenizersAlone() throws {
        let text = "Once upon a time <|endoftext|>"
        let file = try Data(contentsOf: URL(filePath: modelPath))
        let alone = try Tokenizer(modelPath)
        for one in [alone, try bundled.tokenizer, try Tokenizer(bytes: Array(file))] {
            for special in [false, true] {
                let tokens = try bundled.tokenize(text, parseSpecial: special)
                #expect(try one.tokenize(text, parseSpecial: special) == tokens)
                #expect(try one.tokenize(bytes: Array(text.utf8), parseSpecial: special) == tokens)
                #expect(try one.count(text, parseSpecial: special) == tokens.count)
                #expect(try one.detokenize(tokens, renderSpecial: true) == text)
            }
        }
        let end = try #require(alone.info.eos)
        #expect(alone.info.vocabularySize == bundled.info.vocabularySize && end == bundled.info.eos)
        #expect(alone.info.fimPrefix == nil && alone.info.addsBOS == bundled.info.addsBOS)
        #expect(try alone.isEndOfGeneration(end) && alone.isControl(end))
        #expect(try alone.bytes(of: end) == Array("<|endoftext|>".utf8))
        expectRefusal(.unsupported, "before the gap") { try alone.fimPrompt(prefix: "a", suffix: "b") }
        expectRefusal(.io, "no/such") { try Tokenizer("no/such/file") }
        expectRefusal(.format, "<buffer>") { try Tokenizer(bytes: Array("GGUF".utf8)) }
    }

    @Test func promptsToFillAGap() throws {
        let marks: [(String, Int64)] = [("pre", 5), ("suf", 6), ("mid", 7), ("sep", 8)]
        let metadata = marks.map { ("tokenizer.ggml.fim_\($0)_token_id", MetadataValue.int($1)) }
        let options = ModelOptions(metadata: Dictionary(uniqueKeysWithValues: metadata))
        let tokenizer = try Model(modelPath, options: options).tokenizer
        let prefix = try tokenizer.tokenize("Once upon", addSpecial: false)
        let suffix = try tokenizer.tokenize(" time.", addSpecial: false)
        func prompt(_ options: FIMOptions = FIMOptions()) throws -> [Token] {
            try tokenizer.fimPrompt(prefix: "Once upon", suffix: " time.", options: options)
        }
        let (pre, suf, mid): ([Token], [Token], [Token]) = ([5], [6], [7])
        let wanted: [Token] = [pre, prefix, suf, suffix, mid].flatMap { $0 }
        #expect(try prompt() == wanted)
        let turned: [Token] = [suf, suffix, pre, prefix, mid].flatMap { $0 }
        #expect(try prompt(FIMOptions(order: .suffixFirst)) == turned)
        #expect(try prompt(FIMOptions(file: "a", files: [.init("b", "the sea")]))[0] == 8)
        expectRefusal(.unsupported, "repository") { try prompt(FIMOptions(repository: "r")) }
    }
}

import CEmber
import Ember
import Foundation
import Testing

@Suite struct ModelTests {
    @Test func library() {
        #expect(!EmberLibrary.version.isEmpty)
        #expect(EmberLibrary.buildInfo.contains(EmberLibrary.version))
        #expect(EmberLibrary.hasFeature("chat"))
        #expect(!EmberLibrary.hasFeature("cooking"))
    }

    /// The numbers that stand in the Swift sources are those of the header.
    @Test func numbersAreTheHeaders() {
        func same(_ value: some RawRepresentable<Int32>, _ raw: some BinaryInteger) -> Bool {
            value.rawValue == Int32(raw)
        }
        #expect(same(ModelOptions.Pack.auto, EMBER_PACK_AUTO.rawValue))
        #expect(same(ModelOptions.Pack.never, EMBER_PACK_NEVER.rawValue))
        #expect(same(ModelOptions.Pack.always, EMBER_PACK_ALWAYS.rawValue))
        #expect(same(ContextOptions.KVType.f16, EMBER_KV_F16.rawValue))
        #expect(same(ContextOptions.KVType.f32, EMBER_KV_F32.rawValue))
        #expect(same(ContextOptions.KVType.q8, EMBER_KV_Q8_0.rawValue))
        #expect(same(ContextOptions.KVType.i16, EMBER_KV_I16.rawValue))
        #expect(same(ContextOptions.KVType.auto, EMBER_KV_AUTO.rawValue))
        #expect(same(ContextOptions.Backend.auto, EMBER_BACKEND_AUTO.rawValue))
        #expect(same(ContextOptions.Backend.scalar, EMBER_BACKEND_SCALAR.rawValue))
        #expect(same(Pooling.auto, EMBER_POOLING_AUTO.rawValue))
        #expect(same(Pooling.none, EMBER_POOLING_NONE.rawValue))
        #expect(same(Pooling.mean, EMBER_POOLING_MEAN.rawValue))
        #expect(same(Pooling.cls, EMBER_POOLING_CLS.rawValue))
        #expect(same(Pooling.last, EMBER_POOLING_LAST.rawValue))
        #expect(same(LogLevel.error, EMBER_LOG_ERROR.rawValue))
        #expect(same(LogLevel.warning, EMBER_LOG_WARN.rawValue))
        #expect(same(LogLevel.info, EMBER_LOG_INFO.rawValue))
        #expect(same(LogLevel.debug, EMBER_LOG_DEBUG.rawValue))
        #expect(same(Event.Kind.echo, EMBER_EVENT_ECHO.rawValue))
        #expect(same(Event.Kind.token, EMBER_EVENT_TOKEN.rawValue))
        #expect(same(Event.Kind.end, EMBER_EVENT_END.rawValue))
        #expect(same(EmberError.Status.busy, EMBER_E_BUSY.rawValue))
        #expect(same(FinishReason.stopString, EMBER_FINISH_STOP_STRING.rawValue))
    }

    @Test func info() {
        let info = bundled.info
        #expect(info.parameters == 2_912_832)
        #expect(info.vocabularySize == 3072)
        #expect(info.trainedContext == 512)
        #expect(info.embeddingLength == 192)
        #expect(info.layers == 5)
        #expect(info.heads == 3)
        #expect(info.bos == 0)
        #expect(info.hasTokenizer && info.isCausal)
        #expect(info.experts == 0 && info.expertsUsed == 0 && !info.hasChatTemplate)
        #expect(info.padding == nil)
        #expect(!bundled.isa.isEmpty)
    }

    @Test func loadOptions() async throws {
        let options = ModelOptions(useMmap: false, isa: "scalar", pack: .never)
        #expect(try Model(modelPath, options: options).isa == "scalar")
        #expect(try await Model.load(modelPath, options: options).isa == "scalar")
        expectRefusal(.invalidArgument, "abacus") { try Model(modelPath, options: ModelOptions(isa: "abacus")) }
        expectRefusal(.outOfMemory) { try Model(modelPath, options: ModelOptions(pack: .always, memoryLimit: 1000)) }
        _ = try Model(modelPath, options: ModelOptions(checkTensors: true))

        let changed = try Model(
            modelPath,
            options: ModelOptions(metadata: [
                "a.text": .string("é"), "a.bool": .bool(true), "an.int": .int(-5), "a.double": .double(0.5),
                "a.uint": .uint(7), "tokenizer.ggml.eos_token_id": .int(9),
            ]))
        #expect(changed.info.eos == 9)
        #expect(try changed.metadata("a.text") == .string("é"))
        #expect(try changed.metadata("a.bool") == .bool(true))
        #expect(try changed.metadata("an.int") == .int(-5))
        #expect(try changed.metadata("a.double") == .double(0.5))
        #expect(try changed.metadata("a.uint") == .int(7))
        for value: MetadataValue in [.uint(.max), .array(count: 1)] {
            expectRefusal(.invalidArgument, "a.key") {
                try Model(modelPath, options: ModelOptions(metadata: ["a.key": value]))
            }
        }
    }

    @Test func loadBytes() throws {
        let model = try Model(bytes: Data(contentsOf: URL(filePath: modelPath)))
        let context = try Context(model, options: ContextOptions(threads: 1))
        #expect(try context.complete(prompt, options: GenerateOptions(maxTokens: 3)).text == ", I was")
        expectRefusal(.format, "<buffer>") { try Model(bytes: Array("no GGUF".utf8)) }
        expectRefusal(.format, "<buffer>") { try Model(bytes: "no GGUF".utf8.lazy.filter { _ in true }) }
        #expect(throws: EmberError.self) { try Model(bytes: []) }
    }

    @Test func loadRefusals() async {
        expectRefusal(.io, "no such model.gguf") { try Model("no such model.gguf") }
        expectRefusal(.format, "ModelTests.swift") { try Model(#filePath) }
        await #expect { try await Model.load("no such model.gguf") } throws: { error in
            (error as? EmberError)?.status == .io && error.localizedDescription.contains("no such model.gguf")
        }
        #expect(EmberError.Status.busy.description == "EMBER_E_BUSY")
        #expect(EmberError.Status(rawValue: 12345).description == "unknown status")
    }

    @Test func tokens() throws {
        for text in ["", "The sea", "Grüße, 月! 🌙", "a\0b", String(repeating: "x9?", count: 5000)] {
            let tokens = try bundled.tokenize(text, addSpecial: false)
            #expect(try bundled.detokenize(tokens) == text)
            #expect(try tokens.flatMap(bundled.bytes) == Array(text.utf8))
        }
        let odd: [UInt8] = [0x61, 0xff, 0, 0x62]
        #expect(try bundled.detokenizeBytes(bundled.tokenize(bytes: odd, addSpecial: false)) == odd)
        #expect(try bundled.detokenize(bundled.tokenize(bytes: odd, addSpecial: false)) == "a\u{fffd}\0b")

        #expect(try bundled.tokenize("<|endoftext|>", addSpecial: false, parseSpecial: true) == [0])
        #expect(try bundled.detokenize([0]) == "")
        #expect(try bundled.detokenize([0], renderSpecial: true) == "<|endoftext|>")
        #expect(try bundled.isEndOfGeneration(0))
        #expect(try !bundled.isEndOfGeneration(1))
        #expect(try bundled.isControl(0))
        #expect(try !bundled.isControl(1))
        expectRefusal(.invalidArgument, "3072") { try bundled.isEndOfGeneration(3072) }
        expectRefusal(.invalidArgument, "3072") { try bundled.bytes(of: 3072) }
        expectRefusal(.invalidArgument, "3072") { try bundled.detokenize([1, 3072]) }
    }

    @Test func metadata() throws {
        let keys = try bundled.metadataKeys
        #expect(keys.contains("general.architecture"))
        var kinds: Set<String> = []
        for key in keys {
            switch try #require(try bundled.metadata(key)) {
            case .string: kinds.insert("string")
            case .double: kinds.insert("double")
            case .int, .uint: kinds.insert("integer")
            case .bool: kinds.insert("bool")
            case .array(let count):
                kinds.insert("array")
                guard key != "tokenizer.ggml.merges" else { continue }
                #expect(try bundled.metadataArray(key)?.count == count)
            }
        }
        #expect(kinds.isSuperset(of: ["string", "double", "integer", "array"]))
        #expect(try bundled.metadata("general.architecture") == .string("gpt2"))
        #expect(try bundled.metadata("gpt2.block_count") == .int(5))
        #expect(try bundled.metadata("no.such.key") == nil)
        #expect(try bundled.metadataArray("no.such.key") == nil)
        let tokens = try #require(try bundled.metadataArray("tokenizer.ggml.tokens"))
        #expect(tokens.count == 3072 && tokens[0] == .string("<|endoftext|>"))
        expectRefusal(.invalidArgument, "gpt2.block_count") { try bundled.metadataArray("gpt2.block_count") }
    }

    @Test func log() throws {
        let lines = Lines()
        try EmberLibrary.setLog(.info) { _, line in lines.add(line) }
        _ = try Model(modelPath)
        try EmberLibrary.setLog(.info, nil)
        #expect(lines.all.contains { $0.contains("ember-tales") })
        let count = lines.all.count
        _ = try Model(modelPath)
        #expect(lines.all.count == count)
    }

    private final class Lines: @unchecked Sendable {
        private let lock = NSLock()
        private var lines: [String] = []
        func add(_ line: String) { lock.withLock { lines.append(line) } }
        var all: [String] { lock.withLock { lines } }
    }
}

import Ember
import Foundation
import Testing

/// The repository's root.
let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../..").standardizedFileURL.path

/// The path of the bundled model.
let modelPath = root + "/examples/models/ember-tales.gguf"

/// The path of a model that can chat.
let chatModelPath =
    ProcessInfo.processInfo.environment["EMBER_CHAT_MODEL"]
    ?? NSHomeDirectory() + "/.cache/ember/models/SmolLM2-135M-Instruct.Q4_1.gguf"

/// The bundled model, loaded once.
let bundled = try! Model(modelPath)

let prompt = "Once upon a time"

func newContext(
    _ options: ContextOptions = ContextOptions(threads: 1), cancelToken: CancelToken? = nil
) throws -> Context {
    try Context(bundled, options: options, cancelToken: cancelToken)
}

/// The path of a small model of the fixtures.
func fixture(_ name: String) -> String { root + "/tests/fixtures/models/\(name).gguf" }

func readFile(_ path: String) throws -> String {
    try String(contentsOfFile: root + "/" + path, encoding: .utf8)
}

/// Expects that the library refuses `body` with this status and a sentence that names the culprit.
func expectRefusal<R>(
    _ status: EmberError.Status, _ culprit: String = "", sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () throws -> R
) {
    do {
        _ = try body()
        Issue.record("it was not refused", sourceLocation: sourceLocation)
    } catch let error as EmberError {
        #expect(error.status == status, "\(error.status): \(error)", sourceLocation: sourceLocation)
        #expect(culprit.isEmpty || error.message.contains(culprit), "\(error)", sourceLocation: sourceLocation)
    } catch {
        Issue.record(error, sourceLocation: sourceLocation)
    }
}

func dot(_ a: [Float], _ b: [Float]) -> Double { zip(a, b).reduce(0) { $0 + Double($1.0) * Double($1.1) } }

func isNear(_ a: Double, _ b: Double, _ tolerance: Double) -> Bool { abs(a - b) <= tolerance }

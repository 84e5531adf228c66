import Dispatch
import Ember
import Foundation

/// What the examples share: `-m MODEL -p PROMPT -n N --temp T --top-k K --top-p P --seed S`, and texts without an option
/// before them.
public struct Options: Sendable {
    public var model = "examples/models/ember-tales.gguf"
    public var prompt = "The sea was calm, and the moon"
    public var tokens = 128
    public var temperature: Float = 0.8
    public var topK = 40
    public var topP: Float = 0.95
    public var seed: UInt64?
    public var texts: [String] = []

    init(_ arguments: some Sequence<String>) throws {
        var arguments = arguments.makeIterator()
        while let name = arguments.next() {
            func value() throws -> String {
                if let value = arguments.next() { return value }
                throw UsageError("the option \(name) needs a value after it")
            }
            func number<T: LosslessStringConvertible>() throws -> T {
                let text = try value()
                if let number = T(text) { return number }
                throw UsageError("the option \(name) takes a number, not \"\(text)\"")
            }
            switch name {
            case "-m": model = try value()
            case "-p": prompt = try value()
            case "-n": tokens = try number()
            case "--temp": temperature = try number()
            case "--top-k": topK = try number()
            case "--top-p": topP = try number()
            case "--seed": seed = try number()
            case _ where name.count > 1 && name.hasPrefix("-"): throw UsageError("there is no option \(name)")
            default: texts.append(name)
            }
        }
    }

    public func sampler() throws -> Sampler {
        try Sampler(seed: seed, .topK(topK), .topP(topP), .temperature(temperature))
    }
}

/// A command line that makes no sense.
public struct UsageError: Error, CustomStringConvertible {
    public let description: String
    public init(_ description: String) { self.description = description }
}

/// Runs a program with its options; what it throws becomes a sentence and an exit code: 1 refused, 2 a wrong command line.
/// Ctrl-C cancels the program's task; a second one ends the process at once.
public func run(_ body: @escaping @Sendable (Options) async throws -> Void) async -> Never {
    do {
        let options = try Options(CommandLine.arguments.dropFirst())
        let task = Task { try await body(options) }
        signal(SIGINT, SIG_IGN)
        let interrupts = DispatchSource.makeSignalSource(signal: SIGINT)
        interrupts.setEventHandler {
            task.cancel()
            signal(SIGINT, SIG_DFL)
        }
        interrupts.resume()
        try await task.value
        exit(0)
    } catch {
        let code: Int32 =
            switch error {
            case is UsageError: 2
            case is CancellationError: 130
            default: 1
            }
        FileHandle.standardError.write(Data("\(CommandLine.arguments[0]): \(error)\n".utf8))
        exit(code)
    }
}

/// Prints text as it is, at once.
public func show(_ text: String) {
    print(text, terminator: "")
    fflush(nil)
}

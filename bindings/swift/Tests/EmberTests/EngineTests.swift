import Ember
import Foundation
import Testing

private let openings = [prompt, "The wolf said", "The sea was calm, and the moon", "An old man had"]

private func newEngine(parallel: Int = 6, maxQueue: Int = 256, sharePrefixes: Bool = true) throws -> Engine {
    let context = ContextOptions(size: 256, threads: 1)
    return try Engine(
        bundled,
        options: EngineOptions(
            parallel: parallel, maxQueue: maxQueue, sharePrefixes: sharePrefixes, context: context))
}

private let long = GenerateOptions(maxTokens: 200, ignoreEndOfGeneration: true)

private struct Enough: Error {}

/// A sampler whose stage keeps the engine waiting until it is let go.
private final class Gate: Sendable {
    private let inside = DispatchSemaphore(value: 0)
    private let open = DispatchSemaphore(value: 0)

    func hold(_ engine: Engine) throws -> Request {
        let sampler = try Sampler(
            .custom { _, _ in
                self.inside.signal()
                self.open.wait()
            }, .greedy)
        let request = try engine.submit(prompt, options: GenerateOptions(maxTokens: 1), sampler: sampler)
        inside.wait()
        return request
    }

    func letGo() { open.signal() }
}

@Suite struct EngineTests {
    @Test func requestsGiveWhatTheyGiveAlone() async throws {
        let count = 24
        let options = { (i: Int) in
            GenerateOptions(maxTokens: 4 + i % 9, echo: i % 2 == 0, topLogprobs: i % 3)
        }
        let sampler = { (i: Int) in
            i % 3 == 0 ? nil : try Sampler(seed: UInt64(i), .topK(20), .temperature(0.8))
        }
        let context = try newContext(ContextOptions(size: 256, threads: 1))
        let alone = try (0..<count).map { i in
            try context.rewind()
            var events: [String] = []
            try context.generate(openings[i % 4], options: options(i), sampler: sampler(i)).forEach {
                events.append("\($0.kind) \($0.text) \($0.bytes) \($0.top) \(String(describing: $0.finishReason))")
            }
            return events
        }
        let engine = try newEngine()
        #expect(engine.info.size == 256 && engine.info.sequences == 6)
        var together = Array(repeating: [String](), count: count)
        try await withThrowingTaskGroup(of: (Int, [String]).self) { group in
            for i in 0..<count {
                let (options, sampler) = (options(i), try sampler(i))
                group.addTask {
                    var events: [String] = []
                    let request = try engine.submit(openings[i % 4], options: options, sampler: sampler)
                    for try await event in request {
                        events.append(
                            "\(event.kind) \(event.text) \(event.bytes) \(event.top) \(String(describing: event.finishReason))"
                        )
                        if event.kind == .end { #expect(event.usage?.generatedTokens == 4 + i % 9) }
                    }
                    return (i, events)
                }
            }
            for try await (i, events) in group { together[i] = events }
        }
        #expect(together == alone)
        let metrics = try engine.metrics
        #expect(metrics.submitted == count && metrics.finished == count && metrics.queued + metrics.active == 0)
        #expect(metrics.steps > 0 && metrics.busy > .zero && metrics.tokensPerSecond > 0 && metrics.pages >= 6)
        let tokens = try await engine.submit(tokens: [1, 300, 301], options: GenerateOptions(maxTokens: 5)).complete()
        #expect(tokens.tokens.count == 5 && tokens.finishReason == .maxTokens)
    }

    @Test func cancelling() async throws {
        let engine = try newEngine()
        let request = try engine.submit(prompt, options: long)
        request.cancel()
        #expect(try await request.complete().finishReason == .cancelled)
        let (counts, counted) = AsyncStream.makeStream(of: Int.self)
        let task = Task {
            var events: [Event] = []
            for try await event in try engine.submit(prompt, options: long) {
                events.append(event)
                counted.yield(events.count)
            }
            return events
        }
        for await count in counts where count == 3 {
            task.cancel()
            break
        }
        let events = try await task.value
        #expect(events.last?.finishReason == .cancelled && events.last?.usage != nil)
        // A loop that is left lets its request go.
        for try await _ in try engine.submit(prompt, options: long) { break }
        #expect(try await engine.complete(prompt, options: GenerateOptions(maxTokens: 2)).tokens.count == 2)
    }

    @Test func queueAndPriority() async throws {
        let engine = try newEngine(parallel: 1, maxQueue: 2)
        let gate = Gate()
        let running = try gate.hold(engine)
        let one = GenerateOptions(maxTokens: 1, priority: -1)
        let low = try engine.submit(openings[1], options: one)
        let high = try engine.submit(openings[2], options: GenerateOptions(maxTokens: 1, priority: 7))
        expectRefusal(.queueFull) { try engine.submit(openings[3]) }
        #expect(try engine.metrics.refused == 1)
        gate.letGo()
        #expect(try await low.complete().finishReason == .maxTokens)
        #expect(try high.usage.finishReason == .maxTokens)  // which began first
        #expect(try await running.complete().tokens.count == 1)
    }

    @Test func timeLimit() async throws {
        let engine = try newEngine()
        let hour = GenerateOptions(maxTokens: 4, timeLimit: .seconds(3600))
        #expect(try await engine.complete(prompt, options: hour).finishReason == .maxTokens)
        var reason: FinishReason?
        while reason != .timeLimit {  // as long as the machine makes all tokens within a millisecond
            var options = long
            options.timeLimit = .nanoseconds(1)
            reason = try await engine.complete(prompt, options: options).finishReason
        }
        #expect(reason?.description == "time_limit")
        expectRefusal(.invalidArgument, "time limit") {
            try engine.submit(prompt, options: GenerateOptions(timeLimit: .seconds(-1)))
        }
    }

    @Test func prefixesAreShared() async throws {
        let system = String(repeating: "The sea was calm, and the moon was bright. ", count: 8)
        let one = GenerateOptions(maxTokens: 1)
        for share in [true, false] {
            let engine = try newEngine(sharePrefixes: share)
            for line in ["The wolf", "The king"] { _ = try await engine.complete(system + line, options: one) }
            #expect(try (engine.metrics.reusedTokens > 0) == share)
        }
    }

    @Test func stages() async throws {
        let odd = { @Sendable (tokens: UnsafeBufferPointer<Token>, logits: UnsafeMutableBufferPointer<Float>) in
            for (index, token) in tokens.enumerated() where token % 2 == 0 { logits[index] = -.infinity }
        }
        let options = GenerateOptions(maxTokens: 4)
        let alone = try newContext().complete(prompt, options: options, sampler: Sampler(.custom(odd), .greedy))
        let engine = try newEngine()
        let request = try engine.submit(prompt, options: options, sampler: Sampler(.custom(odd), .greedy))
        #expect(try await request.complete().tokens == alone.tokens)
        let refused = try engine.submit(prompt, sampler: Sampler(.custom { _, _ in throw Enough() }))
        let fine = try engine.submit(prompt, options: options)
        await #expect(throws: Enough.self) { try await refused.complete() }
        #expect(try await fine.complete().tokens.count == 4)
        // Requests that nobody waits for keep what their stages need.
        for _ in 0..<4 { _ = try engine.submit(prompt, options: long, sampler: Sampler(.custom(odd), .greedy)) }
    }

    @Test func refusals() throws {
        expectRefusal(.invalidArgument, "-1") { try newEngine(parallel: -1) }
        expectRefusal(.invalidArgument, "4097") { try newEngine(parallel: 4097) }
        let engine = try newEngine()
        expectRefusal(.invalidArgument) { try engine.submit("") }
        expectRefusal(.contextFull, "256") { try engine.submit(tokens: Array(repeating: 47, count: 300)) }
        expectRefusal(.invalidArgument, "99999") { try engine.submit(tokens: [99999]) }
    }

    @Test func requestsKeepTheirEngine() async throws {
        let request = try newEngine().submit(prompt, options: GenerateOptions(maxTokens: 5))
        #expect(try await request.complete().tokens.count == 5)
    }
}

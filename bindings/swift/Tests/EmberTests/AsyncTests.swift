import Ember
import Foundation
import Testing

private func newAsyncContext(_ options: ContextOptions = ContextOptions(threads: 1)) throws -> AsyncContext {
    try AsyncContext(bundled, options: options)
}

private let endless = GenerateOptions(maxTokens: 450, ignoreEndOfGeneration: true)

@Suite struct AsyncTests {
    @Test func tasksShareAModel() async throws {
        try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    try await newAsyncContext().complete(prompt, options: GenerateOptions(maxTokens: 8)).text
                }
            }
            for try await text in group { #expect(text == ", I was in the habit of") }
        }
    }

    @Test func tasksShareAContext() async throws {
        let context = try newAsyncContext(ContextOptions(sequences: 4, threads: 1))
        try await withThrowingTaskGroup(of: String.self) { group in
            for sequence in 0..<4 {
                group.addTask {
                    var text = ""
                    let how = GenerateOptions(maxTokens: 8, sequence: sequence)
                    for try await event in context.generate(prompt, options: how) { text += event.text }
                    return text
                }
            }
            for try await text in group { #expect(text == ", I was in the habit of") }
        }
        #expect(try await context.past(sequence: 3) == 5 + 8)
        try await context.rewind(sequence: 3)
        #expect(try await context.past(sequence: 3) == 0)
    }

    @Test func cancellingEndsAStream() async throws {
        let context = try newAsyncContext()
        let (counts, counted) = AsyncStream.makeStream(of: Int.self)
        let task = Task {
            var events: [Event] = []
            for try await event in context.generate(prompt, options: endless) {
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
        #expect(events.last?.finishReason == .cancelled)
        #expect(events.last?.usage != nil)
        #expect((3..<450).contains(events.count))
        #expect(try await context.complete(" and", options: GenerateOptions(maxTokens: 2)).tokens.count == 2)
    }

    /// A call is ended in its midst, from another thread; who waits for the context after it is not.
    @Test func cancellingEndsACall() async throws {
        let context = try newAsyncContext(ContextOptions(threads: 1, backend: .scalar))
        let began = AsyncStream.makeStream(of: Void.self)
        let calls: [@Sendable (Context) throws -> Void] = [
            { try $0.decode(Array(repeating: 47, count: 500)) },
            { _ = try $0.embed(Array(repeating: String(repeating: "word ", count: 200), count: 400)) },
            { _ = try $0.score(tokens: [47], Array(repeating: 47, count: 500)) },
        ]
        var waits = began.stream.makeAsyncIterator()
        for call in calls {
            let task = Task {
                try await context.withContext { context in
                    began.continuation.yield()
                    while true {  // until it is cancelled, on a machine of any speed
                        try call(context)
                        try context.rewind()
                    }
                }
            }
            await waits.next()
            let waiting = Task { try await context.withContext { try $0.past() } }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(try await waiting.value == 0)
        }
        let task = Task {
            try await context.withContext { context in
                began.continuation.yield()
                return try context.complete(prompt, options: endless)
            }
        }
        await waits.next()
        task.cancel()
        #expect(try await task.value.finishReason == .cancelled)
    }

    @Test func cancelledBeforehand() async throws {
        let context = try newAsyncContext()
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            await #expect(throws: CancellationError.self) { try await Model.load(modelPath) }
            await #expect(throws: CancellationError.self) { try await context.embed(["The sea."]) }
            await #expect(throws: CancellationError.self) { try await context.score("The", " sea") }
            #expect(try await context.complete(prompt).finishReason == .cancelled)
            var kinds: [Event.Kind] = []
            for try await event in context.generate(prompt) { kinds.append(event.kind) }
            #expect(kinds == [.end])
        }
        try await task.value
        #expect(try await context.past() == 0)
    }

    @Test func loopLeftEarly() async throws {
        let context = try newAsyncContext()
        var count = 0
        let events = context.generate(prompt, options: GenerateOptions(maxTokens: 8, reusePrefix: true))
        for try await _ in events {
            count += 1
            if count == 3 { break }
        }
        #expect(try await context.past() == 5 + 2)
        // Each loop is a generation of its own.
        for _ in 0..<2 {
            var text = ""
            for try await event in events { text += event.text }
            #expect(text == ", I was in the habit of")
        }
    }

    @Test func refusals() async throws {
        let context = try newAsyncContext()
        await #expect { try await context.complete("") } throws: { ($0 as? EmberError)?.status == .invalidArgument }
        await #expect {
            for try await _ in context.generate(prompt, options: GenerateOptions(topLogprobs: 65)) {}
        } throws: { error in
            (error as? EmberError)?.message.contains("65") ?? false
        }
        struct Own: Error {}
        await #expect(throws: Own.self) { try await context.withContext { _ in throw Own() } }
    }

    /// A context of one's own goes to another task for good; the compiler sees that nobody keeps it.
    @Test func aContextIsSent() async throws {
        let context = try newContext()
        let text = try await Task { try context.complete(prompt, options: GenerateOptions(maxTokens: 3)).text }.value
        #expect(text == ", I was")
    }

    /// One sampler at two contexts at once: each call succeeds or is refused.
    @Test func tasksCollideAtASampler() async throws {
        let sampler = try Sampler(seed: 1, .topK(5))
        let logits = [Float](repeating: 0, count: 3000)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<200 {
                        do {
                            _ = try sampler.sample(logits)
                        } catch {
                            #expect((error as? EmberError)?.status == .busy)
                        }
                    }
                }
            }
        }
    }
}

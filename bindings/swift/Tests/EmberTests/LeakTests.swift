import Ember
import Foundation
import Testing

@Suite struct LeakTests {
    @Test func anyOrder() throws {
        var model: Model? = try Model(modelPath)
        var context: Context? = try Context(#require(model), options: ContextOptions(threads: 1))
        var sampler: Sampler? = try Sampler(seed: 1, .topK(5))
        let options = GenerateOptions(maxTokens: 4)
        let generation = try #require(context).generate(prompt, options: options, sampler: sampler)
        (model, context, sampler) = (nil, nil, nil)
        var count = 0
        try generation.forEach { _ in count += 1 }
        #expect(count == 5)
    }

    /// Nothing keeps what nobody has any more: no cycles, no contexts held by streams that have ended.
    @Test func everythingIsLetGo() async throws {
        weak var model: Model?
        weak var context: AsyncContext?
        weak var inner: Context?
        weak var token: CancelToken?
        weak var generation: Generation?
        do {
            let strong = try await Model.load(modelPath)
            let shared = try AsyncContext(strong, options: ContextOptions(threads: 1))
            (model, context) = (strong, shared)
            var events = shared.generate(prompt).makeAsyncIterator()
            _ = try await events.next()
            let task = Task { try await shared.complete(prompt) }
            task.cancel()
            _ = try? await task.value

            let own = try Context(strong, options: ContextOptions(threads: 1))
            let switched = CancelToken()
            let running = try own.generate(prompt, cancelToken: switched)
            _ = try running.next()
            (inner, token, generation) = (own, switched, running)
        }
        // The last job of the actor's queue may still be on its way out.
        for _ in 0..<500 where context != nil || model != nil { try await Task.sleep(for: .milliseconds(10)) }
        #expect(model == nil && context == nil && inner == nil && token == nil && generation == nil)
    }

    #if os(Linux)
        /// The process's memory in bytes.
        private func resident() throws -> Int {
            let statm = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
            return try #require(Int(statm.split(separator: " ")[1])) * sysconf(Int32(_SC_PAGESIZE))
        }

        /// The library frees with a call what it allocated for it: rounds of everything take no more memory.
        @Test func memoryDoesNotGrow() async throws {
            func round() async throws {
                let context = try newContext(ContextOptions(size: 64, threads: 2), cancelToken: CancelToken())
                let sampler = try Sampler(seed: 1, .topK(5))
                _ = try sampler.copy()
                let options = GenerateOptions(maxTokens: 3, stop: ["never"], topLogprobs: 5)
                _ = try context.complete(prompt, options: options, sampler: sampler)
                let generation = try context.generate(prompt, options: options)
                _ = try generation.next()
                let small = try DraftContext(bundled, options: ContextOptions(size: 64, threads: 1))
                let drafting = GenerateOptions(maxTokens: 3, lookup: .init(), draft: .init(small))
                _ = try context.complete(" and", options: drafting)
                _ = try context.embed(["The sea.", "The moon."])
                _ = try context.score("The", " sea", sequence: 0)
                _ = try bundled.applyChatTemplate([.user("x")], options: ChatOptions(template: "{{ messages }}"))
                expectRefusal(.notFound) { try context.logits(at: 99) }
                expectRefusal(.invalidArgument) { try Sampler(.topP(9)) }
                expectRefusal(.io) { try Model("no such file") }
                let tooMany = GenerateOptions(topLogprobs: 99)
                expectRefusal(.invalidArgument) { try context.generate(prompt, options: tooMany) }
                let shared = try AsyncContext(bundled, options: ContextOptions(size: 64, threads: 1))
                var count = 0
                for try await _ in shared.generate(prompt) {
                    count += 1
                    if count == 2 { break }
                }
            }
            for _ in 0..<20 { try await round() }
            let before = try resident()
            for _ in 0..<200 { try await round() }
            // A context alone is a megabyte; an error's sentence, times four a round, would be the least.
            let grown = try resident() - before
            #expect(grown < 16 << 20, "\(grown) bytes more")
        }
    #endif
}

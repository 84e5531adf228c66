import Ember
import Foundation
import Testing

@Suite struct GenerateTests {
    @Test func events() throws {
        let generation = try newContext().generate(
            prompt, options: GenerateOptions(maxTokens: 4, echo: true, topLogprobs: 3))
        var events: [Event] = []
        try generation.forEach { events.append($0) }
        #expect(events.count == 6)
        #expect(events[0].kind == .echo && events[0].text == prompt && events[0].token == nil)
        for event in events[1...4] {
            #expect(event.kind == .token)
            #expect(event.top.count == 3)
            #expect(event.top[0].token == event.token && event.top[0].logprob == event.logprob)
            let token = try #require(event.token)
            #expect(try bundled.bytes(of: token) == event.bytes)
            #expect(event.finishReason == nil && event.usage == nil)
        }
        let end = events[5]
        #expect(end.kind == .end && end.token == nil && end.finishReason == .maxTokens)
        let usage = try #require(end.usage)
        #expect(usage.generatedTokens == 4 && usage.prefill > .zero && usage.decode > .zero)
        #expect(try generation.next() == nil)
        #expect(try generation.usage == usage)

        let plain = try newContext().generate(prompt, options: GenerateOptions(maxTokens: 1))
        #expect(try plain.usage.finishReason == nil)
        let silent = try #require(try plain.next())
        #expect(silent.logprob == nil)
        let withLogprobs = try newContext().generate(prompt, options: GenerateOptions(maxTokens: 1, logprobs: true))
        let first = try #require(try withLogprobs.next())
        #expect(first.logprob == events[1].logprob)
    }

    @Test func stopsAcrossTokens() throws {
        var options = GenerateOptions(maxTokens: 40, stop: ["never", "of making a ve"])
        let cut = try newContext().complete(prompt, options: options)
        #expect(cut.finishReason == .stopString)
        #expect(cut.text.hasSuffix("in the habit ") && !cut.text.contains("ve"))
        options.includeStop = true
        #expect(try newContext().complete(prompt, options: options).text.hasSuffix("of making a ve"))
    }

    @Test func conversation() throws {
        let context = try newContext()
        var options = GenerateOptions(maxTokens: 8)
        let first = try context.complete(prompt, options: options)
        let second = try context.complete("", options: options)
        let whole = try newContext().complete(prompt, options: GenerateOptions(maxTokens: 16))
        #expect(first.text + second.text == whole.text)
        options.reusePrefix = true
        let again = try context.complete(prompt + first.text, options: options)
        #expect(again.text == second.text)
        #expect(again.usage.reusedTokens >= 8)
    }

    @Test func sequencesTakeTurns() throws {
        let context = try newContext(ContextOptions(sequences: 2, threads: 1))
        let a = try context.generate(prompt, options: GenerateOptions(maxTokens: 8))
        let b = try context.generate(
            tokens: bundled.tokenize("The wolf said"), options: GenerateOptions(maxTokens: 8, sequence: 1))
        var texts = ["", ""]
        for _ in 0..<9 {
            texts[0] += try #require(try a.next()).text
            texts[1] += try #require(try b.next()).text
        }
        #expect(texts[0] == ", I was in the habit of")
        let alone = try newContext().complete("The wolf said", options: GenerateOptions(maxTokens: 8))
        #expect(texts[1] == alone.text)
    }

    @Test func sequenceChangedMeanwhile() throws {
        let context = try newContext()
        let generation = try context.generate(prompt)
        _ = try generation.next()
        try context.rewind()
        expectRefusal(.invalidArgument) { try generation.next() }
    }

    @Test func contextFull() throws {
        let context = try newContext(ContextOptions(size: 8, threads: 1))
        #expect(try context.complete(prompt).finishReason == .contextFull)
        expectRefusal(.contextFull) { try context.complete(prompt) }
    }

    @Test func textIsWholeCodePoints() throws {
        let sampler = try Sampler(seed: 9, .temperature(20))  // nearly random tokens: many break code points
        let generation = try newContext().generate(
            "Grüße, 月!", options: GenerateOptions(maxTokens: 200), sampler: sampler)
        var text = ""
        var bytes: [UInt8] = []
        try generation.forEach {
            text += $0.text
            bytes += $0.bytes
        }
        #expect(text == String(decoding: bytes, as: UTF8.self))
    }

    @Test func refusals() throws {
        let context = try newContext()
        let options: [(String, GenerateOptions)] = [
            ("-1", GenerateOptions(maxTokens: -1)), ("-2", GenerateOptions(sequence: -2)),
            ("65", GenerateOptions(topLogprobs: 65)), ("stop", GenerateOptions(stop: [""])),
            ("5", GenerateOptions(sequence: 5)),
        ]
        for (culprit, options) in options {
            expectRefusal(.invalidArgument, culprit) { try context.generate(prompt, options: options) }
        }
        expectRefusal(.invalidArgument) { try context.generate("") }
        expectRefusal(.invalidArgument, "99999") { try context.generate(tokens: [99999]) }
        let special = try context.complete(
            "<|endoftext|>",
            options: GenerateOptions(maxTokens: 4, parseSpecial: true, renderSpecial: true, ignoreEndOfGeneration: true)
        )
        #expect(special.usage.promptTokens == 1 && special.tokens.count == 4)
    }

    @Test func cancelFromAnotherThread() throws {
        let token = CancelToken()
        let context = try newContext()
        let generation = try context.generate(
            prompt, options: GenerateOptions(maxTokens: 400, ignoreEndOfGeneration: true), cancelToken: token)
        var count = 0
        var last: Event?
        while let event = try generation.next() {
            count += 1
            if count == 5 {
                let thread = Thread { token.cancel() }
                thread.start()
                while !token.isCancelled { Thread.sleep(forTimeInterval: 0.001) }
            }
            last = event
        }
        #expect(last?.kind == .end && last?.finishReason == .cancelled && count < 400)
        // The context is as good as before, and so is the token.
        let two = GenerateOptions(maxTokens: 2)
        #expect(try context.complete(" and", options: two).tokens.count == 2)
        token.reset()
        #expect(try context.complete(" and", options: two, cancelToken: token).tokens.count == 2)
    }

    @Test func cancelledBeforehand() throws {
        let token = CancelToken()
        token.cancel()
        expectRefusal(.cancelled) { try Model(modelPath, cancelToken: token) }
        let context = try newContext(cancelToken: token)
        expectRefusal(.cancelled) { try context.decode([1]) }
        expectRefusal(.cancelled) { try context.embed(["The sea."]) }
        expectRefusal(.cancelled) { try context.score("The", " sea") }
        #expect(try context.complete(prompt).finishReason == .cancelled)
        try context.setCancelToken(nil)
        try context.decode([1])
        #expect(try context.past() == 1)
    }
}

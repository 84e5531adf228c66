// What Swift adds to each token of a generation, next to the same loop in C: the time of a call less the library's own.
// The loops take turns on one context.
//
//   overhead -m MODEL [-n TOKENS] [ROUNDS]
import COverhead
import Ember
import ExampleOptions
import Foundation

/// Nanoseconds of every token, inside the library and beside it.
struct Samples {
    let name: String
    var inside: [Double] = []
    var beside: [Double] = []

    mutating func add(wall: Duration, library: Duration) {
        inside.append(library / .nanoseconds(1))
        beside.append((wall - library) / .nanoseconds(1))
    }

    func report() {
        func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
        func least(_ values: [Double]) -> Double { values.min() ?? .nan }
        let (inside, beside) = (median(inside), median(beside))
        let medians = String(
            format: "decode %.0f us a token, %.1f us more, %.2f %% (medians of %d;", inside / 1e3, beside / 1e3,
            100 * beside / inside, self.inside.count)
        let least = String(format: "least %.0f and %.1f us)", least(self.inside) / 1e3, least(self.beside) / 1e3)
        print(name.padding(toLength: 7, withPad: " ", startingAt: 0), medians, least)
    }
}

await run { options in
    guard options.texts.count < 2, let rounds = Int(options.texts.first ?? "8"), rounds > 0, options.tokens > 1 else {
        throw UsageError("give a number of rounds at most, and two tokens at least")
    }
    let model = try Model(options.model)
    let context = try AsyncContext(model)
    let clock = ContinuousClock()
    let how = GenerateOptions(maxTokens: options.tokens, ignoreEndOfGeneration: true, reusePrefix: true)
    let prompt = "Once upon a time"
    var (c, pull, async) = (Samples(name: "C"), Samples(name: "Swift"), Samples(name: "async"))
    for round in 0...rounds {
        let counts = round > 0  // the first round warms up
        let (inC, inSwift) = try await context.withContext { context in
            var inC = Samples(name: "C")
            var inside = [Double](repeating: 0, count: options.tokens)
            var beside = inside
            let n = Int(overhead_stream(context.handle, prompt, UInt32(options.tokens), &inside, &beside))
            guard n >= 0 else { throw UsageError("the loop in C was refused") }
            inC.inside = Array(inside.prefix(n))
            inC.beside = Array(beside.prefix(n))

            var inSwift = Samples(name: "Swift")
            let generation = try context.generate(prompt, options: how)
            _ = try generation.next()  // runs the prompt
            var before = try generation.usage.decode
            while true {
                let start = clock.now
                guard let event = try generation.next() else { break }
                let wall = clock.now - start
                let after = try generation.usage.decode
                if event.kind == .token { inSwift.add(wall: wall, library: after - before) }
                before = after
            }
            return (inC, inSwift)
        }
        // The loop of a task, of which only the whole is known: an average token of each round.
        var usage: Usage?
        var start: ContinuousClock.Instant?
        for try await event in context.generate(prompt, options: how) {
            if start == nil { start = clock.now }  // after the prompt
            usage = event.usage
        }
        guard counts, let usage, let start else { continue }
        let tokens = usage.generatedTokens - 1
        async.add(wall: (clock.now - start) / tokens, library: usage.decode / tokens)
        c.inside += inC.inside
        c.beside += inC.beside
        pull.inside += inSwift.inside
        pull.beside += inSwift.beside
    }
    for samples in [c, pull, async] { samples.report() }
}

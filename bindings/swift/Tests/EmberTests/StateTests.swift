import Ember
import Foundation
import Testing

@Suite struct StateTests {
    private let two = ContextOptions(size: 64, sequences: 2, threads: 1)
    private let how = GenerateOptions(maxTokens: 8)

    @Test func sequences() throws {
        let context = try newContext(two)
        let free = try context.freePages
        #expect(context.info.pages >= free && free > 0 && context.info.pageLength > 0)
        let tokens = try bundled.tokenize(prompt)
        try context.decode(tokens)
        #expect(try context.freePages < free)
        try context.copySequence(from: 0, to: 1, count: tokens.count - 1)
        #expect(try context.past(sequence: 1) == tokens.count - 1)
        #expect(try context.tokens(sequence: 1) == tokens.dropLast() && context.tokens() == tokens)
        expectRefusal(.invalidArgument, "sequence 2") { try context.tokens(sequence: 2) }
        let answer = try context.complete(
            tokens: [tokens[tokens.count - 1]], options: GenerateOptions(maxTokens: 8, sequence: 1))
        #expect(answer.text == ", I was in the habit of")
        try context.keepSequence(1)
        #expect(try context.past() == 0 && context.past(sequence: 1) > 8)
        expectRefusal(.invalidArgument) { try context.copySequence(from: 0, to: 0, count: 0) }
        expectRefusal(.invalidArgument, "9") { try context.keepSequence(9) }
        expectRefusal(.invalidArgument, "-1") { try context.copySequence(from: -1, to: 0, count: 0) }
    }

    @Test func prefixesAreKept() throws {
        let context = try newContext(ContextOptions(size: 256, sequences: 2, threads: 1, keepPrefixes: true))
        let length = context.info.pageLength
        let tokens = (0..<2 * length + 2).map { Token(47 + $0 % 100) }
        try context.decode(tokens)
        #expect(try context.reuse(Array(tokens.prefix(5))) == 4)
        #expect(try context.past() == 4)
        try context.rewind()
        #expect(try context.reuse(tokens, sequence: 1) == 2 * length)
        #expect(try context.past(sequence: 1) == 2 * length)
        #expect(try context.reuse(tokens, most: 3, sequence: 1) == 3)
        expectRefusal(.invalidArgument, "-1") { try context.reuse(tokens, most: -1) }
        expectRefusal(.invalidArgument, "9") { try context.reuse(tokens, sequence: 9) }
    }

    @Test func statesGoOn() throws {
        let context = try newContext(two)
        let first = try context.complete(prompt, options: how)
        let one = try context.saveState(sequence: 0)
        let all = try context.saveState()
        let path = NSTemporaryDirectory() + "ember-\(ProcessInfo.processInfo.processIdentifier).state"
        defer { try? FileManager.default.removeItem(atPath: path) }
        try context.saveState(to: path)
        var written = Data()
        try context.writeState(sequence: 0) { part in written.append(contentsOf: part) }
        #expect(Array(written) == one)
        let second = try context.complete("", options: how)
        let whole = try newContext().complete(prompt, options: GenerateOptions(maxTokens: 16))
        #expect(first.text + second.text == whole.text)

        let loads: [(Context) throws -> Void] = [
            { try $0.loadState(all) }, { try $0.loadState(one, sequence: 0) },
            { try $0.loadState(written, sequence: 0) }, { try $0.loadState(from: path) },
            { context in
                var left = written[...]
                try context.readState(sequence: 0) { buffer in
                    let part = left.prefix(min(1000, buffer.count))
                    part.copyBytes(to: buffer)
                    left = left.dropFirst(part.count)
                    return part.count
                }
            },
        ]
        for load in loads {
            let other = try newContext(two)
            try load(other)
            #expect(try other.complete("", options: how).text == second.text)
        }
    }

    @Test func refusals() throws {
        let context = try newContext(two)
        try context.decode([1, 2, 3])
        var state = try context.saveState()
        struct Own: Error {}
        #expect(throws: Own.self) { try context.writeState { _ in throw Own() } }
        #expect(throws: Own.self) { try context.readState { _ in throw Own() } }
        expectRefusal(.invalidArgument) { try context.readState { $0.count + 1 } }
        try context.writeState { _ in expectRefusal(.busy) { try context.decode([1]) } }
        expectRefusal(.invalidArgument, "7") { try context.saveState(sequence: 7) }
        expectRefusal(.invalidArgument) { try context.saveState(sequence: Int(UInt32.max)) }
        expectRefusal(.io) { try context.loadState(from: "no such state") }
        expectRefusal(.io) { try context.saveState(to: "/no such folder/state") }
        state[state.count / 2] ^= 1
        expectRefusal(.format) { try context.loadState(state) }
        #expect(try context.past() == 3)
        expectRefusal(.invalidArgument) { try newContext(ContextOptions(threads: 1, kvLimit: 1)) }
    }
}

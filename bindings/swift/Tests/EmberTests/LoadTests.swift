import Ember
import Foundation
import Testing

@Suite struct LoadTests {
    private func continuation(_ model: Model) throws -> String {
        let context = try Context(model, options: ContextOptions(threads: 1))
        return try context.complete(prompt, options: GenerateOptions(maxTokens: 3)).text
    }

    @Test func fileDescriptor() throws {
        let data = try Data(contentsOf: URL(filePath: modelPath))
        let path = NSTemporaryDirectory() + "ember-\(ProcessInfo.processInfo.processIdentifier).bin"
        try (Data(repeating: 1, count: 64) + data + Data(repeating: 2, count: 5)).write(to: URL(filePath: path))
        defer { try? FileManager.default.removeItem(atPath: path) }
        let file = try #require(FileHandle(forReadingAtPath: path))
        let model = try Model(fileDescriptor: file.fileDescriptor, offset: 64, length: UInt64(data.count))
        try file.close()
        #expect(try continuation(model) == ", I was")
        let whole = try #require(FileHandle(forReadingAtPath: modelPath))
        #expect(try continuation(Model(fileDescriptor: whole.fileDescriptor)) == ", I was")
        expectRefusal(.invalidArgument) { try Model(fileDescriptor: whole.fileDescriptor, offset: 1 << 40) }
        expectRefusal(.invalidArgument) { try Model(fileDescriptor: whole.fileDescriptor, length: 0) }
    }

    @Test func bytesNoCopy() throws {
        let data = try Data(contentsOf: URL(filePath: modelPath))
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: data.count, alignment: 64)
        defer { bytes.deallocate() }
        data.copyBytes(to: bytes)
        let released = Counter()
        var model: Model? = try Model(bytesNoCopy: UnsafeRawBufferPointer(bytes)) { released.add() }
        let context = try Context(#require(model), options: ContextOptions(threads: 1))
        model = nil
        #expect(released.count == 0)
        #expect(try context.complete(prompt, options: GenerateOptions(maxTokens: 3)).text == ", I was")
        try useUp(context)
        #expect(released.count == 0)  // `context` is still here

        do {
            let short = try Model(bytesNoCopy: UnsafeRawBufferPointer(bytes)) { released.add() }
            #expect(try continuation(short) == ", I was")
        }
        #expect(released.count == 1)
        // When the loading fails nothing is released, and nothing leaks.
        weak var mark: Counter?
        do {
            let strong = Counter()
            mark = strong
            expectRefusal(.format) {
                try Model(bytesNoCopy: UnsafeRawBufferPointer(rebasing: bytes[0..<100])) { strong.add() }
            }
            #expect(strong.count == 0)
        }
        #expect(mark == nil)
        withExtendedLifetime(context) {}
    }

    private func useUp(_ context: Context) throws { try context.rewind() }

    @Test func progress() async throws {
        var reported: [Float] = []
        _ = try Model(modelPath) { reported.append($0) }
        #expect(reported.first == 0 && reported.last == 1 && reported == reported.sorted())
        struct Enough: Error {}
        #expect(throws: Enough.self) { try Model(modelPath) { _ in throw Enough() } }
        await #expect(throws: Enough.self) { try await Model.load(modelPath) { _ in throw Enough() } }
        let counter = Counter()
        _ = try await Model.load(modelPath) { _ in counter.add() }
        #expect(counter.count > 1)
    }

    @Test func allocator() throws {
        weak var mark: CountingAllocator?
        do {
            let allocator = CountingAllocator()
            mark = allocator
            var generation: Generation?
            do {
                let model = try Model(modelPath, options: ModelOptions(pack: .always), allocator: allocator)
                let context = try Context(model, options: ContextOptions(threads: 2))
                generation = try context.generate(prompt, options: GenerateOptions(maxTokens: 3))
            }
            var text = ""
            try generation?.forEach { text += $0.text }
            #expect(text == ", I was")
            #expect(allocator.blocks.count > 0)
            generation = nil
            #expect(allocator.blocks.count == 0)
            allocator.isEmpty = true
            expectRefusal(.outOfMemory) {
                try Model(modelPath, options: ModelOptions(pack: .always), allocator: allocator)
            }
        }
        #expect(mark == nil)
    }

    @Test func inspect() throws {
        let header = try Model.inspect(modelPath)
        #expect(header["architecture"] == "gpt2")
        #expect(header["supported"] == true)
        #expect(header["dimensions"]?["n_layer"] == 5)
        #expect(header["metadata"]?["gpt2.block_count"] == 5)
        expectRefusal(.io, "no such model") { try Model.inspect("no such model") }
    }

    @Test func memory() throws {
        let options = ContextOptions(size: 64, threads: 1)
        let estimate = try Model.estimateMemory(modelPath, contextOptions: options)
        let context = try newContext(options)
        #expect(try context.memory == estimate)
        #expect(try bundled.memory.weights == estimate.weights)
        #expect(try estimate.kv > 0 && bundled.memory.kv == 0)
        var limited = options
        limited.memoryLimit = 1000
        expectRefusal(.outOfMemory) { try newContext(limited) }
    }

    @Test func timings() throws {
        let context = try newContext()
        _ = try context.complete(prompt, options: GenerateOptions(maxTokens: 4))
        _ = try context.embed(["The sea."])
        let timings = try context.timings
        #expect(timings.prefillTokens == 5 && timings.decodeTokens >= 3 && timings.embedTokens > 0)
        #expect(timings.load > .zero && timings.prefill > .zero && timings.decode > .zero && timings.embed > .zero)
        try context.resetTimings()
        #expect(try context.timings.prefillTokens == 0 && context.timings.load == timings.load)
    }
}

/// Counts from any thread.
final class Counter: @unchecked Sendable {
    private let lock = NSLock()
    private var counted = 0
    func add(_ number: Int = 1) { lock.withLock { counted += number } }
    var count: Int { lock.withLock { counted } }
}

/// Counts the blocks that were given and not taken back.
final class CountingAllocator: Allocator, @unchecked Sendable {
    let blocks = Counter()
    var isEmpty = false

    func allocate(size: Int, alignment: Int) -> UnsafeMutableRawPointer? {
        if isEmpty { return nil }
        let block = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: alignment)
        block.initializeMemory(as: UInt8.self, repeating: 0, count: size)
        blocks.add()
        return block
    }

    func deallocate(_ block: UnsafeMutableRawPointer, size: Int, alignment: Int) {
        blocks.add(-1)
        block.deallocate()
    }
}

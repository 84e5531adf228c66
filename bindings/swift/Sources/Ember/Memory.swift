import CEmber

/// Bytes of the large buffers of a model and of a context. Tokenizer, metadata and the library, a few megabytes, are not
/// counted.
public struct Memory: Hashable, Sendable {
    /// The model's files. Where they are mapped the system reads, shares and drops their pages as it sees fit.
    public let file: UInt64
    /// The model's own memory: packed weights, and the files where they are read and not mapped.
    public let weights: UInt64
    /// The KV cache of the context when it is full.
    public let kv: UInt64
    /// What the context computes with, and its logits.
    public let workspace: UInt64

    init(_ call: (UnsafeMutablePointer<ember_memory>, ErrorOut) -> Int32) throws {
        let memory = try read(sized(ember_memory()), call)
        file = memory.file
        weights = memory.weights
        kv = memory.kv
        workspace = memory.workspace
    }
}

/// Gives the large buffers of models and of their contexts. Any thread may call it, also several at once.
public protocol Allocator: AnyObject, Sendable {
    /// `size` bytes, all zero, at an address that is a multiple of `alignment`; nil when there are none left.
    func allocate(size: Int, alignment: Int) -> UnsafeMutableRawPointer?
    /// Takes back what ``allocate(size:alignment:)`` gave for the same numbers.
    func deallocate(_ block: UnsafeMutableRawPointer, size: Int, alignment: Int)
}

/// Carries an allocator through C. The model holds it.
final class AllocatorBox: Sendable {
    private let allocator: any Allocator

    init(_ allocator: any Allocator) { self.allocator = allocator }

    func give(to options: OpaquePointer) throws {
        try check { error in
            ember_model_options_set_allocator(
                options,
                { size, alignment, box in
                    guard let box else { return nil }
                    let allocator = Unmanaged<AllocatorBox>.fromOpaque(box).takeUnretainedValue().allocator
                    return allocator.allocate(size: size, alignment: alignment)
                },
                { block, size, alignment, box in
                    guard let box, let block else { return }
                    let allocator = Unmanaged<AllocatorBox>.fromOpaque(box).takeUnretainedValue().allocator
                    allocator.deallocate(block, size: size, alignment: alignment)
                }, Unmanaged.passUnretained(self).toOpaque(), error)
        }
    }
}

extension Model {
    /// What the model takes; nothing of contexts.
    public var memory: Memory {
        get throws { try Memory { ember_model_memory(handle, $0, $1) } }
    }

    /// What the model at `path` and one context over it would take, without loading it.
    public static func estimateMemory(
        _ path: String, options: ModelOptions = ModelOptions(), contextOptions: ContextOptions = ContextOptions()
    ) throws -> Memory {
        try options.withHandle { options in
            try contextOptions.withHandle { contextOptions in
                try path.withChars { path, count in
                    try Memory { ember_memory_estimate(path, count, options, contextOptions, $0, $1) }
                }
            }
        }
    }
}

extension Context {
    /// What the context takes, and its model.
    public var memory: Memory {
        get throws { try use { context in try Memory { ember_context_memory(context, $0, $1) } } }
    }
}

import CEmber

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The number of a sequence in calls that take all of them for nil.
private func orAll(_ sequence: Int?) throws -> UInt32 {
    guard let sequence else { return EMBER_ALL_SEQUENCES }
    let number = try number("the sequence", sequence)
    if number == EMBER_ALL_SEQUENCES { throw EmberError(.invalidArgument, "there is no sequence \(sequence)") }
    return number
}

extension Context {
    /// Makes sequence `to` the first `count` tokens of sequence `from`; what `to` held is gone. The two share memory until
    /// they differ, so this costs next to nothing: for several answers to one prompt.
    public func copySequence(from: Int, to: Int, count: Int) throws {
        let from = try number("the sequence", from)
        let to = try number("the sequence", to)
        let count = try number("the number of tokens", count)
        try use { context in try check { ember_context_sequence_copy(context, from, to, count, $0) } }
    }

    /// Makes a sequence as much of the beginning of `tokens` as the KV cache has, `most` tokens at most, and returns
    /// how many tokens that is. The sequence may have them already. With ``ContextOptions/keepPrefixes``, pages that
    /// were kept of other texts may have more. Decode the rest, then; leave one token at least, for its logits.
    public func reuse(_ tokens: [Token], most: Int? = nil, sequence: Int = 0) throws -> Int {
        let sequence = try number("the sequence", sequence)
        let most = most ?? max(0, tokens.count - 1)
        if most < 0 { throw EmberError(.invalidArgument, "at most \(most) tokens is less than none") }
        return try use { context in
            try read(0) { ember_context_sequence_reuse(context, sequence, tokens, tokens.count, most, $0, $1) }
        }
    }

    /// Forgets `drop` tokens of a sequence after its first `keep`, where a text has become too long. The tokens after
    /// them move forward to their places. The later tokens keep what was computed from the forgotten ones. So this is
    /// cheaper than running the rest anew, and not quite the same. Not for models with learned positions (GPT-2).
    /// ``GenerateOptions/shift`` has a generation do it.
    public func shift(keep: Int = 0, drop: Int, sequence: Int = 0) throws {
        let sequence = try number("the sequence", sequence)
        let keep = try number("the number of tokens to keep", keep)
        let drop = try number("the number of tokens to drop", drop)
        try use { context in try check { ember_context_sequence_shift(context, sequence, keep, drop, $0) } }
    }

    /// Empties all sequences but this one.
    public func keepSequence(_ sequence: Int) throws {
        let sequence = try number("the sequence", sequence)
        try use { context in try check { ember_context_sequence_keep(context, sequence, $0) } }
    }

    /// The state of a sequence; nil: of the whole context. It holds tokens, KV cache and the logits of the last token where
    /// they are there. Loading it in another process with the same model goes on with the same bits.
    public func saveState(sequence: Int? = nil) throws -> [UInt8] {
        let sequence = try orAll(sequence)
        return try use { context in try fill(0) { ember_context_state_save(context, sequence, $0, $1, $2, $3) } }
    }

    /// Makes a sequence what a state of one sequence says; nil: the whole context what a state of a context says. On an error
    /// all is as it was. A checksum finds damage, not malice: load states of your own.
    public func loadState(_ state: some ContiguousBytes, sequence: Int? = nil) throws {
        let sequence = try orAll(sequence)
        try state.withUnsafeBytes { state in
            let bytes = state.bindMemory(to: UInt8.self)
            try use { context in
                try check { ember_context_state_load(context, sequence, bytes.baseAddress, bytes.count, $0) }
            }
        }
    }

    /// As ``saveState(sequence:)``, to a file. Whatever fails, a file that was there before is as it was.
    public func saveState(to path: String, sequence: Int? = nil) throws {
        let sequence = try orAll(sequence)
        try path.withChars { path, count in
            try use { context in try check { ember_context_state_save_file(context, sequence, path, count, $0) } }
        }
    }

    /// As ``loadState(_:sequence:)``, from a file.
    public func loadState(from path: String, sequence: Int? = nil) throws {
        let sequence = try orAll(sequence)
        try path.withChars { path, count in
            try use { context in try check { ember_context_state_load_file(context, sequence, path, count, $0) } }
        }
    }

    /// As ``saveState(sequence:)``, to `body`, which gets the state part by part. An error that it throws ends the
    /// saving, which rethrows it.
    public func writeState(sequence: Int? = nil, _ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        let sequence = try orAll(sequence)
        try withoutActuallyEscaping(body) { body in
            let box = StateBox { part in
                try body(UnsafeRawBufferPointer(part))
                return 0
            }
            try box.run { box, error in
                try use { context in
                    ember_context_state_write(
                        context, sequence,
                        { bytes, count, box in
                            Int32(StateBox.call(box, UnsafeMutablePointer(mutating: bytes), count))
                        }, box, error)
                }
            }
        }
    }

    /// As ``loadState(_:sequence:)``, from `body`, which writes the next bytes to a buffer and returns their number, 0
    /// at the end. An error that it throws ends the loading, which rethrows it.
    public func readState(sequence: Int? = nil, _ body: (UnsafeMutableRawBufferPointer) throws -> Int) throws {
        let sequence = try orAll(sequence)
        try withoutActuallyEscaping(body) { body in
            try StateBox(body).run { box, error in
                try use { context in
                    ember_context_state_read(
                        context, sequence, { buffer, capacity, box in StateBox.call(box, buffer, capacity) }, box, error
                    )
                }
            }
        }
    }
}

/// Carries a closure that takes or gives parts of a state through C, and what it throws back.
private final class StateBox {
    private let body: (UnsafeMutableRawBufferPointer) throws -> Int
    private var error: (any Error)?

    init(_ body: @escaping (UnsafeMutableRawBufferPointer) throws -> Int) { self.body = body }

    /// Runs a call that gets this box for its callback.
    func run(_ call: (UnsafeMutableRawPointer, ErrorOut) throws -> Int32) throws {
        try withExtendedLifetime(self) {
            do {
                try check { try call(Unmanaged.passUnretained(self).toOpaque(), $0) }
            } catch {
                throw self.error ?? error
            }
        }
    }

    /// What the closure of a box returns; -1 when it has thrown.
    static func call(_ box: UnsafeMutableRawPointer?, _ start: UnsafeMutablePointer<UInt8>?, _ count: Int) -> Int64 {
        guard let box else { return -1 }
        let state = Unmanaged<StateBox>.fromOpaque(box).takeUnretainedValue()
        do {
            return Int64(try state.body(UnsafeMutableRawBufferPointer(start: start, count: count)))
        } catch {
            state.error = error
            return -1
        }
    }
}

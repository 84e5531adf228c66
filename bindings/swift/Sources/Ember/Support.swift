import CEmber

/// The number of an entry in a model's vocabulary.
public typealias Token = UInt32

/// Where the library writes the address of an error.
typealias ErrorOut = UnsafeMutablePointer<OpaquePointer?>

/// The number of a case of a C enumeration, whatever integer C chose for it.
func number<Raw: BinaryInteger>(of value: some RawRepresentable<Raw>) -> Int32 { Int32(value.rawValue) }

/// Runs a call of the library and throws what it refuses.
func check(_ call: (ErrorOut) throws -> Int32) throws {
    var error: OpaquePointer?
    let status = try call(&error)
    if status != number(of: EMBER_OK) { throw EmberError(status, taking: error) }
}

/// What a call of the library writes.
func read<T>(_ initial: T, _ call: (UnsafeMutablePointer<T>, ErrorOut) -> Int32) throws -> T {
    var value = initial
    try check { call(&value, $0) }
    return value
}

/// A struct of the library whose first field is its size, which is set.
func sized<T>(_ empty: T) -> T {
    var value = empty
    withUnsafeMutableBytes(of: &value) { $0.storeBytes(of: MemoryLayout<T>.size, as: Int.self) }
    return value
}

/// A token of the library's; nil where there is none.
func token(_ number: UInt32) -> Token? { number == EMBER_TOKEN_NONE ? nil : number }

/// Nanoseconds of the library's.
func duration(_ nanoseconds: UInt64) -> Duration { .nanoseconds(Int64(clamping: nanoseconds)) }

/// The handle that a call of the library makes, which belongs to the caller.
func make(_ call: (UnsafeMutablePointer<OpaquePointer?>, ErrorOut) -> Int32) throws -> OpaquePointer {
    guard let handle = try read(nil, call) else { throw EmberError(.internal, "the library made nothing") }
    return handle
}

/// What a call of the library writes into a buffer: one of `capacity` elements, and a larger one if that was too small.
func fill<T>(
    _ capacity: Int, _ call: (UnsafeMutablePointer<T>?, Int, UnsafeMutablePointer<Int>, ErrorOut) -> Int32
) throws -> [T] {
    var needed = capacity
    while true {
        do {
            return try [T](unsafeUninitializedCapacity: needed) { buffer, count in
                try check { call(buffer.baseAddress, buffer.count, &needed, $0) }
                count = needed
            }
        } catch let error as EmberError where error.status == .bufferTooSmall {}
    }
}

/// `value` as 32 bits of the library, if it fits.
func number(_ name: String, _ value: Int) throws -> UInt32 {
    guard let number = UInt32(exactly: value) else {
        throw EmberError(.invalidArgument, "\(name) is \(value), which is not between 0 and \(UInt32.max)")
    }
    return number
}

/// The text of a C string of `count` bytes of UTF-8.
func text(_ start: UnsafePointer<CChar>?, _ count: Int) -> String {
    start.map { String(decoding: UnsafeRawBufferPointer(start: $0, count: count), as: UTF8.self) } ?? ""
}

extension [String] {
    /// Runs `body` with the addresses and lengths of the texts, valid until it returns.
    func withChars<R>(_ body: ([UnsafePointer<CChar>?], [Int]) throws -> R) rethrows -> R {
        // All in a row, so that their addresses stay what they are.
        let lengths = map(\.utf8.count)
        let bytes = flatMap(\.utf8)
        return try bytes.withUnsafeBufferPointer { bytes in
            try bytes.withMemoryRebound(to: CChar.self) { chars in
                var at = 0
                let starts = lengths.map { length in
                    defer { at += length }
                    return chars.baseAddress.map { $0 + at }
                }
                return try body(starts, lengths)
            }
        }
    }
}

extension String {
    /// Runs `body` with the address and length of the text, valid until it returns.
    func withChars<R>(_ body: (UnsafePointer<CChar>?, Int) throws -> R) rethrows -> R {
        var text = self
        return try text.withUTF8 { utf8 in
            try utf8.withMemoryRebound(to: CChar.self) { try body($0.baseAddress, $0.count) }
        }
    }
}

extension JSON {
    /// The value that a JSON text spells, its objects in their order.
    public init(parsing text: String) throws {
        var parser = JSONParser(bytes: Array(text.utf8))
        self = try parser.document()
    }
}

/// Reads a JSON text (RFC 8259) from its bytes.
private struct JSONParser {
    let bytes: [UInt8]
    var at = 0
    var depth = 0

    /// Values inside values, at most: what is deeper would take the stack.
    static let deepest = 256

    mutating func document() throws -> JSON {
        let value = try value()
        skipSpace()
        if at < bytes.count { throw wrong("there is more after the value") }
        return value
    }

    private func wrong(_ what: String) -> EmberError {
        EmberError(.invalidArgument, "this is not JSON: \(what), at byte \(at)")
    }

    private mutating func skipSpace() {
        while at < bytes.count, [0x20, 0x09, 0x0a, 0x0d].contains(bytes[at]) { at += 1 }
    }

    /// The next byte after white space, which stays.
    private mutating func peek() throws -> UInt8 {
        skipSpace()
        guard at < bytes.count else { throw wrong("the text ends") }
        return bytes[at]
    }

    /// Takes `byte` if it is the next one after white space.
    private mutating func take(_ byte: Unicode.Scalar) throws -> Bool {
        guard try peek() == UInt8(ascii: byte) else { return false }
        at += 1
        return true
    }

    private mutating func value() throws -> JSON {
        depth += 1
        defer { depth -= 1 }
        if depth > Self.deepest { throw wrong("values are nested deeper than \(Self.deepest)") }
        switch try peek() {
        case UInt8(ascii: "{"): return .object(try list("{", "}") { parser in try parser.member() })
        case UInt8(ascii: "["): return .array(try list("[", "]") { parser in try parser.value() })
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return try number()
        }
    }

    private mutating func list<T>(
        _ open: Unicode.Scalar, _ close: Unicode.Scalar, _ element: (inout JSONParser) throws -> T
    ) throws -> [T] {
        _ = try take(open)
        var elements: [T] = []
        if try take(close) { return elements }
        repeat { elements.append(try element(&self)) } while try take(",")
        guard try take(close) else { throw wrong("a comma or \(close) is missing") }
        return elements
    }

    private mutating func member() throws -> Member {
        guard try peek() == UInt8(ascii: "\"") else { throw wrong("a member's name is missing") }
        let name = try string()
        guard try take(":") else { throw wrong("the colon after a member's name is missing") }
        return Member(name, try value())
    }

    private typealias Member = JSON.Member

    private mutating func word(_ word: StaticString, _ value: JSON) throws -> JSON {
        let expected = UnsafeBufferPointer(start: word.utf8Start, count: word.utf8CodeUnitCount)
        guard bytes[at...].starts(with: expected) else { throw wrong("an unknown word") }
        at += expected.count
        return value
    }

    private mutating func number() throws -> JSON {
        let start = at
        while at < bytes.count, "+-.0123456789eE".utf8.contains(bytes[at]) { at += 1 }
        let text = String(decoding: bytes[start..<at], as: UTF8.self)
        if !text.hasPrefix("+"), !text.hasPrefix(".") {
            if let value = Int64(text) { return .int(value) }
            if let value = Double(text) { return .double(value) }
        }
        at = start
        throw wrong("an unknown value")
    }

    private mutating func string() throws -> String {
        at += 1
        var units: [UInt8] = []
        while at < bytes.count {
            let byte = bytes[at]
            at += 1
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: units, as: UTF8.self)
            case UInt8(ascii: "\\"): units.append(contentsOf: String(try escape()).utf8)
            case 0..<0x20:
                at -= 1
                throw wrong("a control character in a text")
            default: units.append(byte)
            }
        }
        throw wrong("a text does not end")
    }

    private mutating func escape() throws -> Character {
        guard at < bytes.count else { throw wrong("a text does not end") }
        at += 1
        switch bytes[at - 1] {
        case UInt8(ascii: "\""): return "\""
        case UInt8(ascii: "\\"): return "\\"
        case UInt8(ascii: "/"): return "/"
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{c}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): return Character(try codePoint())
        default: throw wrong("an unknown escape")
        }
    }

    /// The scalar of `\uXXXX`, after the `u`, or of a pair of surrogates; one alone is U+FFFD.
    private mutating func codePoint() throws -> Unicode.Scalar {
        let first = try hexadecimal()
        guard (0xd800..<0xdc00).contains(first), bytes[at...].starts(with: "\\u".utf8) else {
            return Unicode.Scalar(first) ?? "\u{fffd}"
        }
        let mark = at
        at += 2
        let second = try hexadecimal()
        guard (0xdc00..<0xe000).contains(second) else {
            at = mark
            return "\u{fffd}"
        }
        return Unicode.Scalar(0x10000 + (first - 0xd800) << 10 + (second - 0xdc00)) ?? "\u{fffd}"
    }

    private mutating func hexadecimal() throws -> UInt32 {
        let digits = bytes[at...].prefix(4)
        guard digits.count == 4, !digits.contains(UInt8(ascii: "+")), !digits.contains(UInt8(ascii: "-")),
            let value = UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw wrong("four hexadecimal digits are missing") }
        at += 4
        return value
    }
}

/// A JSON value: what tools, tool calls and variables of chat templates are made of. Objects keep the order of their
/// members, which models see. Literals make one: `["type": "function", "strict": true]`.
public enum JSON: Hashable, Sendable {
    /// No value.
    case null
    /// A truth value.
    case bool(Bool)
    /// An integer.
    case int(Int64)
    /// Any other number; what is not finite is written as null.
    case double(Double)
    /// A text.
    case string(String)
    /// Values in a row.
    case array([JSON])
    /// Named values in their order.
    case object([Member])

    /// A member of an object.
    public struct Member: Hashable, Sendable {
        /// Its name.
        public let name: String
        /// Its value.
        public let value: JSON

        /// A member.
        public init(_ name: String, _ value: JSON) {
            self.name = name
            self.value = value
        }
    }

    /// The first member of this name, of an object.
    public subscript(name: String) -> JSON? {
        if case .object(let members) = self { return members.first { $0.name == name }?.value }
        return nil
    }

    /// The element at this place, of an array.
    public subscript(index: Int) -> JSON? {
        if case .array(let values) = self, values.indices.contains(index) { return values[index] }
        return nil
    }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByNilLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// A text.
    public init(stringLiteral value: String) { self = .string(value) }
    /// An integer.
    public init(integerLiteral value: Int64) { self = .int(value) }
    /// A number.
    public init(floatLiteral value: Double) { self = .double(value) }
    /// A truth value.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// No value.
    public init(nilLiteral: ()) { self = .null }
    /// Values in a row.
    public init(arrayLiteral elements: JSON...) { self = .array(elements) }
    /// An object, in the order of the literal.
    public init(dictionaryLiteral elements: (String, JSON)...) { self = .object(elements.map(Member.init)) }
}

extension JSON: CustomStringConvertible {
    /// The value as JSON text, on one line.
    public var description: String {
        var text = ""
        write(to: &text)
        return text
    }

    private func write(to text: inout String) {
        switch self {
        case .null: text += "null"
        case .bool(let value): text += value ? "true" : "false"
        case .int(let value): text += String(value)
        case .double(let value): text += value.isFinite ? String(value) : "null"
        case .string(let value): Self.quote(value, to: &text)
        case .array(let values):
            text += "["
            for (index, value) in values.enumerated() {
                if index > 0 { text += ", " }
                value.write(to: &text)
            }
            text += "]"
        case .object(let members):
            text += "{"
            for (index, member) in members.enumerated() {
                if index > 0 { text += ", " }
                Self.quote(member.name, to: &text)
                text += ": "
                member.value.write(to: &text)
            }
            text += "}"
        }
    }

    private static func quote(_ value: String, to text: inout String) {
        text += "\""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\u{0}"..<" ":
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}

/// Coders keep the order of an object's members as far as they know it, which Foundation's do not; ``init(parsing:)`` and
/// ``description`` do.
extension JSON: Codable {
    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// Reads any value.
    public init(from decoder: any Decoder) throws {
        if let members = try? decoder.container(keyedBy: Name.self) {
            self = .object(
                try members.allKeys.sorted { $0.stringValue < $1.stringValue }.map { name in
                    Member(name.stringValue, try members.decode(JSON.self, forKey: name))
                })
        } else if var values = try? decoder.unkeyedContainer() {
            var elements: [JSON] = []
            while !values.isAtEnd { elements.append(try values.decode(JSON.self)) }
            self = .array(elements)
        } else {
            let value = try decoder.singleValueContainer()
            if value.decodeNil() {
                self = .null
            } else if let bool = try? value.decode(Bool.self) {
                self = .bool(bool)
            } else if let int = try? value.decode(Int64.self) {
                self = .int(int)
            } else if let double = try? value.decode(Double.self) {
                self = .double(double)
            } else {
                self = .string(try value.decode(String.self))
            }
        }
    }

    /// Writes the value.
    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .object(let members):
            var container = encoder.container(keyedBy: Name.self)
            for member in members { try container.encode(member.value, forKey: Name(stringValue: member.name)) }
        case .array(let values):
            var container = encoder.unkeyedContainer()
            for value in values { try container.encode(value) }
        default:
            var container = encoder.singleValueContainer()
            switch self {
            case .bool(let value): try container.encode(value)
            case .int(let value): try container.encode(value)
            case .double(let value): try container.encode(value)
            case .string(let value): try container.encode(value)
            default: try container.encodeNil()
            }
        }
    }
}

import CEmber

/// A metadata value of a model's file.
public enum MetadataValue: Hashable, Sendable {
    /// A text; what is no UTF-8 in it is U+FFFD.
    case string(String)
    /// A truth value.
    case bool(Bool)
    /// A whole number.
    case int(Int64)
    /// A whole number of type uint64 in the file.
    case uint(UInt64)
    /// A fraction.
    case double(Double)
    /// An array, which the library keeps to itself.
    case array
}

/// The numbers of types in GGUF files.
private enum ValueType {
    static let float32: UInt32 = 6
    static let bool: UInt32 = 7
    static let string: UInt32 = 8
    static let array: UInt32 = 9
    static let uint64: UInt32 = 10
    static let float64: UInt32 = 12
}

extension Model {
    /// The metadata keys of the model's file, in its order.
    public var metadataKeys: [String] {
        get throws {
            let count = try read(0) { ember_model_meta_count(handle, $0, $1) }
            return try (0..<count).map { index in
                String(decoding: try fill(64) { ember_model_meta_key(handle, index, $0, $1, $2, $3) }, as: UTF8.self)
            }
        }
    }

    /// The metadata value of a key; nil when the file does not have it.
    public func metadata(_ key: String) throws -> MetadataValue? {
        try key.withChars { name, count in
            let type: UInt32
            do {
                type = try read(0) { ember_model_meta_type(handle, name, count, $0, $1) }
            } catch let error as EmberError where error.status == .notFound {
                return nil
            }
            switch type {
            case ValueType.array:
                return .array
            case ValueType.string:
                let bytes = try fill(128) { ember_model_meta_string(handle, name, count, $0, $1, $2, $3) }
                return .string(String(decoding: bytes, as: UTF8.self))
            case ValueType.bool:
                return .bool(try read(false) { ember_model_meta_bool(handle, name, count, $0, $1) })
            case ValueType.float32, ValueType.float64:
                return .double(try read(0) { ember_model_meta_f64(handle, name, count, $0, $1) })
            case ValueType.uint64:
                return .uint(try read(0) { ember_model_meta_u64(handle, name, count, $0, $1) })
            default:
                return .int(try read(0) { ember_model_meta_i64(handle, name, count, $0, $1) })
            }
        }
    }
}

import CEmber

/// A metadata value of a model's file.
public enum MetadataValue: Hashable, Sendable {
    /// A text; what is no UTF-8 in it is U+FFFD.
    case string(String)
    /// A truth value.
    case bool(Bool)
    /// An integer.
    case int(Int64)
    /// An integer of type uint64 in the file.
    case uint(UInt64)
    /// A fraction.
    case double(Double)
    /// An array of so many elements, which ``Model/metadataArray(_:)`` gives.
    case array(count: Int)
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
        try metadata(key) { name, count, type in
            switch type {
            case ValueType.array: .array(count: try elements(name, count).count)
            case ValueType.string:
                .string(try string { ember_model_meta_string(handle, name, count, $0, $1, $2, $3) })
            case ValueType.bool: .bool(try read(false) { ember_model_meta_bool(handle, name, count, $0, $1) })
            case ValueType.float32, ValueType.float64:
                .double(try read(0) { ember_model_meta_f64(handle, name, count, $0, $1) })
            case ValueType.uint64: .uint(try read(0) { ember_model_meta_u64(handle, name, count, $0, $1) })
            default: .int(try read(0) { ember_model_meta_i64(handle, name, count, $0, $1) })
            }
        }
    }

    /// The elements of a metadata array; nil when the file does not have the key. A value that is no array, or one of
    /// arrays, is ``EmberError/Status/invalidArgument``.
    public func metadataArray(_ key: String) throws -> [MetadataValue]? {
        try metadata(key) { name, count, _ in
            let elements = try elements(name, count)
            return try (0..<elements.count).map { at in
                switch elements.type {
                case ValueType.string:
                    .string(try string { ember_model_meta_array_string(handle, name, count, at, $0, $1, $2, $3) })
                case ValueType.bool:
                    .bool(try read(false) { ember_model_meta_array_bool(handle, name, count, at, $0, $1) })
                case ValueType.float32, ValueType.float64:
                    .double(try read(0) { ember_model_meta_array_f64(handle, name, count, at, $0, $1) })
                case ValueType.uint64:
                    .uint(try read(0) { ember_model_meta_array_u64(handle, name, count, at, $0, $1) })
                default: .int(try read(0) { ember_model_meta_array_i64(handle, name, count, at, $0, $1) })
                }
            }
        }
    }

    /// Runs `body` with a key and its type, if the file has it.
    private func metadata<R>(
        _ key: String, _ body: (UnsafePointer<CChar>?, Int, UInt32) throws -> R
    ) throws -> R? {
        try key.withChars { name, count in
            let type: UInt32
            do {
                type = try read(0) { ember_model_meta_type(handle, name, count, $0, $1) }
            } catch let error as EmberError where error.status == .notFound {
                return nil
            }
            return try body(name, count, type)
        }
    }

    /// The type and number of an array's elements.
    private func elements(_ name: UnsafePointer<CChar>?, _ count: Int) throws -> (type: UInt32, count: Int) {
        var type: UInt32 = 0
        let elements = try read(0) { ember_model_meta_array(handle, name, count, &type, $0, $1) }
        return (type, elements)
    }

    private func string(
        _ call: (UnsafeMutablePointer<UInt8>?, Int, UnsafeMutablePointer<Int>, ErrorOut) -> Int32
    ) throws -> String {
        String(decoding: try fill(64, call), as: UTF8.self)
    }
}

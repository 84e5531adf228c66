import CEmber

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A refusal by the library: what kind it is, and a sentence that names the culprit.
public struct EmberError: Error, Hashable, Sendable {
    /// The kinds of errors.
    public struct Status: RawRepresentable, Hashable, Sendable {
        /// The number in the C library.
        public let rawValue: Int32
        /// The kind with this number.
        public init(rawValue: Int32) { self.rawValue = rawValue }

        /// An argument is out of range or does not fit the others.
        public static let invalidArgument = Status(EMBER_E_INVALID_ARGUMENT)
        /// A file cannot be opened, mapped or read.
        public static let io = Status(EMBER_E_IO)
        /// A model file is malformed.
        public static let format = Status(EMBER_E_FORMAT)
        /// A model needs, or lacks, what this needs.
        public static let unsupported = Status(EMBER_E_UNSUPPORTED)
        /// Memory is short.
        public static let outOfMemory = Status(EMBER_E_NOMEM)
        /// The tokens do not fit; the context is unchanged.
        public static let contextFull = Status(EMBER_E_CONTEXT_FULL)
        /// In use by another call; nothing was done.
        public static let busy = Status(EMBER_E_BUSY)
        /// A text is not UTF-8.
        public static let utf8 = Status(EMBER_E_UTF8)
        /// Never seen: the package asks again with a larger one.
        static let bufferTooSmall = Status(EMBER_E_BUFFER_TOO_SMALL)
        /// There is no such key, token or row.
        public static let notFound = Status(EMBER_E_NOT_FOUND)
        /// A defect in Ember, caught.
        public static let `internal` = Status(EMBER_E_INTERNAL)
        /// A ``CancelToken`` ended the call.
        public static let cancelled = Status(EMBER_E_CANCELLED)
        /// As many requests of an engine wait as may; nothing was done.
        public static let queueFull = Status(EMBER_E_QUEUE_FULL)

        private init(_ status: some RawRepresentable<some BinaryInteger>) { rawValue = number(of: status) }
    }

    /// What kind of error it is.
    public let status: Status
    /// A sentence that names the culprit.
    public let message: String

    init(_ status: Status, _ message: String) {
        self.status = status
        self.message = message
    }

    /// Takes an error of the library over and frees it.
    init(_ status: Int32, taking error: OpaquePointer?) {
        self.init(Status(rawValue: status), String(cString: ember_error_message(error)))
        ember_error_free(error)
    }
}

extension EmberError.Status: CustomStringConvertible {
    /// The name in the C library, for example "EMBER_E_BUSY".
    public var description: String { String(cString: ember_status_name(rawValue)) }
}

extension EmberError: CustomStringConvertible, LocalizedError {
    /// The sentence.
    public var description: String { message }
    /// The sentence.
    public var errorDescription: String? { message }
}

extension EmberError {
    /// Whether an error is that a token ended the call.
    static func isCancelled(_ error: any Error) -> Bool { (error as? EmberError)?.status == .cancelled }
}

import CEmber
import Dispatch

/// How much a log line matters.
public enum LogLevel: Int32, Hashable, Sendable {
    /// Something was refused or went wrong.
    case error = 1
    /// Something looks like a mistake.
    case warning = 2
    /// What is being done.
    case info = 3
    /// Details for finding defects.
    case debug = 4
}

/// What concerns the C library as a whole.
public enum EmberLibrary {
    /// The version of the library at run time, for example "0.2.0".
    public static var version: String { String(cString: ember_version_string()) }

    /// A line on what the library can do: version, architectures, number formats, instruction sets, target.
    public static var buildInfo: String { String(cString: ember_build_info()) }

    /// Whether the library has a part that can be left out of a build, for example "chat". A function whose part is
    /// missing throws ``EmberError/Status/unsupported``.
    public static func hasFeature(_ name: String) -> Bool { name.withChars { ember_has_feature($0, $1) } != 0 }

    /// Receives a line of the log.
    public typealias LogHandler = @Sendable (LogLevel, String) -> Void

    /// Sends log lines of `level` and graver ones to `handler`, on the thread whose call logs; nil makes the library
    /// silent again, as it is at the start. One handler serves the whole process, from any number of threads.
    public static func setLog(_ level: LogLevel, _ handler: LogHandler?) throws {
        logHandler.value = handler
        guard handler != nil else { return try check { ember_log_set(nil, nil, level.rawValue, $0) } }
        try check { error in
            ember_log_set(
                { level, line, count, _ in
                    guard let level = LogLevel(rawValue: level) else { return }
                    logHandler.value?(level, text(line, count))
                }, nil, level.rawValue, error)
        }
    }
}

/// The handler lives here and not in the callback's `user_data`, so that it can be let go while another thread logs.
private let logHandler = Locked<EmberLibrary.LogHandler?>(nil)

/// A value that any thread may read and write.
final class Locked<Value: Sendable>: @unchecked Sendable {
    private let queue = DispatchQueue(label: "ember.locked")
    private var stored: Value

    init(_ value: Value) { stored = value }

    var value: Value {
        get { with { $0 } }
        set { with { $0 = newValue } }
    }

    func with<R>(_ body: (inout Value) throws -> R) rethrows -> R { try queue.sync { try body(&stored) } }
}

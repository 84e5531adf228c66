/// A context of a smaller model, which makes draft tokens for generations of a larger one; see ``GenerateOptions/Draft``.
///
/// The two models must have the same vocabulary, and the context needs about the size of the other, or drafts end where
/// it is full. Several generations may share it, each with a sequence of its own, also in several tasks. While one runs
/// a step with it, the step of another throws ``EmberError/Status/busy``, and can be tried again.
public final class DraftContext: Sendable {
    /// Which nobody else can have: C alone uses it, in the calls of generations, and refuses two at a time.
    nonisolated(unsafe) private let context: Context

    /// The smaller model.
    public var model: Model { context.model }

    /// The options in force.
    public let info: ContextInfo

    var handle: OpaquePointer { context.handle }

    /// Makes a context over the smaller model.
    public init(_ model: Model, options: ContextOptions = ContextOptions()) throws {
        context = try Context(model, options: options)
        info = context.info
    }
}

extension DraftContext: Hashable {
    /// Whether the two are one and the same.
    public static func == (a: DraftContext, b: DraftContext) -> Bool { a === b }

    /// Feeds which object this is into a hasher.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

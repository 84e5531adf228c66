import CEmber

/// A switch that ends calls early: loading, decoding, embedding, generating, scoring. One token may serve any number of
/// them, and any number of threads may use it at once.
///
/// An `async` call ends with its task and needs no token.
public final class CancelToken: Sendable {
    nonisolated(unsafe) let handle: OpaquePointer

    /// A token that is not cancelled.
    public init() {
        guard let handle = try? make(ember_cancel_token_new) else { fatalError("no memory for a cancel token") }
        self.handle = handle
    }

    deinit { ember_cancel_token_free(handle) }

    /// Ends the calls under way that were given the token, and those to come, until ``reset()``. Does not wait for that.
    public func cancel() { ember_cancel_token_cancel(handle) }

    /// Makes the token fit for new calls.
    public func reset() { ember_cancel_token_reset(handle) }

    /// Whether the token is cancelled.
    public var isCancelled: Bool { ember_cancel_token_is_cancelled(handle) }
}

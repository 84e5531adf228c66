import CEmber

/// A generation that an ``Engine`` was asked for: a sequence of events, one for each token and one for the end.
///
///     for try await event in try engine.submit("Once upon a time") {
///         print(event.text, terminator: "")
///     }
///
/// One task at a time takes its events. Cancelling that task, and letting the request go, ends it with the engine's next step.
public final class Request: AsyncSequence, Sendable {
    nonisolated(unsafe) private let handle: OpaquePointer
    /// Which lives as long as its requests.
    private let engine: Engine
    private let mailbox: Mailbox

    init(_ engine: Engine, _ mailbox: Mailbox, taking handle: OpaquePointer) {
        self.engine = engine
        self.mailbox = mailbox
        self.handle = handle
    }

    deinit { ember_request_free(handle) }

    /// Goes on with the events that nobody has taken yet.
    public func makeAsyncIterator() -> Iterator { Iterator(request: self) }

    /// Gives the events.
    public struct Iterator: AsyncIteratorProtocol, Sendable {
        fileprivate let request: Request

        /// The next event, for which it waits; nil after the `end` event. After its events, the error that ended the
        /// request is thrown, also one from a sampler's own stage. The end of the task is no error but the reason
        /// ``FinishReason/cancelled``.
        public mutating func next() async throws -> Event? {
            let request = request
            return try await withTaskCancellationHandler {
                try await request.next()
            } onCancel: {
                request.cancel()
            }
        }
    }

    private func next() async throws -> Event? {
        guard let event = try await mailbox.next() else { return nil }
        if event.kind != .end { return event }
        if let error = mailbox.sampler?.takeError() { throw error }
        // The event comes a little before the result is written down.
        _ = try read(sized(ember_event())) { ember_request_next(handle, EMBER_FOREVER, $0, $1) }
        return Event(
            kind: .end, text: event.text, token: nil, bytes: [], logprob: nil, top: [],
            finishReason: event.finishReason, usage: try usage)
    }

    /// Takes all events that are left.
    public func complete() async throws -> Completion {
        var text = ""
        var tokens: [Token] = []
        for try await event in self {
            text += event.text
            if let token = event.token { tokens.append(token) }
        }
        return Completion(text: text, tokens: tokens, usage: try usage)
    }

    /// Ends the request with the engine's next step.
    public func cancel() { ember_request_cancel(handle) }

    /// What the request did so far. Its times are those of the steps that it was part of.
    public var usage: Usage {
        get throws { Usage(try read(sized(ember_generate_result())) { ember_request_usage(handle, $0, $1) }) }
    }
}

/// Where the engine's thread puts a request's events. It never waits for the task that takes them.
final class Mailbox: Sendable {
    /// Whose stages the library may call until the end.
    let sampler: Sampler?
    private let state = Locked(State())

    private struct State {
        var events: [Event] = []
        var hasEnded = false
        var waiting: CheckedContinuation<Void, Never>?
    }

    init(_ sampler: Sampler?) { self.sampler = sampler }

    func put(_ event: Event) {
        let waiting = state.with { state in
            state.events.append(event)
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.resume()
    }

    /// The next event; nil after the last one.
    func next() async throws -> Event? {
        while true {
            let event = try state.with { state -> Event? in
                if state.waiting != nil {
                    throw EmberError(.busy, "another task takes events of this request")
                }
                guard !state.events.isEmpty else { return nil }
                let event = state.events.removeFirst()
                state.hasEnded = event.kind == .end
                return event
            }
            if event != nil || state.with({ $0.hasEnded }) { return event }
            await withCheckedContinuation { continuation in
                let isThere = state.with { state in
                    // Of two tasks that come here at once the first goes on and looks again.
                    let other = state.waiting
                    state.waiting = state.events.isEmpty ? continuation : nil
                    other?.resume()
                    return !state.events.isEmpty
                }
                if isThere { continuation.resume() }
            }
        }
    }
}

/// What C calls with every event.
let putEvent: ember_event_callback = { event, box in
    guard let event = event?.pointee, let box else { return 0 }
    let mailbox = Unmanaged<Mailbox>.fromOpaque(box)
    let copy = Event(event, usage: nil)
    mailbox.takeUnretainedValue().put(copy)
    if copy.kind == .end { mailbox.release() }
    return 0
}

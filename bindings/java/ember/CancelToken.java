package ember;

/**
 * Ends calls early, from any thread: those of a context (`Context.cancelToken`) and the loading of a model (`ModelOptions.cancelToken`). An
 * interrupted thread ends a generation between two tokens; this ends a prompt, an embedding or a loading that is under way.
 */
public final class CancelToken implements AutoCloseable {
    final Handle handle = made();

    static Handle made() {
        return new Handle("token", Native.made("ember_cancel_token_new"), "ember_cancel_token_free");
    }

    /** Ends the calls under way that have the token, and those to come, until `reset`. */
    public void cancel() {
        cancel(handle);
    }

    static void cancel(Handle token) {
        token.run("ember_cancel_token_cancel");
    }

    /** Makes the token fit for new calls. */
    public void reset() {
        reset(handle);
    }

    static void reset(Handle token) {
        token.run("ember_cancel_token_reset");
    }

    /** Whether it is cancelled. */
    public boolean isCancelled() {
        return handle.use(token -> Native.is("ember_cancel_token_is_cancelled", token));
    }

    /** Frees the token; what has it keeps what it needs of it. */
    @Override
    public void close() {
        handle.close();
    }
}

package ember;

import java.util.Optional;

/**
 * Several completions of one prompt under way, which take turns, a token each. Completion i is in sequence s + i of the context, where s is
 * that of the options, and draws with the seed of the options + i.
 */
public final class Completions implements AutoCloseable {
    /**
     * What happened in one of them.
     *
     * @param index which completion, from 0 on
     * @param event the event
     */
    public record Turn(int index, Event event) {}

    private final Handle context;
    private final Handle cancel = CancelToken.made();
    private final Handle completions;

    /** `prompt` is a text, or tokens. */
    Completions(Handle context, Object prompt, int n, Options options) {
        this.context = context;
        int count = Native.unsigned("n", n);
        try (var how = options.handle(cancel, false); var sampler = options.sampler()) {
            var create = prompt instanceof String ? "ember_completions_new" : "ember_completions_new_tokens";
            completions = new Handle("completions", Native.made(create, context, prompt, count, how, sampler), "ember_completions_free",
                    Sampler.callbacks(sampler));
        }
    }

    /**
     * The next event, and which completion it is of; empty when all have ended. Each ends with one event. A thread that is interrupted ends
     * them with events whose `finish` is CANCELLED, and stays interrupted.
     */
    public Optional<Turn> next() {
        if (Thread.currentThread().isInterrupted()) CancelToken.cancel(cancel);
        return context.use(c -> Native.structAndNumber(Native.EVENT, (raw, i) -> {
            if (raw.number("kind") == 3) return Optional.empty(); // EMBER_EVENT_NONE
            var event = Event.of(raw, () -> usage(i));
            if (event.finish() == Event.Finish.CANCELLED) completions.check();
            return Optional.of(new Turn(i, event));
        }, "ember_completions_next", completions));
    }

    /** Takes all events that are left. */
    public void finish() {
        while (next().isPresent()) {}
    }

    /** The text of a completion so far. */
    public String text(int index) {
        return Native.text(256, "ember_completions_text", completions, Native.unsigned("index", index));
    }

    /** What a completion did so far. */
    public Usage usage(int index) {
        return Usage.of("ember_completions_usage", completions, Native.unsigned("index", index));
    }

    /** All completions by the mean log-probability of their tokens, the likeliest first, when all have ended. Needs Options.logprobs. */
    public int[] rank() {
        return Native.ints(8, "ember_completions_rank", completions);
    }

    /** Frees the completions. The context's sequences keep the generated tokens. */
    @Override
    public void close() {
        completions.close();
        cancel.close();
    }
}

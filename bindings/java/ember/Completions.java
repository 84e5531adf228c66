package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
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
    private final Handle cancel;
    private final Handle completions;

    Completions(Handle context, int[] tokens, int n, Options options) {
        this.context = context;
        try (var arena = Arena.ofConfined()) {
            cancel = new Handle("token", Native.made(arena, "ember_cancel_token_new"), "ember_cancel_token_free");
            var prompt = arena.allocateFrom(JAVA_INT, tokens);
            int count = Native.unsigned("n", n);
            try (var how = cancel.use(t -> options.handle(arena, t, false)); var sampler = options.sampler(arena)) {
                completions = new Handle("completions", context.use(c -> how.use(o -> sampler == null
                        ? make(arena, c, prompt, count, o, MemorySegment.NULL)
                        : sampler.use(s -> make(arena, c, prompt, count, o, s)))), "ember_completions_free");
            }
        }
    }

    private static MemorySegment make(
            Arena arena, MemorySegment context, MemorySegment prompt, int n, MemorySegment how, MemorySegment sampler) {
        return Native.made(arena, "ember_completions_new_tokens", context, prompt, prompt.byteSize() / 4, n, how, sampler);
    }

    /**
     * The next event, and which completion it is of; empty when all have ended. Each ends with one event. A thread that is interrupted ends
     * them with events whose `finish` is CANCELLED, and stays interrupted.
     */
    public Optional<Turn> next() {
        if (Thread.currentThread().isInterrupted()) {
            cancel.use(t -> {
                Native.run("ember_cancel_token_cancel", t);
                return null;
            });
        }
        try (var arena = Arena.ofConfined()) {
            var raw = Native.allocate(arena, Native.EVENT);
            var index = arena.allocate(JAVA_INT);
            return context.use(c -> completions.use(p -> {
                Native.call(arena, "ember_completions_next", p, raw, index);
                if (Native.number(raw, Native.EVENT, "kind") == 3) return Optional.empty(); // EMBER_EVENT_NONE
                int i = index.get(JAVA_INT, 0);
                return Optional.of(new Turn(i, Generation.event(raw, () -> usage(arena, p, i))));
            }));
        }
    }

    /** Takes all events that are left. */
    public void finish() {
        while (next().isPresent()) {}
    }

    /** The text of a completion so far. */
    public String text(int index) {
        try (var arena = Arena.ofConfined()) {
            return Native.text(completions.use(p -> Native.filled(arena, JAVA_BYTE, 256, "ember_completions_text", p,
                    Native.unsigned("index", index))));
        }
    }

    /** What a completion did so far. */
    public Usage usage(int index) {
        try (var arena = Arena.ofConfined()) {
            return completions.use(p -> usage(arena, p, Native.unsigned("index", index)));
        }
    }

    private static Usage usage(Arena arena, MemorySegment completions, int index) {
        return Usage.of(arena, u -> Native.call(arena, "ember_completions_usage", completions, index, u));
    }

    /** All completions by the mean log-probability of their tokens, the likeliest first, when all have ended. Needs Options.logprobs. */
    public int[] rank() {
        try (var arena = Arena.ofConfined()) {
            return completions.use(p -> Native.filled(arena, JAVA_INT, 8, "ember_completions_rank", p).toArray(JAVA_INT));
        }
    }

    /** Frees the completions. What was generated stays in the context's sequences. */
    @Override
    public void close() {
        completions.close();
        cancel.close();
    }
}

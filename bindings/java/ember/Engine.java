package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Spliterators;
import java.util.function.Consumer;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * Runs many requests together, which takes far less time than one after the other; each gives what it would give alone. For any number of
 * threads; a thread of the engine's own does the work. `Model.engine` makes it.
 */
public final class Engine implements AutoCloseable {
    /**
     * What the engine has done.
     *
     * @param submitted requests taken
     * @param refused requests that found the queue full
     * @param finished requests that have ended, those that were cancelled and those that failed included
     * @param promptTokens tokens of prompts
     * @param reusedTokens of these, those that the cache held already
     * @param generatedTokens tokens generated
     * @param tokensPerSecond tokens generated, of late
     * @param queued requests that wait
     * @param active requests that run
     */
    public record Metrics(long submitted, long refused, long finished, long promptTokens, long reusedTokens, long generatedTokens,
            double tokensPerSecond, int queued, int active) {}

    private static final int SLICE_MS = 50; // how long it takes at most to see that a thread is interrupted

    private final Handle handle;

    Engine(MemorySegment pointer) {
        handle = new Handle("engine", pointer, "ember_engine_free");
    }

    /**
     * Has a prompt continued, the whole text, and gives the events. The request is under way from now on, whether they are taken or not; a
     * thread that takes them waits. Close the stream when it is left early, which cancels the request; a thread that is interrupted
     * meanwhile ends it with an event whose `finish` is CANCELLED. Options.sequence, reusePrefix, lookup and draft mean nothing here.
     */
    public Stream<Event> submit(String prompt, Options options) {
        try (var arena = Arena.ofConfined()) {
            var text = Native.utf8(arena, prompt);
            return submit(arena, "ember_engine_submit", text, text.byteSize(), options);
        }
    }

    /** As before for a prompt of tokens, such as Model.tokenizeChat gives, to which nothing is added. */
    public Stream<Event> submit(int[] prompt, Options options) {
        try (var arena = Arena.ofConfined()) {
            return submit(arena, "ember_engine_submit_tokens", arena.allocateFrom(JAVA_INT, prompt), prompt.length, options);
        }
    }

    private Stream<Event> submit(Arena arena, String function, MemorySegment prompt, long n, Options options) {
        try (var how = options.handle(arena, MemorySegment.NULL, false); var sampler = options.sampler(arena)) {
            var pointer = handle.use(e -> how.use(o -> sampler == null
                    ? Native.made(arena, function, e, prompt, n, o, MemorySegment.NULL, MemorySegment.NULL, MemorySegment.NULL)
                    : sampler.use(s -> Native.made(arena, function, e, prompt, n, o, s, MemorySegment.NULL, MemorySegment.NULL))));
            var request = new Request(pointer);
            return StreamSupport.stream(request, false).onClose(request::close);
        }
    }

    /** A request under way: the source of a stream of events. */
    private static final class Request extends Spliterators.AbstractSpliterator<Event> {
        private final Handle request;
        private boolean ended;

        Request(MemorySegment pointer) {
            super(Long.MAX_VALUE, ORDERED | NONNULL | IMMUTABLE);
            request = new Handle("request", pointer, "ember_request_free");
        }

        @Override
        public boolean tryAdvance(Consumer<? super Event> action) {
            if (ended) return false;
            Event event = null;
            try (var arena = Arena.ofConfined()) {
                var raw = Native.allocate(arena, Native.EVENT);
                while (event == null) {
                    boolean interrupted = Thread.currentThread().isInterrupted();
                    event = request.use(r -> {
                        if (interrupted) Native.run("ember_request_cancel", r);
                        Native.call(arena, "ember_request_next", r, SLICE_MS, raw);
                        if (Native.number(raw, Native.EVENT, "kind") == 3) return null; // EMBER_EVENT_NONE
                        return Generation.event(raw, () -> Usage.of(arena, u -> Native.call(arena, "ember_request_usage", r, u)));
                    });
                }
            } catch (RuntimeException e) {
                close();
                throw e;
            }
            if (event.isEnd()) close();
            action.accept(event);
            return true;
        }

        void close() {
            ended = true;
            request.close();
        }
    }

    /** What the engine has done. */
    public Metrics metrics() {
        try (var arena = Arena.ofConfined()) {
            return handle.use(e -> {
                var raw = Native.allocate(arena, Native.METRICS);
                Native.call(arena, "ember_engine_metrics_get", e, raw);
                return new Metrics(n(raw, "n_submitted"), n(raw, "n_refused"), n(raw, "n_finished"), n(raw, "n_prompt"), n(raw, "n_reused"),
                        n(raw, "n_generated"), raw.get(JAVA_DOUBLE, Native.offset(Native.METRICS, "tokens_per_s")),
                        Native.number(raw, Native.METRICS, "n_queued"), Native.number(raw, Native.METRICS, "n_active"));
            });
        }
    }

    private static long n(MemorySegment raw, String field) {
        return raw.get(JAVA_LONG, Native.offset(Native.METRICS, field));
    }

    /** Cancels all requests and frees the engine; events that were not taken stay. */
    @Override
    public void close() {
        handle.close();
    }
}

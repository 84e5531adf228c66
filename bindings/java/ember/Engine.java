package ember;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
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
     * @param finished requests that ended by themselves, by a stop text, or in a full context
     * @param cancelled requests that were cancelled, or ended by their time limit
     * @param failed requests that an error ended
     * @param preempted how often a request gave its pages up for others and was run again later
     * @param promptTokens tokens of prompts
     * @param reusedTokens of these, those that the cache held already
     * @param prefilledTokens tokens of prompts that were run
     * @param generatedTokens tokens generated
     * @param steps steps that ran something
     * @param busy time spent in steps
     * @param tokensPerSecond tokens generated for each second of that
     * @param cacheHitRate reusedTokens for each of promptTokens
     * @param queued requests that wait
     * @param active requests that run
     * @param pages pages of the KV cache
     * @param freePages pages that no request has
     */
    public record Metrics(long submitted, long refused, long finished, long cancelled, long failed, long preempted, long promptTokens,
            long reusedTokens, long prefilledTokens, long generatedTokens, long steps, Duration busy, double tokensPerSecond,
            double cacheHitRate, int queued, int active, int pages, int freePages) {}

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
        return submit("ember_engine_submit", prompt, options);
    }

    /** As before for a prompt of tokens, such as Model.tokenizeChat gives, to which nothing is added. */
    public Stream<Event> submit(int[] prompt, Options options) {
        return submit("ember_engine_submit_tokens", prompt, options);
    }

    private Stream<Event> submit(String function, Object prompt, Options options) {
        try (var how = options.handle(null, false); var sampler = options.sampler()) {
            // A step may be under way when the request is freed, and still call them.
            if (!Sampler.callbacks(sampler).isEmpty()) {
                throw new IllegalArgumentException("a request of an engine takes no candidates: use Context.generate");
            }
            var request = new Request(Native.made(function, handle, prompt, how, sampler, null, null));
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
            try {
                while (event == null) {
                    if (Thread.currentThread().isInterrupted()) request.run("ember_request_cancel");
                    event = Native.struct(Native.EVENT, raw -> {
                        if (raw.number("kind") == 3) return null; // EMBER_EVENT_NONE
                        return Event.of(raw, () -> Usage.of("ember_request_usage", request));
                    }, "ember_request_next", request, SLICE_MS);
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
        return Native.struct(Native.METRICS, raw -> new Metrics(raw.whole("n_submitted"), raw.whole("n_refused"), raw.whole("n_finished"),
                raw.whole("n_cancelled"), raw.whole("n_failed"), raw.whole("n_preempted"), raw.whole("n_prompt"), raw.whole("n_reused"),
                raw.whole("n_prefilled"), raw.whole("n_generated"), raw.whole("n_steps"), raw.time("busy_ns"), raw.real("tokens_per_s"),
                raw.real("cache_hit_rate"), raw.number("n_queued"), raw.number("n_active"), raw.number("n_pages"),
                raw.number("n_free_pages")), "ember_engine_metrics_get", handle);
    }

    /** The options in force in the engine's context: positions are those of each request, sequences how many run together. */
    public Context.Info info() {
        return Native.struct(Native.CONTEXT_INFO, Context.Info::of, "ember_engine_info_get", handle);
    }

    /** Cancels all requests and frees the engine; events that were not taken stay. */
    @Override
    public void close() {
        handle.close();
    }
}

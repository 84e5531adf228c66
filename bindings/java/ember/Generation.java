package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Spliterators;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** A generation under way: the source of a stream of events. */
final class Generation extends Spliterators.AbstractSpliterator<Event> implements AutoCloseable {
    private static final long TEXT = Native.offset(Native.EVENT, "text");
    private static final long TEXT_LEN = Native.offset(Native.EVENT, "text_len");
    private static final long TOPS = Native.offset(Native.EVENT, "tops");
    private static final long N_TOPS = Native.offset(Native.EVENT, "n_tops");
    private static final long TOKEN = Native.offset(Native.EVENT, "token");
    private static final long LOGPROB = Native.offset(Native.EVENT, "logprob");
    private static final long FINISH = Native.offset(Native.EVENT, "finish_reason");

    private final Handle context;
    private final Handle cancel;
    private final Handle generator;
    private boolean ended;

    Generation(Handle context, int[] tokens, Options options, boolean chat) {
        super(Long.MAX_VALUE, ORDERED | NONNULL | IMMUTABLE);
        this.context = context;
        try (var arena = Arena.ofConfined()) {
            cancel = new Handle("token", Native.made(arena, "ember_cancel_token_new"), "ember_cancel_token_free");
            var prompt = arena.allocateFrom(JAVA_INT, tokens);
            try (var how = cancel.use(t -> options.handle(arena, t, chat)); var sampler = options.sampler(arena)) {
                generator = new Handle("generation", context.use(c -> how.use(o -> sampler == null
                        ? make(arena, c, prompt, o, MemorySegment.NULL)
                        : sampler.use(s -> make(arena, c, prompt, o, s)))), "ember_generator_free");
            }
        }
    }

    private static MemorySegment make(Arena arena, MemorySegment context, MemorySegment prompt, MemorySegment how, MemorySegment sampler) {
        return Native.made(arena, "ember_generator_new_tokens", context, prompt, prompt.byteSize() / 4, how, sampler);
    }

    @Override
    public boolean tryAdvance(Consumer<? super Event> action) {
        if (ended) return false;
        if (Thread.currentThread().isInterrupted()) {
            cancel.use(t -> {
                Native.run("ember_cancel_token_cancel", t);
                return null;
            });
        }
        Event event;
        try (var arena = Arena.ofConfined()) {
            var raw = Native.allocate(arena, Native.EVENT);
            // Neither the context nor the generator is freed meanwhile.
            event = context.use(c -> generator.use(g -> {
                Native.call(arena, "ember_generator_next", g, raw);
                return event(raw, () -> Usage.of(arena, u -> Native.call(arena, "ember_generator_usage", g, u)));
            }));
        } catch (RuntimeException e) {
            close();
            throw e;
        }
        if (event.isEnd()) close();
        action.accept(event);
        return true;
    }

    /** An event of the library's; `usage` gives that of an end. */
    static Event event(MemorySegment raw, Supplier<Usage> usage) {
        var text = raw.get(ADDRESS, TEXT).reinterpret(raw.get(JAVA_LONG, TEXT_LEN));
        int finish = raw.get(JAVA_INT, FINISH);
        var did = finish < 0 ? null : usage.get();
        return new Event(Native.text(text), raw.get(JAVA_INT, TOKEN), raw.get(JAVA_FLOAT, LOGPROB), top(raw),
                finish < 0 ? null : Event.Finish.values()[finish], did == null ? null : did.progress(), did);
    }

    private static List<Event.Likely> top(MemorySegment raw) {
        long n = raw.get(JAVA_LONG, N_TOPS);
        if (n == 0) return List.of();
        var tops = raw.get(ADDRESS, TOPS).reinterpret(Native.LIKELY.byteSize() * n);
        return tops.elements(Native.LIKELY).map(one -> new Event.Likely(one.get(JAVA_INT, 0), one.get(JAVA_FLOAT, 4))).toList();
    }

    @Override
    public void close() {
        ended = true;
        generator.close();
        cancel.close();
    }
}

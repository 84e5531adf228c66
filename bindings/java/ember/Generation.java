package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Spliterators;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** A generation under way: the source of a stream of events. */
final class Generation extends Spliterators.AbstractSpliterator<Event> implements AutoCloseable {
    private static final long TEXT = Native.offset(Native.EVENT, "text");
    private static final long TEXT_LEN = Native.offset(Native.EVENT, "text_len");
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
                return event(raw, () -> {
                    var usage = Native.allocate(arena, Native.RESULT);
                    Native.call(arena, "ember_generator_usage", g, usage);
                    return usage;
                });
            }));
        } catch (RuntimeException e) {
            close();
            throw e;
        }
        if (event.isEnd()) close();
        action.accept(event);
        return true;
    }

    /** An event of the library's; at the end `usage` gives an ember_generate_result. */
    static Event event(MemorySegment raw, Supplier<MemorySegment> usage) {
        var text = raw.get(ADDRESS, TEXT).reinterpret(raw.get(JAVA_LONG, TEXT_LEN));
        int finish = raw.get(JAVA_INT, FINISH);
        return new Event(Native.text(text), raw.get(JAVA_INT, TOKEN), raw.get(JAVA_FLOAT, LOGPROB),
                finish < 0 ? null : Event.Finish.values()[finish],
                finish < 0 ? null : Event.Progress.values()[Native.number(usage.get(), Native.RESULT, "progress")]);
    }

    @Override
    public void close() {
        ended = true;
        generator.close();
        cancel.close();
    }
}

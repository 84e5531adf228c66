package ember;

import java.util.Spliterators;
import java.util.function.Consumer;

/** A generation under way: the source of a stream of events. */
final class Generation extends Spliterators.AbstractSpliterator<Event> implements AutoCloseable {
    private final Handle context;
    private final Handle cancel = CancelToken.made();
    private final Handle generator;
    private boolean ended;

    /** `prompt` is a text, or tokens. */
    Generation(Handle context, Object prompt, Options options, boolean chat) {
        super(Long.MAX_VALUE, ORDERED | NONNULL | IMMUTABLE);
        this.context = context;
        try (var how = options.handle(cancel, chat); var sampler = options.sampler()) {
            var create = prompt instanceof String ? "ember_generator_new" : "ember_generator_new_tokens";
            generator = new Handle("generation", Native.made(create, context, prompt, how, sampler), "ember_generator_free",
                    Sampler.callbacks(sampler));
        }
    }

    @Override
    public boolean tryAdvance(Consumer<? super Event> action) {
        if (ended) return false;
        if (Thread.currentThread().isInterrupted()) CancelToken.cancel(cancel);
        Event event;
        try {
            // Neither the context nor the generator is freed meanwhile.
            event = context.use(c -> Native.struct(Native.EVENT, raw -> Event.of(raw, () -> Usage.of("ember_generator_usage", generator)),
                    "ember_generator_next", generator));
            if (event.finish() == Event.Finish.CANCELLED) generator.check();
        } catch (RuntimeException e) {
            close();
            throw e;
        }
        if (event.isEnd()) close();
        action.accept(event);
        return true;
    }

    @Override
    public void close() {
        ended = true;
        generator.close();
        cancel.close();
    }
}

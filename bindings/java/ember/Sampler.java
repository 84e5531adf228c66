package ember;

import java.util.List;

/**
 * Draws tokens: by hand from logits (`Context.decode`), or in generations that get it by `Options.sampler`. It keeps its random numbers and what
 * it accepted from one to the next. One thread at a time.
 */
public final class Sampler implements AutoCloseable {
    private final Handle handle;
    private boolean closed;

    private Sampler(Handle handle) {
        this.handle = handle;
    }

    /** With the stages and the seed of these options, which have nothing else. */
    public Sampler(Options options) {
        if (options.hasSampler()) throw new IllegalArgumentException("the options of a sampler must have no sampler");
        for (var setting : options.settings()) {
            throw new IllegalArgumentException("the options of a sampler have stages and a seed alone, and not " + setting.function());
        }
        handle = options.ownSampler();
    }

    /** With the stages that a model's file proposes; a seed of -1 stands for one taken at random. */
    static Sampler proposedBy(Handle model, long seed) {
        return new Sampler(new Handle("sampler", Native.made("ember_model_sampler", model, seed), "ember_sampler_free"));
    }

    synchronized Handle open() {
        if (closed) throw new EmberException(0, "the sampler is closed");
        return handle;
    }

    /** Chooses a token from logits, whose index is the token. It accepts nothing. */
    public int sample(float[] logits) {
        try {
            return Native.number("ember_sampler_sample", open(), logits);
        } catch (EmberException e) {
            handle.check();
            throw e;
        }
    }

    /** Tells the stages that look back that a token is part of the text now. */
    public void accept(int token) {
        Native.call("ember_sampler_accept", open(), Native.unsigned("token", token));
    }

    /** Starts over, as if it were new; the stages stay. */
    public void reset() {
        Native.call("ember_sampler_reset", open());
    }

    /** Another one with the same stages and their state, and random numbers that go on from where these are. */
    public Sampler copy() {
        return new Sampler(copy(open()));
    }

    static Handle copy(Handle sampler) {
        return new Handle("sampler", Native.made("ember_sampler_clone", sampler), "ember_sampler_free", sampler.callbacks());
    }

    /** What C calls for a sampler, which may be null. */
    static List<Callback> callbacks(Handle sampler) {
        return sampler == null ? List.of() : sampler.callbacks();
    }

    /** The seed of its random numbers, to be taken as unsigned. */
    public long seed() {
        return Native.whole("ember_sampler_seed", open());
    }

    /** How far the text is that follows a constraint (Options.constrained). */
    public Event.Progress progress() {
        return Event.Progress.values()[Native.number("ember_sampler_progress", open())];
    }

    /** Frees the sampler; generations that have it keep what they need. */
    @Override
    public void close() {
        synchronized (this) {
            if (closed) return;
            closed = true;
        }
        handle.close();
    }
}

package ember;

/** How to embed. */
public final class EmbedOptions extends Settings<EmbedOptions> {
    /** Which hidden states of a text make its vector. */
    public enum Pooling {
        /** What the model file says, or the mean where it says nothing. */
        AUTO,
        /** All of them: a vector for each token. */
        NONE,
        /** The mean of all tokens'. */
        MEAN,
        /** The first token's. */
        CLS,
        /** The last token's. */
        LAST,
        /** No vector, but scores: `Context.classify` and `Context.rerank`. In ModelInfo alone. */
        RANK;

        int number() {
            return ordinal() - 1;
        }

        static Pooling of(int number) {
            return number >= -1 && number < values().length - 1 ? values()[number + 1] : AUTO;
        }
    }

    private Pooling pooling = Pooling.AUTO;
    private int dimensions;

    public EmbedOptions() {
        super("ember_embed_options");
    }

    /** Which hidden states make a text's vector; by default AUTO. */
    public EmbedOptions pooling(Pooling pooling) {
        this.pooling = pooling;
        return set("ember_embed_options_set_pooling", pooling.number());
    }

    /** Whether each vector is scaled to length 1; by default where the model does, and not for one vector per token. */
    public EmbedOptions normalize(boolean normalize) {
        return set("ember_embed_options_set_normalize", normalize);
    }

    /** Whether a text that is too long is cut instead of refused; by default false. */
    public EmbedOptions truncate(boolean truncate) {
        return set("ember_embed_options_set_truncate", truncate);
    }

    /** How many numbers of each vector are kept, the first ones; 0: all. */
    public EmbedOptions dimensions(int n) {
        dimensions = Native.unsigned("dimensions", n);
        return set("ember_embed_options_set_dimensions", (long) n);
    }

    /** The name of the model's prompt that is put before each text, such as "query"; by default the model's default prompt. */
    public EmbedOptions prompt(String name) {
        return set("ember_embed_options_set_prompt", name);
    }

    /** Numbers of a model's vector before `dimensions` of them are kept. */
    int whole(ModelInfo info) {
        return (pooling == Pooling.AUTO ? info.pooling() : pooling) == Pooling.NONE ? info.embeddingLength() : info.vectorLength();
    }

    /** Numbers of a model's vector. */
    int width(ModelInfo info) {
        return dimensions > 0 ? dimensions : whole(info);
    }
}

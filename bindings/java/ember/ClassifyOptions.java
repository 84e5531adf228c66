package ember;

import java.lang.foreign.Arena;

/** How texts are scored by `Context.classify` and `Context.rerank`. */
public final class ClassifyOptions {
    /** What is done to the head's outputs, in the order of ember_classify_activation, from -1 on. */
    public enum Activation { AUTO, NONE, SIGMOID, SOFTMAX }

    private Activation activation = Activation.AUTO;
    private boolean truncate;
    private String template;
    private Boolean yesNo;

    /** What is done to the head's outputs; by default AUTO. */
    public ClassifyOptions activation(Activation activation) {
        this.activation = activation;
        return this;
    }

    /** Whether a text that is too long is cut instead of refused; by default false. */
    public ClassifyOptions truncate(boolean truncate) {
        this.truncate = truncate;
        return this;
    }

    /** The prompt of rerankers that are decoders, with the places `{query}` and `{document}`. */
    public ClassifyOptions template(String text) {
        template = text;
        return this;
    }

    /** Whether scores are those of the answers "yes" and "no" of a decoder. */
    public ClassifyOptions yesNo(boolean yesNo) {
        this.yesNo = yesNo;
        return this;
    }

    Handle handle(Arena arena) {
        var handle = new Handle("options", Native.made(arena, "ember_classify_options_new"), "ember_classify_options_free");
        return handle.use(o -> {
            Native.call(arena, "ember_classify_options_set_activation", o, activation.ordinal() - 1);
            Native.call(arena, "ember_classify_options_set_truncate", o, truncate);
            if (template != null) {
                var text = Native.utf8(arena, template);
                Native.call(arena, "ember_classify_options_set_template", o, text, text.byteSize());
            }
            if (yesNo != null) Native.call(arena, "ember_classify_options_set_yes_no", o, yesNo.booleanValue());
            return handle;
        });
    }
}

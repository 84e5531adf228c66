package ember;

/** How texts are scored by `Context.classify` and `Context.rerank`. */
public final class ClassifyOptions extends Settings<ClassifyOptions> {
    /** What is done to the head's outputs, in the order of ember_classify_activation, from -1 on. */
    public enum Activation { AUTO, NONE, SIGMOID, SOFTMAX }

    public ClassifyOptions() {
        super("ember_classify_options");
    }

    /** What is done to the head's outputs; by default AUTO. */
    public ClassifyOptions activation(Activation activation) {
        return set("ember_classify_options_set_activation", activation.ordinal() - 1);
    }

    /** Whether a text that is too long is cut instead of refused; by default false. */
    public ClassifyOptions truncate(boolean truncate) {
        return set("ember_classify_options_set_truncate", truncate);
    }

    /** The prompt of rerankers that are decoders, with the places `{query}` and `{document}`. */
    public ClassifyOptions template(String text) {
        return set("ember_classify_options_set_template", text);
    }

    /** Whether scores are those of the answers "yes" and "no" of a decoder. */
    public ClassifyOptions yesNo(boolean yesNo) {
        return set("ember_classify_options_set_yes_no", yesNo);
    }
}

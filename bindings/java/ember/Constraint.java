package ember;

import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Optional;

/**
 * What a text has to follow, compiled for the tokens of a model: for `Options.constraint`. It is made once and used by many generations of the model,
 * on any number of threads. Ember refuses what it cannot enforce: an EmberException names it.
 */
public final class Constraint implements AutoCloseable {
    final Handle handle;

    private Constraint(MemorySegment pointer) {
        handle = new Handle("constraint", pointer, "ember_constraint_free");
    }

    /** Of what the source is: a text, texts, or nothing. */
    private static Constraint of(Model model, ConstraintOptions options, String function, Object... source) {
        try (var how = options.handle()) {
            var all = new Object[source.length + 2];
            System.arraycopy(source, 0, all, 1, source.length);
            all[0] = model.handle();
            all[source.length + 1] = how;
            return new Constraint(Native.made(function, all));
        }
    }

    /** JSON that a JSON Schema describes. */
    public static Constraint jsonSchema(Model model, String schema, ConstraintOptions options) {
        return of(model, options, "ember_constraint_new_json_schema", schema);
    }

    /** JSON that a JSON Schema describes, with the options' defaults. */
    public static Constraint jsonSchema(Model model, String schema) {
        return jsonSchema(model, schema, new ConstraintOptions());
    }

    /** A JSON object, whatever it holds. */
    public static Constraint jsonObject(Model model, ConstraintOptions options) {
        return of(model, options, "ember_constraint_new_json_object");
    }

    /** What a regular expression matches as a whole, in the syntax of Rust's crate regex. */
    public static Constraint regex(Model model, String regex, ConstraintOptions options) {
        return of(model, options, "ember_constraint_new_regex", regex);
    }

    /** What a grammar in the syntax of Lark derives from its rule "start". */
    public static Constraint lark(Model model, String grammar, ConstraintOptions options) {
        return of(model, options, "ember_constraint_new_lark", grammar);
    }

    /** One of these texts. */
    public static Constraint choices(Model model, List<String> texts, ConstraintOptions options) {
        return of(model, options, "ember_constraint_new_choices", texts);
    }

    /**
     * What holds the calls of a reply to the schemas of their tools; empty where there is nothing to hold: without tools, say. `prompt` is what
     * `Model.applyChatTemplate` gave with the same options, or "". For generations of your own; a conversation does this by itself.
     */
    public static Optional<Constraint> chat(Model model, ChatOptions options, String prompt) {
        try (var how = options.handle()) {
            var pointer = Native.made("ember_chat_constraint", model.handle(), how, prompt);
            return pointer.address() == 0 ? Optional.empty() : Optional.of(new Constraint(pointer));
        }
    }

    /** Frees the constraint; generations that have it keep what they need. */
    @Override
    public void close() {
        handle.close();
    }
}

package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.util.List;

/**
 * What a text has to follow, compiled for the tokens of a model: for `Options.constraint`. It is made once and used by many generations of
 * the model, on any number of threads. What cannot be held to is an EmberException by name.
 */
public final class Constraint implements AutoCloseable {
    final Handle handle;

    private Constraint(Arena arena, Model model, ConstraintOptions options, String name, Object... source) {
        try (var how = options.handle(arena)) {
            handle = new Handle("constraint", model.use(m -> how.use(o -> {
                var all = new Object[source.length + 2];
                System.arraycopy(source, 0, all, 1, source.length);
                all[0] = m;
                all[source.length + 1] = o;
                return Native.made(arena, name, all);
            })), "ember_constraint_free");
        }
    }

    private static Constraint ofText(Model model, ConstraintOptions options, String name, String source) {
        try (var arena = Arena.ofConfined()) {
            var text = Native.utf8(arena, source);
            return new Constraint(arena, model, options, name, text, text.byteSize());
        }
    }

    /** JSON that a JSON Schema describes. */
    public static Constraint jsonSchema(Model model, String schema, ConstraintOptions options) {
        return ofText(model, options, "ember_constraint_new_json_schema", schema);
    }

    /** JSON that a JSON Schema describes, with the options' defaults. */
    public static Constraint jsonSchema(Model model, String schema) {
        return jsonSchema(model, schema, new ConstraintOptions());
    }

    /** A JSON object, whatever it holds. */
    public static Constraint jsonObject(Model model, ConstraintOptions options) {
        try (var arena = Arena.ofConfined()) {
            return new Constraint(arena, model, options, "ember_constraint_new_json_object");
        }
    }

    /** What a regular expression matches as a whole, in the syntax of Rust's crate regex. */
    public static Constraint regex(Model model, String regex, ConstraintOptions options) {
        return ofText(model, options, "ember_constraint_new_regex", regex);
    }

    /** What a grammar in the syntax of Lark derives from its rule "start". */
    public static Constraint lark(Model model, String grammar, ConstraintOptions options) {
        return ofText(model, options, "ember_constraint_new_lark", grammar);
    }

    /** One of these texts. */
    public static Constraint choices(Model model, List<String> texts, ConstraintOptions options) {
        try (var arena = Arena.ofConfined()) {
            var each = texts.stream().map(text -> Native.utf8(arena, text)).toList();
            var pointers = arena.allocate(ADDRESS, each.size());
            for (int i = 0; i < each.size(); i++) pointers.setAtIndex(ADDRESS, i, each.get(i));
            var lengths = arena.allocateFrom(JAVA_LONG, each.stream().mapToLong(text -> text.byteSize()).toArray());
            return new Constraint(arena, model, options, "ember_constraint_new_choices", pointers, lengths, (long) each.size());
        }
    }

    /** Frees the constraint; generations that have it keep what they need. */
    @Override
    public void close() {
        handle.close();
    }
}

package ember;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;

/** How to make a constraint. */
public final class ConstraintOptions {
    private final List<String> triggers = new ArrayList<>();
    private final List<Integer> tokens = new ArrayList<>();
    private int whitespace = 32;
    private boolean repeat;

    /** Most characters of white space between two parts of JSON, at most 256; by default 32. */
    public ConstraintOptions whitespace(int n) {
        whitespace = Native.unsigned("whitespace", n);
        return this;
    }

    /** Leaves the text free until this was generated; the constraint begins behind it. May be called again for more. */
    public ConstraintOptions trigger(String text) {
        triggers.add(text);
        return this;
    }

    /** The same for a token. */
    public ConstraintOptions triggerToken(int token) {
        tokens.add(token);
        return this;
    }

    /** Leaves the text free again behind the constraint's end, until the next trigger; otherwise the text ends there. */
    public ConstraintOptions repeat(boolean repeat) {
        this.repeat = repeat;
        return this;
    }

    /** The ember_constraint_options. */
    Handle handle(Arena arena) {
        var handle = new Handle("options", Native.made(arena, "ember_constraint_options_new"), "ember_constraint_options_free");
        return handle.use(o -> {
            Native.call(arena, "ember_constraint_options_set_whitespace", o, whitespace);
            Native.call(arena, "ember_constraint_options_set_repeat", o, repeat);
            for (var trigger : triggers) {
                var text = Native.utf8(arena, trigger);
                Native.call(arena, "ember_constraint_options_add_trigger_text", o, text, text.byteSize());
            }
            for (var token : tokens) Native.call(arena, "ember_constraint_options_add_trigger_token", o, token);
            return handle;
        });
    }
}

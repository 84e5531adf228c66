package ember;

/** How to make a constraint. */
public final class ConstraintOptions extends Settings<ConstraintOptions> {
    /**
     * A bound on work or memory, as in ember_constraint_limit: bytes of the source, symbols of the grammar, steps of compiling, steps for one
     * token, items of the parser for one token, states in one text.
     */
    public enum Limit { SOURCE, GRAMMAR, COMPILE, MASK, ITEMS, STATES }

    public ConstraintOptions() {
        super("ember_constraint_options");
    }

    /** Most characters of white space between two parts of JSON, at most 256; by default 32. */
    public ConstraintOptions whitespace(int n) {
        return set("ember_constraint_options_set_whitespace", Native.unsigned("whitespace", n));
    }

    /** Leaves the text free until this was generated; the constraint begins after it. May be called again for more. */
    public ConstraintOptions trigger(String text) {
        return set("ember_constraint_options_add_trigger_text", text);
    }

    /** The same for a token. */
    public ConstraintOptions triggerToken(int token) {
        return set("ember_constraint_options_add_trigger_token", token);
    }

    /** Leaves the text free again after the constraint's end, until the next trigger; otherwise the text ends there. */
    public ConstraintOptions repeat(boolean repeat) {
        return set("ember_constraint_options_set_repeat", repeat);
    }

    /** Where the bound is reached, making the constraint fails, or the generation ends with an error. */
    public ConstraintOptions limit(Limit limit, long value) {
        return set("ember_constraint_options_set_limit", limit.ordinal(), Native.unsigned("limit", value));
    }
}

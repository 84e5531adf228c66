package ember;

/** What a prompt to fill a gap has beside the text around it: for `Tokenizer.fimPrompt`. */
public final class FimOptions extends Settings<FimOptions> {
    /** In which order the parts stand, as in ember_fim_order: the model's, prefix first, suffix first, suffix first and joined. */
    public enum Order { AUTO, PSM, SPM, SPM_JOINED }

    public FimOptions() {
        super("ember_fim_options");
    }

    /** In which order the parts stand; by default the model's. */
    public FimOptions order(Order order) {
        return set("ember_fim_options_set_order", order.ordinal());
    }

    /** The name of the repository, which stands first. */
    public FimOptions repository(String name) {
        return set("ember_fim_options_set_repository", name);
    }

    /** The name of the file that has the gap. */
    public FimOptions file(String name) {
        return set("ember_fim_options_set_file", name);
    }

    /** Another file, which stands before the one with the gap; may be called again for more. */
    public FimOptions addFile(String name, String text) {
        return set("ember_fim_options_add_file", name, text);
    }
}

package ember;

import java.time.LocalDateTime;
import java.time.ZoneOffset;

/** How a conversation becomes text, and how its replies are read. Texts are those of ember.h. */
public final class ChatOptions extends Settings<ChatOptions> {
    public ChatOptions() {
        super("ember_chat_options");
    }

    /** The tools that the model may call, a JSON array. */
    public ChatOptions tools(String json) {
        return set("ember_chat_options_set_tools", json);
    }

    /** "auto", as by default, "none", "required", or a tool's name. */
    public ChatOptions toolChoice(String choice) {
        return set("ember_chat_options_set_tool_choice", choice);
    }

    /** Whether a reply may have several calls, as by default. */
    public ChatOptions parallelCalls(boolean parallel) {
        return set("ember_chat_options_set_parallel_calls", parallel);
    }

    /** Whether calls in conversations follow the schemas of the tools, so that they always parse, as by default. */
    public ChatOptions strictTools(boolean strict) {
        return set("ember_chat_options_set_strict_tools", strict);
    }

    /** Whether the model thinks before it answers; by default as the template has it. */
    public ChatOptions thinking(boolean thinks) {
        return set("ember_chat_options_set_thinking", thinks ? 1 : 2);
    }

    /** More variables for the template, a JSON object. */
    public ChatOptions variables(String json) {
        return set("ember_chat_options_set_variables", json);
    }

    /** A template in place of the model's. */
    public ChatOptions template(String text) {
        return set("ember_chat_options_set_template", text);
    }

    /** One of the model's templates. */
    public ChatOptions templateName(String name) {
        return set("ember_chat_options_set_template_name", name);
    }

    /** What time it is for templates that write the date; by default the system's universal time. */
    public ChatOptions now(LocalDateTime time) {
        return set("ember_chat_options_set_now", time.toEpochSecond(ZoneOffset.UTC)); // as the local clock shows it
    }

    /** Whether `Model.applyChatTemplate` and `tokenizeChat` end with what comes before an answer; by default true. */
    public ChatOptions addGenerationPrompt(boolean add) {
        return set("ember_chat_options_set_add_generation_prompt", add);
    }
}

package ember;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;

/** How a conversation becomes text, and how its replies are read. Texts are those of ember.h. */
public final class ChatOptions {
    /** Calls a setter. */
    private record Setting(String name, Object value) {}

    private final List<Setting> settings = new ArrayList<>();

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

    private ChatOptions set(String name, Object value) {
        settings.add(new Setting(name, value));
        return this;
    }

    /** The ember_chat_options. */
    Handle handle(Arena arena) {
        var handle = new Handle("options", Native.made(arena, "ember_chat_options_new"), "ember_chat_options_free");
        return handle.use(o -> {
            for (var setting : settings) {
                if (setting.value instanceof String value) {
                    var text = Native.utf8(arena, value);
                    Native.call(arena, setting.name, o, text, text.byteSize());
                } else Native.call(arena, setting.name, o, setting.value);
            }
            return handle;
        });
    }
}

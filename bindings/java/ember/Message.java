package ember;

/**
 * A part of a conversation.
 *
 * @param role "system", "user", "assistant", or "tool" for the result of a call
 * @param content the text
 * @param name of the tool that was called, or null
 * @param toolCallId the id of the call, or null
 */
public record Message(String role, String content, String name, String toolCallId) {
    /** A message that is no result of a call. */
    public Message(String role, String content) {
        this(role, content, null, null);
    }

    /** The result of a call that a reply had. */
    public static Message tool(ReplyEvent call, String content) {
        return new Message("tool", content, call.name(), call.id());
    }

    /** What a user says. */
    public static Message user(String content) {
        return new Message("user", content);
    }

    /** The system message, which comes first. */
    public static Message system(String content) {
        return new Message("system", content);
    }

    /** What the model said. */
    public static Message assistant(String content) {
        return new Message("assistant", content);
    }

    /** The messages as a JSON array. */
    static String json(Iterable<Message> messages) {
        var out = new StringBuilder("[");
        for (var message : messages) out.append(out.length() > 1 ? "," : "").append(message.json());
        return out.append(']').toString();
    }

    /** The message as a JSON object. */
    String json() {
        var out = new StringBuilder("{");
        member(out, "role", role);
        member(out, "content", content);
        member(out, "name", name);
        member(out, "tool_call_id", toolCallId);
        return out.append('}').toString();
    }

    private static void member(StringBuilder out, String name, String value) {
        if (value == null) return;
        quote(out.append(out.length() > 1 ? "," : ""), name);
        quote(out.append(':'), value);
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < ' ') out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        out.append('"');
    }
}

package ember;

/** A part of a conversation: its role is "system", "user" or "assistant". */
public record Message(String role, String content) {
    /** What a user says. */
    public static Message user(String content) {
        return new Message("user", content);
    }

    /** What the model is told first. */
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
        for (var message : messages) {
            out.append(out.length() > 1 ? ",{\"role\":" : "{\"role\":");
            quote(out, message.role);
            out.append(",\"content\":");
            quote(out, message.content);
            out.append('}');
        }
        return out.append(']').toString();
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

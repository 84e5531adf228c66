package ember;

/**
 * A piece of a reply.
 *
 * @param kind what it is
 * @param text of the answer, of a thought, of arguments (JSON), or what the model wrote of a call that is broken
 * @param index the place of the call among those of the reply
 * @param name the name of the tool that is called
 * @param id the id of the call
 * @param reason why a call is broken
 * @param finish why the reply ended; null before
 */
public record ReplyEvent(Kind kind, String text, int index, String name, String id, String reason, Event.Finish finish) {
    /**
     * What an event is: more of the answer; more of a thought; a call begins (index, id, name); more of its arguments; it is complete, with
     * all arguments as text; what began as a call is none (reason), and its text belongs to the answer; the reply is a message now.
     */
    public enum Kind { NONE, TEXT, THINKING, CALL_BEGIN, CALL_ARGUMENTS, CALL_DONE, CALL_BROKEN, END }

    /** A copy of an ember_chat_event. */
    static ReplyEvent of(Native.Struct raw) {
        return new ReplyEvent(Kind.values()[raw.number("kind")], raw.text("text"), raw.number("index"), raw.text("name"), raw.text("id"),
                raw.text("reason"), raw.finish());
    }

    /** Whether it is more of the answer. */
    public boolean isText() {
        return kind == Kind.TEXT || kind == Kind.CALL_BROKEN;
    }

    /** Whether a call is complete. */
    public boolean isCall() {
        return kind == Kind.CALL_DONE;
    }

    /** Whether this is the last event. */
    public boolean isEnd() {
        return kind == Kind.END;
    }
}

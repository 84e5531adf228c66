package ember;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * Reads a reply of a model while it streams, for generations of your own: the answer, what is thought before it, and calls of tools.
 * `Model.chatParser` makes it. One thread at a time. Have the generation write control tokens (Options.renderSpecial), of which marks
 * often are made.
 */
public final class ChatParser implements AutoCloseable {
    /**
     * How a model writes thoughts and calls, as its chat template says.
     *
     * @param calls the form of calls, "hermes" for example; "": none is known, calls come as text
     * @param thinkingOpen the mark before a thought; "": there are none
     * @param thinkingClose the mark after it
     * @param thinkingVariable of the template, which switches thinking; "": there is none
     * @param thinkingOn its value in JSON with which the model thinks
     * @param thinkingOff and with which it does not
     */
    public record Format(
            String calls, String thinkingOpen, String thinkingClose, String thinkingVariable, String thinkingOn, String thinkingOff) {}

    private final Handle handle;

    ChatParser(MemorySegment pointer) {
        handle = new Handle("parser", pointer, "ember_chat_parser_free");
    }

    /** Takes more of the reply, the text of an Event, and gives the pieces that are certain now. */
    public List<ReplyEvent> push(String text) {
        return events("ember_chat_parser_push", text);
    }

    /** Ends the reply and gives the pieces that waited for more. */
    public List<ReplyEvent> finish(Event.Finish finish) {
        return events("ember_chat_parser_finish", finish.ordinal());
    }

    private List<ReplyEvent> events(String feed, Object what) {
        Native.call(feed, handle, what);
        var all = new ArrayList<ReplyEvent>();
        while (true) {
            var event = Native.struct(Native.CHAT_EVENT, ReplyEvent::of, "ember_chat_parser_next", handle);
            if (event.kind() == ReplyEvent.Kind.NONE) return List.copyOf(all);
            all.add(event);
        }
    }

    /** Whether the reply is inside a thought now. */
    public boolean isThinking() {
        return Native.number("ember_chat_parser_is_thinking", handle) != 0;
    }

    /** How the model writes replies. */
    public Format format() {
        return Native.struct(Native.CHAT_FORMAT, raw -> new Format(raw.text("name"), raw.text("thinking_open"), raw.text("thinking_close"),
                raw.text("thinking_variable"), raw.text("thinking_on"), raw.text("thinking_off")), "ember_chat_parser_format", handle);
    }

    /** Frees the parser. */
    @Override
    public void close() {
        handle.close();
    }
}

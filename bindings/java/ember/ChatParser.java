package ember;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;

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
     * @param thinkingClose the mark behind it
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
        return events((arena, p) -> {
            var bytes = Native.utf8(arena, text);
            Native.call(arena, "ember_chat_parser_push", p, bytes, bytes.byteSize());
        });
    }

    /** Ends the reply and gives the pieces that waited for more. */
    public List<ReplyEvent> finish(Event.Finish finish) {
        return events((arena, p) -> Native.call(arena, "ember_chat_parser_finish", p, finish.ordinal()));
    }

    private List<ReplyEvent> events(BiConsumer<Arena, MemorySegment> feed) {
        try (var arena = Arena.ofConfined()) {
            return handle.use(p -> {
                feed.accept(arena, p);
                var all = new ArrayList<ReplyEvent>();
                var raw = Native.allocate(arena, Native.CHAT_EVENT);
                while (true) {
                    Native.call(arena, "ember_chat_parser_next", p, raw);
                    var event = ReplyEvent.of(raw);
                    if (event.kind() == ReplyEvent.Kind.NONE) return List.copyOf(all);
                    all.add(event);
                }
            });
        }
    }

    /** Whether the reply is inside a thought now. */
    public boolean isThinking() {
        try (var arena = Arena.ofConfined()) {
            var out = arena.allocate(JAVA_INT);
            handle.use(p -> {
                Native.call(arena, "ember_chat_parser_is_thinking", p, out);
                return null;
            });
            return out.get(JAVA_INT, 0) != 0;
        }
    }

    /** How the model writes replies. */
    public Format format() {
        try (var arena = Arena.ofConfined()) {
            return handle.use(p -> {
                var raw = Native.allocate(arena, Native.CHAT_FORMAT);
                Native.call(arena, "ember_chat_parser_format", p, raw);
                return new Format(text(raw, "name"), text(raw, "thinking_open"), text(raw, "thinking_close"),
                        text(raw, "thinking_variable"), text(raw, "thinking_on"), text(raw, "thinking_off"));
            });
        }
    }

    private static String text(MemorySegment raw, String field) {
        return Native.text(raw, Native.CHAT_FORMAT, field);
    }

    /** Frees the parser. */
    @Override
    public void close() {
        handle.close();
    }
}

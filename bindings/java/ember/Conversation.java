package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Spliterators;
import java.util.function.Consumer;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * A conversation with a model in a context, which `Context.conversation` makes. A reply runs only what the context does not hold. What a
 * user types can never spell a control token. One thread at a time.
 */
public final class Conversation implements AutoCloseable {
    /** What happens where a conversation becomes too long: whole turns are dropped, but the first; the first may go too; it is refused. */
    public enum WhenFull { DROP_OLDEST, DROP_OLDEST_AND_FIRST, REFUSE }

    /**
     * What a reply took.
     *
     * @param promptTokens tokens of the whole conversation, as it was when the reply began
     * @param reusedTokens of these, those that the context held already
     * @param generatedTokens tokens generated
     * @param thinkingTokens of these, those of thoughts
     * @param droppedTurns turns that were dropped for room before the reply
     * @param forgottenTokens tokens that the context forgot with them, without running what stands behind them again
     * @param finish why the reply ended; null while it is under way
     */
    public record Usage(int promptTokens, int reusedTokens, int generatedTokens, int thinkingTokens, int droppedTurns, int forgottenTokens,
            Event.Finish finish) {}

    private final Handle context;
    private final Handle cancel;
    private final Handle sampler;
    private final Handle handle;

    Conversation(Handle context, String create, byte[] source, ChatOptions chat, Options options) {
        this.context = context;
        try (var arena = Arena.ofConfined()) {
            cancel = new Handle("token", Native.made(arena, "ember_cancel_token_new"), "ember_cancel_token_free");
            sampler = options.sampler(arena);
            var bytes = arena.allocateFrom(JAVA_BYTE, source);
            try (var how = chat.handle(arena); var generate = cancel.use(t -> options.handle(arena, t, false))) {
                handle = new Handle("conversation", context.use(c -> how.use(o -> generate.use(
                        g -> Native.made(arena, create, c, bytes, bytes.byteSize(), o, g)))), "ember_conversation_free");
            }
        }
    }

    /** Calls a function of the conversation; the context is not freed meanwhile. */
    private void call(Arena arena, String name, Object... arguments) {
        context.use(c -> handle.use(p -> {
            var all = new Object[arguments.length + 1];
            System.arraycopy(arguments, 0, all, 1, arguments.length);
            all[0] = p;
            Native.call(arena, name, all);
            return null;
        }));
    }

    /** Adds a message without having it answered: the result of a tool, say. */
    public void add(Message message) {
        addJson(message.json());
    }

    /** As before, for a JSON object, which may have tool calls and what else the template looks at. */
    public void addJson(String message) {
        try (var arena = Arena.ofConfined()) {
            var text = Native.utf8(arena, message);
            call(arena, "ember_conversation_add", text, text.byteSize());
        }
    }

    /**
     * Adds a user's message, and gives the reply as a stream of events; an empty one has the messages answered that were added. An event is
     * computed when it is taken. Close the stream when it is left early: the reply becomes no message then. A thread that is interrupted
     * meanwhile ends it with an event whose `finish` is CANCELLED, and stays interrupted.
     */
    public Stream<ReplyEvent> send(String message) {
        try (var arena = Arena.ofConfined()) {
            var text = Native.utf8(arena, message);
            run("ember_cancel_token_reset");
            if (sampler == null) call(arena, "ember_conversation_begin", text, text.byteSize(), MemorySegment.NULL);
            else sampler.use(s -> {
                call(arena, "ember_conversation_begin", text, text.byteSize(), s);
                return null;
            });
        }
        var reply = new Reply();
        return StreamSupport.stream(reply, false).onClose(reply::close);
    }

    private void run(String name) {
        cancel.use(t -> {
            Native.run(name, t);
            return null;
        });
    }

    /** A reply under way: the source of a stream of events. */
    private final class Reply extends Spliterators.AbstractSpliterator<ReplyEvent> {
        private boolean ended;

        Reply() {
            super(Long.MAX_VALUE, ORDERED | NONNULL | IMMUTABLE);
        }

        @Override
        public boolean tryAdvance(Consumer<? super ReplyEvent> action) {
            if (ended) return false;
            if (Thread.currentThread().isInterrupted()) run("ember_cancel_token_cancel");
            ReplyEvent event;
            try (var arena = Arena.ofConfined()) {
                var raw = Native.allocate(arena, Native.CHAT_EVENT);
                event = context.use(c -> handle.use(p -> {
                    Native.call(arena, "ember_conversation_next", p, raw);
                    return ReplyEvent.of(raw); // whose memory is the conversation's
                }));
            } catch (RuntimeException e) {
                close();
                throw e;
            }
            ended = event.isEnd();
            action.accept(event);
            return true;
        }

        void close() {
            if (ended) return;
            ended = true;
            if (handle.isClosed()) return;
            try (var arena = Arena.ofConfined()) {
                call(arena, "ember_conversation_abandon");
            }
        }
    }

    /** Forgets the last turn: the user's last message and all behind it. */
    public void undo() {
        try (var arena = Arena.ofConfined()) {
            call(arena, "ember_conversation_undo");
        }
    }

    /** All messages so far as a JSON array, those that were dropped included. */
    public String messages() {
        try (var arena = Arena.ofConfined()) {
            return Native.text(handle.use(p -> Native.filled(arena, JAVA_BYTE, 4096, "ember_conversation_messages", p)));
        }
    }

    /** The conversation as bytes, for `Context.conversation`. */
    public byte[] save() {
        try (var arena = Arena.ofConfined()) {
            return handle.use(p -> Native.filled(arena, JAVA_BYTE, 8192, "ember_conversation_save", p).toArray(JAVA_BYTE));
        }
    }

    /** What the last reply took. */
    public Usage usage() {
        try (var arena = Arena.ofConfined()) {
            var raw = Native.allocate(arena, Native.USAGE);
            call(arena, "ember_conversation_usage_get", raw);
            int finish = Native.number(raw, Native.USAGE, "finish_reason");
            return new Usage(Native.number(raw, Native.USAGE, "n_prompt"), Native.number(raw, Native.USAGE, "n_reused"),
                    Native.number(raw, Native.USAGE, "n_generated"), Native.number(raw, Native.USAGE, "n_thinking"),
                    Native.number(raw, Native.USAGE, "n_dropped_turns"), Native.number(raw, Native.USAGE, "n_forgotten"),
                    finish < 0 ? null : Event.Finish.values()[finish]);
        }
    }

    /** Ends a thought after n tokens; 0: none does. */
    public void setThinkingBudget(int n) {
        try (var arena = Arena.ofConfined()) {
            call(arena, "ember_conversation_set_thinking_budget", Native.unsigned("n", n));
        }
    }

    /** What happens where the conversation becomes too long, and how many tokens must be free for a reply; 0: as many as it may have. */
    public void setWhenFull(WhenFull when, int reserve) {
        try (var arena = Arena.ofConfined()) {
            call(arena, "ember_conversation_set_when_full", when.ordinal(), Native.unsigned("reserve", reserve));
        }
    }

    /** Frees the conversation, once a call that is using it has ended. */
    @Override
    public void close() {
        handle.close();
        if (sampler != null) sampler.close();
        cancel.close();
    }
}

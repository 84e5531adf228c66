package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Spliterators;
import java.util.function.Consumer;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * A conversation with a model in a context, which `Context.conversation` makes. A reply runs only what the context does not hold. Text from a user
 * can never spell a control token. One thread at a time.
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
     * @param droppedTurns turns that were dropped before the reply, because the conversation had become too long
     * @param forgottenTokens tokens that the context forgot with them, without running what stands after them again
     * @param prefill time spent on the prompt
     * @param decode time spent on the generated tokens
     * @param finish why the reply ended; null while it is under way
     */
    public record Usage(int promptTokens, int reusedTokens, int generatedTokens, int thinkingTokens, int droppedTurns, int forgottenTokens,
            Duration prefill, Duration decode, Event.Finish finish) {}

    /** Says what is dropped where a conversation becomes too long. */
    @FunctionalInterface
    public interface OnFull {
        /** How many turns are dropped, the oldest first; 0 ends the reply. Asked again where that was not enough. */
        int drop(int tokens, int positions, int turns);
    }

    private final Handle context;
    private final Handle cancel;
    private final Handle sampler;
    private final boolean hasOwnSampler;
    private final Handle handle;
    private Callback onFull;

    /** `source` is a text or bytes. */
    Conversation(Handle context, String create, Object source, ChatOptions chat, Options options) {
        this.context = context;
        cancel = CancelToken.made();
        sampler = options.sampler();
        hasOwnSampler = !options.hasSampler();
        try (var how = chat.handle(); var generate = options.handle(cancel, false)) {
            handle = made(Native.made(create, context, source, how, generate));
        } catch (RuntimeException e) {
            closeRest();
            throw e;
        }
    }

    private Conversation(Conversation other, int sequence) {
        handle = made(Native.made("ember_conversation_fork", other.handle, Native.unsigned("sequence", sequence)));
        context = other.context;
        cancel = other.cancel.share();
        hasOwnSampler = other.hasOwnSampler;
        sampler = other.sampler == null ? null : hasOwnSampler ? Sampler.copy(other.sampler) : other.sampler.share();
    }

    private static Handle made(MemorySegment pointer) {
        return new Handle("conversation", pointer, "ember_conversation_free");
    }

    /**
     * The same conversation in another sequence of the context, which gets what this one's holds: both go on by themselves. The copy does not have
     * the function of onFull.
     */
    public Conversation fork(int sequence) {
        return new Conversation(this, sequence);
    }

    /** Calls a function of the conversation; the context is not freed meanwhile. */
    private void call(String name, Object... arguments) {
        context.use(c -> {
            var all = new Object[arguments.length + 1];
            System.arraycopy(arguments, 0, all, 1, arguments.length);
            all[0] = handle;
            Native.call(name, all);
            return null;
        });
    }

    /** Adds a message without having it answered: the result of a tool, say. */
    public void add(Message message) {
        addJson(message.json());
    }

    /** As before, for a JSON object, which may have tool calls and what else the template looks at. */
    public void addJson(String message) {
        call("ember_conversation_add", message);
    }

    /**
     * Adds a user's message, and gives the reply as a stream of events; an empty one has the messages answered that were added. An event is
     * computed when it is taken. Close the stream when it is left early: the reply becomes no message then. A thread that is interrupted
     * meanwhile ends it with an event whose `finish` is CANCELLED, and stays interrupted.
     */
    public Stream<ReplyEvent> send(String message) {
        CancelToken.reset(cancel);
        checked(() -> call("ember_conversation_begin", message, sampler));
        var reply = new Reply();
        return StreamSupport.stream(reply, false).onClose(reply::close);
    }

    /** Throws what a function of Java's threw that C called, in place of what came of it. */
    private void checked(Runnable call) {
        try {
            call.run();
        } catch (EmberException e) {
            check();
            throw e;
        }
    }

    private void check() {
        if (onFull != null) onFull.check();
        if (sampler != null) sampler.check();
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
            if (Thread.currentThread().isInterrupted()) CancelToken.cancel(cancel);
            ReplyEvent event;
            try {
                event = context.use(c -> Native.struct(Native.CHAT_EVENT, ReplyEvent::of, "ember_conversation_next", handle));
                if (event.finish() == Event.Finish.CANCELLED) check();
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
            if (!handle.isClosed()) call("ember_conversation_abandon");
        }
    }

    /** Forgets the last turn: the user's last message and all after it. */
    public void undo() {
        call("ember_conversation_undo");
    }

    /** All messages so far as a JSON array, those that were dropped included. */
    public String messages() {
        return Native.text(4096, "ember_conversation_messages", handle);
    }

    /** The conversation as bytes, for `Context.conversation`. */
    public byte[] save() {
        return Native.bytes(8192, "ember_conversation_save", handle);
    }

    /** What the last reply took. */
    public Usage usage() {
        return Native.struct(Native.USAGE, raw -> new Usage(raw.number("n_prompt"), raw.number("n_reused"), raw.number("n_generated"),
                raw.number("n_thinking"), raw.number("n_dropped_turns"), raw.number("n_forgotten"), raw.time("prefill_ns"),
                raw.time("decode_ns"), raw.finish()), "ember_conversation_usage_get", handle);
    }

    /** Ends a thought after n tokens; 0: none does. */
    public void setThinkingBudget(int n) {
        call("ember_conversation_set_thinking_budget", Native.unsigned("n", n));
    }

    /** Whether replies from now on have to call a tool: "auto", "none", "required", a tool's name. It holds until another choice is set. */
    public void setToolChoice(String choice) {
        call("ember_conversation_set_tool_choice", choice);
    }

    /** What happens where the conversation becomes too long, and how many tokens must be free for a reply; 0: as many as it may have. */
    public void setWhenFull(WhenFull when, int reserve) {
        call("ember_conversation_set_when_full", when.ordinal(), Native.unsigned("reserve", reserve));
    }

    /** Has `onFull` say what is dropped where the conversation becomes too long, in `send`; null: as few turns as need be. */
    public void setOnFull(OnFull onFull) {
        var callback = onFull == null ? null : new Callback(FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS), 0,
                values -> Native.unsigned("what onFull gives", onFull.drop((int) values[0], (int) values[1], (int) values[2])));
        call("ember_conversation_set_on_full", callback == null ? MemorySegment.NULL : callback.pointer, MemorySegment.NULL);
        this.onFull = callback;
    }

    /** Frees the conversation, once a call that is using it has ended. */
    @Override
    public synchronized void close() {
        if (handle.isClosed()) return;
        handle.close();
        closeRest();
    }

    private void closeRest() {
        if (sampler != null) sampler.close();
        cancel.close();
    }
}

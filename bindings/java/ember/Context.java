package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** A text that is worked on, by one thread at a time; a second one gets an EmberException. */
public final class Context implements AutoCloseable {
    private final Model model;
    private final Handle handle;

    Context(Model model, MemorySegment pointer) {
        this.model = model;
        handle = new Handle("context", pointer, "ember_context_free");
    }

    /** The answer to a conversation, with the options' defaults. */
    public Stream<Event> chat(List<Message> messages) {
        return chat(messages, new Options());
    }

    /**
     * The answer to a conversation, by the model's chat template, as a stream of events. Give all of the conversation each time: what the
     * context holds of it already is not run again. An event is computed when it is taken. Close the stream when it is left early; a
     * thread that is interrupted meanwhile ends it with an event whose `finish` is CANCELLED, and stays interrupted.
     */
    public Stream<Event> chat(List<Message> messages, Options options) {
        return chat(messages, new ChatOptions(), options);
    }

    /** As before, with tools, variables and the like. No text of a message can spell a control token. */
    public Stream<Event> chat(List<Message> messages, ChatOptions chat, Options options) {
        return stream(model.tokenizeChat(messages, chat), options, true);
    }

    /** A conversation that keeps what was said. `system` is the system text, if there is one; `options` say how replies are generated. */
    public Conversation conversation(String system, ChatOptions chat, Options options) {
        return new Conversation(handle, "ember_conversation_new", system.getBytes(StandardCharsets.UTF_8), chat, options);
    }

    /** What `Conversation.save` gave goes on, with options of its own. */
    public Conversation conversation(byte[] saved, ChatOptions chat, Options options) {
        return new Conversation(handle, "ember_conversation_load", saved, chat, options);
    }

    /** Continues the context by a prompt and by what the model says to it, as chat does. */
    public Stream<Event> generate(String prompt, Options options) {
        return stream(model.tokenize(prompt, true, false), options, false);
    }

    /** As before for a prompt of tokens, to which nothing is added. */
    public Stream<Event> generate(int[] prompt, Options options) {
        return stream(prompt, options, false);
    }

    /** `n` completions of a prompt, which runs once. The context needs as many sequences. */
    public Completions completions(String prompt, int n, Options options) {
        return new Completions(handle, model.tokenize(prompt, true, false), n, options);
    }

    private Stream<Event> stream(int[] tokens, Options options, boolean chat) {
        var generation = new Generation(handle, tokens, options, chat);
        return StreamSupport.stream(generation, false).onClose(generation::close);
    }

    /** A vector for each text, with the options' defaults. */
    public float[][] embed(List<String> texts) {
        return embed(texts, new EmbedOptions());
    }

    /** A vector for each text, in their order; with Pooling.NONE one for each token of each text. Give many at once. */
    public float[][] embed(List<String> texts, EmbedOptions options) {
        var info = handle.use(c -> model.info());
        try (var arena = Arena.ofConfined(); var how = options.handle(arena)) {
            var raw = new Native.Texts(arena, texts);
            return Native.rows(scores(arena, raw.n() * options.whole(info), how, "ember_embed", raw.pointers(), raw.lengths(), raw.n()),
                    options.width(info));
        }
    }

    /** The scores of each text, one for each of Model.labels. Give many at once. */
    public float[][] classify(List<String> texts, ClassifyOptions options) {
        try (var arena = Arena.ofConfined(); var how = options.handle(arena)) {
            var raw = new Native.Texts(arena, texts);
            var all = scores(arena, raw.n(), how, "ember_classify", raw.pointers(), raw.lengths(), raw.n());
            return Native.rows(all, texts.isEmpty() ? 0 : all.length / texts.size());
        }
    }

    /** How well each document answers the query: a score for each, the higher the better. */
    public float[] rerank(String query, List<String> documents, ClassifyOptions options) {
        try (var arena = Arena.ofConfined(); var how = options.handle(arena)) {
            var asked = Native.utf8(arena, query);
            var raw = new Native.Texts(arena, documents);
            return scores(arena, raw.n(), how, "ember_rerank", asked, asked.byteSize(), raw.pointers(), raw.lengths(), raw.n());
        }
    }

    /** What a function writes whose arguments are the context, these, and options. */
    private float[] scores(Arena arena, long room, Handle how, String function, Object... arguments) {
        return handle.use(c -> how.use(o -> {
            var all = new Object[arguments.length + 2];
            all[0] = c;
            System.arraycopy(arguments, 0, all, 1, arguments.length);
            all[all.length - 1] = o;
            return Native.filled(arena, JAVA_FLOAT, room, function, all).toArray(JAVA_FLOAT);
        }));
    }

    /** Forgets what is behind position n. */
    public void rewind(int n) {
        rewind(0, n);
    }

    /** Forgets what is behind position n of a sequence. */
    public void rewind(int sequence, int n) {
        call("ember_context_rewind", Native.unsigned("sequence", sequence), Native.unsigned("n", n));
    }

    /** The number of tokens in a sequence. */
    public int past(int sequence) {
        try (var arena = Arena.ofConfined()) {
            var out = arena.allocate(JAVA_INT);
            call("ember_context_n_past", Native.unsigned("sequence", sequence), out);
            return out.get(JAVA_INT, 0);
        }
    }

    /** Makes sequence `to` the first n tokens of sequence `from`, at next to no cost: for several answers to one prompt. */
    public void copySequence(int from, int to, int n) {
        call("ember_context_sequence_copy", Native.unsigned("from", from), Native.unsigned("to", to), Native.unsigned("n", n));
    }

    /** A sequence as bytes, for `loadState`, in another process too. */
    public byte[] saveState(int sequence) {
        try (var arena = Arena.ofConfined()) {
            return handle.use(c -> Native.filled(arena, JAVA_BYTE, 0, "ember_context_state_save", c,
                    Native.unsigned("sequence", sequence)).toArray(JAVA_BYTE));
        }
    }

    /** Makes a sequence what `saveState` gave, of the same model. On an error all is as it was. */
    public void loadState(int sequence, byte[] state) {
        try (var arena = Arena.ofConfined()) {
            call("ember_context_state_load", Native.unsigned("sequence", sequence), arena.allocateFrom(JAVA_BYTE, state),
                    (long) state.length);
        }
    }

    /** As saveState, to a file; one that was there before stays as it was when that fails. */
    public void saveState(int sequence, String path) {
        try (var arena = Arena.ofConfined()) {
            var text = Native.utf8(arena, path);
            call("ember_context_state_save_file", Native.unsigned("sequence", sequence), text, text.byteSize());
        }
    }

    /** As loadState, from a file. */
    public void loadState(int sequence, String path) {
        try (var arena = Arena.ofConfined()) {
            var text = Native.utf8(arena, path);
            call("ember_context_state_load_file", Native.unsigned("sequence", sequence), text, text.byteSize());
        }
    }

    /** How likely a continuation is behind a prompt; scoring many continuations of one prompt runs the prompt once. */
    public Score score(String prompt, String continuation) {
        try (var arena = Arena.ofConfined()) {
            var before = Native.utf8(arena, prompt);
            var behind = Native.utf8(arena, continuation);
            var needed = arena.allocate(JAVA_LONG);
            var result = Native.allocate(arena, Native.SCORE_RESULT);
            for (long room = behind.byteSize() + 8;; room = needed.get(JAVA_LONG, 0)) {
                var scores = arena.allocate(Native.TOKEN_SCORE, room);
                try {
                    call("ember_score", before, before.byteSize(), behind, behind.byteSize(), MemorySegment.NULL, scores, room, needed, result);
                } catch (EmberException tooSmall) {
                    if (tooSmall.status() != 9) throw tooSmall; // EMBER_E_BUFFER_TOO_SMALL
                    continue;
                }
                var tokens = scores.elements(Native.TOKEN_SCORE).limit(needed.get(JAVA_LONG, 0)).map(one -> new Score.Token(
                        one.get(JAVA_INT, 0), one.get(JAVA_FLOAT, 4), one.get(JAVA_INT, 8))).toList();
                return new Score(tokens, result.get(JAVA_DOUBLE, Native.offset(Native.SCORE_RESULT, "logprob")),
                        Native.number(result, Native.SCORE_RESULT, "n_prompt"), Native.number(result, Native.SCORE_RESULT, "n_reused"),
                        Native.number(result, Native.SCORE_RESULT, "is_greedy") != 0);
            }
        }
    }

    /** Bytes that the context takes, and its model. */
    public Memory memory() {
        try (var arena = Arena.ofConfined()) {
            return Memory.of(arena, raw -> call("ember_context_memory", raw));
        }
    }

    /** Calls a function of the context. */
    private void call(String function, Object... arguments) {
        try (var arena = Arena.ofConfined()) {
            use(c -> {
                var all = new Object[arguments.length + 1];
                System.arraycopy(arguments, 0, all, 1, arguments.length);
                all[0] = c;
                Native.call(arena, function, all);
                return null;
            });
        }
    }

    <T> T use(Function<MemorySegment, T> f) {
        return handle.use(f);
    }

    /** Frees the context, once what is running with it has ended. */
    @Override
    public void close() {
        handle.close();
        model.close();
    }
}

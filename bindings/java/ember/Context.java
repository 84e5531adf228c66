package ember;

import static java.lang.foreign.ValueLayout.*;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** A text that is worked on, by one thread at a time; a second one gets an EmberException. */
public final class Context implements AutoCloseable {
    /** In place of a sequence's number, for states: all sequences of the context. */
    public static final int ALL_SEQUENCES = -1;

    /**
     * The options in force.
     *
     * @param positions positions of each sequence
     * @param sequences sequences
     * @param batch rows run through the model at a time
     * @param threads threads, the caller's included
     * @param pageLength tokens of a page of the KV cache
     * @param pages pages of the KV cache
     * @param freePages pages that no sequence has
     * @param backend implementation of the mathematics
     */
    public record Info(int positions, int sequences, int batch, int threads, int pageLength, int pages, int freePages,
            ContextOptions.Backend backend) {
        static Info of(Native.Struct raw) {
            return new Info(raw.number("n_ctx"), raw.number("n_seq"), raw.number("n_batch"), raw.number("n_threads"), raw.number("page_len"),
                    raw.number("n_pages"), raw.number("n_free_pages"), ContextOptions.Backend.values()[raw.number("backend")]);
        }
    }

    /**
     * What was run, and how long that took, since the context was made or `resetTimings`.
     *
     * @param load the model's loading
     * @param prefillTokens tokens of prompts
     * @param prefill their time
     * @param decodeTokens tokens one by one: generation
     * @param decode their time
     * @param embedTokens tokens of texts that were embedded
     * @param embed their time
     * @param replayTokens tokens that were run once more for recurrent layers
     * @param replay their time
     */
    public record Timings(Duration load, long prefillTokens, Duration prefill, long decodeTokens, Duration decode, long embedTokens,
            Duration embed, long replayTokens, Duration replay) {}

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
        return new Conversation(handle, "ember_conversation_new", system, chat, options);
    }

    /** What `Conversation.save` gave goes on, with options of its own. */
    public Conversation conversation(byte[] saved, ChatOptions chat, Options options) {
        return new Conversation(handle, "ember_conversation_load", saved, chat, options);
    }

    /** Continues the context by a prompt and by what the model says to it, as chat does. */
    public Stream<Event> generate(String prompt, Options options) {
        return stream(prompt, options, false);
    }

    /** As before for a prompt of tokens, to which nothing is added. */
    public Stream<Event> generate(int[] prompt, Options options) {
        return stream(prompt, options, false);
    }

    /** `n` completions of a prompt, which runs once. The context needs as many sequences. */
    public Completions completions(String prompt, int n, Options options) {
        return new Completions(handle, prompt, n, options);
    }

    /** As before for a prompt of tokens, to which nothing is added. */
    public Completions completions(int[] prompt, int n, Options options) {
        return new Completions(handle, prompt, n, options);
    }

    private Stream<Event> stream(Object prompt, Options options, boolean chat) {
        var generation = new Generation(handle, prompt, options, chat);
        return StreamSupport.stream(generation, false).onClose(generation::close);
    }

    /** A vector for each text, with the options' defaults. */
    public float[][] embed(List<String> texts) {
        return embed(texts, new EmbedOptions());
    }

    /** A vector for each text, in their order; with Pooling.NONE one for each token of each text. Give many at once. */
    public float[][] embed(List<String> texts, EmbedOptions options) {
        return embed("ember_embed", texts.size(), options, texts);
    }

    /** The same for texts that are tokens already, to which nothing is added. */
    public float[][] embedTokens(List<int[]> texts, EmbedOptions options) {
        var all = texts.stream().flatMapToInt(Arrays::stream).toArray();
        return embed("ember_embed_tokens", texts.size(), options, all, texts.stream().mapToLong(one -> one.length).toArray());
    }

    private float[][] embed(String function, int n, EmbedOptions options, Object... texts) {
        var info = handle.use(c -> model.info());
        return Native.rows(scores((long) n * options.whole(info), options, function, texts), options.width(info));
    }

    /** The scores of each text, one for each of Model.labels. Give many at once. */
    public float[][] classify(List<String> texts, ClassifyOptions options) {
        var all = scores(texts.size(), options, "ember_classify", texts);
        return Native.rows(all, texts.isEmpty() ? 0 : all.length / texts.size());
    }

    /** How well each document answers the query: a score for each, the higher the better. */
    public float[] rerank(String query, List<String> documents, ClassifyOptions options) {
        return scores(documents.size(), options, "ember_rerank", query, documents);
    }

    /** What a function writes whose arguments are the context, these, and options. */
    private float[] scores(long capacity, Settings<?> options, String function, Object... arguments) {
        try (var how = options.handle()) {
            var all = Arrays.copyOf(with(arguments), arguments.length + 2);
            all[arguments.length + 1] = how;
            return Native.floats(capacity, function, all);
        }
    }

    /** Runs tokens through the model, and gives the logits after the last one, whose index is the token: for a Sampler. */
    public float[] decode(int... tokens) {
        return decode(0, tokens);
    }

    /** As before, in another sequence. */
    public float[] decode(int sequence, int[] tokens) {
        var sequences = new int[tokens.length];
        Arrays.fill(sequences, Native.unsigned("sequence", sequence));
        decode(tokens, null, sequences, null);
        return logits(tokens.length - 1);
    }

    /**
     * Runs tokens through the model: each in its sequence, at its position, which is checked, and with logits after it if they are wanted. All but
     * the tokens may be null: sequence 0, any position, logits after the last one.
     */
    public void decode(int[] tokens, int[] positions, int[] sequences, boolean[] logits) {
        byte[] wanted = logits == null ? null : new byte[logits.length];
        for (int i = 0; wanted != null && i < wanted.length; i++) wanted[i] = (byte) (logits[i] ? 1 : 0);
        call("ember_context_decode", new Native.Columns(tokens.length, tokens, positions, sequences, wanted));
    }

    /** The logits after token `index` of the last decode, a copy; an EmberException with the status 10 where they are gone. */
    public float[] logits(int index) {
        long n = model.info().vocabularySize();
        return handle.use(c -> Native.made("ember_context_logits", c, (long) Native.unsigned("index", index)).reinterpret(4 * n).toArray(JAVA_FLOAT));
    }

    /** Forgets what is after position n. */
    public void rewind(int n) {
        rewind(0, n);
    }

    /** Forgets what is after position n of a sequence. */
    public void rewind(int sequence, int n) {
        call("ember_context_rewind", Native.unsigned("sequence", sequence), Native.unsigned("n", n));
    }

    /** The number of tokens in a sequence. */
    public int past(int sequence) {
        return Native.number("ember_context_n_past", handle, Native.unsigned("sequence", sequence));
    }

    /** The tokens in a sequence. */
    public int[] tokens(int sequence) {
        return Native.ints(256, "ember_context_tokens", handle, Native.unsigned("sequence", sequence));
    }

    /** Makes sequence `to` the first n tokens of sequence `from`, at next to no cost: for several answers to one prompt. */
    public void copySequence(int from, int to, int n) {
        call("ember_context_sequence_copy", Native.unsigned("from", from), Native.unsigned("to", to), Native.unsigned("n", n));
    }

    /** Empties all sequences but one. */
    public void keepSequence(int sequence) {
        call("ember_context_sequence_keep", Native.unsigned("sequence", sequence));
    }

    /**
     * Makes a sequence as much of the beginning of these tokens as the context has, but no more than `most`, and returns their number. The sequence
     * may have them already; with ContextOptions.keepPrefixes, pages that were kept may have them too. Run the rest then, one token at least.
     */
    public int reusePrefix(int sequence, int[] tokens, int most) {
        return (int) Native.whole("ember_context_sequence_reuse", handle, Native.unsigned("sequence", sequence), tokens,
                (long) Native.unsigned("most", most));
    }

    /** Forgets `drop` tokens after the first `keep` of a sequence; those after them move forward. */
    public void shift(int sequence, int keep, int drop) {
        call("ember_context_sequence_shift", Native.unsigned("sequence", sequence), Native.unsigned("keep", keep), Native.unsigned("drop", drop));
    }

    private static int stated(int sequence) {
        return sequence == ALL_SEQUENCES ? sequence : Native.unsigned("sequence", sequence);
    }

    /** A sequence as bytes, or all (ALL_SEQUENCES), for `loadState`, in another process too. */
    public byte[] saveState(int sequence) {
        return Native.bytes(0, "ember_context_state_save", handle, stated(sequence));
    }

    /** Makes a sequence what `saveState` gave, of the same model. On an error all is as it was. */
    public void loadState(int sequence, byte[] state) {
        call("ember_context_state_load", stated(sequence), state);
    }

    /** As saveState, to a file; one that was there before stays as it was when that fails. */
    public void saveState(int sequence, String path) {
        call("ember_context_state_save_file", stated(sequence), path);
    }

    /** As loadState, from a file. */
    public void loadState(int sequence, String path) {
        call("ember_context_state_load_file", stated(sequence), path);
    }

    /** As saveState, part by part to a stream; no copy is held. */
    public void saveState(int sequence, OutputStream to) throws IOException {
        stream("ember_context_state_write", sequence, new Callback(FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS), 1, values -> {
            try {
                to.write(Callback.at(values[0], (long) values[1]).toArray(JAVA_BYTE));
                return 0;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }));
    }

    /** As loadState, from a stream, which is read to its end. */
    public void loadState(int sequence, InputStream from) throws IOException {
        stream("ember_context_state_read", sequence, new Callback(FunctionDescriptor.of(JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS), -1L, values -> {
            try {
                var bytes = from.readNBytes((int) Math.min((long) values[1], 1 << 20));
                MemorySegment.copy(bytes, 0, Callback.at(values[0], bytes.length), JAVA_BYTE, 0, bytes.length);
                return (long) bytes.length;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }));
    }

    private void stream(String function, int sequence, Callback callback) throws IOException {
        try {
            call(function, stated(sequence), callback.pointer, MemorySegment.NULL);
        } catch (EmberException refused) {
            try {
                callback.check();
            } catch (UncheckedIOException e) {
                throw e.getCause();
            }
            throw refused;
        }
    }

    /** How likely a continuation is after a prompt; scoring many continuations of one prompt runs the prompt once. */
    public Score score(String prompt, String continuation) {
        return score(0, prompt, continuation);
    }

    /** As before, in another sequence. */
    public Score score(int sequence, String prompt, String continuation) {
        return score(sequence, 4L * continuation.length() + 8, "ember_score", prompt, continuation);
    }

    /** As before, for tokens, to which nothing is added. */
    public Score score(int sequence, int[] prompt, int[] continuation) {
        var all = Arrays.copyOf(prompt, prompt.length + continuation.length);
        System.arraycopy(continuation, 0, all, prompt.length, continuation.length);
        return score(sequence, continuation.length, "ember_score_tokens", all, (long) prompt.length);
    }

    private Score score(int sequence, long capacity, String function, Object... texts) {
        try (var how = new Options().sequence(sequence).handle()) {
            var all = Arrays.copyOf(with(texts), texts.length + 2);
            all[texts.length + 1] = how;
            return Native.filled(Native.TOKEN_SCORE, capacity, Native.SCORE_RESULT, filled -> {
                var tokens = filled.buffer().elements(Native.TOKEN_SCORE).map(one -> new Score.Token(
                        one.get(JAVA_INT, 0), one.get(JAVA_FLOAT, 4), one.get(JAVA_INT, 8))).toList();
                var result = filled.after();
                return new Score(tokens, result.real("logprob"), result.number("n_prompt"), result.number("n_reused"), result.truth("is_greedy"));
            }, function, all);
        }
    }

    /** Has the token end what the context computes from now on, from another thread; null: none does. */
    public void cancelToken(CancelToken token) {
        call("ember_context_set_cancel_token", token == null ? null : token.handle);
    }

    /** The options in force. */
    public Info info() {
        return Native.struct(Native.CONTEXT_INFO, Info::of, "ember_context_info_get", handle);
    }

    /** Bytes that the context takes, and its model. */
    public Memory memory() {
        return Native.struct(Native.MEMORY, Memory::of, "ember_context_memory", handle);
    }

    /** What the context has run, and how long that took. */
    public Timings timings() {
        return Native.struct(Native.TIMINGS, raw -> new Timings(raw.time("load_ns"), raw.whole("n_prefill"), raw.time("prefill_ns"),
                raw.whole("n_decode"), raw.time("decode_ns"), raw.whole("n_embed"), raw.time("embed_ns"), raw.whole("n_replay"),
                raw.time("replay_ns")), "ember_context_timings_get", handle);
    }

    /** Sets the counters of `timings` to 0; `load` stays. */
    public void resetTimings() {
        call("ember_context_timings_reset");
    }

    /** Calls a function of the context. */
    private void call(String function, Object... arguments) {
        Native.call(function, with(arguments));
    }

    /** The context, and these. */
    private Object[] with(Object... arguments) {
        var all = new Object[arguments.length + 1];
        System.arraycopy(arguments, 0, all, 1, arguments.length);
        all[0] = handle;
        return all;
    }

    Handle handle() {
        return handle;
    }

    /** Frees the context, once what is running with it has ended. */
    @Override
    public void close() {
        handle.close();
        model.close();
    }
}

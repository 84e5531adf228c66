package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

/** A loaded model: immutable, for any number of threads and contexts, which keep it. */
public final class Model implements AutoCloseable {
    private final Handle handle;

    private Model(MemorySegment pointer) {
        handle = new Handle("model", pointer, "ember_model_release");
    }

    /** Loads a GGUF file or a folder of Hugging Face. */
    public static Model load(String path) {
        try (var arena = Arena.ofConfined()) {
            var text = Native.utf8(arena, path);
            return new Model(Native.made(arena, "ember_model_load", text, text.byteSize(), MemorySegment.NULL));
        }
    }

    /** Loads a GGUF file that lies in memory, of which the model has a copy. */
    public static Model load(byte[] bytes) {
        try (var arena = Arena.ofConfined()) {
            var data = arena.allocateFrom(JAVA_BYTE, bytes);
            return new Model(Native.made(arena, "ember_model_load_buffer", data, data.byteSize(), MemorySegment.NULL));
        }
    }

    /** What loading a model and making a context would take, without doing it; positions, threads and sequences as for `context`. */
    public static Memory estimateMemory(String path, int positions, int threads, int sequences) {
        try (var arena = Arena.ofConfined(); var options = contextOptions(arena, positions, threads, sequences)) {
            var text = Native.utf8(arena, path);
            return options.use(o -> Memory.of(arena,
                    raw -> Native.call(arena, "ember_memory_estimate", text, text.byteSize(), MemorySegment.NULL, o, raw)));
        }
    }

    /** Another reference to the model, to be closed by itself. */
    Model retain() {
        return handle.use(m -> new Model(Native.pointer("ember_model_retain", m)));
    }

    /** A context with as many positions as the model was trained on, but no more than 4096, and a thread for each core. */
    public Context context() {
        return context(0, 0);
    }

    /** A context with this many positions and threads; 0: as many as fit. */
    public Context context(int positions, int threads) {
        return context(positions, threads, 1);
    }

    /** As before, with as many sequences, each of so many positions: for Context.completions. */
    public Context context(int positions, int threads, int sequences) {
        try (var arena = Arena.ofConfined(); var options = contextOptions(arena, positions, threads, sequences)) {
            return handle.use(m -> options.use(o -> new Context(retain(), Native.made(arena, "ember_context_new", m, o))));
        }
    }

    private static Handle contextOptions(Arena arena, int positions, int threads, int sequences) {
        var options = new Handle("options", Native.made(arena, "ember_context_options_new"), "ember_context_options_free");
        return options.use(o -> {
            Native.call(arena, "ember_context_options_set_n_ctx", o, Native.unsigned("positions", positions));
            Native.call(arena, "ember_context_options_set_n_seq", o, Native.unsigned("sequences", sequences));
            Native.call(arena, "ember_context_options_set_n_threads", o, Native.unsigned("threads", threads));
            return options;
        });
    }

    /**
     * An engine, which runs up to `parallel` requests together, each of so many positions; as many as `queue` may wait. 0 positions or
     * threads: as many as fit.
     */
    public Engine engine(int parallel, int queue, int positions, int threads) {
        try (var arena = Arena.ofConfined();
                var context = contextOptions(arena, positions, threads, 1);
                var options = new Handle("options", Native.made(arena, "ember_engine_options_new"), "ember_engine_options_free")) {
            return handle.use(m -> options.use(o -> context.use(c -> {
                Native.call(arena, "ember_engine_options_set_n_parallel", o, Native.unsigned("parallel", parallel));
                Native.call(arena, "ember_engine_options_set_max_queue", o, Native.unsigned("queue", queue));
                Native.call(arena, "ember_engine_options_set_context_options", o, c);
                Native.call(arena, "ember_engine_options_set_thread", o, true);
                return new Engine(Native.made(arena, "ember_engine_new", m, o));
            })));
        }
    }

    /** What the header of a model's file says, a JSON object, with all metadata and whether the model would load. No weight is read. */
    public static String inspect(String path) {
        try (var arena = Arena.ofConfined()) {
            var text = Native.utf8(arena, path);
            return Native.text(Native.filled(arena, JAVA_BYTE, 8192, "ember_model_inspect", text, text.byteSize()));
        }
    }

    /** The model's dimensions. */
    public ModelInfo info() {
        try (var arena = Arena.ofConfined()) {
            return handle.use(m -> {
                var raw = Native.allocate(arena, Native.MODEL_INFO);
                Native.call(arena, "ember_model_info_get", m, raw);
                return ModelInfo.of(raw);
            });
        }
    }

    /** What `Context.classify` scores, in the order of the scores. */
    public List<String> labels() {
        try (var arena = Arena.ofConfined()) {
            return handle.use(m -> {
                var n = arena.allocate(JAVA_LONG);
                Native.call(arena, "ember_model_label_count", m, n);
                var labels = new ArrayList<String>();
                for (long i = 0; i < n.get(JAVA_LONG, 0); i++)
                    labels.add(Native.text(Native.filled(arena, JAVA_BYTE, 64, "ember_model_label", m, i)));
                return List.copyOf(labels);
            });
        }
    }

    /** The text of a conversation as the model was trained on it. */
    public String applyChatTemplate(List<Message> messages) {
        return applyChatTemplate(messages, new ChatOptions());
    }

    /** The text of a conversation as the model was trained on it, with tools, variables and the like. */
    public String applyChatTemplate(List<Message> messages, ChatOptions options) {
        try (var arena = Arena.ofConfined(); var how = options.handle(arena)) {
            var json = Native.utf8(arena, Message.json(messages));
            return Native.text(handle.use(m -> how.use(o -> Native.filled(arena, JAVA_BYTE, 2 * json.byteSize() + 256,
                    "ember_chat_apply_template", m, json, json.byteSize(), o))));
        }
    }

    /** The tokens of a conversation. No text of a message can spell a control token. */
    public int[] tokenizeChat(List<Message> messages, ChatOptions options) {
        try (var arena = Arena.ofConfined(); var how = options.handle(arena)) {
            var json = Native.utf8(arena, Message.json(messages));
            return handle.use(m -> how.use(o -> Native.filled(arena, JAVA_INT, json.byteSize() + 256,
                    "ember_chat_tokenize", m, json, json.byteSize(), o).toArray(JAVA_INT)));
        }
    }

    /** Reads a reply to `prompt`, which applyChatTemplate gave, or "", with the same options. */
    public ChatParser chatParser(String prompt, ChatOptions options) {
        try (var arena = Arena.ofConfined(); var how = options.handle(arena)) {
            var text = Native.utf8(arena, prompt);
            return handle.use(m -> how.use(o -> new ChatParser(Native.made(arena, "ember_chat_parser_new", m, o, text, text.byteSize()))));
        }
    }

    /** The model's tokenizer, which may outlive it. */
    public Tokenizer tokenizer() {
        try (var arena = Arena.ofConfined()) {
            return handle.use(m -> new Tokenizer(Native.made(arena, "ember_model_tokenizer", m)));
        }
    }

    /** The tokens of a text. `addSpecial` adds those that texts begin with; `parseSpecial` takes the text of control tokens for them. */
    public int[] tokenize(String text, boolean addSpecial, boolean parseSpecial) {
        try (var arena = Arena.ofConfined()) {
            var bytes = Native.utf8(arena, text);
            return handle.use(m -> Native.filled(arena, JAVA_INT, bytes.byteSize() + 8,
                    "ember_model_tokenize", m, bytes, bytes.byteSize(), addSpecial, parseSpecial).toArray(JAVA_INT));
        }
    }

    <T> T use(Function<MemorySegment, T> f) {
        return handle.use(f);
    }

    /** Gives the model back; contexts over it go on working. */
    @Override
    public void close() {
        handle.close();
    }
}

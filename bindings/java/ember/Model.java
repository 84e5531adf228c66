package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongFunction;
import java.util.stream.LongStream;

/** A loaded model: immutable, for any number of threads and contexts, which keep it. */
public final class Model implements AutoCloseable {
    /** Bytes that models use where they are, and who wants to know when they do no more. */
    private record Loan(MemorySegment bytes, Runnable released) {}

    private static final ConcurrentHashMap<Long, Loan> LENT = new ConcurrentHashMap<>();
    private static final AtomicLong LOANS = new AtomicLong();

    /** Called by the library on any thread, with the number of a loan; it is never freed. */
    private static final Callback GIVEN_BACK = new Callback(FunctionDescriptor.ofVoid(ADDRESS), null, values -> {
        try {
            LENT.remove(((MemorySegment) values[0]).address()).released.run();
        } catch (Throwable e) { // which nobody looks for
            var thread = Thread.currentThread();
            thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
        }
        return null;
    });

    private final Handle handle;

    private Model(MemorySegment pointer) {
        handle = new Handle("model", pointer, "ember_model_release");
    }

    /** Loads a GGUF file or a folder of Hugging Face. */
    public static Model load(String path) {
        return load(path, new ModelOptions());
    }

    /** As before, in the way that the options say. */
    public static Model load(String path, ModelOptions options) {
        return load(options, "ember_model_load", path);
    }

    /** Loads a GGUF file that lies in memory, of which the model has a copy. */
    public static Model load(byte[] bytes) {
        return load(bytes, new ModelOptions());
    }

    /** As before, in the way that the options say. */
    public static Model load(byte[] bytes, ModelOptions options) {
        return load(options, "ember_model_load_buffer", bytes);
    }

    /**
     * Loads a GGUF file that is a part of an open file, `length` bytes from `offset` on, to its end where `length` is 0: for files without a
     * path, such as Android's assets. The descriptor is the system's number; it stays the caller's, who may close it afterwards.
     */
    public static Model load(int descriptor, long offset, long length, ModelOptions options) {
        return load(options, "ember_model_load_fd", descriptor, Native.unsigned("offset", offset), Native.unsigned("length", length));
    }

    /**
     * Loads a GGUF file that lies in memory outside of Java's heap, without a copy: a part of a file, say, that `FileChannel.map` gave with
     * `Arena.ofAuto()`. The bytes must stay as they are, and an arena of the caller's open, until `released` is called, once, on any thread,
     * when nothing needs them any more. Where loading fails, it is not called.
     */
    public static Model load(MemorySegment bytes, Runnable released, ModelOptions options) {
        if (!bytes.isNative()) {
            throw new IllegalArgumentException("bytes on Java's heap do not stay where they are: give a native segment, or a byte[]");
        }
        long loan = LOANS.incrementAndGet();
        LENT.put(loan, new Loan(bytes, released));
        try {
            return load(options, "ember_model_load_borrowed", bytes, bytes.byteSize(), GIVEN_BACK.pointer, MemorySegment.ofAddress(loan));
        } catch (RuntimeException e) {
            LENT.remove(loan);
            throw e;
        }
    }

    private static Model load(ModelOptions options, String function, Object... from) {
        try (var how = options.handle()) {
            var all = Arrays.copyOf(from, from.length + 1);
            all[from.length] = how;
            return new Model(Native.made(function, all));
        } catch (EmberException e) {
            options.check();
            throw e;
        }
    }

    /** What loading a model and making a context would take, without doing it; positions, threads and sequences as for `context`. */
    public static Memory estimateMemory(String path, int positions, int threads, int sequences) {
        return estimateMemory(path, new ModelOptions(), contextOptions(positions, threads, sequences));
    }

    /** As before for these options, whose limits do not count. */
    public static Memory estimateMemory(String path, ModelOptions options, ContextOptions context) {
        try (var model = options.handle(); var how = context.handle()) {
            return Native.struct(Native.MEMORY, Memory::of, "ember_memory_estimate", path, model, how);
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
        return context(contextOptions(positions, threads, sequences));
    }

    /** A context as these options say. */
    public Context context(ContextOptions options) {
        try (var how = options.handle()) {
            var pointer = Native.made("ember_context_new", handle, how);
            return new Context(retain(), pointer);
        }
    }

    private static ContextOptions contextOptions(int positions, int threads, int sequences) {
        return new ContextOptions().positions(positions).sequences(sequences).threads(threads);
    }

    /**
     * An engine, which runs up to `parallel` requests together, each of so many positions; as many as `queue` may wait. 0 positions or
     * threads: as many as fit.
     */
    public Engine engine(int parallel, int queue, int positions, int threads) {
        return engine(new EngineOptions().parallel(parallel).queue(queue).context(contextOptions(positions, threads, 1)));
    }

    /** An engine as these options say. */
    public Engine engine(EngineOptions options) {
        try (var how = options.handle()) {
            return new Engine(Native.made("ember_engine_new", handle, how));
        }
    }

    /** What the header of a model's file says, a JSON object, with all metadata and whether the model would load. No weight is read. */
    public static String inspect(String path) {
        return Native.text(8192, "ember_model_inspect", path);
    }

    /** The model's dimensions. */
    public ModelInfo info() {
        return Native.struct(Native.MODEL_INFO, ModelInfo::of, "ember_model_info_get", handle);
    }

    /** Bytes that the model takes, nothing of contexts. */
    public Memory memory() {
        return Native.struct(Native.MEMORY, Memory::of, "ember_model_memory", handle);
    }

    /** The instruction-set level that the model's contexts compute with, "avx512" for example. */
    public String isa() {
        return handle.use(m -> Native.text("ember_model_isa", m));
    }

    /** All keys of the model's metadata, in the order of the file. */
    public List<String> metadataKeys() {
        return listed(Native.whole("ember_model_meta_count", handle), i -> Native.text(64, "ember_model_meta_key", handle, i));
    }

    /**
     * The value of a key of the model's metadata: a String, Boolean, Double, Long, BigInteger (for 64 bits without a sign), or a List of
     * these. A key that is not there is an EmberException with the status 10.
     */
    public Object metadata(String key) {
        int type = Native.number("ember_model_meta_type", handle, key);
        if (type != ARRAY) {
            return switch (type) {
                case STRING -> Native.text(128, "ember_model_meta_string", handle, key);
                case BOOL -> Native.truth("ember_model_meta_bool", handle, key);
                case FLOAT32, FLOAT64 -> Native.real("ember_model_meta_f64", handle, key);
                case UINT64 -> unsigned(Native.whole("ember_model_meta_u64", handle, key));
                default -> Native.whole("ember_model_meta_i64", handle, key);
            };
        }
        long[] n = new long[1];
        int element = Native.numberAndWhole("ember_model_meta_array", n, handle, key);
        LongFunction<Object> read = switch (element) {
            case STRING -> i -> Native.text(128, "ember_model_meta_array_string", handle, key, i);
            case BOOL -> i -> Native.truth("ember_model_meta_array_bool", handle, key, i);
            case FLOAT32, FLOAT64 -> i -> Native.real("ember_model_meta_array_f64", handle, key, i);
            case UINT64 -> i -> unsigned(Native.whole("ember_model_meta_array_u64", handle, key, i));
            case ARRAY -> throw new EmberException(1, "the key " + key + " is an array of arrays, whose elements cannot be read");
            default -> i -> Native.whole("ember_model_meta_array_i64", handle, key, i);
        };
        return listed(n[0], read);
    }

    // Types of GGUF's.
    private static final int FLOAT32 = 6;
    private static final int BOOL = 7;
    private static final int STRING = 8;
    private static final int ARRAY = 9;
    private static final int UINT64 = 10;
    private static final int FLOAT64 = 12;

    private static BigInteger unsigned(long value) {
        return new BigInteger(Long.toUnsignedString(value));
    }

    private static <T> List<T> listed(long n, LongFunction<T> element) {
        return LongStream.range(0, n).mapToObj(element).toList();
    }

    /** What `Context.classify` scores, in the order of the scores. */
    public List<String> labels() {
        return listed(Native.whole("ember_model_label_count", handle), i -> Native.text(64, "ember_model_label", handle, i));
    }

    /** A sampler with the stages that the model's file proposes; an EmberException with the status 10 where it proposes none. */
    public Sampler proposedSampler(long seed) {
        return Sampler.proposedBy(handle, seed);
    }

    /** The text of the model's chat template of this name, or, where it is empty, of the default one. */
    public String chatTemplate(String name) {
        return Native.text(4096, "ember_model_chat_template", handle, name);
    }

    /** The text of a conversation as the model was trained on it. */
    public String applyChatTemplate(List<Message> messages) {
        return applyChatTemplate(messages, new ChatOptions());
    }

    /** The text of a conversation as the model was trained on it, with tools, variables and the like. */
    public String applyChatTemplate(List<Message> messages, ChatOptions options) {
        try (var how = options.handle()) {
            var json = Message.json(messages);
            return Native.text(2L * json.length() + 256, "ember_chat_apply_template", handle, json, how);
        }
    }

    /** The tokens of a conversation. No text of a message can spell a control token. */
    public int[] tokenizeChat(List<Message> messages, ChatOptions options) {
        try (var how = options.handle()) {
            var json = Message.json(messages);
            return Native.ints(json.length() + 256L, "ember_chat_tokenize", handle, json, how);
        }
    }

    /** Reads a reply to `prompt`, which applyChatTemplate gave, or "", with the same options. */
    public ChatParser chatParser(String prompt, ChatOptions options) {
        try (var how = options.handle()) {
            return new ChatParser(Native.made("ember_chat_parser_new", handle, how, prompt));
        }
    }

    /** The model's tokenizer, which may outlive it. */
    public Tokenizer tokenizer() {
        return new Tokenizer(Native.made("ember_model_tokenizer", handle));
    }

    /** The tokens of a text. `addSpecial` adds those that texts begin with; `parseSpecial` takes the text of control tokens for them. */
    public int[] tokenize(String text, boolean addSpecial, boolean parseSpecial) {
        return Native.ints(4L * text.length() + 8, "ember_model_tokenize", handle, text, addSpecial, parseSpecial);
    }

    Handle handle() {
        return handle;
    }

    /** Gives the model back; contexts over it go on working. */
    @Override
    public void close() {
        handle.close();
    }
}

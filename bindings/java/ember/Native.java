package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.*;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;

/** The functions of ember.h, through Java's foreign functions. */
final class Native {
    private Native() {}

    private static final Linker LINKER = Linker.nativeLinker();
    private static final SymbolLookup LIBRARY =
            SymbolLookup.libraryLookup(System.getProperty("ember.library", "libember.so"), Arena.global());
    private static final ConcurrentHashMap<String, MethodHandle> FUNCTIONS = new ConcurrentHashMap<>();

    /** ember_event, as in ember.h. */
    static final StructLayout EVENT = MemoryLayout.structLayout(
            JAVA_LONG.withName("struct_size"), ADDRESS.withName("text"), JAVA_LONG.withName("text_len"),
            ADDRESS.withName("bytes"), JAVA_LONG.withName("n_bytes"), ADDRESS.withName("tops"), JAVA_LONG.withName("n_tops"),
            JAVA_INT.withName("kind"), JAVA_INT.withName("token"), JAVA_FLOAT.withName("logprob"),
            JAVA_INT.withName("finish_reason"));

    /** ember_chat_event. */
    static final StructLayout CHAT_EVENT = MemoryLayout.structLayout(
            JAVA_LONG.withName("struct_size"), ADDRESS.withName("text"), JAVA_LONG.withName("text_len"),
            ADDRESS.withName("name"), JAVA_LONG.withName("name_len"), ADDRESS.withName("id"), JAVA_LONG.withName("id_len"),
            ADDRESS.withName("reason"), JAVA_LONG.withName("reason_len"), JAVA_INT.withName("index"), JAVA_INT.withName("kind"),
            JAVA_INT.withName("finish_reason"), MemoryLayout.paddingLayout(4));

    /** ember_generate_result. */
    static final StructLayout RESULT = MemoryLayout.structLayout(
            JAVA_LONG.withName("struct_size"), JAVA_LONG.withName("prefill_ns"), JAVA_LONG.withName("decode_ns"),
            JAVA_INT.withName("n_prompt"), JAVA_INT.withName("n_generated"), JAVA_INT.withName("finish_reason"),
            JAVA_INT.withName("n_reused"), JAVA_INT.withName("n_drafted"), JAVA_INT.withName("n_accepted"),
            JAVA_LONG.withName("n_shifted"), JAVA_INT.withName("n_forced"), JAVA_INT.withName("progress"));

    /** ember_conversation_usage. */
    static final StructLayout USAGE = MemoryLayout.structLayout(
            JAVA_LONG.withName("struct_size"), JAVA_LONG.withName("prefill_ns"), JAVA_LONG.withName("decode_ns"),
            JAVA_INT.withName("n_prompt"), JAVA_INT.withName("n_reused"), JAVA_INT.withName("n_generated"),
            JAVA_INT.withName("n_thinking"), JAVA_INT.withName("n_dropped_turns"), JAVA_INT.withName("n_forgotten"),
            JAVA_INT.withName("finish_reason"), JAVA_INT.withName("reserved"));

    /** ember_tokenizer_info. */
    static final StructLayout TOKENIZER_INFO = MemoryLayout.structLayout(
            JAVA_LONG.withName("struct_size"),
            JAVA_INT.withName("n_vocab"), JAVA_INT.withName("bos_token"), JAVA_INT.withName("eos_token"),
            JAVA_INT.withName("eot_token"), JAVA_INT.withName("unk_token"), JAVA_INT.withName("pad_token"),
            JAVA_INT.withName("add_bos"), JAVA_INT.withName("add_eos"), JAVA_INT.withName("has_chat_template"),
            JAVA_INT.withName("fim_prefix_token"), JAVA_INT.withName("fim_suffix_token"), JAVA_INT.withName("fim_middle_token"),
            JAVA_INT.withName("fim_repository_token"), JAVA_INT.withName("fim_file_token"));

    /** ember_chat_format. */
    static final StructLayout CHAT_FORMAT = MemoryLayout.structLayout(
            JAVA_LONG.withName("struct_size"),
            ADDRESS.withName("name"), JAVA_LONG.withName("name_len"),
            ADDRESS.withName("thinking_open"), JAVA_LONG.withName("thinking_open_len"),
            ADDRESS.withName("thinking_close"), JAVA_LONG.withName("thinking_close_len"),
            ADDRESS.withName("thinking_variable"), JAVA_LONG.withName("thinking_variable_len"),
            ADDRESS.withName("thinking_on"), JAVA_LONG.withName("thinking_on_len"),
            ADDRESS.withName("thinking_off"), JAVA_LONG.withName("thinking_off_len"));

    /** ember_memory. */
    static final StructLayout MEMORY = MemoryLayout.structLayout(
            JAVA_LONG.withName("struct_size"), JAVA_LONG.withName("file"), JAVA_LONG.withName("weights"), JAVA_LONG.withName("kv"),
            JAVA_LONG.withName("workspace"));

    /** ember_engine_metrics. */
    static final StructLayout METRICS = MemoryLayout.structLayout(
            JAVA_LONG.withName("struct_size"),
            JAVA_LONG.withName("n_submitted"), JAVA_LONG.withName("n_refused"), JAVA_LONG.withName("n_finished"), JAVA_LONG.withName("n_cancelled"),
            JAVA_LONG.withName("n_failed"), JAVA_LONG.withName("n_preempted"), JAVA_LONG.withName("n_prompt"), JAVA_LONG.withName("n_reused"),
            JAVA_LONG.withName("n_prefilled"), JAVA_LONG.withName("n_generated"), JAVA_LONG.withName("n_steps"), JAVA_LONG.withName("busy_ns"),
            JAVA_DOUBLE.withName("tokens_per_s"), JAVA_DOUBLE.withName("cache_hit_rate"), JAVA_INT.withName("n_queued"),
            JAVA_INT.withName("n_active"), JAVA_INT.withName("n_pages"), JAVA_INT.withName("n_free_pages"));

    /** ember_token_logprob. */
    static final StructLayout LIKELY = MemoryLayout.structLayout(JAVA_INT.withName("token"), JAVA_FLOAT.withName("logprob"));

    /** ember_token_score. */
    static final StructLayout TOKEN_SCORE = MemoryLayout.structLayout(
            JAVA_INT.withName("token"), JAVA_FLOAT.withName("logprob"), JAVA_INT.withName("rank"));

    /** ember_score_result. */
    static final StructLayout SCORE_RESULT = MemoryLayout.structLayout(
            JAVA_LONG.withName("struct_size"), JAVA_DOUBLE.withName("logprob"), JAVA_INT.withName("n_scored"), JAVA_INT.withName("n_prompt"),
            JAVA_INT.withName("n_reused"), JAVA_INT.withName("is_greedy"));

    static long offset(StructLayout struct, String field) {
        return struct.byteOffset(MemoryLayout.PathElement.groupElement(field));
    }

    /** A struct for the library to write to. */
    static MemorySegment allocate(Arena arena, StructLayout struct) {
        var raw = arena.allocate(struct);
        raw.set(JAVA_LONG, 0, struct.byteSize());
        return raw;
    }

    /** A number of a struct. */
    static int number(MemorySegment raw, StructLayout struct, String field) {
        return raw.get(JAVA_INT, offset(struct, field));
    }

    /** A text of a struct, which is the library's memory. */
    static String text(MemorySegment raw, StructLayout struct, String field) {
        return text(raw.get(ADDRESS, offset(struct, field)).reinterpret(raw.get(JAVA_LONG, offset(struct, field + "_len"))));
    }

    private static MethodHandle function(String name, FunctionDescriptor type) {
        return FUNCTIONS.computeIfAbsent(name, n -> LINKER.downcallHandle(
                LIBRARY.find(n).orElseThrow(() -> new EmberException(4, "the library lacks " + n)), type));
    }

    private static Object invoke(MethodHandle f, Object... arguments) {
        try {
            return f.invokeWithArguments(arguments);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) { // functions of C throw nothing
            throw new AssertionError(e);
        }
    }

    private static MemoryLayout layout(Object argument) {
        return switch (argument) {
            case MemorySegment s -> ADDRESS;
            case Long l -> JAVA_LONG;
            case Integer i -> JAVA_INT;
            case Float f -> JAVA_FLOAT;
            case Boolean b -> JAVA_BOOLEAN;
            default -> throw new AssertionError(argument);
        };
    }

    /** Calls a function that returns an ember_status and has an ember_error ** at its end. */
    static void call(Arena arena, String name, Object... arguments) {
        var error = arena.allocate(ADDRESS);
        var all = Arrays.copyOf(arguments, arguments.length + 1);
        all[arguments.length] = error;
        var layouts = Arrays.stream(all).map(Native::layout).toArray(MemoryLayout[]::new);
        var status = (int) invoke(function(name, FunctionDescriptor.of(JAVA_INT, layouts)), all);
        if (status == 0) return;
        var message = pointer("ember_error_message", error.get(ADDRESS, 0));
        var sentence = message.reinterpret(Long.MAX_VALUE).getString(0);
        run("ember_error_free", error.get(ADDRESS, 0));
        throw new EmberException(status, sentence);
    }

    /** Calls a function whose last argument but the error receives a pointer. */
    static MemorySegment made(Arena arena, String name, Object... arguments) {
        var out = arena.allocate(ADDRESS);
        var all = Arrays.copyOf(arguments, arguments.length + 1);
        all[arguments.length] = out;
        call(arena, name, all);
        return out.get(ADDRESS, 0);
    }

    /** Calls a function of one pointer that returns one. */
    static MemorySegment pointer(String name, MemorySegment argument) {
        return (MemorySegment) invoke(function(name, FunctionDescriptor.of(ADDRESS, ADDRESS)), argument);
    }

    /** Calls a function of one pointer that returns nothing. */
    static void run(String name, MemorySegment argument) {
        invoke(function(name, FunctionDescriptor.ofVoid(ADDRESS)), argument);
    }

    /** What a function writes to a buffer, whose room and needed length are its last arguments but the error. */
    static MemorySegment filled(Arena arena, ValueLayout element, long room, String name, Object... arguments) {
        var needed = arena.allocate(JAVA_LONG);
        var all = Arrays.copyOf(arguments, arguments.length + 3);
        all[arguments.length + 2] = needed;
        for (;; room = needed.get(JAVA_LONG, 0)) {
            var buffer = arena.allocate(element, room);
            all[arguments.length] = buffer;
            all[arguments.length + 1] = room;
            try {
                call(arena, name, all);
                return buffer.asSlice(0, element.byteSize() * needed.get(JAVA_LONG, 0));
            } catch (EmberException tooSmall) {
                if (tooSmall.status() != 9) throw tooSmall; // EMBER_E_BUFFER_TOO_SMALL
            }
        }
    }

    /** A number for the library, which has no negative ones. */
    static int unsigned(String what, int n) {
        if (n < 0) throw new IllegalArgumentException(what + " must not be negative, and is " + n);
        return n;
    }

    /** ember_model_info. */
    static final StructLayout MODEL_INFO = MemoryLayout.structLayout(
            JAVA_LONG.withName("struct_size"), JAVA_LONG.withName("n_params"), JAVA_LONG.withName("file_size"),
            JAVA_INT.withName("n_vocab"), JAVA_INT.withName("n_ctx_train"), JAVA_INT.withName("n_embd"), JAVA_INT.withName("n_layer"),
            JAVA_INT.withName("n_head"), JAVA_INT.withName("n_head_kv"), JAVA_INT.withName("head_dim"), JAVA_INT.withName("n_ff"),
            JAVA_INT.withName("bos_token"), JAVA_INT.withName("eos_token"), JAVA_INT.withName("has_tokenizer"),
            JAVA_INT.withName("add_bos"), JAVA_INT.withName("causal"), JAVA_INT.withName("pooling"), JAVA_INT.withName("n_expert"),
            JAVA_INT.withName("n_expert_used"), JAVA_INT.withName("eot_token"), JAVA_INT.withName("unk_token"),
            JAVA_INT.withName("pad_token"), JAVA_INT.withName("has_chat_template"), JAVA_INT.withName("n_embd_out"),
            JAVA_INT.withName("n_prompts"));

    /** Texts for a function that takes their pointers, their lengths and their number. */
    record Texts(MemorySegment pointers, MemorySegment lengths, long n) {
        Texts(Arena arena, java.util.List<String> texts) {
            this(arena.allocate(ADDRESS, texts.size()), arena.allocate(JAVA_LONG, texts.size()), texts.size());
            for (int i = 0; i < texts.size(); i++) {
                var text = utf8(arena, texts.get(i));
                pointers.setAtIndex(ADDRESS, i, text);
                lengths.setAtIndex(JAVA_LONG, i, text.byteSize());
            }
        }
    }

    /** Numbers that come one row after the other. */
    static float[][] rows(float[] all, int width) {
        var rows = new float[width == 0 ? 0 : all.length / width][];
        for (int i = 0; i < rows.length; i++) rows[i] = Arrays.copyOfRange(all, i * width, (i + 1) * width);
        return rows;
    }

    static MemorySegment utf8(Arena arena, String text) {
        return arena.allocateFrom(JAVA_BYTE, text.getBytes(StandardCharsets.UTF_8));
    }

    static String text(MemorySegment bytes) {
        return new String(bytes.toArray(JAVA_BYTE), StandardCharsets.UTF_8);
    }
}

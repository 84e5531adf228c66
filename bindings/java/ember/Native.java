package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.*;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * The functions of ember.h, through Java's foreign functions. They are called by name. An argument is a number, a boolean, a pointer, null, or a
 * Handle, which is not freed meanwhile. C gets a String, a byte[], an int[] or a float[] as a pointer and a length, and a List of Strings as
 * pointers, lengths and their number.
 */
final class Native {
    private Native() {}

    private static final Linker LINKER = Linker.nativeLinker();
    private static final SymbolLookup LIBRARY = Bundled.library();
    private static final ConcurrentHashMap<String, MethodHandle> FUNCTIONS = new ConcurrentHashMap<>();

    // As in ember.h.
    static final StructLayout EVENT =
            layout("long struct_size; ptr text; long text_len; ptr bytes; long n_bytes; ptr tops; long n_tops; int kind, token; float logprob; "
                    + "int finish_reason");
    static final StructLayout CHAT_EVENT = layout("long struct_size; ptr text; long text_len; ptr name; long name_len; ptr id; long id_len; "
            + "ptr reason; long reason_len; int index, kind, finish_reason");
    static final StructLayout RESULT = layout("long struct_size, prefill_ns, decode_ns; int n_prompt, n_generated, finish_reason, n_reused, "
            + "n_drafted, n_accepted; long n_shifted; int n_forced, progress; double sum_logprob, mean_logprob");
    static final StructLayout USAGE = layout("long struct_size, prefill_ns, decode_ns; int n_prompt, n_reused, n_generated, n_thinking, "
            + "n_dropped_turns, n_forgotten, finish_reason, reserved");
    static final StructLayout TOKENIZER_INFO = layout("long struct_size; int n_vocab, bos_token, eos_token, eot_token, unk_token, pad_token, "
            + "add_bos, add_eos, has_chat_template, fim_prefix_token, fim_suffix_token, fim_middle_token, fim_repository_token, fim_file_token");
    static final StructLayout CHAT_FORMAT = layout("long struct_size; ptr name; long name_len; ptr thinking_open; long thinking_open_len; "
            + "ptr thinking_close; long thinking_close_len; ptr thinking_variable; long thinking_variable_len; ptr thinking_on; "
            + "long thinking_on_len; ptr thinking_off; long thinking_off_len");
    static final StructLayout MEMORY = layout("long struct_size, file, weights, kv, workspace");
    static final StructLayout TIMINGS = layout(
            "long struct_size, load_ns, n_prefill, prefill_ns, n_decode, decode_ns, n_embed, embed_ns, n_replay, replay_ns");
    static final StructLayout CONTEXT_INFO =
            layout("long struct_size; int n_ctx, n_seq, n_batch, n_threads, page_len, n_pages, n_free_pages, backend");
    static final StructLayout METRICS = layout("long struct_size, n_submitted, n_refused, n_finished, n_cancelled, n_failed, n_preempted, "
            + "n_prompt, n_reused, n_prefilled, n_generated, n_steps, busy_ns; double tokens_per_s, cache_hit_rate; "
            + "int n_queued, n_active, n_pages, n_free_pages");
    static final StructLayout LIKELY = layout("int token; float logprob");
    static final StructLayout TOKEN_SCORE = layout("int token; float logprob; int rank");
    static final StructLayout SCORE_RESULT = layout("long struct_size; double logprob; int n_scored, n_prompt, n_reused, is_greedy");
    static final StructLayout MODEL_INFO = layout("long struct_size, n_params, file_size; int n_vocab, n_ctx_train, n_embd, n_layer, n_head, "
            + "n_head_kv, head_dim, n_ff, bos_token, eos_token, has_tokenizer, add_bos, causal, pooling, n_expert, n_expert_used, eot_token, "
            + "unk_token, pad_token, has_chat_template, n_embd_out, n_prompts");

    /** A struct of fields, those of one type after its name, with what it takes at its end to have its alignment. */
    private static StructLayout layout(String fields) {
        var members = new ArrayList<MemoryLayout>();
        long size = 0;
        long alignment = 1;
        for (var group : fields.split("; ")) {
            var words = group.split(",? ");
            var type = switch (words[0]) {
                case "long" -> JAVA_LONG;
                case "int" -> JAVA_INT;
                case "float" -> JAVA_FLOAT;
                case "double" -> JAVA_DOUBLE;
                case "ptr" -> ADDRESS;
                default -> throw new AssertionError(words[0]);
            };
            alignment = Math.max(alignment, type.byteAlignment());
            for (int i = 1; i < words.length; i++) {
                members.add(type.withName(words[i]));
                size += type.byteSize();
            }
        }
        if (size % alignment != 0) members.add(MemoryLayout.paddingLayout(alignment - size % alignment));
        return MemoryLayout.structLayout(members.toArray(MemoryLayout[]::new));
    }

    /** What the library wrote; texts are its memory. */
    record Struct(MemorySegment raw, StructLayout layout) {
        private long offset(String field) {
            return layout.byteOffset(MemoryLayout.PathElement.groupElement(field));
        }

        int number(String field) {
            return raw.get(JAVA_INT, offset(field));
        }

        boolean truth(String field) {
            return number(field) != 0;
        }

        long whole(String field) {
            return raw.get(JAVA_LONG, offset(field));
        }

        float single(String field) {
            return raw.get(JAVA_FLOAT, offset(field));
        }

        double real(String field) {
            return raw.get(JAVA_DOUBLE, offset(field));
        }

        Duration time(String field) {
            return Duration.ofNanos(whole(field));
        }

        String text(String field) {
            return Native.text(raw.get(ADDRESS, offset(field)).reinterpret(whole(field + "_len")));
        }

        Event.Finish finish() {
            int finish = number("finish_reason");
            return finish < 0 ? null : Event.Finish.values()[finish];
        }

        /** The structs that a pointer and a number of the struct say. */
        Stream<Struct> elements(String field, String n, StructLayout element) {
            if (whole(n) == 0) return Stream.empty();
            var all = raw.get(ADDRESS, offset(field)).reinterpret(element.byteSize() * whole(n));
            return all.elements(element).map(one -> new Struct(one, element));
        }
    }

    private static MethodHandle function(String name, FunctionDescriptor type) {
        return FUNCTIONS.computeIfAbsent(name, n -> LINKER.downcallHandle(
                LIBRARY.find(n).orElseThrow(() -> new EmberException(4, "the library lacks " + n)), type));
    }

    private static Object invoke(MethodHandle f, List<Object> arguments) {
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
            case Double d -> JAVA_DOUBLE;
            case Boolean b -> JAVA_BOOLEAN;
            default -> throw new AssertionError(argument);
        };
    }

    /** Several arrays of `n` elements, or null: C gets their pointers, and n. */
    record Columns(int n, Object... arrays) {}

    /** Arguments as C takes them. */
    private static final class Call implements AutoCloseable {
        final Arena arena = Arena.ofConfined();
        private final List<Object> all = new ArrayList<>();
        private final List<Handle> used = new ArrayList<>();

        Call(Object... arguments) {
            try {
                for (var argument : arguments) add(argument);
            } catch (RuntimeException e) {
                close();
                throw e;
            }
        }

        void add(Object argument) {
            switch (argument) {
                case null -> all.add(MemorySegment.NULL);
                case Handle handle -> {
                    all.add(handle.acquire());
                    used.add(handle);
                }
                case String text -> add(text.getBytes(StandardCharsets.UTF_8));
                case byte[] bytes -> counted(arena.allocateFrom(JAVA_BYTE, bytes), bytes.length);
                case int[] numbers -> counted(arena.allocateFrom(JAVA_INT, numbers), numbers.length);
                case float[] numbers -> counted(arena.allocateFrom(JAVA_FLOAT, numbers), numbers.length);
                case long[] numbers -> counted(arena.allocateFrom(JAVA_LONG, numbers), numbers.length);
                case Columns columns -> {
                    for (var array : columns.arrays) {
                        add(array);
                        if (array == null) continue;
                        long length = (long) all.removeLast();
                        if (length != columns.n) throw new IllegalArgumentException(length + " numbers are given for " + columns.n + " tokens");
                    }
                    all.add((long) columns.n);
                }
                case List<?> texts -> {
                    var each = texts.stream().map(text -> utf8(arena, (String) text)).toList();
                    var pointers = arena.allocate(ADDRESS, Math.max(each.size(), 1)); // an address, if there is none
                    for (int i = 0; i < each.size(); i++) pointers.setAtIndex(ADDRESS, i, each.get(i));
                    all.add(pointers);
                    counted(arena.allocateFrom(JAVA_LONG, each.stream().mapToLong(MemorySegment::byteSize).toArray()), each.size());
                }
                default -> all.add(argument);
            }
        }

        private void counted(MemorySegment first, long n) {
            all.add(first);
            all.add(n);
        }

        /** Calls a function that returns an ember_status and has an ember_error ** at its end. */
        void run(String name, Object... more) {
            var error = arena.allocate(ADDRESS);
            var whole = new ArrayList<>(all);
            whole.addAll(Arrays.asList(more));
            whole.add(error);
            var layouts = whole.stream().map(Native::layout).toArray(MemoryLayout[]::new);
            var status = (int) invoke(function(name, FunctionDescriptor.of(JAVA_INT, layouts)), whole);
            if (status == 0) return;
            var sentence = text("ember_error_message", error.get(ADDRESS, 0));
            Native.run("ember_error_free", error.get(ADDRESS, 0));
            throw new EmberException(status, sentence);
        }

        @Override
        public void close() {
            used.forEach(Handle::release);
            arena.close();
        }
    }

    /** Calls a function that returns an ember_status. */
    static void call(String name, Object... arguments) {
        try (var call = new Call(arguments)) {
            call.run(name);
        }
    }

    /** What a function writes to its last argument but the error. */
    private static <T> T out(ValueLayout type, Function<MemorySegment, T> read, String name, Object... arguments) {
        try (var call = new Call(arguments)) {
            var out = call.arena.allocate(type);
            call.run(name, out);
            return read.apply(out);
        }
    }

    static MemorySegment made(String name, Object... arguments) {
        return out(ADDRESS, out -> out.get(ADDRESS, 0), name, arguments);
    }

    static int number(String name, Object... arguments) {
        return out(JAVA_INT, out -> out.get(JAVA_INT, 0), name, arguments);
    }

    static long whole(String name, Object... arguments) {
        return out(JAVA_LONG, out -> out.get(JAVA_LONG, 0), name, arguments);
    }

    static double real(String name, Object... arguments) {
        return out(JAVA_DOUBLE, out -> out.get(JAVA_DOUBLE, 0), name, arguments);
    }

    static boolean truth(String name, Object... arguments) {
        return out(JAVA_BOOLEAN, out -> out.get(JAVA_BOOLEAN, 0), name, arguments);
    }

    /** What `read` makes of the struct that a function writes, as long as its handles are not freed. */
    static <T> T struct(StructLayout layout, Function<Struct, T> read, String name, Object... arguments) {
        try (var call = new Call(arguments)) {
            var struct = new Struct(call.arena.allocate(layout), layout);
            struct.raw.set(JAVA_LONG, 0, layout.byteSize());
            call.run(name, struct.raw);
            return read.apply(struct);
        }
    }

    /** What `read` makes of the struct that a function writes, and of the number after it. */
    static <T> T structAndNumber(StructLayout layout, BiFunction<Struct, Integer, T> read, String name, Object... arguments) {
        try (var call = new Call(arguments)) {
            var struct = new Struct(call.arena.allocate(layout), layout);
            struct.raw.set(JAVA_LONG, 0, layout.byteSize());
            var number = call.arena.allocate(JAVA_INT);
            call.run(name, struct.raw, number);
            return read.apply(struct, number.get(JAVA_INT, 0));
        }
    }

    /** The number that a function writes, and after it a whole one, to `whole[0]`. */
    static int numberAndWhole(String name, long[] whole, Object... arguments) {
        try (var call = new Call(arguments)) {
            var number = call.arena.allocate(JAVA_INT);
            var out = call.arena.allocate(JAVA_LONG);
            call.run(name, number, out);
            whole[0] = out.get(JAVA_LONG, 0);
            return number.get(JAVA_INT, 0);
        }
    }

    /** A buffer that a function fills, and a struct that it writes after that. */
    record Filled(MemorySegment buffer, Struct after) {}

    /**
     * What `read` makes of the buffer that a function fills, whose capacity and needed length are its last arguments but the error, and the
     * struct after them, if there is one. Where the capacity is not enough the function is called again.
     */
    static <T> T filled(MemoryLayout element, long capacity, StructLayout after, Function<Filled, T> read, String name, Object... arguments) {
        try (var call = new Call(arguments)) {
            var needed = call.arena.allocate(JAVA_LONG);
            var struct = after == null ? null : new Struct(call.arena.allocate(after), after);
            if (struct != null) struct.raw.set(JAVA_LONG, 0, after.byteSize());
            for (;; capacity = needed.get(JAVA_LONG, 0)) {
                var buffer = call.arena.allocate(element, capacity);
                try {
                    if (struct == null) call.run(name, buffer, capacity, needed);
                    else call.run(name, buffer, capacity, needed, struct.raw);
                } catch (EmberException tooSmall) {
                    if (tooSmall.status() != 9) throw tooSmall; // EMBER_E_BUFFER_TOO_SMALL
                    continue;
                }
                return read.apply(new Filled(buffer.asSlice(0, element.byteSize() * needed.get(JAVA_LONG, 0)), struct));
            }
        }
    }

    static byte[] bytes(long capacity, String name, Object... arguments) {
        return filled(JAVA_BYTE, capacity, null, filled -> filled.buffer.toArray(JAVA_BYTE), name, arguments);
    }

    static int[] ints(long capacity, String name, Object... arguments) {
        return filled(JAVA_INT, capacity, null, filled -> filled.buffer.toArray(JAVA_INT), name, arguments);
    }

    static float[] floats(long capacity, String name, Object... arguments) {
        return filled(JAVA_FLOAT, capacity, null, filled -> filled.buffer.toArray(JAVA_FLOAT), name, arguments);
    }

    static String text(long capacity, String name, Object... arguments) {
        return new String(bytes(capacity, name, arguments), StandardCharsets.UTF_8);
    }

    /** Calls a function of these pointers and numbers that returns a pointer. */
    static MemorySegment pointer(String name, MemorySegment argument) {
        return (MemorySegment) invoke(function(name, FunctionDescriptor.of(ADDRESS, ADDRESS)), List.of(argument));
    }

    /** The text that a function of one number or pointer, or of nothing, returns. */
    static String text(String name, Object... argument) {
        var layouts = Arrays.stream(argument).map(Native::layout).toArray(MemoryLayout[]::new);
        var text = (MemorySegment) invoke(function(name, FunctionDescriptor.of(ADDRESS, layouts)), List.of(argument));
        return text.reinterpret(Long.MAX_VALUE).getString(0);
    }

    /** Calls a function of a text that returns a number. */
    static int numberOf(String name, String text) {
        try (var arena = Arena.ofConfined()) {
            var bytes = utf8(arena, text);
            return (int) invoke(function(name, FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG)), List.of(bytes, bytes.byteSize()));
        }
    }

    /** Calls a function of one pointer that returns nothing. */
    static void run(String name, MemorySegment argument) {
        invoke(function(name, FunctionDescriptor.ofVoid(ADDRESS)), List.of(argument));
    }

    /** Calls a function of one pointer that returns whether something is so. */
    static boolean is(String name, MemorySegment argument) {
        return (boolean) invoke(function(name, FunctionDescriptor.of(JAVA_BOOLEAN, ADDRESS)), List.of(argument));
    }

    /** A number for the library, which has no negative ones. */
    static int unsigned(String what, int n) {
        if (n < 0) throw new IllegalArgumentException(what + " must not be negative, and is " + n);
        return n;
    }

    static long unsigned(String what, long n) {
        if (n < 0) throw new IllegalArgumentException(what + " must not be negative, and is " + n);
        return n;
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

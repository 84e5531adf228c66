package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.LongFunction;

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
        try (var arena = Arena.ofConfined()) {
            try (var options = new Handle("options", Native.made(arena, "ember_context_options_new"), "ember_context_options_free")) {
                return handle.use(m -> options.use(o -> {
                    Native.call(arena, "ember_context_options_set_n_ctx", o, Native.unsigned("positions", positions));
                    Native.call(arena, "ember_context_options_set_n_threads", o, Native.unsigned("threads", threads));
                    return new Context(retain(), Native.made(arena, "ember_context_new", m, o));
                }));
            }
        }
    }

    /** The text of a conversation as the model was trained on it. */
    public String applyChatTemplate(List<Message> messages) {
        try (var arena = Arena.ofConfined()) {
            var json = Native.utf8(arena, Message.json(messages));
            var bytes = filled(arena, 2 * json.byteSize() + 256, arena::allocate, (buffer, needed) -> handle.use(m -> {
                Native.call(arena, "ember_chat_apply_template", m, json, json.byteSize(), MemorySegment.NULL, buffer, buffer.byteSize(), needed);
                return null;
            }));
            return Native.text(bytes.buffer.asSlice(0, bytes.n));
        }
    }

    /** The tokens of a text. `addSpecial` adds those that texts begin with; `parseSpecial` takes the text of control tokens for them. */
    public int[] tokenize(String text, boolean addSpecial, boolean parseSpecial) {
        try (var arena = Arena.ofConfined()) {
            var bytes = Native.utf8(arena, text);
            var tokens = filled(arena, bytes.byteSize() + 8, n -> arena.allocate(JAVA_INT, n), (buffer, needed) -> handle.use(m -> {
                Native.call(arena, "ember_model_tokenize", m, bytes, bytes.byteSize(), addSpecial, parseSpecial, buffer, buffer.byteSize() / 4, needed);
                return null;
            }));
            return tokens.buffer.asSlice(0, 4 * tokens.n).toArray(JAVA_INT);
        }
    }

    /** A buffer and how many elements of it were written. */
    private record Filled(MemorySegment buffer, long n) {}

    /** Asks with a buffer and, if that was too small, again. */
    private static Filled filled(Arena arena, long room, LongFunction<MemorySegment> make, BiConsumer<MemorySegment, MemorySegment> fill) {
        var needed = arena.allocate(JAVA_LONG);
        var buffer = make.apply(room);
        try {
            fill.accept(buffer, needed);
        } catch (EmberException tooSmall) {
            if (tooSmall.status() != 9) throw tooSmall; // EMBER_E_BUFFER_TOO_SMALL
            buffer = make.apply(needed.get(JAVA_LONG, 0));
            fill.accept(buffer, needed);
        }
        return new Filled(buffer, needed.get(JAVA_LONG, 0));
    }

    /** Gives the model back; contexts over it go on working. */
    @Override
    public void close() {
        handle.close();
    }
}

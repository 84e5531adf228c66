package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.OptionalInt;

/** Turns text into tokens and back: a model's own (`Model.tokenizer`), or one that is loaded alone. For any number of threads. */
public final class Tokenizer implements AutoCloseable {
    /**
     * What is known of the tokens.
     *
     * @param vocabularySize tokens are below it
     * @param bos beginning of a sequence
     * @param eos end of a sequence
     * @param eot end of a turn
     * @param unk for what no other stands for
     * @param pad padding
     * @param addsBos whether a text gets a token before it where that is asked for
     * @param addsEos whether it gets one behind it
     * @param hasChatTemplate whether there is a chat template
     * @param fimPrefix before the text that a gap comes behind
     * @param fimSuffix before the text that comes behind the gap
     * @param fimMiddle where the gap is filled
     */
    public record Info(int vocabularySize, OptionalInt bos, OptionalInt eos, OptionalInt eot, OptionalInt unk, OptionalInt pad,
            boolean addsBos, boolean addsEos, boolean hasChatTemplate, OptionalInt fimPrefix, OptionalInt fimSuffix,
            OptionalInt fimMiddle) {}

    private final Handle handle;

    Tokenizer(MemorySegment pointer) {
        handle = new Handle("tokenizer", pointer, "ember_tokenizer_release");
    }

    /** Loads a tokenizer without a model, of a GGUF file, which need not have tensors, of a Hugging Face folder, or of a tokenizer.json. */
    public static Tokenizer load(String path) {
        try (var arena = Arena.ofConfined()) {
            var text = Native.utf8(arena, path);
            return new Tokenizer(Native.made(arena, "ember_tokenizer_load", text, text.byteSize()));
        }
    }

    /** Loads one from the bytes of a GGUF file or of a tokenizer.json. */
    public static Tokenizer load(byte[] bytes) {
        try (var arena = Arena.ofConfined()) {
            var data = arena.allocateFrom(JAVA_BYTE, bytes);
            return new Tokenizer(Native.made(arena, "ember_tokenizer_load_buffer", data, data.byteSize()));
        }
    }

    /** What is known of the tokens. */
    public Info info() {
        try (var arena = Arena.ofConfined()) {
            return handle.use(t -> {
                var raw = Native.allocate(arena, Native.TOKENIZER_INFO);
                Native.call(arena, "ember_tokenizer_info_get", t, raw);
                return new Info(n(raw, "n_vocab"), token(raw, "bos"), token(raw, "eos"), token(raw, "eot"), token(raw, "unk"),
                        token(raw, "pad"), n(raw, "add_bos") != 0, n(raw, "add_eos") != 0, n(raw, "has_chat_template") != 0,
                        token(raw, "fim_prefix"), token(raw, "fim_suffix"), token(raw, "fim_middle"));
            });
        }
    }

    private static int n(MemorySegment raw, String field) {
        return Native.number(raw, Native.TOKENIZER_INFO, field);
    }

    private static OptionalInt token(MemorySegment raw, String name) {
        return ModelInfo.token(n(raw, name + "_token"));
    }

    /** The tokens of a text. `addSpecial` adds those that texts begin with; `parseSpecial` takes the text of control tokens for them. */
    public int[] tokenize(String text, boolean addSpecial, boolean parseSpecial) {
        try (var arena = Arena.ofConfined()) {
            var bytes = Native.utf8(arena, text);
            return handle.use(t -> Native.filled(arena, JAVA_INT, bytes.byteSize() + 8,
                    "ember_tokenizer_tokenize", t, bytes, bytes.byteSize(), addSpecial, parseSpecial).toArray(JAVA_INT));
        }
    }

    /** How many tokens `tokenize` would give. */
    public long count(String text, boolean addSpecial, boolean parseSpecial) {
        try (var arena = Arena.ofConfined()) {
            var bytes = Native.utf8(arena, text);
            var n = arena.allocate(JAVA_LONG);
            handle.use(t -> {
                Native.call(arena, "ember_tokenizer_count", t, bytes, bytes.byteSize(), addSpecial, parseSpecial, n);
                return null;
            });
            return n.get(JAVA_LONG, 0);
        }
    }

    /** The text of tokens, taken for the beginning of a text. `renderSpecial` writes control tokens instead of leaving them out. */
    public String detokenize(int[] tokens, boolean renderSpecial) {
        try (var arena = Arena.ofConfined()) {
            var raw = arena.allocateFrom(JAVA_INT, tokens);
            return Native.text(handle.use(t -> Native.filled(arena, JAVA_BYTE, 8L * tokens.length + 8,
                    "ember_tokenizer_detokenize", t, raw, (long) tokens.length, renderSpecial)));
        }
    }

    /** The exact bytes of a token, perhaps a part of a code point. */
    public byte[] bytes(int token) {
        try (var arena = Arena.ofConfined()) {
            return handle.use(t -> Native.filled(arena, JAVA_BYTE, 64, "ember_tokenizer_token_bytes", t, token).toArray(JAVA_BYTE));
        }
    }

    /** Whether a token controls the model instead of being text. */
    public boolean isControl(int token) {
        return is("ember_tokenizer_token_is_control", token);
    }

    /** Whether a token ends a generation. */
    public boolean isEndOfGeneration(int token) {
        return is("ember_tokenizer_token_is_eog", token);
    }

    private boolean is(String function, int token) {
        try (var arena = Arena.ofConfined()) {
            var out = arena.allocate(JAVA_BOOLEAN);
            handle.use(t -> {
                Native.call(arena, function, t, token, out);
                return null;
            });
            return out.get(JAVA_BOOLEAN, 0);
        }
    }

    /** The tokens of a prompt that asks for what stands between two texts: for `Context.generate`. */
    public int[] fimPrompt(String prefix, String suffix) {
        try (var arena = Arena.ofConfined()) {
            var before = Native.utf8(arena, prefix);
            var behind = Native.utf8(arena, suffix);
            return handle.use(t -> Native.filled(arena, JAVA_INT, before.byteSize() + behind.byteSize() + 16, "ember_tokenizer_fim_prompt",
                    t, before, before.byteSize(), behind, behind.byteSize(), MemorySegment.NULL).toArray(JAVA_INT));
        }
    }

    /** Gives the tokenizer back. */
    @Override
    public void close() {
        handle.close();
    }
}

package ember;

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
     * @param addsEos whether it gets one after it
     * @param hasChatTemplate whether there is a chat template
     * @param fimPrefix before the text that a gap comes after
     * @param fimSuffix before the text that comes after the gap
     * @param fimMiddle where the gap is filled
     * @param fimRepository before the name of a repository
     * @param fimFile before the name of a file
     */
    public record Info(int vocabularySize, OptionalInt bos, OptionalInt eos, OptionalInt eot, OptionalInt unk, OptionalInt pad,
            boolean addsBos, boolean addsEos, boolean hasChatTemplate, OptionalInt fimPrefix, OptionalInt fimSuffix,
            OptionalInt fimMiddle, OptionalInt fimRepository, OptionalInt fimFile) {}

    private final Handle handle;

    Tokenizer(MemorySegment pointer) {
        handle = new Handle("tokenizer", pointer, "ember_tokenizer_release");
    }

    /** Loads a tokenizer without a model, of a GGUF file, which need not have tensors, of a Hugging Face folder, or of a tokenizer.json. */
    public static Tokenizer load(String path) {
        return new Tokenizer(Native.made("ember_tokenizer_load", path));
    }

    /** Loads one from the bytes of a GGUF file or of a tokenizer.json. */
    public static Tokenizer load(byte[] bytes) {
        return new Tokenizer(Native.made("ember_tokenizer_load_buffer", bytes));
    }

    /** What is known of the tokens. */
    public Info info() {
        return Native.struct(Native.TOKENIZER_INFO, raw -> new Info(raw.number("n_vocab"), token(raw, "bos"), token(raw, "eos"),
                token(raw, "eot"), token(raw, "unk"), token(raw, "pad"), raw.truth("add_bos"), raw.truth("add_eos"),
                raw.truth("has_chat_template"), token(raw, "fim_prefix"), token(raw, "fim_suffix"), token(raw, "fim_middle"),
                token(raw, "fim_repository"), token(raw, "fim_file")), "ember_tokenizer_info_get", handle);
    }

    private static OptionalInt token(Native.Struct raw, String name) {
        return ModelInfo.token(raw.number(name + "_token"));
    }

    /** The tokens of a text. `addSpecial` adds those that texts begin with; `parseSpecial` takes the text of control tokens for them. */
    public int[] tokenize(String text, boolean addSpecial, boolean parseSpecial) {
        return Native.ints(4L * text.length() + 8, "ember_tokenizer_tokenize", handle, text, addSpecial, parseSpecial);
    }

    /** As before, for bytes that need not be UTF-8. */
    public int[] tokenize(byte[] bytes, boolean addSpecial, boolean parseSpecial) {
        return Native.ints(bytes.length + 8L, "ember_tokenizer_tokenize_bytes", handle, bytes, addSpecial, parseSpecial);
    }

    /** How many tokens `tokenize` would give. */
    public long count(String text, boolean addSpecial, boolean parseSpecial) {
        return Native.whole("ember_tokenizer_count", handle, text, addSpecial, parseSpecial);
    }

    /** The text of tokens, taken for the beginning of a text. `renderSpecial` writes control tokens instead of leaving them out. */
    public String detokenize(int[] tokens, boolean renderSpecial) {
        return Native.text(8L * tokens.length + 8, "ember_tokenizer_detokenize", handle, tokens, renderSpecial);
    }

    /** The exact bytes of a token, perhaps a part of a code point. */
    public byte[] bytes(int token) {
        return Native.bytes(64, "ember_tokenizer_token_bytes", handle, token);
    }

    /** Whether a token controls the model instead of being text. */
    public boolean isControl(int token) {
        return Native.truth("ember_tokenizer_token_is_control", handle, token);
    }

    /** Whether a token ends a generation. */
    public boolean isEndOfGeneration(int token) {
        return Native.truth("ember_tokenizer_token_is_eog", handle, token);
    }

    /** The tokens of a prompt that asks for what stands between two texts: for `Context.generate`. */
    public int[] fimPrompt(String prefix, String suffix) {
        return fimPrompt(prefix, suffix, new FimOptions());
    }

    /** As before, in an order, a file and a repository. */
    public int[] fimPrompt(String prefix, String suffix, FimOptions options) {
        try (var how = options.handle()) {
            return Native.ints(256, "ember_tokenizer_fim_prompt", handle, prefix, suffix, how);
        }
    }

    /** Gives the tokenizer back. */
    @Override
    public void close() {
        handle.close();
    }
}

package ember;

import java.lang.foreign.MemorySegment;
import java.util.OptionalInt;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

/**
 * The dimensions of a model.
 *
 * @param parameters number of weights
 * @param fileSize bytes of the model's files
 * @param vocabularySize logits per position; tokens are below it
 * @param trainedContext positions the model was trained on
 * @param embeddingLength width of the residual stream
 * @param vectorLength numbers of a text's vector: embeddingLength, but in models with dense modules behind the pooling
 * @param prompts prompts for texts to be embedded, by their names (EmbedOptions.prompt)
 * @param layers layers
 * @param bos beginning of a sequence
 * @param eos end of a sequence
 * @param hasTokenizer whether the file has a tokenizer
 * @param isCausal true: gives logits; false: an encoder, which gives embeddings only
 * @param pooling how embeddings are pooled, as the file says; AUTO when it says nothing
 * @param hasChatTemplate whether the file has a chat template
 */
public record ModelInfo(
        long parameters, long fileSize, int vocabularySize, int trainedContext, int embeddingLength, int vectorLength, int prompts,
        int layers, OptionalInt bos, OptionalInt eos, boolean hasTokenizer, boolean isCausal, EmbedOptions.Pooling pooling,
        boolean hasChatTemplate) {
    static ModelInfo of(MemorySegment raw) {
        return new ModelInfo(
                raw.get(JAVA_LONG, Native.offset(Native.MODEL_INFO, "n_params")),
                raw.get(JAVA_LONG, Native.offset(Native.MODEL_INFO, "file_size")),
                n(raw, "n_vocab"), n(raw, "n_ctx_train"), n(raw, "n_embd"), n(raw, "n_embd_out"), n(raw, "n_prompts"),
                n(raw, "n_layer"), token(n(raw, "bos_token")), token(n(raw, "eos_token")), n(raw, "has_tokenizer") != 0,
                n(raw, "causal") != 0, EmbedOptions.Pooling.of(n(raw, "pooling")), n(raw, "has_chat_template") != 0);
    }

    private static int n(MemorySegment raw, String field) {
        return Native.number(raw, Native.MODEL_INFO, field);
    }

    /** EMBER_TOKEN_NONE is -1 as an int. */
    static OptionalInt token(int token) {
        return token == -1 ? OptionalInt.empty() : OptionalInt.of(token);
    }
}

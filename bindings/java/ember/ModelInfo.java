package ember;

import java.util.OptionalInt;

/**
 * The dimensions of a model.
 *
 * @param parameters number of weights
 * @param fileSize bytes of the model's files
 * @param vocabularySize logits per position; tokens are below it
 * @param trainedContext positions the model was trained on
 * @param embeddingLength width of the residual stream
 * @param vectorLength numbers of a text's vector: embeddingLength, but in models with dense modules after the pooling
 * @param prompts prompts for texts to be embedded, by their names (EmbedOptions.prompt)
 * @param layers layers
 * @param heads query heads
 * @param kvHeads heads of keys and values
 * @param headLength length of a head's vector
 * @param feedForwardLength width of the feed-forward block
 * @param experts experts of a layer; 0: there are none
 * @param expertsUsed experts of a token
 * @param bos beginning of a sequence
 * @param eos end of a sequence
 * @param eot end of a turn
 * @param unk for what no other stands for
 * @param pad padding
 * @param hasTokenizer whether the file has a tokenizer
 * @param isCausal true: gives logits; false: an encoder, which gives embeddings only
 * @param pooling how embeddings are pooled, as the file says; AUTO when it says nothing
 * @param hasChatTemplate whether the file has a chat template
 */
public record ModelInfo(
        long parameters, long fileSize, int vocabularySize, int trainedContext, int embeddingLength, int vectorLength, int prompts,
        int layers, int heads, int kvHeads, int headLength, int feedForwardLength, int experts, int expertsUsed, OptionalInt bos,
        OptionalInt eos, OptionalInt eot, OptionalInt unk, OptionalInt pad, boolean hasTokenizer, boolean isCausal,
        EmbedOptions.Pooling pooling, boolean hasChatTemplate) {
    static ModelInfo of(Native.Struct raw) {
        return new ModelInfo(raw.whole("n_params"), raw.whole("file_size"), raw.number("n_vocab"), raw.number("n_ctx_train"),
                raw.number("n_embd"), raw.number("n_embd_out"), raw.number("n_prompts"), raw.number("n_layer"), raw.number("n_head"),
                raw.number("n_head_kv"), raw.number("head_dim"), raw.number("n_ff"), raw.number("n_expert"), raw.number("n_expert_used"),
                token(raw.number("bos_token")), token(raw.number("eos_token")), token(raw.number("eot_token")), token(raw.number("unk_token")),
                token(raw.number("pad_token")), raw.truth("has_tokenizer"), raw.truth("causal"),
                EmbedOptions.Pooling.of(raw.number("pooling")), raw.truth("has_chat_template"));
    }

    /** EMBER_TOKEN_NONE is -1 as an int. */
    static OptionalInt token(int token) {
        return token == -1 ? OptionalInt.empty() : OptionalInt.of(token);
    }
}

package ember.kotlin

import kotlin.time.Duration

/** How a model is loaded; null stands for the library's default. */
public class ModelOptions(
    /** Whether files are mapped, as by default, or read into memory. */
    public val mmap: Boolean? = null,
    /** Most bytes of the model and all its contexts. */
    public val memoryLimit: Long? = null,
    /** Gets how far the loading is, from 0 to 1, on the thread that loads. What it throws ends the loading and is thrown. */
    public val progress: ((Float) -> Unit)? = null,
)

/** How a context is made; null stands for the library's default. */
public class ContextOptions(
    /** Positions of each sequence; by default what the model was trained on, but no more than 4,096. */
    public val positions: Int? = null,
    /** Threads, the calling one included; by default one for each core, or each big core. */
    public val threads: Int? = null,
    /** Number of sequences; by default 1. */
    public val sequences: Int? = null,
    /** Rows run through the model at a time. */
    public val batch: Int? = null,
    /** Most bytes of the context's large buffers. */
    public val memoryLimit: Long? = null,
)

/** Makes tokens less likely that are among the last `n`, as `Options.penalties` of Java says. */
public class Penalties(public val n: Int = 64, public val repeat: Float = 1f, public val frequency: Float = 0f, public val presence: Float = 0f)

/**
 * How to generate; null stands for the library's default. With a stage or a seed tokens are drawn; otherwise the likeliest is taken. The
 * stages are in the order of the constructor: penalties, topK, topP, minP, temperature.
 */
public class Options(
    /** The most tokens to generate; by default 128. */
    public val maxTokens: Int? = null,
    /** The generation ends before the first of these texts. */
    public val stop: List<String> = emptyList(),
    /** Makes tokens less likely that were there before. */
    public val penalties: Penalties? = null,
    /** Keeps the k likeliest tokens. */
    public val topK: Int? = null,
    /** Keeps the likeliest tokens that make up p. */
    public val topP: Float? = null,
    /** Keeps tokens at least p times as likely as the likeliest. */
    public val minP: Float? = null,
    /** Divides the logits by this; 0 takes the likeliest token. */
    public val temperature: Float? = null,
    /** The same seed gives the same text. */
    public val seed: Long? = null,
    /** The text follows this. */
    public val constraint: Constraint? = null,
    /** Whether events tell the log-probability of their token. */
    public val logprobs: Boolean? = null,
    /** Whether the generation goes on after an end-of-generation token. */
    public val ignoreEog: Boolean? = null,
    /** Whether the prompt is all that the sequence shall hold, so that what it holds of it already is not run again; by default for chat alone. */
    public val reusePrefix: Boolean? = null,
    /** Whether the text of control tokens in a prompt stands for these tokens; by default it is text. */
    public val parseSpecial: Boolean? = null,
    /** Which sequence of the context goes on. */
    public val sequence: Int? = null,
    /** Ends the generation after this time, with `Finish.TIME_LIMIT`. */
    public val timeLimit: Duration? = null,
) {
    internal val hasSampler: Boolean get() = penalties != null || topK != null || topP != null || minP != null || temperature != null || seed != null
}

/** How a conversation becomes text, and how its replies are read; null stands for the library's default. */
public class ChatOptions(
    /** The tools that the model may call, a JSON array. */
    public val tools: String? = null,
    /** "auto", as by default, "none", "required", or a tool's name. */
    public val toolChoice: String? = null,
    /** Whether a reply may have several calls, as by default. */
    public val parallelCalls: Boolean? = null,
    /** Whether the model thinks before it answers; by default as the template has it. */
    public val thinking: Boolean? = null,
    /** More variables for the template, a JSON object. */
    public val variables: String? = null,
    /** A template in place of the model's. */
    public val template: String? = null,
)

/** Which hidden states of a text make its vector: what the file says, those of each token, the mean, the first token's, the last token's. */
public enum class Pooling(internal val number: Int) { AUTO(-1), NONE(0), MEAN(1), CLS(2), LAST(3) }

/** How to embed; null stands for the library's default. */
public class EmbedOptions(
    /** Which hidden states make a text's vector. */
    public val pooling: Pooling = Pooling.AUTO,
    /** Whether each vector is scaled to length 1; by default where the model does. */
    public val normalize: Boolean? = null,
    /** Whether a text that is too long is cut instead of refused; by default false. */
    public val truncate: Boolean? = null,
    /** How many numbers of each vector are kept, the first ones; by default all. */
    public val dimensions: Int? = null,
    /** The name of a prompt of the model's that each text stands behind, such as "query". */
    public val prompt: String? = null,
)

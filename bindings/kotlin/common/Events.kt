package ember.kotlin

import kotlin.time.Duration

/** Why a generation ended. */
public enum class Finish { MAX_TOKENS, EOG, STOPPED, CONTEXT_FULL, STOP_STRING, CANCELLED, TIME_LIMIT, FAILED }

/** What happens in a generation: a token, or the end. */
public data class Event(
    /** New text, of whole code points, perhaps none; the texts of all events in a row are the whole text. */
    val text: String,
    /** The token; null at the end. */
    val token: Int?,
    /** Its log-probability; null when not asked for. */
    val logprob: Float?,
    /** Why the generation ended; null before. */
    val finish: Finish?,
    /** What the generation did; null before the end. */
    val usage: Usage?,
) {
    /** Whether this is the last event. */
    val isEnd: Boolean get() = finish != null
}

/** What a generation did. */
public data class Usage(
    /** Tokens of the prompt, BOS included. */
    val promptTokens: Int,
    /** Of these, those that the sequence held already. */
    val reusedTokens: Int,
    /** Tokens generated. */
    val generatedTokens: Int,
    /** Time spent on the prompt. */
    val prefill: Duration,
    /** Time spent on the generated tokens. */
    val decode: Duration,
    /** Why it ended. */
    val finish: Finish?,
)

/** A piece of a reply. */
public data class ReplyEvent(
    /** What it is. */
    val kind: Kind,
    /** Of the answer, of a thought, of arguments (JSON), or what the model wrote of a call that is broken. */
    val text: String,
    /** The place of the call among those of the reply. */
    val index: Int,
    /** The name of the tool that is called. */
    val name: String,
    /** The id of the call. */
    val id: String,
    /** Why a call is broken. */
    val reason: String,
    /** Why the reply ended; null before. */
    val finish: Finish?,
) {
    /**
     * What an event is: more of the answer; more of a thought; a call begins (index, id, name); more of its arguments; it is complete, with
     * all arguments as text; what began as a call is none (reason), and its text belongs to the answer; the reply is a message now.
     */
    public enum class Kind { NONE, TEXT, THINKING, CALL_BEGIN, CALL_ARGUMENTS, CALL_DONE, CALL_BROKEN, END }

    /** Whether it is more of the answer. */
    val isText: Boolean get() = kind == Kind.TEXT || kind == Kind.CALL_BROKEN

    /** Whether a call is complete. */
    val isCall: Boolean get() = kind == Kind.CALL_DONE

    /** Whether this is the last event. */
    val isEnd: Boolean get() = kind == Kind.END
}

/** A part of a conversation. */
public data class Message(
    /** "system", "user", "assistant", or "tool" for the result of a call. */
    val role: String,
    /** The text. */
    val content: String,
    /** Of the tool that was called. */
    val name: String? = null,
    /** The id of the call. */
    val toolCallId: String? = null,
) {
    internal fun json(): String = listOf("role" to role, "content" to content, "name" to name, "tool_call_id" to toolCallId)
        .filter { it.second != null }.joinToString(",", "{", "}") { quote(it.first) + ":" + quote(it.second!!) }

    public companion object {
        /** What the model is told first. */
        public fun system(content: String): Message = Message("system", content)

        /** What a user says. */
        public fun user(content: String): Message = Message("user", content)

        /** What the model said. */
        public fun assistant(content: String): Message = Message("assistant", content)

        /** The result of a call that a reply had. */
        public fun tool(call: ReplyEvent, content: String): Message = Message("tool", content, call.name, call.id)

        private fun quote(text: String): String = buildString {
            append('"')
            for (c in text) {
                when {
                    c == '"' || c == '\\' -> append('\\').append(c)
                    c < ' ' -> append("\\u").append(c.code.toString(16).padStart(4, '0'))
                    else -> append(c)
                }
            }
            append('"')
        }
    }
}

/** What the last reply took. */
public data class ReplyUsage(
    /** Tokens of the whole conversation, as it was when the reply began. */
    val promptTokens: Int,
    /** Of these, those that the context held already. */
    val reusedTokens: Int,
    /** Tokens generated. */
    val generatedTokens: Int,
    /** Of these, those of thoughts. */
    val thinkingTokens: Int,
    /** Turns that were dropped before the reply, because the conversation had become too long. */
    val droppedTurns: Int,
    /** Time spent on the prompt. */
    val prefill: Duration,
    /** Time spent on the generated tokens. */
    val decode: Duration,
    /** Why the reply ended; null while it is under way. */
    val finish: Finish?,
)

/** The dimensions of a model. */
public data class ModelInfo(
    /** Number of weights. */
    val parameters: Long,
    /** Bytes of the model's files. */
    val fileSize: Long,
    /** Tokens are below it. */
    val vocabularySize: Int,
    /** Positions that the model was trained on. */
    val trainedContext: Int,
    /** Numbers of a text's vector. */
    val vectorLength: Int,
    /** Layers. */
    val layers: Int,
    /** Whether it gives logits; an encoder gives vectors only. */
    val isCausal: Boolean,
    /** Whether the file has a chat template. */
    val hasChatTemplate: Boolean,
)

package ember.kotlin

import kotlinx.coroutines.flow.Flow

/**
 * A text that is worked on. Its calls run one at a time, on the model's dispatcher; a coroutine that comes meanwhile is suspended. A coroutine
 * that is cancelled ends the call under way, be it a prompt or an embedding, and goes on when it has ended. What the library refuses is thrown
 * as an [EmberException].
 */
public class Context internal constructor(internal val native: NativeContext, internal val gate: Gate) : AutoCloseable {
    /**
     * Continues the context by a prompt and by what the model says to it. The flow is cold: each collector begins a generation, and an event is
     * computed when the collector is ready for it. `buffer()` lets the model run ahead.
     */
    public fun generate(prompt: String, options: Options = Options()): Flow<Event> = gate.events { native.generate(prompt, options) }

    /** As before for a prompt of tokens, to which nothing is added. */
    public fun generate(prompt: IntArray, options: Options = Options()): Flow<Event> = gate.events { native.generate(prompt, options) }

    /**
     * The answer to a conversation, by the model's chat template. Give all of the conversation each time: what the context holds of it already
     * is not run again. No text of a message can spell a control token.
     */
    public fun chat(messages: List<Message>, chat: ChatOptions = ChatOptions(), options: Options = Options()): Flow<Event> =
        gate.events { native.chat(messages, chat, options) }

    /** A conversation that keeps what was said. `system` is the system text, if there is one; `options` say how replies are generated. */
    public suspend fun conversation(system: String = "", chat: ChatOptions = ChatOptions(), options: Options = Options()): Conversation =
        Conversation(gate.make { native.conversation(system, chat, options) }, gate)

    /** What `Conversation.save` gave goes on, with options of its own. */
    public suspend fun conversation(saved: ByteArray, chat: ChatOptions = ChatOptions(), options: Options = Options()): Conversation =
        Conversation(gate.make { native.conversation(saved, chat, options) }, gate)

    /** A vector for each text, in their order; with Pooling.NONE one for each token of each text. Give many at once. */
    public suspend fun embed(texts: List<String>, options: EmbedOptions = EmbedOptions()): List<FloatArray> =
        gate.call { native.embed(texts, options) }

    /** Forgets what is behind position n of a sequence. */
    public suspend fun rewind(n: Int, sequence: Int = 0): Unit = gate.call { native.rewind(sequence, n) }

    /** Frees the context, once what is running with it has ended. */
    override fun close() {
        native.close()
        gate.close()
    }
}

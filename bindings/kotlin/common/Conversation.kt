package ember.kotlin

import kotlinx.coroutines.flow.Flow

/**
 * A conversation with a model in a context, which `Context.conversation` makes. A reply runs only what the context does not hold. What a
 * user types can never spell a control token.
 */
public class Conversation internal constructor(internal val native: NativeConversation, private val gate: Gate) : AutoCloseable {
    /**
     * Adds a user's message when it is collected, and gives the reply; an empty one has the messages answered that were added. A collector that
     * takes no more gives the reply up: it becomes no message. One that is cancelled while the model computes may leave a message with what there
     * was.
     */
    public fun send(message: String): Flow<ReplyEvent> = gate.events { native.send(message) }

    /** Adds a message without having it answered: the result of a tool, say. */
    public suspend fun add(message: Message): Unit = gate.call { native.add(message.json()) }

    /** Forgets the last turn: the user's last message and all behind it. */
    public suspend fun undo(): Unit = gate.call { native.undo() }

    /** All messages so far as a JSON array, those that were dropped included. */
    public suspend fun messages(): String = gate.call { native.messages() }

    /** The conversation as bytes, for `Context.conversation`. */
    public suspend fun save(): ByteArray = gate.call { native.save() }

    /** What the last reply took. */
    public suspend fun usage(): ReplyUsage = gate.call { native.usage() }

    /** Frees the conversation, once a call that is using it has ended. */
    override fun close(): Unit = native.close()
}

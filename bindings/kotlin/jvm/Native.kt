package ember.kotlin

import java.util.stream.Stream
import kotlin.time.toKotlinDuration
import ember.CancelToken as JavaToken
import ember.ChatOptions as JavaChatOptions
import ember.Constraint as JavaConstraint
import ember.Context as JavaContext
import ember.ContextOptions as JavaContextOptions
import ember.Conversation as JavaConversation
import ember.EmbedOptions as JavaEmbedOptions
import ember.EmberException as JavaException
import ember.Event as JavaEvent
import ember.Message as JavaMessage
import ember.Model as JavaModel
import ember.ModelOptions as JavaModelOptions
import ember.Options as JavaOptions
import ember.ReplyEvent as JavaReplyEvent

/** What the library refuses, in its words. */
public typealias EmberException = ember.EmberException

/** One that is closed does nothing: what it is of says so. */
internal class NativeToken : AutoCloseable {
    val java = JavaToken()

    fun cancel() = unlessClosed { java.cancel() }

    fun reset() = unlessClosed { java.reset() }

    private inline fun unlessClosed(call: () -> Unit) = try {
        call()
    } catch (e: JavaException) {
        if (e.status() != 0) throw e else Unit
    }

    override fun close() = java.close()
}

internal class NativeConstraint(val java: JavaConstraint) : AutoCloseable by java

internal class NativeModel(val java: JavaModel) : AutoCloseable by java {
    fun info(): ModelInfo = java.info().let {
        ModelInfo(it.parameters, it.fileSize, it.vocabularySize, it.trainedContext, it.vectorLength, it.layers, it.isCausal, it.hasChatTemplate)
    }

    fun context(options: ContextOptions, token: NativeToken): NativeContext {
        val how = JavaContextOptions()
        options.positions?.let(how::positions)
        options.threads?.let(how::threads)
        options.sequences?.let(how::sequences)
        options.batch?.let(how::batch)
        options.memoryLimit?.let(how::memoryLimit)
        val context = java.context(how)
        context.cancelToken(token.java)
        return NativeContext(context)
    }

    fun tokenize(text: String, addSpecial: Boolean, parseSpecial: Boolean): IntArray = java.tokenize(text, addSpecial, parseSpecial)

    fun constraint(kind: Int, text: String) = NativeConstraint(
        when (kind) {
            SCHEMA -> JavaConstraint.jsonSchema(java, text)
            REGEX -> JavaConstraint.regex(java, text, ember.ConstraintOptions())
            else -> JavaConstraint.lark(java, text, ember.ConstraintOptions())
        },
    )

    companion object {
        const val SCHEMA = 0
        const val REGEX = 1
        const val LARK = 2

        fun load(path: String, options: ModelOptions, token: NativeToken) = NativeModel(JavaModel.load(path, java(options, token)))

        fun load(descriptor: Int, offset: Long, length: Long, options: ModelOptions, token: NativeToken) =
            NativeModel(JavaModel.load(descriptor, offset, length, java(options, token)))

        private fun java(options: ModelOptions, token: NativeToken): JavaModelOptions {
            val how = JavaModelOptions().cancelToken(token.java)
            options.mmap?.let(how::mmap)
            options.memoryLimit?.let(how::memoryLimit)
            options.progress?.let { how.progress { done -> it(done.toFloat()) } }
            return how
        }
    }
}

internal class NativeContext(val java: JavaContext) : AutoCloseable by java {
    fun generate(prompt: String, options: Options): Source<Event> = Events(java.generate(prompt, java(options)), ::event)

    fun generate(prompt: IntArray, options: Options): Source<Event> = Events(java.generate(prompt, java(options)), ::event)

    fun chat(messages: List<Message>, chat: ChatOptions, options: Options): Source<Event> {
        val said = messages.map { JavaMessage(it.role, it.content, it.name, it.toolCallId) }
        return Events(java.chat(said, java(chat), java(options)), ::event)
    }

    fun conversation(system: String, chat: ChatOptions, options: Options) = NativeConversation(java.conversation(system, java(chat), java(options)))

    fun conversation(saved: ByteArray, chat: ChatOptions, options: Options) = NativeConversation(java.conversation(saved, java(chat), java(options)))

    fun embed(texts: List<String>, options: EmbedOptions): List<FloatArray> {
        val how = JavaEmbedOptions()
        if (options.pooling != Pooling.AUTO) how.pooling(JavaEmbedOptions.Pooling.valueOf(options.pooling.name))
        options.normalize?.let(how::normalize)
        options.truncate?.let(how::truncate)
        options.dimensions?.let(how::dimensions)
        options.prompt?.let(how::prompt)
        return java.embed(texts, how).toList()
    }

    fun rewind(sequence: Int, n: Int) = java.rewind(sequence, n)
}

internal class NativeConversation(val java: JavaConversation) : AutoCloseable by java {
    fun send(message: String): Source<ReplyEvent> = Events(java.send(message), ::reply)

    fun add(json: String) = java.addJson(json)

    fun undo() = java.undo()

    fun messages(): String = java.messages()

    fun save(): ByteArray = java.save()

    fun usage(): ReplyUsage = java.usage().let {
        ReplyUsage(
            it.promptTokens, it.reusedTokens, it.generatedTokens, it.thinkingTokens, it.droppedTurns,
            it.prefill.toKotlinDuration(), it.decode.toKotlinDuration(), finish(it.finish),
        )
    }
}

/** A stream of Java's, taken one by one. */
internal class Events<J : Any, E>(private val stream: Stream<J>, private val of: (J) -> E) : Source<E> {
    private val events = stream.spliterator()

    override fun next(): E? {
        var event: E? = null
        events.tryAdvance { event = of(it) }
        return event
    }

    override fun close() = stream.close()
}

internal fun event(it: JavaEvent) = Event(
    it.text, it.token.takeIf { id -> id >= 0 }, it.logprob.takeUnless(Float::isNaN), finish(it.finish),
    it.usage?.let { did ->
        Usage(did.promptTokens, did.reusedTokens, did.generatedTokens, did.prefill.toKotlinDuration(), did.decode.toKotlinDuration(), finish(did.finish))
    },
)

private fun reply(it: JavaReplyEvent) =
    ReplyEvent(ReplyEvent.Kind.entries[it.kind.ordinal], it.text, it.index, it.name, it.id, it.reason, finish(it.finish))

private fun finish(it: JavaEvent.Finish?) = it?.let { why -> Finish.entries[why.ordinal] }

private fun java(options: Options): JavaOptions {
    val how = JavaOptions()
    options.maxTokens?.let(how::maxTokens)
    options.stop.forEach(how::stop)
    options.penalties?.let { how.penalties(it.n, it.repeat, it.frequency, it.presence) }
    options.topK?.let(how::topK)
    options.topP?.let(how::topP)
    options.minP?.let(how::minP)
    options.temperature?.let(how::temperature)
    options.seed?.let(how::seed)
    options.constraint?.let { how.constraint(it.native.java) }
    options.logprobs?.let(how::logprobs)
    options.ignoreEog?.let(how::ignoreEog)
    options.reusePrefix?.let(how::reusePrefix)
    options.parseSpecial?.let(how::parseSpecial)
    options.sequence?.let(how::sequence)
    options.timeLimit?.let { how.timeLimit(milliseconds(it)) }
    return how
}

private fun java(options: ChatOptions): JavaChatOptions {
    val how = JavaChatOptions()
    options.tools?.let(how::tools)
    options.toolChoice?.let(how::toolChoice)
    options.parallelCalls?.let(how::parallelCalls)
    options.thinking?.let(how::thinking)
    options.variables?.let(how::variables)
    options.template?.let(how::template)
    return how
}

package ember.kotlin

import kotlin.time.Duration.Companion.nanoseconds

/** What the library refuses, in its words. */
public typealias EmberException = ember.EmberException

/** A call of JNI takes options as numbers: bit i of the first says whether number i is given. */
private class Numbers(count: Int) {
    val all = LongArray(count + 1)

    fun set(i: Int, value: Long?) {
        all[i] = value ?: return
        all[0] = all[0] or (1L shl i)
    }

    fun set(i: Int, value: Boolean?) = set(i, value?.let { if (it) 1L else 0L })

    fun set(i: Int, value: Float?) = set(i, value?.toRawBits()?.toLong())

    fun set(i: Int, what: String, value: Int?) = set(i, what, value?.toLong())

    /** The library has no negative numbers. */
    fun set(i: Int, what: String, value: Long?) {
        require(value == null || value >= 0) { "$what must not be negative, and is $value" }
        set(i, value)
    }
}

private fun unsigned(what: String, value: Int): Int = value.also { require(it >= 0) { "$what must not be negative, and is $it" } }

/** One that is closed does nothing: what it is of says so. */
internal class NativeToken : AutoCloseable {
    val handle = Handle("token", Jni.tokenNew(), Jni::tokenFree)

    fun cancel() = unlessClosed(Jni::tokenCancel)

    fun reset() = unlessClosed(Jni::tokenReset)

    private fun unlessClosed(call: (Long) -> Unit) = try {
        handle.use(call)
    } catch (e: EmberException) {
        if (e.status() != 0) throw e else Unit
    }

    override fun close() = handle.close()
}

internal class NativeConstraint(pointer: Long) : AutoCloseable {
    val handle = Handle("constraint", pointer, Jni::constraintFree)

    override fun close() = handle.close()
}

internal class NativeModel(pointer: Long) : AutoCloseable {
    private val handle = Handle("model", pointer, Jni::modelFree)

    fun info(): ModelInfo = raw().let {
        ModelInfo(it[0], it[1], it[2].toInt(), it[3].toInt(), it[5].toInt(), it[6].toInt(), it[7] != 0L, it[8] != 0L)
    }

    private fun raw() = LongArray(10).also { to -> handle.use { Jni.modelInfo(it, to) } }

    fun context(options: ContextOptions, token: NativeToken): NativeContext {
        val how = Numbers(5)
        how.set(1, "positions", options.positions)
        how.set(2, "threads", options.threads)
        how.set(3, "sequences", options.sequences)
        how.set(4, "batch", options.batch)
        how.set(5, "memoryLimit", options.memoryLimit)
        val widths = raw().let { Widths(it[4].toInt(), it[5].toInt(), it[9].toInt()) }
        return handle.use { model -> token.handle.use { NativeContext(Jni.contextNew(model, how.all, it), Jni.modelRetain(model), widths) } }
    }

    fun tokenize(text: String, addSpecial: Boolean, parseSpecial: Boolean): IntArray =
        handle.use { Jni.modelTokenize(it, text.encodeToByteArray(), addSpecial, parseSpecial) }

    fun constraint(kind: Int, text: String): NativeConstraint = handle.use { NativeConstraint(Jni.constraintNew(it, kind, text.encodeToByteArray())) }

    override fun close() = handle.close()

    companion object {
        const val SCHEMA = 0
        const val REGEX = 1
        const val LARK = 2

        fun load(path: String, options: ModelOptions, token: NativeToken) = load(path.encodeToByteArray(), 0, 0, 0, options, token)

        fun load(descriptor: Int, offset: Long, length: Long, options: ModelOptions, token: NativeToken): NativeModel {
            require(offset >= 0) { "offset must not be negative, and is $offset" }
            require(length >= 0) { "length must not be negative, and is $length" }
            return load(null, descriptor, offset, length, options, token)
        }

        private fun load(path: ByteArray?, descriptor: Int, offset: Long, length: Long, options: ModelOptions, token: NativeToken): NativeModel {
            val how = Numbers(2)
            how.set(1, options.mmap)
            how.set(2, "memoryLimit", options.memoryLimit)
            val progress = options.progress?.let { Progress(it) }
            return token.handle.use { NativeModel(Jni.modelLoad(path, descriptor, offset, length, how.all, it, progress)) }
        }
    }
}

/** Of a token's vector and of a text's, and the pooling that the file names. */
internal class Widths(val token: Int, val text: Int, val pooling: Int)

internal class NativeContext(pointer: Long, model: Long, private val widths: Widths) : AutoCloseable {
    private val handle = Handle("context", pointer, Jni::contextFree)
    private val model = Handle("model", model, Jni::modelFree)

    fun generate(prompt: String, options: Options): Source<Event> = events(prompt.encodeToByteArray(), null, numbers(options), options)

    fun generate(prompt: IntArray, options: Options): Source<Event> = events(null, prompt, numbers(options), options)

    fun chat(messages: List<Message>, chat: ChatOptions, options: Options): Source<Event> {
        val json = messages.joinToString(",", "[", "]") { it.json() }.encodeToByteArray()
        val tokens = handle.use { model.use { Jni.chatTokenize(it, json, numbers(chat), texts(chat)) } }
        return events(null, tokens, numbers(options, reuse = true), options)
    }

    private fun events(text: ByteArray?, tokens: IntArray?, numbers: LongArray, options: Options): Source<Event> {
        val stop = Array(options.stop.size) { options.stop[it].encodeToByteArray() }
        return withConstraint(options) { handle.use { Generation(Jni.generatorNew(it, text, tokens, numbers, stop)) } }
    }

    private inner class Generation(pointer: Long) : Source<Event> {
        private val generator = Handle("generation", pointer, Jni::generatorFree)
        private val raw = LongArray(9)
        private var ended = false

        override fun next(): Event? {
            if (ended) return null
            // Neither the context nor the generator is freed meanwhile.
            val text = handle.use { generator.use { Jni.generatorNext(it, raw) } }.decodeToString()
            val finish = finish(raw[3])
            ended = finish != null
            val usage = if (!ended) null else {
                Usage(raw[4].toInt(), raw[5].toInt(), raw[6].toInt(), raw[7].nanoseconds, raw[8].nanoseconds, finish)
            }
            val logprob = Float.fromBits(raw[2].toInt())
            return Event(text, raw[1].toInt().takeIf { it >= 0 }, logprob.takeUnless(Float::isNaN), finish, usage)
        }

        override fun close() = generator.close()
    }

    fun conversation(system: String, chat: ChatOptions, options: Options) = conversation(system.encodeToByteArray(), false, chat, options)

    fun conversation(saved: ByteArray, chat: ChatOptions, options: Options) = conversation(saved, true, chat, options)

    private fun conversation(from: ByteArray, saved: Boolean, chat: ChatOptions, options: Options): NativeConversation {
        val stop = Array(options.stop.size) { options.stop[it].encodeToByteArray() }
        val numbers = numbers(options)
        return withConstraint(options) {
            handle.use { context ->
                val sampler = Handle("sampler", Jni.samplerNew(numbers), Jni::samplerFree)
                try {
                    NativeConversation(Jni.conversationNew(context, from, saved, numbers(chat), texts(chat), numbers, stop), handle, sampler)
                } catch (e: Throwable) {
                    sampler.close()
                    throw e
                }
            }
        }
    }

    fun embed(texts: List<String>, options: EmbedOptions): List<FloatArray> {
        val how = Numbers(4)
        if (options.pooling != Pooling.AUTO) how.set(1, options.pooling.number.toLong())
        how.set(2, options.normalize)
        how.set(3, options.truncate)
        how.set(4, "dimensions", options.dimensions)
        val pooling = if (options.pooling == Pooling.AUTO) widths.pooling else options.pooling.number
        val whole = if (pooling == Pooling.NONE.number) widths.token else widths.text
        val width = options.dimensions?.takeIf { it > 0 } ?: whole
        val bytes = Array(texts.size) { texts[it].encodeToByteArray() }
        val all = handle.use { Jni.embed(it, bytes, how.all, options.prompt?.encodeToByteArray()) }
        return List(all.size / width) { all.copyOfRange(it * width, (it + 1) * width) }
    }

    fun rewind(sequence: Int, n: Int) = handle.use { Jni.contextRewind(it, unsigned("sequence", sequence), unsigned("n", n)) }

    override fun close() {
        handle.close()
        model.close()
    }
}

internal class NativeConversation(pointer: Long, private val context: Handle, private val sampler: Handle) : AutoCloseable {
    private val handle = Handle("conversation", pointer, Jni::conversationFree)

    /** The context is not freed meanwhile. */
    private fun <T> call(f: (Long) -> T): T = context.use { handle.use(f) }

    fun send(message: String): Source<ReplyEvent> {
        call { conversation -> sampler.use { Jni.conversationBegin(conversation, message.encodeToByteArray(), it) } }
        return Reply()
    }

    private inner class Reply : Source<ReplyEvent> {
        private val raw = LongArray(3)
        private var ended = false

        override fun next(): ReplyEvent? {
            if (ended) return null
            val texts = call { Jni.conversationNext(it, raw) }.map { it.decodeToString() }
            val kind = ReplyEvent.Kind.entries[raw[0].toInt()]
            ended = kind == ReplyEvent.Kind.END
            return ReplyEvent(kind, texts[0], raw[1].toInt(), texts[1], texts[2], texts[3], finish(raw[2]))
        }

        override fun close() {
            if (!ended && !handle.isClosed) call(Jni::conversationAbandon)
            ended = true
        }
    }

    fun add(json: String) = call { Jni.conversationAdd(it, json.encodeToByteArray()) }

    fun undo() = call(Jni::conversationUndo)

    fun messages(): String = call(Jni::conversationMessages).decodeToString()

    fun save(): ByteArray = call(Jni::conversationSave)

    fun usage(): ReplyUsage = LongArray(8).let { to ->
        call { Jni.conversationUsage(it, to) }
        val n = to.map { it.toInt() }
        ReplyUsage(n[0], n[1], n[2], n[3], n[4], to[5].nanoseconds, to[6].nanoseconds, finish(to[7]))
    }

    override fun close() {
        handle.close()
        sampler.close()
    }
}

private fun finish(number: Long): Finish? = Finish.entries.getOrNull(number.toInt())

/** The constraint of the options, if there is one, is not freed meanwhile. */
private fun <T> withConstraint(options: Options, f: () -> T): T = options.constraint.let { if (it == null) f() else it.native.handle.use { f() } }

/** In the order of the numbers of jni.c. */
private fun numbers(options: Options, reuse: Boolean = false): LongArray {
    val how = Numbers(17)
    how.set(1, "maxTokens", options.maxTokens)
    options.penalties?.let {
        how.set(2, "n", it.n)
        how.set(3, it.repeat)
        how.set(4, it.frequency)
        how.set(5, it.presence)
    }
    how.set(6, "topK", options.topK)
    how.set(7, options.topP)
    how.set(8, options.minP)
    how.set(9, options.temperature)
    how.set(10, options.seed)
    options.constraint?.let { constraint -> constraint.native.handle.use { how.set(11, it) } }
    how.set(12, options.logprobs)
    how.set(13, options.ignoreEog)
    how.set(14, options.reusePrefix ?: true.takeIf { reuse })
    how.set(15, options.parseSpecial)
    how.set(16, "sequence", options.sequence)
    how.set(17, options.timeLimit?.let(::milliseconds))
    return how.all
}

private fun numbers(options: ChatOptions): LongArray {
    val how = Numbers(6)
    how.set(1, options.parallelCalls)
    how.set(2, options.thinking?.let { if (it) 1L else 2L })
    given(options).forEachIndexed { i, text -> if (text != null) how.set(3 + i, 0L) }
    return how.all
}

private fun given(options: ChatOptions) = listOf(options.tools, options.toolChoice, options.variables, options.template)

private fun texts(options: ChatOptions): Array<ByteArray> = given(options).map { (it ?: "").encodeToByteArray() }.toTypedArray()

package ember.kotlin

import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.Dispatchers

/** A loaded model: immutable, for any number of coroutines and contexts, which keep it. */
public class Model internal constructor(internal val native: NativeModel, private val dispatcher: CoroutineDispatcher) : AutoCloseable {
    /** The dimensions of the model. */
    public val info: ModelInfo get() = native.info()

    /** A context as these options say. */
    public suspend fun context(options: ContextOptions = ContextOptions()): Context {
        val gate = Gate(dispatcher)
        try {
            return Context(gate.make { native.context(options, gate.token) }, gate)
        } catch (e: Throwable) {
            gate.close()
            throw e
        }
    }

    /** The tokens of a text. `addSpecial` adds those that texts begin with; `parseSpecial` takes the text of control tokens for them. */
    public fun tokenize(text: String, addSpecial: Boolean = true, parseSpecial: Boolean = false): IntArray =
        native.tokenize(text, addSpecial, parseSpecial)

    /** What a text has to follow (`Options.constraint`): a JSON schema. */
    public fun jsonSchema(schema: String): Constraint = Constraint(native.constraint(NativeModel.SCHEMA, schema))

    /** As before, a regular expression. */
    public fun regex(expression: String): Constraint = Constraint(native.constraint(NativeModel.REGEX, expression))

    /** As before, a Lark grammar. */
    public fun grammar(lark: String): Constraint = Constraint(native.constraint(NativeModel.LARK, lark))

    /** Gives the model back; contexts over it go on working. */
    override fun close(): Unit = native.close()

    public companion object {
        /**
         * Loads a GGUF file or a folder of Hugging Face. Cancelling the coroutine ends the loading. The model's calls, and those of its
         * contexts, run on `dispatcher`.
         */
        public suspend fun load(
            path: String,
            options: ModelOptions = ModelOptions(),
            dispatcher: CoroutineDispatcher = Dispatchers.IO,
        ): Model = load(dispatcher) { NativeModel.load(path, options, it) }

        /**
         * Loads a GGUF file that is a part of an open file, `length` bytes from `offset` on, to its end where `length` is 0: for files without
         * a path, such as Android's assets that are not compressed. The descriptor is the system's number, and stays the caller's.
         */
        public suspend fun load(
            descriptor: Int,
            offset: Long,
            length: Long,
            options: ModelOptions = ModelOptions(),
            dispatcher: CoroutineDispatcher = Dispatchers.IO,
        ): Model = load(dispatcher) { NativeModel.load(descriptor, offset, length, options, it) }

        private suspend fun load(dispatcher: CoroutineDispatcher, load: (NativeToken) -> NativeModel): Model =
            Gate(dispatcher).use { gate -> Model(gate.make { load(gate.token) }, dispatcher) }
    }
}

/** What generated text follows, made by a `Model` for itself; any number of generations may use it. */
public class Constraint internal constructor(internal val native: NativeConstraint) : AutoCloseable {
    override fun close(): Unit = native.close()
}

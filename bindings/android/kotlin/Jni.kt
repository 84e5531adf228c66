package ember.kotlin

/** Gets how far a loading is; called by jni.c. */
internal fun interface Progress {
    fun at(done: Float)
}

/** The functions of jni.c. `ember.jni` names the library where it is not among the app's. */
internal object Jni {
    init {
        val path = System.getProperty("ember.jni")
        if (path == null) System.loadLibrary("ember_jni") else System.load(path)
    }

    @JvmStatic external fun statusName(status: Int): ByteArray

    @JvmStatic external fun tokenNew(): Long

    @JvmStatic external fun tokenCancel(token: Long)

    @JvmStatic external fun tokenReset(token: Long)

    @JvmStatic external fun tokenFree(token: Long)

    @JvmStatic external fun modelLoad(
        path: ByteArray?, descriptor: Int, offset: Long, length: Long, options: LongArray, token: Long, progress: Progress?,
    ): Long

    @JvmStatic external fun modelRetain(model: Long): Long

    @JvmStatic external fun modelFree(model: Long)

    @JvmStatic external fun modelInfo(model: Long, to: LongArray)

    @JvmStatic external fun modelTokenize(model: Long, text: ByteArray, addSpecial: Boolean, parseSpecial: Boolean): IntArray

    @JvmStatic external fun constraintNew(model: Long, kind: Int, text: ByteArray): Long

    @JvmStatic external fun constraintFree(constraint: Long)

    @JvmStatic external fun contextNew(model: Long, options: LongArray, token: Long): Long

    @JvmStatic external fun contextFree(context: Long)

    @JvmStatic external fun contextRewind(context: Long, sequence: Int, n: Int)

    @JvmStatic external fun embed(context: Long, texts: Array<ByteArray>, options: LongArray, prompt: ByteArray?): FloatArray

    @JvmStatic external fun generatorNew(context: Long, text: ByteArray?, tokens: IntArray?, options: LongArray, stop: Array<ByteArray>): Long

    @JvmStatic external fun generatorNext(generator: Long, to: LongArray): ByteArray

    @JvmStatic external fun generatorFree(generator: Long)

    @JvmStatic external fun samplerNew(options: LongArray): Long

    @JvmStatic external fun samplerFree(sampler: Long)

    @JvmStatic external fun chatTokenize(model: Long, messages: ByteArray, options: LongArray, texts: Array<ByteArray>): IntArray

    @JvmStatic external fun conversationNew(
        context: Long, from: ByteArray, saved: Boolean, chat: LongArray, texts: Array<ByteArray>, options: LongArray, stop: Array<ByteArray>,
    ): Long

    @JvmStatic external fun conversationFree(conversation: Long)

    @JvmStatic external fun conversationBegin(conversation: Long, text: ByteArray, sampler: Long)

    @JvmStatic external fun conversationNext(conversation: Long, to: LongArray): Array<ByteArray>

    @JvmStatic external fun conversationAbandon(conversation: Long)

    @JvmStatic external fun conversationAdd(conversation: Long, message: ByteArray)

    @JvmStatic external fun conversationUndo(conversation: Long)

    @JvmStatic external fun conversationMessages(conversation: Long): ByteArray

    @JvmStatic external fun conversationSave(conversation: Long): ByteArray

    @JvmStatic external fun conversationUsage(conversation: Long, to: LongArray)
}

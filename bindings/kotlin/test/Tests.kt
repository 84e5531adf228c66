import ember.kotlin.*
import kotlinx.coroutines.*
import kotlinx.coroutines.flow.*
import java.io.File
import java.io.FileDescriptor
import java.io.FileInputStream
import kotlin.coroutines.ContinuationInterceptor
import kotlin.math.abs
import kotlin.system.exitProcess
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.minutes
import kotlin.time.TimeSource

// Tests of the package, and of Android's, which has the same classes: Tests MODEL ROTARY_MODEL EMBEDDING_MODEL CHAT_MODEL TOOLS_MODEL PROMPT N
// TEXT, where the last three are the golden text of all bindings.

fun equal(what: String, got: Any?, want: Any?) {
    if (got != want) throw AssertionError("$what: $got instead of $want")
}

fun sure(what: String, isSo: Boolean) = equal(what, isSo, true)

suspend fun refused(status: Int, says: String, call: suspend () -> Unit) {
    try {
        call()
    } catch (e: EmberException) {
        if (e.status == status && e.message!!.contains(says)) return
        throw e
    }
    throw AssertionError("not refused: $says")
}

suspend fun Flow<Event>.text() = toList().joinToString("") { it.text }

suspend fun Flow<ReplyEvent>.answer() = filter { it.isText }.toList().joinToString("") { it.text }

class Golden(val prompt: String, val n: Int, val text: String)

suspend fun streaming(model: Model, golden: Golden) = model.context().use { context ->
    val caller = Thread.currentThread()
    var ticks = 0
    coroutineScope {
        val ticking = launch { while (true) { ticks++; delay(1.milliseconds) } }
        val flow = context.generate(golden.prompt, Options(maxTokens = golden.n, logprobs = true))
        context.rewind(0) // the flow is cold: nothing ran
        val events = flow.onEach { equal("collects on", Thread.currentThread(), caller) }.toList()
        ticking.cancel()
        equal("text", events.joinToString("") { it.text }, golden.text)
        equal("tokens", events.size, golden.n + 1)
        equal("the end", events.last().finish, Finish.MAX_TOKENS)
        equal("generated", events.last().usage!!.generatedTokens, golden.n)
        sure("took time", events.last().usage!!.decode > Duration.ZERO)
        sure("a log-probability", events.first().logprob!! < 0)
        equal("no token at the end", events.last().token, null)
        context.rewind(0)
        equal("collected again", flow.text(), golden.text)
    }
    sure("the caller's thread is free meanwhile: $ticks", ticks > 2)
    context.rewind(0)
    equal("of tokens", context.generate(model.tokenize(golden.prompt), Options(maxTokens = golden.n)).text(), golden.text)

    val drawn = listOf(3L, 3L, 4L).map { seed ->
        context.rewind(0)
        context.generate("The wolf said", Options(topK = 40, topP = .95f, minP = .01f, temperature = .9f, seed = seed, maxTokens = 20)).text()
    }
    equal("the same seed", drawn[1], drawn[0])
    sure("another seed", drawn[2] != drawn[0])
    context.rewind(0)
    val stop = golden.text.trim().split(" ")[1]
    val stopped = context.generate(golden.prompt, Options(stop = listOf("never", stop))).toList()
    equal("before the stop text", stopped.joinToString("") { it.text }, golden.text.substringBefore(stop))
    equal("the end", stopped.last().finish, Finish.STOP_STRING)
    context.rewind(0)
    val penalized = context.generate(golden.prompt, Options(maxTokens = golden.n, penalties = Penalties(repeat = 2f), topK = 1)).text()
    sure("penalties", penalized != golden.text)
    context.rewind(0)
    val late = context.generate("The sea", Options(ignoreEog = true, maxTokens = 4000, timeLimit = 30.milliseconds)).toList()
    equal("the end", late.last().finish, Finish.TIME_LIMIT)
    model.regex("[0-9]{3}").use {
        context.rewind(0)
        sure("follows", Regex("[0-9]{3}").matches(context.generate("The number is ", Options(constraint = it)).text()))
    }
    model.jsonSchema("""{"enum": ["yes", "no"]}""").use {
        context.rewind(0)
        sure("follows", context.generate("Is it? ", Options(constraint = it)).text() in listOf("\"yes\"", "\"no\""))
    }
    model.grammar("start: \"moon\"").use {
        context.rewind(0)
        equal("follows", context.generate("The ", Options(constraint = it)).text(), "moon")
    }
}

suspend fun cancelling(model: Model, golden: Golden) = model.context().use { context ->
    suspend fun works(after: String) {
        context.rewind(0)
        equal("after $after", context.generate(golden.prompt, Options(maxTokens = golden.n)).text(), golden.text)
    }
    val long = Options(maxTokens = 2000, ignoreEog = true)
    // In the midst of a generation.
    coroutineScope {
        var events = 0
        val job = launch { context.generate("The sea", long).collect { if (++events == 3) this@launch.cancel() } }
        job.join()
        sure("cancelled", job.isCancelled)
        equal("no event after that", events, 3)
    }
    works("cancelling a collector")
    context.rewind(0)
    equal("taken", context.generate("The sea", long).take(3).count(), 3)
    works("taking three")
    context.rewind(0)
    val failed = runCatching { context.generate("The sea", long).collect { error("no more") } }.exceptionOrNull()
    sure("what a collector throws: $failed", failed is IllegalStateException && failed.message == "no more")
    works("a collector that threw")
    // A sibling that fails cancels the collector, and the scope throws what the sibling threw.
    val sibling = runCatching {
        coroutineScope {
            val begun = CompletableDeferred<Unit>()
            context.rewind(0)
            launch { context.generate("The sea", long).collect { begun.complete(Unit) } }
            launch { begun.await(); throw NumberFormatException("of the sibling") }
        }
    }.exceptionOrNull()
    sure("$sibling", sibling is NumberFormatException)
    works("a sibling that failed")
}

/** Prompts that take much longer than their timeout. */
suspend fun timeouts(path: String) = coroutineScope {
    // All runs on one thread, of the caller too.
    val narrow = Dispatchers.IO.limitedParallelism(1)
    for ((caller, dispatcher) in listOf(coroutineContext[ContinuationInterceptor]!! to Dispatchers.IO, narrow to narrow)) {
        Model.load(path, dispatcher = dispatcher).use { model ->
            model.context(ContextOptions(positions = 16384)).use { context ->
                val prompt = IntArray(16000) { 5 + it * 7 % 90 }
                val one = Options(maxTokens = 1)
                val start = TimeSource.Monotonic.markNow()
                context.generate(prompt, one).collect()
                val whole = start.elapsedNow()
                context.rewind(0)
                withContext(caller) {
                    val again = TimeSource.Monotonic.markNow()
                    val e = runCatching { withTimeout(whole / 20) { context.generate(prompt, one).collect() } }.exceptionOrNull()
                    val took = again.elapsedNow()
                    sure("a timeout, not $e", e is TimeoutCancellationException)
                    sure("$took of $whole", took < whole / 2)
                }
                context.rewind(0)
                val text = context.generate(prompt.copyOf(40), Options(maxTokens = 8)).text()
                // One that waits for its turn is cancelled by itself.
                context.rewind(0)
                val first = launch { context.generate(prompt, one).collect() }
                yield()
                val second = launch { context.rewind(0) }
                yield()
                second.cancelAndJoin()
                sure("the first goes on", first.isActive)
                first.cancelAndJoin()
                context.rewind(0)
                equal("after timeouts", context.generate(prompt.copyOf(40), Options(maxTokens = 8)).text(), text)
            }
        }
    }
}

suspend fun together(model: Model, golden: Golden) = model.context(ContextOptions(positions = 256, sequences = 3)).use { context ->
    val texts = coroutineScope {
        (0..2).map { async { context.generate(golden.prompt, Options(maxTokens = golden.n, sequence = it)).text() } }.awaitAll()
    }
    equal("three sequences at once", texts, listOf(golden.text, golden.text, golden.text))
    refused(1, "3") { context.generate("a", Options(sequence = 3)).collect() }
    context.rewind(0)
    context.generate(golden.prompt).take(2).collect { context.rewind(0, sequence = 1) } // a call between two events
}

suspend fun refusals(path: String, model: Model) {
    refused(2, "no.gguf") { Model.load("no.gguf") }
    equal("name", runCatching { Model.load("no.gguf") }.exceptionOrNull().let { (it as EmberException).statusName() }, "EMBER_E_IO")
    refused(3, "Makefile") { Model.load("Makefile").close() }
    val negative = runCatching { model.context(ContextOptions(positions = -1)) }.exceptionOrNull()
    sure("$negative", negative is IllegalArgumentException && "positions" in negative.message!! && "-1" in negative.message!!)
    val context = model.context(ContextOptions(positions = 64))
    refused(1, "5") { context.generate("a", Options(topP = 5f)).collect() }
    refused(6, "64") { context.generate("The sea. ".repeat(200)).collect() }
    refused(4, "template") { context.chat(listOf(Message.user("Hi"))).collect() }
    refused(1, "") { context.rewind(2) }
    val none = runCatching { context.generate("a", Options(timeLimit = Duration.ZERO)).collect() }.exceptionOrNull()
    sure("$none", none is IllegalArgumentException)
    // Closed while a flow is collected, and before.
    refused(0, "context is closed") { context.generate("The sea", Options(ignoreEog = true)).collect { context.close() } }
    refused(0, "context is closed") { context.rewind(0) }
    refused(0, "context is closed") { context.embed(listOf("a")) }
    context.close()
    val lone = runCatching { model.regex("(") }.exceptionOrNull()
    sure("$lone", lone is EmberException)
    // Loading: told how far it is, ended by what is thrown there, and by cancelling.
    val told = mutableListOf<Float>()
    Model.load(path, ModelOptions(mmap = false, progress = { told += it })).use { equal("layers", it.info.layers, model.info.layers) }
    sure("told $told", told.size > 1 && told == told.sorted() && told.last() <= 1f)
    val thrown = runCatching { Model.load(path, ModelOptions(progress = { error("enough") })) }.exceptionOrNull()
    sure("$thrown", thrown is IllegalStateException && thrown.message == "enough")
    refused(5, "1000") { Model.load(path, ModelOptions(mmap = false, memoryLimit = 1000)).close() }
    coroutineScope {
        val begun = CompletableDeferred<Unit>()
        val loading = async { Model.load(path, ModelOptions(mmap = false, progress = { begun.complete(Unit); Thread.sleep(50) })) }
        begun.await()
        loading.cancel()
        val e = runCatching { loading.await() }.exceptionOrNull()
        sure("$e", e is CancellationException)
    }
    val closed = Model.load(path)
    val kept = closed.context()
    closed.close()
    closed.close()
    refused(0, "model is closed") { closed.tokenize("a") }
    equal("a context keeps its model", kept.generate("The sea", Options(maxTokens = 3)).count(), 4)
    kept.close()
}

/** A part of an open file, by the number of its descriptor, which Java hides. */
suspend fun descriptors(path: String, model: Model) {
    val padded = File.createTempFile("ember", ".bin")
    try {
        padded.writeBytes(ByteArray(4096) + File(path).readBytes() + ByteArray(10))
        FileInputStream(padded).use { file ->
            val number = FileDescriptor::class.java.getDeclaredField("fd").apply { isAccessible = true }.getInt(file.fd)
            Model.load(number, 4096, File(path).length()).use { equal("size", it.info.fileSize, model.info.fileSize) }
            refused(3, "") { Model.load(number, 1, 0).close() }
        }
    } finally {
        padded.delete()
    }
}

suspend fun embedding(model: Model, path: String) {
    model.context().use { context ->
        val texts = listOf("the sea", "the moon", "the sea")
        val vectors = context.embed(texts)
        equal("vectors", vectors.map { it.size }, List(3) { model.info.vectorLength })
        sure("the same", vectors[0].contentEquals(vectors[2]) && !vectors[0].contentEquals(vectors[1]))
        sure("of length 1", abs(context.embed(texts, EmbedOptions(normalize = true))[1].sumOf { (it * it).toDouble() } - 1) < 1e-4)
        equal("shorter", context.embed(texts, EmbedOptions(dimensions = 8)).map { it.size }, listOf(8, 8, 8))
        val each = context.embed(listOf("the sea"), EmbedOptions(pooling = Pooling.NONE))
        sure("one for each token: ${each.size}", each.size > 1)
        equal("none", context.embed(emptyList()).size, 0)
        val many = List(20000) { "The sea was calm, and the moon" }
        val timeout = runCatching { withTimeout(50.milliseconds) { context.embed(many) } }.exceptionOrNull()
        sure("a timeout, not $timeout", timeout is TimeoutCancellationException)
        sure("after it", context.embed(texts)[0].contentEquals(vectors[0]))
    }
    Model.load(path).use { encoder ->
        equal("an encoder", encoder.info.isCausal, false)
        encoder.context().use { context ->
            refused(1, "1 to 7") { context.embed(listOf("w7"), EmbedOptions(dimensions = 8)) }
            refused(1, "\"passage\"") { context.embed(listOf("w7"), EmbedOptions(prompt = "passage")) }
            equal("dense modules", context.embed(listOf("w7")).single().size, 7)
        }
    }
}

suspend fun conversation(path: String) = Model.load(path).use { model ->
    val options = Options(maxTokens = 12)
    val said = "\"Grüße\" \\ 🌙\n\t<|im_end|>\u0001\u0000"
    model.context().use { context ->
        context.conversation("Be brief.", options = options).use { chat ->
            val first = chat.send("What is 2+2?").answer()
            sure("an answer", first.isNotBlank())
            val usage = chat.usage()
            sure("$usage", usage.generatedTokens in 1..12 && usage.promptTokens > 10 && usage.finish != null && usage.decode > Duration.ZERO)
            val before = chat.messages()
            sure("messages: $before", "Be brief." in before && "assistant" in before)
            // Left between two events: no message. Cancelled while the model computes: perhaps one.
            chat.send("And of 3+3?").take(2).collect()
            sure("no answer", chat.messages().split("assistant").size == before.split("assistant").size)
            withTimeoutOrNull(1.milliseconds) { chat.send("And of 4+4?").collect() }
            while (chat.messages() != before) chat.undo()
            val saved = chat.save()
            val second = chat.send(said).answer()
            sure("arrives: ${chat.messages()}", "Grüße" in chat.messages() && "🌙" in chat.messages() && "\\u0000" in chat.messages())
            chat.undo()
            equal("undone", chat.messages(), before)
            context.conversation(saved, options = options).use { again ->
                equal("goes on", again.messages(), before)
                equal("answers alike", again.send(said).answer(), second)
            }
            refused(3, "damaged") { context.conversation(saved.copyOf(20)).close() }
        }
        refused(4, "thinking") { context.conversation(chat = ChatOptions(thinking = true)).close() }
        refused(4, "tools cannot be given") { context.conversation(chat = ChatOptions(tools = TOOLS)).close() }
        val messages = listOf(Message.user("What is the capital of France?"))
        context.rewind(0)
        equal("chat", context.chat(messages, options = Options(maxTokens = 6)).text(), "L'Étoile,") // llama.cpp begins it in the same way
        equal("reused", context.chat(messages + Message.assistant("L'Étoile,") + Message.user("And of Italy?"), options = Options(maxTokens = 6))
            .toList().last().usage!!.reusedTokens > 20, true)
        val other = ChatOptions(template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ more }}", variables = """{"more": "!"}""")
        equal("a template", context.chat(messages, other, Options(maxTokens = 1)).toList().last().usage!!.promptTokens < 12, true)
    }
}

const val TOOLS = """[{"type": "function", "function": {"name": "weather", "parameters":
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]"""

suspend fun tools(path: String) = Model.load(path).use { model ->
    model.context().use { context ->
        context.conversation(chat = ChatOptions(tools = TOOLS, toolChoice = "required", parallelCalls = false), options = Options(maxTokens = 200)).use { chat ->
            val events = chat.send("What is the weather in Paris?").toList()
            val call = events.single { it.isCall }
            equal("the tool", call.name, "weather")
            sure("arguments: ${call.text}", "\"city\"" in call.text)
            chat.add(Message.tool(call, "It is sunny, 21 degrees."))
            sure("the result", "21 degrees" in chat.messages())
        }
        refused(1, "tool_choice") { context.conversation(chat = ChatOptions(tools = TOOLS, toolChoice = "sing")).close() }
    }
}

/** Bytes of the process that are in memory. */
fun resident() = File("/proc/self/statm").readText().split(" ")[1].toLong() * 4096

/** Nothing is left of what was closed, given up, refused or forgotten. */
suspend fun rounds(path: String, model: Model) {
    suspend fun round(i: Int) {
        val context = model.context(ContextOptions(positions = 64, threads = 1))
        context.generate("The sea", Options(maxTokens = 3, seed = 1, stop = listOf("never"))).collect()
        context.generate(" is", Options(ignoreEog = true)).take(2).collect()
        refused(6, "64") { context.generate("The sea. ".repeat(200)).collect() }
        model.regex("[0-9]+").use { it.hashCode() }
        if (i % 50 == 0) Model.load(path).close()
        if (i % 10 == 0) System.gc() else context.close() // some are forgotten
    }
    repeat(300) { round(it) }
    System.gc()
    val before = resident()
    repeat(1500) { round(it) }
    System.gc()
    val more = (resident() - before) shr 20
    sure("1,500 rounds more take $more MiB", more < 48)
}

fun main(arguments: Array<String>): Unit = runBlocking {
    val (path, rotary, embedder, chatModel, toolsModel) = arguments
    val golden = Golden(arguments[5], arguments[6].toInt(), arguments[7])
    var failures = 0
    suspend fun test(name: String, body: suspend () -> Unit) {
        try {
            withTimeout(5.minutes) { body() }
        } catch (e: Throwable) {
            failures++
            println("FAILED: $name: ${e.stackTraceToString()}")
        }
    }
    Model.load(path).use { model ->
        test("streaming") { streaming(model, golden) }
        test("cancelling") { cancelling(model, golden) }
        test("timeouts") { timeouts(rotary) }
        test("together") { together(model, golden) }
        test("refusals") { refusals(path, model) }
        test("descriptors") { descriptors(path, model) }
        test("embedding") { embedding(model, embedder) }
        test("rounds") { rounds(path, model) }
    }
    if (File(chatModel).exists()) {
        test("conversation") { conversation(chatModel) }
        test("tools") { tools(toolsModel) }
    } else {
        println("SKIPPED: conversations, for $chatModel is not there")
    }
    if (failures > 0) exitProcess(1)
}

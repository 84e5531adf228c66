import ember.kotlin.Model
import ember.kotlin.Options
import kotlinx.coroutines.flow.filter
import kotlinx.coroutines.runBlocking
import java.io.PrintStream

/** Answers each line of standard input, as it comes. */
fun main(arguments: Array<String>) = runBlocking {
    val out = PrintStream(System.out, true, "UTF-8")
    Model.load(arguments[0]).use { model ->
        model.context().use { context ->
            context.conversation(options = Options(maxTokens = 32)).use { chat ->
                for (line in generateSequence(System.`in`.bufferedReader()::readLine)) {
                    chat.send(line).filter { it.isText }.collect { out.print(it.text) }
                    out.println()
                }
            }
        }
    }
}

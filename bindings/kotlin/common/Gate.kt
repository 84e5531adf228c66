package ember.kotlin

import kotlinx.coroutines.CancellableContinuation
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.launch
import kotlinx.coroutines.suspendCancellableCoroutine
import kotlinx.coroutines.sync.Mutex
import kotlinx.coroutines.sync.withLock
import kotlinx.coroutines.withContext
import kotlin.coroutines.resume

/** What events are taken from, one by one; null when there are no more. */
internal interface Source<out E> : AutoCloseable {
    fun next(): E?
}

/** Where calls of one context, or of a loading, run: one at a time, off the caller's thread, until the caller's coroutine is cancelled. */
internal class Gate(val dispatcher: CoroutineDispatcher) : AutoCloseable {
    /** Of what runs here. */
    val token = NativeToken()
    private val mutex = Mutex()

    /** A coroutine that is cancelled meanwhile cancels the token, and goes on when the call has ended: nothing runs on behind its back. */
    suspend fun <T> call(body: () -> T): T = mutex.withLock {
        token.reset()
        val result = coroutineScope {
            lateinit var waiting: CancellableContinuation<Unit>
            launch(Dispatchers.Unconfined, CoroutineStart.UNDISPATCHED) {
                suspendCancellableCoroutine { it.also { waiting = it }.invokeOnCancellation { token.cancel() } }
            }
            try {
                // What the library says of a call that was cancelled is not what the caller is to hear.
                withContext(dispatcher) { runCatching(body) }
            } finally {
                waiting.resume(Unit)
            }
        }
        result.getOrThrow()
    }

    /** Calls what makes something; it is closed where the coroutine was cancelled meanwhile. */
    suspend fun <T : AutoCloseable> make(body: () -> T): T {
        var made: T? = null
        try {
            return call { body().also { made = it } }
        } catch (e: Throwable) {
            made?.close()
            throw e
        }
    }

    /** Each collector has a source of its own. An event is computed when the collector is ready for it. */
    fun <E> events(open: () -> Source<E>): Flow<E> = flow {
        var source: Source<E>? = null
        try {
            call { source = open() }
            while (true) emit(call { source!!.next() } ?: break)
        } finally {
            source?.let { withContext(NonCancellable) { mutex.withLock { withContext(dispatcher) { end(it) } } } }
        }
    }

    /** Where the context is closed there is nothing to end. */
    private fun end(source: Source<*>) = try {
        source.close()
    } catch (e: EmberException) {
        if (e.status() != 0) throw e else Unit
    }

    override fun close() = token.close()
}

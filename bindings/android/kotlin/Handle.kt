package ember.kotlin

import java.lang.ref.PhantomReference
import java.lang.ref.ReferenceQueue
import java.util.Collections

/**
 * What belongs to the library until it is closed. It is not freed while a call uses it. One that is forgotten is freed when another is made
 * after the garbage collector found it.
 */
internal class Handle(private val what: String, private val pointer: Long, private val free: (Long) -> Unit) : AutoCloseable {
    private val forgotten = Forgotten(this, pointer, free).also { ALL.add(it) }
    private var users = 0
    private var closed = false

    init {
        while (true) (QUEUE.poll() as Forgotten? ?: break).free()
    }

    fun <T> use(f: (Long) -> T): T {
        synchronized(this) {
            if (closed) throw EmberException(0, "the $what is closed")
            users++
        }
        try {
            return f(pointer)
        } finally {
            val last = synchronized(this) { --users == 0 && closed }
            if (last) forgotten.free()
        }
    }

    val isClosed: Boolean get() = synchronized(this) { closed }

    override fun close() {
        synchronized(this) {
            if (closed) return
            closed = true
            if (users > 0) return // the last user frees it
        }
        forgotten.free()
    }

    /** Refers to nothing of the handle. */
    private class Forgotten(handle: Handle, private val pointer: Long, private val free: (Long) -> Unit) : PhantomReference<Handle>(handle, QUEUE) {
        fun free() {
            if (ALL.remove(this)) free(pointer)
        }
    }

    private companion object {
        val QUEUE = ReferenceQueue<Handle>()
        val ALL: MutableSet<Forgotten> = Collections.synchronizedSet(HashSet())
    }
}

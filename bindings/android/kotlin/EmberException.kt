package ember

import ember.kotlin.Jni

/** What the library refuses, in its words. */
public class EmberException internal constructor(private val status: Int, message: String) : RuntimeException(message) {
    /** Made by jni.c. */
    internal constructor(status: Int, message: ByteArray) : this(status, message.decodeToString())

    /** The ember_status of ember.h, for example 6 for a context that is full; 0: the object is closed. */
    public fun status(): Int = status

    /** The name of the status in ember.h, for example EMBER_E_IO. */
    public fun statusName(): String = if (status == 0) "CLOSED" else Jni.statusName(status).decodeToString()
}

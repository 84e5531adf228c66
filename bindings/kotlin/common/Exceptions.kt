package ember.kotlin

import kotlin.time.Duration

/** The ember_status of ember.h, for example 6 for a context that is full; 0: the object is closed. */
public val EmberException.status: Int get() = status()

/** What the library takes for a time limit; 0 would be none. */
internal fun milliseconds(time: Duration): Long {
    require(time.isPositive()) { "timeLimit is $time, and has to be more than nothing" }
    return maxOf(time.inWholeMilliseconds, 1)
}

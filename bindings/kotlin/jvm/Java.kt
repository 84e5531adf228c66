package ember.kotlin

import kotlinx.coroutines.flow.Flow
import ember.Context as JavaContext
import ember.Model as JavaModel
import ember.Options as JavaOptions

/** The model as Java has it, for all that is not here: engines, tokenizers, samplers. It is this one: closing either closes both. */
public val Model.java: JavaModel get() = native.java

/** The context as Java has it. Leave the cancel token to this one. */
public val Context.java: JavaContext get() = native.java

/** As `generate`, with the options of Java, which have every stage, a sampler of one's own, draft tokens and more. */
public fun Context.generate(prompt: String, options: JavaOptions): Flow<Event> =
    gate.events { Events(native.java.generate(prompt, options), ::event) }

/** As before for a prompt of tokens. */
public fun Context.generate(prompt: IntArray, options: JavaOptions): Flow<Event> =
    gate.events { Events(native.java.generate(prompt, options), ::event) }

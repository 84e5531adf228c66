package ember;

import java.time.Duration;

/**
 * What a generation did.
 *
 * @param promptTokens tokens of the prompt, BOS included
 * @param reusedTokens of these, those that the sequence held already
 * @param generatedTokens tokens generated, an end-of-generation token not counted
 * @param draftedTokens draft tokens that were run ahead (Options.lookup, Options.draft)
 * @param acceptedTokens of these, those that were accepted
 * @param shiftedTokens tokens that were forgotten because the sequence was full (Options.shift)
 * @param forcedTokens tokens that a constraint left no choice for and that were run together with others
 * @param prefill time spent on the prompt
 * @param decode time spent on the generated tokens, the caller's own work between them not counted
 * @param sumLogprob sum of the log-probabilities of the generated tokens; NaN without Options.logprobs
 * @param meanLogprob their mean
 * @param finish why it ended; null while it has not
 * @param progress how far the text is that follows a constraint
 */
public record Usage(int promptTokens, int reusedTokens, int generatedTokens, int draftedTokens, int acceptedTokens, long shiftedTokens,
        int forcedTokens, Duration prefill, Duration decode, double sumLogprob, double meanLogprob, Event.Finish finish,
        Event.Progress progress) {
    /** What a function writes to an ember_generate_result. */
    static Usage of(String function, Object... arguments) {
        return Native.struct(Native.RESULT, raw -> new Usage(raw.number("n_prompt"), raw.number("n_reused"), raw.number("n_generated"),
                raw.number("n_drafted"), raw.number("n_accepted"), raw.whole("n_shifted"), raw.number("n_forced"), raw.time("prefill_ns"),
                raw.time("decode_ns"), raw.real("sum_logprob"), raw.real("mean_logprob"), raw.finish(),
                Event.Progress.values()[raw.number("progress")]), function, arguments);
    }
}

package ember;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.function.Consumer;

/**
 * What a generation did.
 *
 * @param promptTokens tokens of the prompt, BOS included
 * @param reusedTokens of these, those that the sequence held already
 * @param generatedTokens tokens generated, an end-of-generation token not counted
 * @param draftedTokens tokens that were guessed and run ahead (Options.lookup, Options.draft)
 * @param acceptedTokens of these, those that came true
 * @param shiftedTokens tokens that were forgotten for room (Options.shift)
 * @param forcedTokens tokens that a constraint left no choice for and that were run together with others
 * @param prefill time spent on the prompt
 * @param decode time spent on the generated tokens, the caller's own work between them not counted
 * @param finish why it ended; null while it has not
 * @param progress how far the text is that follows a constraint
 */
public record Usage(int promptTokens, int reusedTokens, int generatedTokens, int draftedTokens, int acceptedTokens, long shiftedTokens,
        int forcedTokens, Duration prefill, Duration decode, Event.Finish finish, Event.Progress progress) {
    /** What `read` has the library write to an ember_generate_result. */
    static Usage of(Arena arena, Consumer<MemorySegment> read) {
        var raw = Native.allocate(arena, Native.RESULT);
        read.accept(raw);
        int finish = n(raw, "finish_reason");
        return new Usage(n(raw, "n_prompt"), n(raw, "n_reused"), n(raw, "n_generated"), n(raw, "n_drafted"), n(raw, "n_accepted"),
                whole(raw, "n_shifted"), n(raw, "n_forced"), Duration.ofNanos(whole(raw, "prefill_ns")),
                Duration.ofNanos(whole(raw, "decode_ns")), finish < 0 ? null : Event.Finish.values()[finish],
                Event.Progress.values()[n(raw, "progress")]);
    }

    private static int n(MemorySegment raw, String field) {
        return Native.number(raw, Native.RESULT, field);
    }

    private static long whole(MemorySegment raw, String field) {
        return raw.get(JAVA_LONG, Native.offset(Native.RESULT, field));
    }
}

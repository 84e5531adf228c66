package ember;

import java.util.List;
import java.util.function.Supplier;

/**
 * What happens in a generation: the prompt's text (Options.echo), a token, or the end.
 *
 * @param text new text, of whole code points, perhaps none; the texts of all events in a row are the whole text
 * @param token the token, or -1 for the prompt and at the end
 * @param logprob its log-probability, or NaN when not asked for
 * @param top the likeliest tokens at its place, the likeliest first, as many as Options.topLogprobs says
 * @param finish why the generation ended; null before
 * @param progress how far the text is that follows a constraint; null before the end
 * @param usage what the generation did; null before the end
 */
public record Event(String text, int token, float logprob, List<Likely> top, Finish finish, Progress progress, Usage usage) {
    /**
     * A token that was likely.
     *
     * @param token the token
     * @param logprob its log-probability
     */
    public record Likely(int token, float logprob) {}

    /** Why a generation ended. */
    public enum Finish { MAX_TOKENS, EOG, STOPPED, CONTEXT_FULL, STOP_STRING, CANCELLED, TIME_LIMIT, FAILED }

    /** How far a text is: there is no constraint, no trigger came, the text was cut off, or it is what it has to be. */
    public enum Progress { NONE, WAITING, UNFINISHED, COMPLETE }

    /** What the library wrote; `usage` gives that of an end. */
    static Event of(Native.Struct raw, Supplier<Usage> usage) {
        var finish = raw.finish();
        var did = finish == null ? null : usage.get();
        var top = raw.elements("tops", "n_tops", Native.LIKELY).map(one -> new Likely(one.number("token"), one.single("logprob"))).toList();
        return new Event(raw.text("text"), raw.number("token"), raw.single("logprob"), top, finish, did == null ? null : did.progress(), did);
    }

    /** Whether this is the prompt's text. */
    public boolean isEcho() {
        return token == -1 && finish == null;
    }

    /** Whether this is the last event. */
    public boolean isEnd() {
        return finish != null;
    }
}

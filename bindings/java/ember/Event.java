package ember;

import java.util.List;

/**
 * What happens in a generation: a token, or the end.
 *
 * @param text new text, of whole code points, perhaps none; the texts of all events in a row are the whole text
 * @param token the token, or -1 at the end
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

    /** Whether this is the last event. */
    public boolean isEnd() {
        return finish != null;
    }
}

package ember;

import java.util.List;

/**
 * How likely a text is after another one.
 *
 * @param tokens what each token of the continuation scores
 * @param logprob the sum of their log-probabilities
 * @param promptTokens tokens before them
 * @param reusedTokens of these, those that the sequence held already
 * @param greedy whether taking the likeliest token each time would have given the continuation
 */
public record Score(List<Token> tokens, double logprob, int promptTokens, int reusedTokens, boolean greedy) {
    /**
     * What a token scores.
     *
     * @param token the token
     * @param logprob its log-probability given all tokens before it
     * @param rank how many tokens are likelier at its place
     */
    public record Token(int token, float logprob, int rank) {}
}

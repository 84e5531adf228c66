/* Scores of continuations: against the logits of the same context, and every argument that can be wrong. */
#include "check.h"

#include <math.h>

static ember_model *model;
static const size_t NUL = EMBER_NUL_TERMINATED;

/* The log-probability of token `next` after `n` tokens, from the logits. */
static double logprob(const uint32_t *tokens, size_t n, uint32_t next)
{
    ember_context *context = new_context(model, 64, 1);
    ember_model_info info = {.struct_size = sizeof info};
    const float *logits = NULL;
    double sum = 0;
    OK(ember_model_info_get(model, &info, E));
    OK(ember_context_decode(context, tokens, NULL, NULL, NULL, n, E));
    OK(ember_context_logits(context, n - 1, &logits, E));
    for (uint32_t i = 0; i < info.n_vocab; i++)
        sum += exp((double)logits[i]);
    double result = (double)logits[next] - log(sum);
    ember_context_free(context);
    return result;
}

static void scores_are_log_probabilities(void)
{
    ember_context *context = new_context(model, 64, 2);
    ember_token_score scores[32];
    ember_score_result result = {.struct_size = sizeof result}, again = result;
    const char *prompt = "Once upon a time", *continuation = " there was a little boat";
    size_t n = 0;
    CHECK(ember_score(context, prompt, NUL, continuation, NUL, NULL, NULL, 0, &n, &result, NULL) ==
          EMBER_E_BUFFER_TOO_SMALL);
    CHECK(n > 0 && n < 32 && result.n_scored == 0);
    OK(ember_score(context, prompt, NUL, continuation, NUL, NULL, scores, 32, &n, &result, E));
    CHECK(result.n_scored == n && result.n_reused == 0 && result.n_prompt > 0);

    uint32_t ids[64];
    size_t n_ids = 0;
    OK(ember_model_tokenize(model, "Once upon a time there was a little boat", NUL, true, false, ids, 64, &n_ids, E));
    CHECK(n_ids == result.n_prompt + n);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        CHECK(scores[i].token == ids[result.n_prompt + i]);
        CHECK(fabs(logprob(ids, result.n_prompt + i, scores[i].token) - (double)scores[i].logprob) < 1e-4);
        sum += (double)scores[i].logprob;
    }
    CHECK(fabs(sum - result.logprob) < 1e-6);

    /* The same as tokens; the sum alone; the prompt is not run again. */
    OK(ember_score_tokens(context, ids, n_ids, result.n_prompt, NULL, NULL, 0, NULL, &again, E));
    CHECK(again.logprob == result.logprob && again.n_reused == result.n_prompt - 1);
    CHECK(again.is_greedy == result.is_greedy);
    OK(ember_score_tokens(context, ids, n_ids, result.n_prompt, NULL, scores, 32, &n, NULL, E));

    /* In another sequence. */
    ember_generate_options *o = NULL;
    OK(ember_generate_options_new(&o, E));
    OK(ember_generate_options_set_sequence(o, 1, E));
    OK(ember_score(context, prompt, NUL, continuation, NUL, o, NULL, 0, NULL, &again, E));
    CHECK(again.logprob == result.logprob && again.n_reused == 0);

    ember_cancel_token *token = NULL;
    OK(ember_cancel_token_new(&token, E));
    OK(ember_generate_options_set_cancel_token(o, token, E));
    ember_cancel_token_cancel(token);
    FAILS(EMBER_E_CANCELLED, "cancel token",
          ember_score(context, prompt, NUL, continuation, NUL, o, NULL, 0, NULL, &again, E));
    ember_cancel_token_free(token);
    ember_generate_options_free(o);
    ember_context_free(context);
}

static void nonsense_is_refused(void)
{
    ember_context *c = new_context(model, 16, 1);
    ember_score_result r = {.struct_size = sizeof r};
    ember_token_score score = {.token = 77};
    ember_generate_options *foreign = (ember_generate_options *)(void *)c;
    const uint32_t ids[] = {300, 301, 302}, wrong[] = {300, UINT32_MAX};
    uint32_t many[18] = {0};
    size_t n = 0;
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_score(NULL, "a", 1, "b", 1, NULL, NULL, 0, NULL, &r, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "prompt", ember_score(c, NULL, 1, "b", 1, NULL, NULL, 0, NULL, &r, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "continuation", ember_score(c, "a", 1, NULL, 1, NULL, NULL, 0, NULL, &r, E));
    FAILS(EMBER_E_UTF8, "continuation", ember_score(c, "a", 1, "\xff", 1, NULL, NULL, 0, NULL, &r, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_score(c, "a", 1, "b", 1, foreign, NULL, 0, NULL, &r, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "no token to score", ember_score(c, "a", 1, "", 0, NULL, NULL, 0, NULL, &r, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "scores", ember_score(c, "a", 1, " b", 2, NULL, NULL, 9, &n, &r, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_score_tokens(NULL, ids, 3, 1, NULL, NULL, 0, NULL, &r, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens", ember_score_tokens(c, NULL, 3, 1, NULL, NULL, 0, NULL, &r, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "token 0 of the continuation", ember_score_tokens(c, wrong, 2, 1, NULL, NULL, 0, NULL, &r, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "no token", ember_score_tokens(c, ids, 3, 0, NULL, NULL, 0, NULL, &r, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "no token", ember_score_tokens(c, ids, 3, 3, NULL, NULL, 0, NULL, &r, E));
    FAILS(EMBER_E_CONTEXT_FULL, "n_ctx 16", ember_score_tokens(c, many, 18, 1, NULL, NULL, 0, NULL, &r, E));
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "scores", ember_score_tokens(c, ids, 3, 1, NULL, &score, 1, &n, &r, E));
    CHECK(n == 2 && score.token == 77 && r.n_scored == 0);
    r.struct_size = 0;
    FAILS(EMBER_E_INVALID_ARGUMENT, "struct_size", ember_score(c, "a", 1, " b", 2, NULL, NULL, 0, NULL, &r, E));
    ember_context_free(c);

    ember_model *plain = load_model(FIXTURE);
    c = new_context(plain, 0, 1);
    r.struct_size = sizeof r;
    FAILS(EMBER_E_UNSUPPORTED, "tokenizer", ember_score(c, "a", 1, "b", 1, NULL, NULL, 0, NULL, &r, E));
    const uint32_t few[] = {1, 2, 3};
    OK(ember_score_tokens(c, few, 3, 1, NULL, NULL, 0, NULL, &r, E));
    CHECK(r.n_scored == 2 && r.logprob < 0);
    ember_context_free(c);
    ember_model_release(plain);
}

int main(int argc, char **argv)
{
    model = load_model(model_path(argc, argv));
    scores_are_log_probabilities();
    nonsense_is_refused();
    ember_model_release(model);
    return finish("score");
}

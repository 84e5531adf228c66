/* Several completions of one prompt: each as alone, the best of them, ends, lifetimes, misuse. */
#include "check.h"

static ember_model *model;
static const size_t NUL = EMBER_NUL_TERMINATED;
static const char PROMPT[] = "Once upon a time";

enum { N = 4, SEED = 21 };

/* What came out of a completion. */
struct got {
    char text[4096];
    size_t len;
    double sum;
    int32_t finish_reason;
};

static void take(struct got *got, const ember_event *event)
{
    CHECK(event->text != NULL && got->len + event->text_len < sizeof got->text);
    CHECK(got->finish_reason == EMBER_FINISH_NONE);
    memcpy(got->text + got->len, event->text, event->text_len);
    got->len += event->text_len;
    if (event->kind == EMBER_EVENT_TOKEN)
        got->sum += event->logprob;
    got->finish_reason = event->finish_reason;
}

static int32_t append(const ember_event *event, void *user_data)
{
    take(user_data, event);
    return 0;
}

static ember_sampler *hot(uint64_t seed)
{
    ember_sampler *sampler = NULL;
    OK(ember_sampler_new(seed, &sampler, E));
    OK(ember_sampler_add_temperature(sampler, 1.1f, E));
    return sampler;
}

static ember_generate_options *scored(uint32_t n)
{
    ember_generate_options *o = NULL;
    OK(ember_generate_options_new(&o, E));
    OK(ember_generate_options_set_max_tokens(o, n, E));
    OK(ember_generate_options_set_logprobs(o, true, E));
    return o;
}

static ember_context *with_sequences(uint32_t n)
{
    ember_context *context = NULL;
    ember_context_options *o = NULL;
    OK(ember_context_options_new(&o, E));
    OK(ember_context_options_set_n_ctx(o, 128, E));
    OK(ember_context_options_set_n_seq(o, n, E));
    OK(ember_context_new(model, o, &context, E));
    ember_context_options_free(o);
    if (context == NULL)
        exit(1);
    return context;
}

static void each_is_as_alone(void)
{
    ember_generate_options *o = scored(16);
    ember_context *context = with_sequences(N);
    ember_sampler *sampler = hot(SEED);
    ember_completions *completions = NULL;
    OK(ember_completions_new(context, PROMPT, NUL, N, o, sampler, &completions, E));
    ember_sampler_free(sampler);

    struct got got[N];
    memset(got, 0, sizeof got);
    for (int i = 0; i < N; i++)
        got[i].finish_reason = EMBER_FINISH_NONE;
    uint32_t order[N], index = 99;
    size_t n_needed = 0;
    ember_event event = {.struct_size = sizeof event};
    FAILS(EMBER_E_INVALID_ARGUMENT, "has not ended", ember_completions_rank(completions, order, N, &n_needed, E));
    while (OK(ember_completions_next(completions, &event, &index, E)) && event.kind != EMBER_EVENT_NONE) {
        CHECK(index < N);
        take(&got[index], &event);
    }
    CHECK(event.kind == EMBER_EVENT_NONE && index == 0);

    int n_different = 0;
    for (uint32_t i = 0; i < N; i++) {
        struct got alone = {.finish_reason = EMBER_FINISH_NONE};
        ember_context *own = with_sequences(1);
        ember_sampler *mine = hot(SEED + i);
        ember_generate_result want = {.struct_size = sizeof want}, result = {.struct_size = sizeof result};
        OK(ember_generate(own, PROMPT, NUL, o, mine, append, &alone, &want, E));
        CHECK(alone.len == got[i].len && memcmp(alone.text, got[i].text, alone.len) == 0);
        CHECK(alone.finish_reason == got[i].finish_reason && alone.len > 0);
        OK(ember_completions_usage(completions, i, &result, E));
        CHECK(result.n_generated == want.n_generated && result.finish_reason == want.finish_reason);
        CHECK(result.sum_logprob == want.sum_logprob && result.mean_logprob == want.mean_logprob);
        CHECK(result.sum_logprob < 0 && result.mean_logprob < 0 && result.sum_logprob <= got[i].sum + 1e-6);
        CHECK(result.n_reused == (i == 0 ? 0 : result.n_prompt));
        char text[4096];
        OK(ember_completions_text(completions, i, (uint8_t *)text, sizeof text, &n_needed, E));
        CHECK(n_needed == alone.len && memcmp(text, alone.text, alone.len) == 0);
        uint32_t n_past = 0;
        OK(ember_context_n_past(context, i, &n_past, E));
        CHECK(n_past == result.n_prompt + result.n_generated);
        n_different += got[i].len != got[0].len || memcmp(got[i].text, got[0].text, got[0].len) != 0;
        ember_sampler_free(mine);
        ember_context_free(own);
    }
    CHECK(n_different > 0);

    OK(ember_completions_rank(completions, order, N, &n_needed, E));
    CHECK(n_needed == N);
    double last = 0;
    uint32_t seen = 0;
    for (int i = 0; i < N; i++) {
        ember_generate_result result = {.struct_size = sizeof result};
        OK(ember_completions_usage(completions, order[i], &result, E));
        CHECK(result.mean_logprob <= last);
        last = result.mean_logprob;
        seen |= 1u << order[i];
    }
    CHECK(seen == (1u << N) - 1);
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "4 are needed", ember_completions_rank(completions, order, 1, &n_needed, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "no completion 4", ember_completions_text(completions, N, NULL, 0, &n_needed, E));
    ember_context_free(context); /* The completions keep it alive. */
    OK(ember_completions_next(completions, &event, &index, E));
    CHECK(event.kind == EMBER_EVENT_NONE);
    ember_completions_free(completions);
    ember_generate_options_free(o);
}

static void tokens_greedy_and_what_is_refused(void)
{
    ember_context *context = with_sequences(2);
    ember_completions *completions = NULL;
    const uint32_t tokens[] = {9, 8, 7}, wrong[] = {9, 4000000};
    FAILS(EMBER_E_INVALID_ARGUMENT, "0 completions",
          ember_completions_new_tokens(context, tokens, 3, 0, NULL, NULL, &completions, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "3 completions",
          ember_completions_new(context, PROMPT, NUL, 3, NULL, NULL, &completions, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "vocabulary",
          ember_completions_new_tokens(context, wrong, 2, 2, NULL, NULL, &completions, E));
    CHECK(completions == NULL);

    ember_generate_options *o = NULL;
    OK(ember_generate_options_new(&o, E));
    OK(ember_generate_options_set_max_tokens(o, 6, E));
    OK(ember_completions_new_tokens(context, tokens, 3, 2, o, NULL, &completions, E));
    ember_generate_options_free(o);
    uint32_t order[2], index, n[2] = {0, 0}, all[2][6] = {{0}};
    size_t n_needed;
    ember_event event = {.struct_size = sizeof event};
    ember_generate_result result = {.struct_size = sizeof result};
    while (OK(ember_completions_next(completions, &event, &index, E)) && event.kind != EMBER_EVENT_NONE)
        if (event.kind == EMBER_EVENT_TOKEN && n[index] < 6)
            all[index][n[index]++] = event.token;
    CHECK(n[0] == n[1] && n[0] > 0 && memcmp(all[0], all[1], sizeof all[0]) == 0);
    FAILS(EMBER_E_INVALID_ARGUMENT, "not asked for", ember_completions_rank(completions, order, 2, &n_needed, E));
    OK(ember_completions_usage(completions, 0, &result, E));
    CHECK(result.sum_logprob != result.sum_logprob && result.mean_logprob != result.mean_logprob);
    ember_completions_free(completions);
    ember_completions_free(NULL);
    ember_context_free(context);
}

int main(int argc, char **argv)
{
    model = load_model(model_path(argc, argv));
    each_is_as_alone();
    tokens_greedy_and_what_is_refused();
    ember_model_release(model);
    return finish("completions");
}

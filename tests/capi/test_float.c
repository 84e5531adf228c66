/* Whatever floating-point environment a host computes in: Ember computes the same bits, traps nowhere, and gives it back. */
#define _GNU_SOURCE
#include "check.h"

#include <fenv.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

static const size_t NUL = EMBER_NUL_TERMINATED;
enum { MOST = 1 << 16, N_TOKENS = 24 };

/* What calls gave: as many numbers, bit by bit. */
typedef struct {
    float logits[MOST];
    float embedding[MOST];
    uint32_t tokens[N_TOKENS];
    size_t n_logits, n_embedding, n_tokens;
} Given;

static Given usual, found;
static const char *path;
static int rounding, wrong_callbacks;

static int32_t on_event(const ember_event *event, void *user_data)
{
    Given *given = user_data;
    wrong_callbacks += fegetround() != rounding;
    if (event->kind == EMBER_EVENT_TOKEN && given->n_tokens < N_TOKENS)
        given->tokens[given->n_tokens++] = event->token;
    return 0;
}

static int32_t on_progress(float done, void *user_data)
{
    (void)done, (void)user_data;
    wrong_callbacks += fegetround() != rounding;
    return 0;
}

static int32_t on_candidates(const uint32_t *tokens, float *logits, size_t n, void *user_data)
{
    (void)tokens, (void)logits, (void)n, (void)user_data;
    wrong_callbacks += fegetround() != rounding;
    return 0;
}

/* Loads the model and computes something of each kind, with so many threads. */
static void compute(Given *given, uint32_t n_threads)
{
    const char *text = "Once upon a time there was a sea";
    ember_model_options *loading = NULL;
    ember_model *model = NULL;
    ember_context_options *options = NULL;
    ember_context *context = NULL;
    ember_generate_options *generate = NULL;
    ember_sampler *sampler = NULL;
    ember_model_info info = {.struct_size = sizeof info};
    const float *logits = NULL;
    const uint32_t ids[] = {300, 301, 302};
    memset(given, 0, sizeof *given);
    OK(ember_model_options_new(&loading, E));
    OK(ember_model_options_set_progress(loading, on_progress, NULL, E));
    OK(ember_model_load(path, NUL, loading, &model, E));
    OK(ember_model_info_get(model, &info, E));
    OK(ember_context_options_new(&options, E));
    OK(ember_context_options_set_n_threads(options, n_threads, E));
    OK(ember_context_options_set_n_ctx(options, 128, E));
    OK(ember_context_new(model, options, &context, E));
    OK(ember_generate_options_new(&generate, E));
    OK(ember_generate_options_set_max_tokens(generate, N_TOKENS, E));
    OK(ember_sampler_new(7, &sampler, E));
    OK(ember_sampler_add_callback(sampler, on_candidates, NULL, E));
    OK(ember_sampler_add_temperature(sampler, 0.9f, E));
    OK(ember_sampler_add_top_p(sampler, 0.9f, E));
    OK(ember_generate(context, text, NUL, generate, sampler, on_event, given, NULL, E));
    OK(ember_context_rewind(context, 0, 0, E));
    OK(ember_context_decode(context, ids, NULL, NULL, NULL, 3, E));
    OK(ember_context_logits(context, 2, &logits, E));
    given->n_logits = info.n_vocab < MOST ? info.n_vocab : MOST;
    memcpy(given->logits, logits, given->n_logits * sizeof *logits);
    OK(ember_embed(context, &text, NULL, 1, NULL, given->embedding, MOST, &given->n_embedding, E));
    ember_sampler_free(sampler);
    ember_generate_options_free(generate);
    ember_context_free(context);
    ember_context_options_free(options);
    ember_model_options_free(loading);
    ember_model_release(model);
}

static void same(void)
{
    CHECK(usual.n_logits > 0 && usual.n_tokens > 0 && usual.n_embedding > 0);
    CHECK(found.n_tokens == usual.n_tokens && memcmp(found.tokens, usual.tokens, sizeof usual.tokens) == 0);
    CHECK(memcmp(found.logits, usual.logits, sizeof usual.logits) == 0);
    CHECK(memcmp(found.embedding, usual.embedding, sizeof usual.embedding) == 0);
    CHECK(wrong_callbacks == 0);
    wrong_callbacks = 0;
}

/* A head of attention whose numbers end in infinity and NaN, which traps where traps are on. */
static void nonsense(void)
{
    ember_model *model = load_model(FIXTURE);
    ember_context *context = new_context(model, 0, 1);
    ember_sampler *sampler = NULL;
    float logits[] = {3.4e38f, -3.4e38f, 1e-44f, 0.0f};
    uint32_t token = 0;
    const uint32_t ids[] = {1, 2, 3};
    OK(ember_context_decode(context, ids, NULL, NULL, NULL, 3, E));
    OK(ember_sampler_new(7, &sampler, E));
    OK(ember_sampler_add_temperature(sampler, 1e-30f, E));
    OK(ember_sampler_sample(sampler, logits, 4, &token, E));
    CHECK(token == 0);
    ember_sampler_free(sampler);
    ember_context_free(context);
    ember_model_release(model);
}

int main(int argc, char **argv)
{
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    path = model_path(argc, argv);
    rounding = fegetround();
    compute(&usual, 2);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        rounding = modes[i];
        for (uint32_t n_threads = 1; n_threads <= 2; n_threads++) {
            CHECK(fesetround(rounding) == 0);
            compute(&found, n_threads);
            CHECK(fegetround() == rounding);
            same();
        }
    }
    rounding = FE_TONEAREST;
    CHECK(fesetround(rounding) == 0);
#ifdef __GLIBC__
    /* Traps end the process where something that is no number comes up. */
    CHECK(feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT) != -1);
    int traps = fegetexcept();
    compute(&found, 2);
    nonsense();
    CHECK(fegetexcept() == traps);
    fedisableexcept(FE_ALL_EXCEPT);
    same();
#endif
#ifdef __SSE__
    /* As programs that work on sound do: tiny numbers are none. */
    _mm_setcsr(_mm_getcsr() | 0x8040);
    unsigned mode = _mm_getcsr();
    compute(&found, 2);
    CHECK(_mm_getcsr() == mode);
    _mm_setcsr(mode & ~0x8040u);
    same();
#endif
    return finish("float");
}

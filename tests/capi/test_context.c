/* Contexts: options, decoding, logits, positions, rewinding, sequences. */
#include "check.h"

#include <math.h>

static ember_model *model; /* the fixture: 101 tokens, 64 learned positions */
static const uint32_t TOKENS[] = {49, 55, 81, 19, 24, 16, 81, 78, 60, 56, 86, 12};
enum { N = sizeof TOKENS / sizeof *TOKENS };

static uint32_t n_past(const ember_context *context, uint32_t sequence)
{
    uint32_t n = UINT32_MAX;
    OK(ember_context_n_past(context, sequence, &n, E));
    return n;
}

/* Copies the logits of token `index` of the last decode. */
static void copy_logits(const ember_context *context, size_t index, float *out)
{
    const float *row = NULL;
    if (OK(ember_context_logits(context, index, &row, E)))
        memcpy(out, row, FIXTURE_VOCAB * sizeof *out);
}

static float distance(const float *a, const float *b)
{
    float most = 0.0f;
    for (int i = 0; i < FIXTURE_VOCAB; i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

static void options_and_info(void)
{
    ember_context_options *o = NULL;
    ember_context *context = NULL;
    ember_context_info info = {.struct_size = sizeof info};
    OK(ember_context_options_new(&o, E));
    OK(ember_context_options_set_n_ctx(o, 20, E));
    OK(ember_context_options_set_n_seq(o, 3, E));
    OK(ember_context_options_set_n_batch(o, 7, E));
    OK(ember_context_options_set_n_threads(o, 2, E));
    OK(ember_context_options_set_kv_type(o, EMBER_KV_F32, E));
    OK(ember_context_options_set_backend(o, EMBER_BACKEND_AUTO, E));
    OK(ember_context_new(model, o, &context, E));
    ember_context_options_free(o); /* before what was made with it */
    OK(ember_context_info_get(context, &info, E));
    CHECK(info.n_ctx == 20 && info.n_seq == 3 && info.n_batch == 7 && info.n_threads == 2);
    CHECK(info.struct_size == sizeof info);

    ember_context_info shorter = {.struct_size = offsetof(ember_context_info, n_batch), .n_batch = 77};
    OK(ember_context_info_get(context, &shorter, E));
    CHECK(shorter.n_ctx == 20 && shorter.n_seq == 3 && shorter.n_batch == 77);
    ember_context_info unset = {.struct_size = 0, .n_ctx = 77};
    FAILS(EMBER_E_INVALID_ARGUMENT, "struct_size", ember_context_info_get(context, &unset, E));
    CHECK(unset.n_ctx == 77);
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_context_info_get(context, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_info_get(NULL, &info, E));
    ember_context_free(context);

    OK(ember_context_new(model, NULL, &context, E));
    OK(ember_context_info_get(context, &info, E));
    CHECK(info.n_ctx == FIXTURE_CTX && info.n_seq == 1 && info.n_batch > 0 && info.n_threads > 0);
    ember_context_free(context);
    ember_context_free(NULL);
    ember_context_options_free(NULL);
}

/* The context's own threads on CPU 0, where the system can do that. The results are the same. */
static void threads_on_given_cpus(void)
{
    ember_context_options *o = NULL;
    ember_context *bound = NULL, *free_to_move = new_context(model, 0, 1);
    ember_context_info info = {.struct_size = sizeof info};
    const uint32_t first[] = {0}, both[] = {0, 1}, beyond[] = {0, 8192}, nowhere[] = {8191}, some[] = {0, 0, 8190};
    float a[FIXTURE_VOCAB] = {0}, b[FIXTURE_VOCAB] = {1};
    OK(ember_context_options_new(&o, E));
    OK(ember_context_options_set_n_threads(o, 3, E));
    OK(ember_context_options_set_worker_cpus(o, first, 1, E));
#if defined(__linux__) || defined(_WIN32)
    OK(ember_context_new(model, o, &bound, E));
    OK(ember_context_decode(bound, TOKENS, NULL, NULL, NULL, N, E));
    OK(ember_context_decode(free_to_move, TOKENS, NULL, NULL, NULL, N, E));
    copy_logits(bound, N - 1, a);
    copy_logits(free_to_move, N - 1, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    ember_context_free(bound);
    bound = NULL;
    OK(ember_context_options_set_worker_cpus(o, nowhere, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "8191", ember_context_new(model, o, &bound, E));
    OK(ember_context_options_set_worker_cpus(o, some, 3, E)); /* one that there is, twice, and one that there is not */
    for (uint32_t n_threads = 0; n_threads < 3; n_threads++) {
        OK(ember_context_options_set_n_threads(o, n_threads, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "8190", ember_context_new(model, o, &bound, E));
    }
    OK(ember_context_options_set_worker_cpus(o, some, 2, E));
    OK(ember_context_new(model, o, &bound, E));
    ember_context_free(bound);
    bound = NULL;
    OK(ember_context_options_set_n_threads(o, 3, E));
#else
    FAILS(EMBER_E_UNSUPPORTED, "CPUs", ember_context_new(model, o, &bound, E));
#endif
    CHECK(bound == NULL);
    OK(ember_context_options_set_worker_cpus(o, NULL, 0, E)); /* anywhere again */
    OK(ember_context_new(model, o, &bound, E));
    ember_context_free(bound);

    /* Without a number of threads there are no more than these CPUs have. */
    OK(ember_context_options_set_n_threads(o, 0, E));
    OK(ember_context_options_set_worker_cpus(o, first, 1, E));
    OK(ember_context_new(model, o, &bound, E));
    OK(ember_context_info_get(bound, &info, E));
    CHECK(info.n_threads == 1);
    ember_context_free(bound);

    FAILS(EMBER_E_INVALID_ARGUMENT, "cpus has the number 8192", ember_context_options_set_worker_cpus(o, beyond, 2, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "cpus is NULL", ember_context_options_set_worker_cpus(o, NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_worker_cpus(NULL, both, 2, E));
    ember_context_options_free(o);
    ember_context_free(free_to_move);
}

static void options_refuse_nonsense(void)
{
    ember_context_options *o = NULL;
    OK(ember_context_options_new(&o, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_context_options_new(NULL, E));
    const int32_t bad[] = {5, -1, 1000, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(EMBER_E_INVALID_ARGUMENT, "kv_type", ember_context_options_set_kv_type(o, bad[i], E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "k_type", ember_context_options_set_k_type(o, bad[i], E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "v_type", ember_context_options_set_v_type(o, bad[i], E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "backend", ember_context_options_set_backend(o, bad[i], E));
    }
    FAILS(EMBER_E_INVALID_ARGUMENT, "backend", ember_context_options_set_backend(o, 2, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_ctx", ember_context_options_set_n_ctx(o, UINT32_MAX, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_seq", ember_context_options_set_n_seq(o, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_seq", ember_context_options_set_n_seq(o, 4097, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_threads", ember_context_options_set_n_threads(o, 513, E));

    ember_context_options *foreign = (ember_context_options *)(void *)model;
    ember_context_options *const wrong[] = {NULL, foreign};
    for (int i = 0; i < 2; i++) {
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_n_ctx(wrong[i], 1, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_n_seq(wrong[i], 1, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_n_batch(wrong[i], 1, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_n_threads(wrong[i], 1, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_kv_type(wrong[i], 0, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_k_type(wrong[i], 0, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_v_type(wrong[i], 0, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_backend(wrong[i], 0, E));
    }
    ember_context_options_free(foreign); /* left alone */

    ember_context *none = NULL;
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_context_new(NULL, o, &none, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_context_new(model, o, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_new(model, foreign, &none, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_context_new((ember_model *)(void *)o, o, &none, E));
    OK(ember_context_options_set_n_ctx(o, FIXTURE_CTX + 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_ctx is 65", ember_context_new(model, o, &none, E));
    CHECK(none == NULL);
    ember_context_options_free(o);
}

static void decode_and_logits(void)
{
    ember_context *context = new_context(model, 0, 1);
    const float *row = NULL;
    FAILS(EMBER_E_NOT_FOUND, "", ember_context_logits(context, 0, &row, E));
    OK(ember_context_decode(context, TOKENS, NULL, NULL, NULL, N, E));
    CHECK(n_past(context, 0) == N);
    OK(ember_context_logits(context, N - 1, &row, E));
    CHECK(row != NULL && isfinite(row[0]) && isfinite(row[FIXTURE_VOCAB - 1]));
    for (size_t i = 0; i + 1 < N; i++)
        FAILS(EMBER_E_NOT_FOUND, "token", ember_context_logits(context, i, &row, E));
    FAILS(EMBER_E_NOT_FOUND, "token", ember_context_logits(context, N, &row, E));
    FAILS(EMBER_E_NOT_FOUND, "token", ember_context_logits(context, SIZE_MAX, &row, E));
    if (SIZE_MAX > UINT32_MAX) /* it is not cut off */
        FAILS(EMBER_E_NOT_FOUND, "token", ember_context_logits(context, (size_t)UINT32_MAX + N, &row, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_context_logits(context, N - 1, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_logits(NULL, 0, &row, E));

    float last[FIXTURE_VOCAB] = {0}, again[FIXTURE_VOCAB] = {0}, third[FIXTURE_VOCAB] = {0};
    copy_logits(context, N - 1, last);
    uint8_t want[N] = {0};
    want[2] = 1;
    want[N - 1] = 255;
    OK(ember_context_rewind(context, 0, 0, E));
    FAILS(EMBER_E_NOT_FOUND, "", ember_context_logits(context, N - 1, &row, E));
    OK(ember_context_decode(context, TOKENS, NULL, NULL, want, N, E));
    copy_logits(context, N - 1, again);
    CHECK(memcmp(last, again, sizeof last) == 0);
    copy_logits(context, 2, third);
    CHECK(memcmp(last, third, sizeof last) != 0);
    FAILS(EMBER_E_NOT_FOUND, "token 1", ember_context_logits(context, 1, &row, E));

    memset(want, 0, sizeof want);
    OK(ember_context_rewind(context, 0, 0, E));
    OK(ember_context_decode(context, TOKENS, NULL, NULL, want, N, E));
    FAILS(EMBER_E_NOT_FOUND, "token", ember_context_logits(context, N - 1, &row, E));
    ember_context_free(context);
}

static void decode_refuses_nonsense(void)
{
    ember_context *context = new_context(model, 0, 2);
    OK(ember_context_decode(context, TOKENS, NULL, NULL, NULL, 3, E));
    const uint32_t beyond[] = {1, FIXTURE_VOCAB}, none[] = {EMBER_TOKEN_NONE}, positions[] = {3, 5}, later[] = {4};
    const uint32_t sequences[] = {0, 2}, garbage[] = {UINT32_MAX};
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_decode(NULL, TOKENS, NULL, NULL, NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens", ember_context_decode(context, NULL, NULL, NULL, NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "token", ember_context_decode(context, TOKENS, NULL, NULL, NULL, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "token", ember_context_decode(context, NULL, NULL, NULL, NULL, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens", ember_context_decode(context, TOKENS, NULL, NULL, NULL, SIZE_MAX, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "101", ember_context_decode(context, beyond, NULL, NULL, NULL, 2, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "token", ember_context_decode(context, none, NULL, NULL, NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "position", ember_context_decode(context, TOKENS, positions, NULL, NULL, 2, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "position", ember_context_decode(context, TOKENS, later, NULL, NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "position", ember_context_decode(context, TOKENS, garbage, NULL, NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 2", ember_context_decode(context, TOKENS, NULL, sequences, NULL, 2, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence", ember_context_decode(context, TOKENS, NULL, garbage, NULL, 1, E));
    const uint32_t *crooked = (const uint32_t *)(const void *)((const char *)TOKENS + 1);
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens", ember_context_decode(context, crooked, NULL, NULL, NULL, 1, E));
    CHECK(n_past(context, 0) == 3 && n_past(context, 1) == 0);
    const uint32_t right[] = {3, 4};
    OK(ember_context_decode(context, TOKENS + 3, right, NULL, NULL, 2, E));
    CHECK(n_past(context, 0) == 5);

    uint32_t n = 7;
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 2", ember_context_n_past(context, 2, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence", ember_context_n_past(context, UINT32_MAX, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_context_n_past(context, 0, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_n_past(NULL, 0, &n, E));
    CHECK(n == 7);
    ember_context *foreign = (ember_context *)(void *)model;
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_decode(foreign, TOKENS, NULL, NULL, NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_n_past(foreign, 0, &n, E));
    ember_context_free(foreign); /* left alone */
    ember_context_free(context);
}

static void a_full_context(void)
{
    ember_context *context = new_context(model, 8, 1);
    FAILS(EMBER_E_CONTEXT_FULL, "n_ctx 8", ember_context_decode(context, TOKENS, NULL, NULL, NULL, 9, E));
    CHECK(n_past(context, 0) == 0);
    OK(ember_context_decode(context, TOKENS, NULL, NULL, NULL, 8, E));
    FAILS(EMBER_E_CONTEXT_FULL, "sequence 0", ember_context_decode(context, TOKENS, NULL, NULL, NULL, 1, E));
    CHECK(n_past(context, 0) == 8);
    const float *row = NULL;
    OK(ember_context_logits(context, 7, &row, E)); /* those of the last decode that succeeded */
    OK(ember_context_rewind(context, 0, 7, E));
    OK(ember_context_decode(context, TOKENS, NULL, NULL, NULL, 1, E));
    ember_context_free(context);
}

static void rewinding(void)
{
    ember_context *context = new_context(model, 0, 1);
    float first[FIXTURE_VOCAB] = {0}, again[FIXTURE_VOCAB] = {0};
    OK(ember_context_decode(context, TOKENS, NULL, NULL, NULL, 5, E));
    OK(ember_context_decode(context, TOKENS + 5, NULL, NULL, NULL, N - 5, E));
    copy_logits(context, N - 6, first);
    OK(ember_context_rewind(context, 0, N, E)); /* nothing to forget */
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 0", ember_context_rewind(context, 0, N + 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 0", ember_context_rewind(context, 0, UINT32_MAX, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 1", ember_context_rewind(context, 1, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_rewind(NULL, 0, 0, E));
    CHECK(n_past(context, 0) == N);
    OK(ember_context_rewind(context, 0, 5, E));
    CHECK(n_past(context, 0) == 5);
    OK(ember_context_decode(context, TOKENS + 5, NULL, NULL, NULL, N - 5, E));
    copy_logits(context, N - 6, again);
    CHECK(memcmp(first, again, sizeof first) == 0);
    ember_context_free(context);
}

static void two_sequences(void)
{
    ember_context *both = new_context(model, 0, 2), *one = new_context(model, 0, 1);
    const uint32_t mixed[] = {TOKENS[0], TOKENS[6], TOKENS[1], TOKENS[7], TOKENS[2], TOKENS[8]};
    const uint32_t sequences[] = {0, 1, 0, 1, 0, 1}, positions[] = {0, 0, 1, 1, 2, 2};
    const uint8_t want[] = {0, 0, 0, 0, 1, 1};
    float a[FIXTURE_VOCAB] = {0}, b[FIXTURE_VOCAB] = {0};
    OK(ember_context_decode(both, mixed, positions, sequences, want, 6, E));
    CHECK(n_past(both, 0) == 3 && n_past(both, 1) == 3);
    for (size_t s = 0; s < 2; s++) {
        OK(ember_context_rewind(one, 0, 0, E));
        OK(ember_context_decode(one, TOKENS + 6 * s, NULL, NULL, NULL, 3, E));
        copy_logits(one, 2, a);
        copy_logits(both, 4 + s, b);
        CHECK(distance(a, b) < 1e-4f);
    }
    OK(ember_context_rewind(both, 0, 0, E));
    CHECK(n_past(both, 0) == 0 && n_past(both, 1) == 3);
    ember_context_free(one);
    ember_context_free(both);
}

static void every_implementation_agrees(void)
{
    float reference[FIXTURE_VOCAB] = {0}, other[FIXTURE_VOCAB] = {0};
    for (int32_t backend = 0; backend < 2; backend++) {
        for (int32_t kv = 0; kv < 2; kv++) {
            ember_context_options *o = NULL;
            ember_context *context = NULL;
            OK(ember_context_options_new(&o, E));
            OK(ember_context_options_set_backend(o, backend, E));
            OK(ember_context_options_set_kv_type(o, kv, E));
            OK(ember_context_options_set_n_batch(o, backend == 0 ? 5 : 0, E));
            OK(ember_context_new(model, o, &context, E));
            ember_context_options_free(o);
            OK(ember_context_decode(context, TOKENS, NULL, NULL, NULL, N, E));
            copy_logits(context, N - 1, backend + kv == 0 ? reference : other);
            if (backend + kv > 0)
                CHECK(distance(reference, other) < 0.02f);
            ember_context_free(context);
        }
    }
}

/* Keys and values in bytes, which heads of 32 components can have. */
static void a_cache_of_bytes(void)
{
    ember_context_options *o = NULL;
    ember_context *exact = NULL, *rounded = NULL;
    ember_context *const poison = (ember_context *)(void *)&poison_target;
    ember_context *none = poison;
    ember_model *wide = load_model("tests/fixtures/models/llama3-untied-biased.gguf");
    ember_model_info info = {.struct_size = sizeof info};
    const float *a = NULL, *b = NULL;
    float largest = 0.0f, most = 0.0f;
    OK(ember_model_info_get(wide, &info, E));
    OK(ember_context_options_new(&o, E));
    OK(ember_context_options_set_k_type(o, EMBER_KV_F32, E));
    OK(ember_context_options_set_v_type(o, EMBER_KV_F32, E));
    OK(ember_context_new(wide, o, &exact, E));
    OK(ember_context_options_set_k_type(o, EMBER_KV_Q8_0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "head_dim", ember_context_new(model, o, &none, E));
    CHECK(none == poison);
    OK(ember_context_options_set_kv_type(o, EMBER_KV_Q8_0, E));
    OK(ember_context_new(wide, o, &rounded, E));
    OK(ember_context_decode(exact, TOKENS, NULL, NULL, NULL, N, E));
    OK(ember_context_decode(rounded, TOKENS, NULL, NULL, NULL, N, E));
    OK(ember_context_logits(exact, N - 1, &a, E));
    OK(ember_context_logits(rounded, N - 1, &b, E));
    for (uint32_t i = 0; i < info.n_vocab; i++) {
        largest = fmaxf(largest, fabsf(a[i]));
        most = fmaxf(most, fabsf(a[i] - b[i]));
    }
    CHECK(most > 0.0f && most < 0.02f * largest);
    ember_context_free(rounded);
    OK(ember_context_options_set_kv_type(o, EMBER_KV_I16, E));
    OK(ember_context_new(wide, o, &rounded, E));
    OK(ember_context_decode(rounded, TOKENS, NULL, NULL, NULL, N, E));
    OK(ember_context_logits(rounded, N - 1, &b, E));
    most = 0.0f;
    for (uint32_t i = 0; i < info.n_vocab; i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    CHECK(most > 0.0f && most < 0.002f * largest);
    ember_context_free(exact);
    ember_context_free(rounded);
    ember_context_options_free(o);
    ember_model_release(wide);
}

static void timings(void)
{
    ember_context *context = new_context(model, 0, 2);
    ember_timings t = {.struct_size = sizeof t};
    const uint32_t tokens[] = {1, 2, 3}, seqs[] = {0, 1};
    OK(ember_context_timings_get(context, &t, E));
    CHECK(t.load_ns > 0 && t.n_prefill == 0 && t.n_decode == 0 && t.n_embed == 0 && t.prefill_ns == 0);
    OK(ember_context_decode(context, tokens, NULL, NULL, NULL, 3, E));
    OK(ember_context_decode(context, tokens, NULL, NULL, NULL, 1, E));
    OK(ember_context_decode(context, tokens, NULL, seqs, NULL, 2, E));
    const uint32_t beyond = FIXTURE_VOCAB;
    FAILS(EMBER_E_INVALID_ARGUMENT, "", ember_context_decode(context, &beyond, NULL, NULL, NULL, 1, E));
    OK(ember_context_timings_get(context, &t, E));
    CHECK(t.n_prefill == 3 && t.n_decode == 3 && t.prefill_ns > 0 && t.decode_ns > 0 && t.embed_ns == 0);
    OK(ember_context_timings_reset(context, E));
    OK(ember_context_timings_get(context, &t, E));
    CHECK(t.n_prefill == 0 && t.decode_ns == 0 && t.load_ns > 0);
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_timings_get(NULL, &t, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_context_timings_get(context, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_timings_reset(NULL, E));
    ember_context_free(context);
}

int main(void)
{
    model = load_model(FIXTURE);
    options_and_info();
    threads_on_given_cpus();
    options_refuse_nonsense();
    decode_and_logits();
    decode_refuses_nonsense();
    a_full_context();
    rewinding();
    two_sequences();
    every_implementation_agrees();
    a_cache_of_bytes();
    timings();
    ember_model_release(model);
    return finish("context");
}

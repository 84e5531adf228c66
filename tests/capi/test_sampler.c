/* Samplers. */
#include "check.h"

#include <math.h>

enum { N = 64 };

static ember_sampler *new_sampler(uint64_t seed)
{
    ember_sampler *sampler = NULL;
    if (!OK(ember_sampler_new(seed, &sampler, E)))
        exit(1);
    return sampler;
}

/* Logits without equals, the largest at token 17. */
static void fill(float *logits)
{
    for (int i = 0; i < N; i++)
        logits[i] = -0.05f * (float)((i + N - 17) % N);
}

static void greedy(void)
{
    float logits[N];
    uint32_t token = 0;
    fill(logits);
    ember_sampler *s = new_sampler(1);
    OK(ember_sampler_add_greedy(s, E));
    OK(ember_sampler_sample(s, logits, N, &token, E));
    CHECK(token == 17);
    logits[3] = logits[17];
    OK(ember_sampler_sample(s, logits, N, &token, E));
    CHECK(token == 3); /* of equals the lowest */
    ember_sampler_free(s);

    s = new_sampler(1);
    OK(ember_sampler_add_temperature(s, 0.0f, E));
    OK(ember_sampler_sample(s, logits, N, &token, E));
    CHECK(token == 3);
    ember_sampler_free(s);
}

static void the_seed_decides(void)
{
    float logits[N];
    uint32_t first[50], again[50], reset[50], other[50];
    fill(logits);
    ember_sampler *a = new_sampler(42), *b = new_sampler(42), *c = new_sampler(43);
    for (int i = 0; i < 50; i++) {
        OK(ember_sampler_sample(a, logits, N, &first[i], E));
        OK(ember_sampler_sample(b, logits, N, &again[i], E));
        OK(ember_sampler_sample(c, logits, N, &other[i], E));
        CHECK(first[i] < N);
    }
    CHECK(memcmp(first, again, sizeof first) == 0);
    CHECK(memcmp(first, other, sizeof first) != 0);
    OK(ember_sampler_reset(a, E));
    for (int i = 0; i < 50; i++)
        OK(ember_sampler_sample(a, logits, N, &reset[i], E));
    CHECK(memcmp(first, reset, sizeof first) == 0);
    ember_sampler_free(a);
    ember_sampler_free(b);
    ember_sampler_free(c);
}

static void stages_narrow_the_choice(void)
{
    float logits[N];
    fill(logits);
    ember_sampler *s = new_sampler(7);
    OK(ember_sampler_add_top_k(s, 3, E));
    OK(ember_sampler_add_top_p(s, 1.0f, E));
    OK(ember_sampler_add_temperature(s, 2.0f, E));
    for (int i = 0; i < 100; i++) {
        uint32_t token = 0;
        OK(ember_sampler_sample(s, logits, N, &token, E));
        CHECK(token >= 17 && token <= 19);
    }
    ember_sampler_free(s);

    s = new_sampler(7);
    OK(ember_sampler_add_top_p(s, 1e-6f, E));
    for (int i = 0; i < 20; i++) {
        uint32_t token = 0;
        OK(ember_sampler_sample(s, logits, N, &token, E));
        CHECK(token == 17);
    }
    ember_sampler_free(s);

    s = new_sampler(7);
    OK(ember_sampler_add_top_k(s, UINT32_MAX, E));
    OK(ember_sampler_add_top_k(s, 0, E));
    uint32_t token = N;
    OK(ember_sampler_sample(s, logits, N, &token, E));
    CHECK(token < N);
    ember_sampler_free(s);
}

static void bad_parameters(void)
{
    ember_sampler *s = new_sampler(1);
    const float bad_t[] = {-1.0f, -0.001f, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad_t / sizeof *bad_t; i++)
        FAILS(EMBER_E_INVALID_ARGUMENT, "temperature", ember_sampler_add_temperature(s, bad_t[i], E));
    const float bad_p[] = {0.0f, -0.5f, 1.001f, NAN, INFINITY};
    for (size_t i = 0; i < sizeof bad_p / sizeof *bad_p; i++)
        FAILS(EMBER_E_INVALID_ARGUMENT, "p", ember_sampler_add_top_p(s, bad_p[i], E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_sampler_new(1, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_sampler_add_greedy(NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_sampler_add_temperature(NULL, 1.0f, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_sampler_add_top_k(NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_sampler_add_top_p(NULL, 1.0f, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_sampler_reset(NULL, E));
    ember_sampler_free(NULL);
    ember_sampler_free(s);
}

static void bad_logits(void)
{
    float logits[N];
    uint32_t token = 77;
    fill(logits);
    ember_sampler *plain = new_sampler(1), *greedy_sampler = new_sampler(1);
    OK(ember_sampler_add_greedy(greedy_sampler, E));
    ember_sampler *both[] = {plain, greedy_sampler};
    for (int i = 0; i < 2; i++) {
        ember_sampler *s = both[i];
        fill(logits);
        FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_sampler_sample(NULL, logits, N, &token, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "logits", ember_sampler_sample(s, NULL, N, &token, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "logits", ember_sampler_sample(s, NULL, 0, &token, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "logits", ember_sampler_sample(s, logits, 0, &token, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "logits", ember_sampler_sample(s, logits, SIZE_MAX / 4, &token, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_sampler_sample(s, logits, N, NULL, E));
        const float *crooked = (const float *)(const void *)((const char *)logits + 1);
        FAILS(EMBER_E_INVALID_ARGUMENT, "logits", ember_sampler_sample(s, crooked, 4, &token, E));
        logits[9] = NAN;
        FAILS(EMBER_E_INVALID_ARGUMENT, "token 9 is NaN", ember_sampler_sample(s, logits, N, &token, E));
        for (int j = 0; j < N; j++)
            logits[j] = -INFINITY;
        FAILS(EMBER_E_INVALID_ARGUMENT, "-inf", ember_sampler_sample(s, logits, N, &token, E));
        CHECK(token == 77);
        logits[5] = 1.0f;
        OK(ember_sampler_sample(s, logits, N, &token, E));
        CHECK(token == 5); /* still usable after errors */
        logits[6] = INFINITY;
        OK(ember_sampler_sample(s, logits, N, &token, E));
        CHECK(token == 6);
        token = 77;
    }
    ember_sampler_free(plain);
    ember_sampler_free(greedy_sampler);
}

static void another_handle_is_not_a_sampler(void)
{
    ember_generate_options *options = NULL;
    OK(ember_generate_options_new(&options, E));
    ember_sampler *foreign = (ember_sampler *)(void *)options;
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_sampler_add_greedy(foreign, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_sampler_reset(foreign, E));
    ember_sampler_free(foreign); /* left alone */
    OK(ember_generate_options_set_max_tokens(options, 1, E));
    ember_generate_options_free(options);
}

/* Which tokens a sampler with one stage gives in a hundred draws, as bits. */
static uint64_t drawn(ember_sampler *s, const float *logits)
{
    uint64_t seen = 0;
    for (int i = 0; i < 100; i++) {
        uint32_t token = 0;
        OK(ember_sampler_sample(s, logits, N, &token, E));
        seen |= (uint64_t)1 << token;
    }
    ember_sampler_free(s);
    return seen;
}

static void more_stages(void)
{
    float logits[N];
    fill(logits);
    ember_sampler *s = new_sampler(3);
    OK(ember_sampler_add_min_p(s, 0.93f, E)); /* 0.05 below the largest is 0.951 as probable */
    CHECK(drawn(s, logits) == (uint64_t)3 << 17);
    s = new_sampler(3);
    OK(ember_sampler_add_typical_p(s, 1e-6f, E));
    uint64_t one = drawn(s, logits);
    CHECK(one != 0 && (one & (one - 1)) == 0);
    s = new_sampler(3);
    OK(ember_sampler_add_dynamic_temperature(s, 0.0f, 0.0f, 1.0f, E));
    CHECK(drawn(s, logits) == (uint64_t)1 << 17);
    s = new_sampler(3);
    OK(ember_sampler_add_top_k(s, 2, E));
    OK(ember_sampler_add_xtc(s, 1.0f, 0.1f, E));
    CHECK(drawn(s, logits) == (uint64_t)1 << 18);
    s = new_sampler(3);
    OK(ember_sampler_add_mirostat(s, 0.0f, 0.1f, E));
    CHECK(drawn(s, logits) == (uint64_t)1 << 17);
    static const uint32_t tokens[] = {17, 18, 500};
    static const float biases[] = {-INFINITY, 100.0f, 1.0f};
    s = new_sampler(3);
    OK(ember_sampler_add_bias(s, tokens, biases, 3, E));
    CHECK(drawn(s, logits) == (uint64_t)1 << 18);
    s = new_sampler(3);
    OK(ember_sampler_add_allow(s, tokens, 3, E));
    CHECK(drawn(s, logits) == (uint64_t)3 << 17);
    s = new_sampler(3);
    OK(ember_sampler_add_deny(s, tokens, 3, E));
    OK(ember_sampler_add_greedy(s, E));
    CHECK(drawn(s, logits) == (uint64_t)1 << 19);
}

static void penalties_need_accepted_tokens(void)
{
    float logits[N];
    uint32_t token = 0;
    fill(logits);
    ember_sampler *s = new_sampler(1), *copy = NULL;
    OK(ember_sampler_add_penalties(s, 8, 1.0f, 5.0f, 5.0f, E));
    OK(ember_sampler_add_greedy(s, E));
    OK(ember_sampler_sample(s, logits, N, &token, E));
    CHECK(token == 17);
    OK(ember_sampler_accept(s, token, E));
    OK(ember_sampler_clone(s, &copy, E));
    OK(ember_sampler_sample(s, logits, N, &token, E));
    CHECK(token == 18);
    OK(ember_sampler_reset(s, E));
    OK(ember_sampler_sample(s, logits, N, &token, E));
    CHECK(token == 17);
    OK(ember_sampler_sample(copy, logits, N, &token, E));
    CHECK(token == 18);
    ember_sampler_free(s);
    ember_sampler_free(copy);
}

/* Of a prompt's token 17 and the generated token 18 the latter alone counts where only generated ones do. */
static void penalties_of_generated_tokens(void)
{
    float logits[N];
    uint32_t token = 0;
    fill(logits);
    ember_sampler *s = new_sampler(1), *copy = NULL;
    OK(ember_sampler_add_penalties(s, 8, 1.0f, 5.0f, 5.0f, E));
    OK(ember_sampler_add_greedy(s, E));
    OK(ember_sampler_accept(s, 17, E));
    OK(ember_sampler_sample(s, logits, N, &token, E));
    CHECK(token == 18);
    OK(ember_sampler_set_penalties_generated_only(s, true, E));
    OK(ember_sampler_sample(s, logits, N, &token, E));
    CHECK(token == 17);
    OK(ember_sampler_accept(s, token, E));
    OK(ember_sampler_clone(s, &copy, E));
    OK(ember_sampler_sample(s, logits, N, &token, E));
    CHECK(token == 18);
    OK(ember_sampler_sample(copy, logits, N, &token, E));
    CHECK(token == 18);
    OK(ember_sampler_set_penalties_generated_only(s, false, E));
    ember_sampler_free(s);
    ember_sampler_free(copy);
}

static void seeds(void)
{
    uint64_t a = 0, b = 0;
    ember_sampler *s = new_sampler(42);
    OK(ember_sampler_seed(s, &a, E));
    CHECK(a == 42);
    ember_sampler_free(s);
    s = new_sampler(EMBER_SEED_RANDOM);
    OK(ember_sampler_seed(s, &a, E));
    ember_sampler_free(s);
    s = new_sampler(EMBER_SEED_RANDOM);
    OK(ember_sampler_seed(s, &b, E));
    CHECK(a != b && a != EMBER_SEED_RANDOM && b != EMBER_SEED_RANDOM);
    ember_sampler_free(s);
}

static void more_bad_parameters(void)
{
    ember_sampler *s = new_sampler(1), *copy = NULL;
    const uint32_t token = 1;
    const float bad = NAN;
    uint64_t seed = 0;
    FAILS(EMBER_E_INVALID_ARGUMENT, "min-p", ember_sampler_add_min_p(s, -0.1f, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "typical-p", ember_sampler_add_typical_p(s, 0.0f, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "range", ember_sampler_add_dynamic_temperature(s, 1.0f, NAN, 1.0f, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "threshold", ember_sampler_add_xtc(s, 0.5f, 2.0f, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "repeat", ember_sampler_add_penalties(s, 1, 0.0f, 0.0f, 0.0f, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "last_n", ember_sampler_add_penalties(s, UINT32_MAX, 1.0f, 0.0f, 0.0f, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tau", ember_sampler_add_mirostat(s, -1.0f, 0.1f, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "token 1", ember_sampler_add_bias(s, &token, &bad, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "biases", ember_sampler_add_bias(s, &token, NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens", ember_sampler_add_allow(s, NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens", ember_sampler_add_deny(s, NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_sampler_accept(NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_sampler_clone(NULL, &copy, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_sampler_clone(s, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_sampler_seed(NULL, &seed, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_sampler_seed(s, NULL, E));
    ember_sampler_free(s);
}

static int32_t only_odd(const uint32_t *tokens, float *logits, size_t n, void *user_data)
{
    size_t *n_seen = user_data;
    *n_seen = n;
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            CHECK(tokens[i] > tokens[i - 1]);
        if (tokens[i] % 2 == 0)
            logits[i] = -INFINITY;
    }
    return 0;
}

static int32_t spoil(const uint32_t *tokens, float *logits, size_t n, void *user_data)
{
    const float *value = user_data;
    (void)tokens;
    for (size_t i = 0; i < n; i++)
        logits[i] = *value;
    return *value == 7;
}

static int32_t use_the_sampler(const uint32_t *tokens, float *logits, size_t n, void *user_data)
{
    (void)tokens, (void)n;
    uint32_t token = 0;
    CHECK(ember_sampler_sample(user_data, logits, n, &token, NULL) == EMBER_E_BUSY);
    ember_sampler_free(user_data); /* left alone */
    return 0;
}

static void callbacks(void)
{
    const float logits[] = {3, 2, 1, 9, 8, 0};
    uint32_t token = 77;
    size_t n_seen = 0;
    ember_sampler *s = new_sampler(1), *copy = NULL;
    OK(ember_sampler_add_deny(s, (const uint32_t[]){3}, 1, E));
    OK(ember_sampler_add_callback(s, only_odd, &n_seen, E));
    OK(ember_sampler_add_greedy(s, E));
    OK(ember_sampler_clone(s, &copy, E));
    OK(ember_sampler_sample(s, logits, 6, &token, E));
    CHECK(token == 1 && n_seen == 5);
    n_seen = 0;
    OK(ember_sampler_sample(copy, logits, 6, &token, E));
    CHECK(token == 1 && n_seen == 5);
    ember_sampler_free(copy);
    FAILS(EMBER_E_INVALID_ARGUMENT, "callback", ember_sampler_add_callback(s, NULL, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_sampler_add_callback(NULL, only_odd, &n_seen, E));
    ember_sampler_free(s);
    const float values[] = {NAN, INFINITY, -INFINITY, 7};
    for (size_t i = 0; i < 4; i++) {
        float value = values[i];
        s = new_sampler(1);
        OK(ember_sampler_add_callback(s, spoil, &value, E));
        token = 77;
        FAILS(value == 7 ? EMBER_E_CANCELLED : EMBER_E_INVALID_ARGUMENT, "callback",
              ember_sampler_sample(s, logits, 6, &token, E));
        CHECK(token == 77);
        ember_sampler_free(s);
    }
    s = new_sampler(1);
    OK(ember_sampler_add_callback(s, use_the_sampler, s, E));
    OK(ember_sampler_sample(s, logits, 6, &token, E));
    ember_sampler_free(s);
}

static void dry(const char *path)
{
    ember_model *model = load_model(path), *plain = load_model(FIXTURE);
    const char *breakers[] = {"\n", "the cat"}, *too_long[] = {"0123456789012345678901234567890123456789x"};
    const size_t lengths[] = {1, 3};
    ember_sampler *s = new_sampler(1);
    OK(ember_sampler_add_dry(s, model, 5.0f, 1.75f, 2, 100, NULL, NULL, 0, E));
    OK(ember_sampler_add_greedy(s, E));
    ember_model_info info = {.struct_size = sizeof info};
    OK(ember_model_info_get(model, &info, E));
    float *logits = calloc(info.n_vocab, sizeof *logits);
    if (logits == NULL)
        exit(1);
    const uint32_t text[] = {300, 301, 302, 500, 300, 301};
    uint32_t token = 0;
    logits[302] = 2, logits[400] = 1;
    for (int i = 0; i < 6; i++) {
        OK(ember_sampler_sample(s, logits, info.n_vocab, &token, E));
        CHECK(token == 302);
        OK(ember_sampler_accept(s, text[i], E));
    }
    OK(ember_sampler_sample(s, logits, info.n_vocab, &token, E));
    CHECK(token == 400); /* 302 would say 300 301 302 again */
    OK(ember_sampler_add_dry(s, model, 1, 1, 0, 8, breakers, lengths, 2, E));
    OK(ember_sampler_add_dry(s, model, 1, 1, 0, 8, breakers, NULL, 2, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "multiplier", ember_sampler_add_dry(s, model, -1, 1, 0, 8, NULL, NULL, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "base", ember_sampler_add_dry(s, model, 1, 0.5f, 0, 8, NULL, NULL, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "last_n", ember_sampler_add_dry(s, model, 1, 1, 0, UINT32_MAX, NULL, NULL, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "breaker", ember_sampler_add_dry(s, model, 1, 1, 0, 8, too_long, NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "breakers", ember_sampler_add_dry(s, model, 1, 1, 0, 8, NULL, NULL, 1, E));
    FAILS(EMBER_E_UNSUPPORTED, "tokenizer", ember_sampler_add_dry(s, plain, 1, 1, 0, 8, NULL, NULL, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_sampler_add_dry(s, NULL, 1, 1, 0, 8, NULL, NULL, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_sampler_add_dry(NULL, model, 1, 1, 0, 8, NULL, NULL, 0, E));
    free(logits);
    ember_sampler_free(s);
    ember_model_release(model);
    ember_model_release(plain);
}

/* The stages of 2025, and the chain that a file proposes. */
static void proposed(const char *path)
{
    ember_model *model = load_model(path), *proposing = NULL;
    float *logits = calloc(4096, sizeof *logits);
    uint32_t token = 0;
    logits[17] = 6, logits[18] = 5.5f, logits[19] = 1;
    ember_sampler *s = new_sampler(7);
    /* Of 4096 logits around 0 one standard deviation below the largest leaves the two. */
    OK(ember_sampler_add_top_n_sigma(s, 1, E));
    for (int i = 0; i < 50; i++) {
        OK(ember_sampler_sample(s, logits, 4096, &token, E));
        CHECK(token == 17 || token == 18 || logits[17] - logits[token] < 6);
    }
    FAILS(EMBER_E_INVALID_ARGUMENT, "top-n-sigma must", ember_sampler_add_top_n_sigma(s, NAN, E));
    ember_sampler_free(s);
    s = new_sampler(7);
    OK(ember_sampler_add_min_p(s, 0.3f, E));
    OK(ember_sampler_add_adaptive_p(s, 0.4f, 0.9f, E));
    OK(ember_sampler_sample(s, logits, 4096, &token, E));
    CHECK(token == 17 || token == 18);
    FAILS(EMBER_E_INVALID_ARGUMENT, "adaptive-p", ember_sampler_add_adaptive_p(s, 0.4f, 0.9f, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "target", ember_sampler_add_adaptive_p(s, 2, 0.9f, E));
    ember_sampler_free(s);
    s = new_sampler(7);
    OK(ember_sampler_add_mirostat_1(s, 0.0f, 0.1f, 100, E));
    OK(ember_sampler_sample(s, logits, 4096, &token, E));
    CHECK(token == 17);
    ember_sampler_free(s);
    s = new_sampler(7);
    FAILS(EMBER_E_INVALID_ARGUMENT, "m must", ember_sampler_add_mirostat_1(s, 5, 0.1f, 1, E));
    ember_sampler_free(s);
    s = new_sampler(7);
    OK(ember_sampler_add_infill(s, model, E));
    OK(ember_sampler_sample(s, logits, 512, &token, E));
    ember_sampler_free(s);
    /* A file without a proposal proposes llama.cpp's defaults or nothing; one with a temperature of 0 takes the likeliest. */
    ember_model_options *options = NULL;
    OK(ember_model_options_new(&options, E));
    OK(ember_model_options_set_meta_f64(options, "general.sampling.temp", EMBER_NUL_TERMINATED, 0, E));
    OK(ember_model_load(path, EMBER_NUL_TERMINATED, options, &proposing, E));
    OK(ember_model_sampler(proposing, 7, &s, E));
    for (int i = 0; i < 20; i++) {
        OK(ember_sampler_sample(s, logits, 4096, &token, E));
        CHECK(token == 17);
    }
    ember_sampler_free(s);
    ember_model_options_free(options);
    ember_model_release(proposing);
    ember_model_release(model);
    free(logits);
}

int main(int argc, char **argv)
{
    greedy();
    the_seed_decides();
    stages_narrow_the_choice();
    bad_parameters();
    bad_logits();
    another_handle_is_not_a_sampler();
    more_stages();
    penalties_need_accepted_tokens();
    penalties_of_generated_tokens();
    seeds();
    more_bad_parameters();
    callbacks();
    dry(model_path(argc, argv));
    proposed(model_path(argc, argv));
    return finish("sampler");
}

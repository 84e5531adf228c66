/* Embeddings: options, texts, token ids, pooling, what is refused. */
#include "check.h"

#include <math.h>

/* An encoder without a tokenizer: 101 tokens, 64 learned positions, vectors of 36 numbers. */
#define ENCODER "tests/fixtures/models/bert.gguf"
enum { WIDTH = 36, TALES_MAX = 2048 };

static const size_t NUL = EMBER_NUL_TERMINATED;
static const uint32_t TOKENS[] = {98, 94, 0, 22, 34, 98, 90, 66, 10};
enum { N = sizeof TOKENS / sizeof *TOKENS };
static ember_model *encoder, *tales; /* tales: a causal model with a tokenizer */

static float length(const float *x, size_t n)
{
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrtf(sum);
}

static float distance(const float *a, const float *b, size_t n)
{
    float most = 0.0f;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

static ember_embed_options *new_options(int32_t pooling)
{
    ember_embed_options *options = NULL;
    OK(ember_embed_options_new(&options, E));
    OK(ember_embed_options_set_pooling(options, pooling, E));
    return options;
}

static void options_refuse_nonsense(void)
{
    ember_embed_options *o = new_options(EMBER_POOLING_AUTO);
    const int32_t bad[] = {-2, 4, 1000, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(EMBER_E_INVALID_ARGUMENT, "pooling", ember_embed_options_set_pooling(o, bad[i], E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_embed_options_new(NULL, E));
    ember_embed_options *const wrong[] = {NULL, (ember_embed_options *)(void *)encoder};
    for (int i = 0; i < 2; i++) {
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_embed_options_set_pooling(wrong[i], 0, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_embed_options_set_normalize(wrong[i], true, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_embed_options_set_truncate(wrong[i], true, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_embed_options_set_dimensions(wrong[i], 3, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_embed_options_set_prompt(wrong[i], "query", NUL, E));
        ember_embed_options_free(wrong[i]); /* left alone */
    }
    FAILS(EMBER_E_INVALID_ARGUMENT, "name", ember_embed_options_set_prompt(o, NULL, 3, E));
    FAILS(EMBER_E_UTF8, "name", ember_embed_options_set_prompt(o, "a\xff", NUL, E));
    ember_embed_options_free(o);
}

static void models_say_what_they_are(void)
{
    ember_model_info info = {.struct_size = sizeof info};
    OK(ember_model_info_get(encoder, &info, E));
    CHECK(info.causal == 0 && info.pooling == EMBER_POOLING_MEAN && info.n_embd == WIDTH);
    CHECK(info.n_embd_out == WIDTH && info.n_prompts == 0);
    OK(ember_model_info_get(tales, &info, E));
    CHECK(info.causal == 1 && info.pooling == EMBER_POOLING_AUTO);
}

static void encoders_embed_only(void)
{
    ember_context *context = new_context(encoder, 0, 1);
    ember_context_info info = {.struct_size = sizeof info};
    const float *row = NULL;
    OK(ember_context_info_get(context, &info, E));
    CHECK(info.n_ctx == 64 && info.n_batch == 64);
    FAILS(EMBER_E_UNSUPPORTED, "encoder", ember_context_decode(context, TOKENS, NULL, NULL, NULL, N, E));
    FAILS(EMBER_E_UNSUPPORTED, "encoder", ember_context_logits(context, 0, &row, E));
    ember_context_free(context);
}

static void tokens_to_vectors(void)
{
    ember_context *context = new_context(encoder, 0, 1);
    float rows[N * WIDTH] = {0}, mean[WIDTH] = {0}, two[2 * WIDTH] = {0}, other[WIDTH] = {0};
    const size_t whole = N, parts[] = {4, N - 4};
    size_t n = 77;

    /* The size first, as often as one likes; the buffer is left alone. */
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "vectors",
          ember_embed_tokens(context, TOKENS, N, &whole, 1, NULL, NULL, 0, &n, E));
    CHECK(n == WIDTH);
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "36", ember_embed_tokens(context, TOKENS, N, &whole, 1, NULL, mean, 35, &n, E));
    CHECK(mean[0] == 0.0f);
    OK(ember_embed_tokens(context, TOKENS, N, &whole, 1, NULL, mean, WIDTH, &n, E));
    CHECK(n == WIDTH && fabsf(length(mean, WIDTH) - 1.0f) < 1e-5f);

    ember_embed_options *none = new_options(EMBER_POOLING_NONE);
    OK(ember_embed_tokens(context, TOKENS, N, &whole, 1, none, rows, N * WIDTH, &n, E));
    CHECK(n == N * WIDTH && fabsf(length(rows, WIDTH) - 1.0f) > 1e-2f);
    float sum[WIDTH] = {0};
    for (size_t i = 0; i < N * WIDTH; i++)
        sum[i % WIDTH] += rows[i];
    float scale = length(sum, WIDTH);
    for (size_t i = 0; i < WIDTH; i++)
        sum[i] /= scale;
    CHECK(distance(sum, mean, WIDTH) < 1e-5f);

    /* One of the rows, at its own length. */
    for (int32_t pooling = EMBER_POOLING_CLS; pooling <= EMBER_POOLING_LAST; pooling++) {
        ember_embed_options *one = new_options(pooling);
        OK(ember_embed_options_set_normalize(one, false, E));
        OK(ember_embed_tokens(context, TOKENS, N, &whole, 1, one, other, WIDTH, &n, E));
        CHECK(n == WIDTH);
        CHECK(distance(other, rows + (pooling == EMBER_POOLING_CLS ? 0 : (N - 1) * WIDTH), WIDTH) == 0.0f);
        ember_embed_options_free(one);
    }
    OK(ember_embed_options_set_normalize(none, true, E));
    OK(ember_embed_tokens(context, TOKENS, N, &whole, 1, none, rows, N * WIDTH, &n, E));
    for (size_t i = 0; i < N; i++)
        CHECK(fabsf(length(rows + i * WIDTH, WIDTH) - 1.0f) < 1e-5f);
    ember_embed_options_free(none);

    /* Two texts in one call are the two texts. */
    OK(ember_embed_tokens(context, TOKENS, N, parts, 2, NULL, two, 2 * WIDTH, &n, E));
    CHECK(n == 2 * WIDTH);
    for (size_t i = 0; i < 2; i++) {
        OK(ember_embed_tokens(context, TOKENS + 4 * i, parts[i], &parts[i], 1, NULL, other, WIDTH, &n, E));
        CHECK(distance(other, two + i * WIDTH, WIDTH) == 0.0f);
    }
    OK(ember_embed_tokens(context, NULL, 0, NULL, 0, NULL, NULL, 0, &n, E));
    CHECK(n == 0);
    ember_context_free(context);
}

static void tokens_refuse_nonsense(void)
{
    ember_context *context = new_context(encoder, 8, 1);
    float v[4 * WIDTH] = {0};
    size_t n = 0;
    const size_t eight = 8, nine = 9, few[] = {4, 4}, many[] = {4, 6}, huge[] = {SIZE_MAX, 10}, empty[] = {9, 0};
    const uint32_t wrong[] = {1, 101};
    const size_t two = 2;
    FAILS(EMBER_E_INVALID_ARGUMENT, "add up to 8", ember_embed_tokens(context, TOKENS, N, few, 2, NULL, v, 99, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "more than", ember_embed_tokens(context, TOKENS, N, many, 2, NULL, v, 99, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "more than", ember_embed_tokens(context, TOKENS, N, huge, 2, NULL, v, 99, &n, E));
    FAILS(EMBER_E_CONTEXT_FULL, "text 0 has 9", ember_embed_tokens(context, TOKENS, N, empty, 2, NULL, v, 99, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "text 1 is empty",
          ember_embed_tokens(context, TOKENS, 4, (const size_t[]){4, 0}, 2, NULL, v, 99, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "token 1 of text 0",
          ember_embed_tokens(context, wrong, 2, &two, 1, NULL, v, 99, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_embed_tokens(NULL, TOKENS, 8, &eight, 1, NULL, v, 99, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens", ember_embed_tokens(context, NULL, 8, &eight, 1, NULL, v, 99, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "lengths", ember_embed_tokens(context, TOKENS, 8, NULL, 1, NULL, v, 99, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "vectors",
          ember_embed_tokens(context, TOKENS, 8, &eight, 1, NULL, NULL, 99, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_needed",
          ember_embed_tokens(context, TOKENS, 8, &eight, 1, NULL, v, 99, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options",
          ember_embed_tokens(context, TOKENS, 8, &eight, 1, (ember_embed_options *)(void *)encoder, v, 99, &n, E));

    float cut[WIDTH] = {0};
    ember_embed_options *truncate = new_options(EMBER_POOLING_AUTO);
    OK(ember_embed_options_set_truncate(truncate, true, E));
    OK(ember_embed_tokens(context, TOKENS, N, &nine, 1, truncate, cut, WIDTH, &n, E));
    OK(ember_embed_tokens(context, TOKENS, 8, &eight, 1, NULL, v, WIDTH, &n, E));
    CHECK(distance(cut, v, WIDTH) == 0.0f);
    ember_embed_options_free(truncate);

    /* The first numbers of the vector, scaled to length 1 once more. */
    ember_embed_options *shorter = new_options(EMBER_POOLING_AUTO);
    OK(ember_embed_options_set_dimensions(shorter, 5, E));
    OK(ember_embed_tokens(context, TOKENS, 8, &eight, 1, shorter, cut, WIDTH, &n, E));
    CHECK(n == 5);
    float square = 0.0f;
    for (int i = 0; i < 5; i++)
        square += v[i] * v[i];
    for (int i = 0; i < 5; i++)
        CHECK(fabsf(cut[i] - v[i] / sqrtf(square)) < 1e-5f);
    OK(ember_embed_options_set_dimensions(shorter, WIDTH + 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "dimensions",
          ember_embed_tokens(context, TOKENS, 8, &eight, 1, shorter, cut, WIDTH, &n, E));
    OK(ember_embed_options_set_dimensions(shorter, 0, E));
    OK(ember_embed_tokens(context, TOKENS, 8, &eight, 1, shorter, cut, WIDTH, &n, E));
    CHECK(n == WIDTH);
    ember_embed_options_free(shorter);

    const char *text = "a";
    FAILS(EMBER_E_UNSUPPORTED, "tokenizer", ember_embed(context, &text, NULL, 1, NULL, v, 99, &n, E));
    ember_context_free(context);
}

static void texts_to_vectors(void)
{
    static const char *const texts[] = {"Once upon a time", "the sea was calm", "x", "a longer text, with some more words"};
    enum { N_TEXTS = sizeof texts / sizeof *texts };
    static float together[N_TEXTS * TALES_MAX], alone[TALES_MAX], by_ids[TALES_MAX];
    ember_context *context = new_context(tales, 128, 2);
    ember_model_info info = {.struct_size = sizeof info};
    OK(ember_model_info_get(tales, &info, E));
    size_t n = 0, width = info.n_embd, lengths[N_TEXTS];
    for (size_t i = 0; i < N_TEXTS; i++)
        lengths[i] = strlen(texts[i]);
    CHECK(width <= TALES_MAX);
    OK(ember_embed(context, texts, NULL, N_TEXTS, NULL, together, N_TEXTS * width, &n, E));
    CHECK(n == N_TEXTS * width);
    for (size_t i = 0; i < N_TEXTS; i++) {
        uint32_t ids[64];
        size_t n_ids = 0;
        OK(ember_embed(context, &texts[i], &lengths[i], 1, NULL, alone, width, &n, E));
        CHECK(distance(alone, together + i * width, width) == 0.0f);
        OK(ember_model_tokenize(tales, texts[i], NUL, true, false, ids, 64, &n_ids, E));
        OK(ember_embed_tokens(context, ids, n_ids, &n_ids, 1, NULL, by_ids, width, &n, E));
        CHECK(distance(alone, by_ids, width) == 0.0f);
    }
    ember_embed_options *prompted = new_options(EMBER_POOLING_AUTO);
    OK(ember_embed_options_set_prompt(prompted, "queryX", 5, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "\"query\": it has none",
          ember_embed(context, texts, NULL, 1, prompted, alone, width, &n, E));
    OK(ember_embed_options_set_prompt(prompted, "", NUL, E));
    OK(ember_embed(context, texts, NULL, 1, prompted, alone, width, &n, E));
    CHECK(distance(alone, together, width) == 0.0f);
    ember_embed_options_free(prompted);

    lengths[1] = 3; /* "the", not up to the NUL */
    OK(ember_embed(context, texts + 1, lengths + 1, 1, NULL, alone, width, &n, E));
    CHECK(distance(alone, together + width, width) > 1e-3f);

    const char *bad[] = {"fine", "b\xff", NULL};
    FAILS(EMBER_E_UTF8, "texts[1]", ember_embed(context, bad, NULL, 2, NULL, together, 99, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "texts[0]", ember_embed(context, bad + 2, NULL, 1, NULL, together, 99, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "texts", ember_embed(context, NULL, NULL, 1, NULL, together, 99, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_embed(NULL, texts, NULL, 1, NULL, together, 99, &n, E));
    OK(ember_embed(context, NULL, NULL, 0, NULL, NULL, 0, &n, E));
    CHECK(n == 0);
    ember_context_free(context);

    /* Too long for the context, unless it may be cut. */
    context = new_context(tales, 4, 1);
    FAILS(EMBER_E_CONTEXT_FULL, "text 0", ember_embed(context, texts + 3, NULL, 1, NULL, together, width, &n, E));
    ember_embed_options *truncate = new_options(EMBER_POOLING_NONE);
    OK(ember_embed_options_set_truncate(truncate, true, E));
    OK(ember_embed(context, texts + 3, NULL, 1, truncate, together, 4 * width, &n, E));
    CHECK(n == 4 * width);
    ember_embed_options_free(truncate);
    ember_context_free(context);
}

int main(int argc, char **argv)
{
    encoder = load_model(ENCODER);
    tales = load_model(model_path(argc, argv));
    options_refuse_nonsense();
    models_say_what_they_are();
    encoders_embed_only();
    tokens_to_vectors();
    tokens_refuse_nonsense();
    texts_to_vectors();
    ember_model_release(encoder);
    ember_model_release(tales);
    return finish("embed");
}

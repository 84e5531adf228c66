/* Classifiers and rerankers. What the scores are is in tests/it/rank.rs. */
#include "check.h"

#include <math.h>

#define RERANKER "tests/fixtures/rank/bert-rerank.gguf"
#define LABELS "tests/fixtures/rank/bert-labels.gguf"

static ember_context *open_context(const char *path)
{
    ember_model *model = NULL;
    ember_context *context = NULL;
    if (!OK(ember_model_load(path, EMBER_NUL_TERMINATED, NULL, &model, E)))
        exit(1);
    OK(ember_context_new(model, NULL, &context, E));
    ember_model_release(model);
    return context;
}

static void pairs(void)
{
    const char *texts[] = {"the cat ate a fish", "ships sail at noon", "a"};
    const size_t lengths[] = {18, 18, 1};
    float scores[3] = {-1, -1, -1}, again[3] = {0}, raw[3] = {0};
    size_t n = 0;
    ember_context *context = open_context(RERANKER);
    ember_classify_options *options = NULL;
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "scores", ember_rerank(context, "who", 3, texts, NULL, 3, NULL, scores, 2, &n, E));
    CHECK(n == 3 && scores[0] == -1);
    OK(ember_rerank(context, "who", 3, texts, NULL, 3, NULL, scores, 3, &n, E));
    OK(ember_rerank(context, "who", 3, texts, lengths, 3, NULL, again, 3, &n, E));
    CHECK(memcmp(scores, again, sizeof scores) == 0);
    OK(ember_classify_options_new(&options, E));
    OK(ember_classify_options_set_activation(options, EMBER_CLASSIFY_NONE, E));
    OK(ember_rerank(context, "who", 3, texts, NULL, 3, options, raw, 3, &n, E));
    for (int i = 0; i < 3; i++)
        CHECK(fabs(scores[i] - 1 / (1 + exp(-(double)raw[i]))) < 1e-6);
    FAILS(EMBER_E_INVALID_ARGUMENT, "activation", ember_classify_options_set_activation(options, 3, E));
    char longer[200];
    const char *one[] = {longer};
    memset(longer, 'a', sizeof longer);
    for (size_t i = 1; i < sizeof longer; i += 2)
        longer[i] = ' ';
    const size_t its_length[] = {sizeof longer};
    FAILS(EMBER_E_CONTEXT_FULL, "text 0", ember_rerank(context, "who", 3, one, its_length, 1, options, raw, 1, &n, E));
    OK(ember_classify_options_set_truncate(options, true, E));
    OK(ember_rerank(context, "who", 3, one, its_length, 1, options, raw, 1, &n, E));
    OK(ember_classify_options_set_template(options, "{query}{document}", EMBER_NUL_TERMINATED, E));
    OK(ember_classify_options_set_yes_no(options, true, E));
    ember_classify_options_free(options);
    ember_context_free(context);
}

static void labels(void)
{
    const char *texts[] = {"the cat ate a fish", "a"}, *wanted[] = {"bad", "so so", "good"};
    float scores[6] = {0};
    size_t n = 0;
    ember_model *model = NULL;
    OK(ember_model_load(LABELS, EMBER_NUL_TERMINATED, NULL, &model, E));
    OK(ember_model_label_count(model, &n, E));
    CHECK(n == 3);
    for (size_t i = 0; i < 3; i++) {
        uint8_t name[16];
        size_t len = 0;
        OK(ember_model_label(model, i, name, sizeof name, &len, E));
        CHECK(len == strlen(wanted[i]) && memcmp(name, wanted[i], len) == 0);
    }
    FAILS(EMBER_E_NOT_FOUND, "3", ember_model_label(model, 3, NULL, 0, &n, E));
    ember_model_info info = {.struct_size = sizeof info};
    OK(ember_model_info_get(model, &info, E));
    CHECK(info.pooling == EMBER_POOLING_RANK && info.causal == 0);
    ember_model_release(model);

    ember_context *context = open_context(LABELS);
    OK(ember_classify(context, texts, NULL, 2, NULL, scores, 6, &n, E));
    CHECK(n == 6 && fabsf(scores[0] + scores[1] + scores[2] - 1) < 1e-5f && fabsf(scores[3] + scores[4] + scores[5] - 1) < 1e-5f);
    FAILS(EMBER_E_UNSUPPORTED, "ember_classify", ember_rerank(context, "a", 1, texts, NULL, 2, NULL, scores, 6, &n, E));
    FAILS(EMBER_E_UNSUPPORTED, "scores texts", ember_embed(context, texts, NULL, 2, NULL, scores, 6, &n, E));
    ember_context_free(context);
}

static void models_without_a_head(const char *path)
{
    const char *texts[] = {"a"};
    float score = 0;
    size_t n = 0;
    ember_context *context = open_context(path);
    FAILS(EMBER_E_UNSUPPORTED, "no head", ember_classify(context, texts, NULL, 1, NULL, &score, 1, &n, E));
    FAILS(EMBER_E_UNSUPPORTED, "no head", ember_rerank(context, "a", 1, texts, NULL, 1, NULL, &score, 1, &n, E));
    ember_context_free(context);
}

int main(int argc, char **argv)
{
    pairs();
    labels();
    models_without_a_head(model_path(argc, argv));
    return finish("rank");
}

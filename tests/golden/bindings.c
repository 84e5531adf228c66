/* Writes what every language's binding must give for the bundled model as JSON to standard output: bindings.json, made by
 * bindings.sh. What is asked for stands in the tables below; the answers come from the library. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ember.h"

enum { MAX_TOKENS = 128, MAX_STAGES = 3 };

/* A sampler's stage; the name is that of the ember_sampler_add_ function. */
struct stage {
    const char *name;
    double value;
};

/* A generation in a fresh context. Without a stage the sampler is NULL, which is greedy. */
struct generation {
    const char *name;
    const char *prompt;
    unsigned max_tokens;
    unsigned seed;
    struct stage stages[MAX_STAGES];
    const char *stop;
};

/* Chosen so that the tokens are the same at every instruction-set level and for every type of the KV cache, which move the
 * logits much more than another order of additions does. */
static const struct generation GENERATIONS[] = {
    {"greedy", "Once upon a time", 32, 0, {{0}}, NULL},
    {"temperature", "Once upon a time there was a king", 20, 12, {{"temperature", 0.5}}, NULL},
    {"top_k", "The old lighthouse", 24, 118, {{"top_k", 40}, {"temperature", 1}}, NULL},
    {"top_k_top_p", "The wolf said", 24, 6, {{"top_k", 40}, {"top_p", 0.9375}, {"temperature", 0.5}}, NULL},
    {"stop", "Once upon a time", 64, 0, {{0}}, "very good fo"},
    {"unicode", "Gr\xc3\xbc\xc3\x9f" "e aus dem M\xc3\xa4rchenwald, \xe6\x9c\x88\xe3\x81\xae\xe6\xb5\xb7 \xf0\x9f\x8c\x99! The king",
     16, 24, {{"top_p", 0.875}, {"temperature", 0.5}}, NULL},
    {"max_tokens", "The wolf said", 5, 0, {{0}}, NULL},
    {"none", "The wolf said", 0, 0, {{0}}, NULL},
};

static const char *const TEXTS[] = {"The sea was calm, and the moon was bright.", "A bright moon stood over the quiet sea."};

static const char SCORE_PROMPT[] = "The sea was calm, and the moon";
static const char SCORE_CONTINUATION[] = " was shining over the water.";

/* A generation that goes on where its sequence is full. The bundled model's positions are learned and cannot be moved, so it
 * is one of the fixtures', which has no tokenizer. Chosen as the generations above. */
static const char SHIFT_MODEL[] = "tests/fixtures/models/llama-tied-f32.gguf";
static const uint32_t SHIFT_PROMPT[] = {4, 72, 41, 96, 2, 9, 91, 65};
enum { SHIFT_N_CTX = 32, SHIFT_N_TOKENS = 64, SHIFT_N_KEEP = 4, SHIFT_N_DROP = 12 };

static const char *const FINISH[] = {"max_tokens", "eog", "stopped", "context_full", "stop_string", "cancelled"};

/* Ends the program with Ember's sentence, unless there is none. */
static void check(ember_status status, ember_error **err)
{
    if (status == EMBER_OK)
        return;
    fprintf(stderr, "%s: %s\n", ember_status_name(status), ember_error_message(*err));
    exit(1);
}

static void print_string(const char *text, size_t len)
{
    putchar('"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void print_text(const char *name, const char *text)
{
    printf("\"%s\": ", name);
    print_string(text, strlen(text));
}

static void print_ids(const char *name, const uint32_t *ids, size_t n)
{
    printf("\"%s\": [", name);
    for (size_t i = 0; i < n; i++)
        printf("%s%u", i == 0 ? "" : ", ", (unsigned)ids[i]);
    putchar(']');
}

static void print_floats(const float *values, size_t n)
{
    putchar('[');
    for (size_t i = 0; i < n; i++)
        printf("%s%.5f", i == 0 ? "" : ", ", (double)values[i] + 0.0);
    putchar(']');
}

/* The sampler of a generation, NULL without stages; prints it too. */
static ember_sampler *make_sampler(const struct generation *g)
{
    ember_error *err = NULL;
    ember_sampler *sampler = NULL;
    if (g->stages[0].name == NULL) {
        printf("      \"sampler\": null,\n");
        return NULL;
    }
    check(ember_sampler_new(g->seed, &sampler, &err), &err);
    printf("      \"sampler\": {\"seed\": %u, \"stages\": [", g->seed);
    for (int i = 0; i < MAX_STAGES && g->stages[i].name != NULL; i++) {
        const struct stage *stage = &g->stages[i];
        printf("%s{\"stage\": \"%s\", \"value\": %g}", i == 0 ? "" : ", ", stage->name, stage->value);
        if (strcmp(stage->name, "top_k") == 0)
            check(ember_sampler_add_top_k(sampler, (uint32_t)stage->value, &err), &err);
        else if (strcmp(stage->name, "top_p") == 0)
            check(ember_sampler_add_top_p(sampler, (float)stage->value, &err), &err);
        else
            check(ember_sampler_add_temperature(sampler, (float)stage->value, &err), &err);
    }
    printf("]},\n");
    return sampler;
}

static void print_prompt_tokens(const ember_model *model, const char *prompt)
{
    ember_error *err = NULL;
    uint32_t tokens[MAX_TOKENS];
    size_t n = 0;
    check(ember_model_tokenize(model, prompt, EMBER_NUL_TERMINATED, true, false, tokens, MAX_TOKENS, &n, &err), &err);
    printf("      ");
    print_ids("prompt_tokens", tokens, n);
    printf(",\n");
}

static void run_generation(const ember_model *model, const struct generation *g)
{
    ember_error *err = NULL;
    ember_context *context = NULL;
    ember_generate_options *options = NULL;
    ember_generator *generator = NULL;
    uint32_t tokens[MAX_TOKENS];
    size_t n_tokens = 0, text_len = 0;
    char text[MAX_TOKENS * 32];

    printf("    {\n      ");
    print_text("name", g->name);
    printf(",\n      ");
    print_text("prompt", g->prompt);
    printf(",\n");
    print_prompt_tokens(model, g->prompt);
    printf("      \"max_tokens\": %u,\n      \"stops\": [", g->max_tokens);
    if (g->stop != NULL)
        print_string(g->stop, strlen(g->stop));
    printf("],\n");
    ember_sampler *sampler = make_sampler(g);

    check(ember_context_new(model, NULL, &context, &err), &err);
    check(ember_generate_options_new(&options, &err), &err);
    check(ember_generate_options_set_max_tokens(options, g->max_tokens, &err), &err);
    if (g->stop != NULL)
        check(ember_generate_options_add_stop(options, g->stop, EMBER_NUL_TERMINATED, &err), &err);
    check(ember_generator_new(context, g->prompt, EMBER_NUL_TERMINATED, options, sampler, &generator, &err), &err);
    ember_event event = {.struct_size = sizeof event, .kind = EMBER_EVENT_TOKEN};
    while (event.kind != EMBER_EVENT_END) {
        check(ember_generator_next(generator, &event, &err), &err);
        if (text_len + event.text_len > sizeof text) {
            fprintf(stderr, "%s: the text is too long\n", g->name);
            exit(1);
        }
        memcpy(text + text_len, event.text, event.text_len);
        text_len += event.text_len;
        if (event.kind == EMBER_EVENT_TOKEN)
            tokens[n_tokens++] = event.token;
    }
    printf("      ");
    print_ids("tokens", tokens, n_tokens);
    printf(",\n      \"text\": ");
    print_string(text, text_len);
    printf(",\n      \"finish\": \"%s\"\n    }", FINISH[event.finish_reason]);

    ember_generator_free(generator);
    ember_generate_options_free(options);
    ember_context_free(context);
    ember_sampler_free(sampler);
}

static void run_embeddings(const ember_model *model)
{
    ember_error *err = NULL;
    ember_context *context = NULL;
    ember_model_info info = {.struct_size = sizeof info};
    size_t n = 0;
    double cosine = 0;
    check(ember_model_info_get(model, &info, &err), &err);
    check(ember_context_new(model, NULL, &context, &err), &err);
    float *vectors = calloc(2 * (size_t)info.n_embd, sizeof *vectors);
    check(ember_embed(context, TEXTS, NULL, 2, NULL, vectors, 2 * (size_t)info.n_embd, &n, &err), &err);
    printf("  \"embeddings\": {\n    \"texts\": [\n      ");
    print_string(TEXTS[0], strlen(TEXTS[0]));
    printf(",\n      ");
    print_string(TEXTS[1], strlen(TEXTS[1]));
    printf("\n    ],\n    \"n_embd\": %u,\n    \"vectors\": [\n      ", (unsigned)info.n_embd);
    print_floats(vectors, info.n_embd);
    printf(",\n      ");
    print_floats(vectors + info.n_embd, info.n_embd);
    for (size_t i = 0; i < info.n_embd; i++)
        cosine += (double)vectors[i] * (double)vectors[info.n_embd + i];
    printf("\n    ],\n    \"cosine\": %.5f\n  }", cosine);
    free(vectors);
    ember_context_free(context);
}

static void run_score(const ember_model *model)
{
    ember_error *err = NULL;
    ember_context *context = NULL;
    ember_token_score scores[MAX_TOKENS];
    ember_score_result result = {.struct_size = sizeof result};
    size_t n = 0;
    check(ember_context_new(model, NULL, &context, &err), &err);
    check(ember_score(context, SCORE_PROMPT, EMBER_NUL_TERMINATED, SCORE_CONTINUATION, EMBER_NUL_TERMINATED, NULL, scores,
                      MAX_TOKENS, &n, &result, &err),
          &err);
    printf("  \"score\": {\n    ");
    print_text("prompt", SCORE_PROMPT);
    printf(",\n    ");
    print_text("continuation", SCORE_CONTINUATION);
    printf(",\n    \"tokens\": [\n");
    for (size_t i = 0; i < n; i++)
        printf("      {\"token\": %u, \"logprob\": %.5f, \"rank\": %u}%s\n", (unsigned)scores[i].token,
               (double)scores[i].logprob, (unsigned)scores[i].rank, i + 1 < n ? "," : "");
    printf("    ],\n    \"logprob\": %.5f,\n    \"is_greedy\": %s\n  }", result.logprob,
           result.is_greedy != 0 ? "true" : "false");
    ember_context_free(context);
}

static void run_shift(void)
{
    ember_error *err = NULL;
    ember_model *model = NULL;
    ember_context_options *context_options = NULL;
    ember_context *context = NULL;
    ember_generate_options *options = NULL;
    ember_generator *generator = NULL;
    uint32_t tokens[MAX_TOKENS];
    size_t n_tokens = 0;
    const size_t n_prompt = sizeof SHIFT_PROMPT / sizeof *SHIFT_PROMPT;
    check(ember_model_load(SHIFT_MODEL, EMBER_NUL_TERMINATED, NULL, &model, &err), &err);
    check(ember_context_options_new(&context_options, &err), &err);
    check(ember_context_options_set_n_ctx(context_options, SHIFT_N_CTX, &err), &err);
    check(ember_context_new(model, context_options, &context, &err), &err);
    check(ember_generate_options_new(&options, &err), &err);
    check(ember_generate_options_set_max_tokens(options, SHIFT_N_TOKENS, &err), &err);
    check(ember_generate_options_set_shift(options, SHIFT_N_KEEP, SHIFT_N_DROP, &err), &err);
    check(ember_generator_new_tokens(context, SHIFT_PROMPT, n_prompt, options, NULL, &generator, &err), &err);
    ember_event event = {.struct_size = sizeof event, .kind = EMBER_EVENT_TOKEN};
    while (event.kind != EMBER_EVENT_END) {
        check(ember_generator_next(generator, &event, &err), &err);
        if (event.kind == EMBER_EVENT_TOKEN)
            tokens[n_tokens++] = event.token;
    }
    ember_generate_result usage = {.struct_size = sizeof usage};
    check(ember_generator_usage(generator, &usage, &err), &err);
    printf("  \"shift\": {\n    ");
    print_text("model", SHIFT_MODEL);
    printf(",\n    \"n_ctx\": %d,\n    ", SHIFT_N_CTX);
    print_ids("prompt_tokens", SHIFT_PROMPT, n_prompt);
    printf(",\n    \"max_tokens\": %d,\n    \"n_keep\": %d,\n    \"n_drop\": %d,\n    ",
           SHIFT_N_TOKENS, SHIFT_N_KEEP, SHIFT_N_DROP);
    print_ids("tokens", tokens, n_tokens);
    printf(",\n    \"finish\": \"%s\",\n    \"n_shifted\": %u\n  }", FINISH[usage.finish_reason], (unsigned)usage.n_shifted);
    ember_generator_free(generator);
    ember_generate_options_free(options);
    ember_context_options_free(context_options);
    ember_context_free(context);
    ember_model_release(model);
}

int main(int argc, char **argv)
{
    ember_error *err = NULL;
    ember_model *model = NULL;
    if (argc != 2) {
        fprintf(stderr, "usage: %s MODEL\n", argv[0]);
        return 2;
    }
    check(ember_model_load(argv[1], EMBER_NUL_TERMINATED, NULL, &model, &err), &err);
    printf("{\n  ");
    print_text("model", argv[1]);
    printf(",\n  \"generate\": [\n");
    size_t n = sizeof GENERATIONS / sizeof *GENERATIONS;
    for (size_t i = 0; i < n; i++) {
        run_generation(model, &GENERATIONS[i]);
        printf(i + 1 < n ? ",\n" : "\n");
    }
    printf("  ],\n");
    run_embeddings(model);
    printf(",\n");
    run_score(model);
    printf(",\n");
    run_shift();
    printf("\n}\n");
    ember_model_release(model);
    return 0;
}

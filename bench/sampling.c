/* What choosing a token takes: chains of stages on the logits that a model gives after each token of a text. */
#define _XOPEN_SOURCE 700

#include <time.h>

#include "common.h"

enum { MOST_TOKENS = 64, MOST_REPEATS = 1000 };

static const char TEXT[] =
    "The old lighthouse keeper had not spoken to anyone in eleven years, and so, when the boat came in, he did not know what to "
    "say. It was a small boat, painted green, and there was a woman in it.";

/* Stages, in the order in which a chain has them; 0: not this one. */
struct chain {
    const char *name;
    bool penalties;
    float min_p;
    uint32_t top_k;
    float top_p, temperature;
};

static const struct chain CHAINS[] = {
    {"temperature 0.8", false, 0, 0, 0, 0.8f},
    {"top-k 40, top-p 0.95, temperature 0.8", false, 0, 40, 0.95f, 0.8f},
    {"penalties, top-k 40, top-p 0.95, temperature 0.8", true, 0, 40, 0.95f, 0.8f},
    {"top-p 0.95, temperature 0.8", false, 0, 0, 0.95f, 0.8f},
    {"min-p 0.05, temperature 0.8", false, 0.05f, 0, 0, 0.8f},
    {"greedy", false, 0, 0, 0, 0},
};
enum { N_CHAINS = sizeof CHAINS / sizeof *CHAINS };

struct bench {
    const char *program, *model_path;
    uint32_t n_repeats;
    ember_error *err;
    size_t n_vocab, n_tokens;
    uint32_t tokens[MOST_TOKENS];
    /* [n_tokens, n_vocab] */
    float *logits;
};

static void print_help(const char *program)
{
    printf("Measures what choosing a token takes, one thread.\n"
           "\n"
           "Usage: %s -m MODEL [options]\n"
           "\n"
           "  -m MODEL    GGUF file\n"
           "  -r N        times that each token of the text is chosen (default: 20)\n"
           "  -h, --help  this text\n"
           "\n"
           "A line for each chain of stages: microseconds for a token, the median.\n",
           program);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Ends the program unless `status` is success. */
static void must(struct bench *b, ember_status status)
{
    if (status != EMBER_OK)
        exit(refused(b->program, b->err));
}

/* Fills `logits`. */
static void run_model(struct bench *b)
{
    ember_model *model = NULL;
    ember_context *context = NULL;
    ember_context_options *options = NULL;
    ember_model_info info = {.struct_size = sizeof info};
    uint8_t want[MOST_TOKENS];
    memset(want, 1, sizeof want);
    must(b, ember_model_load(b->model_path, EMBER_NUL_TERMINATED, NULL, &model, &b->err));
    must(b, ember_model_info_get(model, &info, &b->err));
    b->n_vocab = info.n_vocab;
    must(b, ember_model_tokenize(model, TEXT, EMBER_NUL_TERMINATED, true, false, b->tokens, MOST_TOKENS, &b->n_tokens, &b->err));
    must(b, ember_context_options_new(&options, &b->err));
    must(b, ember_context_options_set_n_ctx(options, MOST_TOKENS, &b->err));
    must(b, ember_context_new(model, options, &context, &b->err));
    must(b, ember_context_decode(context, b->tokens, NULL, NULL, want, b->n_tokens, &b->err));
    b->logits = grow(NULL, b->n_tokens * b->n_vocab, sizeof *b->logits);
    for (size_t i = 0; i < b->n_tokens; i++) {
        const float *row = NULL;
        must(b, ember_context_logits(context, i, &row, &b->err));
        memcpy(b->logits + i * b->n_vocab, row, b->n_vocab * sizeof *row);
    }
    ember_context_options_free(options);
    ember_context_free(context);
    ember_model_release(model);
}

static ember_sampler *new_sampler(struct bench *b, const struct chain *chain)
{
    ember_sampler *sampler = NULL;
    must(b, ember_sampler_new(1, &sampler, &b->err));
    if (chain->penalties)
        must(b, ember_sampler_add_penalties(sampler, 64, 1.1f, 0, 0, &b->err));
    if (chain->min_p > 0)
        must(b, ember_sampler_add_min_p(sampler, chain->min_p, &b->err));
    if (chain->top_k > 0)
        must(b, ember_sampler_add_top_k(sampler, chain->top_k, &b->err));
    if (chain->top_p > 0)
        must(b, ember_sampler_add_top_p(sampler, chain->top_p, &b->err));
    must(b, ember_sampler_add_temperature(sampler, chain->temperature, &b->err));
    return sampler;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the microseconds for a token. */
static double measure(struct bench *b, const struct chain *chain)
{
    static double times[MOST_TOKENS * MOST_REPEATS];
    size_t n = 0;
    ember_sampler *sampler = new_sampler(b, chain);
    for (uint32_t r = 0; r < b->n_repeats; r++)
        for (size_t i = 0; i < b->n_tokens; i++) {
            uint32_t token = 0;
            const double begin = now_us();
            must(b, ember_sampler_sample(sampler, b->logits + i * b->n_vocab, b->n_vocab, &token, &b->err));
            times[n++] = now_us() - begin;
            must(b, ember_sampler_accept(sampler, b->tokens[i], &b->err));
        }
    ember_sampler_free(sampler);
    qsort(times, n, sizeof *times, ascending);
    return times[n / 2];
}

int main(int argc, char **argv)
{
    struct bench b = {.program = argv[0], .n_repeats = 20};
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            print_help(argv[0]);
            return 0;
        } else if (strcmp(arg, "-m") == 0)
            b.model_path = option_value(argc, argv, &i);
        else if (strcmp(arg, "-r") == 0)
            b.n_repeats = (uint32_t)option_unsigned(argc, argv, &i, MOST_REPEATS);
        else
            usage_error(argv[0], "there is no option \"%s\"", arg);
    }
    if (b.model_path == NULL || b.n_repeats == 0)
        usage_error(argv[0], "the option -m MODEL is needed, and -r must be at least 1");
    run_model(&b);
    printf("%zu tokens in the vocabulary, after %zu of a text\n", b.n_vocab, b.n_tokens);
    for (size_t i = 0; i < N_CHAINS; i++)
        printf("%-50s %8.1f us\n", CHAINS[i].name, measure(&b, &CHAINS[i]));
    free(b.logits);
    return written(argv[0], stdout, "standard output") ? EXIT_SUCCESS : EXIT_REFUSED;
}

/* What running requests together is worth: tokens per second of 1, 2, 4… parallel requests, and the time to the first token of a
 * prompt whose beginning another request has had before. */
#define _XOPEN_SOURCE 700

#include <time.h>

#include "common.h"

enum { MOST_PARALLEL = 256, MOST_REPEATS = 64, N_SUFFIX = 16, N_PROMPT = 16 };

/* What the command line asks for, and what follows from it. */
struct bench {
    const char *program, *model_path;
    uint32_t n_threads, n_parallel, n_tokens, n_prefix, n_repeats;
    ember_model *model;
    ember_error *err;
    /* NULL: greedy. */
    ember_sampler *sampler;
    uint32_t n_vocab;
    uint64_t random;
    uint32_t *ids;
};

static void print_help(const char *program)
{
    printf("Measures an engine: requests that run together, and prefixes that they share.\n"
           "\n"
           "Usage: %s -m MODEL [options]\n"
           "\n"
           "  -m MODEL       GGUF file\n"
           "  -t THREADS     threads; 0: one for each core (default: 0)\n"
           "  -b N           most requests in parallel (default: 8)\n"
           "  -n N           tokens of each request (default: 64)\n"
           "  -p N           tokens of the prefix that prompts share (default: 1000)\n"
           "  -r N           repetitions, in turns; medians are printed (default: 5)\n"
           "  --sampled      tokens are drawn (top-k 40, top-p 0.95, temperature 0.8), not the likeliest taken\n"
           "  -h, --help     this text\n",
           program);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Ends the program unless `status` is success. */
static void must(struct bench *b, ember_status status)
{
    if (status != EMBER_OK)
        exit(refused(b->program, b->err));
}

/* Writes `n` random tokens (SplitMix64: any will do). */
static void fill_random(struct bench *b, uint32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t x = b->random += 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        ids[i] = (uint32_t)((x ^ x >> 27) % b->n_vocab);
    }
}

static ember_engine *new_engine(struct bench *b, uint32_t n_parallel)
{
    ember_engine_options *options = NULL;
    ember_context_options *context = NULL;
    ember_engine *engine = NULL;
    const uint32_t n_ctx = b->n_prefix + N_SUFFIX + N_PROMPT + b->n_tokens;
    must(b, ember_context_options_new(&context, &b->err));
    must(b, ember_context_options_set_n_ctx(context, n_ctx, &b->err));
    must(b, ember_context_options_set_n_threads(context, b->n_threads, &b->err));
    must(b, ember_engine_options_new(&options, &b->err));
    must(b, ember_engine_options_set_context_options(options, context, &b->err));
    must(b, ember_engine_options_set_n_parallel(options, n_parallel, &b->err));
    must(b, ember_engine_new(b->model, options, &engine, &b->err));
    ember_engine_options_free(options);
    ember_context_options_free(context);
    return engine;
}

static ember_request *submit(struct bench *b, ember_engine *engine, uint32_t n_prompt, uint32_t n_tokens)
{
    ember_generate_options *options = NULL;
    ember_request *request = NULL;
    must(b, ember_generate_options_new(&options, &b->err));
    must(b, ember_generate_options_set_max_tokens(options, n_tokens, &b->err));
    must(b, ember_generate_options_set_ignore_eog(options, true, &b->err));
    must(b, ember_engine_submit_tokens(engine, b->ids, n_prompt, options, b->sampler, NULL, NULL, &request, &b->err));
    ember_generate_options_free(options);
    return request;
}

static void make_sampler(struct bench *b)
{
    must(b, ember_sampler_new(1, &b->sampler, &b->err));
    must(b, ember_sampler_add_top_k(b->sampler, 40, &b->err));
    must(b, ember_sampler_add_top_p(b->sampler, 0.95f, &b->err));
    must(b, ember_sampler_add_temperature(b->sampler, 0.8f, &b->err));
}

/* Tokens per second of `n` requests that run together, from when all have their first token on. */
static double together(struct bench *b, ember_engine *engine, uint32_t n)
{
    ember_request *requests[MOST_PARALLEL];
    ember_event event = {.struct_size = sizeof event};
    for (uint32_t i = 0; i < n; i++) {
        fill_random(b, b->ids, N_PROMPT);
        requests[i] = submit(b, engine, N_PROMPT, b->n_tokens);
    }
    for (uint32_t i = 0; i < n; i++)
        must(b, ember_request_next(requests[i], EMBER_FOREVER, &event, &b->err));
    const uint64_t begin = now_ns();
    ember_engine_metrics before = {.struct_size = sizeof before}, after = before;
    must(b, ember_engine_metrics_get(engine, &before, &b->err));
    for (bool more = true; more;)
        must(b, ember_engine_step(engine, 0, &more, &b->err));
    const uint64_t end = now_ns();
    must(b, ember_engine_metrics_get(engine, &after, &b->err));
    for (uint32_t i = 0; i < n; i++)
        ember_request_free(requests[i]);
    return (double)(after.n_generated - before.n_generated) / ((double)(end - begin) / 1e9);
}

/* Seconds from the submission of the prompt in `ids` to its first token. */
static double first_token(struct bench *b, ember_engine *engine)
{
    ember_event event = {.struct_size = sizeof event};
    const uint64_t begin = now_ns();
    ember_request *request = submit(b, engine, b->n_prefix + N_SUFFIX, 1);
    must(b, ember_request_next(request, EMBER_FOREVER, &event, &b->err));
    const uint64_t end = now_ns();
    ember_request_free(request);
    return (double)(end - begin) / 1e9;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, ascending);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void measure_together(struct bench *b)
{
    static double speed[16][MOST_REPEATS];
    uint32_t n_sizes = 0;
    ember_engine *engine = new_engine(b, b->n_parallel);
    for (uint32_t n = 1; n <= b->n_parallel; n *= 2)
        together(b, engine, n), n_sizes++;
    for (uint32_t r = 0; r < b->n_repeats; r++)
        for (uint32_t k = 0; k < n_sizes; k++)
            speed[k][r] = together(b, engine, 1u << k);
    ember_engine_free(engine);
    const double one = median(speed[0], b->n_repeats);
    for (uint32_t k = 0; k < n_sizes; k++) {
        const double all = median(speed[k], b->n_repeats);
        printf("%4u parallel  %8.1f tokens/s   %5.2f of one\n", 1u << k, all, all / one);
    }
}

static void measure_prefix(struct bench *b)
{
    static double cold[MOST_REPEATS], shared[MOST_REPEATS];
    for (uint32_t r = 0; r < b->n_repeats; r++) {
        ember_engine *engine = new_engine(b, 2);
        fill_random(b, b->ids, b->n_prefix + N_SUFFIX);
        cold[r] = first_token(b, engine);
        fill_random(b, b->ids + b->n_prefix, N_SUFFIX);
        shared[r] = first_token(b, engine);
        ember_engine_free(engine);
    }
    const double before = median(cold, b->n_repeats), after = median(shared, b->n_repeats);
    printf("prefix of %u   %.2f ms to the first token, %.2f when another had it: %.3f\n", b->n_prefix, before * 1e3,
           after * 1e3, after / before);
}

int main(int argc, char **argv)
{
    struct bench b = {.program = argv[0], .n_parallel = 8, .n_tokens = 64, .n_prefix = 1000, .n_repeats = 5};
    bool sampled = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            print_help(argv[0]);
            return 0;
        } else if (strcmp(arg, "-m") == 0)
            b.model_path = option_value(argc, argv, &i);
        else if (strcmp(arg, "-t") == 0)
            b.n_threads = (uint32_t)option_unsigned(argc, argv, &i, 512);
        else if (strcmp(arg, "-b") == 0)
            b.n_parallel = (uint32_t)option_unsigned(argc, argv, &i, MOST_PARALLEL);
        else if (strcmp(arg, "-n") == 0)
            b.n_tokens = (uint32_t)option_unsigned(argc, argv, &i, 4096);
        else if (strcmp(arg, "-p") == 0)
            b.n_prefix = (uint32_t)option_unsigned(argc, argv, &i, 65536);
        else if (strcmp(arg, "-r") == 0)
            b.n_repeats = (uint32_t)option_unsigned(argc, argv, &i, MOST_REPEATS);
        else if (strcmp(arg, "--sampled") == 0)
            sampled = true;
        else
            usage_error(argv[0], "there is no option \"%s\"", arg);
    }
    if (b.model_path == NULL)
        usage_error(argv[0], "the option -m MODEL is needed");
    if (b.n_parallel == 0 || b.n_tokens < 2 || b.n_repeats == 0)
        usage_error(argv[0], "-b and -r must be at least 1, -n at least 2");
    ember_model_info info = {.struct_size = sizeof info};
    must(&b, ember_model_load(b.model_path, EMBER_NUL_TERMINATED, NULL, &b.model, &b.err));
    must(&b, ember_model_info_get(b.model, &info, &b.err));
    b.n_vocab = info.n_vocab;
    b.ids = malloc((b.n_prefix + N_SUFFIX + N_PROMPT) * sizeof *b.ids);
    if (b.ids == NULL)
        return EXIT_REFUSED;
    if (sampled)
        make_sampler(&b);
    measure_together(&b);
    if (b.n_prefix > 0)
        measure_prefix(&b);
    free(b.ids);
    ember_sampler_free(b.sampler);
    ember_model_release(b.model);
    return 0;
}

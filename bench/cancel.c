/* How long calls go on after they were cancelled: another thread cancels a token at a random moment of a call, and the
 * time until the call has returned is measured, many times over. */
#define _XOPEN_SOURCE 700

#include <pthread.h>
#include <time.h>

#include "common.h"

enum { MOST_TOKENS = 2048, N_DECODE = 64, N_WHOLE = 5, LOADED_AT_A_TIME = 1 << 19 };

/* What the command line asks for. */
struct settings {
    const char *model;
    const char *only; /* what the kinds of call begin with; NULL: all */
    uint32_t n_cancels;
    uint32_t n_threads;
    uint32_t n_batch;
};

/* Everything that the calls need. */
struct bench {
    struct settings settings;
    const char *program;
    ember_cancel_token *token;
    ember_model_options *model_options;
    ember_model *model;
    ember_model_info info;
    ember_context *context;
    uint32_t n_ctx;
    ember_generate_options *options;
    float *vector;
    uint32_t ids[MOST_TOKENS];
};

/* A kind of call: it gives whether it was cancelled. `n_tokens` is how many it is about. */
struct call {
    const char *name;
    int (*make)(struct bench *b, uint32_t n_tokens);
    uint32_t n_tokens;
};

/* A moment, by the clock and by the work that the calling thread has done. */
struct moment {
    uint64_t wall, cpu;
};

/* Cancels once, when the calling thread has worked until `when` by its own clock: a moment of the work and not of the day, so
 * that other programs do not move it. The clocks are read right before. */
struct canceller {
    const ember_cancel_token *token;
    clockid_t caller;
    uint64_t when;
    struct moment at;
    pthread_mutex_t lock;
    int returned; /* the call */
};

static void print_help(const char *program)
{
    printf("Measures how long calls go on after they were cancelled at a random moment.\n"
           "\n"
           "Usage: %s -m MODEL [options]\n"
           "\n"
           "  -m MODEL       GGUF file\n"
           "  -n N           cancelled calls of each kind (default: 200)\n"
           "  -t THREADS     threads; 0: one for each core (default: 0)\n"
           "  --only KIND    the kinds that begin so: load, prefill, \"prefill 512\", decode or embed\n"
           "  --n-batch N    rows run through the model at a time (default: 256)\n"
           "  -h, --help     this text\n"
           "\n"
           "A line for each kind of call: how long it takes when nobody cancels it (median of %d), how long the step takes\n"
           "after which it looks at the token (one layer of one batch, half a megabyte of the file), and the time from\n"
           "cancelling to the return: the median, what 99 %% stay below, and the longest. Then the same in time of the\n"
           "processor that the calling thread used, which other programs do not lengthen. Calls that were over before they\n"
           "could be cancelled are counted and made again.\n",
           program, N_WHOLE);
}

static struct settings read_command_line(int argc, char **argv)
{
    struct settings s = {.model = NULL, .n_cancels = 200, .n_batch = 256};
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            print_help(argv[0]);
            exit(written(argv[0], stdout, "standard output") ? EXIT_SUCCESS : EXIT_REFUSED);
        } else if (strcmp(arg, "-m") == 0)
            s.model = option_value(argc, argv, &i);
        else if (strcmp(arg, "-n") == 0)
            s.n_cancels = (uint32_t)option_unsigned(argc, argv, &i, 1000000);
        else if (strcmp(arg, "--only") == 0)
            s.only = option_value(argc, argv, &i);
        else if (strcmp(arg, "-t") == 0)
            s.n_threads = (uint32_t)option_unsigned(argc, argv, &i, 512);
        else if (strcmp(arg, "--n-batch") == 0)
            s.n_batch = (uint32_t)option_unsigned(argc, argv, &i, 65536);
        else
            usage_error(argv[0], "there is no option %s", arg);
    }
    if (s.model == NULL)
        usage_error(argv[0], "a model is needed (-m)");
    if (s.n_cancels == 0 || s.n_batch == 0)
        usage_error(argv[0], "the options -n and --n-batch take a number above 0");
    return s;
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now = {0, 0};
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct moment now(clockid_t caller)
{
    struct moment m = {read_clock(CLOCK_MONOTONIC), read_clock(caller)};
    return m;
}

/* Ends the program over what should not fail. */
static void must(const struct bench *b, ember_status status, ember_error **err)
{
    if (status != EMBER_OK)
        exit(refused(b->program, *err));
}

/* Whether a call was cancelled; ends the program over any other failure. */
static int cancelled(const struct bench *b, ember_status status, ember_error **err)
{
    if (status != EMBER_E_CANCELLED)
        must(b, status, err);
    ember_error_free(*err);
    return status == EMBER_E_CANCELLED;
}

static int load(struct bench *b, uint32_t n_tokens)
{
    ember_model *model = NULL;
    ember_error *err = NULL;
    (void)n_tokens;
    const ember_status status = ember_model_load(b->settings.model, EMBER_NUL_TERMINATED, b->model_options, &model, &err);
    ember_model_release(model);
    return cancelled(b, status, &err);
}

static int prefill(struct bench *b, uint32_t n_tokens)
{
    ember_error *err = NULL;
    return cancelled(b, ember_context_decode(b->context, b->ids, NULL, NULL, NULL, n_tokens, &err), &err);
}

static int32_t ignore(const ember_event *event, void *user_data)
{
    (void)event, (void)user_data;
    return 0;
}

static int decode(struct bench *b, uint32_t n_tokens)
{
    ember_generate_result result = {.struct_size = sizeof result};
    ember_error *err = NULL;
    must(b, ember_generate_options_set_max_tokens(b->options, n_tokens, &err), &err);
    must(b, ember_generate_tokens(b->context, b->ids, 1, b->options, NULL, ignore, NULL, &result, &err), &err);
    return result.finish_reason == EMBER_FINISH_CANCELLED;
}

static int embed(struct bench *b, uint32_t n_tokens)
{
    const size_t length = n_tokens;
    size_t n = 0;
    ember_error *err = NULL;
    return cancelled(b,
                     ember_embed_tokens(b->context, b->ids, length, &length, 1, NULL, b->vector, b->info.n_embd, &n, &err),
                     &err);
}

/* How often a call looks at the token: before each layer of each batch, or at each half megabyte of the file. */
static double steps(const struct bench *b, const struct call *call)
{
    if (call->make == load)
        return (double)b->info.file_size / LOADED_AT_A_TIME;
    if (call->make == decode)
        return (double)b->info.n_layer * call->n_tokens;
    return (double)b->info.n_layer * ((call->n_tokens + b->settings.n_batch - 1) / b->settings.n_batch);
}

static int has_returned(struct canceller *c)
{
    pthread_mutex_lock(&c->lock);
    const int returned = c->returned;
    pthread_mutex_unlock(&c->lock);
    return returned;
}

static void *cancel_later(void *user_data)
{
    struct canceller *c = user_data;
    for (;;) {
        const uint64_t worked = read_clock(c->caller);
        if (worked >= c->when)
            break;
        if (has_returned(c))
            return NULL;
        /* Half of what is left, but a millisecond at most and 20 microseconds at least. */
        const uint64_t half = (c->when - worked) / 2;
        const struct timespec pause = {0, (long)(half > 1000000 ? 1000000 : half < 20000 ? 20000 : half)};
        nanosleep(&pause, NULL);
    }
    c->at = now(c->caller);
    ember_cancel_token_cancel(c->token);
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* What `share` of the sorted times stay below, in microseconds. */
static double quantile(const uint64_t *times, uint32_t n, double share)
{
    return (double)times[(uint32_t)((double)(n - 1) * share)] / 1e3;
}

/* An even number from 0 to below `limit` (xorshift64*: Marsaglia's, with Vigna's multiplier). */
static uint64_t random_below(uint64_t *state, uint64_t limit)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * 0x2545F4914F6CDD1DULL >> 11) % limit;
}

static void prepare(struct bench *b)
{
    ember_error *err = NULL;
    must(b, ember_context_rewind(b->context, 0, 0, &err), &err);
    ember_cancel_token_reset(b->token);
}

/* What the call takes when nobody cancels it: the medians. */
static struct moment whole(struct bench *b, const struct call *call)
{
    uint64_t wall[N_WHOLE], cpu[N_WHOLE];
    for (int i = 0; i < N_WHOLE; i++) {
        prepare(b);
        const struct moment start = now(CLOCK_THREAD_CPUTIME_ID);
        call->make(b, call->n_tokens);
        const struct moment end = now(CLOCK_THREAD_CPUTIME_ID);
        wall[i] = end.wall - start.wall;
        cpu[i] = end.cpu - start.cpu;
    }
    qsort(wall, N_WHOLE, sizeof *wall, by_size);
    qsort(cpu, N_WHOLE, sizeof *cpu, by_size);
    return (struct moment){wall[N_WHOLE / 2], cpu[N_WHOLE / 2]};
}

/* One half of a line of the table, in microseconds: what one step takes, and the times, sorted. */
static void print_times(double step_ns, uint64_t *times, uint32_t n)
{
    qsort(times, n, sizeof *times, by_size);
    printf(" | %8.0f %8.0f %8.0f %8.0f", step_ns / 1e3, quantile(times, n, 0.5), quantile(times, n, 0.99),
           quantile(times, n, 1));
}

static void measure(struct bench *b, const struct call *call)
{
    const uint32_t n = b->settings.n_cancels;
    const struct moment whole_time = whole(b, call);
    uint64_t *wall = grow(NULL, n, sizeof *wall), *cpu = grow(NULL, n, sizeof *cpu), random = 88172645463325252ULL;
    uint32_t done = 0, too_late = 0;
    while (done < n) {
        struct canceller c = {.token = b->token, .returned = 0};
        pthread_t thread;
        prepare(b);
        pthread_mutex_init(&c.lock, NULL);
        if (pthread_getcpuclockid(pthread_self(), &c.caller) == 0)
            c.when = read_clock(c.caller) + random_below(&random, whole_time.cpu);
        if (c.when == 0 || pthread_create(&thread, NULL, cancel_later, &c) != 0) {
            fprintf(stderr, "%s: cannot start a thread\n", b->program);
            exit(EXIT_REFUSED);
        }
        const int was_cancelled = call->make(b, call->n_tokens);
        const struct moment end = now(c.caller);
        pthread_mutex_lock(&c.lock);
        c.returned = 1;
        pthread_mutex_unlock(&c.lock);
        pthread_join(thread, NULL);
        pthread_mutex_destroy(&c.lock);
        /* A call that was over by then tells nothing. */
        if (!was_cancelled || end.wall < c.at.wall) {
            too_late++;
            continue;
        }
        wall[done] = end.wall - c.at.wall;
        cpu[done++] = end.cpu - c.at.cpu;
    }
    printf("%-13s %8.1f", call->name, (double)whole_time.wall / 1e6);
    print_times((double)whole_time.wall / steps(b, call), wall, n);
    print_times((double)whole_time.cpu / steps(b, call), cpu, n);
    printf(" | %8u\n", (unsigned)too_late);
    fflush(stdout);
    free(wall);
    free(cpu);
}

static void set_up(struct bench *b)
{
    ember_error *err = NULL;
    ember_context_options *options = NULL;
    must(b, ember_cancel_token_new(&b->token, &err), &err);
    must(b, ember_model_options_new(&b->model_options, &err), &err);
    must(b, ember_model_options_set_cancel_token(b->model_options, b->token, &err), &err);
    must(b, ember_model_load(b->settings.model, EMBER_NUL_TERMINATED, NULL, &b->model, &err), &err);
    b->info.struct_size = sizeof b->info;
    must(b, ember_model_info_get(b->model, &b->info, &err), &err);
    must(b, ember_context_options_new(&options, &err), &err);
    b->n_ctx = b->info.n_ctx_train < MOST_TOKENS ? b->info.n_ctx_train : MOST_TOKENS;
    must(b, ember_context_options_set_n_ctx(options, b->n_ctx, &err), &err);
    must(b, ember_context_options_set_n_batch(options, b->settings.n_batch, &err), &err);
    must(b, ember_context_options_set_n_threads(options, b->settings.n_threads, &err), &err);
    must(b, ember_context_new(b->model, options, &b->context, &err), &err);
    must(b, ember_context_set_cancel_token(b->context, b->token, &err), &err);
    ember_context_options_free(options);
    must(b, ember_generate_options_new(&b->options, &err), &err);
    must(b, ember_generate_options_set_cancel_token(b->options, b->token, &err), &err);
    must(b, ember_generate_options_set_ignore_eog(b->options, true, &err), &err);
    b->vector = grow(NULL, b->info.n_embd, sizeof *b->vector);
    for (uint32_t i = 0; i < MOST_TOKENS; i++)
        b->ids[i] = i * 7919u % b->info.n_vocab;
}

int main(int argc, char **argv)
{
    static const struct call calls[] = {{"load", load, 0},
                                        {"prefill 512", prefill, 512},
                                        {"prefill 2048", prefill, 2048},
                                        {"decode 64", decode, N_DECODE},
                                        {"embed 512", embed, 512}};
    static struct bench b;
    b.settings = read_command_line(argc, argv);
    b.program = argv[0];
    set_up(&b);
    printf("%s, %u layers, %s, %u cancelled calls of each kind; times in microseconds\n\n", b.settings.model,
           (unsigned)b.info.n_layer, ember_model_isa(b.model), (unsigned)b.settings.n_cancels);
    printf("%-13s %8s | %8s %8s %8s %8s | %8s %8s %8s %8s | %8s\n", "call", "whole ms", "a step", "median", "99 %", "longest",
           "cpu step", "median", "99 %", "longest", "too late");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].n_tokens > b.n_ctx)
            printf("%-13s the model was trained on %u tokens\n", calls[i].name, (unsigned)b.n_ctx);
        else if (b.settings.only == NULL || strncmp(b.settings.only, calls[i].name, strlen(b.settings.only)) == 0)
            measure(&b, &calls[i]);
    free(b.vector);
    ember_generate_options_free(b.options);
    ember_context_free(b.context);
    ember_model_options_free(b.model_options);
    ember_model_release(b.model);
    ember_cancel_token_free(b.token);
    return written(argv[0], stdout, "standard output") ? EXIT_SUCCESS : EXIT_REFUSED;
}

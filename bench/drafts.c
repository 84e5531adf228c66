/* What draft tokens are worth: the same texts generated plainly, with lookups, and with a draft model, in turns; how many
 * drafts are accepted, and how the times compare. */
#define _XOPEN_SOURCE 700

#include <time.h>

#include "common.h"

enum { MOST_TOKENS = 1024, N_REPEATS = 3 };

/* Texts that say again what they were given, and texts that do not. */
struct text {
    const char *kind, *prompt;
    float temperature;
};

static const struct text TEXTS[] = {
    {"repeats", "Here is a list of names.\n1. Margaret Thornhill, London\n2. Ignatius Okonkwo, Lagos\n3. Solveig Halvorsen, Bergen\n"
                "Here is the same list of names again.\n1. Margaret Thornhill, London\n2.", 0},
    {"repeats", "def area_of_rectangle(width, height):\n    return width * height\n\n\ndef area_of_triangle(width, height):\n"
                "    return width * height / 2\n\n\ndef area_of_ellipse(width, height):\n", 0},
    {"repeats", "<row><name>anchor</name><price>12</price></row>\n<row><name>barrel</name><price>7</price></row>\n"
                "<row><name>candle</name>", 0},
    {"free", "The old lighthouse keeper had not spoken to anyone in eleven years, and", 1},
    {"free", "Dear editor,\n\nI read your article on the history of bridges with interest.", 1},
    {"free", "Once upon a time, in a small village by the sea,", 1},
};
enum { N_TEXTS = sizeof TEXTS / sizeof *TEXTS };

enum way { PLAIN, LOOKUP, DRAFT, N_WAYS };
static const char *const WAYS[] = {"plain", "lookup", "draft"};

struct settings {
    const char *model, *draft;
    uint32_t n_tokens, n_threads, n_draft;
};

/* What one way took for the texts of one kind. */
struct sums {
    double wall, cpu;
    uint64_t n_generated, n_drafted, n_accepted;
};

static void print_help(const char *program)
{
    printf("Measures what draft tokens are worth.\n"
           "\n"
           "Usage: %s -m MODEL [options]\n"
           "\n"
           "  -m MODEL    GGUF file\n"
           "  --draft M   GGUF file of a smaller model with the same vocabulary\n"
           "  --n-draft N most draft tokens of a step (default: 8)\n"
           "  -n N        tokens of each text (default: 200)\n"
           "  -t THREADS  threads; 0: one for each core (default: 0)\n"
           "  -h, --help  this text\n"
           "\n"
           "A line for each kind of text and each way: tokens per second, draft tokens, how many of them were accepted, tokens for\n"
           "each pass of the model, and the time of plain generation over this one's, by the clock and by the processor. All ways\n"
           "take turns, and the shortest of %d times counts.\n",
           program, N_REPEATS);
}

static double seconds(clockid_t clock)
{
    struct timespec t = {0, 0};
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(const char *program, ember_status status, ember_error **err)
{
    if (status != EMBER_OK)
        exit(refused(program, *err));
}

/* A context of its own for each generation would do as well; an empty one is enough. */
struct bench {
    const char *program;
    struct settings settings;
    ember_context *context, *draft;
    uint32_t tokens[N_WAYS][MOST_TOKENS];
};

/* Generates a text in one way. */
static struct sums run(struct bench *b, const struct text *text, enum way way)
{
    ember_error *err = NULL;
    ember_generate_options *options = NULL;
    ember_sampler *sampler = NULL;
    ember_generator *generator = NULL;
    must(b->program, ember_generate_options_new(&options, &err), &err);
    must(b->program, ember_generate_options_set_max_tokens(options, b->settings.n_tokens, &err), &err);
    must(b->program, ember_generate_options_set_ignore_eog(options, true, &err), &err);
    if (way == LOOKUP)
        must(b->program, ember_generate_options_set_lookup(options, b->settings.n_draft, 3, &err), &err);
    if (way == DRAFT)
        must(b->program, ember_generate_options_set_draft(options, b->draft, 0, b->settings.n_draft, &err), &err);
    must(b->program, ember_sampler_new(7, &sampler, &err), &err);
    must(b->program, ember_sampler_add_top_k(sampler, 40, &err), &err);
    must(b->program, ember_sampler_add_temperature(sampler, text->temperature, &err), &err);
    must(b->program, ember_context_rewind(b->context, 0, 0, &err), &err);
    if (way == DRAFT)
        must(b->program, ember_context_rewind(b->draft, 0, 0, &err), &err);
    must(b->program,
         ember_generator_new(b->context, text->prompt, EMBER_NUL_TERMINATED, options, sampler, &generator, &err), &err);
    ember_event event = {.struct_size = sizeof event};
    struct sums sums = {.wall = 0};
    double wall = 0, cpu = 0;
    for (uint32_t n = 0; event.kind != EMBER_EVENT_END;) {
        must(b->program, ember_generator_next(generator, &event, &err), &err);
        if (n == 0) { /* the prompt is not what this is about */
            wall = seconds(CLOCK_MONOTONIC);
            cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        }
        if (event.kind == EMBER_EVENT_TOKEN)
            b->tokens[way][n++] = event.token;
    }
    sums.wall = seconds(CLOCK_MONOTONIC) - wall;
    sums.cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    ember_generate_result usage = {.struct_size = sizeof usage};
    must(b->program, ember_generator_usage(generator, &usage, &err), &err);
    sums.n_generated = usage.n_generated;
    sums.n_drafted = usage.n_drafted;
    sums.n_accepted = usage.n_accepted;
    ember_generator_free(generator);
    ember_sampler_free(sampler);
    ember_generate_options_free(options);
    return sums;
}

/* All ways in turns for one text, added to the sums of its kind. */
static void measure(struct bench *b, const struct text *text, struct sums *totals)
{
    struct sums best[N_WAYS] = {{.wall = 0}};
    const int n_ways = b->draft != NULL ? N_WAYS : DRAFT;
    for (int repeat = 0; repeat < N_REPEATS; repeat++)
        for (int way = 0; way < n_ways; way++) {
            const struct sums now = run(b, text, (enum way)way);
            if (memcmp(b->tokens[way], b->tokens[PLAIN], now.n_generated * sizeof **b->tokens) != 0) {
                fprintf(stderr, "%s: with %s the text is another\n", b->program, WAYS[way]);
                exit(EXIT_REFUSED);
            }
            const struct sums before = best[way];
            best[way] = now;
            if (repeat > 0 && before.wall < now.wall)
                best[way].wall = before.wall;
            if (repeat > 0 && before.cpu < now.cpu)
                best[way].cpu = before.cpu;
        }
    for (int way = 0; way < n_ways; way++) {
        totals[way].wall += best[way].wall;
        totals[way].cpu += best[way].cpu;
        totals[way].n_generated += best[way].n_generated;
        totals[way].n_drafted += best[way].n_drafted;
        totals[way].n_accepted += best[way].n_accepted;
    }
}

static ember_context *open_context(const struct bench *b, const char *path)
{
    ember_error *err = NULL;
    ember_model *model = NULL;
    ember_context_options *options = NULL;
    ember_context *context = NULL;
    must(b->program, ember_model_load(path, EMBER_NUL_TERMINATED, NULL, &model, &err), &err);
    must(b->program, ember_context_options_new(&options, &err), &err);
    must(b->program, ember_context_options_set_n_threads(options, b->settings.n_threads, &err), &err);
    must(b->program, ember_context_options_set_n_ctx(options, 2 * MOST_TOKENS, &err), &err);
    must(b->program, ember_context_new(model, options, &context, &err), &err);
    ember_context_options_free(options);
    ember_model_release(model);
    return context;
}

int main(int argc, char **argv)
{
    struct bench b = {.program = argv[0], .settings = {.n_tokens = 200, .n_draft = 8}};
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        uint64_t number = 0;
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            print_help(argv[0]);
            return 0;
        }
        const char *value = option_value(argc, argv, &i);
        if (strcmp(arg, "-m") == 0)
            b.settings.model = value;
        else if (strcmp(arg, "--draft") == 0)
            b.settings.draft = value;
        else if (!read_unsigned(value, MOST_TOKENS, &number))
            usage_error(argv[0], "%s needs a number of at most %d, not \"%s\"", arg, MOST_TOKENS, value);
        else if (strcmp(arg, "-n") == 0)
            b.settings.n_tokens = (uint32_t)number;
        else if (strcmp(arg, "-t") == 0)
            b.settings.n_threads = (uint32_t)number;
        else if (strcmp(arg, "--n-draft") == 0)
            b.settings.n_draft = (uint32_t)number;
        else
            usage_error(argv[0], "there is no option %s", arg);
    }
    if (b.settings.model == NULL)
        usage_error(argv[0], "a model is needed (-m)");
    b.context = open_context(&b, b.settings.model);
    if (b.settings.draft != NULL)
        b.draft = open_context(&b, b.settings.draft);
    printf("text     way     tokens/s  drafted accepted  tokens/pass  faster, clock  faster, cpu\n");
    for (int i = 0; i < N_TEXTS;) {
        const char *kind = TEXTS[i].kind;
        struct sums totals[N_WAYS] = {{.wall = 0}};
        for (; i < N_TEXTS && strcmp(TEXTS[i].kind, kind) == 0; i++)
            measure(&b, &TEXTS[i], totals);
        for (int way = 0; way < N_WAYS && totals[way].n_generated > 0; way++) {
            const struct sums *t = &totals[way];
            printf("%-8s %-7s %8.1f %8llu %8llu %12.2f %14.2f %12.2f\n", kind, WAYS[way],
                   (double)t->n_generated / t->wall, (unsigned long long)t->n_drafted,
                   (unsigned long long)t->n_accepted,
                   (double)t->n_generated / (double)(t->n_generated - t->n_accepted), totals[PLAIN].wall / t->wall,
                   totals[PLAIN].cpu / t->cpu);
        }
    }
    ember_context_free(b.draft);
    ember_context_free(b.context);
    return 0;
}

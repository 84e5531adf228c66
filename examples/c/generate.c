/* Continues a prompt: the text goes to standard output as it comes, a line of timings to standard error. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif

#include <signal.h>

#include "common.h"

enum { MAX_STOPS = 16 };

/* What the command line asks for. */
struct settings {
    struct text_settings text;
    const char *prompt;
    const char *stops[MAX_STOPS];
    int n_stops;
    int scalar;
};

/* Ends loading, the prompt and the generation. */
static ember_cancel_token *interrupted = NULL;

static void on_interrupt(int number)
{
    ember_cancel_token_cancel(interrupted);
    signal(number, SIG_DFL); /* a second Ctrl-C ends the program at once */
}

static void print_help(const char *program)
{
    printf("Continues a prompt with a language model.\n"
           "\n"
           "Usage: %s [options]\n"
           "\n"
           "  -m MODEL       GGUF file (default: examples/models/ember-tales.gguf)\n"
           "  -p PROMPT      text to continue (default: \"The sea was calm, and the moon\")\n"
           "  -n N           most tokens to generate (default: 128)\n"
           "  --temp T       temperature; 0 always takes the most probable token (default: 0.8)\n"
           "  --top-k K      choose among the K most probable tokens; 0: all (default: 40)\n"
           "  --top-p P      choose among the most probable tokens that make up P; 1: all (default: 0.95)\n"
           "  --seed S       the same seed gives the same text (default: from the clock; the last line tells it)\n"
           "  -t THREADS     threads; 0: one for each core (default: 0)\n"
           "  -c N_CTX       tokens of context; 0: what the model was trained on, 4096 at most (default: 0)\n"
           "  --stop TEXT    end before this text is generated; may be given up to %d times\n"
           "  --scalar       compute with the plain reference implementation on one thread\n"
           "  -h, --help     this text\n"
           "\n"
           "The sampler's stages run in the order top-k, top-p, temperature. Ctrl-C ends loading or the text early.\n"
           "\n"
           "Example: %s -p \"The old lighthouse\" -n 60 --seed 7\n",
           program, MAX_STOPS, program);
}

static struct settings read_command_line(int argc, char **argv)
{
    struct settings s = {.text = {.model = "examples/models/ember-tales.gguf",
                                  .n_tokens = 128,
                                  .temperature = 0.8f,
                                  .top_k = 40,
                                  .top_p = 0.95f,
                                  .seed = seed_from_clock()},
                         .prompt = "The sea was calm, and the moon"};
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            print_help(argv[0]);
            exit(written(argv[0], stdout, "standard output") ? EXIT_SUCCESS : EXIT_REFUSED);
        } else if (read_text_option(&s.text, argc, argv, &i))
            continue;
        else if (strcmp(arg, "-p") == 0)
            s.prompt = option_value(argc, argv, &i);
        else if (strcmp(arg, "--stop") == 0) {
            if (s.n_stops == MAX_STOPS)
                usage_error(argv[0], "there may be %d options %s", MAX_STOPS, arg);
            s.stops[s.n_stops] = option_value(argc, argv, &i);
            if (*s.stops[s.n_stops++] == '\0')
                usage_error(argv[0], "the option %s takes a text, not an empty one", arg);
        } else if (strcmp(arg, "--scalar") == 0)
            s.scalar = 1;
        else if (*arg == '-')
            usage_error(argv[0], "there is no option %s", arg);
        else
            usage_error(argv[0], "\"%s\" has no option before it; a prompt goes after -p, a model after -m", arg);
    }
    return s;
}

static ember_status generate(const struct settings *s, ember_context *context, ember_sampler *sampler,
                             ember_event_callback callback, ember_generate_result *result, ember_error **err)
{
    ember_generate_options *options = NULL;
    ember_status status = ember_generate_options_new(&options, err);
    if (status == EMBER_OK)
        status = ember_generate_options_set_max_tokens(options, s->text.n_tokens, err);
    if (status == EMBER_OK)
        status = ember_generate_options_set_cancel_token(options, interrupted, err);
    for (int i = 0; status == EMBER_OK && i < s->n_stops; i++)
        status = ember_generate_options_add_stop(options, s->stops[i], EMBER_NUL_TERMINATED, err);
    if (status == EMBER_OK)
        status = ember_generate(context, s->prompt, EMBER_NUL_TERMINATED, options, sampler, callback, NULL, result, err);
    ember_generate_options_free(options);
    return status;
}

/* Prints an event's text; anything but 0 ends the generation. */
static int32_t print_event(const ember_event *event, void *user_data)
{
    (void)user_data;
    return fwrite(event->text, 1, event->text_len, stdout) != event->text_len || fflush(stdout) != 0;
}

static const char *finish_text(int32_t reason)
{
    switch (reason) {
    case EMBER_FINISH_MAX_TOKENS:
        return "all tokens asked for";
    case EMBER_FINISH_EOG:
        return "end of the text";
    case EMBER_FINISH_STOPPED:
        return "stopped";
    case EMBER_FINISH_CONTEXT_FULL:
        return "context full";
    case EMBER_FINISH_STOP_STRING:
        return "stop text";
    case EMBER_FINISH_CANCELLED:
        return "interrupted";
    default:
        return "unknown reason";
    }
}

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static double per_second(uint32_t count, uint64_t ns)
{
    return ns == 0 ? 0.0 : (double)count * 1e9 / (double)ns;
}

static void print_timings(const struct settings *s, uint64_t load_ns, const ember_generate_result *r)
{
    fprintf(stderr,
            "load %.1f ms | prefill %u tokens, %.1f ms, %.1f tokens/s | decode %u tokens, %.1f ms, %.1f tokens/s | "
            "finish: %s | seed %llu\n",
            ms(load_ns), (unsigned)r->n_prompt, ms(r->prefill_ns), per_second(r->n_prompt, r->prefill_ns),
            (unsigned)r->n_generated, ms(r->decode_ns), per_second(r->n_generated, r->decode_ns),
            finish_text(r->finish_reason), (unsigned long long)s->text.seed);
}

static uint64_t now_ns(void)
{
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
    use_utf8(&argc, &argv);
    struct settings settings = read_command_line(argc, argv);
    ember_model *model = NULL;
    ember_context *context = NULL;
    ember_sampler *sampler = NULL;
    ember_error *err = NULL;
    ember_generate_result result = {.struct_size = sizeof result};

    uint64_t start = now_ns();
    ember_status status = ember_cancel_token_new(&interrupted, &err);
    if (status == EMBER_OK) {
        signal(SIGINT, on_interrupt);
        status = text_model(&settings.text, interrupted, &model, &err);
    }
    if (status == EMBER_OK)
        status = text_context(&settings.text, settings.scalar, model, &context, &err);
    if (status == EMBER_OK)
        status = text_sampler(&settings.text, &sampler, &err);
    uint64_t load_ns = now_ns() - start;

    if (status == EMBER_OK) {
        fputs(settings.prompt, stdout);
        fflush(stdout);
        status = generate(&settings, context, sampler, print_event, &result, &err);
        putchar('\n');
    }
    int code = EXIT_SUCCESS;
    if (!written(argv[0], stdout, "standard output"))
        code = EXIT_REFUSED;
    if (status == EMBER_OK)
        print_timings(&settings, load_ns, &result);
    else
        code = refused(argv[0], err);

    ember_sampler_free(sampler);
    ember_context_free(context);
    ember_model_release(model);
    signal(SIGINT, SIG_DFL); /* nobody uses the token any more */
    ember_cancel_token_free(interrupted);
    return code;
}

/* Measures prefill, decode, loading, cold start and peak memory of a model through the C ABI. Every measurement is a line
 * of JSON on standard output, so that programs can read it; bench/peer.py prints the same lines for llama.cpp. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <time.h>

#include "common.h"

/* Most values in a list on the command line, tokens of the longest warm-up, and of the prompt of a cold start. */
enum { MAX_VALUES = 16, WARM_UP = 512, COLD_PROMPT = 8 };

/* Numbers of a comma-separated list. */
struct list {
    size_t n;
    uint32_t values[MAX_VALUES];
};

/* What the command line asks for. */
struct settings {
    const char *model;
    struct list prefill;
    struct list decode;
    struct list depth;
    struct list batch;
    struct list threads;
    uint32_t repetitions;
    uint32_t n_batch;
    const char *kv; /* what keys and values are rounded to */
    int cold;
    int step;
};

/* What is being measured. All memory belongs to main. */
struct run {
    const struct settings *settings;
    const char *isa; /* the instruction-set level of the model */
    ember_model *model;
    ember_context *context;
    ember_sampler *sampler; /* greedy */
    uint32_t n_vocab;
    uint32_t n_seq;
    uint32_t n_threads;
    uint32_t *tokens;    /* random ids: as many as the longest prompt has, and one a sequence */
    uint32_t *next;      /* [n_seq] the tokens that decode begins with */
    uint32_t *sequences; /* as long as tokens */
    uint8_t *want;       /* [n_seq] ones */
    uint64_t start_ns;
    unsigned long before_kib; /* memory before anything was loaded */
    ember_error *err;
};

static void print_help(const char *program)
{
    printf("Measures how fast a model runs; prints a line of JSON for each measurement.\n"
           "\n"
           "Usage: %s [options]\n"
           "\n"
           "  -m MODEL     GGUF file or folder (default: examples/models/ember-tales.gguf)\n"
           "  -p N,...     tokens of the prompts to time; 0: none (default: 512)\n"
           "  -n N,...     tokens to generate, each from the one before; 0: none (default: 128)\n"
           "  -d N,...     tokens that are in the context already (default: 0)\n"
           "  -b N,...     sequences that generate together; prompts run with the first number (default: 1)\n"
           "  -t N,...     threads; 0: one for each core (default: 0)\n"
           "  -r N         repetitions (default: 5)\n"
           "  --n-batch N  rows run through the model at a time; 0: the library's default (default: 0)\n"
           "  --kv TYPE    what keys and values are rounded to: auto, f16, q8_0, i16 or f32 (default: auto)\n"
           "  --cold       time from the start of the program to a token after a prompt of %d, and nothing else\n"
           "  --step       wait for a line on standard input before every repetition and print each by itself\n"
           "  -h, --help   this text\n"
           "\n"
           "Prompts are random tokens, the same every time. A measurement begins with a run that is not timed.\n"
           "\n"
           "Example: %s -m model.gguf -p 128,512 -d 0,1024 -t 1,2\n",
           program, COLD_PROMPT, program);
}

/* The value after option number *i as numbers from 0 to `max` with commas between them. */
static struct list option_list(int argc, char **argv, int *i, uint32_t max)
{
    const char *option = argv[*i];
    const char *value = option_value(argc, argv, i);
    struct list list = {0, {0}};
    for (const char *at = value;; at++) {
        char word[16] = "";
        size_t len = strcspn(at, ",");
        uint64_t number = 0;
        if (len < sizeof word)
            memcpy(word, at, len);
        if (list.n == MAX_VALUES || !read_unsigned(word, max, &number))
            usage_error(argv[0], "the option %s takes at most %d integers from 0 to %lu with commas, not \"%s\"",
                        option, MAX_VALUES, (unsigned long)max, value);
        list.values[list.n++] = (uint32_t)number;
        at += len;
        if (*at == '\0')
            return list;
    }
}

/* The number of a name that the command line may give; -1: there is none. */
static int32_t kv_type(const char *name)
{
    if (strcmp(name, "auto") == 0)
        return EMBER_KV_AUTO;
    if (strcmp(name, "f16") == 0)
        return EMBER_KV_F16;
    if (strcmp(name, "f32") == 0)
        return EMBER_KV_F32;
    if (strcmp(name, "q8_0") == 0)
        return EMBER_KV_Q8_0;
    return strcmp(name, "i16") == 0 ? EMBER_KV_I16 : -1;
}

static struct settings read_command_line(int argc, char **argv)
{
    struct settings s = {"examples/models/ember-tales.gguf", {1, {512}}, {1, {128}}, {1, {0}}, {1, {1}}, {1, {0}}, 5, 0, "auto", 0, 0};
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            print_help(argv[0]);
            exit(written(argv[0], stdout, "standard output") ? EXIT_SUCCESS : EXIT_REFUSED);
        } else if (strcmp(arg, "-m") == 0)
            s.model = option_value(argc, argv, &i);
        else if (strcmp(arg, "-p") == 0)
            s.prefill = option_list(argc, argv, &i, 1u << 24);
        else if (strcmp(arg, "-n") == 0)
            s.decode = option_list(argc, argv, &i, 1u << 24);
        else if (strcmp(arg, "-d") == 0)
            s.depth = option_list(argc, argv, &i, 1u << 24);
        else if (strcmp(arg, "-b") == 0)
            s.batch = option_list(argc, argv, &i, 4096);
        else if (strcmp(arg, "-t") == 0)
            s.threads = option_list(argc, argv, &i, 512);
        else if (strcmp(arg, "-r") == 0)
            s.repetitions = (uint32_t)option_unsigned(argc, argv, &i, 1000);
        else if (strcmp(arg, "--n-batch") == 0)
            s.n_batch = (uint32_t)option_unsigned(argc, argv, &i, 65536);
        else if (strcmp(arg, "--kv") == 0)
            s.kv = option_value(argc, argv, &i);
        else if (strcmp(arg, "--cold") == 0)
            s.cold = 1;
        else if (strcmp(arg, "--step") == 0)
            s.step = 1;
        else
            usage_error(argv[0], "there is no option %s", arg);
    }
    if (kv_type(s.kv) < 0)
        usage_error(argv[0], "the option --kv takes auto, f16, q8_0, i16 or f32, not \"%s\"", s.kv);
    for (size_t i = 0; i < s.batch.n; i++)
        if (s.batch.values[i] == 0)
            usage_error(argv[0], "the option -b takes numbers from 1 on");
    return s;
}

static uint32_t largest(const struct list *list)
{
    uint32_t most = 0;
    for (size_t i = 0; i < list->n; i++)
        most = list->values[i] > most ? list->values[i] : most;
    return most;
}

static uint64_t now_ns(void)
{
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t random_u64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The most memory the process ever had resident, in KiB; 0 where the system does not tell. */
static unsigned long peak_kib(void)
{
    unsigned long kib = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmHWM: %lu", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib;
}

/* Prints text as a JSON string. */
static void print_string(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            printf("\\u%04x", (unsigned)*text);
        else
            putchar(*text);
    putchar('"');
}

/* Prints a measurement: `n` repetitions of `tokens` tokens of each of `batch` sequences. */
static void print_line(const struct run *r, const char *what, uint32_t tokens, uint32_t depth, uint32_t batch,
                       const double *seconds, size_t n)
{
    printf("{\"engine\": \"ember\", \"version\": \"%s\", \"isa\": \"%s\", \"what\": \"%s\", \"model\": ",
           ember_version_string(), r->isa, what);
    print_string(r->settings->model);
    printf(", \"tokens\": %" PRIu32 ", \"depth\": %" PRIu32 ", \"batch\": %" PRIu32 ", \"threads\": %" PRIu32
           ", \"seconds\": [",
           tokens, depth, batch, r->n_threads);
    for (size_t i = 0; i < n; i++)
        printf("%s%.6f", i == 0 ? "" : ", ", seconds[i]);
    printf("], \"tokens_per_s\": [");
    for (size_t i = 0; i < n && tokens > 0; i++)
        printf("%s%.3f", i == 0 ? "" : ", ", (double)tokens * batch / seconds[i]);
    puts("]}");
    fflush(stdout);
}

static void print_memory(const struct run *r)
{
    printf("{\"engine\": \"ember\", \"what\": \"memory\", \"model\": ");
    print_string(r->settings->model);
    printf(", \"threads\": %" PRIu32 ", \"before_kib\": %lu, \"peak_kib\": %lu}\n", r->n_threads, r->before_kib,
           peak_kib());
}

static ember_status make_context(struct run *r, uint32_t n_ctx, uint32_t n_seq, uint32_t n_threads)
{
    ember_context_options *options = NULL;
    ember_context_info info = {.struct_size = sizeof info};
    ember_status status = ember_context_options_new(&options, &r->err);
    if (status == EMBER_OK)
        status = ember_context_options_set_n_ctx(options, n_ctx, &r->err);
    if (status == EMBER_OK)
        status = ember_context_options_set_n_seq(options, n_seq, &r->err);
    if (status == EMBER_OK)
        status = ember_context_options_set_n_batch(options, r->settings->n_batch, &r->err);
    if (status == EMBER_OK)
        status = ember_context_options_set_n_threads(options, n_threads, &r->err);
    if (status == EMBER_OK)
        status = ember_context_options_set_kv_type(options, kv_type(r->settings->kv), &r->err);
    /* A prompt is taken back to its depth, however far layers with a window reach. */
    if (status == EMBER_OK)
        status = ember_context_options_set_keep_all_positions(options, largest(&r->settings->depth) > 0, &r->err);
    if (status == EMBER_OK)
        status = ember_context_new(r->model, options, &r->context, &r->err);
    if (status == EMBER_OK)
        status = ember_context_info_get(r->context, &info, &r->err);
    r->n_seq = n_seq;
    r->n_threads = info.n_threads;
    ember_context_options_free(options);
    return status;
}

/* Leaves every sequence with `n_past` tokens, random ones where there were fewer. */
static ember_status set_depth(struct run *r, uint32_t n_past)
{
    ember_status status = EMBER_OK;
    for (uint32_t seq = 0; seq < r->n_seq && status == EMBER_OK; seq++) {
        uint32_t n = 0;
        status = ember_context_n_past(r->context, seq, &n, &r->err);
        for (uint32_t i = 0; i < n_past; i++)
            r->sequences[i] = seq;
        if (status == EMBER_OK && n > n_past)
            status = ember_context_rewind(r->context, seq, n_past, &r->err);
        else if (status == EMBER_OK && n < n_past)
            status = ember_context_decode(r->context, r->tokens + n, NULL, r->sequences, NULL, n_past - n, &r->err);
    }
    return status;
}

/* Runs a prompt of `n` tokens in sequence 0; the logits of its last token are computed. */
static ember_status prefill(struct run *r, uint32_t n)
{
    const float *logits = NULL;
    ember_status status = ember_context_decode(r->context, r->tokens, NULL, NULL, NULL, n, &r->err);
    if (status == EMBER_OK)
        status = ember_context_logits(r->context, n - 1, &logits, &r->err);
    return status;
}

/* Generates `n` tokens in every sequence, always the likeliest. */
static ember_status decode(struct run *r, uint32_t n)
{
    ember_status status = EMBER_OK;
    for (uint32_t seq = 0; seq < r->n_seq; seq++) {
        r->next[seq] = r->tokens[seq];
        r->sequences[seq] = seq;
    }
    for (uint32_t i = 0; i < n && status == EMBER_OK; i++) {
        status = ember_context_decode(r->context, r->next, NULL, r->sequences, r->want, r->n_seq, &r->err);
        for (uint32_t seq = 0; seq < r->n_seq && status == EMBER_OK; seq++) {
            const float *logits = NULL;
            status = ember_context_logits(r->context, seq, &logits, &r->err);
            if (status == EMBER_OK)
                status = ember_sampler_sample(r->sampler, logits, r->n_vocab, &r->next[seq], &r->err);
        }
    }
    return status;
}

/* One measurement: `work` on `n` tokens after `depth` others. */
static ember_status measure(struct run *r, const char *what, ember_status (*work)(struct run *, uint32_t), uint32_t n,
                            uint32_t depth)
{
    static double seconds[1000];
    uint32_t batch = work == decode ? r->n_seq : 1;
    ember_status status = EMBER_OK;
    for (uint32_t i = 0; i < r->settings->repetitions && status == EMBER_OK; i++) {
        if (r->settings->step) {
            int c = 0;
            while (c != '\n' && c != EOF)
                c = getchar();
            if (c == EOF)
                return EMBER_OK;
        }
        if (i == 0) {
            status = set_depth(r, depth);
            if (status == EMBER_OK)
                status = work(r, n < WARM_UP ? n : WARM_UP);
        }
        if (status == EMBER_OK)
            status = set_depth(r, depth);
        uint64_t start = now_ns();
        if (status == EMBER_OK)
            status = work(r, n);
        seconds[i] = (double)(now_ns() - start) / 1e9;
        if (status == EMBER_OK && r->settings->step)
            print_line(r, what, n, depth, batch, &seconds[i], 1);
    }
    if (status == EMBER_OK && !r->settings->step && r->settings->repetitions > 0)
        print_line(r, what, n, depth, batch, seconds, r->settings->repetitions);
    return status;
}

/* All measurements with one context. */
static ember_status measure_context(struct run *r, int with_prefill)
{
    const struct settings *s = r->settings;
    ember_status status = EMBER_OK;
    for (size_t d = 0; d < s->depth.n; d++) {
        for (size_t i = 0; i < s->prefill.n && with_prefill && status == EMBER_OK; i++)
            if (s->prefill.values[i] > 0)
                status = measure(r, "prefill", prefill, s->prefill.values[i], s->depth.values[d]);
        for (size_t i = 0; i < s->decode.n && status == EMBER_OK; i++)
            if (s->decode.values[i] > 0)
                status = measure(r, "decode", decode, s->decode.values[i], s->depth.values[d]);
    }
    return status;
}

static ember_status load(struct run *r)
{
    ember_model_info info = {.struct_size = sizeof info};
    ember_status status =
        ember_model_load(r->settings->model, EMBER_NUL_TERMINATED, NULL, &r->model, &r->err);
    if (status == EMBER_OK)
        status = ember_model_info_get(r->model, &info, &r->err);
    r->n_vocab = info.n_vocab;
    r->isa = ember_model_isa(r->model);
    if (status == EMBER_OK)
        status = ember_sampler_new(0, &r->sampler, &r->err);
    if (status == EMBER_OK)
        status = ember_sampler_add_greedy(r->sampler, &r->err);
    return status;
}

static void make_tokens(struct run *r)
{
    uint32_t most = largest(&r->settings->prefill), n_seq = largest(&r->settings->batch);
    uint64_t state = 0;
    most = largest(&r->settings->depth) > most ? largest(&r->settings->depth) : most;
    most = (most < COLD_PROMPT ? COLD_PROMPT : most) + n_seq;
    r->tokens = grow(NULL, most, sizeof *r->tokens);
    r->sequences = grow(NULL, most, sizeof *r->sequences);
    r->next = grow(NULL, n_seq, sizeof *r->next);
    r->want = grow(NULL, n_seq, sizeof *r->want);
    memset(r->want, 1, n_seq);
    for (uint32_t i = 0; i < most; i++)
        r->tokens[i] = (uint32_t)(random_u64(&state) % r->n_vocab);
}

/* The time until a user sees a token, and one more. */
static ember_status cold(struct run *r)
{
    ember_status status = load(r);
    if (status == EMBER_OK)
        status = make_context(r, 0, 1, r->settings->threads.values[0]);
    if (status == EMBER_OK) {
        const float *logits = NULL;
        make_tokens(r);
        status = prefill(r, COLD_PROMPT);
        if (status == EMBER_OK)
            status = ember_context_logits(r->context, COLD_PROMPT - 1, &logits, &r->err);
        if (status == EMBER_OK)
            status = ember_sampler_sample(r->sampler, logits, r->n_vocab, &r->tokens[0], &r->err);
        if (status == EMBER_OK)
            status = decode(r, 1);
    }
    if (status == EMBER_OK) {
        double seconds = (double)(now_ns() - r->start_ns) / 1e9;
        print_line(r, "cold", COLD_PROMPT + 1, 0, 1, &seconds, 1);
    }
    return status;
}

static ember_status run(struct run *r)
{
    const struct settings *s = r->settings;
    if (s->cold)
        return cold(r);
    uint32_t longest = largest(&s->prefill) > largest(&s->decode) ? largest(&s->prefill) : largest(&s->decode);
    uint32_t n_ctx = largest(&s->depth) + (longest < 1 ? 1 : longest);
    ember_status status = load(r);
    if (status == EMBER_OK)
        make_tokens(r);
    for (size_t t = 0; t < s->threads.n; t++) {
        for (size_t b = 0; b < s->batch.n && status == EMBER_OK; b++) {
            status = make_context(r, n_ctx, s->batch.values[b], s->threads.values[t]);
            if (status == EMBER_OK && t == 0 && b == 0) {
                double seconds = (double)(now_ns() - r->start_ns) / 1e9;
                print_line(r, "load", 0, 0, 1, &seconds, 1);
            }
            if (status == EMBER_OK)
                status = measure_context(r, b == 0);
            ember_context_free(r->context);
            r->context = NULL;
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    struct run r = {.start_ns = now_ns(), .before_kib = peak_kib()};
    struct settings settings = read_command_line(argc, argv);
    r.settings = &settings;

    int code = EXIT_SUCCESS;
    if (run(&r) == EMBER_OK)
        print_memory(&r);
    else
        code = refused(argv[0], r.err);
    if (!written(argv[0], stdout, "standard output"))
        code = EXIT_REFUSED;

    ember_context_free(r.context);
    ember_sampler_free(r.sampler);
    ember_model_release(r.model);
    free(r.tokens);
    free(r.sequences);
    free(r.next);
    free(r.want);
    return code;
}

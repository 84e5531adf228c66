/* What rounding the KV cache costs: the perplexity of a text for each type of keys and values. */
#define _XOPEN_SOURCE 700

#include <math.h>

#include "common.h"

/* What the command line asks for. */
struct settings {
    const char *program, *model, *text;
    uint32_t n_ctx, n_chunks, n_threads;
};

static const struct {
    int32_t type;
    const char *name;
} TYPES[] = {{EMBER_KV_F32, "f32"}, {EMBER_KV_F16, "f16"}, {EMBER_KV_Q8_0, "q8_0"}, {EMBER_KV_I16, "i16"}};
enum { N_TYPES = sizeof TYPES / sizeof TYPES[0] };

static void print_help(const char *program)
{
    printf("Tells the perplexity of a text for each type of the keys and values in the KV cache.\n"
           "\n"
           "Usage: %s -m MODEL -f TEXT [options]\n"
           "\n"
           "  -m MODEL       GGUF file with a tokenizer\n"
           "  -f TEXT        UTF-8 file, read from its beginning\n"
           "  -c N           tokens of a chunk (default: 512)\n"
           "  -n N           chunks at most (default: 32)\n"
           "  -t THREADS     threads; 0: one for each core (default: 0)\n"
           "  -h, --help     this text\n"
           "\n"
           "Each chunk begins anew; its first half is context only, as of each token of the other half the probability counts.\n",
           program);
}

static char *read_file(const char *program, const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        usage_error(program, "the file %s cannot be read: %s", path, strerror(errno));
    const long size = ftell(file);
    rewind(file);
    text = size > 0 ? malloc((size_t)size) : NULL;
    if (text == NULL || fread(text, 1, (size_t)size, file) != (size_t)size)
        usage_error(program, "the file %s is empty or cannot be read", path);
    fclose(file);
    *len = (size_t)size;
    return text;
}

/* The mean of the negative log-probabilities, and its number of tokens to `n`. */
static ember_status measure(const struct settings *s, ember_model *model, const uint32_t *ids, size_t n_ids, int k, int v,
                            double *mean, size_t *n, ember_error **err)
{
    ember_context_options *options = NULL;
    ember_context *context = NULL;
    double sum = 0;
    ember_status status = ember_context_options_new(&options, err);
    if (status == EMBER_OK)
        status = ember_context_options_set_n_ctx(options, s->n_ctx, err);
    if (status == EMBER_OK)
        status = ember_context_options_set_n_threads(options, s->n_threads, err);
    if (status == EMBER_OK)
        status = ember_context_options_set_k_type(options, TYPES[k].type, err);
    if (status == EMBER_OK)
        status = ember_context_options_set_v_type(options, TYPES[v].type, err);
    if (status == EMBER_OK)
        status = ember_context_new(model, options, &context, err);
    *n = 0;
    for (uint32_t chunk = 0; status == EMBER_OK && chunk < s->n_chunks; chunk++) {
        ember_score_result result = {.struct_size = sizeof result};
        if ((chunk + 1) * (size_t)s->n_ctx > n_ids)
            break;
        status = ember_context_rewind(context, 0, 0, err);
        if (status == EMBER_OK)
            status = ember_score_tokens(context, ids + chunk * (size_t)s->n_ctx, s->n_ctx, s->n_ctx / 2, NULL, NULL, 0, NULL,
                                        &result, err);
        sum -= result.logprob;
        *n += result.n_scored;
    }
    *mean = sum / (double)*n;
    ember_context_free(context);
    ember_context_options_free(options);
    return status;
}

int main(int argc, char **argv)
{
    struct settings s = {.program = argv[0], .n_ctx = 512, .n_chunks = 32};
    ember_model *model = NULL;
    ember_error *err = NULL;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            print_help(argv[0]);
            return 0;
        } else if (strcmp(arg, "-m") == 0)
            s.model = option_value(argc, argv, &i);
        else if (strcmp(arg, "-f") == 0)
            s.text = option_value(argc, argv, &i);
        else if (strcmp(arg, "-c") == 0)
            s.n_ctx = (uint32_t)option_unsigned(argc, argv, &i, 65536);
        else if (strcmp(arg, "-n") == 0)
            s.n_chunks = (uint32_t)option_unsigned(argc, argv, &i, 1 << 20);
        else if (strcmp(arg, "-t") == 0)
            s.n_threads = (uint32_t)option_unsigned(argc, argv, &i, 512);
        else
            usage_error(argv[0], "there is no option \"%s\"", arg);
    }
    if (s.model == NULL || s.text == NULL)
        usage_error(argv[0], "the options -m MODEL and -f TEXT are needed");
    if (s.n_ctx < 4 || s.n_chunks == 0)
        usage_error(argv[0], "-c must be at least 4, -n at least 1");
    if (ember_model_load(s.model, EMBER_NUL_TERMINATED, NULL, &model, &err) != EMBER_OK)
        return refused(argv[0], err);
    size_t len = 0, n_ids = 0;
    char *text = read_file(argv[0], s.text, &len);
    (void)ember_model_tokenize(model, text, len, true, false, NULL, 0, &n_ids, NULL);
    uint32_t *ids = malloc((n_ids + 1) * sizeof *ids);
    if (ids == NULL || ember_model_tokenize(model, text, len, true, false, ids, n_ids, &n_ids, &err) != EMBER_OK)
        return ids == NULL ? EXIT_REFUSED : refused(argv[0], err);
    if (n_ids < s.n_ctx)
        usage_error(argv[0], "the text has %zu tokens, less than a chunk", n_ids);
    double exact = 0;
    for (int k = 0; k < N_TYPES; k++)
        for (int v = 0; v < N_TYPES; v++) {
            double mean = 0;
            size_t n = 0;
            if (k != v && k * v != 2) /* f16 keys with q8_0 values and the other way round; of others, both */
                continue;
            if (measure(&s, model, ids, n_ids, k, v, &mean, &n, &err) != EMBER_OK)
                return refused(argv[0], err);
            if (k + v == 0) {
                exact = mean;
                printf("%zu tokens\n", n);
            }
            printf("k %-4s v %-4s   perplexity %9.4f   %.5f of f32's\n", TYPES[k].name, TYPES[v].name, exp(mean),
                   exp(mean - exact));
        }
    free(ids);
    free(text);
    ember_model_release(model);
    return 0;
}

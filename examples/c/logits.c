/* Writes the logits that a model gives at every position of a token sequence: n_vocab little-endian float32 numbers
 * for each token, row by row. Made for comparing engines. */
#include "common.h"

/* Tokens decoded at a time, which bounds the memory for logits. */
enum { CHUNK = 64 };

/* What the command line asks for. */
struct settings {
    const char *model;
    const char *out_path;
    uint32_t *tokens;
    size_t n_tokens;
    uint32_t n_threads;
    int kv_f16;
    int scalar;
};

static void print_help(const char *program)
{
    printf("Writes the logits of every position of a token sequence.\n"
           "\n"
           "Usage: %s [options] MODEL OUT.f32 ID [ID ...]\n"
           "\n"
           "  -t THREADS     threads; 0: one for each core (default: 0)\n"
           "  --kv-f16       round keys and values to float16, as contexts do by default; here they stay float32\n"
           "  --scalar       compute with the plain reference implementation on one thread\n"
           "  -h, --help     this text\n"
           "\n"
           "OUT.f32 receives one row per ID, n_vocab little-endian float32 numbers each. Nothing is put before the\n"
           "IDs: give the beginning-of-sequence token yourself when the model wants one.\n"
           "\n"
           "Example: %s examples/models/ember-tales.gguf out.f32 0 17 4 230\n",
           program, program);
}

static void add_operand(struct settings *s, const char *program, const char *arg)
{
    uint64_t id = 0;
    if (s->model == NULL)
        s->model = arg;
    else if (s->out_path == NULL)
        s->out_path = arg;
    else if (!read_unsigned(arg, UINT32_MAX, &id))
        usage_error(program, "\"%s\" is not a token id; ids are integers from 0 on", arg);
    else
        s->tokens[s->n_tokens++] = (uint32_t)id;
}

/* `tokens` can hold all arguments. */
static struct settings read_command_line(int argc, char **argv, uint32_t *tokens)
{
    struct settings s = {NULL, NULL, tokens, 0, 0, 0, 0};
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            print_help(argv[0]);
            free(tokens);
            exit(written(argv[0], stdout, "standard output") ? EXIT_SUCCESS : EXIT_REFUSED);
        } else if (strcmp(arg, "-t") == 0)
            s.n_threads = (uint32_t)option_unsigned(argc, argv, &i, 512);
        else if (strcmp(arg, "--kv-f16") == 0)
            s.kv_f16 = 1;
        else if (strcmp(arg, "--scalar") == 0)
            s.scalar = 1;
        else if (*arg == '-' && (s.out_path == NULL || arg[1] < '0' || arg[1] > '9'))
            usage_error(argv[0], "there is no option %s", arg);
        else
            add_operand(&s, argv[0], arg);
    }
    if (s.n_tokens == 0)
        usage_error(argv[0], "a model, a file to write and at least one token id are needed");
    return s;
}

static ember_status make_context(const struct settings *s, const ember_model *model, ember_context **out,
                                 ember_error **err)
{
    ember_context_options *options = NULL;
    ember_status status = ember_context_options_new(&options, err);
    if (status == EMBER_OK)
        status = ember_context_options_set_n_ctx(options, (uint32_t)s->n_tokens, err);
    if (status == EMBER_OK)
        status = ember_context_options_set_n_threads(options, s->n_threads, err);
    if (status == EMBER_OK && !s->kv_f16)
        status = ember_context_options_set_kv_type(options, EMBER_KV_F32, err);
    if (status == EMBER_OK && s->scalar)
        status = ember_context_options_set_backend(options, EMBER_BACKEND_SCALAR, err);
    if (status == EMBER_OK)
        status = ember_context_new(model, options, out, err);
    ember_context_options_free(options);
    return status;
}

/* Decodes the tokens chunk by chunk and writes their logits. Failures of `file` are left for written(). */
static ember_status write_logits(const struct settings *s, ember_context *context, size_t n_vocab, FILE *file,
                                 ember_error **err)
{
    uint8_t want[CHUNK];
    memset(want, 1, sizeof want);
    for (size_t first = 0; first < s->n_tokens; first += CHUNK) {
        size_t n = s->n_tokens - first < CHUNK ? s->n_tokens - first : CHUNK;
        ember_status status = ember_context_decode(context, s->tokens + first, NULL, NULL, want, n, err);
        for (size_t i = 0; i < n && status == EMBER_OK; i++) {
            const float *row = NULL;
            status = ember_context_logits(context, i, &row, err);
            if (status == EMBER_OK && !write_floats(file, row, n_vocab))
                return EMBER_OK;
        }
        if (status != EMBER_OK)
            return status;
    }
    return EMBER_OK;
}

static int run(const struct settings *s, const char *program)
{
    ember_model *model = NULL;
    ember_context *context = NULL;
    ember_error *err = NULL;
    ember_model_info info = {.struct_size = sizeof info};

    ember_status status = ember_model_load(s->model, EMBER_NUL_TERMINATED, NULL, &model, &err);
    if (status == EMBER_OK)
        status = ember_model_info_get(model, &info, &err);
    if (status == EMBER_OK)
        status = make_context(s, model, &context, &err);

    int code = EXIT_SUCCESS;
    FILE *file = status == EMBER_OK ? fopen(s->out_path, "wb") : NULL;
    if (file != NULL) {
        status = write_logits(s, context, info.n_vocab, file, &err);
        if (!written(program, file, s->out_path))
            code = EXIT_REFUSED;
        fclose(file);
    } else if (status == EMBER_OK) {
        fprintf(stderr, "%s: cannot write to %s: %s\n", program, s->out_path, strerror(errno));
        code = EXIT_REFUSED;
    }
    if (status != EMBER_OK)
        code = refused(program, err);

    ember_context_free(context);
    ember_model_release(model);
    return code;
}

int main(int argc, char **argv)
{
    uint32_t *tokens = calloc((size_t)argc + 1, sizeof *tokens);
    if (tokens == NULL) {
        fprintf(stderr, "%s: no memory for the token ids\n", argv[0]);
        return EXIT_REFUSED;
    }
    struct settings settings = read_command_line(argc, argv, tokens);
    int code = run(&settings, argv[0]);
    free(tokens);
    return code;
}

/* Writes the embeddings of texts, one for each line of standard input, or of token ids. */
#include "common.h"

/* What the command line asks for. */
struct settings {
    const char *model;
    const char *out_path;
    uint32_t *tokens; /* as many as there are arguments */
    size_t n_tokens;
    bool from_tokens;
    int32_t pooling;
    int normalize; /* -1: as Ember does by default */
    bool truncate;
    bool scalar;
    uint32_t n_threads;
};

static void print_help(const char *program)
{
    printf("Writes the embeddings of texts: one vector for each line of standard input.\n"
           "\n"
           "Usage: %s MODEL [options] < LINES\n"
           "       %s MODEL --tokens ID [ID ...] [options]\n"
           "\n"
           "  --tokens ID ...   embed one text, given as token ids, instead; nothing is added to them\n"
           "  --out F.f32       write little-endian float32 numbers to this file; without it the vectors are printed,\n"
           "                    one on a line\n"
           "  --pooling KIND    what makes a text's vector: mean (of all tokens), cls (the first token), last (the last\n"
           "                    token), none (a vector for each token); default: as the model says, or mean\n"
           "  --normalize       scale vectors to length 1: the default, except with the pooling none\n"
           "  --no-normalize    do not: the default with the pooling none\n"
           "  --truncate        cut texts that are too long for the model instead of refusing them\n"
           "  --scalar          compute with the plain reference implementation on one thread\n"
           "  -t THREADS        threads; 0: one for each core (default: 0)\n"
           "  -h, --help        this text\n"
           "\n"
           "Keys and values stay float32. Sentences about a text name it by its index: 0 is the first line.\n"
           "\n"
           "Example: echo 'Once upon a time' | %s examples/models/ember-tales.gguf\n",
           program, program, program);
}

static int32_t read_pooling(const char *program, const char *name)
{
    static const char *const names[] = {"none", "mean", "cls", "last"};
    for (int32_t i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    usage_error(program, "--pooling takes none, mean, cls or last, not \"%s\"", name);
    return EMBER_POOLING_AUTO;
}

static void add_operand(struct settings *s, const char *program, const char *arg)
{
    uint64_t id = 0;
    if (s->from_tokens && read_unsigned(arg, UINT32_MAX, &id))
        s->tokens[s->n_tokens++] = (uint32_t)id;
    else if (s->model == NULL)
        s->model = arg;
    else if (s->from_tokens)
        usage_error(program, "\"%s\" is not a token id; ids are integers from 0 on", arg);
    else
        usage_error(program, "\"%s\" is one argument too many; texts go to standard input", arg);
}

static struct settings read_command_line(int argc, char **argv, uint32_t *tokens)
{
    struct settings s = {NULL, NULL, tokens, 0, false, EMBER_POOLING_AUTO, -1, false, false, 0};
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            print_help(argv[0]);
            free(tokens);
            exit(written(argv[0], stdout, "standard output") ? EXIT_SUCCESS : EXIT_REFUSED);
        } else if (strcmp(arg, "--tokens") == 0)
            s.from_tokens = true;
        else if (strcmp(arg, "--out") == 0)
            s.out_path = option_value(argc, argv, &i);
        else if (strcmp(arg, "--pooling") == 0)
            s.pooling = read_pooling(argv[0], option_value(argc, argv, &i));
        else if (strcmp(arg, "--normalize") == 0)
            s.normalize = 1;
        else if (strcmp(arg, "--no-normalize") == 0)
            s.normalize = 0;
        else if (strcmp(arg, "--truncate") == 0)
            s.truncate = true;
        else if (strcmp(arg, "--scalar") == 0)
            s.scalar = true;
        else if (strcmp(arg, "-t") == 0)
            s.n_threads = (uint32_t)option_unsigned(argc, argv, &i, 512);
        else if (*arg == '-' && (arg[1] < '0' || arg[1] > '9'))
            usage_error(argv[0], "there is no option %s", arg);
        else
            add_operand(&s, argv[0], arg);
    }
    if (s.model == NULL)
        usage_error(argv[0], "a model file is needed");
    if (s.from_tokens && s.n_tokens == 0)
        usage_error(argv[0], "--tokens needs at least one token id");
    return s;
}

static ember_status make_context(const struct settings *s, const ember_model *model, ember_context **out,
                                 ember_error **err)
{
    ember_context_options *options = NULL;
    ember_status status = ember_context_options_new(&options, err);
    if (status == EMBER_OK && s->from_tokens)
        status = ember_context_options_set_n_ctx(options, (uint32_t)s->n_tokens, err);
    if (status == EMBER_OK)
        status = ember_context_options_set_n_threads(options, s->n_threads, err);
    if (status == EMBER_OK)
        status = ember_context_options_set_kv_type(options, EMBER_KV_F32, err);
    if (status == EMBER_OK && s->scalar)
        status = ember_context_options_set_backend(options, EMBER_BACKEND_SCALAR, err);
    if (status == EMBER_OK)
        status = ember_context_new(model, options, out, err);
    ember_context_options_free(options);
    return status;
}

static ember_status make_options(const struct settings *s, ember_embed_options **out, ember_error **err)
{
    ember_status status = ember_embed_options_new(out, err);
    if (status == EMBER_OK)
        status = ember_embed_options_set_pooling(*out, s->pooling, err);
    if (status == EMBER_OK && s->normalize >= 0)
        status = ember_embed_options_set_normalize(*out, s->normalize == 1, err);
    if (status == EMBER_OK)
        status = ember_embed_options_set_truncate(*out, s->truncate, err);
    return status;
}

/* The lines of a text, without their ends. */
struct lines {
    const char **texts;
    size_t *lengths;
    size_t n;
};

static struct lines split(const char *text, size_t len)
{
    size_t n = 1;
    for (size_t i = 0; i < len; i++)
        n += text[i] == '\n';
    struct lines lines = {grow(NULL, n, sizeof *lines.texts), grow(NULL, n, sizeof *lines.lengths), 0};
    for (const char *end = text + len; text < end; lines.n++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline != NULL ? newline : end;
        lines.texts[lines.n] = text;
        lines.lengths[lines.n] = (size_t)(stop - text) - (stop > text && stop[-1] == '\r');
        text = newline != NULL ? newline + 1 : end;
    }
    return lines;
}

/* The vectors of the lines or of the tokens, for the caller to free; `n` receives the count of numbers. */
static ember_status embed(const struct settings *s, ember_context *context, const struct lines *lines,
                          float **vectors, size_t *n, ember_error **err)
{
    ember_embed_options *options = NULL;
    ember_status status = make_options(s, &options, err);
    /* The first call learns how large the buffer must be. */
    for (int call = 0; call < 2 && status == EMBER_OK; call++) {
        size_t capacity = *n;
        status = s->from_tokens ? ember_embed_tokens(context, s->tokens, s->n_tokens, &s->n_tokens, 1, options,
                                                     *vectors, capacity, n, err)
                                : ember_embed(context, lines->texts, lines->lengths, lines->n, options, *vectors,
                                              capacity, n, err);
        if (call == 0 && status == EMBER_E_BUFFER_TOO_SMALL) {
            ember_error_free(*err);
            *err = NULL;
            *vectors = grow(NULL, *n, sizeof **vectors);
            status = EMBER_OK;
        } else
            break;
    }
    ember_embed_options_free(options);
    return status;
}

/* Prints or writes `n` numbers, `n_embd` a vector; the exit code. */
static int write_vectors(const struct settings *s, const char *program, const float *vectors, size_t n, size_t n_embd)
{
    if (s->out_path == NULL) {
        for (size_t i = 0; i < n; i++)
            printf("%.9g%c", (double)vectors[i], (i + 1) % n_embd == 0 ? '\n' : ' ');
        return written(program, stdout, "standard output") ? EXIT_SUCCESS : EXIT_REFUSED;
    }
    FILE *file = fopen(s->out_path, "wb");
    if (file == NULL) {
        fprintf(stderr, "%s: cannot write to %s: %s\n", program, s->out_path, strerror(errno));
        return EXIT_REFUSED;
    }
    write_floats(file, vectors, n);
    int code = written(program, file, s->out_path) ? EXIT_SUCCESS : EXIT_REFUSED;
    fclose(file);
    return code;
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

    char *input = NULL;
    struct lines lines = {NULL, NULL, 0};
    if (status == EMBER_OK && !s->from_tokens) {
        size_t len = 0;
        input = read_input(program, &len);
        lines = split(input, len);
    }
    float *vectors = NULL;
    size_t n = 0;
    if (status == EMBER_OK)
        status = embed(s, context, &lines, &vectors, &n, &err);
    int code = status == EMBER_OK ? write_vectors(s, program, vectors, n, info.n_embd) : refused(program, err);

    free(vectors);
    free(lines.texts);
    free(lines.lengths);
    free(input);
    ember_context_free(context);
    ember_model_release(model);
    return code;
}

int main(int argc, char **argv)
{
    uint32_t *tokens = grow(NULL, (size_t)argc + 1, sizeof *tokens);
    struct settings settings = read_command_line(argc, argv, tokens);
    int code = run(&settings, argv[0]);
    free(tokens);
    return code;
}

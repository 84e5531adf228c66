/* Text on standard input, token ids on standard output; or, with --decode, the other way. */
#include "common.h"

/* What the command line asks for. */
struct settings {
    const char *tokenizer;
    bool bos;
    bool special;
    bool decode;
};

static void print_help(const char *program)
{
    printf("Text on standard input to token ids on standard output, separated by spaces; or back.\n"
           "\n"
           "Usage: %s TOKENIZER [options] < TEXT\n"
           "\n"
           "TOKENIZER is a GGUF file (a model's, or one of a vocabulary alone), a Hugging Face folder, or a\n"
           "tokenizer.json. No weights are read.\n"
           "\n"
           "  --no-bos       do not add the beginning- and end-of-sequence tokens that the model asks for;\n"
           "                 with --decode: keep a beginning-of-sequence token that stands first\n"
           "  --no-special   take the text of special tokens, such as \"<|endoftext|>\", for plain text;\n"
           "                 with --decode: leave special tokens out\n"
           "  --decode       token ids to text: the exact bytes, nothing added\n"
           "  -h, --help     this text\n"
           "\n"
           "The text must be UTF-8; every byte of it counts, line ends included.\n"
           "\n"
           "Example: printf 'Once upon a time' | %s examples/models/ember-tales.gguf\n",
           program, program);
}

static struct settings read_command_line(int argc, char **argv)
{
    struct settings s = {NULL, true, true, false};
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            print_help(argv[0]);
            exit(written(argv[0], stdout, "standard output") ? EXIT_SUCCESS : EXIT_REFUSED);
        } else if (strcmp(arg, "--no-bos") == 0)
            s.bos = false;
        else if (strcmp(arg, "--no-special") == 0)
            s.special = false;
        else if (strcmp(arg, "--decode") == 0)
            s.decode = true;
        else if (*arg == '-')
            usage_error(argv[0], "there is no option %s", arg);
        else if (s.tokenizer != NULL)
            usage_error(argv[0], "\"%s\" is one argument too many; the text goes to standard input", arg);
        else
            s.tokenizer = arg;
    }
    if (s.tokenizer == NULL)
        usage_error(argv[0], "a model file, a folder or a tokenizer.json is needed");
    return s;
}

static ember_status print_tokens(const struct settings *s, const ember_tokenizer *tokenizer, const char *text, size_t len,
                                 ember_error **err)
{
    size_t n = len + 2; /* about one token for a byte at most; Ember says if that is too few */
    uint32_t *tokens = grow(NULL, n, sizeof *tokens);
    ember_status status = ember_tokenizer_tokenize(tokenizer, text, len, s->bos, s->special, tokens, n, &n, err);
    if (status == EMBER_E_BUFFER_TOO_SMALL) {
        ember_error_free(*err);
        tokens = grow(tokens, n, sizeof *tokens);
        status = ember_tokenizer_tokenize(tokenizer, text, len, s->bos, s->special, tokens, n, &n, err);
    }
    for (size_t i = 0; i < n && status == EMBER_OK; i++)
        printf("%s%lu", i == 0 ? "" : " ", (unsigned long)tokens[i]);
    if (status == EMBER_OK)
        putchar('\n');
    free(tokens);
    return status;
}

/* Reads the ids in `text`, which is cut into words, into `ids`; 0, after a sentence, for a word that is no id. */
static int read_ids(const char *program, char *text, size_t len, uint32_t *ids, size_t *n)
{
    *n = 0;
    if (strlen(text) != len) {
        fprintf(stderr, "%s: standard input has a NUL byte; token ids are integers between spaces\n", program);
        return 0;
    }
    for (char *word = strtok(text, " \t\r\n"); word != NULL; word = strtok(NULL, " \t\r\n")) {
        uint64_t id = 0;
        if (!read_unsigned(word, UINT32_MAX, &id)) {
            fprintf(stderr, "%s: \"%s\" on standard input is not a token id; ids are integers from 0 on\n",
                    program, word);
            return 0;
        }
        ids[(*n)++] = (uint32_t)id;
    }
    return 1;
}

static ember_status print_text(const struct settings *s, const ember_tokenizer *tokenizer, const uint32_t *ids, size_t n_ids,
                               ember_error **err)
{
    ember_tokenizer_info info = {.struct_size = sizeof info};
    ember_status status = ember_tokenizer_info_get(tokenizer, &info, err);
    if (status != EMBER_OK)
        return status;
    size_t skip = s->bos && info.add_bos && n_ids > 0 && ids[0] == info.bos_token;
    ids += skip;
    n_ids -= skip;

    size_t n = 0;
    status = ember_tokenizer_detokenize(tokenizer, ids, n_ids, s->special, NULL, 0, &n, err);
    if (status != EMBER_E_BUFFER_TOO_SMALL)
        return status; /* an error, or no bytes at all */
    ember_error_free(*err);
    uint8_t *bytes = grow(NULL, n, 1);
    status = ember_tokenizer_detokenize(tokenizer, ids, n_ids, s->special, bytes, n, &n, err);
    if (status == EMBER_OK)
        fwrite(bytes, 1, n, stdout);
    free(bytes);
    return status;
}

int main(int argc, char **argv)
{
    struct settings settings = read_command_line(argc, argv);
    ember_tokenizer *tokenizer = NULL;
    ember_error *err = NULL;
    ember_status status = ember_tokenizer_load(settings.tokenizer, EMBER_NUL_TERMINATED, &tokenizer, &err);
    if (status != EMBER_OK)
        return refused(argv[0], err);

    int code = EXIT_SUCCESS;
    size_t len = 0, n_ids = 0;
    char *input = read_input(argv[0], &len);
    if (settings.decode) {
        uint32_t *ids = grow(NULL, len / 2 + 1, sizeof *ids);
        if (read_ids(argv[0], input, len, ids, &n_ids))
            status = print_text(&settings, tokenizer, ids, n_ids, &err);
        else
            code = EXIT_USAGE;
        free(ids);
    } else {
        status = print_tokens(&settings, tokenizer, input, len, &err);
    }
    if (status != EMBER_OK)
        code = refused(argv[0], err);
    if (!written(argv[0], stdout, "standard output"))
        code = EXIT_REFUSED;

    free(input);
    ember_tokenizer_release(tokenizer);
    return code;
}

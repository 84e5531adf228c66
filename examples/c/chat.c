/* A conversation with a model: each line of standard input is a message, the answer goes to standard output as it comes. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <unistd.h>
#endif

#include "common.h"

#ifdef _WIN32
#include <io.h>
#define isatty _isatty
#define STDIN_FILENO 0
#endif

/* What the command line asks for. */
struct settings {
    struct text_settings text;
    const char *system;
    const char *chat_template;
    int verbose;
};

/* Bytes that grow. */
struct text {
    char *bytes;
    size_t len, capacity;
};

/* The conversation and what continues it. */
struct chat {
    const char *program;
    ember_model *model;
    ember_context *context;
    ember_sampler *sampler;
    ember_generate_options *options;
    ember_chat_options *how; /* the template */
    struct text messages; /* a JSON array without its last bracket */
    struct text prompt, answer;
    uint32_t *tokens, *plain;
    size_t tokens_capacity;
};

/* Ends loading and answers. */
static ember_cancel_token *interrupted = NULL;

#ifdef _WIN32
static BOOL WINAPI on_interrupt(DWORD event)
{
    if (event != CTRL_C_EVENT)
        return FALSE;
    ember_cancel_token_cancel(interrupted);
    return TRUE;
}

static void watch_interrupts(int on)
{
    SetConsoleCtrlHandler(on_interrupt, on);
}
#else
static void on_interrupt(int number)
{
    (void)number;
    ember_cancel_token_cancel(interrupted);
}

static void watch_interrupts(int on)
{
    struct sigaction action;
    memset(&action, 0, sizeof action); /* no SA_RESTART: reading a line ends, too */
    action.sa_handler = on ? on_interrupt : SIG_DFL;
    sigaction(SIGINT, &action, NULL);
}
#endif

static void print_help(const char *program)
{
    printf("Talks with a language model: a line is a message, the answer comes below it.\n"
           "\n"
           "Usage: %s -m MODEL [options]\n"
           "\n"
           "  -m MODEL       GGUF file or folder\n"
           "  --system TEXT  the system message, before the conversation\n"
           "  --template J   a chat template in Jinja instead of the model's own\n"
           "  -n N           most tokens of an answer (default: 512)\n"
           "  --temp T       temperature; 0 always takes the most probable token (default: 0.8)\n"
           "  --top-k K      choose among the K most probable tokens; 0: all (default: 40)\n"
           "  --top-p P      choose among the most probable tokens that make up P; 1: all (default: 0.95)\n"
           "  --seed S       the same seed gives the same answers (default: from the clock)\n"
           "  -t THREADS     threads; 0: one for each core (default: 0)\n"
           "  -c N_CTX       tokens of the conversation; 0: what the model was trained on, 4096 at most (default: 0)\n"
           "  -v             a line about each answer on standard error\n"
           "  -h, --help     this text\n"
           "\n"
           "Lines that are commands: /reset begins a new conversation, /quit ends the program, as the end of the input does.\n"
           "Ctrl-C ends the answer that is being given, and the program when none is.\n",
           program);
}

static struct settings read_command_line(int argc, char **argv)
{
    struct settings s = {
        .text = {.n_tokens = 512, .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .seed = seed_from_clock()}};
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            print_help(argv[0]);
            exit(written(argv[0], stdout, "standard output") ? EXIT_SUCCESS : EXIT_REFUSED);
        } else if (read_text_option(&s.text, argc, argv, &i))
            continue;
        else if (strcmp(arg, "--system") == 0)
            s.system = option_value(argc, argv, &i);
        else if (strcmp(arg, "--template") == 0)
            s.chat_template = option_value(argc, argv, &i);
        else if (strcmp(arg, "-v") == 0)
            s.verbose = 1;
        else if (*arg == '-')
            usage_error(argv[0], "there is no option %s", arg);
        else
            usage_error(argv[0], "\"%s\" has no option before it; a model goes after -m, messages to standard input", arg);
    }
    if (s.text.model == NULL)
        usage_error(argv[0], "a model is needed (-m)");
    return s;
}

static void append(struct text *text, const char *bytes, size_t len)
{
    if (text->len + len > text->capacity) {
        text->capacity = 2 * (text->len + len);
        text->bytes = grow(text->bytes, text->capacity, 1);
    }
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
}

/* A message at the end of the conversation. Valid UTF-8 is JSON as it stands, but for quotes, backslashes and controls. */
static void append_message(struct text *messages, const char *role, const char *content, size_t len)
{
    char escaped[8];
    append(messages, messages->len == 0 ? "[" : ",", 1);
    append(messages, "{\"role\":\"", 9);
    append(messages, role, strlen(role));
    append(messages, "\",\"content\":\"", 13);
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)content[i];
        if (c == '"' || c == '\\') {
            append(messages, "\\", 1);
            append(messages, content + i, 1);
        } else if (c < 0x20)
            append(messages, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", c));
        else
            append(messages, content + i, 1);
    }
    append(messages, "\"}", 2);
}

/* The tokens of a text into `tokens`, whose capacity is tokens_capacity; it grows when it is too small. */
static ember_status tokenize(struct chat *chat, const char *text, size_t len, bool parse_special, uint32_t **tokens,
                             size_t *n, ember_error **err)
{
    ember_status status = ember_model_tokenize(chat->model, text, len, false, parse_special, *tokens, chat->tokens_capacity, n, err);
    if (status != EMBER_E_BUFFER_TOO_SMALL)
        return status;
    ember_error_free(*err);
    chat->tokens_capacity = *n;
    chat->tokens = grow(chat->tokens, *n, sizeof *chat->tokens);
    chat->plain = grow(chat->plain, *n, sizeof *chat->plain);
    return ember_model_tokenize(chat->model, text, len, false, parse_special, *tokens, chat->tokens_capacity, n, err);
}

/* Whether a text may become a message: it is UTF-8 and does not spell a control token, which could end the message before
 * its end and go on as somebody else's. If not, a sentence has said so. */
static int may_be_said(struct chat *chat, const char *text, size_t len)
{
    ember_error *err = NULL;
    size_t n = 0, n_plain = 0;
    ember_status status = tokenize(chat, text, len, true, &chat->tokens, &n, &err);
    if (status == EMBER_OK)
        status = tokenize(chat, text, len, false, &chat->plain, &n_plain, &err);
    if (status != EMBER_OK) {
        refused(chat->program, err);
        return 0;
    }
    if (n == n_plain && memcmp(chat->tokens, chat->plain, n * sizeof *chat->plain) == 0)
        return 1;
    fprintf(stderr, "%s: the message spells a control token of the model\n", chat->program);
    return 0;
}

/* The conversation as the model was trained to see it. */
static ember_status apply_template(struct chat *chat, ember_error **err)
{
    size_t n = 0;
    append(&chat->messages, "]", 1);
    ember_status status = ember_chat_apply_template(chat->model, chat->messages.bytes, chat->messages.len, chat->how,
                                                    (uint8_t *)chat->prompt.bytes, chat->prompt.capacity, &n, err);
    if (status == EMBER_E_BUFFER_TOO_SMALL) {
        ember_error_free(*err);
        chat->prompt.capacity = 2 * n;
        chat->prompt.bytes = grow(chat->prompt.bytes, chat->prompt.capacity, 1);
        status = ember_chat_apply_template(chat->model, chat->messages.bytes, chat->messages.len, chat->how,
                                           (uint8_t *)chat->prompt.bytes, chat->prompt.capacity, &n, err);
    }
    chat->messages.len--;
    chat->prompt.len = n;
    return status;
}

/* Prints the answer as it comes and keeps it. */
static ember_status stream(struct chat *chat, ember_generator *generator, ember_error **err)
{
    ember_event event = {.struct_size = sizeof event, .kind = EMBER_EVENT_TOKEN};
    ember_status status = EMBER_OK;
    while (status == EMBER_OK && event.kind != EMBER_EVENT_END) {
        status = ember_generator_next(generator, &event, err);
        if (status != EMBER_OK)
            break;
        append(&chat->answer, event.text, event.text_len);
        fwrite(event.text, 1, event.text_len, stdout);
        fflush(stdout);
    }
    putchar('\n');
    if (status == EMBER_OK && event.finish_reason == EMBER_FINISH_CONTEXT_FULL)
        fprintf(stderr, "%s: the conversation is as long as the context; /reset begins a new one\n", chat->program);
    return status;
}

/* Answers the conversation, of which the context holds the beginning already. */
static ember_status answer(struct chat *chat, int verbose, ember_error **err)
{
    ember_generator *generator = NULL;
    ember_generate_result usage = {.struct_size = sizeof usage};
    size_t n = 0;
    chat->answer.len = 0;
    ember_status status = apply_template(chat, err);
    /* The template spells control tokens, BOS too. */
    if (status == EMBER_OK)
        status = tokenize(chat, chat->prompt.bytes, chat->prompt.len, true, &chat->tokens, &n, err);
    if (status == EMBER_OK)
        status = ember_generator_new_tokens(chat->context, chat->tokens, n, chat->options, chat->sampler, &generator, err);
    if (status == EMBER_OK)
        status = stream(chat, generator, err);
    if (status == EMBER_OK && verbose && ember_generator_usage(generator, &usage, NULL) == EMBER_OK)
        fprintf(stderr, "prompt %u tokens, %u of them kept; answer %u tokens%s\n", (unsigned)usage.n_prompt,
                (unsigned)usage.n_reused, (unsigned)usage.n_generated,
                usage.finish_reason == EMBER_FINISH_CANCELLED ? ", interrupted" : "");
    ember_generator_free(generator);
    return status;
}

/* A message and its answer become part of the conversation, or neither. */
static void turn(struct chat *chat, const char *line, size_t len, int verbose)
{
    const size_t before = chat->messages.len;
    ember_error *err = NULL;
    if (!may_be_said(chat, line, len))
        return;
    append_message(&chat->messages, "user", line, len);
    if (answer(chat, verbose, &err) != EMBER_OK)
        refused(chat->program, err);
    if (chat->answer.len == 0)
        chat->messages.len = before;
    else
        append_message(&chat->messages, "assistant", chat->answer.bytes, chat->answer.len);
    ember_cancel_token_reset(interrupted);
}

static void begin(struct chat *chat, const char *system)
{
    chat->messages.len = 0;
    if (system != NULL)
        append_message(&chat->messages, "system", system, strlen(system));
}

/* The next line of standard input, without its end; 0 when there is none. */
static int read_line(struct text *line)
{
    int c = getc(stdin);
    line->len = 0;
    for (; c != EOF && c != '\n'; c = getc(stdin)) {
        const char byte = (char)c;
        append(line, &byte, 1);
    }
    const int there = line->len > 0 || c == '\n';
    while (line->len > 0 && line->bytes[line->len - 1] == '\r')
        line->len--;
    append(line, "", 1); /* its end, for strcmp */
    line->len--;
    return there;
}

/* Reads messages until there are no more. */
static void converse(struct chat *chat, const struct settings *s)
{
    struct text line = {NULL, 0, 0};
    const int terminal = isatty(STDIN_FILENO);
    begin(chat, s->system);
    for (;;) {
        if (terminal)
            fputs("> ", stdout);
        fflush(stdout);
        if (!read_line(&line))
            break;
        if (line.len == 0)
            continue;
        if (strcmp(line.bytes, "/quit") == 0)
            break;
        if (strcmp(line.bytes, "/reset") == 0)
            begin(chat, s->system);
        else if (*line.bytes == '/')
            fprintf(stderr, "%s: there is no command %s; there are /reset and /quit\n", chat->program, line.bytes);
        else
            turn(chat, line.bytes, line.len, s->verbose);
    }
    if (terminal)
        putchar('\n');
    free(line.bytes);
}

/* The prompt is always the whole conversation; what the context has of it already is kept. */
static ember_status make_options(const struct settings *s, ember_generate_options **out, ember_error **err)
{
    ember_status status = ember_generate_options_new(out, err);
    if (status == EMBER_OK)
        status = ember_generate_options_set_max_tokens(*out, s->text.n_tokens, err);
    if (status == EMBER_OK)
        status = ember_generate_options_set_reuse_prefix(*out, true, err);
    if (status == EMBER_OK)
        status = ember_generate_options_set_cancel_token(*out, interrupted, err);
    return status;
}

/* Chooses the template, and says at once and not after the first message if the model cannot talk. */
static ember_status make_template(struct chat *chat, const char *source, ember_error **err)
{
    static const char hello[] = "[{\"role\":\"user\",\"content\":\"Hello\"}]";
    size_t n = 0;
    ember_status status = ember_chat_options_new(&chat->how, err);
    if (status == EMBER_OK && source != NULL)
        status = ember_chat_options_set_template(chat->how, source, EMBER_NUL_TERMINATED, err);
    if (status == EMBER_OK)
        status = ember_chat_apply_template(chat->model, hello, sizeof hello - 1, chat->how, NULL, 0, &n, err);
    if (status != EMBER_E_BUFFER_TOO_SMALL)
        return status;
    ember_error_free(*err);
    *err = NULL;
    return EMBER_OK;
}

int main(int argc, char **argv)
{
    use_utf8(&argc, &argv);
    struct settings settings = read_command_line(argc, argv);
    struct chat chat = {.program = argv[0]};
    ember_error *err = NULL;
    int code = EXIT_SUCCESS;

    ember_status status = ember_cancel_token_new(&interrupted, &err);
    if (status == EMBER_OK) {
        watch_interrupts(1);
        status = text_model(&settings.text, interrupted, &chat.model, &err);
    }
    if (status == EMBER_OK)
        status = make_template(&chat, settings.chat_template, &err);
    if (status == EMBER_OK)
        status = text_context(&settings.text, 0, chat.model, &chat.context, &err);
    if (status == EMBER_OK)
        status = text_sampler(&settings.text, &chat.sampler, &err);
    if (status == EMBER_OK)
        status = make_options(&settings, &chat.options, &err);
    if (status != EMBER_OK)
        code = refused(argv[0], err);
    else if (settings.system != NULL && !may_be_said(&chat, settings.system, strlen(settings.system)))
        code = EXIT_REFUSED;
    else
        converse(&chat, &settings);
    if (!written(argv[0], stdout, "standard output"))
        code = EXIT_REFUSED;

    ember_chat_options_free(chat.how);
    ember_generate_options_free(chat.options);
    ember_sampler_free(chat.sampler);
    ember_context_free(chat.context);
    ember_model_release(chat.model);
    free(chat.messages.bytes);
    free(chat.prompt.bytes);
    free(chat.answer.bytes);
    free(chat.tokens);
    free(chat.plain);
    watch_interrupts(0); /* nobody uses the token any more */
    ember_cancel_token_free(interrupted);
    return code;
}

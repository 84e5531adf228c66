/* How much of a thread's stack calls take: SECURITY.md promises 100 KB at most, whatever a file, a template or JSON says. Every case
 * runs on a thread whose stack was painted, and the deepest byte that lost its paint is counted; then on one of 112 KB. With
 * EMBER_STACK_LIMIT in the environment (bytes) libraries may be tested whose frames are larger: those that are not optimised. */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

static const size_t NUL = EMBER_NUL_TERMINATED;
enum { PAINTED = 2 << 20, LEAST = 112 << 10, PAINT = 0xa5 };
static size_t limit = 100 << 10;
static const char *bundled;
static ember_model *model;

/* What a case is about: a text to be given to `run`. */
typedef struct {
    const char *name;
    void (*run)(const char *text);
    const char *text;
} Case;

static void *go(void *argument)
{
    const Case *one = argument;
    one->run(one->text);
    return NULL;
}

/* Runs a case on a stack of so many bytes; how many of them it used. */
static size_t used(const Case *one, size_t size)
{
    unsigned char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;
    size_t untouched = 0;
    if (stack == MAP_FAILED)
        exit(1);
    memset(stack, PAINT, size);
    pthread_attr_init(&attributes);
    if (pthread_attr_setstack(&attributes, stack, size) != 0 ||
        pthread_create(&thread, &attributes, go, (void *)one) != 0) {
        printf("no thread with a stack of %zu bytes\n", size);
        exit(1);
    }
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    while (untouched < size && stack[untouched] == PAINT)
        untouched++;
    munmap(stack, size);
    return size - untouched;
}

static void nothing(const char *text)
{
    (void)text;
}

static size_t most;

static void look(const Case *one)
{
    static const Case idle = {"nothing", nothing, ""};
    static size_t base;
    if (base == 0)
        base = used(&idle, PAINTED);
    size_t n = used(one, PAINTED) - base;
    most = n > most ? n : most;
    if (getenv("EMBER_TEST_SENTENCES") != NULL || n > limit)
        printf("%6zu bytes: %s: %.60s\n", n, one->name, one->text);
    CHECK(n <= limit);
    if (n <= limit && limit <= 100 << 10)
        CHECK(used(one, LEAST) > 0);
}

/* `n` times `open`, `middle`, `n` times `close`. */
static char *nested(const char *before, const char *open, const char *middle, const char *close, const char *after, int n)
{
    size_t len = strlen(before) + strlen(middle) + strlen(after) + (size_t)n * (strlen(open) + strlen(close)) + 1;
    char *text = malloc(len), *at = text;
    if (text == NULL)
        exit(1);
    at += sprintf(at, "%s", before);
    for (int i = 0; i < n; i++)
        at += sprintf(at, "%s", open);
    at += sprintf(at, "%s", middle);
    for (int i = 0; i < n; i++)
        at += sprintf(at, "%s", close);
    sprintf(at, "%s", after);
    return text;
}

static void look_at(const char *name, void (*run)(const char *), char *text)
{
    Case one = {name, run, text};
    look(&one);
    free(text);
}

static void tokenizer(const char *json)
{
    ember_tokenizer *tokens = NULL;
    uint32_t ids[64];
    size_t n;
    ember_error *error = NULL;
    if (ember_tokenizer_load_buffer((const uint8_t *)json, strlen(json), &tokens, NULL) == EMBER_OK) {
        ember_tokenizer_tokenize(tokens, "aab (xx) 12 \xc3\xa9", NUL, true, true, ids, 64, &n, &error);
        ember_error_free(error);
    }
    ember_tokenizer_release(tokens);
}

#define MODEL "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}"
static const int DEPTHS[] = {1, 8, 15, 16, 17, 40, 63, 80, 126, 250, 2000};
enum { N_DEPTHS = sizeof DEPTHS / sizeof *DEPTHS };

static void expressions(void)
{
    static const char *const shapes[][2] = {
        {"(", ")"}, {"(?:a|", ")"}, {"(?:a|(b", ")?)*"}, {"(a", ")b"}, {"(?=", ")"}, {"(?!(?:a|b", ")x)"}, {"(?<=a|", ")"},
        {"(?>a|", ")"}, {"[a[^b", "]]"}, {"", "*?"}, {"", "{2,3}"}, {"(?x: # )\\n (", "))"}, {"(?i:(?<n>a)|", ")"},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int d = 0; d < N_DEPTHS; d++) {
            for (int fancy = 0; fancy < 2; fancy++) {
                char *split = nested("{" MODEL ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"",
                                     shapes[i][0], fancy ? "x(?=y)" : "x", shapes[i][1],
                                     "\"}, \"behavior\": \"Isolated\", \"invert\": false}}", DEPTHS[d]);
                look_at("an expression", tokenizer, split);
            }
        }
    }
}

static void files(void)
{
    for (int d = 0; d < N_DEPTHS; d++) {
        int n = DEPTHS[d];
        look_at("normalizers", tokenizer,
                nested("{" MODEL ", \"normalizer\": ", "{\"type\": \"Sequence\", \"normalizers\": [", "{\"type\": \"NFC\"}", "]}", "}", n));
        look_at("pre-tokenizers", tokenizer,
                nested("{" MODEL ", \"pre_tokenizer\": ", "{\"type\": \"Sequence\", \"pretokenizers\": [",
                       "{\"type\": \"Whitespace\"}", "]}", "}", n));
        look_at("decoders", tokenizer,
                nested("{" MODEL ", \"decoder\": ", "{\"type\": \"Sequence\", \"decoders\": [", "{\"type\": \"ByteLevel\"}", "]}", "}", n));
        look_at("lists", tokenizer, nested("{" MODEL ", \"x\": ", "[", "1", "]", "}", n));
        look_at("objects", tokenizer, nested("{" MODEL ", \"added_tokens\": ", "{\"a\":", "1", "}", "}", n));
        look_at("vocabulary", tokenizer, nested("{\"model\": {\"type\": \"BPE\", \"vocab\": ", "[{\"a\":", "1", "}]", "}}", n));
    }
}

#define HELLO "[{\"role\": \"user\", \"content\": \"Hello\", \"x\": [1, [2], {\"a\": {\"b\": 3}}]}]"

static void render(const char *source, const char *messages)
{
    ember_chat_options *options = NULL;
    ember_error *error = NULL;
    uint8_t text[256];
    size_t n;
    ember_chat_options_new(&options, NULL);
    ember_chat_options_set_template(options, source, NUL, NULL);
    ember_chat_apply_template(model, messages, NUL, options, text, sizeof text, &n, &error);
    ember_error_free(error);
    ember_chat_options_free(options);
}

static void chat(const char *source)
{
    render(source, HELLO);
}

static void messages(const char *json)
{
    render("{{ messages }}{{ messages | tojson(indent=2) }}{{ messages == messages }}{{ messages | string | length }}", json);
}

static void templates(void)
{
    /* What lies in itself, in as many ways as there are. */
    static const char *const inside[][5] = {
        {"", "{% if true %}", "x", "{% endif %}", ""},
        {"", "{% for i in [1] %}", "x", "{% endfor %}", ""},
        {"", "{% set a %}", "x", "{% endset %}", ""},
        {"", "{% filter upper %}", "x", "{% endfilter %}", ""},
        {"", "{% filter upper | trim(' ') %}", "x", "{% endfilter %}", ""},
        {"", "{% with a = 1 %}", "x", "{% endwith %}", ""},
        {"{% macro m() %}{{ caller() }}{% endmacro %}", "{% call m() %}", "x", "{% endcall %}", ""},
        {"", "{% macro m() %}", "x", "{% endmacro %}", "{{ m() }}"},
        {"{{ ", "(", "1", ")", " }}"},
        {"{{ ", "[", "1", "]", " }}"},
        {"{{ ", "{'a': ", "1", "}", " }}"},
        {"{{ ", "(1 + ", "1", ")", " }}"},
        {"{{ ", "(1, ", "1", ")", " }}"},
        {"{{ ", "(1 if ", "1", " else 2)", " }}"},
        {"{{ ", "", "1", " if 1 else 2", " }}"},
        {"{{ ", "not ", "1", "", " }}"},
        {"{{ ", "-", "1", "", " }}"},
        {"{{ ", "", "'a'", "|upper", " }}"},
        {"{{ ", "", "'a'", "|default('b')", " }}"},
        {"{{ ", "'a'|default(", "'a'", ")", " }}"},
        {"{{ ", "", "'a'", ".upper()", " }}"},
        {"{{ ", "", "[1]", "[0:]", " }}"},
        {"{{ ", "[[1]][", "0", "][0]", " }}"},
        {"{{ ", "range(", "1", ")|list|length", " }}"},
        {"{{ ", "dict(a=", "1", ")", " }}"},
        {"{{ ", "namespace(a=", "1", ").a", " }}"},
        {"{{ ", "1 in [", "1", "]", " }}"},
        {"{{ ", "(1 < ", "1", ")", " }}"},
        {"{{ ", "('a' ~ ", "1", ")", " }}"},
        {"{{ ", "(1 and ", "1", ")", " }}"},
        {"{{ ", "", "1", " is defined", " }}"},
        {"{{ ", "1 is divisibleby(", "1", ")", " }}"},
        {"{{ ", "[[1]]|map('join', ", "'a'", ")|list", " }}"},
        {"{{ ", "'%s'|format(", "'a'", ")", " }}"},
        {"{% set a = [] %}", "{% set a = [a] %}", "", "", "{{ a }}{{ a | tojson }}{{ a == a }}{{ a < a }}{{ a | string }}"},
        {"{% set a = {} %}", "{% set a = {'a': a} %}", "", "", "{{ a }}{{ a | tojson(indent=1) }}{{ a == a }}{{ [a] | unique | list }}"},
        {"", "{% for ", "a", " in [1] %}{% endfor %}", ""},
        {"{% for ", "(", "a, b", ")", " in [1] %}{% endfor %}"},
        {"", "{% block a %}", "x", "{% endblock %}", ""},
        {"", "{% if false %}{% else %}", "x", "{% endif %}", ""},
        {"", "{% for x in [] recursive %}{% else %}", "x", "{% endfor %}", ""},
    };
    /* What calls itself. */
    static const char *const again[] = {
        "{% macro m(a=m()) %}{% endmacro %}{{ m() }}",
        "{% macro m(a=[m()]) %}{{ a }}{% endmacro %}{{ m() }}",
        "{% macro m(a='x'|default(m(), true)) %}{% endmacro %}{{ m() }}",
        "{% macro m(a={'b': m() ~ 'x'}) %}{% endmacro %}{{ m() }}",
        "{% macro m(a, b=m(1 if a else m(a, m()))) %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ m()|upper }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ [m()] }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ 'a'|replace('a', m()) }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% if m() %}{% endif %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% for a in [1] %}{{ m() }}{% endfor %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% for a in [1] if m() %}{% endfor %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% set a %}{{ m() }}{% endset %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% set a, b = m(), 1 %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% with a = m() %}{% endwith %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% filter default(m()) %}{% endfilter %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% filter upper %}{{ m() }}{% endfilter %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{% macro n() %}{% call m() %}{{ n() }}{% endcall %}{% endmacro %}{{ n() }}",
        "{% macro m() %}{% call(x) m() %}{{ caller() }}{% endcall %}{{ caller() }}{% endmacro %}{% call m() %}{% endcall %}",
        "{% macro m() %}{{ dict(a=m(), **{'b': m()}) }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ m(*[m()]) }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ 1 if m() else m() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ m().upper().lower() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ {'a': m}['a']() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ 'abc'[m()|length:] }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ m() is string }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ raise_exception(m()) }}{% endmacro %}{{ m() }}",
        "{% block b %}{{ self.b() }}{% endblock %}",
        "{% block b %}{% for a in [1] %}{{ self.b()|upper }}{% endfor %}{% endblock %}",
        "{% for a in [[1]] recursive %}{{ loop([a]) }}{% endfor %}",
        "{% set x = [1] %}{% for a in [x] recursive %}{{ loop([x])|upper }}{% endfor %}",
        "{% set c = cycler(1, 2) %}{% macro m() %}{{ c.next() }}{{ m() }}{% endmacro %}{{ m() }}",
        "{% set j = joiner(',') %}{% macro m() %}{{ j() }}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ [1, 2]|sort(attribute=m())|list }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ [1]|map('default', m())|list }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ [1]|select('equalto', m())|list }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ [{'a': 1}]|groupby('a', default=m()) }}{% endmacro %}{{ m() }}",
    };
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        for (int d = 0; d < N_DEPTHS; d++) {
            const char *const *s = inside[i];
            look_at("a template", chat, nested(s[0], s[1], s[2], s[3], s[4], DEPTHS[d]));
        }
    for (size_t i = 0; i < sizeof again / sizeof *again; i++) {
        Case one = {"a template that calls itself", chat, again[i]};
        look(&one);
    }
    for (int d = 0; d < N_DEPTHS; d++) {
        look_at("messages", messages, nested("[{\"role\": \"user\", \"content\": ", "[", "1", "]", "}]", DEPTHS[d]));
        look_at("messages", messages, nested("[{\"role\": \"user\", \"content\": ", "{\"a\":", "1", "}", "}]", DEPTHS[d]));
    }
}

static void reply(const char *text)
{
    ember_chat_parser *parser = NULL;
    ember_chat_options *options = NULL;
    ember_error *error = NULL;
    ember_chat_options_new(&options, NULL);
    ember_chat_options_set_template(options, "{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
                                             "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", NUL, NULL);
    ember_chat_options_set_tools(options, "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}]", NUL, NULL);
    if (ember_chat_parser_new(model, options, NULL, 0, &parser, &error) == EMBER_OK) {
        ember_chat_parser_push(parser, text, NUL, NULL);
        ember_chat_parser_finish(parser, EMBER_FINISH_MAX_TOKENS, NULL);
    }
    ember_error_free(error);
    ember_chat_parser_free(parser);
    ember_chat_options_free(options);
}

static void replies(void)
{
    for (int d = 0; d < N_DEPTHS; d++) {
        look_at("a call", reply, nested("<tool_call>\n{\"name\": \"f\", \"arguments\": ", "{\"a\": [", "1", "]}", "}\n</tool_call>", DEPTHS[d]));
        look_at("a call", reply, nested("[f(a=", "[", "1", "]", ")]", DEPTHS[d]));
    }
}

static void schema(const char *text)
{
    ember_constraint *constraint = NULL;
    ember_error *error = NULL;
    ember_constraint_new_json_schema(model, text, NUL, NULL, &constraint, &error);
    ember_error_free(error);
    ember_constraint_free(constraint);
}

static void regex(const char *text)
{
    ember_constraint *constraint = NULL;
    ember_error *error = NULL;
    ember_constraint_new_regex(model, text, NUL, NULL, &constraint, &error);
    ember_error_free(error);
    ember_constraint_free(constraint);
}

static void lark(const char *text)
{
    ember_constraint *constraint = NULL;
    ember_error *error = NULL;
    ember_constraint_new_lark(model, text, NUL, NULL, &constraint, &error);
    ember_error_free(error);
    ember_constraint_free(constraint);
}

static void constraints(void)
{
    for (int d = 0; d < N_DEPTHS; d++) {
        int n = DEPTHS[d];
        look_at("a schema", schema, nested("", "{\"type\": \"object\", \"properties\": {\"a\": ", "{}", "}}", "", n));
        look_at("a schema", schema, nested("", "{\"type\": \"array\", \"items\": ", "{\"type\": \"number\"}", "}", "", n));
        look_at("a schema", schema, nested("", "{\"anyOf\": [{\"const\": 1}, ", "{\"const\": 2}", "]}", "", n));
        look_at("a schema", schema, nested("", "{\"allOf\": [{\"type\": \"object\"}, ", "{}", "]}", "", n));
        look_at("a schema", schema, nested("{\"const\": ", "[", "1", "]", "}", n));
        look_at("a schema", schema, nested("{\"type\": \"string\", \"pattern\": \"", "(a|", "b", ")*", "\"}", n));
        look_at("an expression", regex, nested("", "(a|", "b", ")*", "", n));
        look_at("an expression", regex, nested("", "(", "b", "){1,2}", "", n));
        look_at("a grammar", lark, nested("start: ", "(\"a\" | ", "\"b\"", ")*", "\n", n));
        look_at("a grammar", lark, nested("start: ", "[", "\"b\"", "]", "\n", n));
        look_at("a grammar", lark, nested("start: /", "(a|", "b", ")*", "/\n", n));
    }
}

static int32_t go_on(const ember_event *event, void *user_data)
{
    (void)event, (void)user_data;
    return 0;
}

/* Loads the model at `path` and does with it what it can do. */
static void load(const char *path)
{
    static const char *const text = "Once";
    const uint32_t tokens[] = {1, 2, 3, 4, 5};
    const size_t length = 5;
    ember_model *loaded = NULL;
    ember_context *context = NULL;
    ember_context_options *options = NULL;
    ember_generate_options *generate = NULL;
    ember_error *error = NULL;
    float *vectors = NULL;
    size_t n = 0;
    ember_memory memory = {.struct_size = sizeof memory};
    ember_memory_estimate(path, NUL, NULL, NULL, &memory, NULL);
    ember_model_inspect(path, NUL, NULL, 0, &n, NULL);
    ember_context_options_new(&options, NULL);
    ember_context_options_set_n_threads(options, 2, NULL);
    ember_context_options_set_n_ctx(options, 32, NULL);
    if (ember_model_load(path, NUL, NULL, &loaded, NULL) == EMBER_OK &&
        ember_context_new(loaded, options, &context, NULL) == EMBER_OK) {
        ember_generate_options_new(&generate, NULL);
        ember_generate_options_set_max_tokens(generate, 4, NULL);
        ember_generate_tokens(context, tokens, 5, generate, NULL, go_on, NULL, NULL, &error);
        ember_error_free(error);
        ember_generate(context, text, NUL, generate, NULL, go_on, NULL, NULL, NULL);
        ember_context_state_save(context, 0, NULL, 0, &n, NULL);
        ember_embed_tokens(context, tokens, 5, &length, 1, NULL, NULL, 0, &n, NULL);
        vectors = malloc((n + 1) * sizeof *vectors);
        if (vectors != NULL)
            ember_embed_tokens(context, tokens, 5, &length, 1, NULL, vectors, n, &n, NULL);
        free(vectors);
        ember_generate_options_free(generate);
    }
    ember_context_free(context);
    ember_context_options_free(options);
    ember_model_release(loaded);
}

static void models(void)
{
    static const char *const folders[] = {"tests/fixtures/models", "tests/fixtures/hf"};
    Case one = {"a model", load, bundled};
    look(&one);
    for (int i = 0; i < 2; i++) {
        DIR *folder = opendir(folders[i]);
        struct dirent *entry;
        char path[512];
        while (folder != NULL && (entry = readdir(folder)) != NULL) {
            if (entry->d_name[0] == '.' || (i == 0 && strstr(entry->d_name, ".gguf") == NULL))
                continue;
            snprintf(path, sizeof path, "%s/%s", folders[i], entry->d_name);
            Case each = {"a model", load, path};
            look(&each);
        }
        if (folder != NULL)
            closedir(folder);
    }
}

int main(int argc, char **argv)
{
    const char *set = getenv("EMBER_STACK_LIMIT"), *runner = getenv("RUNNER");
    if (runner != NULL && *runner != '\0') {
        puts("stack: not here, where a thread's stack may not be read after its end");
        return 0;
    }
    bundled = model_path(argc, argv);
    if (set != NULL)
        limit = strtoul(set, NULL, 10);
    OK(ember_model_load(bundled, NUL, NULL, &model, E));
    expressions();
    files();
    templates();
    replies();
    constraints();
    models();
    ember_model_release(model);
    printf("the deepest call took %zu bytes of the stack\n", most);
    return finish("stack");
}

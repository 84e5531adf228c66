/* Chat templates. */
#include "check.h"

static const size_t NUL = EMBER_NUL_TERMINATED;
static ember_model *model; /* with a tokenizer and without a chat template */
static ember_chat_options *options;

enum { CAPACITY = 1024 };
static char text[CAPACITY + 1];

#define CHATML                                                                                                         \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"                         \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
#define HELLO "[{\"role\": \"user\", \"content\": \"Hello \\\"you\\\"\"}]"

/* The text of `messages`, NUL-terminated. */
static const char *apply(const char *messages)
{
    size_t n = 0;
    memset(text, 0, sizeof text);
    OK(ember_chat_apply_template(model, messages, NUL, options, (uint8_t *)text, CAPACITY, &n, E));
    CHECK(n == strlen(text));
    return text;
}

static void template_text(const char *source)
{
    OK(ember_chat_options_set_template(options, source, NUL, E));
}

static void conversations(void)
{
    static const char want[] = "<|im_start|>user\nHello \"you\"<|im_end|>\n<|im_start|>assistant\n";
    template_text(CHATML);
    CHECK(strcmp(apply(HELLO), want) == 0);
    OK(ember_chat_options_set_add_generation_prompt(options, false, E));
    CHECK(strlen(apply(HELLO)) == sizeof want - 1 - strlen("<|im_start|>assistant\n"));
    OK(ember_chat_options_set_add_generation_prompt(options, true, E));

    size_t n = 0;
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "buffer", ember_chat_apply_template(model, HELLO, NUL, options, NULL, 0, &n, E));
    CHECK(n == sizeof want - 1);
}

static void settings(void)
{
    template_text("{{ tools | length }} {{ x }} {{ eos_token }} {{ strftime_now('%Y-%m-%d') }}");
    OK(ember_chat_options_set_tools(options, "[{}, {}]", NUL, E));
    OK(ember_chat_options_set_variables(options, "{\"x\": true}", NUL, E));
    OK(ember_chat_options_set_now(options, 951782400, E));
    CHECK(strcmp(apply("[]"), "2 True <|endoftext|> 2000-02-29") == 0);
    OK(ember_chat_options_set_tools(options, NULL, 0, E));
    template_text("{{ tools }}");
    CHECK(strcmp(apply("[]"), "None") == 0);
}

static void failures(void)
{
    size_t n = 77;
    uint8_t byte = 7;
#define APPLY(messages) ember_chat_apply_template(model, messages, NUL, options, &byte, 1, &n, E)
    FAILS(EMBER_E_INVALID_ARGUMENT, "messages", APPLY("nonsense"));
    FAILS(EMBER_E_INVALID_ARGUMENT, "messages[0]", APPLY("[3]"));
    FAILS(EMBER_E_INVALID_ARGUMENT, "messages", APPLY(NULL));
    template_text("{{ raise_exception('only users may speak') }}");
    FAILS(EMBER_E_INVALID_ARGUMENT, "only users may speak", APPLY("[]"));
    template_text("\n{{ messages[0].content }}");
    FAILS(EMBER_E_INVALID_ARGUMENT, "line 2", APPLY("[]"));
    template_text("{% if %}");
    FAILS(EMBER_E_FORMAT, "line 1", APPLY("[]"));
    template_text("{% for i in range(100000) %}{% for j in range(100) %}{% endfor %}{% endfor %}");
    FAILS(EMBER_E_FORMAT, "than a template may", APPLY("[]"));
    template_text("");
    FAILS(EMBER_E_UNSUPPORTED, "ember_chat_options_set_template", APPLY("[]"));
    FAILS(EMBER_E_UNSUPPORTED, "no chat template", ember_model_chat_template(model, NULL, 0, &byte, 1, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_chat_apply_template(NULL, "[]", NUL, NULL, &byte, 1, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_chat_template(NULL, NULL, 0, &byte, 1, &n, E));
    FAILS(EMBER_E_UTF8, "tools", ember_chat_options_set_tools(options, "\xff", 1, E));
    FAILS(EMBER_E_UTF8, "variables", ember_chat_options_set_variables(options, "\xff", 1, E));
    FAILS(EMBER_E_UTF8, "template_text", ember_chat_options_set_template(options, "\xff", 1, E));
    FAILS(EMBER_E_UTF8, "name", ember_chat_options_set_template_name(options, "\xff", 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_chat_options_set_add_generation_prompt(NULL, true, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_chat_options_set_now(NULL, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_chat_options_new(NULL, E));
    CHECK(n == 77 && byte == 7);
}

int main(int argc, char **argv)
{
    CHECK(ember_has_feature("chat", NUL) == 1);
    CHECK(ember_has_feature("chattering", 4) == 1);
    CHECK(ember_has_feature("chattering", NUL) == 0);
    CHECK(ember_has_feature(NULL, NUL) == 0);
    model = load_model(model_path(argc, argv));
    OK(ember_chat_options_new(&options, E));
    conversations();
    settings();
    failures();
    ember_chat_options_free(options);
    ember_chat_options_free(NULL);
    ember_model_release(model);
    return finish("chat");
}

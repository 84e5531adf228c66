/* Replies read while they stream. */
#include "check.h"

static const size_t NUL = EMBER_NUL_TERMINATED;
static ember_model *model; /* with a tokenizer and without a chat template */
static ember_chat_options *options;

#define TOOLS "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"string\"}}}}, {\"name\": \"g\"}]"
#define TEMPLATE                                                                                                       \
    "{% for m in messages %}<u>{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}"         \
    "</tool_call>{% endfor %}{% endfor %}{% if add_generation_prompt %}<a>"                                            \
    "{% if not enable_thinking | default(true) %}<think></think>{% endif %}{% endif %}"

static ember_chat_parser *parser_for(const char *prompt)
{
    ember_chat_parser *parser = NULL;
    OK(ember_chat_parser_new(model, options, prompt, prompt == NULL ? 0 : NUL, &parser, E));
    return parser;
}

/* All events that there are now, in one line. */
static const char *events(ember_chat_parser *parser)
{
    static char line[2048];
    size_t n = 0;
    line[0] = '\0';
    for (;;) {
        ember_chat_event e;
        memset(&e, 0x5a, sizeof e);
        e.struct_size = sizeof e;
        OK(ember_chat_parser_next(parser, &e, E));
        CHECK(e.text != NULL && e.name != NULL && e.id != NULL && e.reason != NULL && e.struct_size == sizeof e);
        if (e.kind == EMBER_CHAT_EVENT_NONE)
            return line;
        n += (size_t)snprintf(line + n, sizeof line - n, "%d:%u %.*s|%.*s|%.*s;", e.kind, e.index, (int)e.name_len, e.name,
                              (int)e.text_len, e.text, (int)e.reason_len, e.reason);
        CHECK((e.kind == EMBER_CHAT_EVENT_CALL_BEGIN || e.kind == EMBER_CHAT_EVENT_CALL_DONE) == (e.id_len == 9));
    }
}

static int gives(ember_chat_parser *parser, const char *text, const char *want)
{
    OK(ember_chat_parser_push(parser, text, NUL, E));
    const char *got = events(parser);
    if (strcmp(got, want) != 0)
        printf("%s\n  %s\n  %s\n", text, got, want);
    return strcmp(got, want) == 0;
}

static void replies(void)
{
    ember_chat_parser *parser = parser_for(NULL);
    CHECK(gives(parser, "<think>", ""));
    uint32_t thinking = 7;
    OK(ember_chat_parser_is_thinking(parser, &thinking, E));
    CHECK(thinking == 1);
    CHECK(gives(parser, "So", "2:0 |So|;"));
    CHECK(gives(parser, ".</think>\n\nYe", "2:0 |.|;1:0 |Ye|;"));
    OK(ember_chat_parser_is_thinking(parser, &thinking, E));
    CHECK(thinking == 0);
    CHECK(gives(parser, "s.\n<tool_call>{\"name\": \"f\",", "1:0 |s.|;"));
    CHECK(gives(parser, "\"arguments\": {\"a\"", "3:0 f||;4:0 |{\"a\"|;"));
    CHECK(gives(parser, ":1}}", "4:0 |:1}|;5:0 f|{\"a\":1}|;"));
    CHECK(gives(parser, "</tool_call><tool_call>{\"name\": \"h\"}</tool_call>",
                "6:1 |<tool_call>{\"name\": \"h\"|no tool is named \"h\";1:0 |}</tool_call>|;"));
    CHECK(gives(parser, "<tool_call>{\"name\": \"g\", \"arguments\": {", "3:2 g||;4:2 |{|;"));
    OK(ember_chat_parser_finish(parser, EMBER_FINISH_MAX_TOKENS, E));
    CHECK(strcmp(events(parser), "6:2 g|<tool_call>{\"name\": \"g\", \"arguments\": {|the reply was cut off inside the call;") == 0);
    CHECK(gives(parser, "more", ""));
    OK(ember_chat_parser_finish(parser, EMBER_FINISH_EOG, E));
    CHECK(strcmp(events(parser), "") == 0);
    ember_chat_parser_free(parser);

    parser = parser_for("<u>Hi<a><think>");
    CHECK(gives(parser, "a</think>b", "2:0 |a|;1:0 |b|;"));
    ember_chat_parser_free(parser);
}

static void choices(void)
{
    static const char two[] = "<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"g\"}</tool_call>";
    OK(ember_chat_options_set_tool_choice(options, "none", NUL, E));
    ember_chat_parser *parser = parser_for(NULL);
    CHECK(strncmp((OK(ember_chat_parser_push(parser, two, NUL, E)), events(parser)), "1:0 |<tool_call>", 16) == 0);
    ember_chat_parser_free(parser);
    OK(ember_chat_options_set_tool_choice(options, "{\"function\": {\"name\": \"g\"}}", NUL, E));
    OK(ember_chat_options_set_parallel_calls(options, false, E));
    parser = parser_for(NULL);
    OK(ember_chat_parser_push(parser, two, NUL, E));
    CHECK(strstr(events(parser), "the call must be one of \"g\"") != NULL);
    ember_chat_parser_free(parser);
    OK(ember_chat_options_set_tool_choice(options, NULL, 0, E));
    parser = parser_for(NULL);
    OK(ember_chat_parser_push(parser, two, NUL, E));
    CHECK(strstr(events(parser), "only one call was allowed") != NULL);
    ember_chat_parser_free(parser);
    OK(ember_chat_options_set_parallel_calls(options, true, E));
}

static int is(const char *text, size_t len, const char *want)
{
    return len == strlen(want) && memcmp(text, want, len) == 0;
}

static void formats(void)
{
    ember_chat_parser *parser = parser_for(NULL);
    ember_chat_format f = {.struct_size = sizeof f};
    OK(ember_chat_parser_format(parser, &f, E));
    CHECK(is(f.name, f.name_len, "hermes"));
    CHECK(is(f.thinking_open, f.thinking_open_len, "<think>") && is(f.thinking_close, f.thinking_close_len, "</think>"));
    CHECK(is(f.thinking_variable, f.thinking_variable_len, "enable_thinking"));
    CHECK(is(f.thinking_on, f.thinking_on_len, "true") && is(f.thinking_off, f.thinking_off_len, "false"));
    ember_chat_parser_free(parser);
    OK(ember_chat_options_set_template(options, "{{ messages[0].content }}", NUL, E));
    parser = parser_for(NULL);
    OK(ember_chat_parser_format(parser, &f, E));
    CHECK(f.name_len == 0 && f.thinking_open_len == 0 && f.thinking_variable_len == 0 && f.thinking_off_len == 0);
    CHECK(gives(parser, "<tool_call> <think>", "1:0 |<tool_call> <think>|;"));
    ember_chat_parser_free(parser);
}

static void failures(void)
{
    ember_chat_parser *parser = parser_for(NULL), *made = NULL;
    ember_chat_event event = {.struct_size = sizeof event};
    ember_chat_format format = {.struct_size = 3};
    FAILS(EMBER_E_UNSUPPORTED, "ember_chat_options_set_template", ember_chat_parser_new(model, NULL, NULL, 0, &made, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_chat_parser_new(NULL, options, NULL, 0, &made, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_chat_parser_new(model, options, NULL, 0, NULL, E));
    FAILS(EMBER_E_UTF8, "prompt", ember_chat_parser_new(model, options, "\xff", 1, &made, E));
    FAILS(EMBER_E_UTF8, "text", ember_chat_parser_push(parser, "\xff", 1, E));
    FAILS(EMBER_E_UTF8, "tool_choice", ember_chat_options_set_tool_choice(options, "\xff", 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "parser", ember_chat_parser_push(NULL, "a", 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "parser", ember_chat_parser_next(NULL, &event, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "event", ember_chat_parser_next(parser, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "struct_size", ember_chat_parser_format(parser, &format, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "finish_reason", ember_chat_parser_finish(parser, EMBER_FINISH_NONE, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "finish_reason", ember_chat_parser_finish(parser, 99, E));
    OK(ember_chat_options_set_tools(options, "[{}]", NUL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tools[0]", ember_chat_parser_new(model, options, NULL, 0, &made, E));
    OK(ember_chat_options_set_tools(options, NULL, 0, E));
    OK(ember_chat_options_set_tool_choice(options, "{}", NUL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tool_choice", ember_chat_parser_new(model, options, NULL, 0, &made, E));
    OK(ember_chat_options_set_tool_choice(options, "spare", NUL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "\"spare\", which is none of the tools", ember_chat_parser_new(model, options, NULL, 0, &made, E));
    OK(ember_chat_options_set_tools(options, "[{\"name\": \"weather\"}]", NUL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "\"spare\"", ember_chat_parser_new(model, options, NULL, 0, &made, E));
    OK(ember_chat_options_set_tool_choice(options, "{\"type\": \"function\", \"function\": {\"name\": \"weather\"}}", NUL, E));
    OK(ember_chat_parser_new(model, options, NULL, 0, &made, E));
    ember_chat_parser_free(made);
    made = NULL;
    OK(ember_chat_options_set_template(options, "{% if %}", NUL, E));
    FAILS(EMBER_E_FORMAT, "line 1", ember_chat_parser_new(model, options, NULL, 0, &made, E));
    CHECK(made == NULL);
    ember_chat_parser_free(parser);
    ember_chat_parser_free(NULL);
}

int main(int argc, char **argv)
{
    model = load_model(model_path(argc, argv));
    OK(ember_chat_options_new(&options, E));
    OK(ember_chat_options_set_template(options, TEMPLATE "{# <think> #}", NUL, E));
    OK(ember_chat_options_set_tools(options, TOOLS, NUL, E));
    replies();
    choices();
    formats();
    failures();
    ember_chat_options_free(options);
    ember_model_release(model);
    return finish("chat_parser");
}

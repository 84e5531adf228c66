/* Conversations: what is said, what is kept, what is dropped, and what is refused. */
#include "check.h"

static const size_t NUL = EMBER_NUL_TERMINATED;
static ember_model *model; /* with a tokenizer and without a chat template */

#define TEMPLATE                                                                                                       \
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"

static ember_context *context_of(uint32_t n_ctx)
{
    ember_context_options *options = NULL;
    ember_context *context = NULL;
    OK(ember_context_options_new(&options, E));
    OK(ember_context_options_set_n_ctx(options, n_ctx, E));
    OK(ember_context_options_set_n_seq(options, 2, E));
    OK(ember_context_options_set_n_threads(options, 1, E));
    OK(ember_context_new(model, options, &context, E));
    ember_context_options_free(options);
    return context;
}

static ember_conversation *conversation_in(ember_context *context, const char *system)
{
    ember_chat_options *chat = NULL;
    ember_generate_options *generate = NULL;
    ember_conversation *conversation = NULL;
    OK(ember_chat_options_new(&chat, E));
    OK(ember_chat_options_set_template(chat, TEMPLATE, NUL, E));
    OK(ember_generate_options_new(&generate, E));
    OK(ember_generate_options_set_max_tokens(generate, 8, E));
    OK(ember_conversation_new(context, system, system == NULL ? 0 : NUL, chat, generate, &conversation, E));
    ember_chat_options_free(chat);
    ember_generate_options_free(generate);
    return conversation;
}

/* What a reply says. */
struct said {
    char text[512];
    size_t len;
    int n_ends, stop_after;
    ember_conversation *conversation; /* to be used in the midst of its own call */
};

static int32_t hear(const ember_chat_event *event, void *user_data)
{
    struct said *said = user_data;
    if (event->kind == EMBER_CHAT_EVENT_TEXT && said->len + event->text_len < sizeof said->text) {
        memcpy(said->text + said->len, event->text, event->text_len);
        said->len += event->text_len;
    }
    if (event->kind == EMBER_CHAT_EVENT_END) {
        said->n_ends++;
        CHECK(event->finish_reason != EMBER_FINISH_NONE);
    } else
        CHECK(event->finish_reason == EMBER_FINISH_NONE);
    if (said->conversation != NULL) {
        FAILS(EMBER_E_BUSY, "conversation", ember_conversation_undo(said->conversation, E));
        ember_conversation_free(said->conversation); /* does nothing but a line in the log */
    }
    return said->stop_after > 0 && --said->stop_after == 0;
}

static struct said say(ember_conversation *conversation, const char *text)
{
    struct said said = {.len = 0};
    OK(ember_conversation_send(conversation, text, text == NULL ? 0 : NUL, NULL, hear, &said, NULL, E));
    CHECK(said.n_ends == 1);
    return said;
}

static const char *messages_of(ember_conversation *conversation)
{
    static char json[4096];
    size_t n = 0;
    OK(ember_conversation_messages(conversation, (uint8_t *)json, sizeof json - 1, &n, E));
    json[n] = '\0';
    return json;
}

static ember_conversation_usage usage_of(ember_conversation *conversation)
{
    ember_conversation_usage usage = {.struct_size = sizeof usage};
    OK(ember_conversation_usage_get(conversation, &usage, E));
    return usage;
}

static void turns(void)
{
    ember_context *context = context_of(256);
    ember_conversation *conversation = conversation_in(context, "Be brief.");
    const struct said first = say(conversation, "Tell of the sea.");
    CHECK(first.len > 0);
    ember_conversation_usage usage = usage_of(conversation);
    CHECK(usage.n_generated == 8 && usage.finish_reason == EMBER_FINISH_MAX_TOKENS && usage.n_reused == 0);
    uint32_t n_past = 0;
    OK(ember_context_n_past(context, 0, &n_past, E));
    (void)say(conversation, "And of the moon.");
    usage = usage_of(conversation);
    CHECK(usage.n_reused == n_past && usage.n_prompt > n_past && usage.n_dropped_turns == 0);
    CHECK(strncmp(messages_of(conversation), "[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\"", 50) == 0);
    /* The pull form says the same, and its events end once. */
    OK(ember_conversation_undo(conversation, E));
    OK(ember_conversation_undo(conversation, E));
    OK(ember_conversation_begin(conversation, "Tell of the sea.", NUL, NULL, E));
    FAILS(EMBER_E_BUSY, "under way", ember_conversation_add(conversation, "{\"role\":\"user\",\"content\":\"x\"}", NUL, E));
    FAILS(EMBER_E_BUSY, "under way", ember_conversation_begin(conversation, "x", 1, NULL, E));
    struct said pulled = {.len = 0};
    ember_chat_event event = {.struct_size = sizeof event};
    do {
        OK(ember_conversation_next(conversation, &event, E));
        (void)hear(&event, &pulled);
    } while (event.kind != EMBER_CHAT_EVENT_END);
    CHECK(pulled.len == first.len && memcmp(pulled.text, first.text, first.len) == 0);
    OK(ember_conversation_next(conversation, &event, E));
    CHECK(event.kind == EMBER_CHAT_EVENT_END);
    /* A reply that is given up is no message, by the callback or by a call. */
    char before[4096];
    strcpy(before, messages_of(conversation));
    struct said stopped = {.stop_after = 2};
    OK(ember_conversation_send(conversation, "Why?", NUL, NULL, hear, &stopped, NULL, E));
    CHECK(stopped.n_ends == 0);
    OK(ember_conversation_undo(conversation, E));
    CHECK(strcmp(messages_of(conversation), before) == 0);
    OK(ember_conversation_begin(conversation, "Why?", NUL, NULL, E));
    OK(ember_conversation_next(conversation, &event, E));
    OK(ember_conversation_abandon(conversation, E));
    OK(ember_conversation_abandon(conversation, E));
    /* The question is there still: what is empty has it answered. */
    CHECK(say(conversation, NULL).len > 0);
    FAILS(EMBER_E_INVALID_ARGUMENT, "nothing to reply to", ember_conversation_send(conversation, NULL, 0, NULL, hear, &stopped, NULL, E));
    /* In its own callback a conversation is busy. */
    struct said inside = {.conversation = conversation};
    OK(ember_conversation_send(conversation, "Once more.", NUL, NULL, hear, &inside, NULL, E));
    ember_conversation_free(conversation);
    ember_context_free(context);
}

static uint32_t refuse(uint32_t n_tokens, uint32_t n_ctx, uint32_t n_turns, void *user_data)
{
    CHECK(n_tokens > n_ctx && n_turns > 0);
    return *(uint32_t *)user_data;
}

static void full(void)
{
    ember_context *context = context_of(96);
    ember_conversation *conversation = conversation_in(context, NULL);
    uint32_t n_dropped = 0, answer = 0;
    for (int i = 0; i < 20; i++) {
        (void)say(conversation, "Tell of the sea and the moon.");
        n_dropped += usage_of(conversation).n_dropped_turns;
    }
    CHECK(n_dropped > 5);
    OK(ember_conversation_set_on_full(conversation, refuse, &answer, E));
    struct said said = {.len = 0};
    ember_status status = EMBER_OK;
    while (status == EMBER_OK)
        status = ember_conversation_send(conversation, "Tell of the sea and the moon.", NUL, NULL, hear, &said, NULL, NULL);
    CHECK(status == EMBER_E_CONTEXT_FULL);
    answer = 1;
    (void)say(conversation, "Tell of the sea and the moon.");
    OK(ember_conversation_set_when_full(conversation, EMBER_WHEN_FULL_REFUSE, 20, E));
    FAILS(EMBER_E_CONTEXT_FULL, "no turn may be dropped", ember_conversation_send(conversation, "And the boat?", NUL, NULL, hear, &said, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "when_full is 3", ember_conversation_set_when_full(conversation, 3, 0, E));
    FAILS(EMBER_E_UNSUPPORTED, "no marks of thoughts", ember_conversation_set_thinking_budget(conversation, 5, E));
    ember_conversation_free(conversation);
    ember_context_free(context);
}

static void copies(void)
{
    ember_context *context = context_of(256);
    ember_conversation *conversation = conversation_in(context, "Be brief."), *fork = NULL, *loaded = NULL;
    (void)say(conversation, "Tell of the sea.");
    OK(ember_conversation_fork(conversation, 1, &fork, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 0", ember_conversation_fork(conversation, 0, &loaded, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 2", ember_conversation_fork(conversation, 2, &loaded, E));
    uint8_t saved[8192];
    size_t n = 0;
    OK(ember_conversation_save(conversation, saved, sizeof saved, &n, E));
    const struct said a = say(conversation, "Go on."), b = say(fork, "Go on.");
    CHECK(a.len == b.len && memcmp(a.text, b.text, a.len) == 0);
    ember_chat_options *chat = NULL;
    ember_generate_options *generate = NULL;
    OK(ember_chat_options_new(&chat, E));
    OK(ember_chat_options_set_template(chat, TEMPLATE, NUL, E));
    OK(ember_generate_options_new(&generate, E));
    OK(ember_generate_options_set_max_tokens(generate, 8, E));
    OK(ember_generate_options_set_sequence(generate, 1, E));
    OK(ember_conversation_load(context, saved, n, chat, generate, &loaded, E));
    ember_conversation_free(conversation);
    ember_conversation_free(fork);
    ember_context_free(context); /* the conversation keeps it */
    const struct said c = say(loaded, "Go on.");
    CHECK(a.len == c.len && memcmp(a.text, c.text, a.len) == 0);
    ember_conversation_free(loaded);
    context = context_of(64);
    for (size_t cut = 0; cut < n; cut += 7)
        FAILS(EMBER_E_FORMAT, "damaged", ember_conversation_load(context, saved, cut, chat, generate, &loaded, E));
    ember_context_free(context);
    ember_chat_options_free(chat);
    ember_generate_options_free(generate);
}

/* Texts of users are texts. */
static void tokens(void)
{
    ember_chat_options *chat = NULL;
    uint32_t ids[64], plain[64];
    size_t n = 0, n_plain = 0;
    OK(ember_chat_options_new(&chat, E));
    OK(ember_chat_options_set_template(chat, "{{ messages[0].content }}", NUL, E));
    const char *eos = "[{\"role\": \"user\", \"content\": \"<|endoftext|>\"}]";
    OK(ember_chat_tokenize(model, eos, NUL, chat, ids, 64, &n, E));
    OK(ember_model_tokenize(model, "<|endoftext|>", NUL, true, false, plain, 64, &n_plain, E));
    CHECK(n == n_plain && memcmp(ids, plain, n * sizeof *ids) == 0);
    FAILS(EMBER_E_INVALID_ARGUMENT, "thinking is 3", ember_chat_options_set_thinking(chat, 3, E));
    OK(ember_chat_options_set_thinking(chat, EMBER_THINKING_OFF, E));
    OK(ember_chat_tokenize(model, eos, NUL, chat, ids, 64, &n, E)); /* it never thinks */
    /* A call that has to be made, for a generation of the host's own. */
    ember_constraint *constraint = (ember_constraint *)1;
    OK(ember_chat_constraint(model, chat, NULL, 0, &constraint, E));
    CHECK(constraint == NULL); /* there are no tools */
    OK(ember_chat_options_set_template(chat, "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}<tool_call>"
                                             "{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}", NUL, E));
    OK(ember_chat_options_set_tools(chat, "[{\"name\": \"f\", \"parameters\": {\"not\": {}}}]", NUL, E));
    OK(ember_chat_options_set_tool_choice(chat, "required", NUL, E));
    FAILS(EMBER_E_UNSUPPORTED, "not", ember_chat_constraint(model, chat, NULL, 0, &constraint, E));
    OK(ember_chat_options_set_strict_tools(chat, false, E));
    OK(ember_chat_options_set_tools(chat, "[{\"name\": \"f\", \"parameters\": {}}]", NUL, E));
    OK(ember_chat_constraint(model, chat, NULL, 0, &constraint, E));
    CHECK(constraint != NULL);
    ember_constraint_free(constraint);
    OK(ember_chat_options_set_template(chat, "{{ messages[0].content }}", NUL, E));
    OK(ember_chat_options_set_thinking(chat, EMBER_THINKING_ON, E));
    FAILS(EMBER_E_UNSUPPORTED, "no variable that switches", ember_chat_tokenize(model, eos, NUL, chat, ids, 64, &n, E));
    OK(ember_chat_options_set_template(chat, "{% if enable_thinking %}Think. {% endif %}{{ messages[0].content }}<think></think>",
                                       NUL, E));
    OK(ember_chat_tokenize(model, eos, NUL, chat, ids, 64, &n_plain, E));
    CHECK(n_plain > n);
    ember_chat_options_free(chat);
}

/* Which tool is called may change between replies. */
static void choice(void)
{
    ember_context *context = context_of(512);
    ember_conversation *conversation = conversation_in(context, "Be brief."), *calling = NULL;
    ember_chat_options *chat = NULL;
    ember_generate_options *generate = NULL;
    FAILS(EMBER_E_INVALID_ARGUMENT, "no tools", ember_conversation_set_tool_choice(conversation, "required", NUL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "no tools", ember_conversation_set_tool_choice(conversation, "f", NUL, E));
    FAILS(EMBER_E_UTF8, "tool_choice", ember_conversation_set_tool_choice(conversation, "\xff", 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "conversation is NULL", ember_conversation_set_tool_choice(NULL, "auto", NUL, E));
    OK(ember_conversation_set_tool_choice(conversation, NULL, 0, E));
    OK(ember_chat_options_new(&chat, E));
    OK(ember_chat_options_set_template(chat, "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}<tool_call>"
                                             "{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}", NUL, E));
    OK(ember_chat_options_set_tools(chat, "[{\"name\": \"f\"}, {\"name\": \"g\"}]", NUL, E));
    OK(ember_chat_options_set_parallel_calls(chat, false, E));
    OK(ember_generate_options_new(&generate, E));
    OK(ember_generate_options_set_max_tokens(generate, 100, E));
    OK(ember_conversation_new(context, NULL, 0, chat, generate, &calling, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "none of the tools", ember_conversation_set_tool_choice(calling, "h", NUL, E));
    const char *choices[] = {"f", "none", "g", "auto", "required"};
    for (size_t i = 0; i < 5; i++) {
        ember_chat_event event = {.struct_size = sizeof event};
        OK(ember_conversation_set_tool_choice(calling, choices[i], NUL, E));
        OK(ember_conversation_begin(calling, "Go.", NUL, NULL, E));
        FAILS(EMBER_E_BUSY, "under way", ember_conversation_set_tool_choice(calling, "auto", NUL, E));
        size_t n_calls = 0;
        while (event.kind != EMBER_CHAT_EVENT_END) {
            OK(ember_conversation_next(calling, &event, E));
            if (event.kind == EMBER_CHAT_EVENT_CALL_DONE) {
                n_calls++;
                if (i != 4)
                    CHECK(event.name_len == 1 && *event.name == *choices[i]);
            }
        }
        CHECK(n_calls == (i % 2 == 0));
    }
    ember_conversation_free(calling);
    ember_conversation_free(conversation);
    ember_generate_options_free(generate);
    ember_chat_options_free(chat);
    ember_context_free(context);
}

int main(int argc, char **argv)
{
    model = load_model(model_path(argc, argv));
    turns();
    full();
    copies();
    tokens();
    choice();
    ember_model_release(model);
    return finish("conversation");
}

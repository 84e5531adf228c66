/* Generation: text, stopping, continuing, and every argument that can be wrong. */
#include "check.h"

static ember_model *model; /* with a tokenizer whose end-of-sequence token is <|endoftext|> */
static const size_t NUL = EMBER_NUL_TERMINATED;
static const char PROMPT[] = "Once upon a time";

/* What a callback received, and after how many pieces it asks to stop (0: never). */
struct received {
    char text[4096];
    size_t len;
    int pieces;
    int stop_after;
};

/* Appends an event's text; counts those that have some. */
static int32_t receive(const ember_event *event, void *user_data)
{
    struct received *r = user_data;
    const size_t len = event->text_len;
    CHECK(event->struct_size == sizeof *event && event->text != NULL && event->bytes != NULL);
    CHECK(event->kind == EMBER_EVENT_TOKEN || event->kind == EMBER_EVENT_END);
    CHECK((event->kind == EMBER_EVENT_END) == (event->token == EMBER_TOKEN_NONE));
    CHECK((event->kind == EMBER_EVENT_END) == (event->finish_reason != EMBER_FINISH_NONE));
    CHECK(event->n_tops == 0 && event->tops == NULL && event->logprob != event->logprob);
    CHECK(r->len + len < sizeof r->text);
    if (r->len + len < sizeof r->text) {
        memcpy(r->text + r->len, event->text, len);
        r->len += len;
    }
    r->pieces += len > 0;
    return len > 0 && r->pieces == r->stop_after ? -5 : 0;
}

/* Options for `n` tokens that go on after the end of the text, so that counts do not depend on the weights. */
static ember_generate_options *for_tokens(uint32_t n)
{
    ember_generate_options *o = NULL;
    OK(ember_generate_options_new(&o, E));
    OK(ember_generate_options_set_max_tokens(o, n, E));
    OK(ember_generate_options_set_ignore_eog(o, true, E));
    return o;
}

static uint32_t n_past(const ember_context *context, uint32_t sequence)
{
    uint32_t n = UINT32_MAX;
    OK(ember_context_n_past(context, sequence, &n, E));
    return n;
}

/* Generates greedily; the text is appended to `r`. */
static ember_generate_result generate(ember_context *context, const char *prompt, uint32_t n, struct received *r)
{
    ember_generate_options *o = for_tokens(n);
    ember_generate_result result = {.struct_size = sizeof result};
    OK(ember_generate(context, prompt, NUL, o, NULL, receive, r, &result, E));
    ember_generate_options_free(o);
    return result;
}

static void text_comes_and_is_counted(void)
{
    ember_context *context = new_context(model, 64, 1);
    struct received r = {.len = 0}, sampled = {.len = 0};
    ember_generate_result result = generate(context, PROMPT, 12, &r);
    CHECK(result.struct_size == sizeof result && result.n_reused == 0);
    CHECK(result.n_prompt > 0 && result.n_generated == 12 && result.finish_reason == EMBER_FINISH_MAX_TOKENS);
    CHECK(result.prefill_ns > 0 && result.decode_ns > 0);
    CHECK(n_past(context, 0) == result.n_prompt + 12);
    CHECK(r.pieces > 0 && r.pieces <= 12);

    /* NULL for the sampler is greedy, and so is a greedy sampler. */
    ember_sampler *sampler = NULL;
    ember_generate_options *o = for_tokens(12);
    OK(ember_sampler_new(3, &sampler, E));
    OK(ember_sampler_add_greedy(sampler, E));
    OK(ember_context_rewind(context, 0, 0, E));
    OK(ember_generate(context, PROMPT, strlen(PROMPT), o, sampler, receive, &sampled, NULL, E));
    CHECK(sampled.len == r.len && memcmp(sampled.text, r.text, r.len) == 0);
    ember_sampler_free(sampler);
    ember_generate_options_free(o);

    OK(ember_context_rewind(context, 0, 0, E));
    CHECK(ember_generate(context, PROMPT, NUL, NULL, NULL, receive, &r, NULL, NULL) == EMBER_OK);
    ember_context_free(context);
}

static void the_seed_decides(void)
{
    ember_context *context = new_context(model, 64, 1);
    struct received r[3] = {{.len = 0}, {.len = 0}, {.len = 0}};
    const uint64_t seeds[] = {7, 7, UINT64_MAX};
    ember_generate_options *o = for_tokens(20);
    for (int i = 0; i < 3; i++) {
        ember_sampler *sampler = NULL;
        OK(ember_sampler_new(seeds[i], &sampler, E));
        OK(ember_sampler_add_temperature(sampler, 1.5f, E));
        OK(ember_context_rewind(context, 0, 0, E));
        OK(ember_generate(context, PROMPT, NUL, o, sampler, receive, &r[i], NULL, E));
        ember_sampler_free(sampler);
    }
    CHECK(r[0].len == r[1].len && memcmp(r[0].text, r[1].text, r[0].len) == 0);
    CHECK(r[0].len != r[2].len || memcmp(r[0].text, r[2].text, r[0].len) != 0);
    ember_generate_options_free(o);
    ember_context_free(context);
}

static void the_callback_stops_it(void)
{
    ember_context *context = new_context(model, 64, 1);
    struct received r = {.stop_after = 3};
    ember_generate_result result = generate(context, PROMPT, 30, &r);
    CHECK(r.pieces == 3 && result.finish_reason == EMBER_FINISH_STOPPED);
    CHECK(result.n_generated >= 3 && result.n_generated < 30);
    CHECK(n_past(context, 0) == result.n_prompt + result.n_generated);

    struct received none = {.len = 0};
    OK(ember_context_rewind(context, 0, 0, E));
    result = generate(context, PROMPT, 0, &none);
    CHECK(none.pieces == 0 && result.n_generated == 0 && result.finish_reason == EMBER_FINISH_MAX_TOKENS);
    CHECK(n_past(context, 0) == result.n_prompt);
    ember_context_free(context);
}

static void an_empty_prompt_continues(void)
{
    ember_context *context = new_context(model, 64, 2);
    struct received whole = {.len = 0}, parts = {.len = 0}, unwanted = {.len = 0};
    generate(context, PROMPT, 12, &whole);
    OK(ember_context_rewind(context, 0, 0, E));
    generate(context, PROMPT, 5, &parts);
    ember_generate_result result = generate(context, "", 7, &parts);
    CHECK(result.n_prompt == 0 && result.n_generated == 7);
    CHECK(parts.len == whole.len && memcmp(parts.text, whole.text, whole.len) == 0);

    /* Without the logits of the end of the sequence there is nothing to continue from. */
    ember_generate_options *o = for_tokens(3), *second = for_tokens(3);
    OK(ember_generate_options_set_sequence(second, 1, E));
    OK(ember_context_rewind(context, 0, 4, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "prompt", ember_generate(context, "", 0, o, NULL, receive, &unwanted, NULL, E));
    CHECK(n_past(context, 0) == 4);
    generate(context, " and", 3, &parts);
    OK(ember_generate(context, PROMPT, NUL, second, NULL, receive, &parts, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "prompt", ember_generate(context, NULL, 0, o, NULL, receive, &unwanted, NULL, E));
    CHECK(unwanted.pieces == 0);
    OK(ember_generate(context, NULL, 0, second, NULL, receive, &parts, NULL, E));
    ember_generate_options_free(second);

    ember_model_info info = {.struct_size = sizeof info};
    OK(ember_model_info_get(model, &info, E));
    OK(ember_context_rewind(context, 0, 0, E));
    if (info.add_bos)
        OK(ember_generate(context, "", 0, o, NULL, receive, &parts, NULL, E));
    else
        FAILS(EMBER_E_INVALID_ARGUMENT, "prompt", ember_generate(context, "", 0, o, NULL, receive, &parts, NULL, E));
    ember_generate_options_free(o);
    ember_context_free(context);
}

static void sequences_do_not_disturb_each_other(void)
{
    ember_context *context = new_context(model, 64, 2);
    struct received first = {.len = 0}, second = {.len = 0};
    generate(context, PROMPT, 8, &first);
    uint32_t before = n_past(context, 0);
    ember_generate_options *o = for_tokens(8);
    OK(ember_generate_options_set_sequence(o, 1, E));
    OK(ember_generate(context, PROMPT, NUL, o, NULL, receive, &second, NULL, E));
    CHECK(first.len == second.len && memcmp(first.text, second.text, first.len) == 0);
    CHECK(n_past(context, 0) == before && n_past(context, 1) == before);
    OK(ember_generate_options_set_sequence(o, 2, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 2", ember_generate(context, "a", 1, o, NULL, receive, &first, NULL, E));
    ember_generate_options_free(o);
    ember_context_free(context);
}

static void the_context_gets_full(void)
{
    ember_context *context = new_context(model, 16, 1);
    struct received r = {.len = 0}, none = {.len = 0};
    ember_generate_result result = generate(context, PROMPT, 100, &r);
    CHECK(result.finish_reason == EMBER_FINISH_CONTEXT_FULL && n_past(context, 0) == 16);
    CHECK(result.n_prompt + result.n_generated >= 16);
    OK(ember_context_rewind(context, 0, 2, E));
    const char *longer = "a b c d e f g h i j k l m n o p q r s t u v w x y z";
    FAILS(EMBER_E_CONTEXT_FULL, "n_ctx 16", ember_generate(context, longer, NUL, NULL, NULL, receive, &none, NULL, E));
    CHECK(none.pieces == 0 && n_past(context, 0) == 2);
    ember_context_free(context);
}

static void special_tokens(void)
{
    ember_context *context = new_context(model, 64, 1);
    struct received r = {.len = 0};
    ember_generate_options *o = for_tokens(0);
    ember_generate_result result = {.struct_size = sizeof result};
    OK(ember_generate(context, "a<|endoftext|>", NUL, o, NULL, receive, &r, &result, E));
    const uint32_t as_text = result.n_prompt;
    OK(ember_context_rewind(context, 0, 0, E));
    OK(ember_generate_options_set_parse_special(o, true, E));
    OK(ember_generate(context, "a<|endoftext|>", NUL, o, NULL, receive, &r, &result, E));
    CHECK(result.n_prompt < as_text);
    OK(ember_generate_options_set_render_special(o, true, E));
    OK(ember_generate_options_set_max_tokens(o, 4, E));
    OK(ember_generate(context, "", 0, o, NULL, receive, &r, &result, E));
    CHECK(result.n_generated == 4);
    ember_generate_options_free(o);
    ember_context_free(context);
}

static void options_refuse_nonsense(void)
{
    ember_generate_options *foreign = (ember_generate_options *)(void *)model;
    ember_generate_options *const wrong[] = {NULL, foreign};
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_generate_options_new(NULL, E));
    for (int i = 0; i < 2; i++) {
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generate_options_set_max_tokens(wrong[i], 1, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generate_options_set_sequence(wrong[i], 1, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generate_options_set_parse_special(wrong[i], true, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generate_options_set_render_special(wrong[i], true, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generate_options_set_ignore_eog(wrong[i], true, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generate_options_add_stop(wrong[i], "a", 1, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generate_options_set_include_stop(wrong[i], true, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generate_options_set_reuse_prefix(wrong[i], true, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generate_options_set_echo(wrong[i], true, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generate_options_set_logprobs(wrong[i], true, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generate_options_set_n_top(wrong[i], 1, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generate_options_set_cancel_token(wrong[i], NULL, E));
    }
    ember_generate_options *o = for_tokens(1);
    FAILS(EMBER_E_INVALID_ARGUMENT, "stop", ember_generate_options_add_stop(o, "", 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "stop", ember_generate_options_add_stop(o, NULL, 1, E));
    FAILS(EMBER_E_UTF8, "stop", ember_generate_options_add_stop(o, "a\xff", NUL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_top", ember_generate_options_set_n_top(o, 65, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "token",
          ember_generate_options_set_cancel_token(o, (ember_cancel_token *)(void *)model, E));
    ember_generate_options_free(o);
    ember_generate_options_free(NULL);
    ember_generate_options_free(foreign); /* left alone */
}

static void generate_refuses_nonsense(void)
{
    ember_context *c = new_context(model, 64, 1);
    struct received r = {.len = 0};
    ember_sampler *foreign = (ember_sampler *)(void *)model;
    ember_generate_options *options = (ember_generate_options *)(void *)c;
    const size_t huge = SIZE_MAX - 1;
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_generate(NULL, "a", 1, NULL, NULL, receive, &r, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context",
          ember_generate((ember_context *)(void *)model, "a", 1, NULL, NULL, receive, &r, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "prompt", ember_generate(c, NULL, 1, NULL, NULL, receive, &r, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "prompt", ember_generate(c, NULL, NUL, NULL, NULL, receive, &r, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "prompt", ember_generate(c, "a", huge, NULL, NULL, receive, &r, NULL, E));
    FAILS(EMBER_E_UTF8, "prompt", ember_generate(c, "a\xff", NUL, NULL, NULL, receive, &r, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "callback", ember_generate(c, "a", 1, NULL, NULL, NULL, &r, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generate(c, "a", 1, options, NULL, receive, &r, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler", ember_generate(c, "a", 1, NULL, foreign, receive, &r, NULL, E));
    const size_t bad[] = {0, 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ember_generate_result result = {.struct_size = bad[i], .n_prompt = 77};
        FAILS(EMBER_E_INVALID_ARGUMENT, "struct_size", ember_generate(c, "a", 1, NULL, NULL, receive, &r, &result, E));
        CHECK(result.n_prompt == 77);
    }
    CHECK(r.pieces == 0 && n_past(c, 0) == 0);

    ember_generate_options *o = for_tokens(2);
    ember_generate_result shorter = {.struct_size = offsetof(ember_generate_result, n_prompt), .n_prompt = 77};
    OK(ember_generate(c, "a", 1, o, NULL, receive, &r, &shorter, E));
    CHECK(shorter.n_prompt == 77 && shorter.prefill_ns > 0);
    ember_generate_options_free(o);
    ember_context_free(c);

    ember_model *plain = load_model(FIXTURE);
    c = new_context(plain, 0, 1);
    FAILS(EMBER_E_UNSUPPORTED, "tokenizer", ember_generate(c, "a", 1, NULL, NULL, receive, &r, NULL, E));
    ember_model_release(plain);
    ember_context_free(c);
}

int main(int argc, char **argv)
{
    model = load_model(model_path(argc, argv));
    text_comes_and_is_counted();
    the_seed_decides();
    the_callback_stops_it();
    an_empty_prompt_continues();
    sequences_do_not_disturb_each_other();
    the_context_gets_full();
    special_tokens();
    options_refuse_nonsense();
    generate_refuses_nonsense();
    ember_model_release(model);
    return finish("generate");
}

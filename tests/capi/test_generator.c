/* Generation in pull form: events, stop strings, log-probabilities, echoes, reused prefixes, and lifetimes. */
#include "check.h"

static ember_model *model;
static const size_t NUL = EMBER_NUL_TERMINATED;
static const char PROMPT[] = "Once upon a time";

/* What came out of a generation. */
struct got {
    char text[4096];
    size_t len;
    uint32_t tokens[256];
    size_t n_tokens;
    int32_t finish_reason;
};

static ember_generate_options *for_tokens(uint32_t n)
{
    ember_generate_options *o = NULL;
    OK(ember_generate_options_new(&o, E));
    OK(ember_generate_options_set_max_tokens(o, n, E));
    OK(ember_generate_options_set_ignore_eog(o, true, E));
    return o;
}

static void take(struct got *got, const ember_event *event)
{
    CHECK(event->text != NULL && event->bytes != NULL && got->len + event->text_len < sizeof got->text);
    memcpy(got->text + got->len, event->text, event->text_len);
    got->len += event->text_len;
    if (event->kind == EMBER_EVENT_TOKEN && got->n_tokens < 256)
        got->tokens[got->n_tokens++] = event->token;
    got->finish_reason = event->finish_reason;
}

/* Takes all events of a generator. */
static struct got all(ember_generator *generator)
{
    struct got got = {.len = 0};
    ember_event event = {.struct_size = sizeof event};
    do {
        if (!OK(ember_generator_next(generator, &event, E)))
            exit(1);
        take(&got, &event);
    } while (event.kind != EMBER_EVENT_END);
    return got;
}

static ember_generator *new_generator(ember_context *context, const char *prompt, const ember_generate_options *o)
{
    ember_generator *generator = NULL;
    OK(ember_generator_new(context, prompt, NUL, o, NULL, &generator, E));
    if (generator == NULL)
        exit(1);
    return generator;
}

static struct got generate(ember_context *context, const char *prompt, const ember_generate_options *o)
{
    ember_generator *generator = new_generator(context, prompt, o);
    struct got got = all(generator);
    ember_generator_free(generator);
    return got;
}

static int same(const struct got *a, const struct got *b)
{
    return a->len == b->len && memcmp(a->text, b->text, a->len) == 0 && a->n_tokens == b->n_tokens &&
           memcmp(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens) == 0 && a->finish_reason == b->finish_reason;
}

static int32_t append(const ember_event *event, void *user_data)
{
    take(user_data, event);
    return 0;
}

static void pull_is_push(void)
{
    ember_context *context = new_context(model, 64, 1);
    ember_generate_options *o = for_tokens(12);
    struct got pushed = {.len = 0}, of_tokens = {.len = 0};
    OK(ember_generate(context, PROMPT, NUL, o, NULL, append, &pushed, NULL, E));
    OK(ember_context_rewind(context, 0, 0, E));
    ember_generator *generator = new_generator(context, PROMPT, o);
    ember_generate_result usage = {.struct_size = sizeof usage};
    OK(ember_generator_usage(generator, &usage, E));
    CHECK(usage.finish_reason == EMBER_FINISH_NONE && usage.n_generated == 0 && usage.n_prompt > 0);
    struct got pulled = all(generator);
    CHECK(same(&pushed, &pulled) && pulled.n_tokens == 12 && pulled.finish_reason == EMBER_FINISH_MAX_TOKENS);
    OK(ember_generator_usage(generator, &usage, E));
    CHECK(usage.finish_reason == EMBER_FINISH_MAX_TOKENS && usage.n_generated == 12 && usage.n_reused == 0);
    CHECK(usage.prefill_ns > 0 && usage.decode_ns > 0);
    ember_event event = {.struct_size = sizeof event};
    OK(ember_generator_next(generator, &event, E)); /* the end comes again */
    CHECK(event.kind == EMBER_EVENT_END && event.text_len == 0 && event.token == EMBER_TOKEN_NONE);
    ember_generator_free(generator);

    /* Token ids as a prompt. */
    uint32_t ids[64];
    size_t n = 0;
    OK(ember_model_tokenize(model, PROMPT, NUL, true, false, ids, 64, &n, E));
    OK(ember_context_rewind(context, 0, 0, E));
    OK(ember_generate_tokens(context, ids, n, o, NULL, append, &of_tokens, NULL, E));
    CHECK(same(&pushed, &of_tokens));
    OK(ember_context_rewind(context, 0, 0, E));
    OK(ember_generator_new_tokens(context, ids, n, o, NULL, &generator, E));
    of_tokens = all(generator);
    CHECK(same(&pushed, &of_tokens));
    ember_generator_free(generator);

    /* A model without a tokenizer takes and gives tokens. */
    ember_model *plain = load_model(FIXTURE);
    ember_context *c = new_context(plain, 0, 1);
    const uint32_t few[] = {1, 2, 3}, wrong[] = {1, FIXTURE_VOCAB};
    struct got got = {.len = 0};
    OK(ember_generate_tokens(c, few, 3, o, NULL, append, &got, NULL, E));
    CHECK(got.n_tokens == 12 && got.len == 0);
    FAILS(EMBER_E_INVALID_ARGUMENT, "token 1", ember_generate_tokens(c, wrong, 2, o, NULL, append, &got, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens", ember_generate_tokens(c, NULL, 2, o, NULL, append, &got, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "callback", ember_generate_tokens(c, few, 2, o, NULL, NULL, &got, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "token 1", ember_generator_new_tokens(c, wrong, 2, o, NULL, &generator, E));
    ember_context_free(c);
    ember_model_release(plain);
    ember_generate_options_free(o);
    ember_context_free(context);
}

static void stop_strings(void)
{
    ember_context *context = new_context(model, 64, 1);
    ember_generate_options *o = for_tokens(20);
    struct got whole = generate(context, PROMPT, o);
    CHECK(whole.len > 12);
    char stop[8] = {0};
    memcpy(stop, whole.text + 6, 5);
    const size_t first = (size_t)(strstr(whole.text, stop) - whole.text);
    OK(ember_generate_options_add_stop(o, "never to be seen", NUL, E));
    OK(ember_generate_options_add_stop(o, stop, 5, E));
    OK(ember_context_rewind(context, 0, 0, E));
    struct got got = generate(context, PROMPT, o);
    CHECK(got.finish_reason == EMBER_FINISH_STOP_STRING);
    CHECK(got.len == first && memcmp(got.text, whole.text, first) == 0);
    OK(ember_generate_options_set_include_stop(o, true, E));
    OK(ember_context_rewind(context, 0, 0, E));
    got = generate(context, PROMPT, o);
    CHECK(got.len == first + 5 && memcmp(got.text, whole.text, first + 5) == 0);
    ember_generate_options_free(o);
    ember_context_free(context);
}

static void log_probabilities_and_echo(void)
{
    ember_context *context = new_context(model, 64, 1);
    ember_generate_options *o = for_tokens(6);
    OK(ember_generate_options_set_logprobs(o, true, E));
    OK(ember_generate_options_set_n_top(o, 3, E));
    OK(ember_generate_options_set_echo(o, true, E));
    ember_generator *generator = new_generator(context, PROMPT, o);
    ember_event event = {.struct_size = sizeof event};
    OK(ember_generator_next(generator, &event, E));
    CHECK(event.kind == EMBER_EVENT_ECHO && event.text_len == strlen(PROMPT));
    CHECK(memcmp(event.text, PROMPT, event.text_len) == 0 && event.token == EMBER_TOKEN_NONE);
    for (int i = 0; i < 6; i++) {
        OK(ember_generator_next(generator, &event, E));
        CHECK(event.kind == EMBER_EVENT_TOKEN && event.n_tops == 3 && event.n_bytes > 0);
        CHECK(event.tops[0].token == event.token && event.tops[0].logprob == event.logprob); /* greedy */
        CHECK(event.logprob <= 0 && event.tops[1].logprob <= event.logprob);
        CHECK(event.tops[2].logprob <= event.tops[1].logprob);
    }
    OK(ember_generator_next(generator, &event, E));
    CHECK(event.kind == EMBER_EVENT_END && event.n_tops == 0 && event.tops == NULL);
    ember_generator_free(generator);
    ember_generate_options_free(o);
    ember_context_free(context);
}

static void a_prefix_is_reused(void)
{
    ember_context *context = new_context(model, 128, 1), *fresh = new_context(model, 128, 1);
    ember_generate_options *o = for_tokens(8);
    OK(ember_generate_options_set_reuse_prefix(o, true, E));
    struct got first = generate(context, PROMPT, o);
    char longer[4096] = {0};
    snprintf(longer, sizeof longer, "%s%.*s And then", PROMPT, (int)first.len, first.text);
    ember_generator *generator = new_generator(context, longer, o);
    struct got got = all(generator);
    ember_generate_result usage = {.struct_size = sizeof usage};
    OK(ember_generator_usage(generator, &usage, E));
    CHECK(usage.n_reused > 0 && usage.n_reused < usage.n_prompt);
    ember_generator_free(generator);
    struct got expected = generate(fresh, longer, o);
    CHECK(same(&got, &expected));
    ember_generate_options_free(o);
    ember_context_free(context);
    ember_context_free(fresh);
}

static void it_is_cancelled(void)
{
    ember_context *context = new_context(model, 64, 1);
    ember_generate_options *o = for_tokens(20);
    ember_cancel_token *token = NULL;
    OK(ember_cancel_token_new(&token, E));
    OK(ember_generate_options_set_cancel_token(o, token, E));
    ember_generator *generator = new_generator(context, PROMPT, o);
    ember_event event = {.struct_size = sizeof event};
    OK(ember_generator_next(generator, &event, E));
    CHECK(event.kind == EMBER_EVENT_TOKEN);
    ember_cancel_token_cancel(token);
    OK(ember_generator_next(generator, &event, E));
    CHECK(event.kind == EMBER_EVENT_END && event.finish_reason == EMBER_FINISH_CANCELLED);
    ember_generator_free(generator);
    struct got got = {.len = 0};
    ember_generate_result result = {.struct_size = sizeof result};
    OK(ember_generate(context, " more", NUL, o, NULL, append, &got, &result, E));
    CHECK(result.finish_reason == EMBER_FINISH_CANCELLED && got.n_tokens == 0);
    ember_cancel_token_reset(token);
    got = generate(context, " more", o);
    CHECK(got.n_tokens == 20);
    ember_cancel_token_free(token);
    ember_generate_options_free(o);
    ember_context_free(context);
}

static void it_keeps_what_it_needs_and_shares_the_context(void)
{
    ember_context *context = new_context(model, 64, 2), *fresh = new_context(model, 64, 1);
    ember_generate_options *o = for_tokens(8), *second = for_tokens(8);
    OK(ember_generate_options_set_sequence(second, 1, E));
    struct got expected = generate(fresh, PROMPT, o), got[2] = {{.len = 0}, {.len = 0}};
    ember_generator *generators[2] = {new_generator(context, PROMPT, o), new_generator(context, PROMPT, second)};
    ember_generate_options_free(o);
    ember_generate_options_free(second);
    ember_context_free(context); /* the generators keep it */
    ember_event event = {.struct_size = sizeof event};
    do {
        for (int i = 0; i < 2; i++) {
            OK(ember_generator_next(generators[i], &event, E));
            take(&got[i], &event);
        }
    } while (event.kind != EMBER_EVENT_END);
    CHECK(same(&got[0], &expected) && same(&got[1], &expected));
    ember_generator_free(generators[0]);
    ember_generator_free(generators[1]);

    /* Whoever changes the sequence in between is found out. */
    o = for_tokens(8);
    ember_sampler *sampler = NULL;
    OK(ember_sampler_new(3, &sampler, E));
    ember_generator *generator = NULL;
    OK(ember_context_rewind(fresh, 0, 0, E));
    OK(ember_generator_new(fresh, PROMPT, NUL, o, sampler, &generator, E));
    ember_sampler_free(sampler); /* kept as well */
    OK(ember_generator_next(generator, &event, E));
    OK(ember_context_rewind(fresh, 0, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 0", ember_generator_next(generator, &event, E));
    ember_generator_free(generator);
    ember_generate_options_free(o);
    ember_context_free(fresh);
}

static void nonsense_is_refused(void)
{
    ember_context *c = new_context(model, 16, 1);
    ember_generator *g = NULL;
    ember_event event = {.struct_size = sizeof event};
    ember_generate_result usage = {.struct_size = sizeof usage};
    ember_generate_options *foreign = (ember_generate_options *)(void *)c;
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_generator_new(NULL, "a", 1, NULL, NULL, &g, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "prompt", ember_generator_new(c, NULL, 1, NULL, NULL, &g, E));
    FAILS(EMBER_E_UTF8, "prompt", ember_generator_new(c, "\xff", 1, NULL, NULL, &g, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_generator_new(c, "a", 1, foreign, NULL, &g, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sampler",
          ember_generator_new(c, "a", 1, NULL, (ember_sampler *)(void *)c, &g, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_generator_new(c, "a", 1, NULL, NULL, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens", ember_generator_new_tokens(c, NULL, 1, NULL, NULL, &g, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "empty", ember_generator_new_tokens(c, NULL, 0, NULL, NULL, &g, E));
    CHECK(g == NULL);
    ember_generator *const wrong[] = {NULL, (ember_generator *)(void *)c};
    for (int i = 0; i < 2; i++) {
        FAILS(EMBER_E_INVALID_ARGUMENT, "generator", ember_generator_next(wrong[i], &event, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "generator", ember_generator_usage(wrong[i], &usage, E));
        ember_generator_free(wrong[i]);
    }
    g = new_generator(c, "a b c d e f g h i j k l m n o p q r s t u v w x y z", NULL);
    FAILS(EMBER_E_CONTEXT_FULL, "n_ctx 16", ember_generator_next(g, &event, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "event", ember_generator_next(g, NULL, E));
    event.struct_size = 1;
    FAILS(EMBER_E_INVALID_ARGUMENT, "struct_size", ember_generator_next(g, &event, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_generator_usage(g, NULL, E));
    ember_generator_free(g);

    /* A program that knows fewer fields gets those. */
    g = new_generator(c, "a", NULL);
    event = (ember_event){.struct_size = offsetof(ember_event, kind), .token = 77};
    OK(ember_generator_next(g, &event, E));
    CHECK(event.struct_size == offsetof(ember_event, kind) && event.token == 77 && event.text != NULL);
    ember_generator_free(g);
    ember_context_free(c);
}

static int32_t enough(const uint32_t *tokens, float *logits, size_t n, void *user_data)
{
    int *left = user_data;
    (void)tokens, (void)logits, (void)n;
    return (*left)-- == 0;
}

/* A stage of the host's that ends the generation is no error. */
static void a_stage_has_had_enough(void)
{
    ember_context *context = new_context(model, 64, 1);
    ember_generate_options *o = for_tokens(9);
    ember_sampler *sampler = NULL;
    ember_generator *generator = NULL;
    int left = 3;
    OK(ember_sampler_new(0, &sampler, E));
    OK(ember_sampler_add_callback(sampler, enough, &left, E));
    OK(ember_generator_new(context, PROMPT, NUL, o, sampler, &generator, E));
    const struct got got = all(generator);
    CHECK(got.n_tokens == 3 && got.finish_reason == EMBER_FINISH_CANCELLED);
    ember_generator_free(generator);
    ember_sampler_free(sampler);
    ember_generate_options_free(o);
    ember_context_free(context);
}

int main(int argc, char **argv)
{
    model = load_model(model_path(argc, argv));
    pull_is_push();
    stop_strings();
    log_probabilities_and_echo();
    a_prefix_is_reused();
    it_is_cancelled();
    it_keeps_what_it_needs_and_shares_the_context();
    a_stage_has_had_enough();
    nonsense_is_refused();
    ember_model_release(model);
    return finish("generator");
}

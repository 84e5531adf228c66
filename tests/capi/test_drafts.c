/* Generation with draft tokens, by lookup and by a draft model: the same tokens; lifetimes, and what is refused. */
#include "check.h"

static ember_model *model;
static const size_t NUL = EMBER_NUL_TERMINATED;
static const char PROMPT[] = "one two three, one two three, one two three, one two";
enum { N = 40 };

static ember_generate_options *new_options(void)
{
    ember_generate_options *o = NULL;
    OK(ember_generate_options_new(&o, E));
    OK(ember_generate_options_set_max_tokens(o, N, E));
    OK(ember_generate_options_set_ignore_eog(o, true, E));
    return o;
}

/* Generates in an empty context; the sequence holds at each event what was reported, but for the last token. */
static ember_generate_result generate(ember_context *context, const ember_generate_options *o, uint32_t *tokens)
{
    ember_generator *generator = NULL;
    ember_event event = {.struct_size = sizeof event};
    ember_generate_result usage = {.struct_size = sizeof usage};
    uint32_t before = 0, held = 0;
    OK(ember_context_rewind(context, 0, 0, E));
    if (!OK(ember_generator_new(context, PROMPT, NUL, o, NULL, &generator, E)))
        exit(1);
    for (uint32_t n = 0;; n++) {
        if (!OK(ember_generator_next(generator, &event, E)))
            exit(1);
        OK(ember_context_n_past(context, 0, &held, E));
        if (event.kind == EMBER_EVENT_END)
            break;
        before = n == 0 ? held : before;
        CHECK(held == before + n && n < N);
        tokens[n] = event.token;
    }
    OK(ember_generator_usage(generator, &usage, E));
    ember_generator_free(generator);
    return usage;
}

static void tokens_are_the_same(void)
{
    uint32_t plain[N], drafted[N];
    ember_context *context = new_context(model, 256, 1), *draft = new_context(model, 256, 2);
    ember_generate_options *o = new_options();
    ember_generate_result usage = generate(context, o, plain);
    CHECK(usage.n_generated == N && usage.n_drafted == 0 && usage.n_accepted == 0 && usage.n_shifted == 0);
    OK(ember_generate_options_set_lookup(o, 8, 3, E));
    usage = generate(context, o, drafted);
    CHECK(memcmp(plain, drafted, sizeof plain) == 0);
    CHECK(usage.n_drafted > 0 && usage.n_accepted <= usage.n_drafted);
    OK(ember_generate_options_set_lookup(o, 0, 0, E));
    OK(ember_generate_options_set_draft(o, draft, 1, 4, E));
    usage = generate(context, o, drafted);
    CHECK(memcmp(plain, drafted, sizeof plain) == 0 && usage.n_accepted > 0);
    ember_context_free(draft); /* the options keep it */
    usage = generate(context, o, drafted);
    CHECK(memcmp(plain, drafted, sizeof plain) == 0 && usage.n_accepted > 0);
    OK(ember_generate_options_set_draft(o, NULL, 0, 0, E));
    usage = generate(context, o, drafted);
    CHECK(memcmp(plain, drafted, sizeof plain) == 0 && usage.n_drafted == 0);
    ember_generate_options_free(o);
    ember_context_free(context);
}

static void a_full_sequence_goes_on(void)
{
    ember_model *rotary = load_model("tests/fixtures/models/gemma3.gguf");
    ember_context *context = new_context(rotary, 32, 1);
    ember_generate_options *o = new_options();
    const uint32_t prompt[] = {1, 2, 3, 4, 5, 6};
    ember_generator *generator = NULL;
    ember_event event = {.struct_size = sizeof event};
    ember_generate_result usage = {.struct_size = sizeof usage};
    OK(ember_generate_options_set_max_tokens(o, 100, E));
    OK(ember_generate_options_set_shift(o, 2, 10, E));
    OK(ember_generator_new_tokens(context, prompt, 6, o, NULL, &generator, E));
    do {
        if (!OK(ember_generator_next(generator, &event, E)))
            exit(1);
    } while (event.kind != EMBER_EVENT_END);
    OK(ember_generator_usage(generator, &usage, E));
    CHECK(usage.n_generated == 100 && usage.finish_reason == EMBER_FINISH_MAX_TOKENS && usage.n_shifted == 80);
    ember_generator_free(generator);
    OK(ember_generate_options_set_shift(o, 22, 10, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_ctx 32", ember_generator_new_tokens(context, prompt, 6, o, NULL, &generator, E));
    OK(ember_generate_options_set_shift(o, 22, 0, E)); /* none */
    OK(ember_context_rewind(context, 0, 0, E));
    OK(ember_generator_new_tokens(context, prompt, 6, o, NULL, &generator, E));
    do {
        if (!OK(ember_generator_next(generator, &event, E)))
            exit(1);
    } while (event.kind != EMBER_EVENT_END);
    CHECK(event.finish_reason == EMBER_FINISH_CONTEXT_FULL);
    ember_generator_free(generator);
    ember_generate_options_free(o);
    ember_context_free(context);
    ember_model_release(rotary);
}

static void nonsense_is_refused(void)
{
    ember_context *context = new_context(model, 64, 1);
    ember_generate_options *o = new_options();
    ember_generator *generator = NULL;
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_draft", ember_generate_options_set_lookup(o, 33, 3, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "ngram", ember_generate_options_set_lookup(o, 8, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "ngram", ember_generate_options_set_lookup(o, 8, 17, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_draft", ember_generate_options_set_draft(o, context, 0, 33, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "draft",
          ember_generate_options_set_draft(o, (ember_context *)(void *)o, 0, 3, E));
    OK(ember_generate_options_set_draft(o, context, 0, 0, E)); /* none */
    OK(ember_generator_new(context, PROMPT, NUL, o, NULL, &generator, E));
    ember_generator_free(generator);
    generator = NULL;
    OK(ember_generate_options_set_draft(o, context, 0, 4, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "itself", ember_generator_new(context, PROMPT, NUL, o, NULL, &generator, E));
    ember_model *other = load_model(FIXTURE);
    ember_context *draft = new_context(other, 0, 1);
    OK(ember_generate_options_set_draft(o, draft, 0, 4, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "vocabulary", ember_generator_new(context, PROMPT, NUL, o, NULL, &generator, E));
    ember_context_free(draft);
    draft = new_context(model, 64, 1);
    OK(ember_generate_options_set_draft(o, draft, 1, 4, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 1", ember_generator_new(context, PROMPT, NUL, o, NULL, &generator, E));
    CHECK(generator == NULL);
    ember_context_free(draft);
    ember_model_release(other);
    ember_generate_options_free(o);
    ember_context_free(context);
}

int main(int argc, char **argv)
{
    model = load_model(model_path(argc, argv));
    tokens_are_the_same();
    a_full_sequence_goes_on();
    nonsense_is_refused();
    ember_model_release(model);
    return finish("drafts");
}

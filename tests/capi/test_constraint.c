/* Constraints: every kind, as an option and as a stage; triggers, limits, lifetimes, and what is refused. */
#include "check.h"

static ember_model *model;
static const char *path;
static const size_t NUL = EMBER_NUL_TERMINATED;
static const char SCHEMA[] = "{\"type\":\"object\",\"properties\":{\"sea\":{\"enum\":[\"calm\",\"rough\"]},"
                             "\"depth\":{\"type\":\"integer\",\"minimum\":10,\"maximum\":99}},"
                             "\"required\":[\"sea\",\"depth\"],\"additionalProperties\":false}";
enum { CAPACITY = 4096 };

/* The text of a generation and what it did. */
static ember_generate_result generate(const ember_constraint *constraint, ember_sampler *sampler, uint32_t most, char *text)
{
    ember_context *context = new_context(model, 256, 1);
    ember_generate_options *o = NULL;
    ember_generator *generator = NULL;
    ember_event event = {.struct_size = sizeof event};
    ember_generate_result usage = {.struct_size = sizeof usage};
    size_t n = 0;
    OK(ember_generate_options_new(&o, E));
    OK(ember_generate_options_set_max_tokens(o, most, E));
    OK(ember_generate_options_set_constraint(o, constraint, E));
    if (!OK(ember_generator_new(context, "The sea", NUL, o, sampler, &generator, E)))
        exit(1);
    ember_generate_options_free(o);
    do {
        if (!OK(ember_generator_next(generator, &event, E)))
            exit(1);
        if (n + event.text_len < CAPACITY) {
            memcpy(text + n, event.text, event.text_len);
            n += event.text_len;
        }
    } while (event.kind != EMBER_EVENT_END);
    text[n] = '\0';
    OK(ember_generator_usage(generator, &usage, E));
    ember_generator_free(generator);
    ember_context_free(context);
    return usage;
}

static ember_sampler *new_sampler(uint64_t seed)
{
    ember_sampler *sampler = NULL;
    OK(ember_sampler_new(seed, &sampler, E));
    OK(ember_sampler_add_temperature(sampler, 1.5f, E));
    return sampler;
}

static int is_report(const char *text)
{
    return (strstr(text, "\"calm\"") != NULL || strstr(text, "\"rough\"") != NULL) && strstr(text, "\"depth\"") != NULL &&
           text[0] == '{' && text[strlen(text) - 1] == '}';
}

static void json_follows_its_schema(void)
{
    char text[CAPACITY], staged[CAPACITY];
    ember_constraint_options *options = NULL;
    ember_constraint *constraint = NULL;
    OK(ember_constraint_options_new(&options, E));
    OK(ember_constraint_options_set_whitespace(options, 0, E));
    OK(ember_constraint_new_json_schema(model, SCHEMA, NUL, options, &constraint, E));
    ember_constraint_options_free(options);
    for (uint64_t seed = 0; seed < 5; seed++) {
        ember_sampler *sampler = new_sampler(seed);
        ember_generate_result usage = generate(constraint, sampler, 100, text);
        CHECK(usage.progress == EMBER_CONSTRAINT_COMPLETE && usage.finish_reason == EMBER_FINISH_EOG && is_report(text));
        CHECK(usage.n_forced > 0 && usage.n_forced < usage.n_generated);
        ember_sampler_free(sampler);
        /* As a stage, and by a clone. */
        ember_sampler *first = NULL, *clone = NULL;
        int32_t progress = -1;
        OK(ember_sampler_new(seed, &first, E));
        OK(ember_sampler_progress(first, &progress, E));
        CHECK(progress == EMBER_CONSTRAINT_NONE);
        OK(ember_sampler_add_constraint(first, constraint, E));
        OK(ember_sampler_add_temperature(first, 1.5f, E));
        OK(ember_sampler_clone(first, &clone, E));
        usage = generate(NULL, first, 100, staged);
        CHECK(usage.progress == EMBER_CONSTRAINT_COMPLETE && strcmp(text, staged) == 0);
        usage = generate(NULL, clone, 4, staged);
        CHECK(usage.progress == EMBER_CONSTRAINT_UNFINISHED && usage.finish_reason == EMBER_FINISH_MAX_TOKENS);
        OK(ember_sampler_progress(clone, &progress, E));
        CHECK(progress == EMBER_CONSTRAINT_UNFINISHED);
        OK(ember_sampler_progress(first, &progress, E));
        CHECK(progress == EMBER_CONSTRAINT_COMPLETE);
        OK(ember_sampler_reset(first, E));
        OK(ember_sampler_progress(first, &progress, E));
        CHECK(progress == EMBER_CONSTRAINT_UNFINISHED);
        ember_sampler_free(clone);
        ember_sampler_free(first);
    }
    ember_constraint_free(constraint);
}

static void every_kind(void)
{
    static const char *const choices[] = {"yes", "no", "perhaps"};
    static const size_t lengths[] = {3, 2, 7};
    char text[CAPACITY];
    ember_constraint *c = NULL;
    ember_generate_result usage;
    OK(ember_constraint_new_choices(model, choices, NULL, 3, NULL, &c, E));
    usage = generate(c, NULL, 100, text);
    CHECK(usage.progress == EMBER_CONSTRAINT_COMPLETE);
    CHECK(strcmp(text, "yes") == 0 || strcmp(text, "no") == 0 || strcmp(text, "perhaps") == 0);
    ember_constraint_free(c);
    OK(ember_constraint_new_choices(model, choices, lengths, 3, NULL, &c, E));
    ember_constraint_free(c);
    OK(ember_constraint_new_regex(model, "[0-9]{4}-[0-9]{2}", NUL, NULL, &c, E));
    usage = generate(c, NULL, 100, text);
    CHECK(usage.progress == EMBER_CONSTRAINT_COMPLETE && strlen(text) == 7 && text[4] == '-');
    ember_constraint_free(c);
    OK(ember_constraint_new_lark(model, "start: \"a\" \"b\" | \"c\"", NUL, NULL, &c, E));
    usage = generate(c, NULL, 100, text);
    CHECK(usage.progress == EMBER_CONSTRAINT_COMPLETE && (strcmp(text, "ab") == 0 || strcmp(text, "c") == 0));
    ember_constraint_free(c);
    OK(ember_constraint_new_json_object(model, NULL, &c, E));
    usage = generate(c, NULL, 20, text);
    CHECK(text[0] == '{');
    ember_constraint_free(c);
    ember_constraint_free(NULL);
}

static void triggers(void)
{
    char text[CAPACITY];
    ember_constraint_options *options = NULL;
    ember_constraint *c = NULL;
    OK(ember_constraint_options_new(&options, E));
    OK(ember_constraint_options_add_trigger_text(options, "</think>", NUL, E));
    OK(ember_constraint_options_add_trigger_token(options, 300, E));
    OK(ember_constraint_options_set_repeat(options, true, E));
    OK(ember_constraint_new_json_schema(model, SCHEMA, NUL, options, &c, E));
    ember_generate_result usage = generate(c, NULL, 5, text);
    CHECK(usage.progress == EMBER_CONSTRAINT_WAITING && usage.n_generated == 5);
    ember_constraint_free(c);
    FAILS(EMBER_E_INVALID_ARGUMENT, "empty", ember_constraint_options_add_trigger_text(options, "", 0, E));
    OK(ember_constraint_options_add_trigger_token(options, UINT32_MAX, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "4294967295", ember_constraint_new_json_object(model, options, &c, E));
    ember_constraint_options_free(options);
    ember_constraint_options_free(NULL);
}

static void refused(void)
{
    ember_constraint_options *options = NULL;
    ember_constraint *c = NULL;
    FAILS(EMBER_E_UNSUPPORTED, "uniqueItems",
          ember_constraint_new_json_schema(model, "{\"type\":\"array\",\"uniqueItems\":true}", NUL, NULL, &c, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "met", ember_constraint_new_json_schema(model, "false", NUL, NULL, &c, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "JSON", ember_constraint_new_json_schema(model, "{", NUL, NULL, &c, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "regular expression", ember_constraint_new_regex(model, "(", NUL, NULL, &c, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "grammar", ember_constraint_new_lark(model, "start: x", NUL, NULL, &c, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "empty", ember_constraint_new_choices(model, NULL, NULL, 0, NULL, &c, E));
    OK(ember_constraint_options_new(&options, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "limit", ember_constraint_options_set_limit(options, 6, 1, E));
    OK(ember_constraint_options_set_limit(options, EMBER_CONSTRAINT_LIMIT_SOURCE, 3, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "source", ember_constraint_new_regex(model, "abcd", NUL, options, &c, E));
    ember_constraint_options_free(options);
    /* Without a tokenizer there is nothing to spell with. */
    ember_model *bare = NULL;
    OK(ember_model_load(FIXTURE, NUL, NULL, &bare, E));
    FAILS(EMBER_E_UNSUPPORTED, "tokenizer", ember_constraint_new_json_object(bare, NULL, &c, E));
    ember_model_release(bare);
    CHECK(c == NULL);
}

static void another_models(void)
{
    ember_model *other = NULL;
    ember_constraint *c = NULL;
    ember_context *context = new_context(model, 64, 1);
    ember_generate_options *o = NULL;
    ember_generator *generator = NULL;
    OK(ember_model_load(path, NUL, NULL, &other, E));
    OK(ember_constraint_new_json_object(other, NULL, &c, E));
    ember_model_release(other);
    OK(ember_generate_options_new(&o, E));
    OK(ember_generate_options_set_constraint(o, c, E));
    ember_constraint_free(c);
    FAILS(EMBER_E_INVALID_ARGUMENT, "another model", ember_generator_new(context, "x", 1, o, NULL, &generator, E));
    OK(ember_constraint_new_json_object(model, NULL, &c, E));
    OK(ember_generate_options_set_constraint(o, c, E));
    OK(ember_generate_options_set_ignore_eog(o, true, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "ignore_eog", ember_generator_new(context, "x", 1, o, NULL, &generator, E));
    ember_constraint_free(c);
    ember_generate_options_free(o);
    ember_context_free(context);
}

int main(int argc, char **argv)
{
    path = model_path(argc, argv);
    model = load_model(path);
    json_follows_its_schema();
    every_kind();
    triggers();
    refused();
    another_models();
    ember_model_release(model);
    return finish("constraint");
}

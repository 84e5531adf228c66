/* A program as it was compiled when the header it includes was released: tests/capi/abi.sh compiles it with each frozen
 * header (tests/golden/ember-v*.h) and runs it with today's library. It uses what the first of them declares and nothing
 * newer, and looks at every struct that carries its size: as large as this program knows it, smaller (an even older
 * program), and larger (a newer one, before a library that does not know its last fields). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ember.h"

enum { SPARE = 64, POISON = 0xa5 };

static int n_failed;

static void check(int ok, int line, const char *what)
{
    if (!ok) {
        n_failed++;
        printf("old_program.c:%d: failed: %s\n", line, what);
    }
}
#define CHECK(condition) check((condition) ? 1 : 0, __LINE__, #condition)

/* Ends the program with Ember's sentence, unless there is none. */
static void must(ember_status status, ember_error **err)
{
    if (status == EMBER_OK)
        return;
    printf("%s: %s\n", ember_status_name(status), ember_error_message(*err));
    exit(1);
}

/* What fills a struct that begins with its size. */
typedef ember_status (*filler)(void *subject, void *out, ember_error **err);

/* What is filled: `known` is its size in this program's header. */
static void negotiate(const char *name, size_t known, filler fill, void *subject)
{
    unsigned char *whole = malloc(known + SPARE), *other = malloc(known + SPARE);
    const size_t word = sizeof(size_t), smallest = 2 * sizeof(size_t);
    ember_error *err = NULL;
    memset(whole, POISON, known + SPARE);
    memcpy(whole, &known, word);
    must(fill(subject, whole, &err), &err);
    for (size_t size = 0; size <= known + SPARE; size += 4) {
        memset(other, POISON, known + SPARE);
        memcpy(other, &size, word);
        ember_status status = fill(subject, other, &err);
        if (size < smallest) {
            CHECK(status == EMBER_E_INVALID_ARGUMENT);
            CHECK(strstr(ember_error_message(err), "struct_size") != NULL);
            ember_error_free(err);
        } else {
            must(status, &err);
            /* The fields that both know are the same, bit by bit. */
            CHECK(memcmp(other + word, whole + word, (size < known ? size : known) - word) == 0);
        }
        CHECK(memcmp(other, &size, word) == 0);
        for (size_t i = size < smallest ? word : size; i < known + SPARE; i++)
            if (other[i] != POISON) {
                printf("%s of size %lu: byte %lu was written\n", name, (unsigned long)size, (unsigned long)i);
                n_failed++;
                break;
            }
    }
    /* A size that no memory has. */
    const size_t nonsense = SIZE_MAX;
    memcpy(other, &nonsense, word);
    CHECK(fill(subject, other, NULL) == EMBER_E_INVALID_ARGUMENT);
    free(whole);
    free(other);
}

static ember_status model_info(void *subject, void *out, ember_error **err)
{
    return ember_model_info_get(subject, out, err);
}

static ember_status context_info(void *subject, void *out, ember_error **err)
{
    return ember_context_info_get(subject, out, err);
}

static ember_status usage(void *subject, void *out, ember_error **err)
{
    return ember_generator_usage(subject, out, err);
}

/* After the end, the same event comes again and again. */
static ember_status next(void *subject, void *out, ember_error **err)
{
    return ember_generator_next(subject, out, err);
}

static ember_status score(void *subject, void *out, ember_error **err)
{
    must(ember_context_rewind(subject, 0, 0, err), err);
    return ember_score(subject, "The", 3, " sea", 4, NULL, NULL, 0, NULL, out, err);
}

static int32_t count(const ember_event *event, void *user_data)
{
    /* The library may know more fields, never fewer. */
    CHECK(event->struct_size >= sizeof *event);
    CHECK(event->kind >= EMBER_EVENT_ECHO && event->kind <= EMBER_EVENT_END);
    *(int *)user_data += event->kind == EMBER_EVENT_TOKEN;
    return 0;
}

int main(int argc, char **argv)
{
    ember_error *err = NULL;
    ember_model *model = NULL;
    ember_context *context = NULL;
    ember_sampler *sampler = NULL;
    ember_generate_options *options = NULL;
    ember_generator *generator = NULL;
    if (argc != 2)
        return 2;
    must(ember_model_load(argv[1], EMBER_NUL_TERMINATED, NULL, &model, &err), &err);
    must(ember_context_new(model, NULL, &context, &err), &err);
    must(ember_sampler_new(7, &sampler, &err), &err);
    must(ember_sampler_add_top_k(sampler, 40, &err), &err);
    must(ember_sampler_add_temperature(sampler, 0.8f, &err), &err);
    must(ember_generate_options_new(&options, &err), &err);
    must(ember_generate_options_set_max_tokens(options, 8, &err), &err);
    must(ember_generate_options_set_ignore_eog(options, true, &err), &err);
    must(ember_generate_options_set_n_top(options, 2, &err), &err);

    int n_tokens = 0;
    ember_generate_result result = {.struct_size = sizeof result, .finish_reason = EMBER_FINISH_NONE};
    must(ember_generate(context, "The sea", EMBER_NUL_TERMINATED, options, sampler, count, &n_tokens, &result, &err), &err);
    CHECK(n_tokens == 8 && result.n_generated == 8 && result.finish_reason == EMBER_FINISH_MAX_TOKENS);

    must(ember_context_rewind(context, 0, 0, &err), &err);
    must(ember_generator_new(context, "The sea", EMBER_NUL_TERMINATED, options, sampler, &generator, &err), &err);
    ember_event event = {.struct_size = sizeof event, .kind = EMBER_EVENT_TOKEN};
    for (n_tokens = 0; event.kind != EMBER_EVENT_END; n_tokens += event.kind == EMBER_EVENT_TOKEN) {
        must(ember_generator_next(generator, &event, &err), &err);
        CHECK(event.struct_size == sizeof event);
        CHECK(event.kind != EMBER_EVENT_TOKEN || (event.n_tops == 2 && event.tops[0].logprob >= event.tops[1].logprob));
    }
    CHECK(n_tokens == 8);
    negotiate("ember_event", sizeof(ember_event), next, generator);
    negotiate("ember_generate_result", sizeof(ember_generate_result), usage, generator);
    ember_generator_free(generator);

    negotiate("ember_model_info", sizeof(ember_model_info), model_info, model);
    negotiate("ember_context_info", sizeof(ember_context_info), context_info, context);
    negotiate("ember_score_result", sizeof(ember_score_result), score, context);

    ember_generate_options_free(options);
    ember_sampler_free(sampler);
    ember_context_free(context);
    ember_model_release(model);
    printf("old_program: %d failed\n", n_failed);
    return n_failed == 0 ? 0 : 1;
}

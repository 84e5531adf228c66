/* A tiny test harness: assertions that count, print where they failed, and let the program go on.
 *
 * Every test file has one main(), which calls its tests and returns finish(). Paths are relative to the repository. */
#ifndef EMBER_TESTS_CHECK_H
#define EMBER_TESTS_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ember.h"

/* A model without a tokenizer: 101 tokens, 64 learned positions, F32. */
#define FIXTURE "tests/fixtures/models/gpt2-tied.gguf"
enum { FIXTURE_VOCAB = 101, FIXTURE_CTX = 64 };

static int n_passed, n_failed;

static inline void check(int ok, const char *file, int line, const char *what)
{
    if (ok) {
        n_passed++;
        return;
    }
    n_failed++;
    printf("%s:%d: failed: %s\n", file, line, what);
}

/* The condition holds. */
#define CHECK(condition) check((condition) ? 1 : 0, __FILE__, __LINE__, #condition)

/* The error that the call under test writes: its last argument is `E`. Poisoned, so that an unwritten one shows. */
static char poison_target;
#define POISON ((ember_error *)(void *)&poison_target)
static ember_error *last_error;
static ember_error **E = &last_error;

/* Success: EMBER_OK, and the error is written as NULL. */
#define OK(call) (last_error = POISON, E = &last_error, check_ok((call), __FILE__, __LINE__, #call))

static inline int check_ok(ember_status status, const char *file, int line, const char *what)
{
    int ok = status == EMBER_OK && last_error == NULL;
    check(ok, file, line, what);
    if (!ok && last_error != POISON) {
        printf("    %s: %s\n", ember_status_name(status), ember_error_message(last_error));
        ember_error_free(last_error);
    }
    last_error = NULL;
    return ok;
}

/* Failure: the status `want`, and a sentence that has `word` in it; and the same status when nobody wants the error.
 * The call is made twice. */
#define FAILS(want, word, call)                                                                                        \
    (last_error = POISON, E = &last_error, check_error((call), want, word, __FILE__, __LINE__, #call), E = NULL,        \
     check((call) == (want), __FILE__, __LINE__, #call " without an error to write"), (void)(E = &last_error))

static inline void check_error(ember_status status, ember_status want, const char *word, const char *file, int line,
                               const char *what)
{
    if (last_error == POISON || last_error == NULL) {
        check(0, file, line, what);
        printf("    %s without an error, expected %s\n", ember_status_name(status), ember_status_name(want));
        return;
    }
    const char *sentence = ember_error_message(last_error);
    int ok = status == want && ember_error_status(last_error) == want && *sentence != '\0' &&
             strstr(sentence, word) != NULL;
    check(ok, file, line, what);
    if (!ok)
        printf("    %s: %s\n    expected %s and \"%s\"\n", ember_status_name(status), sentence,
               ember_status_name(want), word);
    else if (getenv("EMBER_TEST_SENTENCES") != NULL)
        printf("%s: %s\n", ember_status_name(status), sentence);
    ember_error_free(last_error);
    last_error = NULL;
}

/* A model the tests cannot go on without. */
static inline ember_model *load_model(const char *path)
{
    ember_model *model = NULL;
    ember_error *err = NULL;
    if (ember_model_load(path, EMBER_NUL_TERMINATED, NULL, &model, &err) != EMBER_OK) {
        printf("%s\n", ember_error_message(err));
        exit(1);
    }
    return model;
}

/* A context the tests cannot go on without: `n_ctx` positions (0: the default), `n_seq` sequences, two threads. */
static inline ember_context *new_context(const ember_model *model, uint32_t n_ctx, uint32_t n_seq)
{
    ember_context_options *options = NULL;
    ember_context *context = NULL;
    OK(ember_context_options_new(&options, E));
    OK(ember_context_options_set_n_ctx(options, n_ctx, E));
    OK(ember_context_options_set_n_seq(options, n_seq, E));
    OK(ember_context_options_set_n_threads(options, 2, E));
    OK(ember_context_new(model, options, &context, E));
    ember_context_options_free(options);
    if (context == NULL)
        exit(1);
    return context;
}

/* The model with a tokenizer: the first argument of the test program. */
static inline const char *model_path(int argc, char **argv)
{
    return argc > 1 ? argv[1] : "examples/models/ember-tales.gguf";
}

/* Prints the counts; what main() returns. */
static inline int finish(const char *name)
{
    printf("%s: %d passed, %d failed\n", name, n_passed, n_failed);
    return n_failed == 0 ? 0 : 1;
}

#endif

/* Cancel tokens: loading, decoding, embedding and generating end early, from a signal handler too. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <signal.h>

static const size_t NUL = EMBER_NUL_TERMINATED;

static ember_cancel_token *new_token(void)
{
    ember_cancel_token *token = NULL;
    OK(ember_cancel_token_new(&token, E));
    if (token == NULL)
        exit(1);
    return token;
}

static void tokens(void)
{
    ember_cancel_token *token = new_token();
    CHECK(!ember_cancel_token_is_cancelled(token));
    ember_cancel_token_cancel(token);
    ember_cancel_token_cancel(token);
    CHECK(ember_cancel_token_is_cancelled(token));
    ember_cancel_token_reset(token);
    CHECK(!ember_cancel_token_is_cancelled(token));
    ember_cancel_token_free(token);

    ember_sampler *sampler = NULL;
    OK(ember_sampler_new(0, &sampler, E));
    ember_cancel_token *const wrong[] = {NULL, (ember_cancel_token *)(void *)sampler};
    for (int i = 0; i < 2; i++) {
        ember_cancel_token_cancel(wrong[i]);
        ember_cancel_token_reset(wrong[i]);
        CHECK(!ember_cancel_token_is_cancelled(wrong[i]));
        ember_cancel_token_free(wrong[i]);
    }
    OK(ember_sampler_add_greedy(sampler, E)); /* still alive */
    ember_sampler_free(sampler);
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_cancel_token_new(NULL, E));
}

static void loading(const char *path)
{
    ember_cancel_token *token = new_token();
    ember_model_options *options = NULL;
    ember_model *model = NULL;
    OK(ember_model_options_new(&options, E));
    OK(ember_model_options_set_cancel_token(options, token, E));
    ember_cancel_token_cancel(token);
    FAILS(EMBER_E_CANCELLED, path, ember_model_load(path, NUL, options, &model, E));
    CHECK(model == NULL);
    ember_cancel_token_reset(token);
    OK(ember_model_load(path, NUL, options, &model, E));
    ember_model_release(model);
    ember_cancel_token_cancel(token);
    OK(ember_model_options_set_cancel_token(options, NULL, E));
    OK(ember_model_load(path, NUL, options, &model, E));
    ember_model_release(model);

    ember_cancel_token *foreign = (ember_cancel_token *)(void *)options;
    FAILS(EMBER_E_INVALID_ARGUMENT, "token", ember_model_options_set_cancel_token(options, foreign, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_model_options_set_cancel_token(NULL, token, E));
    ember_model_options_free(options);
    ember_cancel_token_free(token);
}

static void contexts(const ember_model *model)
{
    ember_context *context = new_context(model, 64, 1);
    ember_cancel_token *token = new_token();
    const uint32_t ids[] = {300, 301, 302};
    const char *text = "Once upon a time";
    float *vector = NULL;
    size_t n = 0;
    uint32_t n_past = 77;
    OK(ember_context_decode(context, ids, NULL, NULL, NULL, 3, E));
    OK(ember_context_set_cancel_token(context, token, E));
    ember_cancel_token_cancel(token);
    FAILS(EMBER_E_CANCELLED, "cancel token", ember_context_decode(context, ids, NULL, NULL, NULL, 2, E));
    OK(ember_context_n_past(context, 0, &n_past, E));
    CHECK(n_past == 3);
    CHECK(ember_embed(context, &text, NULL, 1, NULL, NULL, 0, &n, NULL) == EMBER_E_BUFFER_TOO_SMALL);
    vector = calloc(n, sizeof *vector);
    FAILS(EMBER_E_CANCELLED, "cancel token", ember_embed(context, &text, NULL, 1, NULL, vector, n, &n, E));
    ember_cancel_token_reset(token);
    OK(ember_embed(context, &text, NULL, 1, NULL, vector, n, &n, E));
    OK(ember_context_decode(context, ids, NULL, NULL, NULL, 2, E));

    /* The token's handle may go before the context; NULL takes the token away. */
    ember_cancel_token_cancel(token);
    ember_cancel_token_free(token);
    FAILS(EMBER_E_CANCELLED, "cancel token", ember_context_decode(context, ids, NULL, NULL, NULL, 2, E));
    OK(ember_context_set_cancel_token(context, NULL, E));
    OK(ember_context_decode(context, ids, NULL, NULL, NULL, 2, E));

    ember_cancel_token *foreign = (ember_cancel_token *)(void *)context;
    FAILS(EMBER_E_INVALID_ARGUMENT, "token", ember_context_set_cancel_token(context, foreign, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_set_cancel_token(NULL, NULL, E));
    free(vector);
    ember_context_free(context);
}

static ember_cancel_token *signalled;

static void on_signal(int number)
{
    (void)number;
    ember_cancel_token_cancel(signalled);
}

static void a_signal_handler(const ember_model *model)
{
    ember_context *context = new_context(model, 64, 1);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    signalled = new_token();
    OK(ember_context_set_cancel_token(context, signalled, E));
    if (sigaction(SIGUSR1, &action, NULL) != 0 || raise(SIGUSR1) != 0)
        exit(1);
    CHECK(ember_cancel_token_is_cancelled(signalled));
    const uint32_t id = 300;
    FAILS(EMBER_E_CANCELLED, "cancel token", ember_context_decode(context, &id, NULL, NULL, NULL, 1, E));
    ember_context_free(context);
    ember_cancel_token_free(signalled);
}

int main(int argc, char **argv)
{
    const char *path = model_path(argc, argv);
    tokens();
    loading(path);
    ember_model *model = load_model(path);
    contexts(model);
    a_signal_handler(model);
    ember_model_release(model);
    return finish("cancel");
}

/* Cancelling calls that are under way, at any moment: from another thread and from a signal handler, while a model is loaded,
 * a prompt runs, tokens are generated, texts are embedded. What was interrupted says so and can be used again. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

static const size_t NUL = EMBER_NUL_TERMINATED;
enum { N_PROMPT = 96, N_CTX = 128, MOST_TRIES = 1000 };

static const char *path;
static ember_cancel_token *token;
static ember_model *model;
static ember_model_options *model_options;
static ember_context *context;
static ember_generate_options *options;
static uint32_t ids[N_PROMPT];
static char text[241]; /* for embedding */

/* Each kind of call: whether it was cancelled, with everything else as it should be then; TOO_SOON for one that was before
 * what is to be interrupted had begun. */
enum { TOO_SOON = 2 };
static int load(void)
{
    ember_model *loaded = NULL;
    ember_error *err = NULL;
    const ember_status status = ember_model_load(path, NUL, model_options, &loaded, &err);
    CHECK(status == EMBER_OK ? loaded != NULL && err == NULL : status == EMBER_E_CANCELLED && loaded == NULL);
    CHECK(status == EMBER_OK || strstr(ember_error_message(err), "cancel") != NULL);
    ember_error_free(err);
    ember_model_release(loaded);
    return status == EMBER_E_CANCELLED;
}

static uint32_t length(void)
{
    uint32_t n = UINT32_MAX;
    OK(ember_context_n_past(context, 0, &n, E));
    return n;
}

static int prefill(void)
{
    OK(ember_context_rewind(context, 0, 0, E));
    const ember_status status = ember_context_decode(context, ids, NULL, NULL, NULL, N_PROMPT, NULL);
    CHECK(status == EMBER_OK || status == EMBER_E_CANCELLED);
    CHECK(length() == (status == EMBER_OK ? (uint32_t)N_PROMPT : 0));
    return status == EMBER_E_CANCELLED;
}

static int32_t count(const ember_event *event, void *user_data)
{
    *(uint32_t *)user_data += event->kind == EMBER_EVENT_TOKEN;
    return 0;
}

static int decode(void)
{
    uint32_t reported = 0;
    ember_generate_result result = {.struct_size = sizeof result};
    OK(ember_context_rewind(context, 0, 0, E));
    OK(ember_generate_tokens(context, ids, 1, options, NULL, count, &reported, &result, E));
    CHECK(result.n_generated == reported);
    const int cancelled = result.finish_reason == EMBER_FINISH_CANCELLED;
    CHECK(cancelled || (result.finish_reason == EMBER_FINISH_MAX_TOKENS && reported == N_PROMPT));
    return cancelled && reported == 0 ? TOO_SOON : cancelled;
}

static int embed(void)
{
    static float vector[4096];
    size_t n = 0;
    OK(ember_context_rewind(context, 0, 0, E)); /* what sequences hold takes positions from texts */
    const char *texts[] = {text};
    const ember_status status =
        ember_embed(context, texts, NULL, 1, NULL, vector, sizeof vector / sizeof *vector, &n, NULL);
    CHECK(status == EMBER_OK || status == EMBER_E_CANCELLED);
    return status == EMBER_E_CANCELLED;
}

static int (*const CALLS[])(void) = {load, prefill, decode, embed};
static const char *const NAMES[] = {"load", "prefill", "decode", "embed"};
enum { N_CALLS = 4 };

static long microseconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

/* How many microseconds after its start a call that takes `duration` is cancelled in try `t`: anywhere in it, in steps of the
 * golden ratio, which leave no gap for long. */
static long after(int t, long duration)
{
    return 1 + (long)(duration * (t * 0.6180339887498949 - (long)(t * 0.6180339887498949)));
}

static void on_alarm(int number)
{
    (void)number;
    ember_cancel_token_cancel(token);
}

static int ring(long microseconds)
{
    struct itimerval timer;
    memset(&timer, 0, sizeof timer);
    timer.it_value.tv_sec = microseconds / 1000000;
    timer.it_value.tv_usec = microseconds % 1000000;
    return setitimer(ITIMER_REAL, &timer, NULL);
}

/* Makes the call until it was cancelled after its start by `start(microseconds)`; `stop` makes sure that nothing more comes. */
static void until_cancelled(int i, void (*start)(long), void (*stop)(void), const char *by)
{
    int cancelled = 0;
    ember_cancel_token_reset(token);
    long duration = microseconds_now();
    CHECK(!CALLS[i]());
    duration = microseconds_now() - duration;
    for (int t = 1; t <= MOST_TRIES && !cancelled; t++) {
        ember_cancel_token_reset(token);
        start(after(t, duration));
        const int early = ember_cancel_token_is_cancelled(token);
        const long begin = microseconds_now();
        const int outcome = CALLS[i]();
        cancelled = outcome == 1 && !early;
        if (outcome == 0)
            duration = microseconds_now() - begin; /* machines are busy at times */
        stop();
    }
    check(cancelled, __FILE__, __LINE__, NAMES[i]);
    if (!cancelled)
        printf("    %s was never cancelled by %s\n", NAMES[i], by);
    /* And nothing is the worse for it. */
    ember_cancel_token_reset(token);
    check(!CALLS[i](), __FILE__, __LINE__, NAMES[i]);
}

static void start_alarm(long microseconds)
{
    CHECK(ring(microseconds) == 0);
}

static void stop_alarm(void)
{
    CHECK(ring(0) == 0);
}

/* The other thread: cancels once for each start. */
static pthread_t thread;

static void *cancel_later(void *user_data)
{
    const long microseconds = *(const long *)user_data;
    const struct timespec pause = {microseconds / 1000000, microseconds % 1000000 * 1000};
    nanosleep(&pause, NULL);
    ember_cancel_token_cancel(token);
    return NULL;
}

static void start_thread(long microseconds)
{
    static long pause;
    pause = microseconds;
    if (pthread_create(&thread, NULL, cancel_later, &pause) != 0)
        exit(1);
}

static void stop_thread(void)
{
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    path = model_path(argc, argv);
    model = load_model(path);
    context = new_context(model, N_CTX, 1);
    OK(ember_cancel_token_new(&token, E));
    OK(ember_context_set_cancel_token(context, token, E));
    OK(ember_model_options_new(&model_options, E));
    OK(ember_model_options_set_cancel_token(model_options, token, E));
    OK(ember_generate_options_new(&options, E));
    OK(ember_generate_options_set_max_tokens(options, N_PROMPT, E));
    OK(ember_generate_options_set_ignore_eog(options, true, E));
    OK(ember_generate_options_set_cancel_token(options, token, E));
    for (uint32_t i = 0; i < N_PROMPT; i++)
        ids[i] = 300 + i % 50;
    for (size_t i = 0; i + 8 < sizeof text; i += 8)
        memcpy(text + i, " the sea", 8);

    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    if (sigaction(SIGALRM, &action, NULL) != 0)
        exit(1);
    for (int i = 0; i < N_CALLS; i++) {
        until_cancelled(i, start_thread, stop_thread, "a thread");
        until_cancelled(i, start_alarm, stop_alarm, "a signal handler");
    }

    ember_generate_options_free(options);
    ember_model_options_free(model_options);
    ember_cancel_token_free(token);
    ember_context_free(context);
    ember_model_release(model);
    return finish("interrupt");
}

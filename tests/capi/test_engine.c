/* Engines: requests give what they give alone, by pull and by callback, from many threads; the queue, ends, lifetimes. */
#define _XOPEN_SOURCE 700
#include <pthread.h>

#include "check.h"

static ember_model *model;
static const size_t NUL = EMBER_NUL_TERMINATED;

enum { N_PROMPTS = 8 };
static const char *const PROMPTS[N_PROMPTS] = {
    "Once upon a time", "The sea was calm, and the moon", "A small boat", "The keeper of the lamp",
    "Once upon a time there", "The wind", "In the morning", "An old dog",
};

/* What came out of a generation. */
struct got {
    char text[4096];
    size_t len;
    uint32_t n_tokens;
    int32_t finish_reason;
};

static struct got alone[N_PROMPTS];

static void take(struct got *got, const ember_event *event)
{
    CHECK(event->text != NULL && event->bytes != NULL && got->len + event->text_len < sizeof got->text);
    memcpy(got->text + got->len, event->text, event->text_len);
    got->len += event->text_len;
    got->n_tokens += event->kind == EMBER_EVENT_TOKEN;
    got->finish_reason = event->finish_reason;
}

static int32_t append(const ember_event *event, void *user_data)
{
    take(user_data, event);
    return 0;
}

static int same(const struct got *a, const struct got *b)
{
    return a->len == b->len && memcmp(a->text, b->text, a->len) == 0 && a->n_tokens == b->n_tokens &&
           a->finish_reason == b->finish_reason;
}

static ember_generate_options *for_tokens(uint32_t n)
{
    ember_generate_options *o = NULL;
    OK(ember_generate_options_new(&o, E));
    OK(ember_generate_options_set_max_tokens(o, n, E));
    OK(ember_generate_options_set_ignore_eog(o, true, E));
    return o;
}

/* The sampler of prompt `i`. */
static ember_sampler *sampler_of(int i)
{
    ember_sampler *sampler = NULL;
    OK(ember_sampler_new((uint64_t)i, &sampler, E));
    OK(ember_sampler_add_temperature(sampler, 0.7f, E));
    return sampler;
}

static ember_engine *new_engine(uint32_t n_parallel, uint32_t max_queue, bool thread)
{
    ember_engine_options *o = NULL;
    ember_context_options *c = NULL;
    ember_engine *engine = NULL;
    OK(ember_context_options_new(&c, E));
    OK(ember_context_options_set_n_ctx(c, 128, E));
    OK(ember_engine_options_new(&o, E));
    OK(ember_engine_options_set_context_options(o, c, E));
    OK(ember_engine_options_set_n_parallel(o, n_parallel, E));
    OK(ember_engine_options_set_max_queue(o, max_queue, E));
    OK(ember_engine_options_set_share_prefixes(o, true, E));
    OK(ember_engine_options_set_thread(o, thread, E));
    OK(ember_engine_new(model, o, &engine, E));
    ember_engine_options_free(o);
    ember_context_options_free(c);
    if (engine == NULL)
        exit(1);
    return engine;
}

static ember_request *submit(ember_engine *engine, int i, const ember_generate_options *o,
                             ember_event_callback callback, void *user_data)
{
    ember_sampler *sampler = sampler_of(i);
    ember_request *request = NULL;
    OK(ember_engine_submit(engine, PROMPTS[i], NUL, o, sampler, callback, user_data, &request, E));
    ember_sampler_free(sampler); /* the request has a copy */
    if (request == NULL)
        exit(1);
    return request;
}

/* Takes all events of a request. */
static struct got all(ember_request *request)
{
    struct got got = {.len = 0};
    ember_event event = {.struct_size = sizeof event};
    do {
        if (ember_request_next(request, EMBER_FOREVER, &event, NULL) != EMBER_OK)
            exit(1);
        take(&got, &event);
    } while (event.kind != EMBER_EVENT_END);
    return got;
}

static void what_each_gives_alone(const ember_generate_options *o)
{
    for (int i = 0; i < N_PROMPTS; i++) {
        ember_context_options *c = NULL;
        ember_context *context = NULL;
        ember_sampler *sampler = sampler_of(i);
        OK(ember_context_options_new(&c, E));
        OK(ember_context_options_set_n_ctx(c, 128, E));
        OK(ember_context_new(model, c, &context, E));
        OK(ember_generate(context, PROMPTS[i], NUL, o, sampler, append, &alone[i], NULL, E));
        alone[i].finish_reason = EMBER_FINISH_MAX_TOKENS;
        ember_sampler_free(sampler);
        ember_context_free(context);
        ember_context_options_free(c);
    }
}

static void together_is_alone(const ember_generate_options *o, uint32_t n_parallel, bool thread)
{
    ember_engine *engine = new_engine(n_parallel, 64, thread);
    ember_request *requests[2 * N_PROMPTS];
    struct got called[N_PROMPTS] = {{.len = 0}};
    for (int i = 0; i < N_PROMPTS; i++) {
        requests[i] = submit(engine, i, o, NULL, NULL);
        requests[N_PROMPTS + i] = submit(engine, i, o, append, &called[i]);
    }
    for (int i = 0; i < N_PROMPTS; i++) {
        const struct got got = all(requests[i]);
        CHECK(same(&got, &alone[i]));
    }
    for (int i = 0; i < N_PROMPTS; i++) {
        ember_generate_result usage = {.struct_size = sizeof usage};
        const struct got end = all(requests[N_PROMPTS + i]); /* its end, and nothing else */
        CHECK(end.len == 0 && end.n_tokens == 0 && same(&called[i], &alone[i]));
        OK(ember_request_usage(requests[i], &usage, E));
        CHECK(usage.n_generated == alone[i].n_tokens && usage.finish_reason == EMBER_FINISH_MAX_TOKENS);
    }
    ember_engine_metrics m = {.struct_size = sizeof m};
    OK(ember_engine_metrics_get(engine, &m, E));
    CHECK(m.n_submitted == 2 * N_PROMPTS && m.n_finished == 2 * N_PROMPTS && m.n_failed == 0 && m.n_queued == 0);
    CHECK(m.n_generated == 2 * N_PROMPTS * alone[0].n_tokens && m.tokens_per_s > 0 && m.n_pages > 0);
    ember_context_info info = {.struct_size = sizeof info};
    OK(ember_engine_info_get(engine, &info, E));
    CHECK(info.n_ctx == 128 && info.n_seq == n_parallel && info.n_threads > 0 && info.n_batch > 0);
    CHECK(info.page_len * info.n_pages == 128 * n_parallel && info.n_pages == m.n_pages && info.n_free_pages == info.n_pages);
    /* In either order. */
    for (int i = 0; i < N_PROMPTS; i++)
        ember_request_free(requests[i]);
    ember_engine_free(engine);
    for (int i = N_PROMPTS; i < 2 * N_PROMPTS; i++)
        ember_request_free(requests[i]);
}

struct user {
    ember_engine *engine;
    const ember_generate_options *options;
    int first, n_wrong;
};

static void *a_user(void *data)
{
    struct user *user = data;
    for (int k = 0; k < 3; k++) {
        const int i = (user->first + k) % N_PROMPTS;
        ember_sampler *sampler = NULL;
        ember_request *request = NULL;
        ember_event event = {.struct_size = sizeof event};
        struct got got = {.len = 0};
        /* The harness counts for one thread. */
        if (ember_sampler_new((uint64_t)i, &sampler, NULL) != EMBER_OK ||
            ember_sampler_add_temperature(sampler, 0.7f, NULL) != EMBER_OK ||
            ember_engine_submit(user->engine, PROMPTS[i], NUL, user->options, sampler, NULL, NULL, &request, NULL) != EMBER_OK)
            exit(1);
        ember_sampler_free(sampler);
        do {
            if (ember_request_next(request, EMBER_FOREVER, &event, NULL) != EMBER_OK)
                exit(1);
            memcpy(got.text + got.len, event.text, event.text_len);
            got.len += event.text_len;
            got.n_tokens += event.kind == EMBER_EVENT_TOKEN;
            got.finish_reason = event.finish_reason;
        } while (event.kind != EMBER_EVENT_END);
        user->n_wrong += !same(&got, &alone[i]);
        ember_request_free(request);
    }
    return NULL;
}

static void many_threads_use_one(const ember_generate_options *o, bool thread)
{
    enum { N = 6 };
    ember_engine *engine = new_engine(3, 64, thread);
    pthread_t threads[N];
    struct user users[N];
    for (int t = 0; t < N; t++) {
        users[t] = (struct user){.engine = engine, .options = NULL, .first = t};
        /* Options are for one thread at a time. */
        users[t].options = for_tokens(alone[0].n_tokens);
        CHECK(pthread_create(&threads[t], NULL, a_user, &users[t]) == 0);
    }
    for (int t = 0; t < N; t++) {
        pthread_join(threads[t], NULL);
        CHECK(users[t].n_wrong == 0);
        ember_generate_options_free((ember_generate_options *)(uintptr_t)users[t].options);
    }
    (void)o;
    ember_engine_free(engine);
}

static void full_cancelled_late(void)
{
    ember_engine *engine = new_engine(1, 2, false);
    ember_generate_options *o = for_tokens(100), *urgent = for_tokens(2), *late = for_tokens(2);
    ember_event event = {.struct_size = sizeof event};
    bool more = false;
    OK(ember_engine_step(engine, 0, &more, E));
    CHECK(!more);
    ember_request *first = submit(engine, 0, o, NULL, NULL);
    OK(ember_request_next(first, 0, &event, E));
    CHECK(event.kind == EMBER_EVENT_NONE && event.token == EMBER_TOKEN_NONE && event.text_len == 0);
    OK(ember_engine_step(engine, EMBER_FOREVER, &more, E));
    CHECK(more);
    OK(ember_generate_options_set_priority(urgent, 7, E));
    OK(ember_generate_options_set_time_limit(late, 1, E));
    ember_request *second = submit(engine, 1, o, NULL, NULL);
    ember_request *third = submit(engine, 2, urgent, NULL, NULL);
    ember_request *refused = NULL;
    FAILS(EMBER_E_QUEUE_FULL, "2 requests wait", ember_engine_submit(engine, "x", 1, o, NULL, NULL, NULL, &refused, E));
    CHECK(refused == NULL);
    ember_request_cancel(first);
    struct got got = all(first);
    CHECK(got.finish_reason == EMBER_FINISH_CANCELLED && got.n_tokens == 1);
    OK(ember_engine_step(engine, 0, NULL, E));
    ember_generate_result usage = {.struct_size = sizeof usage};
    OK(ember_request_usage(third, &usage, E));
    CHECK(usage.n_generated > 0);
    OK(ember_request_usage(second, &usage, E));
    CHECK(usage.n_generated == 0 && usage.finish_reason == EMBER_FINISH_NONE);
    got = all(third);
    CHECK(got.finish_reason == EMBER_FINISH_MAX_TOKENS && got.n_tokens == 2);
    ember_request_free(second); /* cancels it */
    ember_request *fourth = submit(engine, 3, late, NULL, NULL);
    while (ember_engine_step(engine, 2, &more, NULL) == EMBER_OK && more)
        ;
    got = all(fourth);
    CHECK(got.finish_reason == EMBER_FINISH_TIME_LIMIT || got.finish_reason == EMBER_FINISH_MAX_TOKENS);
    const uint32_t ids[] = {300, 301}, wrong[] = {1u << 30};
    ember_request *tokens = NULL;
    OK(ember_engine_submit_tokens(engine, ids, 2, urgent, NULL, NULL, NULL, &tokens, E));
    CHECK(all(tokens).n_tokens == 2);
    FAILS(EMBER_E_INVALID_ARGUMENT, "token 0", ember_engine_submit_tokens(engine, wrong, 1, o, NULL, NULL, NULL, &refused, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "empty", ember_engine_submit_tokens(engine, NULL, 0, o, NULL, NULL, NULL, &refused, E));
    ember_request_cancel(NULL);
    ember_request_cancel((ember_request *)(void *)engine);
    ember_engine_free(engine);
    ember_request *left[] = {first, third, fourth, tokens};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        OK(ember_request_next(left[i], EMBER_FOREVER, &event, E));
        CHECK(event.kind == EMBER_EVENT_END);
        ember_request_free(left[i]);
    }
    ember_generate_options_free(o);
    ember_generate_options_free(urgent);
    ember_generate_options_free(late);
}

/* What fails is reported at the end of the request, and to no other. */
static void a_failure_is_its_own(void)
{
    ember_engine *engine = new_engine(4, 8, false);
    ember_generate_options *o = for_tokens(4);
    ember_sampler *sampler = NULL;
    ember_request *request = NULL, *failing = NULL;
    ember_event event = {.struct_size = sizeof event};
    struct got got = {.len = 0};
    OK(ember_sampler_new(0, &sampler, E));
    OK(ember_sampler_add_allow(sampler, NULL, 0, E));
    OK(ember_engine_submit(engine, "The sea", NUL, o, sampler, NULL, NULL, &request, E));
    OK(ember_engine_submit(engine, "The sea", NUL, o, sampler, append, &got, &failing, E));
    ember_request *good = submit(engine, 0, o, NULL, NULL);
    CHECK(all(good).n_tokens == 4);
    FAILS(EMBER_E_INVALID_ARGUMENT, "allow", ember_request_next(request, EMBER_FOREVER, &event, E));
    CHECK(got.finish_reason == EMBER_FINISH_FAILED && got.n_tokens == 0);
    FAILS(EMBER_E_INVALID_ARGUMENT, "allow", ember_request_next(failing, 0, &event, E));
    ember_request_free(request);
    ember_request_free(failing);
    ember_request_free(good);
    ember_generate_options_free(o);
    ember_sampler_free(sampler);
    ember_engine_free(engine);
}

static ember_engine *inner;
static ember_request *made[4];
static int n_made;

static int32_t use_the_engine(const ember_event *event, void *user_data)
{
    const ember_generate_options *o = user_data;
    ember_event other = {.struct_size = sizeof other};
    CHECK(event->kind == EMBER_EVENT_TOKEN);
    FAILS(EMBER_E_BUSY, "callback", ember_engine_step(inner, EMBER_FOREVER, NULL, E));
    ember_engine_free(inner); /* is refused */
    OK(ember_engine_submit(inner, "A boat", NUL, o, NULL, NULL, NULL, &made[n_made], E));
    FAILS(EMBER_E_BUSY, "callback", ember_request_next(made[n_made], EMBER_FOREVER, &other, E));
    return ++n_made == 3;
}

static void a_callback_may_submit(void)
{
    ember_generate_options *o = for_tokens(2), *outer = for_tokens(50);
    bool more = true;
    inner = new_engine(2, 8, false);
    ember_request *request = submit(inner, 0, outer, use_the_engine, o);
    while (more)
        OK(ember_engine_step(inner, 0, &more, E));
    CHECK(n_made == 3 && all(request).finish_reason == EMBER_FINISH_STOPPED);
    for (int i = 0; i < n_made; i++) {
        CHECK(all(made[i]).n_tokens == 2);
        ember_request_free(made[i]);
    }
    ember_request_free(request);
    ember_engine_free(inner);
    ember_generate_options_free(o);
    ember_generate_options_free(outer);
}

static void bad_options(void)
{
    ember_engine_options *o = NULL;
    ember_engine *engine = NULL;
    OK(ember_engine_options_new(&o, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_parallel", ember_engine_options_set_n_parallel(o, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_parallel", ember_engine_options_set_n_parallel(o, 5000, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "max_queue", ember_engine_options_set_max_queue(o, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context_options", ember_engine_options_set_context_options(o, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_engine_new(NULL, o, &engine, E));
    CHECK(engine == NULL);
    ember_engine_options_free(o);
    ember_engine_options_free(NULL);
    ember_engine_free(NULL);
    ember_request_free(NULL);
}

int main(int argc, char **argv)
{
    OK(ember_model_load(model_path(argc, argv), NUL, NULL, &model, E));
    ember_generate_options *o = for_tokens(20);
    what_each_gives_alone(o);
    together_is_alone(o, 1, false);
    together_is_alone(o, 5, false);
    together_is_alone(o, 16, true);
    many_threads_use_one(o, false);
    many_threads_use_one(o, true);
    full_cancelled_late();
    a_failure_is_its_own();
    a_callback_may_submit();
    bad_options();
    ember_generate_options_free(o);
    ember_model_release(model);
    return finish("engine");
}

/* A child made by fork() and engines: those of its parent are refused where they would need the parent's threads, and freed without
 * hanging; the others become the child's, whose threads sleep and wake where those of the parent did. */
#include "fork.h"

static ember_request *submit(ember_engine *engine)
{
    ember_request *request = NULL;
    OK(ember_engine_submit_tokens(engine, TOKENS, N, NULL, NULL, NULL, NULL, &request, E));
    return request;
}

/* An engine whose steps a thread of the parent's does. */
static void in_the_child_of_an_engine(struct parent *p)
{
    ember_request *request = NULL;
    ember_event event = {.struct_size = sizeof event};
    FAILS(EMBER_E_INVALID_ARGUMENT, "fork",
          ember_engine_submit_tokens(p->engine, TOKENS, N, NULL, NULL, NULL, NULL, &request, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "fork",
          ember_engine_submit_tokens(p->stepped, TOKENS, N, NULL, NULL, NULL, NULL, &request, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "fork", ember_engine_step(p->stepped, EMBER_FOREVER, NULL, E));
    CHECK(request == NULL);
    ember_engine_free(p->stepped);
    ember_request_cancel(p->request);
    FAILS(EMBER_E_INVALID_ARGUMENT, "fork", ember_request_next(p->request, EMBER_FOREVER, &event, E));
    ember_request_free(p->request);
    ember_engine_free(p->engine);
    ember_model_release(p->model);
}

static void children_of_an_engines_owner(void)
{
    struct parent p = {.model = load_model(FIXTURE)};
    ember_engine_options *options = NULL;
    ember_context_options *two = NULL;
    ember_generate_options *long_text = NULL;
    ember_event event = {.struct_size = sizeof event};
    OK(ember_engine_options_new(&options, E));
    OK(ember_context_options_new(&two, E));
    OK(ember_context_options_set_n_threads(two, 2, E));
    OK(ember_engine_options_set_context_options(options, two, E));
    ember_context_options_free(two);
    OK(ember_engine_options_set_thread(options, true, E));
    OK(ember_engine_new(p.model, options, &p.engine, E));
    OK(ember_engine_options_set_thread(options, false, E));
    OK(ember_engine_new(p.model, options, &p.stepped, E));
    ember_engine_options_free(options);
    p.request = submit(p.engine);
    while (OK(ember_request_next(p.request, EMBER_FOREVER, &event, E)) && event.kind != EMBER_EVENT_END)
        ;
    ember_request_free(p.request); /* the thread sleeps */
    OK(ember_generate_options_new(&long_text, E));
    OK(ember_generate_options_set_max_tokens(long_text, 100000, E));
    OK(ember_generate_options_set_ignore_eog(long_text, true, E));
    for (int i = 0; i < 20; i++) {
        OK(ember_engine_submit_tokens(p.engine, TOKENS, N, long_text, NULL, NULL, NULL, &p.request, E));
        in_a_child(in_the_child_of_an_engine, &p);
        ember_request_free(p.request);
    }
    ember_generate_options_free(long_text);
    p.request = submit(p.engine); /* the parent's thread is as it was */
    while (OK(ember_request_next(p.request, EMBER_FOREVER, &event, E)) && event.kind != EMBER_EVENT_END)
        ;
    CHECK(event.kind == EMBER_EVENT_END && event.finish_reason != EMBER_FINISH_FAILED);
    ember_request_free(p.request);
    ember_engine_free(p.engine);
    ember_engine_free(p.stepped);
    ember_model_release(p.model);
}

static ember_engine *new_engine(ember_model *model, bool thread)
{
    ember_engine_options *options = NULL;
    ember_context_options *one = NULL;
    ember_engine *engine = NULL;
    OK(ember_engine_options_new(&options, E));
    OK(ember_context_options_new(&one, E));
    OK(ember_context_options_set_n_threads(one, 1, E));
    OK(ember_engine_options_set_context_options(options, one, E));
    OK(ember_engine_options_set_thread(options, thread, E));
    OK(ember_engine_new(model, options, &engine, E));
    ember_context_options_free(one);
    ember_engine_options_free(options);
    return engine;
}

static ember_engine *new_lone_engine(const struct parent *p)
{
    return new_engine(p->model, false);
}

/* Reads a request to its end and frees it. */
static void finish_request(ember_request *request)
{
    ember_event event = {.struct_size = sizeof event};
    while (OK(ember_request_next(request, EMBER_FOREVER, &event, E)) && event.kind != EMBER_EVENT_END)
        ;
    CHECK(event.finish_reason != EMBER_FINISH_FAILED);
    ember_request_free(request);
}

static void *step_once(void *user_data)
{
    return ember_engine_step(user_data, EMBER_FOREVER, NULL, NULL) == EMBER_OK ? user_data : NULL;
}

/* The parent's thread waits for something to do, which changes nothing here: not for a thread either that waits as it did, in the
 * memory of the parent's. */
static void in_the_child_of_a_waiting_engine(struct parent *p)
{
    const struct timespec pause = {0, 20000000};
    ember_event event = {.struct_size = sizeof event};
    pthread_t thread;
    void *succeeded = NULL;
    finish_request(submit(p->lone));
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&thread, NULL, step_once, p->lone) != 0)
            exit(1);
        nanosleep(&pause, NULL);
        p->request = submit(p->lone);
        pthread_join(thread, &succeeded);
        CHECK(succeeded == p->lone);
        finish_request(p->request);
    }
    p->request = submit(p->lone);
    ember_engine_free(p->lone); /* and so it ends */
    OK(ember_request_next(p->request, 0, &event, E));
    CHECK(event.kind == EMBER_EVENT_END && event.finish_reason == EMBER_FINISH_CANCELLED);
    ember_request_free(p->request);
    ember_model_release(p->model);
}

static void children_of_an_engine_that_waits(void)
{
    struct parent p = {.model = load_model(FIXTURE)};
    const struct timespec pause = {0, 20000000};
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        void *succeeded = NULL;
        p.lone = new_lone_engine(&p);
        if (pthread_create(&thread, NULL, step_once, p.lone) != 0)
            exit(1);
        nanosleep(&pause, NULL);
        in_a_child(in_the_child_of_a_waiting_engine, &p);
        p.request = submit(p.lone);
        pthread_join(thread, &succeeded);
        CHECK(succeeded == p.lone);
        ember_request_free(p.request);
        ember_engine_free(p.lone);
    }
    ember_model_release(p.model);
}

/* The child's engine has a thread, where those of the parent's sleep. */
static void in_the_child_of_sleepers(struct parent *p)
{
    const struct timespec pause = {0, 5000000};
    for (int i = 0; i < 3; i++) {
        ember_engine *own = new_engine(p->model, true);
        nanosleep(&pause, NULL);
        finish_request(submit(own));
        finish_request(submit(own));
        ember_engine_free(own);
    }
    ember_engine_free(p->engine);
}

static void children_of_sleepers(void)
{
    struct parent p = {.model = load_model(FIXTURE)};
    const struct timespec pause = {0, 20000000};
    p.engine = new_engine(p.model, true);
    nanosleep(&pause, NULL);
    for (int i = 0; i < 10; i++)
        in_a_child(in_the_child_of_sleepers, &p);
    finish_request(submit(p.engine));
    ember_engine_free(p.engine);
    ember_model_release(p.model);
}

static void *look_all_the_time(void *user_data)
{
    struct parent *p = user_data;
    ember_engine_metrics metrics = {.struct_size = sizeof metrics};
    ember_generate_result usage = {.struct_size = sizeof usage};
    while (!is_over()) {
        if (ember_engine_metrics_get(p->lone, &metrics, NULL) != EMBER_OK ||
            ember_request_usage(p->request, &usage, NULL) != EMBER_OK)
            return NULL;
    }
    return p;
}

/* A thread of the parent's may have been looking. Then the engine is refused; nothing waits for that thread. */
static void in_the_child_of_one_who_looks(struct parent *p)
{
    ember_engine_metrics metrics = {.struct_size = sizeof metrics};
    ember_generate_result usage = {.struct_size = sizeof usage};
    ember_event event = {.struct_size = sizeof event};
    ember_status status = ember_engine_metrics_get(p->lone, &metrics, NULL);
    CHECK(status == EMBER_OK || status == EMBER_E_INVALID_ARGUMENT);
    status = ember_request_usage(p->request, &usage, NULL);
    CHECK(status == EMBER_OK || status == EMBER_E_INVALID_ARGUMENT || status == EMBER_E_BUSY);
    status = ember_request_next(p->request, 0, &event, NULL);
    CHECK(status == EMBER_OK || status == EMBER_E_INVALID_ARGUMENT || status == EMBER_E_BUSY);
    ember_request_free(p->request);
    ember_engine_free(p->lone);
}

static void children_of_one_who_looks(void)
{
    struct parent p = {.model = load_model(FIXTURE)};
    pthread_t thread;
    void *succeeded = NULL;
    p.lone = new_lone_engine(&p);
    p.request = submit(p.lone);
    stop = 0;
    if (pthread_create(&thread, NULL, look_all_the_time, &p) != 0)
        exit(1);
    for (int i = 0; i < 40; i++)
        in_a_child(in_the_child_of_one_who_looks, &p);
    pthread_mutex_lock(&lock);
    stop = 1;
    pthread_mutex_unlock(&lock);
    pthread_join(thread, &succeeded);
    CHECK(succeeded == &p);
    finish_request(p.request);
    ember_engine_free(p.lone);
    ember_model_release(p.model);
}

/* A pipe that says that a step is under way, and one that lets it go on. */
struct gate {
    int is_here[2], may_go[2];
};

static int32_t wait_at_the_gate(const uint32_t *ids, float *logits, size_t n, void *user_data)
{
    struct gate *gate = user_data;
    char byte = 0;
    (void)ids, (void)logits, (void)n;
    return write(gate->is_here[1], &byte, 1) == 1 && read(gate->may_go[0], &byte, 1) == 1 ? 0 : 1;
}

static void *read_to_the_end(void *user_data)
{
    ember_event event = {.struct_size = sizeof event};
    while (ember_request_next(user_data, EMBER_FOREVER, &event, NULL) == EMBER_OK)
        if (event.kind == EMBER_EVENT_END)
            return event.finish_reason == EMBER_FINISH_MAX_TOKENS ? user_data : NULL;
    return NULL;
}

static void *free_engine(void *user_data)
{
    ember_engine_free(user_data);
    return NULL;
}

static int n_lines;

static void count_lines(int32_t level, const char *text, size_t len, void *user_data)
{
    (void)level, (void)text, (void)len, (void)user_data;
    n_lines++;
}

/* A step is under way that nobody will end here; the engine is freed by a thread in the memory of the one that did it. */
static void in_the_child_of_a_busy_engine(struct parent *p)
{
    pthread_t thread;
    ember_request *request = NULL;
    ember_event event = {.struct_size = sizeof event};
    FAILS(EMBER_E_INVALID_ARGUMENT, "at work",
          ember_engine_submit_tokens(p->lone, TOKENS, N, NULL, NULL, NULL, NULL, &request, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "at work", ember_engine_step(p->lone, EMBER_FOREVER, NULL, E));
    FAILS(EMBER_E_BUSY, "in use", ember_request_next(p->request, EMBER_FOREVER, &event, E));
    CHECK(request == NULL);
    ember_request_free(p->request);
    OK(ember_log_set(count_lines, NULL, EMBER_LOG_ERROR, E));
    if (pthread_create(&thread, NULL, free_engine, p->lone) != 0)
        exit(1);
    pthread_join(thread, NULL);
    CHECK(n_lines == 0); /* it went */
    OK(ember_log_set(NULL, NULL, 0, E));
    p->lone = new_lone_engine(p);
    p->request = submit(p->lone);
    while (OK(ember_request_next(p->request, EMBER_FOREVER, &event, E)) && event.kind != EMBER_EVENT_END)
        ;
    ember_request_free(p->request);
    ember_engine_free(p->lone);
    ember_model_release(p->model);
}

static void a_child_of_an_engine_at_work(void)
{
    struct parent p = {.model = load_model(FIXTURE)};
    struct gate gate;
    pthread_t thread;
    void *succeeded = NULL;
    ember_sampler *sampler = NULL;
    ember_generate_options *one_token = NULL;
    char byte = 0;
    if (pipe(gate.is_here) != 0 || pipe(gate.may_go) != 0)
        exit(1);
    OK(ember_sampler_new(1, &sampler, E));
    OK(ember_sampler_add_callback(sampler, wait_at_the_gate, &gate, E));
    OK(ember_generate_options_new(&one_token, E));
    OK(ember_generate_options_set_max_tokens(one_token, 1, E));
    OK(ember_generate_options_set_ignore_eog(one_token, true, E));
    p.lone = new_lone_engine(&p);
    OK(ember_engine_submit_tokens(p.lone, TOKENS, N, one_token, sampler, NULL, NULL, &p.request, E));
    if (pthread_create(&thread, NULL, read_to_the_end, p.request) != 0)
        exit(1);
    CHECK(read(gate.is_here[0], &byte, 1) == 1);
    in_a_child(in_the_child_of_a_busy_engine, &p);
    CHECK(write(gate.may_go[1], &byte, 1) == 1);
    pthread_join(thread, &succeeded);
    CHECK(succeeded == p.request);
    for (int i = 0; i < 2; i++) {
        close(gate.is_here[i]);
        close(gate.may_go[i]);
    }
    ember_request_free(p.request);
    ember_engine_free(p.lone);
    ember_generate_options_free(one_token);
    ember_sampler_free(sampler);
    ember_model_release(p.model);
}

int main(void)
{
    children_of_an_engines_owner();
    children_of_an_engine_that_waits();
    children_of_sleepers();
    children_of_one_who_looks();
    a_child_of_an_engine_at_work();
    return finish("fork_engine");
}

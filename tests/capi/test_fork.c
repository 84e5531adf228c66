/* A child made by fork(): contexts and engines of its parent are refused where they would need their threads, and freed without
 * hanging; models go on, and contexts of the child's own are as good as any. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const uint32_t TOKENS[] = {49, 55, 81, 19, 24};
enum { N = sizeof TOKENS / sizeof *TOKENS };

/* What the child is given. */
struct parent {
    ember_model *model;
    ember_context *threads, *alone; /* two threads, and the caller's only */
    float logits[FIXTURE_VOCAB];    /* of the last token */
    ember_engine *engine;           /* with a thread of its own, at work on the request */
    ember_request *request;
    ember_engine *stepped; /* whose steps its callers do, with threads of its context */
    ember_engine *lone;    /* whose callers do everything */
};

static ember_context *one_thread(const ember_model *model)
{
    ember_context_options *options = NULL;
    ember_context *context = NULL;
    OK(ember_context_options_new(&options, E));
    OK(ember_context_options_set_n_threads(options, 1, E));
    OK(ember_context_new(model, options, &context, E));
    ember_context_options_free(options);
    return context;
}

/* Whether the context gives the parent's logits for the tokens. */
static int says_the_same(ember_context *context, const struct parent *p)
{
    const float *row = NULL;
    return OK(ember_context_rewind(context, 0, 0, E)) &&
           OK(ember_context_decode(context, TOKENS, NULL, NULL, NULL, N, E)) &&
           OK(ember_context_logits(context, N - 1, &row, E)) && memcmp(row, p->logits, sizeof p->logits) == 0;
}

static void in_the_child(struct parent *p)
{
    const size_t one = 1;
    float vector[1024] = {0.0f};
    size_t n_needed = 0;
    uint32_t n = 0;
    FAILS(EMBER_E_INVALID_ARGUMENT, "fork", ember_context_decode(p->threads, TOKENS, NULL, NULL, NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "fork",
          ember_embed_tokens(p->threads, TOKENS, 1, &one, 1, NULL, vector, 1024, &n_needed, E));
    OK(ember_context_n_past(p->threads, 0, &n, E)); /* what needs no threads goes on */
    CHECK(n == N);
    CHECK(says_the_same(p->alone, p));

    ember_context *own = new_context(p->model, 0, 1);
    CHECK(says_the_same(own, p));
    ember_context_free(own);
    ember_model *model = load_model(FIXTURE);
    own = new_context(model, 0, 1);
    CHECK(says_the_same(own, p));
    ember_model_release(model);
    ember_context_free(own);

    ember_context_free(p->threads);
    ember_context_free(p->alone);
    ember_model_release(p->model);
}

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

/* Runs `f` in a child and checks that it ends well, and ends. The child tells by a pipe and kills itself, since at an exit
   valgrind would count what belongs to the parent's threads, which are not there to give it back, as leaks. */
static void in_a_child(void (*f)(struct parent *), struct parent *p)
{
    int ends[2], status = -1;
    char is_good = 0;
    if (pipe(ends) != 0)
        exit(1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(120);
        f(p);
        if (n_failed > 0)
            printf("    in the child\n");
        fflush(stdout);
        is_good = n_failed == 0;
        if (write(ends[1], &is_good, 1) == 1)
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    close(ends[1]);
    CHECK(child > 0 && read(ends[0], &is_good, 1) == 1 && is_good);
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static struct parent set_up(void)
{
    struct parent p = {.model = load_model(FIXTURE)};
    const float *row = NULL;
    p.threads = new_context(p.model, 0, 1);
    p.alone = one_thread(p.model);
    OK(ember_context_decode(p.threads, TOKENS, NULL, NULL, NULL, N, E));
    if (OK(ember_context_logits(p.threads, N - 1, &row, E)))
        memcpy(p.logits, row, sizeof p.logits);
    return p;
}

static void a_child_of_an_idle_parent(void)
{
    struct parent p = set_up();
    in_a_child(in_the_child, &p);
    CHECK(says_the_same(p.threads, &p)); /* the parent's threads are as they were */
    in_a_child(in_the_child, &p);
    ember_context_free(p.threads);
    ember_context_free(p.alone);
    ember_model_release(p.model);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int stop;

static void *decode_all_the_time(void *user_data)
{
    ember_context *context = user_data;
    int good = 1, end = 0;
    while (!end) {
        good = good && ember_context_rewind(context, 0, 0, NULL) == EMBER_OK &&
               ember_context_decode(context, TOKENS, NULL, NULL, NULL, N, NULL) == EMBER_OK;
        pthread_mutex_lock(&lock);
        end = stop;
        pthread_mutex_unlock(&lock);
    }
    return good ? user_data : NULL;
}

/* The context may be in the middle of a job, with its locks held. */
static void in_the_child_of_a_busy_parent(struct parent *p)
{
    ember_status status = ember_context_decode(p->threads, TOKENS, NULL, NULL, NULL, 1, NULL);
    CHECK(status == EMBER_E_BUSY || status == EMBER_E_INVALID_ARGUMENT);
    ember_context_free(p->threads);
    CHECK(says_the_same(p->alone, p));
    ember_context *own = new_context(p->model, 0, 1);
    CHECK(says_the_same(own, p));
    ember_context_free(own);
}

static void children_of_a_busy_parent(void)
{
    struct parent p = set_up();
    pthread_t thread;
    void *succeeded = NULL;
    if (pthread_create(&thread, NULL, decode_all_the_time, p.threads) != 0)
        exit(1);
    for (int i = 0; i < 20; i++)
        in_a_child(in_the_child_of_a_busy_parent, &p);
    pthread_mutex_lock(&lock);
    stop = 1;
    pthread_mutex_unlock(&lock);
    pthread_join(thread, &succeeded);
    CHECK(succeeded == p.threads);
    ember_context_free(p.threads);
    ember_context_free(p.alone);
    ember_model_release(p.model);
}

static void children_of_an_engines_owner(void)
{
    struct parent p = set_up();
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
    ember_context_free(p.threads);
    ember_context_free(p.alone);
    ember_model_release(p.model);
}

static ember_engine *new_lone_engine(const struct parent *p)
{
    ember_engine_options *options = NULL;
    ember_context_options *one = NULL;
    ember_engine *engine = NULL;
    OK(ember_engine_options_new(&options, E));
    OK(ember_context_options_new(&one, E));
    OK(ember_context_options_set_n_threads(one, 1, E));
    OK(ember_engine_options_set_context_options(options, one, E));
    OK(ember_engine_new(p->model, options, &engine, E));
    ember_context_options_free(one);
    ember_engine_options_free(options);
    return engine;
}

static void *step_once(void *user_data)
{
    return ember_engine_step(user_data, EMBER_FOREVER, NULL, NULL) == EMBER_OK ? user_data : NULL;
}

/* The parent's thread waits for something to do, which changes nothing here. */
static void in_the_child_of_a_waiting_engine(struct parent *p)
{
    ember_event event = {.struct_size = sizeof event};
    p->request = submit(p->lone);
    while (OK(ember_request_next(p->request, EMBER_FOREVER, &event, E)) && event.kind != EMBER_EVENT_END)
        ;
    CHECK(event.finish_reason != EMBER_FINISH_FAILED);
    ember_request_free(p->request);
    p->request = submit(p->lone);
    ember_engine_free(p->lone); /* and so it ends */
    OK(ember_request_next(p->request, 0, &event, E));
    CHECK(event.kind == EMBER_EVENT_END && event.finish_reason == EMBER_FINISH_CANCELLED);
    ember_request_free(p->request);
    ember_model_release(p->model);
}

static void children_of_an_engine_that_waits(void)
{
    struct parent p = set_up();
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
    ember_context_free(p.threads);
    ember_context_free(p.alone);
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

/* A step is under way that nobody will end here. */
static void in_the_child_of_a_busy_engine(struct parent *p)
{
    ember_request *request = NULL;
    ember_event event = {.struct_size = sizeof event};
    FAILS(EMBER_E_INVALID_ARGUMENT, "at work",
          ember_engine_submit_tokens(p->lone, TOKENS, N, NULL, NULL, NULL, NULL, &request, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "at work", ember_engine_step(p->lone, EMBER_FOREVER, NULL, E));
    FAILS(EMBER_E_BUSY, "in use", ember_request_next(p->request, EMBER_FOREVER, &event, E));
    CHECK(request == NULL);
    ember_request_free(p->request);
    ember_engine_free(p->lone);
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
    struct parent p = set_up();
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
    ember_context_free(p.threads);
    ember_context_free(p.alone);
    ember_model_release(p.model);
}

int main(void)
{
    a_child_of_an_idle_parent();
    children_of_a_busy_parent();
    children_of_an_engines_owner();
    children_of_an_engine_that_waits();
    a_child_of_an_engine_at_work();
    return finish("fork");
}

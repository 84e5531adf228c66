/* A child made by fork(): contexts of its parent are refused where they would need their threads, and freed without hanging;
 * models go on, and contexts of the child's own are as good as any. */
#include "fork.h"

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

static void *decode_all_the_time(void *user_data)
{
    ember_context *context = user_data;
    int good = 1;
    while (!is_over())
        good = good && ember_context_rewind(context, 0, 0, NULL) == EMBER_OK &&
               ember_context_decode(context, TOKENS, NULL, NULL, NULL, N, NULL) == EMBER_OK;
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

int main(void)
{
    a_child_of_an_idle_parent();
    children_of_a_busy_parent();
    return finish("fork");
}

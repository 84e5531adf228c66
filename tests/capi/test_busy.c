/* A context or sampler at work: calls from its own callback and from a second thread are refused, frees too. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>

static const size_t NUL = EMBER_NUL_TERMINATED;

/* What is at work, and what the callback found out. */
struct work {
    ember_model *model;
    ember_context *context;
    ember_sampler *sampler;
    ember_generate_options *options;
    ember_context *other;
    int pieces;
    int error_lines;
};

static void count_errors(int32_t level, const char *text, size_t len, void *user_data)
{
    struct work *w = user_data;
    CHECK(level == EMBER_LOG_ERROR && len > 0 && memchr(text, '\n', len) == NULL);
    w->error_lines++;
}

static int32_t ignore(const ember_event *event, void *user_data)
{
    (void)event, (void)user_data;
    return 0;
}

/* Everything that touches the context or the sampler is refused, and freeing them does nothing. */
static void all_is_busy(struct work *w)
{
    const uint32_t token = 300;
    const float logits[] = {0.0f, 1.0f};
    ember_context_info info = {.struct_size = sizeof info};
    const float *row = NULL;
    uint32_t n = 77;
    size_t n_needed = 77;
    FAILS(EMBER_E_BUSY, "context", ember_context_info_get(w->context, &info, E));
    FAILS(EMBER_E_BUSY, "context", ember_context_decode(w->context, &token, NULL, NULL, NULL, 1, E));
    FAILS(EMBER_E_BUSY, "context", ember_context_logits(w->context, 0, &row, E));
    FAILS(EMBER_E_BUSY, "context", ember_context_n_past(w->context, 0, &n, E));
    FAILS(EMBER_E_BUSY, "context", ember_context_tokens(w->context, 0, &n, 1, &n_needed, E));
    FAILS(EMBER_E_BUSY, "context", ember_context_rewind(w->context, 0, 0, E));
    FAILS(EMBER_E_BUSY, "context", ember_generate(w->context, "a", 1, NULL, NULL, ignore, NULL, NULL, E));
    float vector[1] = {0.0f};
    size_t one = 1;
    const char *text = "a";
    FAILS(EMBER_E_BUSY, "context", ember_embed(w->context, &text, NULL, 1, NULL, vector, 1, &n_needed, E));
    FAILS(EMBER_E_BUSY, "context",
          ember_embed_tokens(w->context, &token, 1, &one, 1, NULL, vector, 1, &n_needed, E));
    CHECK(n_needed == 77);
    ember_generator *generator = NULL;
    ember_score_result score = {.struct_size = sizeof score};
    FAILS(EMBER_E_BUSY, "context", ember_generate_tokens(w->context, &token, 1, NULL, NULL, ignore, NULL, NULL, E));
    FAILS(EMBER_E_BUSY, "context", ember_generator_new(w->context, "a", 1, NULL, NULL, &generator, E));
    FAILS(EMBER_E_BUSY, "context", ember_generator_new_tokens(w->context, &token, 1, NULL, NULL, &generator, E));
    FAILS(EMBER_E_BUSY, "context", ember_score(w->context, "a", 1, "b", 1, NULL, NULL, 0, NULL, &score, E));
    FAILS(EMBER_E_BUSY, "context", ember_score_tokens(w->context, &token, 1, 1, NULL, NULL, 0, NULL, &score, E));
    FAILS(EMBER_E_BUSY, "context", ember_context_set_cancel_token(w->context, NULL, E));
    CHECK(generator == NULL);
    FAILS(EMBER_E_BUSY, "sampler", ember_generate(w->other, "a", 1, NULL, w->sampler, ignore, NULL, NULL, E));
    FAILS(EMBER_E_BUSY, "sampler", ember_sampler_add_greedy(w->sampler, E));
    FAILS(EMBER_E_BUSY, "sampler", ember_sampler_add_temperature(w->sampler, 1.0f, E));
    FAILS(EMBER_E_BUSY, "sampler", ember_sampler_add_top_k(w->sampler, 1, E));
    FAILS(EMBER_E_BUSY, "sampler", ember_sampler_add_top_p(w->sampler, 1.0f, E));
    FAILS(EMBER_E_BUSY, "sampler", ember_sampler_reset(w->sampler, E));
    FAILS(EMBER_E_BUSY, "sampler", ember_sampler_sample(w->sampler, logits, 2, &n, E));
    CHECK(n == 77);

    w->error_lines = 0;
    OK(ember_log_set(count_errors, w, EMBER_LOG_ERROR, E));
    ember_context_free(w->context);
    ember_sampler_free(w->sampler);
    OK(ember_log_set(NULL, NULL, EMBER_LOG_ERROR, E));
    CHECK(w->error_lines == 2);
}

/* A model, two contexts and a sampler. */
static struct work set_up(const char *path)
{
    struct work w = {.model = load_model(path)};
    w.context = new_context(w.model, 64, 1);
    w.other = new_context(w.model, 64, 1);
    OK(ember_sampler_new(1, &w.sampler, E));
    OK(ember_sampler_add_top_k(w.sampler, 20, E));
    OK(ember_generate_options_new(&w.options, E));
    OK(ember_generate_options_set_max_tokens(w.options, 6, E));
    OK(ember_generate_options_set_ignore_eog(w.options, true, E));
    return w;
}

static int32_t use_everything(const ember_event *event, void *user_data)
{
    struct work *w = user_data;
    (void)event;
    if (w->pieces++ > 0)
        return 0;
    all_is_busy(w);
    /* What is not at work may be used, and what the work no longer needs may go. */
    ember_generate_options *few = NULL;
    OK(ember_generate_options_new(&few, E));
    OK(ember_generate_options_set_max_tokens(few, 2, E));
    OK(ember_generate(w->other, "a", 1, few, NULL, ignore, NULL, NULL, E));
    ember_generate_options_free(few);
    ember_generate_options_free(w->options);
    ember_context_free(w->other);
    ember_model_release(w->model);
    return 0;
}

static void from_the_callback(const char *path)
{
    struct work w = set_up(path);
    ember_generate_result result = {.struct_size = sizeof result};
    OK(ember_generate(w.context, "Once upon", NUL, w.options, w.sampler, use_everything, &w, &result, E));
    CHECK(w.pieces > 0 && result.n_generated == 6);
    uint32_t n = 0;
    OK(ember_context_n_past(w.context, 0, &n, E)); /* idle again */
    CHECK(n == result.n_prompt + 6);
    OK(ember_sampler_reset(w.sampler, E));
    ember_sampler_free(w.sampler);
    ember_context_free(w.context);
}

/* A meeting of two threads: the generating one waits inside its callback until the other has tried everything. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int inside, may_go_on;

static int32_t wait_inside(const ember_event *event, void *user_data)
{
    (void)event, (void)user_data;
    pthread_mutex_lock(&lock);
    inside = 1;
    pthread_cond_broadcast(&changed);
    while (!may_go_on)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return 1;
}

static void *generate_in_a_thread(void *user_data)
{
    struct work *w = user_data;
    ember_status status =
        ember_generate(w->context, "Once upon", NUL, w->options, w->sampler, wait_inside, NULL, NULL, NULL);
    return status == EMBER_OK ? user_data : NULL;
}

static void from_a_second_thread(const char *path)
{
    struct work w = set_up(path);
    pthread_t thread;
    if (pthread_create(&thread, NULL, generate_in_a_thread, &w) != 0)
        exit(1);
    pthread_mutex_lock(&lock);
    while (!inside)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    all_is_busy(&w);
    pthread_mutex_lock(&lock);
    may_go_on = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    void *succeeded = NULL;
    pthread_join(thread, &succeeded);
    CHECK(succeeded == &w);
    OK(ember_context_rewind(w.context, 0, 0, E)); /* another thread than the one that used it last */

    ember_model_release(w.model);
    ember_generate_options_free(w.options);
    ember_sampler_free(w.sampler);
    ember_context_free(w.other);
    ember_context_free(w.context);
}

static void *use_the_model(void *user_data)
{
    ember_model *model = user_data;
    int good = 0;
    for (int i = 0; i < 50; i++) {
        uint32_t tokens[16];
        size_t n = 0;
        ember_model *mine = ember_model_retain(model);
        good += ember_model_tokenize(mine, "Once upon a time", NUL, true, true, tokens, 16, &n, NULL) == EMBER_OK;
        ember_model_release(mine);
    }
    return good == 50 ? user_data : NULL;
}

static void many_threads_share_a_model(const char *path)
{
    ember_model *model = load_model(path);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, use_the_model, model) != 0)
            exit(1);
    for (int i = 0; i < 4; i++) {
        void *succeeded = NULL;
        pthread_join(threads[i], &succeeded);
        CHECK(succeeded == model);
    }
    ember_model_release(model);
}

int main(int argc, char **argv)
{
    const char *path = model_path(argc, argv);
    from_the_callback(path);
    from_a_second_thread(path);
    many_threads_share_a_model(path);
    return finish("busy");
}

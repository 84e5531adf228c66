/* Every function of the header from within a call that is under way: from the callback of a generation, from a second thread
 * meanwhile, from the log. What is at work is EMBER_E_BUSY, and freeing it is refused and logged; all else works. */
#define _XOPEN_SOURCE 700
#include "misuse.h"

#include <pthread.h>

static uint8_t outputs[MOST_PARAMETERS][CAPACITY];
static int error_lines;

/* What is at work, and the generator that is waiting for its context. */
static struct handles at_work;
static ember_generator *waiting;

static int has_text(const char *text, size_t len, const char *part)
{
    const size_t n = strlen(part);
    for (size_t i = 0; i + n <= len; i++)
        if (memcmp(text + i, part, n) == 0)
            return 1;
    return 0;
}

static void count_errors(int32_t level, const char *text, size_t len, void *user_data)
{
    (void)user_data;
    CHECK(level == EMBER_LOG_ERROR && len > 0);
    CHECK(has_text(text, len, "was not freed"));
    error_lines++;
    /* Even from here the context is at work. */
    CHECK(ember_context_rewind(at_work.of[opaque("ember_context")], 0, 0, NULL) == EMBER_E_BUSY);
}

static int frees(const struct function *f)
{
    return strcmp(f->result, "void") == 0 && f->n == 1 && strstr(f->name, "_free") != NULL;
}

/* `f` with the handle of that type that is at work, everything else being its own. */
static void use_what_is_busy(const struct function *f, int i)
{
    const int type = handle_type(f->parameters[i].type);
    struct handles handles = {{NULL}};
    union value arguments[MOST_PARAMETERS], result;
    good_arguments(f, &handles, outputs, arguments);
    arguments[i].pointer = at_work.of[type];
    const int before = error_lines;
    const ember_status status = f->call(arguments, &result);
    if ((type == opaque("ember_sampler") &&
         (strncmp(f->name, "ember_generator_new", 19) == 0 || strcmp(f->name, "ember_conversation_begin") == 0)) ||
        strcmp(f->name, "ember_generate_options_set_draft") == 0) {
        /* It only remembers its sampler, or context; taking events is what would be refused. */
        check(status == EMBER_OK, __FILE__, __LINE__, f->name);
        after_success(f, arguments, &result, &handles);
        free_handles(&handles);
        return;
    }
    check(status == (frees(f) ? EMBER_OK : EMBER_E_BUSY), __FILE__, __LINE__, f->name);
    check(error_lines == before + frees(f), __FILE__, __LINE__, f->name);
    if (!frees(f)) {
        const char *sentence = ember_error_message(last_error);
        check(ember_error_status(last_error) == EMBER_E_BUSY && strstr(sentence, f->parameters[i].name) != NULL, __FILE__,
              __LINE__, sentence);
        ember_error_free(last_error);
        last_error = NULL;
    }
    free_handles(&handles);
}

/* All functions that take a context or a sampler. */
static int use_everything_busy(void)
{
    const int context = opaque("ember_context"), sampler = opaque("ember_sampler");
    int n = 0;
    OK(ember_log_set(count_errors, NULL, EMBER_LOG_ERROR, E));
    for (int k = 0; k < N_FUNCTIONS; k++)
        for (int i = 0; i < FUNCTIONS[k].n; i++) {
            const int type = handle_type(FUNCTIONS[k].parameters[i].type);
            if (type < 0 || (type != context && type != sampler))
                continue;
            use_what_is_busy(&FUNCTIONS[k], i);
            n++;
        }
    OK(ember_log_set(NULL, NULL, EMBER_LOG_ERROR, E));

    /* A generator of the context that is at work: it waits, tells what it knows, and may go. */
    ember_event event = {.struct_size = sizeof event};
    ember_generate_result usage = {.struct_size = sizeof usage};
    FAILS(EMBER_E_BUSY, "generator's context", ember_generator_next(waiting, &event, E));
    OK(ember_generator_usage(waiting, &usage, E));
    return n;
}

/* Everything there is with handles of its own. */
static void use_everything_else(void)
{
    for (int k = 0; k < N_FUNCTIONS; k++) {
        const struct function *f = &FUNCTIONS[k];
        struct handles handles = {{NULL}};
        union value arguments[MOST_PARAMETERS], result = {.pointer = NULL};
        good_arguments(f, &handles, outputs, arguments);
        last_error = NULL;
        const ember_status status = f->call(arguments, &result);
        ember_error_free(last_error);
        last_error = NULL;
        const int is_status = strcmp(f->result, "ember_status") == 0 && strcmp(f->name, "ember_error_status") != 0;
        check(!is_status || status == good_status(f), __FILE__, __LINE__, f->name);
        if (status == EMBER_OK || !is_status)
            after_success(f, arguments, &result, &handles);
        free_handles(&handles);
    }
}

/* A second thread does what `work` does; the calling one waits for it. */
static void in_a_thread(void *(*work)(void *), void *user_data)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, user_data) != 0)
        exit(1);
    pthread_join(thread, NULL);
}

static void *busy_in_a_thread(void *user_data)
{
    *(int *)user_data = use_everything_busy();
    return NULL;
}

static int32_t from_inside(const ember_event *event, void *user_data)
{
    int *events = user_data, n = 0;
    (void)event;
    if ((*events)++ > 0)
        return 0;
    CHECK(use_everything_busy() >= 30);
    in_a_thread(busy_in_a_thread, &n);
    CHECK(n >= 30);
    use_everything_else();
    /* The generation keeps what it needs of the model and of what waits for its context. */
    ember_generator_free(waiting);
    ember_model_release(at_work.of[opaque("ember_model")]);
    return 0;
}

static void from_the_callback_of_a_generation(void)
{
    int events = 0;
    ember_generate_options *options = NULL;
    ember_generate_result result = {.struct_size = sizeof result};
    ember_context *context = handle_of(&at_work, opaque("ember_context"));
    ember_sampler *sampler = handle_of(&at_work, opaque("ember_sampler"));
    handle_of(&at_work, opaque("ember_model"));
    waiting = small_generator(context);
    OK(ember_generate_options_new(&options, E));
    OK(ember_generate_options_set_max_tokens(options, 4, E));
    OK(ember_generate_options_set_ignore_eog(options, true, E));
    OK(ember_generate(context, " The sea", 8, options, sampler, from_inside, &events, &result, E));
    CHECK(events == 5 && result.n_generated == 4);
    /* Idle again, and whole. */
    uint32_t n_past = 0;
    OK(ember_context_n_past(context, 0, &n_past, E));
    CHECK(n_past == 3 + result.n_prompt + 4);
    OK(ember_sampler_reset(sampler, E));
    ember_generate_options_free(options);
    at_work.of[opaque("ember_model")] = NULL; /* released inside */
    free_handles(&at_work);
}

/* What the log's callback may do: everything. Its own lines are dropped, and it takes itself away (ember_log_set). */
static int lines;

static void use_all(int32_t level, const char *text, size_t len, void *user_data)
{
    (void)level, (void)text, (void)len, (void)user_data;
    if (lines++ == 0)
        use_everything_else();
}

static void from_the_log(void)
{
    ember_model *model = NULL;
    OK(ember_log_set(use_all, NULL, EMBER_LOG_DEBUG, E));
    OK(ember_model_load(given_path, EMBER_NUL_TERMINATED, NULL, &model, E));
    CHECK(lines > 0);
    OK(ember_log_set(NULL, NULL, EMBER_LOG_ERROR, E));
    ember_model_release(model);
}

/* A generator at work, seen from a stage of its sampler. */
static ember_generator *stepping;

static void *use_the_generator(void *user_data)
{
    ember_event event = {.struct_size = sizeof event};
    ember_generate_result usage = {.struct_size = sizeof usage};
    (void)user_data;
    FAILS(EMBER_E_BUSY, "generator", ember_generator_next(stepping, &event, E));
    FAILS(EMBER_E_BUSY, "generator", ember_generator_usage(stepping, &usage, E));
    const int before = error_lines;
    OK(ember_log_set(count_errors, NULL, EMBER_LOG_ERROR, E));
    ember_generator_free(stepping);
    OK(ember_log_set(NULL, NULL, EMBER_LOG_ERROR, E));
    CHECK(error_lines == before + 1);
    return NULL;
}

static int32_t from_a_stage(const uint32_t *tokens, float *logits, size_t n, void *user_data)
{
    int *calls = user_data;
    CHECK(tokens != NULL && logits != NULL && n > 0);
    if ((*calls)++ > 0)
        return 0;
    CHECK(use_everything_busy() >= 30);
    use_the_generator(NULL);
    in_a_thread(use_the_generator, NULL);
    return 0;
}

static void a_generator_at_work(void)
{
    int calls = 0;
    ember_generate_options *options = NULL;
    ember_context *context = handle_of(&at_work, opaque("ember_context"));
    ember_sampler *sampler = handle_of(&at_work, opaque("ember_sampler"));
    ember_event event = {.struct_size = sizeof event, .kind = EMBER_EVENT_TOKEN};
    OK(ember_sampler_add_callback(sampler, from_a_stage, &calls, E));
    OK(ember_generate_options_new(&options, E));
    OK(ember_generate_options_set_max_tokens(options, 3, E));
    OK(ember_generate_options_set_ignore_eog(options, true, E));
    waiting = small_generator(context);
    OK(ember_generator_new(context, " The sea", 8, options, sampler, &stepping, E));
    while (event.kind != EMBER_EVENT_END)
        OK(ember_generator_next(stepping, &event, E));
    CHECK(calls == 3 && event.finish_reason == EMBER_FINISH_MAX_TOKENS);
    ember_generator_free(stepping);
    ember_generator_free(waiting);
    ember_generate_options_free(options);
    free_handles(&at_work);
}

int main(int argc, char **argv)
{
    prepare(model_path(argc, argv));
    from_the_callback_of_a_generation();
    from_the_log();
    a_generator_at_work();
    put_away();
    return finish("inside");
}

/* Several copies of Ember in one process, as when two plugins bring their own: the one this program is linked with (static or
 * shared) and two that are opened at run time, EMBER_TEST_COPIES/one.so and two.so. All work at once and none notices. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>

/* What is used of a copy. */
struct api {
    ember_status (*model_load)(const char *, size_t, const ember_model_options *, ember_model **, ember_error **);
    void (*model_release)(ember_model *);
    ember_status (*context_new)(const ember_model *, const ember_context_options *, ember_context **, ember_error **);
    void (*context_free)(ember_context *);
    ember_status (*generate)(ember_context *, const char *, size_t, const ember_generate_options *, ember_sampler *,
                             ember_event_callback, void *, ember_generate_result *, ember_error **);
    ember_status (*log_set)(ember_log_callback, void *, int32_t, ember_error **);
    const char *(*version)(void);
    void *library; /* NULL: the program's own */
};

/* Two crates, ahash and regex, allocate about a hundred bytes once for the process. A library that is unloaded leaves them
 * allocated. The address sanitizer and valgrind would count them, so under these the copies stay loaded. */
static int keep(void)
{
#ifdef __SANITIZE_ADDRESS__
    return RTLD_NODELETE;
#else
    const char *runner = getenv("RUNNER");
    return runner != NULL && *runner != '\0' ? RTLD_NODELETE : 0;
#endif
}

enum { N_COPIES = 3, N_ROUNDS = 3, MOST_TEXT = 4096 };

/* A thread's work: which copy, and what it gave. */
struct work {
    const struct api *api;
    const char *path;
    int n_good;
    char text[MOST_TEXT];
    size_t len;
};

static pthread_barrier_t barrier;

/* The function `name` of a library. C has no cast from an address of data to one of a function. */
static void find(void *library, const char *name, void *function, size_t size)
{
    void *address = dlsym(library, name);
    CHECK(address != NULL && size == sizeof address);
    memcpy(function, &address, sizeof address);
}

static struct api open_copy(const char *folder, const char *name)
{
    struct api api;
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    memset(&api, 0, sizeof api);
    api.library = dlopen(path, RTLD_NOW | RTLD_LOCAL | keep());
    if (api.library == NULL) {
        printf("%s\n", dlerror());
        exit(1);
    }
    find(api.library, "ember_model_load", &api.model_load, sizeof api.model_load);
    find(api.library, "ember_model_release", &api.model_release, sizeof api.model_release);
    find(api.library, "ember_context_new", &api.context_new, sizeof api.context_new);
    find(api.library, "ember_context_free", &api.context_free, sizeof api.context_free);
    find(api.library, "ember_generate", &api.generate, sizeof api.generate);
    find(api.library, "ember_log_set", &api.log_set, sizeof api.log_set);
    find(api.library, "ember_version_string", &api.version, sizeof api.version);
    return api;
}

static int32_t append(const ember_event *event, void *user_data)
{
    struct work *w = user_data;
    if (w->len + event->text_len > sizeof w->text)
        return 1;
    memcpy(w->text + w->len, event->text, event->text_len);
    w->len += event->text_len;
    return w->len >= 120;
}

/* Loads, generates and frees, in step with the other copies. */
static void *work(void *user_data)
{
    struct work *w = user_data;
    for (int round = 0; round < N_ROUNDS; round++) {
        ember_model *model = NULL;
        ember_context *context = NULL;
        pthread_barrier_wait(&barrier);
        int good = w->api->model_load(w->path, EMBER_NUL_TERMINATED, NULL, &model, NULL) == EMBER_OK;
        good = good && w->api->context_new(model, NULL, &context, NULL) == EMBER_OK;
        w->len = 0;
        pthread_barrier_wait(&barrier);
        good = good && w->api->generate(context, "The sea", 7, NULL, NULL, append, w, NULL, NULL) == EMBER_OK;
        w->n_good += good;
        w->api->context_free(context);
        w->api->model_release(model);
    }
    return NULL;
}

static void count(int32_t level, const char *text, size_t len, void *user_data)
{
    (void)level, (void)text, (void)len;
    ++*(int *)user_data;
}

/* A log that is set in one copy gets that one's lines alone. */
static void logs_are_apart(const struct api *copies, const char *path)
{
    int lines[N_COPIES] = {0};
    for (int i = 0; i < N_COPIES; i++)
        CHECK(copies[i].log_set(count, &lines[i], EMBER_LOG_INFO, NULL) == EMBER_OK);
    for (int i = 0; i < N_COPIES; i++) {
        ember_model *model = NULL;
        const int before = lines[i], all = lines[0] + lines[1] + lines[2];
        CHECK(copies[i].model_load(path, EMBER_NUL_TERMINATED, NULL, &model, NULL) == EMBER_OK);
        CHECK(lines[i] > before);
        CHECK(lines[0] + lines[1] + lines[2] - all == lines[i] - before);
        copies[i].model_release(model);
    }
    for (int i = 0; i < N_COPIES; i++)
        CHECK(copies[i].log_set(NULL, NULL, EMBER_LOG_INFO, NULL) == EMBER_OK);
}

static void all_at_once(const struct api *copies, int n, const char *path)
{
    struct work works[N_COPIES];
    pthread_t threads[N_COPIES];
    memset(works, 0, sizeof works);
    if (pthread_barrier_init(&barrier, NULL, (unsigned)n) != 0)
        exit(1);
    for (int i = 0; i < n; i++) {
        works[i].api = &copies[i];
        works[i].path = path;
        if (pthread_create(&threads[i], NULL, work, &works[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++) {
        CHECK(works[i].n_good == N_ROUNDS);
        CHECK(works[i].len >= 120 && works[i].len == works[0].len);
        CHECK(memcmp(works[i].text, works[0].text, works[0].len) == 0);
    }
    pthread_barrier_destroy(&barrier);
}

int main(int argc, char **argv)
{
    const char *path = model_path(argc, argv), *folder = getenv("EMBER_TEST_COPIES");
    if (folder == NULL) {
        printf("EMBER_TEST_COPIES must name the folder of one.so and two.so, as tests/capi/run.sh sets it\n");
        return 1;
    }
    struct api copies[N_COPIES] = {
        {ember_model_load, ember_model_release, ember_context_new, ember_context_free, ember_generate, ember_log_set,
         ember_version_string, NULL},
        open_copy(folder, "one.so"),
        open_copy(folder, "two.so"),
    };
    for (int i = 0; i < N_COPIES; i++) {
        CHECK(strcmp(copies[i].version(), ember_version_string()) == 0);
        for (int k = 0; k < i; k++) /* copies indeed */
            CHECK(copies[i].version != copies[k].version && copies[i].generate != copies[k].generate);
    }
    logs_are_apart(copies, path);
    all_at_once(copies, N_COPIES, path);
    /* One goes; the others stay. */
    CHECK(dlclose(copies[2].library) == 0);
    all_at_once(copies, 2, path);
    CHECK(dlclose(copies[1].library) == 0);
    all_at_once(copies, 1, path);
    return finish("copies");
}

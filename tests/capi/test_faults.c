/* The C library fails: each call of malloc, calloc, realloc, posix_memalign, mmap, pread, read and pthread_create of the whole process, the library's
 * threads included, fails in its turn, alone and with all that follow; and the address space is limited in small steps. A child does what
 * programs do and must end by itself: every call gives the right result or an error.
 *
 * Arguments: MODEL and a step, 1 for every call (make faults); by default some of them. */
#define _GNU_SOURCE
#include "check.h"

#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__)
int main(void)
{
    puts("faults: not here");
    return 0;
}
#else

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t NUL = EMBER_NUL_TERMINATED;

/* What fails. */
enum { BLOCKS, MAPS, READS, THREADS, N_KINDS };
static const char *const KINDS[N_KINDS] = {"malloc", "mmap", "pread", "pthread_create"};
static atomic_int armed = -1; /* a kind */
static atomic_long left;      /* calls until one fails */
static atomic_bool for_good;  /* whether those after it fail as well */
static atomic_bool hit;

/* glibc ends the process where it has no memory to note the destructor of a thread's variable (SECURITY.md): there nothing fails. */
static __thread int noting;
typedef int Note(void (*destructor)(void *), void *object, void *library);
static Note *note;

__attribute__((constructor)) static void find_note(void)
{
    *(void **)&note = dlsym(RTLD_NEXT, "__cxa_thread_atexit_impl");
}

int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *library)
{
    if (note == NULL)
        find_note();
    noting++;
    int outcome = note(destructor, object, library);
    noting--;
    return outcome;
}

static bool fails(int kind)
{
    if (atomic_load(&armed) != kind || noting > 0)
        return false;
    long n = atomic_fetch_sub(&left, 1);
    if (n > 0 || (n < 0 && !atomic_load(&for_good)))
        return false;
    atomic_store(&hit, true);
    return true;
}

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size)
{
    if (!fails(BLOCKS))
        return __libc_malloc(size);
    errno = ENOMEM;
    return NULL;
}

void *calloc(size_t n, size_t size)
{
    if (!fails(BLOCKS))
        return __libc_calloc(n, size);
    errno = ENOMEM;
    return NULL;
}

void *realloc(void *block, size_t size)
{
    if (!fails(BLOCKS))
        return __libc_realloc(block, size);
    errno = ENOMEM;
    return NULL;
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (fails(BLOCKS))
        return ENOMEM;
    *out = __libc_memalign(alignment, size);
    return *out == NULL ? ENOMEM : 0;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails(BLOCKS) ? NULL : __libc_memalign(alignment, size);
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset)
{
    if (!fails(MAPS))
        return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return mmap64(at, size, protection, flags, fd, offset);
}

ssize_t pread64(int fd, void *to, size_t n, off64_t offset)
{
    if (!fails(READS))
        return syscall(SYS_pread64, fd, to, n, offset);
    errno = EIO;
    return -1;
}

ssize_t pread(int fd, void *to, size_t n, off_t offset)
{
    return pread64(fd, to, n, offset);
}

ssize_t read(int fd, void *to, size_t n)
{
    if (!fails(READS))
        return syscall(SYS_read, fd, to, n);
    errno = EIO;
    return -1;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (fails(THREADS))
        return EAGAIN;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attributes, start, argument);
}

static const char *path;

/* Any status but one that says that Ember has a defect. */
static void may(ember_status status)
{
    if (status == EMBER_E_INTERNAL || ember_status_name(status)[0] != 'E')
        _exit(3);
}

static int32_t go_on(const ember_event *event, void *user_data)
{
    (void)event, (void)user_data;
    return 0;
}

/* What programs do, as far as they come. */
static void live(void)
{
    static uint8_t state[1 << 21];
    static float vector[1 << 12];
    const char *text = "Once upon a time";
    ember_model *model = NULL;
    ember_context_options *options = NULL;
    ember_context *context = NULL;
    ember_generate_options *generate = NULL;
    ember_sampler *sampler = NULL;
    ember_engine *engine = NULL;
    ember_engine_options *for_engine = NULL;
    ember_constraint *constraint = NULL;
    ember_error *error = NULL;
    size_t n = 0;
    may(ember_context_options_new(&options, &error));
    ember_error_free(error);
    may(ember_generate_options_new(&generate, NULL));
    may(ember_sampler_new(7, &sampler, NULL));
    if (options != NULL) {
        may(ember_context_options_set_n_threads(options, 3, NULL));
        may(ember_context_options_set_n_ctx(options, 64, NULL));
    }
    error = NULL;
    may(ember_model_load(path, NUL, NULL, &model, &error));
    ember_error_free(error);
    if (model != NULL && sampler != NULL)
        may(ember_sampler_add_temperature(sampler, 0.8f, NULL));
    if (model != NULL && generate != NULL) {
        may(ember_generate_options_set_max_tokens(generate, 3, NULL));
        may(ember_constraint_new_json_schema(model, "{\"type\": \"array\", \"items\": {\"type\": \"number\"}}", NUL, NULL, &constraint, NULL));
    }
    if (model != NULL)
        may(ember_context_new(model, options, &context, NULL));
    if (context != NULL) {
        error = NULL;
        may(ember_generate(context, text, NUL, generate, sampler, go_on, NULL, NULL, &error));
        ember_error_free(error);
        if (ember_context_state_save(context, 0, state, sizeof state, &n, NULL) == EMBER_OK)
            may(ember_context_state_load(context, 0, state, n, NULL));
        may(ember_embed(context, &text, NULL, 1, NULL, vector, 1 << 12, &n, NULL));
    }
    if (model != NULL && ember_engine_options_new(&for_engine, NULL) == EMBER_OK) {
        ember_request *request = NULL;
        may(ember_engine_options_set_thread(for_engine, true, NULL));
        may(ember_engine_new(model, for_engine, &engine, NULL));
        if (engine != NULL && generate != NULL)
            may(ember_engine_submit(engine, text, NUL, generate, NULL, NULL, NULL, &request, NULL));
        while (request != NULL) {
            ember_event event = {.struct_size = sizeof event};
            ember_status status = ember_request_next(request, 10000, &event, NULL);
            may(status);
            if (status != EMBER_OK || event.kind == EMBER_EVENT_END)
                break;
        }
        ember_request_free(request);
        ember_engine_free(engine);
        ember_engine_options_free(for_engine);
    }
    ember_constraint_free(constraint);
    ember_context_free(context);
    ember_sampler_free(sampler);
    ember_generate_options_free(generate);
    ember_context_options_free(options);
    ember_model_release(model);
}

/* How a child ended: 0 where it was hit and lived, 1 where nothing failed any more; else it did not live. */
static int child(int kind, long at, bool good, rlim_t limit)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit space = {limit, limit};
        alarm(120);
        if (kind < 0 && setrlimit(RLIMIT_AS, &space) != 0)
            _exit(4);
        atomic_store(&left, at);
        atomic_store(&for_good, good);
        atomic_store(&armed, kind);
        live();
        atomic_store(&armed, -1);
        /* The next one works. */
        if (kind >= 0)
            live();
        _exit(atomic_load(&hit) ? 0 : 1);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        exit(1);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void calls(long step)
{
    for (int kind = 0; kind < N_KINDS; kind++)
        for (int good = 0; good < 2; good++) {
            /* Few mappings and threads there are, and each counts. */
            long by = kind == BLOCKS ? step : kind == READS ? step / 8 + 1 : 1, n = 0, at = 0;
            int end = 0;
            for (; end == 0; at += by, n++) {
                end = child(kind, at, good, 0);
                if (end > 1)
                    printf("call %ld of %s%s: ended with %d\n", at, KINDS[kind], good ? " and all after it" : "", end);
                CHECK(end <= 1);
                if (n_failed > 20)
                    return;
                if (end > 1)
                    end = 0;
            }
            printf("%s%s: %ld of %ld calls failed\n", KINDS[kind], good ? " for good" : "", n, at);
        }
}

/* As under `ulimit -v`. */
static void limits(long step)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0, n = 0;
    if (file == NULL || fscanf(file, "%lu", &pages) != 1)
        exit(1);
    fclose(file);
    rlim_t first = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE), by = (rlim_t)(step > 1 ? 384 : 32) << 10;
    for (rlim_t more = 0; more < (rlim_t)40 << 20; more += by, n++) {
        int end = child(-1, 0, false, first + more);
        if (end > 1)
            printf("%lu KiB more: ended with %d\n", (unsigned long)(more >> 10), end);
        CHECK(end <= 1);
    }
    printf("%lu limits of the address space\n", n);
}

int main(int argc, char **argv)
{
    const char *runner = getenv("RUNNER");
    long step = argc > 2 ? atol(argv[2]) : 397;
    if (runner != NULL && *runner != '\0') {
        puts("faults: not here");
        return 0;
    }
    path = model_path(argc, argv);
    limits(step);
    calls(step);
    return finish("faults");
}
#endif

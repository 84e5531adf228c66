/* What happens to files and system calls under a program that uses them: a model file that is cut while the model lives, and
 * signals that interrupt every call at any moment. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t NUL = EMBER_NUL_TERMINATED;
enum { N_PROMPT = 24, N_CTX = 64, LEAST_RUNS = 2, MOST_RUNS = 2000, N_INTERRUPTED = 20 };

static const char *path;
static char copy[] = "/tmp/ember-files-XXXXXX";
static char state[sizeof copy + 6];

/* A copy of the model file, which may be spoilt. */
static void copy_file(void)
{
    static char buffer[1 << 16];
    FILE *from = fopen(path, "rb"), *to = fopen(copy, "wb");
    if (from == NULL || to == NULL)
        exit(1);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, from)) > 0;)
        if (fwrite(buffer, 1, n, to) != n)
            exit(1);
    fclose(from);
    if (fclose(to) != 0)
        exit(1);
}

/* The copy loaded, without packing, so that a mapped file is read from when it is used. */
static ember_model *load_copy(bool use_mmap)
{
    ember_model_options *options = NULL;
    ember_model *model = NULL;
    OK(ember_model_options_new(&options, E));
    OK(ember_model_options_set_use_mmap(options, use_mmap, E));
    OK(ember_model_options_set_pack(options, EMBER_PACK_NEVER, E));
    OK(ember_model_load(copy, NUL, options, &model, E));
    ember_model_options_free(options);
    if (model == NULL)
        exit(1);
    return model;
}

/* The likeliest token after a prompt, run from its beginning. */
static uint32_t run(ember_context *context)
{
    uint32_t ids[N_PROMPT], best = 0;
    const float *logits = NULL;
    for (uint32_t i = 0; i < N_PROMPT; i++)
        ids[i] = 300 + i % 50;
    OK(ember_context_rewind(context, 0, 0, E));
    OK(ember_context_decode(context, ids, NULL, NULL, NULL, N_PROMPT, E));
    OK(ember_context_logits(context, N_PROMPT - 1, &logits, E));
    if (logits != NULL)
        for (uint32_t i = 1; i < 512; i++)
            if (logits[i] > logits[best])
                best = i;
    return best;
}

/* A model that was read does not mind what becomes of its file; one that is mapped notices that it has no embeddings any
 * more. (Where it has those and no weights, the system ends the process, which is why the header warns of it.) */
static void a_file_is_cut(uint32_t right)
{
    copy_file();
    ember_model *model = load_copy(false);
    ember_context *context = new_context(model, N_CTX, 1);
    CHECK(truncate(copy, 4096) == 0);
    CHECK(run(context) == right);
    CHECK(unlink(copy) == 0);
    CHECK(run(context) == right);
    ember_context_free(context);
    ember_model_release(model);

    copy_file();
    model = load_copy(true);
    context = new_context(model, N_CTX, 1);
    CHECK(truncate(copy, 4096) == 0);
    const uint32_t token = 300;
    FAILS(EMBER_E_IO, copy, ember_context_decode(context, &token, NULL, NULL, NULL, 1, E));
    ember_context_free(context);
    ember_model_release(model);

    /* A file that is already too short when it is loaded is an error, mapped or read. */
    FAILS(EMBER_E_FORMAT, copy, ember_model_load(copy, NUL, NULL, &model, E));
    unlink(copy);
    FAILS(EMBER_E_IO, copy, ember_model_load(copy, NUL, NULL, &model, E));
}

static volatile sig_atomic_t n_signals;

static void on_alarm(int signal)
{
    (void)signal;
    n_signals++;
}

/* One signal, some time from now on: more than one would keep a slow checker busy with nothing else. */
static void ring(void)
{
    static long microseconds = 100;
    struct itimerval timer;
    memset(&timer, 0, sizeof timer);
    microseconds = microseconds % 2900 + 170;
    timer.it_value.tv_usec = microseconds;
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

/* Signals interrupt system calls (EINTR: the handler is installed without SA_RESTART) and sleeping threads: reading the file,
 * making threads, computing, writing and reading states go on as if nothing had been. */
static void calls_are_interrupted(uint32_t right)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    copy_file();
    n_signals = 0;
    for (int i = 0; i < MOST_RUNS && (i < LEAST_RUNS || n_signals < N_INTERRUPTED); i++) {
        ring();
        ember_model *model = load_copy(i % 2 != 0);
        ring();
        ember_context *context = new_context(model, N_CTX, 1), *other = new_context(model, N_CTX, 1);
        ring();
        CHECK(run(context) == right);
        ring();
        OK(ember_context_state_save_file(context, 0, state, NUL, E));
        ring();
        OK(ember_context_state_load_file(other, 0, state, NUL, E));
        uint32_t n_past = 0;
        OK(ember_context_n_past(other, 0, &n_past, E));
        CHECK(n_past == N_PROMPT);
        ember_context_free(context);
        ember_context_free(other);
        ember_model_release(model);
    }
    CHECK(n_signals >= N_INTERRUPTED);
    CHECK(unlink(state) == 0 && unlink(copy) == 0);
}

int main(int argc, char **argv)
{
    path = model_path(argc, argv);
    const int fd = mkstemp(copy);
    if (fd < 0)
        exit(1);
    close(fd);
    snprintf(state, sizeof state, "%s.state", copy);
    ember_model *model = load_model(path);
    ember_context *context = new_context(model, N_CTX, 1);
    const uint32_t right = run(context);
    ember_context_free(context);
    ember_model_release(model);
    a_file_is_cut(right);
    calls_are_interrupted(right);
    return finish("files");
}

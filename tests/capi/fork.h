/* What the tests of fork() have in common. */
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int stop;

static int is_over(void)
{
    pthread_mutex_lock(&lock);
    int end = stop;
    pthread_mutex_unlock(&lock);
    return end;
}

/* Memory after use: when contexts are made and freed again and again, a process has as much memory after each round as after the one
 * before. With the arguments MODEL CONTEXTS ROUNDS it makes so many.
 *
 * glibc keeps small blocks that were freed, and stacks of threads that ended: `kept` is the process with them, `held` without. */
#define _GNU_SOURCE
#include "check.h"

#ifdef __GLIBC__
#include <malloc.h>
#define GIVE_BACK() malloc_trim(0)
#else
#define GIVE_BACK() (void)0
#endif

static long resident_kib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib;
}

int main(int argc, char **argv)
{
    const char *runner = getenv("RUNNER");
    int n = argc > 2 ? atoi(argv[2]) : 101, n_rounds = argc > 3 ? atoi(argv[3]) : 4;
    long base = resident_kib(), kept[64], held[64];
#ifdef __SANITIZE_ADDRESS__
    runner = "asan keeps what is freed";
#endif
    if (base < 0 || (runner != NULL && *runner != '\0')) {
        puts("rounds: not here");
        return 0;
    }
    n_rounds = n_rounds < 64 ? n_rounds : 64;
    ember_model *model = load_model(model_path(argc, argv));
    ember_context **contexts = calloc((size_t)n, sizeof *contexts);
    ember_context_options *options = NULL;
    const uint32_t ids[] = {300, 301, 302};
    OK(ember_context_options_new(&options, E));
    OK(ember_context_options_set_n_threads(options, 2, E));
    /* Rounds whose small blocks stay, and as many whose blocks go. */
    for (int k = 0; k < 2 * n_rounds; k++) {
        const int trims = k >= n_rounds, round = k % n_rounds;
        for (int i = 0; i < n; i++) {
            OK(ember_context_new(model, options, &contexts[i], E));
            if (i % 10 == 0)
                OK(ember_context_decode(contexts[i], ids, NULL, NULL, NULL, 3, E));
        }
        const long full = resident_kib();
        for (int i = 0; i < n; i++)
            ember_context_free(contexts[(i * 7 + round) % n]);
        if (trims)
            GIVE_BACK();
        (trims ? held : kept)[round] = resident_kib();
        printf("round %d%s: %ld KiB with %d contexts, %ld KiB without\n", round, trims ? ", given back" : "", full, n,
               (trims ? held : kept)[round]);
    }
    for (int round = 1; round < n_rounds; round++)
        CHECK(held[round] - held[0] < 512);
    /* glibc touches more of its own pages in the first two rounds. */
    for (int round = 2; round < n_rounds; round++)
        CHECK(kept[round] - kept[1] < 2048);
    free(contexts);
    ember_context_options_free(options);
    ember_model_release(model);
    return finish("rounds");
}

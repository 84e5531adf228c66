/* Everything at once, for minutes: threads with contexts of their own and threads that share engines run conversations, cancel
 * them, save and restore them, copy sequences, run out of pages, and make and free what they use. Every token and every
 * log-probability must be, to the bit, that of the conversation run alone; the process's memory must not grow.
 *
 *   soak MODEL MINUTES [SEED]
 */
#define _XOPEN_SOURCE 700
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "ember.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CONVERSATIONS = 96, MOST_PROMPT = 100, MOST_TOKENS = 48, N_CTX = 192, N_SEQ = 4, N_LONERS = 2, N_SHARERS = 3 };

/* A conversation, and what it gives alone. */
struct conversation {
    uint32_t prompt[MOST_PROMPT], n_prompt;
    uint32_t tokens[MOST_TOKENS], n_tokens;
    float logprobs[MOST_TOKENS];
};

static struct conversation conversations[N_CONVERSATIONS];
static ember_model *model;
static ember_engine *shared; /* with a thread of its own */
static ember_cancel_token *whim; /* cancelled at random */
static uint64_t page_bytes; /* of a page of the KV cache */
static atomic_bool done;
static atomic_ulong n_whole, n_cancelled, n_restored, n_copied, n_full, n_engines, n_tokens, n_wrong;

static void wrong(const char *what, int conversation, uint32_t at)
{
    atomic_fetch_add(&n_wrong, 1);
    fprintf(stderr, "conversation %d, token %" PRIu32 ": %s\n", conversation, at, what);
}

/* Ends the program: nothing here may fail but by running out of pages and by being cancelled. */
static void must_be(ember_status status, ember_error *err, int line)
{
    if (status == EMBER_OK)
        return;
    fprintf(stderr, "line %d: %s: %s\n", line, ember_status_name(status), err == NULL ? "" : ember_error_message(err));
    exit(1);
}
#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        ember_error *E = NULL;                                                                                         \
        must_be((call), E, __LINE__);                                                                                  \
    } while (0)

/* Random numbers (SplitMix64). */
static uint32_t below(uint64_t *random, uint32_t n)
{
    uint64_t x = *random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ x >> 31) % n);
}

static ember_sampler *sampler_of(int i)
{
    ember_sampler *sampler = NULL;
    MUST(ember_sampler_new((uint64_t)i, &sampler, &E));
    if (i % 3 == 0)
        MUST(ember_sampler_add_greedy(sampler, &E));
    else {
        MUST(ember_sampler_add_penalties(sampler, 32, 1.1f, 0.1f, 0.0f, &E));
        MUST(ember_sampler_add_top_k(sampler, 40, &E));
        MUST(ember_sampler_add_temperature(sampler, 0.8f, &E));
    }
    return sampler;
}

static ember_generate_options *options_of(uint32_t n, uint32_t seq, bool reuse)
{
    ember_generate_options *o = NULL;
    MUST(ember_generate_options_new(&o, &E));
    MUST(ember_generate_options_set_max_tokens(o, n, &E));
    MUST(ember_generate_options_set_ignore_eog(o, true, &E));
    MUST(ember_generate_options_set_logprobs(o, true, &E));
    MUST(ember_generate_options_set_sequence(o, seq, &E));
    MUST(ember_generate_options_set_reuse_prefix(o, reuse, &E));
    return o;
}

static ember_context *new_context(uint64_t *random)
{
    ember_context_options *o = NULL;
    ember_context *context = NULL;
    MUST(ember_context_options_new(&o, &E));
    MUST(ember_context_options_set_n_ctx(o, N_CTX, &E));
    MUST(ember_context_options_set_n_seq(o, N_SEQ, &E));
    MUST(ember_context_options_set_n_threads(o, 1 + below(random, 2), &E));
    MUST(ember_context_options_set_n_batch(o, 16 + below(random, 64), &E));
    MUST(ember_context_options_set_keep_prefixes(o, below(random, 2) == 0, &E));
    if (below(random, 2) == 0)
        MUST(ember_context_options_set_kv_limit(o, page_bytes * (6 + below(random, 10)), &E));
    MUST(ember_context_new(model, o, &context, &E));
    MUST(ember_context_set_cancel_token(context, whim, &E));
    ember_context_options_free(o);
    return context;
}

/* Compares an event with token `at` of conversation `i`; returns where the next one is. */
static uint32_t compare(int i, const ember_event *event, uint32_t at)
{
    const struct conversation *c = &conversations[i];
    if (event->kind != EMBER_EVENT_TOKEN)
        return at;
    atomic_fetch_add(&n_tokens, 1);
    if (at >= c->n_tokens || event->token != c->tokens[at])
        wrong("another token", i, at);
    else if (memcmp(&event->logprob, &c->logprobs[at], sizeof event->logprob) != 0)
        wrong("another log-probability", i, at);
    return at + 1;
}

/* There are no pages left. */
static void free_space(ember_context *context)
{
    atomic_fetch_add(&n_full, 1);
    for (uint32_t seq = 0; seq < N_SEQ; seq++)
        MUST(ember_context_rewind(context, seq, 0, &E));
}

/* Runs tokens `from` to `to` of conversation `i` in a sequence; the prompt before the first. Returns whether it came to the end. */
static bool run_part(ember_context *context, uint32_t seq, ember_sampler *sampler, int i, uint32_t from, uint32_t to, bool reuse)
{
    const struct conversation *c = &conversations[i];
    ember_generate_options *o = options_of(to - from, seq, reuse);
    ember_generator *generator = NULL;
    ember_event event = {.struct_size = sizeof event, .kind = EMBER_EVENT_TOKEN};
    uint32_t at = from;
    ember_status status = ember_generator_new_tokens(context, c->prompt, from == 0 ? c->n_prompt : 0, o, sampler, &generator, NULL);
    MUST(status);
    while (event.kind == EMBER_EVENT_TOKEN && status == EMBER_OK) {
        status = ember_generator_next(generator, &event, NULL);
        if (status == EMBER_OK)
            at = compare(i, &event, at);
    }
    if (status == EMBER_E_CONTEXT_FULL)
        free_space(context);
    else
        MUST(status);
    const bool ended = status == EMBER_OK && event.finish_reason == EMBER_FINISH_MAX_TOKENS;
    if (status == EMBER_OK && event.finish_reason == EMBER_FINISH_CANCELLED)
        atomic_fetch_add(&n_cancelled, 1);
    if (ended && at != to)
        wrong("too few tokens", i, at);
    ember_generator_free(generator);
    ember_generate_options_free(o);
    return ended;
}

/* Makes a sequence that of another context, by its state. Returns whether it fitted. */
static bool move_by_state(ember_context *from, uint32_t seq, ember_context *to, uint32_t other, uint64_t *random)
{
    ember_status status = EMBER_OK;
    if (below(random, 2) == 0) {
        size_t n = 0;
        (void)ember_context_state_save(from, seq, NULL, 0, &n, NULL);
        uint8_t *bytes = malloc(n);
        MUST(ember_context_state_save(from, seq, bytes, n, &n, &E));
        if (below(random, 4) == 0) { /* a damaged one changes nothing */
            const uint32_t at = below(random, (uint32_t)n);
            bytes[at] ^= 1;
            if (ember_context_state_load(to, other, bytes, n, NULL) == EMBER_OK)
                wrong("a damaged state was loaded", 0, 0);
            bytes[at] ^= 1;
        }
        status = ember_context_state_load(to, other, bytes, n, NULL);
        free(bytes);
    } else {
        char path[64];
        snprintf(path, sizeof path, "/tmp/ember-soak-%ld-%" PRIxPTR, (long)getpid(), (uintptr_t)random);
        MUST(ember_context_state_save_file(from, seq, path, EMBER_NUL_TERMINATED, &E));
        status = ember_context_state_load_file(to, other, path, EMBER_NUL_TERMINATED, NULL);
        unlink(path);
    }
    if (status == EMBER_E_CONTEXT_FULL) {
        free_space(to);
        return false;
    }
    MUST(status);
    atomic_fetch_add(&n_restored, 1);
    return true;
}

/* One conversation in one of the ways there are. */
static void converse(ember_context *contexts[2], uint64_t *random)
{
    const int i = (int)below(random, N_CONVERSATIONS);
    const uint32_t n = conversations[i].n_tokens, seq = below(random, N_SEQ), other = (seq + 1) % N_SEQ;
    ember_sampler *sampler = sampler_of(i);
    ember_context *context = contexts[below(random, 2)], *target = contexts[below(random, 2)];
    const uint32_t way = below(random, 4), half = 1 + below(random, n - 1);
    ember_cancel_token_reset(whim);
    if (way > 0)
        MUST(ember_context_rewind(context, seq, 0, &E));
    if (way < 2) {
        if (run_part(context, seq, sampler, i, 0, n, way == 0))
            atomic_fetch_add(&n_whole, 1);
    } else if (run_part(context, seq, sampler, i, 0, half, false)) {
        ember_sampler *again = NULL;
        MUST(ember_sampler_clone(sampler, &again, &E));
        if (way == 2) {
            ember_cancel_token_reset(whim);
            if (move_by_state(context, seq, target, other, random))
                run_part(target, other, again, i, half, n, false);
        } else {
            uint32_t n_past = 0;
            MUST(ember_context_n_past(context, seq, &n_past, &E));
            MUST(ember_context_sequence_copy(context, seq, other, n_past, &E));
            atomic_fetch_add(&n_copied, 1);
            /* The original first: its last logits are gone once the copy has run. */
            run_part(context, seq, again, i, half, n, false);
        }
        ember_sampler_free(again);
    }
    ember_sampler_free(sampler);
}

/* A thread with contexts of its own. */
static void *loner(void *data)
{
    uint64_t random = (uintptr_t)data;
    ember_context *contexts[2] = {new_context(&random), new_context(&random)};
    while (!atomic_load(&done)) {
        for (int k = 0; k < 100 && !atomic_load(&done); k++)
            converse(contexts, &random);
        const uint32_t which = below(&random, 2);
        ember_context_free(contexts[which]);
        contexts[which] = new_context(&random);
    }
    ember_context_free(contexts[0]);
    ember_context_free(contexts[1]);
    return NULL;
}

static ember_request *submit(ember_engine *engine, int i, uint64_t *random)
{
    ember_generate_options *o = options_of(conversations[i].n_tokens, 0, false);
    ember_sampler *sampler = sampler_of(i);
    ember_request *request = NULL;
    MUST(ember_generate_options_set_priority(o, (int32_t)below(random, 3), &E));
    if (below(random, 10) == 0)
        MUST(ember_generate_options_set_time_limit(o, 1 + below(random, 50), &E));
    const struct conversation *c = &conversations[i];
    ember_status status = ember_engine_submit_tokens(engine, c->prompt, c->n_prompt, o, sampler, NULL, NULL, &request, NULL);
    if (status != EMBER_E_QUEUE_FULL)
        MUST(status);
    ember_sampler_free(sampler);
    ember_generate_options_free(o);
    return request;
}

/* Takes the events of a request, perhaps not all. */
static void drain(ember_request *request, int i, uint64_t *random)
{
    ember_event event = {.struct_size = sizeof event, .kind = EMBER_EVENT_TOKEN};
    uint32_t at = 0, patience = below(random, 4) == 0 ? below(random, MOST_TOKENS) : UINT32_MAX;
    while (event.kind != EMBER_EVENT_END) {
        MUST(ember_request_next(request, EMBER_FOREVER, &event, &E));
        at = compare(i, &event, at);
        if (at == patience)
            ember_request_cancel(request);
    }
    if (event.finish_reason == EMBER_FINISH_MAX_TOKENS)
        atomic_fetch_add(&n_whole, 1);
    else
        atomic_fetch_add(&n_cancelled, 1);
    if (event.finish_reason == EMBER_FINISH_MAX_TOKENS && at != conversations[i].n_tokens)
        wrong("too few tokens from an engine", i, at);
    ember_request_free(request);
}

/* A thread that uses the engine that all share. */
static void *sharer(void *data)
{
    uint64_t random = (uintptr_t)data;
    while (!atomic_load(&done)) {
        const int i = (int)below(&random, N_CONVERSATIONS);
        ember_request *request = submit(shared, i, &random);
        if (request != NULL)
            drain(request, i, &random);
    }
    return NULL;
}

/* A thread with engines of its own, of few pages, which it frees in the midst of things. */
static void *owner(void *data)
{
    enum { N = 12 };
    uint64_t random = (uintptr_t)data;
    while (!atomic_load(&done)) {
        ember_context_options *c = NULL;
        ember_engine_options *o = NULL;
        ember_engine *engine = NULL;
        ember_request *requests[N];
        int numbers[N];
        MUST(ember_context_options_new(&c, &E));
        MUST(ember_context_options_set_n_ctx(c, N_CTX, &E));
        MUST(ember_context_options_set_kv_limit(c, page_bytes * (8 + below(&random, 8)), &E));
        MUST(ember_engine_options_new(&o, &E));
        MUST(ember_engine_options_set_context_options(o, c, &E));
        MUST(ember_engine_options_set_n_parallel(o, 1 + below(&random, 8), &E));
        MUST(ember_engine_options_set_share_prefixes(o, below(&random, 2) == 0, &E));
        MUST(ember_engine_new(model, o, &engine, &E));
        for (int k = 0; k < N; k++) {
            numbers[k] = (int)below(&random, N_CONVERSATIONS);
            requests[k] = submit(engine, numbers[k], &random);
        }
        const int n_drained = (int)below(&random, N + 1);
        for (int k = 0; k < n_drained; k++)
            drain(requests[k], numbers[k], &random);
        ember_engine_free(engine);
        for (int k = n_drained; k < N; k++)
            drain(requests[k], numbers[k], &random);
        ember_engine_options_free(o);
        ember_context_options_free(c);
        atomic_fetch_add(&n_engines, 1);
    }
    return NULL;
}

/* What each conversation gives alone. */
static void write_down(uint64_t *random)
{
    ember_model_info info = {.struct_size = sizeof info};
    MUST(ember_model_info_get(model, &info, &E));
    for (int i = 0; i < N_CONVERSATIONS; i++) {
        struct conversation *c = &conversations[i];
        ember_sampler *sampler = sampler_of(i);
        ember_generate_options *o = NULL;
        ember_generator *generator = NULL;
        ember_context_options *co = NULL;
        ember_context *context = NULL;
        ember_event event = {.struct_size = sizeof event};
        c->n_prompt = 3 + below(random, MOST_PROMPT - 3);
        c->n_tokens = 8 + below(random, MOST_TOKENS - 8);
        for (uint32_t k = 0; k < c->n_prompt; k++) /* two of three begin with one of three prefixes */
            c->prompt[k] = i % 3 > 0 && k < 70 ? (uint32_t)(k * 37 + (uint32_t)(i % 9)) % info.n_vocab : below(random, info.n_vocab);
        o = options_of(c->n_tokens, 0, false);
        MUST(ember_context_options_new(&co, &E));
        MUST(ember_context_options_set_n_ctx(co, N_CTX, &E));
        MUST(ember_context_new(model, co, &context, &E));
        ember_context_info facts = {.struct_size = sizeof facts};
        ember_memory memory = {.struct_size = sizeof memory};
        MUST(ember_context_info_get(context, &facts, &E));
        MUST(ember_context_memory(context, &memory, &E));
        page_bytes = memory.kv / facts.n_pages;
        MUST(ember_generator_new_tokens(context, c->prompt, c->n_prompt, o, sampler, &generator, &E));
        for (uint32_t k = 0; k < c->n_tokens; k++) {
            MUST(ember_generator_next(generator, &event, &E));
            c->tokens[k] = event.token;
            c->logprobs[k] = event.logprob;
        }
        ember_generator_free(generator);
        ember_context_free(context);
        ember_context_options_free(co);
        ember_generate_options_free(o);
        ember_sampler_free(sampler);
    }
}

/* KiB of memory that the process has resident. */
static long resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int ascending(const void *a, const void *b)
{
    return (*(const long *)a > *(const long *)b) - (*(const long *)a < *(const long *)b);
}

static void nap(uint64_t *random)
{
    struct timespec t = {.tv_sec = 0, .tv_nsec = 1000000 + (long)below(random, 20000000)};
    nanosleep(&t, NULL);
}

int main(int argc, char **argv)
{
    enum { N_THREADS = N_LONERS + N_SHARERS + 1, MOST_SAMPLES = 4096 };
    const long minutes = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    uint64_t random = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    static long samples[MOST_SAMPLES];
    int n_samples = 0;
    pthread_t threads[N_THREADS];
    if (minutes < 1 || minutes > 1000) {
        fprintf(stderr, "usage: %s MODEL MINUTES [SEED]\n", argv[0]);
        return 2;
    }
    MUST(ember_model_load(argv[1], EMBER_NUL_TERMINATED, NULL, &model, &E));
    MUST(ember_cancel_token_new(&whim, &E));
    write_down(&random);
    ember_engine_options *o = NULL;
    ember_context_options *c = NULL;
    MUST(ember_context_options_new(&c, &E));
    MUST(ember_context_options_set_n_ctx(c, N_CTX, &E));
    MUST(ember_engine_options_new(&o, &E));
    MUST(ember_engine_options_set_context_options(o, c, &E));
    MUST(ember_engine_options_set_thread(o, true, &E));
    MUST(ember_engine_options_set_n_parallel(o, 4, &E));
    MUST(ember_engine_options_set_max_queue(o, 2, &E));
    MUST(ember_engine_new(model, o, &shared, &E));
    ember_engine_options_free(o);
    ember_context_options_free(c);
    for (int t = 0; t < N_THREADS; t++) {
        void *(*work)(void *) = t < N_LONERS ? loner : t < N_LONERS + N_SHARERS ? sharer : owner;
        if (pthread_create(&threads[t], NULL, work, (void *)(uintptr_t)(random + (uint64_t)t * 7919)) != 0)
            return 1;
    }
    const time_t begin = time(NULL);
    time_t last_report = begin;
    while (time(NULL) - begin < minutes * 60) {
        nap(&random);
        if (below(&random, 20) == 0)
            ember_cancel_token_cancel(whim);
        const time_t now = time(NULL);
        if (now - last_report < minutes || n_samples == MOST_SAMPLES) /* sixty samples in all */
            continue;
        last_report = now;
        samples[n_samples++] = resident();
        printf("%5ld s   %ld KiB   %lu tokens, %lu whole, %lu cancelled, %lu restored, %lu copied, %lu that did not fit, "
               "%lu engines, %lu wrong\n", (long)(now - begin), samples[n_samples - 1], atomic_load(&n_tokens),
               atomic_load(&n_whole), atomic_load(&n_cancelled), atomic_load(&n_restored), atomic_load(&n_copied),
               atomic_load(&n_full), atomic_load(&n_engines), atomic_load(&n_wrong));
        fflush(stdout);
    }
    atomic_store(&done, true);
    for (int t = 0; t < N_THREADS; t++)
        pthread_join(threads[t], NULL);
    ember_engine_free(shared);
    ember_cancel_token_free(whim);
    ember_model_release(model);
    /* The second quarter of the time against the last one. */
    const int quarter = n_samples / 4;
    if (quarter == 0 || atomic_load(&n_whole) == 0)
        return fprintf(stderr, "it was too short to tell anything\n"), 1;
    qsort(samples + quarter, (size_t)quarter, sizeof *samples, ascending);
    qsort(samples + n_samples - quarter, (size_t)quarter, sizeof *samples, ascending);
    const long before = samples[quarter + quarter / 2], after = samples[n_samples - quarter + quarter / 2];
    const bool grows = after > before + before / 50 + 4096;
    printf("memory: %ld KiB, later %ld: %s; %lu wrong\n", before, after, grows ? "it GROWS" : "flat", atomic_load(&n_wrong));
    return grows || atomic_load(&n_wrong) > 0;
}

/* Sequences that are copied, saved and restored. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static ember_model *model;
static const uint32_t TOKENS[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4,
                                  6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5, 0, 2, 8, 8, 4, 1, 9, 7};
enum { N = sizeof TOKENS / sizeof *TOKENS };
static const size_t NUL = EMBER_NUL_TERMINATED;

static void decode(ember_context *context, uint32_t sequence, const uint32_t *tokens, size_t n)
{
    uint32_t sequences[N];
    for (size_t i = 0; i < n; i++)
        sequences[i] = sequence;
    OK(ember_context_decode(context, tokens, NULL, sequences, NULL, n, E));
}

/* The logits after one more token of a sequence. */
static void step(ember_context *context, uint32_t sequence, float *out)
{
    const uint32_t token = 11;
    const float *row = NULL;
    decode(context, sequence, &token, 1);
    OK(ember_context_logits(context, 0, &row, E));
    if (row != NULL)
        memcpy(out, row, FIXTURE_VOCAB * sizeof *row);
}

static uint32_t length(ember_context *context, uint32_t sequence)
{
    uint32_t n = UINT32_MAX;
    OK(ember_context_n_past(context, sequence, &n, E));
    return n;
}

/* The tokens of the sequence are those, and these alone are written. */
static void has(ember_context *context, uint32_t sequence, const uint32_t *tokens, size_t n)
{
    uint32_t got[N + 2];
    size_t n_needed = SIZE_MAX;
    memset(got, 0xff, sizeof got);
    OK(ember_context_tokens(context, sequence, got, N + 2, &n_needed, E));
    CHECK(n_needed == n && memcmp(got, tokens, n * sizeof *tokens) == 0 && got[n] == UINT32_MAX);
}

static uint32_t free_pages(ember_context *context)
{
    ember_context_info info = {.struct_size = sizeof info};
    OK(ember_context_info_get(context, &info, E));
    return info.n_free_pages;
}

static uint8_t *save(ember_context *context, uint32_t sequence, size_t *len)
{
    size_t written = 0;
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "buffer", ember_context_state_save(context, sequence, NULL, 0, len, E));
    uint8_t *state = malloc(*len);
    if (state == NULL)
        exit(1);
    OK(ember_context_state_save(context, sequence, state, *len, &written, E));
    CHECK(written == *len);
    return state;
}

static void copies(void)
{
    float a[FIXTURE_VOCAB], b[FIXTURE_VOCAB];
    ember_context *context = new_context(model, 0, 4);
    decode(context, 0, TOKENS, N);
    uint32_t before = free_pages(context);
    OK(ember_context_sequence_copy(context, 0, 2, N, E));
    OK(ember_context_sequence_copy(context, 0, 3, 33, E));
    CHECK(free_pages(context) == before && length(context, 2) == N && length(context, 3) == 33);
    step(context, 2, a); /* a page of its own from here on */
    CHECK(free_pages(context) == before - 1 && length(context, 0) == N);
    step(context, 0, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    OK(ember_context_sequence_keep(context, 3, E));
    CHECK(length(context, 0) == 0 && length(context, 2) == 0 && length(context, 3) == 33);
    has(context, 3, TOKENS, 33);
    has(context, 0, TOKENS, 0);
    uint32_t none[1] = {77};
    size_t n_needed = 77;
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "tokens", ember_context_tokens(context, 3, none, 1, &n_needed, E));
    CHECK(n_needed == 33 && none[0] == 77);
    n_needed = 77;
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "tokens", ember_context_tokens(context, 3, NULL, 0, &n_needed, E));
    CHECK(n_needed == 33);
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 4", ember_context_tokens(context, 4, none, 1, &n_needed, E));
    CHECK(n_needed == 33 && none[0] == 77);
    FAILS(EMBER_E_INVALID_ARGUMENT, "has 33", ember_context_sequence_copy(context, 3, 0, 34, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "itself", ember_context_sequence_copy(context, 3, 3, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 4", ember_context_sequence_copy(context, 3, 4, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence", ember_context_sequence_copy(context, UINT32_MAX, 0, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 4", ember_context_sequence_keep(context, 4, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_sequence_copy(NULL, 3, 0, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_sequence_keep(NULL, 0, E));
    CHECK(length(context, 3) == 33);
    ember_context_free(context);
}

/* The first tokens stay, some are forgotten, and those after them move to their places. */
static void shifts(void)
{
    float before[FIXTURE_VOCAB], after[FIXTURE_VOCAB];
    ember_context *context = new_context(model, 0, 2);
    FAILS(EMBER_E_UNSUPPORTED, "learned positions", ember_context_sequence_shift(context, 0, 0, 0, E));
    ember_context_free(context);
    ember_model *rotary = load_model("tests/fixtures/models/gemma3.gguf");
    context = new_context(rotary, 0, 2);
    decode(context, 0, TOKENS, N);
    OK(ember_context_sequence_copy(context, 0, 1, N, E));
    OK(ember_context_sequence_shift(context, 1, 2, 10, E));
    CHECK(length(context, 0) == N && length(context, 1) == N - 10);
    uint32_t left[N - 10] = {TOKENS[0], TOKENS[1]};
    memcpy(left + 2, TOKENS + 12, (N - 12) * sizeof *left);
    has(context, 1, left, N - 10);
    OK(ember_context_sequence_shift(context, 1, 2, 0, E));
    CHECK(length(context, 1) == N - 10);
    step(context, 1, after);
    step(context, 0, before);
    CHECK(memcmp(before, after, sizeof before) != 0);
    OK(ember_context_sequence_shift(context, 1, 3, N - 10 + 1 - 3, E)); /* as rewinding does */
    CHECK(length(context, 1) == 3);
    FAILS(EMBER_E_INVALID_ARGUMENT, "it has 3", ember_context_sequence_shift(context, 1, 3, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "it has 3",
          ember_context_sequence_shift(context, 1, UINT32_MAX, UINT32_MAX, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 2", ember_context_sequence_shift(context, 2, 0, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_sequence_shift(NULL, 0, 0, 0, E));
    CHECK(length(context, 0) == N + 1 && length(context, 1) == 3);
    ember_context_free(context);
    ember_model_release(rotary);
}

static void few_pages(void)
{
    ember_context_options *options = NULL;
    ember_context *context = NULL, *none = NULL;
    ember_memory memory = {.struct_size = sizeof memory};
    ember_context_info info = {.struct_size = sizeof info};
    OK(ember_context_options_new(&options, E));
    OK(ember_context_options_set_n_seq(options, 4, E));
    OK(ember_context_new(model, options, &context, E));
    OK(ember_context_memory(context, &memory, E));
    OK(ember_context_info_get(context, &info, E));
    CHECK(info.n_pages == 4 * (FIXTURE_CTX / info.page_len) && info.n_free_pages == info.n_pages);
    ember_context_free(context);
    OK(ember_context_options_set_kv_limit(options, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "kv_limit", ember_context_new(model, options, &none, E));
    uint64_t limit = memory.kv / info.n_pages * 3;
    OK(ember_context_options_set_kv_limit(options, limit, E));
    context = NULL;
    OK(ember_context_new(model, options, &context, E));
    OK(ember_context_info_get(context, &info, E));
    OK(ember_context_memory(context, &memory, E));
    CHECK(info.n_pages == 3 && memory.kv <= limit + 64);
    decode(context, 0, TOKENS, N);
    decode(context, 1, TOKENS, 10);
    const uint32_t sequences[] = {2, 2};
    FAILS(EMBER_E_CONTEXT_FULL, "pages", ember_context_decode(context, TOKENS, NULL, sequences, NULL, 2, E));
    CHECK(length(context, 0) == N && length(context, 1) == 10 && length(context, 2) == 0);
    OK(ember_context_sequence_copy(context, 1, 2, 10, E)); /* shares the page */
    FAILS(EMBER_E_CONTEXT_FULL, "pages", ember_context_decode(context, TOKENS, NULL, sequences, NULL, 2, E));
    CHECK(length(context, 2) == 10);
    OK(ember_context_rewind(context, 0, 0, E));
    decode(context, 2, TOKENS, 2);
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_kv_limit(NULL, 1, E));
    ember_context_free(context);
    ember_context_options_free(options);
}

static void prefixes(void)
{
    float a[FIXTURE_VOCAB], b[FIXTURE_VOCAB];
    ember_context_options *options = NULL;
    ember_context *context = NULL, *plain = new_context(model, 0, 2);
    OK(ember_context_options_new(&options, E));
    OK(ember_context_options_set_n_seq(options, 2, E));
    OK(ember_context_options_set_keep_prefixes(options, true, E));
    OK(ember_context_new(model, options, &context, E));
    size_t n_reused = 77;
    decode(context, 0, TOKENS, N);
    OK(ember_context_sequence_reuse(context, 1, TOKENS, N, N - 1, &n_reused, E));
    CHECK(n_reused == 32 && length(context, 1) == 32); /* whole pages */
    OK(ember_context_rewind(context, 0, 0, E));
    OK(ember_context_rewind(context, 1, 0, E));
    OK(ember_context_sequence_reuse(context, 1, TOKENS, N, N - 1, &n_reused, E));
    CHECK(n_reused == 32);
    decode(context, 1, TOKENS + n_reused, N - n_reused);
    step(context, 1, a);
    decode(plain, 0, TOKENS, N);
    step(plain, 0, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    OK(ember_context_sequence_reuse(context, 1, TOKENS, N, SIZE_MAX, &n_reused, E)); /* what it has itself */
    CHECK(n_reused == N && length(context, 1) == N);
    OK(ember_context_sequence_reuse(plain, 1, TOKENS, N, SIZE_MAX, &n_reused, E));
    CHECK(n_reused == 0);
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 2", ember_context_sequence_reuse(context, 2, TOKENS, N, N, &n_reused, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens", ember_context_sequence_reuse(context, 1, NULL, N, N, &n_reused, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_reused", ember_context_sequence_reuse(context, 1, TOKENS, N, N, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_sequence_reuse(NULL, 1, TOKENS, N, N, &n_reused, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_keep_prefixes(NULL, true, E));
    CHECK(n_reused == 0 && length(context, 1) == N);
    ember_context_free(context);
    ember_context_free(plain);
    ember_context_options_free(options);
}

static void windows(void)
{
    /* Two layers that see eight positions. */
    ember_model *windowed = load_model("tests/fixtures/models/llama-window.gguf");
    for (int keep_all = 0; keep_all < 2; keep_all++) {
        ember_context_options *options = NULL;
        ember_context *context = NULL;
        uint32_t tokens[400];
        for (size_t i = 0; i < 400; i++)
            tokens[i] = (uint32_t)(i % 89);
        OK(ember_context_options_new(&options, E));
        OK(ember_context_options_set_n_ctx(options, 512, E));
        OK(ember_context_options_set_n_seq(options, 2, E));
        OK(ember_context_options_set_n_batch(options, 32, E));
        OK(ember_context_options_set_keep_all_positions(options, keep_all != 0, E));
        OK(ember_context_new(windowed, options, &context, E));
        ember_context_info info = {.struct_size = sizeof info};
        OK(ember_context_info_get(context, &info, E));
        CHECK(info.n_pages == (keep_all ? 2 : 1) * 512 / info.page_len);
        OK(ember_context_decode(context, tokens, NULL, NULL, NULL, 400, E));
        if (keep_all) {
            OK(ember_context_sequence_copy(context, 0, 1, 100, E));
            OK(ember_context_rewind(context, 0, 100, E));
            CHECK(length(context, 0) == 100 && length(context, 1) == 100);
        } else {
            CHECK(info.n_pages - free_pages(context) <= 4);
            const ember_status bad = EMBER_E_INVALID_ARGUMENT;
            FAILS(bad, "keep_all_positions", ember_context_sequence_copy(context, 0, 1, 100, E));
            FAILS(bad, "keep_all_positions", ember_context_rewind(context, 0, 100, E));
            FAILS(bad, "keep_all_positions", ember_context_sequence_shift(context, 0, 100, 300, E));
            CHECK(length(context, 0) == 400 && length(context, 1) == 0);
            OK(ember_context_sequence_copy(context, 0, 1, 370, E));
            OK(ember_context_rewind(context, 0, 0, E));
        }
        ember_context_free(context);
        ember_context_options_free(options);
    }
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_keep_all_positions(NULL, true, E));
    ember_model_release(windowed);
}

/* A sequence of a model with recurrent layers goes on from its nearest snapshot. */
static void recurrent_layers(void)
{
    ember_model *recurrent = load_model("tests/fixtures/models/lfm2.gguf");
    ember_context_options *options = NULL;
    uint32_t tokens[100];
    for (size_t i = 0; i < 100; i++)
        tokens[i] = (uint32_t)(i * 7 % 101);
    OK(ember_context_options_new(&options, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_snapshots", ember_context_options_set_n_snapshots(options, 65537, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_n_snapshots(NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_snapshot_distance(NULL, 1, E));
    for (uint32_t distance = 0; distance <= 32; distance += 32) {
        ember_context *context = NULL, *fresh = NULL;
        ember_memory few = {.struct_size = sizeof few}, many = {.struct_size = sizeof many};
        OK(ember_context_options_set_snapshot_distance(options, distance, E));
        OK(ember_context_options_set_n_snapshots(options, 4, E));
        OK(ember_context_new(recurrent, options, &fresh, E));
        OK(ember_context_options_set_n_snapshots(options, 5, E));
        OK(ember_context_new(recurrent, options, &context, E));
        OK(ember_context_memory(fresh, &few, E));
        OK(ember_context_memory(context, &many, E));
        /* Three layers that keep two rows of 48 numbers. */
        CHECK(many.kv - few.kv == 3 * 2 * 48 * sizeof(float));
        OK(ember_context_decode(context, tokens, NULL, NULL, NULL, 100, E));
        OK(ember_context_rewind(context, 0, 70, E));
        OK(ember_context_decode(context, tokens + 70, NULL, NULL, NULL, 1, E));
        OK(ember_context_decode(fresh, tokens, NULL, NULL, NULL, 71, E));
        const float *a = NULL, *b = NULL;
        OK(ember_context_logits(context, 0, &a, E));
        OK(ember_context_logits(fresh, 70, &b, E));
        CHECK(memcmp(a, b, 101 * sizeof *a) == 0);
        ember_timings timings = {.struct_size = sizeof timings};
        OK(ember_context_timings_get(context, &timings, E));
        CHECK(timings.n_replay == (distance == 0 ? 70 : 6) && timings.replay_ns > 0);
        FAILS(EMBER_E_UNSUPPORTED, "recurrent layers", ember_context_sequence_shift(context, 0, 10, 10, E));
        ember_context_free(context);
        ember_context_free(fresh);
    }
    ember_context_options_free(options);
    ember_model_release(recurrent);
}

static void states_in_buffers(void)
{
    float a[FIXTURE_VOCAB], b[FIXTURE_VOCAB];
    size_t len = 0, len_all = 0, needed = 7;
    ember_context *context = new_context(model, 0, 3), *other = new_context(model, 0, 3);
    decode(context, 1, TOKENS, N);
    uint8_t *one = save(context, 1, &len), *all = save(context, EMBER_ALL_SEQUENCES, &len_all);
    CHECK(len_all > len);
    step(context, 1, a);
    decode(other, 0, TOKENS, 5);
    OK(ember_context_state_load(other, 2, one, len, E));
    CHECK(length(other, 2) == N && length(other, 0) == 5);
    const float *row = NULL;
    OK(ember_context_logits(other, 0, &row, E)); /* those after the saved sequence */
    step(other, 2, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    OK(ember_context_state_load(other, EMBER_ALL_SEQUENCES, all, len_all, E));
    CHECK(length(other, 0) == 0 && length(other, 1) == N && length(other, 2) == 0);
    step(other, 1, b);
    CHECK(memcmp(a, b, sizeof a) == 0);

    one[len / 2] ^= 1;
    FAILS(EMBER_E_FORMAT, "damaged", ember_context_state_load(other, 0, one, len, E));
    one[len / 2] ^= 1;
    FAILS(EMBER_E_FORMAT, "damaged", ember_context_state_load(other, 0, one, len - 1, E));
    FAILS(EMBER_E_FORMAT, "damaged", ember_context_state_load(other, 0, NULL, 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "3 sequences", ember_context_state_load(other, 0, all, len_all, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "of one sequence",
          ember_context_state_load(other, EMBER_ALL_SEQUENCES, one, len, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 3", ember_context_state_load(other, 3, one, len, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "data", ember_context_state_load(other, 0, NULL, len, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_state_load(NULL, 0, one, len, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "sequence 3", ember_context_state_save(other, 3, one, len, &needed, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_needed", ember_context_state_save(other, 0, one, len, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_state_save(NULL, 0, one, len, &needed, E));
    CHECK(length(other, 0) == 0 && length(other, 1) == N + 1 && needed == 7);
    /* A context of one sequence is no sequence. */
    ember_context *single = new_context(model, 0, 1);
    decode(single, 0, TOKENS, 5);
    free(all);
    all = save(single, EMBER_ALL_SEQUENCES, &len_all);
    FAILS(EMBER_E_INVALID_ARGUMENT, "1 sequences", ember_context_state_load(other, 2, all, len_all, E));
    OK(ember_context_state_load(other, EMBER_ALL_SEQUENCES, all, len_all, E));
    CHECK(length(other, 0) == 5 && length(other, 1) == 0);
    ember_context_free(single);
    ember_model *wide = load_model("tests/fixtures/models/llama-tied-f32.gguf");
    ember_context *foreign = new_context(wide, 64, 1);
    FAILS(EMBER_E_INVALID_ARGUMENT, "another model", ember_context_state_load(foreign, 0, one, len, E));
    ember_context_free(foreign);
    ember_model_release(wide);
    free(one);
    free(all);
    ember_context_free(context);
    ember_context_free(other);
}

struct stream {
    uint8_t *data;
    size_t len, at;
    int stop; /* at the so-manieth call */
};

static int32_t put(const uint8_t *data, size_t len, void *user_data)
{
    struct stream *s = user_data;
    if (--s->stop == 0 || s->at + len > s->len)
        return 1;
    memcpy(s->data + s->at, data, len);
    s->at += len;
    return 0;
}

static int64_t get(uint8_t *buffer, size_t capacity, void *user_data)
{
    struct stream *s = user_data;
    size_t n = s->len - s->at < 1000 ? s->len - s->at : 1000; /* a slow one */
    if (--s->stop == 0 || n > capacity)
        return -1;
    memcpy(buffer, s->data + s->at, n);
    s->at += n;
    return (int64_t)n;
}

static int64_t lie(uint8_t *buffer, size_t capacity, void *user_data)
{
    (void)buffer, (void)user_data;
    return (int64_t)capacity + 1;
}

static int64_t endless(uint8_t *buffer, size_t capacity, void *user_data)
{
    (void)user_data;
    memset(buffer, 0, capacity);
    return (int64_t)capacity;
}

static void states_through_callbacks(void)
{
    float a[FIXTURE_VOCAB], b[FIXTURE_VOCAB];
    struct stream s = {malloc(1 << 20), 1 << 20, 0, -1};
    if (s.data == NULL)
        exit(1);
    ember_context *context = new_context(model, 0, 2);
    decode(context, 0, TOKENS, N);
    OK(ember_context_state_write(context, 0, put, &s, E));
    step(context, 0, a);
    s.len = s.at;
    s.at = 0;
    OK(ember_context_state_read(context, 1, get, &s, E));
    step(context, 1, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    for (int stop = 1; stop < 6; stop++) {
        struct stream cut = s;
        cut.at = 0, cut.stop = stop;
        CHECK(ember_context_state_read(context, 1, get, &cut, NULL) == EMBER_E_CANCELLED);
        cut.at = 0, cut.stop = stop;
        CHECK(ember_context_state_write(context, 0, put, &cut, NULL) == EMBER_E_CANCELLED);
    }
    FAILS(EMBER_E_INVALID_ARGUMENT, "returned", ember_context_state_read(context, 1, lie, NULL, E));
    FAILS(EMBER_E_FORMAT, "longer", ember_context_state_read(context, 1, endless, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "callback", ember_context_state_read(context, 1, NULL, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "callback", ember_context_state_write(context, 1, NULL, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_state_read(NULL, 1, get, &s, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_state_write(NULL, 1, put, &s, E));
    CHECK(length(context, 1) == N + 1);
    free(s.data);
    ember_context_free(context);
}

/* Another process goes on with the same bits. */
static void states_in_files(const char *program)
{
    float a[FIXTURE_VOCAB], b[FIXTURE_VOCAB];
    char folder[] = "/tmp/ember-state-XXXXXX", file[64], other_path[64], command[600];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(file, sizeof file, "%s/state", folder);
    snprintf(other_path, sizeof other_path, "%s/other", folder);
    ember_context *context = new_context(model, 0, 1);
    decode(context, 0, TOKENS, N);
    OK(ember_context_state_save_file(context, 0, file, NUL, E));
    OK(ember_context_state_save_file(context, EMBER_ALL_SEQUENCES, file, NUL, E)); /* over the first */
    OK(ember_context_state_save_file(context, 0, file, NUL, E));
    step(context, 0, a);
    /* At this process's instruction-set level: valgrind, which runs this one alone, may know fewer. */
    snprintf(command, sizeof command, "EMBER_ISA=%s '%s' --go-on '%s' '%s'", ember_model_isa(model), program, file, other_path);
    CHECK(system(command) == 0);
    FILE *f = fopen(other_path, "rb");
    CHECK(f != NULL && fread(b, sizeof b, 1, f) == 1);
    if (f != NULL)
        fclose(f);
    CHECK(memcmp(a, b, sizeof a) == 0);
    CHECK(remove(other_path) == 0);

    FAILS(EMBER_E_IO, "/no/where", ember_context_state_save_file(context, 0, "/no/where/state", NUL, E));
    FAILS(EMBER_E_IO, folder, ember_context_state_save_file(context, 0, folder, NUL, E)); /* a folder is in the way */
    CHECK(mkfifo(other_path, 0600) == 0); /* replaced, whoever reads there would wait for ever */
    FAILS(EMBER_E_IO, "no file that could be replaced", ember_context_state_save_file(context, 0, other_path, NUL, E));
    struct stat pipe;
    CHECK(stat(other_path, &pipe) == 0 && S_ISFIFO(pipe.st_mode) && remove(other_path) == 0);
    FAILS(EMBER_E_IO, "nowhere", ember_context_state_load_file(context, 0, "nowhere", NUL, E));
    FAILS(EMBER_E_FORMAT, "README", ember_context_state_load_file(context, 0, "README.md", NUL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "path", ember_context_state_load_file(context, 0, NULL, NUL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "path", ember_context_state_save_file(context, 0, "", 0, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_state_load_file(NULL, 0, file, NUL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_state_save_file(NULL, 0, file, NUL, E));
    CHECK(length(context, 0) == N + 1);

    /* A disk that is full: files may not grow beyond 5,000 bytes. The state from before stays. */
    struct rlimit before, most;
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    most = before;
    most.rlim_cur = 5000;
    signal(SIGXFSZ, SIG_IGN);
    ember_error *err = NULL;
    CHECK(setrlimit(RLIMIT_FSIZE, &most) == 0);
    ember_status status = ember_context_state_save_file(context, 0, file, NUL, &err);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(status == EMBER_E_IO && strstr(ember_error_message(err), "written") != NULL);
    ember_error_free(err);
    OK(ember_context_state_load_file(context, 0, file, NUL, E));
    CHECK(length(context, 0) == N);

    /* Who may read a chat stays as it is, and so does a link to it. */
    struct stat found;
    CHECK(chmod(file, 0600) == 0 && symlink(file, other_path) == 0);
    OK(ember_context_state_save_file(context, 0, other_path, NUL, E));
    CHECK(lstat(other_path, &found) == 0 && S_ISLNK(found.st_mode));
    CHECK(lstat(file, &found) == 0 && S_ISREG(found.st_mode) && (found.st_mode & 0777) == 0600);
    OK(ember_context_state_load_file(context, 0, other_path, NUL, E));
    CHECK(length(context, 0) == N);
    /* So does one to what is not there. */
    CHECK(remove(file) == 0);
    OK(ember_context_state_save_file(context, 0, other_path, NUL, E));
    CHECK(lstat(other_path, &found) == 0 && S_ISLNK(found.st_mode));
    CHECK(lstat(file, &found) == 0 && S_ISREG(found.st_mode));
    OK(ember_context_state_load_file(context, 0, other_path, NUL, E));
    snprintf(command, sizeof command, "[ \"$(ls -A '%s')\" = \"$(printf 'other\\nstate')\" ]", folder);
    CHECK(system(command) == 0); /* nothing else was left */
    remove(file);
    remove(other_path);
    CHECK(rmdir(folder) == 0);
    ember_context_free(context);
}

static int go_on(const char *file, const char *out)
{
    float logits[FIXTURE_VOCAB];
    ember_context *context = new_context(model, 0, 1);
    OK(ember_context_state_load_file(context, 0, file, NUL, E));
    step(context, 0, logits);
    ember_context_free(context);
    FILE *f = fopen(out, "wb");
    CHECK(f != NULL && fwrite(logits, sizeof logits, 1, f) == 1 && fclose(f) == 0);
    return n_failed != 0;
}

int main(int argc, char **argv)
{
    model = load_model(FIXTURE);
    if (argc == 4 && strcmp(argv[1], "--go-on") == 0) {
        int failed = go_on(argv[2], argv[3]);
        ember_model_release(model);
        return failed;
    }
    copies();
    shifts();
    few_pages();
    prefixes();
    windows();
    recurrent_layers();
    states_in_buffers();
    states_through_callbacks();
    states_in_files(argv[0]);
    ember_model_release(model);
    return finish("state");
}

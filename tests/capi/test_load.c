/* Loading from file descriptors, from lent bytes and with options: progress, checks, keys that are set, memory. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static const char *path;
static uint8_t *bytes; /* of the model at `path` */
static size_t n_bytes;
static const size_t NUL = EMBER_NUL_TERMINATED;
/* Of an architecture that can go beyond the positions it was trained on. */
#define LLAMA "tests/fixtures/models/llama-linear-rope-mha.gguf"

static void read_model(void)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        exit(1);
    n_bytes = (size_t)ftell(file);
    rewind(file);
    bytes = malloc(n_bytes);
    if (bytes == NULL || fread(bytes, 1, n_bytes, file) != n_bytes)
        exit(1);
    fclose(file);
}

/* One logit, which shows that two loads of a file have the same weights. */
static float logit(const ember_model *model)
{
    const uint32_t tokens[] = {5, 6, 7};
    const float *row = NULL;
    ember_context *context = new_context(model, 32, 1);
    OK(ember_context_decode(context, tokens, NULL, NULL, NULL, 3, E));
    OK(ember_context_logits(context, 2, &row, E));
    float value = row == NULL ? 0 : row[3];
    ember_context_free(context);
    return value;
}

static ember_model_options *new_options(void)
{
    ember_model_options *options = NULL;
    OK(ember_model_options_new(&options, E));
    return options;
}

/* What one of two threads does: loads from a descriptor that both have, again and again. */
struct loader {
    pthread_t thread;
    int fd;
    size_t offset;
    ember_model *models[8];
};

static void *load_often(void *user_data)
{
    struct loader *loader = user_data;
    ember_model_options *options = NULL;
    ember_model_options_new(&options, NULL);
    ember_model_options_set_use_mmap(options, false, NULL);
    for (size_t i = 0; i < sizeof loader->models / sizeof *loader->models; i++)
        ember_model_load_fd(loader->fd, loader->offset, n_bytes, options, &loader->models[i], NULL);
    ember_model_options_free(options);
    return NULL;
}

/* A file with the model twice, read by two threads at once from one descriptor, whose position nobody moves. */
static void from_one_descriptor_by_two_threads(float expected)
{
    char name[] = "/tmp/ember-load-XXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    CHECK(write(fd, bytes, n_bytes) == (ssize_t)n_bytes && write(fd, bytes, n_bytes) == (ssize_t)n_bytes);
    CHECK(lseek(fd, 77, SEEK_SET) == 77);
    struct loader loaders[2] = {{.fd = fd, .offset = 0}, {.fd = fd, .offset = n_bytes}};
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&loaders[i].thread, NULL, load_often, &loaders[i]) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(loaders[i].thread, NULL) == 0);
        for (size_t k = 0; k < sizeof loaders[i].models / sizeof *loaders[i].models; k++) {
            CHECK(loaders[i].models[k] != NULL && logit(loaders[i].models[k]) == expected);
            ember_model_release(loaders[i].models[k]);
        }
    }
    CHECK(lseek(fd, 0, SEEK_CUR) == 77);
    close(fd);
}

static void from_a_file_descriptor(float expected)
{
    /* The model stands in the middle of a file, as in an archive. */
    char name[] = "/tmp/ember-load-XXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    const size_t offsets[] = {0, 4096, 64, 100, 13};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        size_t offset = offsets[i];
        CHECK(ftruncate(fd, 0) == 0 && lseek(fd, (off_t)offset, SEEK_SET) >= 0);
        CHECK(write(fd, bytes, n_bytes) == (ssize_t)n_bytes && write(fd, "beyond", 6) == 6);
        for (int use_mmap = 0; use_mmap <= 1; use_mmap++) {
            ember_model_options *options = new_options();
            OK(ember_model_options_set_use_mmap(options, use_mmap != 0, E));
            ember_model *model = NULL;
            OK(ember_model_load_fd(fd, offset, n_bytes, options, &model, E));
            ember_model_options_free(options);
            CHECK(model != NULL && logit(model) == expected);
            ember_model_release(model);
        }
    }
    ember_model *model = NULL;
    /* What is after the model does no harm; what is missing does. */
    OK(ember_model_load_fd(fd, 13, 0, NULL, &model, E));
    ember_model_release(model);
    model = NULL;
    FAILS(EMBER_E_INVALID_ARGUMENT, "offset", ember_model_load_fd(fd, 13, n_bytes + 7, NULL, &model, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "offset", ember_model_load_fd(fd, UINT64_MAX, 0, NULL, &model, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "offset", ember_model_load_fd(fd, 1, UINT64_MAX, NULL, &model, E));
    FAILS(EMBER_E_FORMAT, "<fd ", ember_model_load_fd(fd, 13, n_bytes - 1, NULL, &model, E));
    FAILS(EMBER_E_FORMAT, "", ember_model_load_fd(fd, n_bytes + 19, 0, NULL, &model, E)); /* its end */
    FAILS(EMBER_E_FORMAT, "", ember_model_load_fd(fd, 0, 0, NULL, &model, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "fd", ember_model_load_fd(-1, 0, 0, NULL, &model, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "fd", ember_model_load_fd(INT32_MIN, 0, 0, NULL, &model, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_model_load_fd(fd, 0, 0, NULL, NULL, E));
    CHECK(fcntl(fd, F_GETFD) >= 0); /* still ours */
    close(fd);
    FAILS(EMBER_E_IO, "<fd ", ember_model_load_fd(fd, 0, 0, NULL, &model, E));
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    FAILS(EMBER_E_IO, "regular", ember_model_load_fd(pipes[0], 0, 0, NULL, &model, E));
    close(pipes[0]);
    close(pipes[1]);
    CHECK(model == NULL);
}

static void count_release(void *user_data)
{
    ++*(int *)user_data;
}

static void from_lent_bytes(float expected)
{
    int n_released = 0;
    ember_model *model = NULL;
    OK(ember_model_load_borrowed(bytes, n_bytes, count_release, &n_released, NULL, &model, E));
    CHECK(n_released == 0 && logit(model) == expected);
    ember_context *context = new_context(model, 8, 1);
    ember_model_release(model);
    CHECK(n_released == 0); /* the context still needs them */
    ember_context_free(context);
    CHECK(n_released == 1);

    uint8_t *odd = malloc(n_bytes + 1);
    if (odd == NULL)
        exit(1);
    memcpy(odd + 1, bytes, n_bytes);
    model = NULL;
    OK(ember_model_load_borrowed(odd + 1, n_bytes, count_release, &n_released, NULL, &model, E));
    CHECK(n_released == 2);
    memset(odd, 0xee, n_bytes + 1);
    CHECK(logit(model) == expected);
    ember_model_release(model);
    free(odd);

    model = NULL;
    OK(ember_model_load_borrowed(bytes, n_bytes, NULL, NULL, NULL, &model, E));
    ember_model_release(model);
    model = NULL;
    FAILS(EMBER_E_FORMAT, "<buffer>",
          ember_model_load_borrowed(bytes, n_bytes - 1, count_release, &n_released, NULL, &model, E));
    FAILS(EMBER_E_FORMAT, "empty", ember_model_load_borrowed(bytes, 0, count_release, &n_released, NULL, &model, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "data",
          ember_model_load_borrowed(NULL, 9, count_release, &n_released, NULL, &model, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out",
          ember_model_load_borrowed(bytes, n_bytes, count_release, &n_released, NULL, NULL, E));
    CHECK(n_released == 2 && model == NULL);
}

struct progress {
    float last;
    int n_calls, stop_at;
};

static int32_t on_progress(float done, void *user_data)
{
    struct progress *progress = user_data;
    CHECK(done >= progress->last && done <= 1);
    progress->last = done;
    return ++progress->n_calls == progress->stop_at;
}

static void progress(void)
{
    ember_model_options *options = new_options();
    for (int use_mmap = 0; use_mmap <= 1; use_mmap++) {
        struct progress seen = {0, 0, 0};
        ember_model *model = NULL;
        OK(ember_model_options_set_use_mmap(options, use_mmap != 0, E));
        OK(ember_model_options_set_check_tensors(options, true, E));
        OK(ember_model_options_set_progress(options, on_progress, &seen, E));
        OK(ember_model_load(path, NUL, options, &model, E));
        CHECK(seen.last == 1 && seen.n_calls >= 3);
        ember_model_release(model);
        int n_calls = seen.n_calls;
        for (int stop_at = 1; stop_at <= n_calls; stop_at += n_calls > 40 ? n_calls / 20 : 1) {
            struct progress stopped = {0, 0, stop_at};
            ember_error *err = NULL;
            model = NULL;
            OK(ember_model_options_set_progress(options, on_progress, &stopped, E));
            ember_status status = ember_model_load(path, NUL, options, &model, &err);
            /* How often it is called is a matter of time. */
            CHECK(status == EMBER_E_CANCELLED || stopped.n_calls < stop_at);
            if (status == EMBER_E_CANCELLED)
                CHECK(model == NULL && strstr(ember_error_message(err), "progress") != NULL);
            ember_error_free(err);
            ember_model_release(model);
        }
    }
    OK(ember_model_options_set_progress(options, NULL, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_model_options_set_progress(NULL, on_progress, NULL, E));
    ember_model_options_free(options);
}

static void tensors_are_checked(void)
{
    ember_model_options *options = new_options();
    ember_model *model = NULL;
    OK(ember_model_options_set_check_tensors(options, true, E));
    OK(ember_model_load(FIXTURE, NUL, options, &model, E));
    ember_model_release(model);
    model = NULL;
    /* The last number of the last tensor of a file of F32. */
    FILE *file = fopen(FIXTURE, "rb");
    uint8_t *copy = malloc(1 << 20);
    if (file == NULL || copy == NULL)
        exit(1);
    size_t len = fread(copy, 1, 1 << 20, file);
    fclose(file);
    CHECK(len > 1000 && len < 1 << 20);
    const float nan = NAN;
    size_t at = len - 4;
    while (at > 4 && memcmp(copy + at, "\0\0\0\0", 4) == 0) /* what fills the file up after it */
        at -= 4;
    memcpy(copy + at, &nan, 4);
    OK(ember_model_load_buffer(copy, len, NULL, &model, E));
    ember_model_release(model);
    model = NULL;
    FAILS(EMBER_E_FORMAT, "element", ember_model_load_buffer(copy, len, options, &model, E));
    CHECK(model == NULL);
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_model_options_set_check_tensors(NULL, true, E));
    free(copy);
    ember_model_options_free(options);
}

static void keys_are_set(void)
{
    ember_model_options *options = new_options();
    OK(ember_model_options_set_meta_i64(options, "llama.context_length", NUL, 77, E));
    OK(ember_model_options_set_meta_i64(options, "llama.context_length", NUL, 99, E));
    OK(ember_model_options_set_meta_string(options, "general.name", NUL, "another", NUL, E));
    OK(ember_model_options_set_meta_f64(options, "my.number", NUL, 2.5, E));
    OK(ember_model_options_set_meta_bool(options, "my.flag", NUL, true, E));
    ember_model *model = NULL;
    OK(ember_model_load(LLAMA, NUL, options, &model, E));
    ember_model_info info = {.struct_size = sizeof info};
    OK(ember_model_info_get(model, &info, E));
    CHECK(info.n_ctx_train == 99);
    uint8_t name[16];
    size_t len = 0;
    OK(ember_model_meta_string(model, "general.name", NUL, name, sizeof name, &len, E));
    CHECK(len == 7 && memcmp(name, "another", 7) == 0);
    double number = 0;
    bool flag = false;
    OK(ember_model_meta_f64(model, "my.number", NUL, &number, E));
    OK(ember_model_meta_bool(model, "my.flag", NUL, &flag, E));
    CHECK(number == 2.5 && flag);
    ember_model_release(model);
    model = NULL;
    /* What Ember reads is checked as if it were the file's. */
    OK(ember_model_options_set_meta_i64(options, "llama.block_count", NUL, -3, E));
    FAILS(EMBER_E_FORMAT, "llama.block_count", ember_model_load(LLAMA, NUL, options, &model, E));
    OK(ember_model_options_set_meta_string(options, "llama.block_count", NUL, "four", NUL, E));
    FAILS(EMBER_E_FORMAT, "llama.block_count", ember_model_load(LLAMA, NUL, options, &model, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "key", ember_model_options_set_meta_i64(options, "", 0, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "key", ember_model_options_set_meta_i64(options, NULL, NUL, 1, E));
    FAILS(EMBER_E_UTF8, "key", ember_model_options_set_meta_f64(options, "\xff", 1, 1, E));
    FAILS(EMBER_E_UTF8, "value", ember_model_options_set_meta_string(options, "a", 1, "\xff", 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_model_options_set_meta_bool(NULL, "a", 1, true, E));
    CHECK(model == NULL);
    ember_model_options_free(options);
}

/* A host's allocator that counts, and has no more after a while. */
struct pool {
    size_t n_blocks, n_freed, n_bytes, left;
};

static void *allocate(size_t size, size_t alignment, void *user_data)
{
    struct pool *pool = user_data;
    void *block = NULL;
    if (pool->left == 0 || posix_memalign(&block, alignment, size) != 0)
        return NULL;
    pool->left--;
    pool->n_blocks++;
    pool->n_bytes += size;
    return memset(block, 0, size);
}

static void deallocate(void *block, size_t size, size_t alignment, void *user_data)
{
    struct pool *pool = user_data;
    CHECK(block != NULL && (uintptr_t)block % alignment == 0);
    pool->n_freed++;
    pool->n_bytes -= size;
    free(block);
}

static void the_hosts_allocator(float expected)
{
    ember_model_options *options = new_options();
    struct pool pool = {0, 0, 0, 1000};
    FAILS(EMBER_E_INVALID_ARGUMENT, "deallocate", ember_model_options_set_allocator(options, allocate, NULL, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "allocate", ember_model_options_set_allocator(options, NULL, deallocate, NULL, E));
    OK(ember_model_options_set_allocator(options, allocate, deallocate, &pool, E));
    OK(ember_model_options_set_use_mmap(options, false, E));
    OK(ember_model_options_set_pack(options, EMBER_PACK_ALWAYS, E));
    ember_model *model = NULL;
    OK(ember_model_load(path, NUL, options, &model, E));
    size_t for_model = pool.n_blocks;
    CHECK(for_model >= 2 && pool.n_bytes > n_bytes);
    float value = logit(model);
    CHECK(value - expected < 0.1f && expected - value < 0.1f);
    CHECK(pool.n_blocks > for_model);
    size_t n_blocks = pool.n_blocks;
    ember_model_release(model);
    CHECK(pool.n_freed == pool.n_blocks && pool.n_bytes == 0);
    /* Wherever it ends: an error, and nothing is lost. */
    for (size_t left = 0; left < n_blocks; left++) {
        ember_error *err = NULL;
        ember_context *context = NULL;
        pool.left = left;
        model = NULL;
        ember_status status = ember_model_load(path, NUL, options, &model, &err);
        if (status == EMBER_OK) {
            CHECK(left >= for_model);
            status = ember_context_new(model, NULL, &context, &err);
        }
        CHECK(status == EMBER_E_NOMEM || context != NULL);
        CHECK(status == EMBER_OK || strstr(ember_error_message(err), "no memory") != NULL);
        ember_error_free(err);
        ember_context_free(context);
        ember_model_release(model);
        CHECK(pool.n_freed == pool.n_blocks && pool.n_bytes == 0);
    }
    OK(ember_model_options_set_allocator(options, NULL, NULL, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_model_options_set_allocator(NULL, NULL, NULL, NULL, E));
    ember_model_options_free(options);
}

static void limits_and_estimates(void)
{
    ember_model_options *options = new_options();
    ember_context_options *context_options = NULL;
    OK(ember_context_options_new(&context_options, E));
    OK(ember_context_options_set_n_ctx(context_options, 512, E));
    for (int use_mmap = 0; use_mmap <= 1; use_mmap++) {
        ember_memory estimate = {.struct_size = sizeof estimate}, real = estimate, of_model = estimate;
        ember_model *model = NULL;
        ember_context *context = NULL;
        OK(ember_model_options_set_use_mmap(options, use_mmap != 0, E));
        OK(ember_model_options_set_memory_limit(options, 0, E));
        OK(ember_memory_estimate(path, NUL, options, context_options, &estimate, E));
        OK(ember_model_load(path, NUL, options, &model, E));
        OK(ember_context_new(model, context_options, &context, E));
        OK(ember_model_memory(model, &of_model, E));
        OK(ember_context_memory(context, &real, E));
        CHECK(real.file == n_bytes && real.kv > 0 && real.workspace > 0);
        CHECK(estimate.file == real.file && estimate.kv == real.kv && estimate.workspace == real.workspace);
        CHECK(estimate.weights == real.weights);
        CHECK(of_model.weights == real.weights && of_model.kv == 0 && of_model.workspace == 0);
        ember_context_free(context);
        ember_model_release(model);

        /* As much as both need is enough; less is not. */
        uint64_t all = real.weights + real.kv + real.workspace;
        model = NULL, context = NULL;
        OK(ember_model_options_set_memory_limit(options, all, E));
        OK(ember_model_load(path, NUL, options, &model, E));
        OK(ember_context_new(model, context_options, &context, E));
        ember_context *second = NULL;
        FAILS(EMBER_E_NOMEM, "limit", ember_context_new(model, context_options, &second, E));
        ember_context_free(context);
        OK(ember_context_new(model, context_options, &second, E)); /* what was freed is there again */
        ember_context_free(second);
        OK(ember_context_options_set_memory_limit(context_options, real.kv, E));
        FAILS(EMBER_E_NOMEM, "limit", ember_context_new(model, context_options, &context, E));
        OK(ember_context_options_set_memory_limit(context_options, 0, E));
        ember_model_release(model);
        model = NULL;
        if (real.weights > 0) {
            OK(ember_model_options_set_memory_limit(options, real.weights - 1, E));
            FAILS(EMBER_E_NOMEM, "limit", ember_model_load(path, NUL, options, &model, E));
        }
    }
    ember_memory out = {.struct_size = sizeof out};
    /* The size of a cache that fits into no machine can be reckoned, but not one that has more bytes than there are addresses. */
    OK(ember_context_options_set_n_ctx(context_options, 1 << 27, E));
    OK(ember_context_options_set_n_seq(context_options, 4, E));
    if (sizeof(size_t) == sizeof(uint64_t)) {
        OK(ember_memory_estimate(LLAMA, NUL, NULL, context_options, &out, E));
        CHECK(out.kv > (uint64_t)1 << 36);
    } else
        FAILS(EMBER_E_NOMEM, "KV cache", ember_memory_estimate(LLAMA, NUL, NULL, context_options, &out, E));
    OK(ember_memory_estimate(path, NUL, NULL, NULL, &out, E));
    FAILS(EMBER_E_IO, "nowhere", ember_memory_estimate("nowhere", NUL, NULL, NULL, &out, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_memory_estimate(path, NUL, NULL, NULL, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_memory(NULL, &out, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "context", ember_context_memory(NULL, &out, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_model_options_set_memory_limit(NULL, 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_context_options_set_memory_limit(NULL, 1, E));
    ember_model_options_free(options);
    ember_context_options_free(context_options);
}

static void locked(float expected)
{
    ember_model_options *options = new_options();
    ember_error *err = NULL;
    ember_model *model = NULL;
    OK(ember_model_options_set_lock(options, true, E));
    ember_status status = ember_model_load(path, NUL, options, &model, &err);
    /* As much as the machine lets a process lock: either all of it, or a sentence that says so. */
    CHECK(status == EMBER_OK || (status == EMBER_E_NOMEM && strstr(ember_error_message(err), "locked") != NULL));
    if (status == EMBER_OK)
        CHECK(logit(model) == expected);
    ember_error_free(err);
    ember_model_release(model);
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_model_options_set_lock(NULL, true, E));
    ember_model_options_free(options);
}

static void inspected(void)
{
    size_t len = 0, again = 0;
    ember_error *err = NULL;
    if (ember_has_feature("chat", NUL) != 1) {
        CHECK(ember_model_inspect(path, NUL, NULL, 0, &len, &err) == EMBER_E_UNSUPPORTED);
        ember_error_free(err);
        return;
    }
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "", ember_model_inspect(path, NUL, NULL, 0, &len, E));
    char *json = malloc(len + 1);
    if (json == NULL)
        exit(1);
    OK(ember_model_inspect(path, NUL, (uint8_t *)json, len, &again, E));
    json[len] = '\0';
    CHECK(again == len && json[0] == '{' && json[len - 1] == '}');
    CHECK(strstr(json, "\"supported\":true") != NULL && strstr(json, "\"architecture\":\"gpt2\"") != NULL);
    CHECK(strstr(json, "\"n_embd\":") != NULL && strstr(json, "\"length\":") != NULL);
    free(json);
    FAILS(EMBER_E_IO, "nowhere", ember_model_inspect("nowhere", NUL, NULL, 0, &len, E));
    FAILS(EMBER_E_FORMAT, "README.md", ember_model_inspect("README.md", NUL, NULL, 0, &len, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "path", ember_model_inspect(NULL, NUL, NULL, 0, &len, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_needed", ember_model_inspect(path, NUL, NULL, 0, NULL, E));
}

int main(int argc, char **argv)
{
    path = model_path(argc, argv);
    read_model();
    ember_model *model = load_model(path);
    float expected = logit(model);
    ember_model_release(model);
    from_a_file_descriptor(expected);
    from_one_descriptor_by_two_threads(expected);
    from_lent_bytes(expected);
    progress();
    tensors_are_checked();
    keys_are_set();
    the_hosts_allocator(expected);
    limits_and_estimates();
    locked(expected);
    inspected();
    free(bytes);
    return finish("test_load");
}

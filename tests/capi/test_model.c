/* Models: options, loading from a file and from memory, dimensions, metadata, references. */
#include "check.h"

static ember_model *model; /* with a tokenizer */
static const char *path;

static void options(void)
{
    ember_model_options *o = NULL;
    ember_sampler *sampler = NULL;
    OK(ember_model_options_new(&o, E));
    OK(ember_sampler_new(1, &sampler, E));
    ember_model_options *foreign = (ember_model_options *)(void *)sampler;

    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_model_options_new(NULL, E));
    OK(ember_model_options_set_use_mmap(o, false, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_model_options_set_use_mmap(NULL, true, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_model_options_set_use_mmap(foreign, true, E));

    ember_model *read = NULL;
    OK(ember_model_load(path, EMBER_NUL_TERMINATED, o, &read, E));
    ember_model_options_free(o); /* before what was made with it */
    ember_model_info a = {.struct_size = sizeof a}, b = {.struct_size = sizeof b};
    OK(ember_model_info_get(read, &a, E));
    OK(ember_model_info_get(model, &b, E));
    CHECK(memcmp(&a, &b, sizeof a) == 0);
    ember_model_release(read);

    ember_model *none = NULL;
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_model_load(path, EMBER_NUL_TERMINATED, foreign, &none, E));
    CHECK(none == NULL);
    ember_model_options_free(NULL);
    ember_model_options_free(foreign); /* left alone */
    OK(ember_sampler_add_greedy(sampler, E));
    ember_sampler_free(sampler);
}

/* Whether packed or not, a model says the same but for how activations are rounded, which last bits decide. */
static void packing(void)
{
    const uint32_t tokens[] = {5, 6, 7};
    float logits[3] = {0, 0, 0};
    for (int32_t pack = EMBER_PACK_AUTO; pack <= EMBER_PACK_ALWAYS; pack++) {
        ember_model_options *o = NULL;
        OK(ember_model_options_new(&o, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "pack", ember_model_options_set_pack(o, 3, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "pack", ember_model_options_set_pack(o, -1, E));
        FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_model_options_set_pack(NULL, pack, E));
        OK(ember_model_options_set_pack(o, pack, E));
        ember_model *loaded = NULL;
        OK(ember_model_load(path, EMBER_NUL_TERMINATED, o, &loaded, E));
        ember_model_options_free(o);
        ember_context *context = new_context(loaded, 0, 1);
        OK(ember_context_decode(context, tokens, NULL, NULL, NULL, 3, E));
        const float *row = NULL;
        OK(ember_context_logits(context, 2, &row, E));
        logits[pack] = row == NULL ? 0 : row[3];
        CHECK(logits[pack] != 0 && logits[pack] - logits[0] < 0.1f && logits[0] - logits[pack] < 0.1f);
        ember_context_free(context);
        ember_model_release(loaded);
    }
}

static void loading_refuses_bad_arguments(void)
{
    ember_model *none = NULL;
    const size_t nul = EMBER_NUL_TERMINATED;
    FAILS(EMBER_E_INVALID_ARGUMENT, "path", ember_model_load(NULL, nul, NULL, &none, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "path", ember_model_load(NULL, 3, NULL, &none, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "path", ember_model_load(path, SIZE_MAX - 1, NULL, &none, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "path", ember_model_load(path, SIZE_MAX / 2 + 1, NULL, &none, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_model_load(path, nul, NULL, NULL, E));
    FAILS(EMBER_E_UTF8, "path", ember_model_load("a\xff", nul, NULL, &none, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "path", ember_model_load("", 0, NULL, &none, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "path", ember_model_load(NULL, 0, NULL, &none, E));
    FAILS(EMBER_E_IO, "NUL", ember_model_load("a\0b", 3, NULL, &none, E));
    FAILS(EMBER_E_IO, "tests/no.gguf", ember_model_load("tests/no.gguf", nul, NULL, &none, E));
    FAILS(EMBER_E_IO, "tests", ember_model_load("tests", nul, NULL, &none, E));
    FAILS(EMBER_E_FORMAT, "check.h", ember_model_load("tests/capi/check.h", nul, NULL, &none, E));
    FAILS(EMBER_E_IO, "/dev/null", ember_model_load("/dev/null", nul, NULL, &none, E));
    CHECK(none == NULL);

    ember_model *by_length = NULL;
    char longer[64];
    snprintf(longer, sizeof longer, "%s, not this", FIXTURE);
    OK(ember_model_load(longer, strlen(FIXTURE), NULL, &by_length, E));
    ember_model_release(by_length);
}

/* The bytes of the fixture, for the caller to free. */
static uint8_t *read_fixture(size_t *len)
{
    FILE *file = fopen(FIXTURE, "rb");
    uint8_t *bytes = malloc(1 << 20);
    *len = file == NULL || bytes == NULL ? 0 : fread(bytes, 1, 1 << 20, file);
    if (file != NULL)
        fclose(file);
    return bytes;
}

static void loading_from_memory(void)
{
    size_t len = 0;
    uint8_t *bytes = read_fixture(&len);
    ember_model *loaded = NULL, *none = NULL;
    OK(ember_model_load_buffer(bytes, len, NULL, &loaded, E));
    FAILS(EMBER_E_FORMAT, "<buffer>", ember_model_load_buffer(bytes, len - 1, NULL, &none, E));
    FAILS(EMBER_E_FORMAT, "<buffer>", ember_model_load_buffer(bytes, 3, NULL, &none, E));
    FAILS(EMBER_E_FORMAT, "<buffer>", ember_model_load_buffer(bytes, 0, NULL, &none, E));
    FAILS(EMBER_E_FORMAT, "<buffer>", ember_model_load_buffer(NULL, 0, NULL, &none, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "data", ember_model_load_buffer(NULL, len, NULL, &none, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "data", ember_model_load_buffer(bytes, SIZE_MAX, NULL, &none, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_model_load_buffer(bytes, len, NULL, NULL, E));
    bytes[0] = 'X';
    FAILS(EMBER_E_FORMAT, "<buffer>", ember_model_load_buffer(bytes, len, NULL, &none, E));
    CHECK(none == NULL);
    memset(bytes, 0xff, len);
    free(bytes); /* the model has its own copy */

    ember_model_info info = {.struct_size = sizeof info};
    OK(ember_model_info_get(loaded, &info, E));
    CHECK(info.n_vocab == FIXTURE_VOCAB && info.n_ctx_train == FIXTURE_CTX && info.file_size == len);
    CHECK(info.has_tokenizer == 0 && info.bos_token == EMBER_TOKEN_NONE && info.eos_token == EMBER_TOKEN_NONE);
    ember_context *context = new_context(loaded, 0, 1);
    ember_model_release(loaded); /* the context goes on */
    uint32_t token = 5;
    OK(ember_context_decode(context, &token, NULL, NULL, NULL, 1, E));
    ember_context_free(context);
}

static void loading_a_folder(void)
{
    const char *folder = "tests/fixtures/hf/gpt2-untied";
    ember_model *loaded = load_model(folder), *twin = load_model("tests/fixtures/models/gpt2-untied.gguf"), *none = NULL;
    ember_model_info info = {.struct_size = sizeof info}, expected = {.struct_size = sizeof expected};
    OK(ember_model_info_get(loaded, &info, E));
    OK(ember_model_info_get(twin, &expected, E));
    CHECK(info.n_params == expected.n_params && info.n_vocab == expected.n_vocab && info.n_ff == expected.n_ff);
    CHECK(info.file_size > 0 && info.has_tokenizer == 0);
    ember_model_options *read = NULL;
    OK(ember_model_options_new(&read, E));
    OK(ember_model_options_set_use_mmap(read, false, E));
    ember_model *copied = NULL;
    OK(ember_model_load(folder, EMBER_NUL_TERMINATED, read, &copied, E));
    ember_model_options_free(read);
    const uint32_t tokens[] = {5, 6, 7};
    ember_model *models[] = {loaded, twin, copied};
    float first = 0;
    for (int i = 0; i < 3; i++) {
        ember_context *context = new_context(models[i], 0, 1);
        OK(ember_context_decode(context, tokens, NULL, NULL, NULL, 3, E));
        const float *row = NULL;
        OK(ember_context_logits(context, 2, &row, E));
        CHECK(row != NULL && (i == 0 || row[3] == first));
        first = row == NULL ? 0 : row[3];
        ember_context_free(context);
        ember_model_release(models[i]);
    }
    FAILS(EMBER_E_IO, "config.json", ember_model_load("tests/fixtures/hf", EMBER_NUL_TERMINATED, NULL, &none, E));
    CHECK(none == NULL);
}

static void dimensions(void)
{
    ember_model_info info = {.struct_size = sizeof info};
    OK(ember_model_info_get(model, &info, E));
    CHECK(info.struct_size == sizeof info);
    CHECK(info.n_vocab > 256 && info.n_ctx_train > 0 && info.n_embd > 0 && info.n_layer > 0);
    CHECK(info.n_head > 0 && info.n_head_kv > 0 && info.head_dim > 0 && info.n_ff > 0);
    CHECK(info.n_params > 0 && info.file_size > 0 && info.has_tokenizer == 1);
    CHECK(info.eos_token < info.n_vocab);

    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_info_get(NULL, &info, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_model_info_get(model, NULL, E));
    const size_t bad[] = {0, 1, sizeof(size_t), SIZE_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ember_model_info untouched = {.struct_size = bad[i], .n_vocab = 77};
        FAILS(EMBER_E_INVALID_ARGUMENT, "struct_size", ember_model_info_get(model, &untouched, E));
        CHECK(untouched.n_vocab == 77 && untouched.struct_size == bad[i]);
    }
}

static void a_struct_of_another_version(void)
{
    ember_model_info full = {.struct_size = sizeof full};
    OK(ember_model_info_get(model, &full, E));

    ember_model_info shorter = {.struct_size = offsetof(ember_model_info, n_vocab), .n_vocab = 77};
    OK(ember_model_info_get(model, &shorter, E));
    CHECK(shorter.n_params == full.n_params && shorter.file_size == full.file_size && shorter.n_vocab == 77);
    CHECK(shorter.struct_size == offsetof(ember_model_info, n_vocab));

    struct {
        ember_model_info info;
        unsigned char later[32];
    } longer;
    memset(&longer, 0xee, sizeof longer);
    longer.info.struct_size = sizeof longer;
    OK(ember_model_info_get(model, &longer.info, E));
    CHECK(longer.info.n_params == full.n_params && longer.info.add_bos == full.add_bos);
    CHECK(longer.info.struct_size == sizeof longer && longer.later[0] == 0xee);
}

static void references(void)
{
    ember_model *m = load_model(FIXTURE);
    CHECK(ember_model_retain(m) == m);
    CHECK(ember_model_retain(m) == m);
    ember_model_release(m);
    ember_model_release(m);
    ember_model_info info = {.struct_size = sizeof info};
    OK(ember_model_info_get(m, &info, E));
    ember_context *context = new_context(m, 8, 1);
    ember_model_release(m); /* the last one, before the context */
    uint32_t tokens[] = {1, 2, 3};
    OK(ember_context_decode(context, tokens, NULL, NULL, NULL, 3, E));
    ember_context_free(context);

    CHECK(ember_model_retain(NULL) == NULL);
    ember_model_release(NULL);
    ember_sampler *sampler = NULL;
    OK(ember_sampler_new(1, &sampler, E));
    ember_model *foreign = (ember_model *)(void *)sampler;
    CHECK(ember_model_retain(foreign) == NULL);
    ember_model_release(foreign); /* left alone */
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_info_get(foreign, &info, E));
    OK(ember_sampler_reset(sampler, E));
    ember_sampler_free(sampler);

    union {
        char bytes[64];
        uint64_t align;
    } memory = {{0}};
    ember_model *garbage = (ember_model *)(void *)memory.bytes;
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_info_get(garbage, &info, E));
    ember_model *crooked = (ember_model *)(void *)(memory.bytes + 1);
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_info_get(crooked, &info, E));
}

int main(int argc, char **argv)
{
    path = model_path(argc, argv);
    model = load_model(path);
    options();
    packing();
    loading_refuses_bad_arguments();
    loading_from_memory();
    loading_a_folder();
    dimensions();
    a_struct_of_another_version();
    references();
    ember_model_release(model);
    return finish("model");
}

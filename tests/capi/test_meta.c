/* Metadata of a model file. */
#include "check.h"

static ember_model *model; /* with a tokenizer */
static const size_t NUL = EMBER_NUL_TERMINATED;

static void every_key_can_be_walked(void)
{
    size_t count = 0;
    OK(ember_model_meta_count(model, &count, E));
    CHECK(count > 5);
    for (size_t i = 0; i < count; i++) {
        uint8_t key[256];
        size_t len = 0;
        uint32_t type = 99;
        OK(ember_model_meta_key(model, i, key, sizeof key, &len, E));
        CHECK(len > 0 && len <= sizeof key);
        OK(ember_model_meta_type(model, (const char *)key, len, &type, E));
        CHECK(type <= 12);
    }
    uint8_t key[8];
    size_t len = 7;
    FAILS(EMBER_E_NOT_FOUND, "key", ember_model_meta_key(model, count, key, sizeof key, &len, E));
    FAILS(EMBER_E_NOT_FOUND, "key", ember_model_meta_key(model, SIZE_MAX, key, sizeof key, &len, E));
    CHECK(len == 7);
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_meta_count(NULL, &count, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_model_meta_count(model, NULL, E));
}

static void keys_into_small_buffers(void)
{
    uint8_t key[256];
    size_t len = 0, needed = 0;
    OK(ember_model_meta_key(model, 0, key, sizeof key, &len, E));
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "", ember_model_meta_key(model, 0, NULL, 0, &needed, E));
    CHECK(needed == len);
    uint8_t small[256];
    memset(small, 0xee, sizeof small);
    needed = 0;
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "", ember_model_meta_key(model, 0, small, len - 1, &needed, E));
    CHECK(needed == len && small[0] == 0xee);
    OK(ember_model_meta_key(model, 0, small, len, &needed, E));
    CHECK(memcmp(small, key, len) == 0 && small[len] == 0xee);
    needed = 7;
    FAILS(EMBER_E_INVALID_ARGUMENT, "buffer", ember_model_meta_key(model, 0, NULL, 64, &needed, E));
    CHECK(needed == 7);
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_needed", ember_model_meta_key(model, 0, small, 64, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_meta_key(NULL, 0, small, 64, &needed, E));
}

static void types(void)
{
    uint32_t type = 99;
    OK(ember_model_meta_type(model, "general.architecture", NUL, &type, E));
    CHECK(type == 8);
    OK(ember_model_meta_type(model, "tokenizer.ggml.tokens", NUL, &type, E));
    CHECK(type == 9);
    OK(ember_model_meta_type(model, "general.architecture and more", 20, &type, E));
    CHECK(type == 8);
    type = 99;
    FAILS(EMBER_E_NOT_FOUND, "no.such.key", ember_model_meta_type(model, "no.such.key", NUL, &type, E));
    FAILS(EMBER_E_NOT_FOUND, "\"\"", ember_model_meta_type(model, "", 0, &type, E));
    FAILS(EMBER_E_NOT_FOUND, "\"\"", ember_model_meta_type(model, NULL, 0, &type, E));
    FAILS(EMBER_E_UTF8, "key", ember_model_meta_type(model, "\xc3", NUL, &type, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "key", ember_model_meta_type(model, NULL, NUL, &type, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "key", ember_model_meta_type(model, "a", SIZE_MAX - 1, &type, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_model_meta_type(model, "a", NUL, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_meta_type(NULL, "a", NUL, &type, E));
    CHECK(type == 99);
}

static void strings(void)
{
    const char *key = "tokenizer.ggml.model";
    uint8_t text[16];
    size_t n = 0;
    memset(text, 0xee, sizeof text);
    OK(ember_model_meta_string(model, key, NUL, text, sizeof text, &n, E));
    CHECK(n == 4 && memcmp(text, "gpt2", 4) == 0 && text[4] == 0xee);
    OK(ember_model_meta_string(model, key, NUL, text, 4, &n, E));
    n = 0;
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "4", ember_model_meta_string(model, key, NUL, text, 3, &n, E));
    CHECK(n == 4);
    n = 0;
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "4", ember_model_meta_string(model, key, NUL, NULL, 0, &n, E));
    CHECK(n == 4);
    n = 7;
    FAILS(EMBER_E_INVALID_ARGUMENT, "buffer", ember_model_meta_string(model, key, NUL, NULL, 9, &n, E));
    CHECK(n == 7);
    const char *array = "tokenizer.ggml.tokens";
    FAILS(EMBER_E_INVALID_ARGUMENT, array, ember_model_meta_string(model, array, NUL, text, 16, &n, E));
    FAILS(EMBER_E_NOT_FOUND, "nope", ember_model_meta_string(model, "nope", NUL, text, 16, &n, E));
    FAILS(EMBER_E_UTF8, "key", ember_model_meta_string(model, "\xff", NUL, text, 16, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "key", ember_model_meta_string(model, NULL, NUL, text, 16, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_needed", ember_model_meta_string(model, key, NUL, text, 16, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_meta_string(NULL, key, NUL, text, 16, &n, E));
    CHECK(n == 7);
}

/* The refusals that all getters of numbers share. */
#define REFUSES_ALL_NONSENSE(get, place)                                                                               \
    do {                                                                                                               \
        const char *string = "general.architecture";                                                                   \
        FAILS(EMBER_E_INVALID_ARGUMENT, string, get(model, string, NUL, &(place), E));                                 \
        FAILS(EMBER_E_NOT_FOUND, "nope", get(model, "nope", NUL, &(place), E));                                        \
        FAILS(EMBER_E_UTF8, "key", get(model, "a\x80", NUL, &(place), E));                                             \
        FAILS(EMBER_E_INVALID_ARGUMENT, "key", get(model, NULL, NUL, &(place), E));                                    \
        FAILS(EMBER_E_INVALID_ARGUMENT, "key", get(model, "a", SIZE_MAX - 1, &(place), E));                            \
        FAILS(EMBER_E_INVALID_ARGUMENT, "out", get(model, string, NUL, NULL, E));                                      \
        FAILS(EMBER_E_INVALID_ARGUMENT, "model", get(NULL, string, NUL, &(place), E));                                 \
    } while (0)

static void numbers(void)
{
    const char *integer = "gpt2.block_count", *real = "gpt2.attention.layer_norm_epsilon";
    uint64_t u = 77;
    int64_t i = 77;
    double f = 77;
    bool b = true;
    REFUSES_ALL_NONSENSE(ember_model_meta_u64, u);
    REFUSES_ALL_NONSENSE(ember_model_meta_i64, i);
    REFUSES_ALL_NONSENSE(ember_model_meta_f64, f);
    REFUSES_ALL_NONSENSE(ember_model_meta_bool, b);
    FAILS(EMBER_E_INVALID_ARGUMENT, real, ember_model_meta_u64(model, real, NUL, &u, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, real, ember_model_meta_i64(model, real, NUL, &i, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, integer, ember_model_meta_f64(model, integer, NUL, &f, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, integer, ember_model_meta_bool(model, integer, NUL, &b, E));
    CHECK(u == 77 && i == 77 && f == 77 && b);

    OK(ember_model_meta_u64(model, integer, NUL, &u, E));
    OK(ember_model_meta_i64(model, integer, NUL, &i, E));
    OK(ember_model_meta_f64(model, real, NUL, &f, E));
    CHECK(u > 0 && u < 1000 && (uint64_t)i == u && f > 0 && f < 0.1);
    ember_model_info info = {.struct_size = sizeof info};
    OK(ember_model_info_get(model, &info, E));
    OK(ember_model_meta_bool(model, "tokenizer.ggml.add_bos_token", NUL, &b, E));
    CHECK(b == (info.add_bos == 1));
}

static void arrays(void)
{
    const char *tokens = "tokenizer.ggml.tokens", *types = "tokenizer.ggml.token_type";
    uint32_t type = 77;
    size_t n = 77, len = 77;
    uint8_t text[64];
    uint64_t u = 77;
    int64_t i = 77;
    double f = 77;
    bool b = true;
    ember_model_info info = {.struct_size = sizeof info};
    OK(ember_model_info_get(model, &info, E));
    FAILS(EMBER_E_NOT_FOUND, "no.such.key", ember_model_meta_array(model, "no.such.key", NUL, &type, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "array", ember_model_meta_array(model, "gpt2.block_count", NUL, &type, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "element_type", ember_model_meta_array(model, tokens, NUL, NULL, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_elements", ember_model_meta_array(model, tokens, NUL, &type, NULL, E));
    CHECK(type == 77 && n == 77);
    OK(ember_model_meta_array(model, tokens, NUL, &type, &n, E));
    CHECK(type == 8 && n == info.n_vocab);
    for (size_t k = 0; k < n; k++)
        OK(ember_model_meta_array_string(model, tokens, NUL, k, text, sizeof text, &len, E));
    OK(ember_model_meta_array_string(model, tokens, NUL, info.bos_token, text, sizeof text, &len, E));
    CHECK(len == 13 && memcmp(text, "<|endoftext|>", 13) == 0);
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "", ember_model_meta_array_string(model, tokens, NUL, 0, text, 1, &len, E));
    FAILS(EMBER_E_NOT_FOUND, "element", ember_model_meta_array_string(model, tokens, NUL, n, text, 64, &len, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, types, ember_model_meta_array_string(model, types, NUL, 0, text, 64, &len, E));
    OK(ember_model_meta_array(model, types, NUL, &type, &n, E));
    CHECK(type == 5);
    OK(ember_model_meta_array_i64(model, types, NUL, info.bos_token, &i, E));
    OK(ember_model_meta_array_u64(model, types, NUL, info.bos_token, &u, E));
    CHECK(i == 3 && u == 3); /* a control token */
    FAILS(EMBER_E_NOT_FOUND, "element", ember_model_meta_array_i64(model, types, NUL, SIZE_MAX, &i, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, types, ember_model_meta_array_f64(model, types, NUL, 0, &f, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, types, ember_model_meta_array_bool(model, types, NUL, 0, &b, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, tokens, ember_model_meta_array_u64(model, tokens, NUL, 0, &u, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_model_meta_array_u64(model, types, NUL, 0, NULL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_meta_array_bool(NULL, types, NUL, 0, &b, E));
    CHECK(u == 3 && f == 77 && b);
}

int main(int argc, char **argv)
{
    model = load_model(model_path(argc, argv));
    every_key_can_be_walked();
    keys_into_small_buffers();
    types();
    strings();
    numbers();
    arrays();
    ember_model_release(model);
    return finish("meta");
}

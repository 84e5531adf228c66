/* Tokenizers without a model, and prompts to fill a gap. */
#include "check.h"

static const char TEXT[] = "Once upon a time <|endoftext|>";

static ember_tokenizer *load(const char *path)
{
    ember_tokenizer *tokenizer = NULL;
    if (!OK(ember_tokenizer_load(path, EMBER_NUL_TERMINATED, &tokenizer, E)))
        exit(1);
    return tokenizer;
}

static void the_same_as_the_models(const char *path)
{
    ember_model *model = NULL;
    ember_tokenizer *alone = load(path), *own = NULL;
    uint32_t a[64], b[64];
    size_t n_a = 0, n_b = 0, count = 0;
    OK(ember_model_load(path, EMBER_NUL_TERMINATED, NULL, &model, E));
    OK(ember_model_tokenizer(model, &own, E));
    for (int special = 0; special < 2; special++) {
        OK(ember_model_tokenize(model, TEXT, EMBER_NUL_TERMINATED, true, special, a, 64, &n_a, E));
        ember_tokenizer *both[] = {alone, own};
        for (int i = 0; i < 2; i++) {
            OK(ember_tokenizer_tokenize(both[i], TEXT, EMBER_NUL_TERMINATED, true, special, b, 64, &n_b, E));
            CHECK(n_a == n_b && memcmp(a, b, n_a * sizeof *a) == 0);
            OK(ember_tokenizer_count(both[i], TEXT, EMBER_NUL_TERMINATED, true, special, &count, E));
            CHECK(count == n_a);
            OK(ember_tokenizer_tokenize_bytes(both[i], (const uint8_t *)TEXT, strlen(TEXT), true, special, b, 64, &n_b, E));
            CHECK(n_a == n_b && memcmp(a, b, n_a * sizeof *a) == 0);
        }
    }
    ember_model_info info = {.struct_size = sizeof info};
    ember_tokenizer_info known = {.struct_size = sizeof known};
    OK(ember_model_info_get(model, &info, E));
    OK(ember_tokenizer_info_get(alone, &known, E));
    CHECK(known.n_vocab == info.n_vocab && known.bos_token == info.bos_token && known.eos_token == info.eos_token);
    CHECK(known.fim_prefix_token == EMBER_TOKEN_NONE && known.add_bos == info.add_bos);
    /* It outlives the model, and its other references. */
    ember_model_release(model);
    CHECK(ember_tokenizer_retain(own) == own);
    ember_tokenizer_release(own);
    uint8_t text[64];
    size_t n = 0;
    bool is = false;
    OK(ember_tokenizer_detokenize(own, a, n_a, true, text, sizeof text, &n, E));
    CHECK(n == strlen(TEXT) && memcmp(text, TEXT, n) == 0);
    OK(ember_tokenizer_token_bytes(own, info.eos_token, text, sizeof text, &n, E));
    CHECK(n == 13 && memcmp(text, "<|endoftext|>", n) == 0);
    OK(ember_tokenizer_token_is_eog(own, info.eos_token, &is, E));
    CHECK(is);
    OK(ember_tokenizer_token_is_control(own, info.eos_token, &is, E));
    CHECK(is);
    FAILS(EMBER_E_INVALID_ARGUMENT, "4294967295", ember_tokenizer_token_is_eog(own, UINT32_MAX, &is, E));
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "holds", ember_tokenizer_tokenize(own, TEXT, 4, false, false, a, 0, &n, E));
    FAILS(EMBER_E_UNSUPPORTED, "before the gap",
          ember_tokenizer_fim_prompt(own, "a", 1, "b", 1, NULL, a, 64, &n, E));
    ember_tokenizer_release(own);
    ember_tokenizer_release(alone);
    ember_tokenizer_release(NULL);
}

static void what_is_no_tokenizer(void)
{
    ember_tokenizer *tokenizer = NULL;
    FAILS(EMBER_E_IO, "no/such", ember_tokenizer_load("no/such/file", EMBER_NUL_TERMINATED, &tokenizer, E));
    FAILS(EMBER_E_UNSUPPORTED, FIXTURE, ember_tokenizer_load(FIXTURE, EMBER_NUL_TERMINATED, &tokenizer, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "path", ember_tokenizer_load("", 0, &tokenizer, E));
    FAILS(EMBER_E_FORMAT, "<buffer>", ember_tokenizer_load_buffer((const uint8_t *)"GGUF", 4, &tokenizer, E));
    CHECK(tokenizer == NULL);
}

/* Tokens of `prefix` and `suffix` between marks that keys name. */
static void gaps(const char *path)
{
    ember_model_options *options = NULL;
    ember_model *model = NULL;
    ember_tokenizer *tokenizer = NULL;
    ember_fim_options *fim = NULL;
    uint32_t prompt[64], a[8], b[8];
    size_t n = 0, n_a = 0, n_b = 0;
    OK(ember_model_options_new(&options, E));
    OK(ember_model_options_set_meta_i64(options, "tokenizer.ggml.fim_pre_token_id", EMBER_NUL_TERMINATED, 5, E));
    OK(ember_model_options_set_meta_i64(options, "tokenizer.ggml.fim_suf_token_id", EMBER_NUL_TERMINATED, 6, E));
    OK(ember_model_options_set_meta_i64(options, "tokenizer.ggml.fim_mid_token_id", EMBER_NUL_TERMINATED, 7, E));
    OK(ember_model_options_set_meta_i64(options, "tokenizer.ggml.fim_sep_token_id", EMBER_NUL_TERMINATED, 8, E));
    OK(ember_model_load(path, EMBER_NUL_TERMINATED, options, &model, E));
    OK(ember_model_tokenizer(model, &tokenizer, E));
    OK(ember_tokenizer_tokenize(tokenizer, "Once upon", 9, false, false, a, 8, &n_a, E));
    OK(ember_tokenizer_tokenize(tokenizer, " time.", 6, false, false, b, 8, &n_b, E));
    OK(ember_tokenizer_fim_prompt(tokenizer, "Once upon", 9, " time.", 6, NULL, prompt, 64, &n, E));
    CHECK(n == n_a + n_b + 3 && prompt[0] == 5 && prompt[n_a + 1] == 6 && prompt[n - 1] == 7);
    CHECK(memcmp(prompt + 1, a, n_a * sizeof *a) == 0 && memcmp(prompt + n_a + 2, b, n_b * sizeof *b) == 0);
    OK(ember_fim_options_new(&fim, E));
    OK(ember_fim_options_set_order(fim, EMBER_FIM_SPM, E));
    OK(ember_tokenizer_fim_prompt(tokenizer, "Once upon", 9, " time.", 6, fim, prompt, 64, &n, E));
    CHECK(n == n_a + n_b + 3 && prompt[0] == 6 && prompt[n_b + 1] == 5 && prompt[n - 1] == 7);
    OK(ember_fim_options_set_file(fim, "a", 1, E));
    OK(ember_fim_options_add_file(fim, "b", 1, "the sea", 7, E));
    OK(ember_tokenizer_fim_prompt(tokenizer, "Once upon", 9, " time.", 6, fim, prompt, 64, &n, E));
    CHECK(prompt[0] == 8);
    OK(ember_fim_options_set_repository(fim, "r", 1, E));
    FAILS(EMBER_E_UNSUPPORTED, "repository",
          ember_tokenizer_fim_prompt(tokenizer, "Once upon", 9, " time.", 6, fim, prompt, 64, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "order", ember_fim_options_set_order(fim, 9, E));
    ember_fim_options_free(fim);
    ember_tokenizer_release(tokenizer);
    ember_model_release(model);
    ember_model_options_free(options);
}

int main(int argc, char **argv)
{
    const char *path = model_path(argc, argv);
    the_same_as_the_models(path);
    what_is_no_tokenizer();
    gaps(path);
    return finish("tokenizer");
}

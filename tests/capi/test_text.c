/* Text to tokens and back. */
#include "check.h"

static ember_model *model; /* with a tokenizer whose end-of-sequence token is <|endoftext|> */
static const size_t NUL = EMBER_NUL_TERMINATED;
static const char EOS[] = "<|endoftext|>";

enum { CAPACITY = 1024 };

/* Text of `len` bytes comes back from its tokens as the very same bytes. */
static void round_trip(const char *text, size_t len)
{
    uint32_t tokens[CAPACITY];
    uint8_t bytes[CAPACITY];
    size_t n = 0, n_bytes = 0;
    OK(ember_model_tokenize(model, text, len, false, false, tokens, CAPACITY, &n, E));
    OK(ember_model_detokenize(model, tokens, n, true, bytes, CAPACITY, &n_bytes, E));
    CHECK(n_bytes == len && (len == 0 || memcmp(bytes, text, len) == 0));

    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t piece[CAPACITY];
        size_t m = 0;
        OK(ember_model_token_bytes(model, tokens[i], piece, CAPACITY, &m, E));
        CHECK(at + m <= len && memcmp(piece, text + at, m) == 0);
        at += m;
    }
    CHECK(at == len);
}

static void round_trips(void)
{
    static const char *const texts[] = {
        "Once upon a time", " leading and trailing  ", "two\n\nlines\r\n\ttab", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
        "<|endoftext|> as plain text", "1234567890 !\"#$%&'()", "\xe5\x9b\x9e\xe8\xbb\xa2",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        round_trip(texts[i], strlen(texts[i]));
    round_trip("a\0b\0", 4);
    round_trip("", 0);
    round_trip(NULL, 0);
}

static void lengths(void)
{
    uint32_t a[CAPACITY], b[CAPACITY];
    size_t n_a = 0, n_b = 0;
    OK(ember_model_tokenize(model, "Once upon", NUL, true, true, a, CAPACITY, &n_a, E));
    OK(ember_model_tokenize(model, "Once upon a time", 9, true, true, b, CAPACITY, &n_b, E));
    CHECK(n_a > 0 && n_a == n_b && memcmp(a, b, n_a * sizeof *a) == 0);
}

static void bytes_that_are_no_text(void)
{
    static const uint8_t raw[] = {'a', ' ', 0xff, 0xc3, 'b', 0xe2, 0x82};
    uint32_t tokens[CAPACITY], again[CAPACITY];
    uint8_t bytes[CAPACITY];
    size_t n = 0, n_again = 0, n_bytes = 0;
    FAILS(EMBER_E_UTF8, "UTF-8", ember_model_tokenize(model, (const char *)raw, sizeof raw, false, false, tokens, CAPACITY, &n, E));
    OK(ember_model_tokenize_bytes(model, raw, sizeof raw, false, false, tokens, CAPACITY, &n, E));
    OK(ember_model_detokenize(model, tokens, n, true, bytes, CAPACITY, &n_bytes, E));
    CHECK(n_bytes == sizeof raw && memcmp(bytes, raw, sizeof raw) == 0);
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "holds",
          ember_model_tokenize_bytes(model, raw, sizeof raw, false, false, tokens, 1, &n_again, E));
    CHECK(n_again == n);
    OK(ember_model_tokenize_bytes(model, (const uint8_t *)"Once upon", 9, true, true, tokens, CAPACITY, &n, E));
    OK(ember_model_tokenize(model, "Once upon", NUL, true, true, again, CAPACITY, &n_again, E));
    CHECK(n == n_again && memcmp(tokens, again, n * sizeof *tokens) == 0);
    OK(ember_model_tokenize_bytes(model, NULL, 0, false, false, tokens, CAPACITY, &n, E));
    CHECK(n == 0);
}

static void special_tokens(void)
{
    ember_model_info info = {.struct_size = sizeof info};
    OK(ember_model_info_get(model, &info, E));
    uint32_t tokens[CAPACITY];
    size_t n = 0;
    OK(ember_model_tokenize(model, EOS, NUL, false, true, tokens, CAPACITY, &n, E));
    CHECK(n == 1 && tokens[0] == info.eos_token);
    OK(ember_model_tokenize(model, EOS, NUL, false, false, tokens, CAPACITY, &n, E));
    CHECK(n > 1);
    for (size_t i = 0; i < n; i++)
        CHECK(tokens[i] != info.eos_token);
    OK(ember_model_tokenize(model, "", 0, true, true, tokens, CAPACITY, &n, E));
    CHECK(n == info.add_bos);

    uint8_t bytes[CAPACITY];
    OK(ember_model_detokenize(model, &info.eos_token, 1, true, bytes, CAPACITY, &n, E));
    CHECK(n == strlen(EOS) && memcmp(bytes, EOS, n) == 0);
    n = 7;
    OK(ember_model_detokenize(model, &info.eos_token, 1, false, NULL, 0, &n, E));
    CHECK(n == 0);

    bool eog = false;
    OK(ember_model_token_is_eog(model, info.eos_token, &eog, E));
    CHECK(eog);
    OK(ember_model_tokenize(model, "a", NUL, false, false, tokens, CAPACITY, &n, E));
    OK(ember_model_token_is_eog(model, tokens[0], &eog, E));
    CHECK(!eog);
}

static void small_buffers(void)
{
    uint32_t tokens[CAPACITY];
    size_t n = 0, needed = 0;
    const char *text = "The quick brown fox";
    OK(ember_model_tokenize(model, text, NUL, false, false, tokens, CAPACITY, &n, E));
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "", ember_model_tokenize(model, text, NUL, false, false, NULL, 0, &needed, E));
    CHECK(n > 1 && needed == n);
    uint32_t small[CAPACITY] = {0};
    small[0] = small[n] = 77777;
    needed = 0;
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "", ember_model_tokenize(model, text, NUL, false, false, small, n - 1, &needed, E));
    CHECK(needed == n && small[0] == 77777);
    OK(ember_model_tokenize(model, text, NUL, false, false, small, n, &needed, E));
    CHECK(memcmp(small, tokens, n * sizeof *tokens) == 0 && small[n] == 77777);

    uint8_t bytes[CAPACITY];
    const size_t len = strlen(text);
    memset(bytes, 0xee, sizeof bytes);
    needed = 0;
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "", ember_model_detokenize(model, tokens, n, false, NULL, 0, &needed, E));
    CHECK(needed == len);
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "", ember_model_detokenize(model, tokens, n, false, bytes, len - 1, &needed, E));
    CHECK(bytes[0] == 0xee);
    OK(ember_model_detokenize(model, tokens, n, false, bytes, len, &needed, E));
    CHECK(memcmp(bytes, text, len) == 0 && bytes[len] == 0xee);

    OK(ember_model_token_bytes(model, tokens[0], bytes, CAPACITY, &n, E));
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "", ember_model_token_bytes(model, tokens[0], NULL, 0, &needed, E));
    CHECK(needed == n);
    FAILS(EMBER_E_BUFFER_TOO_SMALL, "", ember_model_token_bytes(model, tokens[0], bytes, n - 1, &needed, E));
    OK(ember_model_token_bytes(model, tokens[0], bytes, n, &needed, E));
}

static void tokenize_refuses_nonsense(void)
{
    uint32_t t[4];
    size_t n = 7;
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_tokenize(NULL, "a", 1, false, false, t, 4, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "text", ember_model_tokenize(model, NULL, 1, false, false, t, 4, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "text", ember_model_tokenize(model, NULL, NUL, false, false, t, 4, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "text", ember_model_tokenize(model, "a", SIZE_MAX - 1, false, false, t, 4, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens has capacity", ember_model_tokenize(model, "a", 1, false, false, t, SIZE_MAX, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens", ember_model_tokenize(model, "a", 1, false, false, NULL, 4, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_needed", ember_model_tokenize(model, "a", 1, false, false, t, 4, NULL, E));
    static const char *const bad[] = {"\xff", "a\xc3", "\xe2\x82", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xc0\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(EMBER_E_UTF8, "text", ember_model_tokenize(model, bad[i], NUL, false, false, t, 4, &n, E));
    CHECK(n == 7);
}

static void detokenize_refuses_nonsense(void)
{
    ember_model_info info = {.struct_size = sizeof info};
    OK(ember_model_info_get(model, &info, E));
    const uint32_t t[] = {300, info.n_vocab}, none = EMBER_TOKEN_NONE;
    uint8_t b[CAPACITY];
    size_t n = 7;
    bool eog = true;
    OK(ember_model_detokenize(model, NULL, 0, false, NULL, 0, &n, E));
    CHECK(n == 0);
    n = 7;
    FAILS(EMBER_E_INVALID_ARGUMENT, "token", ember_model_detokenize(model, t, 2, false, b, CAPACITY, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "token", ember_model_detokenize(model, &none, 1, true, b, CAPACITY, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_detokenize(NULL, t, 1, false, b, CAPACITY, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens", ember_model_detokenize(model, NULL, 1, false, b, CAPACITY, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "tokens", ember_model_detokenize(model, t, SIZE_MAX / 2, false, b, CAPACITY, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "buffer", ember_model_detokenize(model, t, 1, false, NULL, CAPACITY, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_needed", ember_model_detokenize(model, t, 1, false, b, CAPACITY, NULL, E));

    FAILS(EMBER_E_INVALID_ARGUMENT, "token", ember_model_token_bytes(model, info.n_vocab, b, CAPACITY, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "token", ember_model_token_bytes(model, EMBER_TOKEN_NONE, b, CAPACITY, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_token_bytes(NULL, 300, b, CAPACITY, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "buffer", ember_model_token_bytes(model, 300, NULL, CAPACITY, &n, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "n_needed", ember_model_token_bytes(model, 300, b, CAPACITY, NULL, E));

    FAILS(EMBER_E_INVALID_ARGUMENT, "token", ember_model_token_is_eog(model, info.n_vocab, &eog, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "token", ember_model_token_is_eog(model, EMBER_TOKEN_NONE, &eog, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_token_is_eog(NULL, 300, &eog, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_model_token_is_eog(model, 300, NULL, E));
    CHECK(n == 7 && eog);

    bool control = false;
    OK(ember_model_token_is_control(model, info.bos_token, &control, E));
    CHECK(control);
    OK(ember_model_token_is_control(model, 300, &control, E));
    CHECK(!control);
    FAILS(EMBER_E_INVALID_ARGUMENT, "token", ember_model_token_is_control(model, info.n_vocab, &control, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "model", ember_model_token_is_control(NULL, 300, &control, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "out", ember_model_token_is_control(model, 300, NULL, E));
}

static void a_model_without_a_tokenizer(void)
{
    ember_model *plain = load_model(FIXTURE);
    uint32_t t[4] = {0};
    uint8_t b[4];
    size_t n = 7;
    bool eog = true;
    FAILS(EMBER_E_UNSUPPORTED, "tokenizer", ember_model_tokenize(plain, "a", 1, false, false, t, 4, &n, E));
    FAILS(EMBER_E_UNSUPPORTED, "tokenizer", ember_model_detokenize(plain, t, 1, false, b, 4, &n, E));
    FAILS(EMBER_E_UNSUPPORTED, "tokenizer", ember_model_token_bytes(plain, 0, b, 4, &n, E));
    FAILS(EMBER_E_UNSUPPORTED, "tokenizer", ember_model_token_is_eog(plain, 0, &eog, E));
    CHECK(n == 7 && eog);
    ember_model_release(plain);
}

int main(int argc, char **argv)
{
    model = load_model(model_path(argc, argv));
    round_trips();
    lengths();
    bytes_that_are_no_text();
    special_tokens();
    small_buffers();
    tokenize_refuses_nonsense();
    detokenize_refuses_nonsense();
    a_model_without_a_tokenizer();
    ember_model_release(model);
    return finish("text");
}

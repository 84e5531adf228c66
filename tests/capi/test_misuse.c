/* Every function of the header with every argument wrong in every way that C cannot prevent: NULL, handles of other types,
 * odd addresses, numbers that no enum has, sizes of nothing and of more than there is, text that is no UTF-8. Nothing may
 * crash or end as EMBER_E_INTERNAL, what cannot be meant is EMBER_E_INVALID_ARGUMENT with a sentence that names the
 * argument, and no output is written but by calls that succeed. */
#define _XOPEN_SOURCE 700
#include "misuse.h"

#include <limits.h>

/* Any status but EMBER_E_INTERNAL. */
enum { ANY = -1, ANY_ERROR = -2 };

static long n_calls;
static uint8_t outputs[MOST_PARAMETERS][CAPACITY], poison[POISONED];

/* Pointers that may be NULL whatever the lengths say, beside errors and data of callbacks. */
static const char *const MAY_BE_NULL[][2] = {
    {"ember_chat_apply_template", "options"}, {"ember_context_new", "options"}, {"ember_embed", "options"},
    {"ember_embed_tokens", "options"}, {"ember_generate", "options"}, {"ember_generate_tokens", "options"},
    {"ember_completions_new", "options"}, {"ember_completions_new_tokens", "options"},
    {"ember_completions_new", "sampler"}, {"ember_completions_new_tokens", "sampler"},
    {"ember_generator_new", "options"}, {"ember_generator_new_tokens", "options"}, {"ember_model_load", "options"},
    {"ember_score", "options"}, {"ember_score_tokens", "options"}, {"ember_generate", "sampler"},
    {"ember_generate_tokens", "sampler"}, {"ember_generator_new", "sampler"}, {"ember_generator_new_tokens", "sampler"},
    {"ember_generate", "out_result"}, {"ember_generate_tokens", "out_result"}, {"ember_score", "out_result"},
    {"ember_score_tokens", "out_result"}, {"ember_score", "n_needed"}, {"ember_score_tokens", "n_needed"},
    {"ember_context_decode", "positions"}, {"ember_context_decode", "sequences"}, {"ember_context_decode", "want_logits"},
    {"ember_embed", "lengths"}, {"ember_context_set_cancel_token", "token"},
    {"ember_generate_options_set_cancel_token", "token"}, {"ember_model_options_set_cancel_token", "token"},
    {"ember_generate_options_set_draft", "draft"},
    {"ember_log_set", "callback"}, {"ember_model_options_set_progress", "callback"},
    {"ember_model_load_borrowed", "release"}, {"ember_model_load_borrowed", "options"},
    {"ember_model_load_buffer", "options"}, {"ember_model_load_fd", "options"},
    {"ember_memory_estimate", "model_options"}, {"ember_memory_estimate", "context_options"},
    {"ember_engine_new", "options"}, {"ember_engine_submit", "options"}, {"ember_engine_submit_tokens", "options"},
    {"ember_engine_submit", "sampler"}, {"ember_engine_submit_tokens", "sampler"},
    {"ember_engine_submit", "callback"}, {"ember_engine_submit_tokens", "callback"}, {"ember_engine_step", "out_more"},
    {"ember_sampler_add_dry", "breakers"}, {"ember_sampler_add_dry", "lengths"}, {"ember_chat_parser_new", "options"},
    {"ember_chat_tokenize", "options"}, {"ember_chat_constraint", "options"}, {"ember_conversation_new", "chat_options"},
    {"ember_conversation_new", "generate_options"}, {"ember_conversation_load", "chat_options"},
    {"ember_conversation_load", "generate_options"}, {"ember_conversation_send", "sampler"},
    {"ember_conversation_begin", "sampler"}, {"ember_conversation_send", "out_usage"},
    {"ember_conversation_set_on_full", "callback"},
    {"ember_tokenizer_fim_prompt", "options"}, {"ember_classify", "options"}, {"ember_classify", "lengths"},
    {"ember_rerank", "options"}, {"ember_rerank", "lengths"},
    {"ember_constraint_new_json_schema", "options"}, {"ember_constraint_new_json_object", "options"},
    {"ember_constraint_new_regex", "options"}, {"ember_constraint_new_lark", "options"},
    {"ember_constraint_new_choices", "options"}, {"ember_constraint_new_choices", "lengths"},
    {"ember_generate_options_set_constraint", "constraint"},
};

static int may_be_null(const struct function *f, const struct parameter *p)
{
    for (size_t i = 0; i < sizeof MAY_BE_NULL / sizeof *MAY_BE_NULL; i++)
        if (strcmp(f->name, MAY_BE_NULL[i][0]) == 0 && strcmp(p->name, MAY_BE_NULL[i][1]) == 0)
            return 1;
    return is(p, NULL, "err") || is(p, "void *", NULL);
}

/* Calls `f` and holds it to its promises. `want` is a status, ANY or ANY_ERROR; the sentence of an error names `word`, if
 * there is one. `what` is what is wrong. */
static ember_status call(const struct function *f, const union value *arguments, struct handles *handles, int want,
                         const char *word, const char *what)
{
    union value result = {.pointer = NULL};
    ember_error *error = NULL;
    char what_failed[96];
    int wrote_error = 0;
    for (int i = 0; i < f->n; i++)
        wrote_error |= is(&f->parameters[i], NULL, "err") && arguments[i].pointer != NULL;
    last_error = POISON;
    n_calls++;
    const ember_status status = f->call(arguments, &result);
    /* The others give what they find, or do something. */
    const int answers = strcmp(f->result, "ember_status") == 0 && strcmp(f->name, "ember_error_status") != 0;
    if (good_status(f) != EMBER_OK && want == EMBER_E_INVALID_ARGUMENT)
        want = ANY_ERROR, word = NULL;
    snprintf(what_failed, sizeof what_failed, "%s, %s", f->name, what);
    if (wrote_error)
        error = last_error;
    last_error = NULL;
    if (!answers) {
        after_success(f, arguments, &result, handles);
        return EMBER_OK;
    }
    check(status != EMBER_E_INTERNAL, __FILE__, __LINE__, what_failed);
    check(want == ANY || (want == ANY_ERROR ? status != EMBER_OK : status == want), __FILE__, __LINE__, what_failed);
    if (want >= 0 && status != want)
        printf("    %s, expected %s\n", ember_status_name(status), ember_status_name(want));
    if (wrote_error && status != EMBER_OK) {
        const int good = error != NULL && error != POISON && ember_error_status(error) == status;
        check(good, __FILE__, __LINE__, what_failed);
        if (good) {
            const char *sentence = ember_error_message(error);
            check(strlen(sentence) > 10, __FILE__, __LINE__, what_failed);
            check(word == NULL || strstr(sentence, word) != NULL, __FILE__, __LINE__, what_failed);
            if (word != NULL && strstr(sentence, word) == NULL)
                printf("    %s does not name %s\n", sentence, word);
            ember_error_free(error);
        }
    } else if (wrote_error)
        check(error == NULL, __FILE__, __LINE__, what_failed);
    if (status == EMBER_OK)
        after_success(f, arguments, &result, handles);
    for (int i = 0; i < f->n && status != EMBER_OK; i++) {
        const struct parameter *p = &f->parameters[i];
        if (!is_output(p) || arguments[i].pointer == NULL)
            continue;
        if (status == EMBER_E_BUFFER_TOO_SMALL && strcmp(p->name, "n_needed") == 0)
            continue;
        const size_t from = struct_size_of(p->type) == 0 ? 0 : sizeof(size_t);
        const int untouched = memcmp(outputs[i] + from, poison + from, POISONED - from) == 0;
        check(untouched, __FILE__, __LINE__, what_failed);
        if (!untouched)
            printf("    %s was written\n", p->name);
    }
    return status;
}

/* A good call of `f` but for parameter `i`, which is `wrong`. */
static ember_status call_with(const struct function *f, int i, union value wrong, int want, const char *word,
                              const char *what)
{
    struct handles handles = {{NULL}};
    union value arguments[MOST_PARAMETERS];
    char what_failed[64];
    good_arguments(f, &handles, outputs, arguments);
    arguments[i] = wrong;
    snprintf(what_failed, sizeof what_failed, "%s %s", f->parameters[i].name, what);
    const ember_status status = call(f, arguments, &handles, want, word, what_failed);
    free_handles(&handles);
    return status;
}

static void wrong_handle(const struct function *f, int i, int type)
{
    const char *name = f->parameters[i].name;
    for (int other = 0; other < N_OPAQUE; other++) {
        if (other == type)
            continue;
        struct handles strange = {{NULL}};
        union value wrong = {.pointer = handle_of(&strange, other)};
        call_with(f, i, wrong, EMBER_E_INVALID_ARGUMENT, name, OPAQUE[other]);
        free_handles(&strange); /* alive still, or this would be noticed */
    }
    struct handles handles = {{NULL}};
    union value odd = {.pointer = (char *)handle_of(&handles, type) + 1};
    call_with(f, i, odd, EMBER_E_INVALID_ARGUMENT, name, "at an odd address");
    free_handles(&handles);
}

static void wrong_struct_size(const struct function *f, int i, size_t known)
{
    /* The smallest that is taken can hold the size and one more word. */
    const size_t least = 2 * sizeof(size_t);
    const size_t sizes[] = {0, 1, least - 1, SIZE_MAX, SIZE_MAX / 2 + 1, least, known, known + 64};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct handles handles = {{NULL}};
        union value arguments[MOST_PARAMETERS];
        good_arguments(f, &handles, outputs, arguments);
        memcpy(arguments[i].pointer, &sizes[s], sizeof *sizes);
        call(f, arguments, &handles, s < 5 ? EMBER_E_INVALID_ARGUMENT : EMBER_OK, s < 5 ? "struct_size" : NULL, "struct_size");
        const size_t what_failed = sizes[s] < known ? sizes[s] : known;
        int untouched = memcmp(outputs[i], &sizes[s], sizeof *sizes) == 0;
        for (size_t at = s < 5 ? sizeof *sizes : what_failed; at < known + 64; at++)
            untouched &= outputs[i][at] == POISON_BYTE;
        CHECK(untouched);
        free_handles(&handles);
    }
}

/* The pointers in parameter `i`. */
static void wrong_pointer(const struct function *f, int i)
{
    const struct parameter *p = &f->parameters[i];
    const int handle = handle_type(p->type);
    const union value null = {.pointer = NULL};
    /* A length of 0 allows NULL. */
    const int empty = strcmp(p->type, "const char *") == 0 && *good_text(f, p) == '\0';
    const int want = may_be_null(f, p) || empty ? ANY : EMBER_E_INVALID_ARGUMENT;
    call_with(f, i, null, want, want == ANY ? NULL : p->name, "NULL");
    if (handle >= 0) {
        wrong_handle(f, i, handle);
        return;
    }
    if (struct_size_of(p->type) > 0)
        wrong_struct_size(f, i, struct_size_of(p->type));
    /* Bytes lie anywhere; everything else needs an even address at least. */
    const int bytes = strstr(p->type, "char *") == p->type || strcmp(p->type, "const char *") == 0 ||
                      strstr(p->type, "uint8_t *") != NULL || strcmp(p->type, "bool *") == 0;
    if (!bytes && strcmp(p->type, "void *") != 0 && strcmp(p->name, "err") != 0) {
        struct handles handles = {{NULL}};
        union value arguments[MOST_PARAMETERS];
        good_arguments(f, &handles, outputs, arguments);
        arguments[i].pointer = (char *)arguments[i].pointer + 1;
        call(f, arguments, &handles, EMBER_E_INVALID_ARGUMENT, p->name, "odd address");
        free_handles(&handles);
    }
    if (strcmp(p->type, "const char *") == 0 && i + 1 < f->n && is(&f->parameters[i + 1], "size_t", NULL)) {
        static char bad[64];
        memset(bad, 0xff, sizeof bad - 1);
        const union value wrong = {.pointer = bad};
        if (*good_text(f, p) != '\0')
            call_with(f, i, wrong, EMBER_E_UTF8, p->name, "no UTF-8");
    }
}

static void wrong_size(const struct function *f, int i)
{
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 1, 0};
    /* The length of a text, whose largest value means that it ends at its NUL. */
    const int text = i > 0 && strcmp(f->parameters[i - 1].type, "const char *") == 0;
    /* A bound of which more than there can be is none, or is looked at where there is something that it is a bound of. */
    const int bound = strcmp(f->parameters[i].name, "most") == 0 || strcmp(f->parameters[i].name, "dimensions") == 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const union value wrong = {.whole = sizes[s]};
        const int is_good = bound || (text && sizes[s] == SIZE_MAX);
        const int want = sizes[s] == 0 ? ANY : is_good ? (int)good_status(f) : ANY_ERROR;
        call_with(f, i, wrong, want, NULL, sizes[s] == 0 ? "0" : "more than memory");
    }
}

static void wrong_number(const struct function *f, int i)
{
    const struct parameter *p = &f->parameters[i];
    static const uint64_t whole[] = {0, 1, INT32_MAX, (uint64_t)INT32_MAX + 1, UINT32_MAX, INT64_MAX, UINT64_MAX};
    static const int32_t numbers[] = {INT32_MIN, -2, 77, INT32_MAX};
    static const int64_t longs[] = {INT64_MIN, -1, INT64_MAX};
    static const double reals[] = {NAN, INFINITY, -INFINITY, -1, FLT_MAX, -FLT_MAX, 1e-45, -0.0, 0};
    if (is(p, "size_t", NULL))
        wrong_size(f, i);
    else if (is(p, "int32_t", "fd"))
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            call_with(f, i, (union value){.number = numbers[k]}, ANY_ERROR, p->name, "of no file");
    else if (is(p, "int32_t", "priority"))
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            call_with(f, i, (union value){.number = numbers[k]}, EMBER_OK, NULL, "extreme");
    else if (is(p, "int32_t", NULL))
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            call_with(f, i, (union value){.number = numbers[k]}, EMBER_E_INVALID_ARGUMENT, p->name, "no enumerator");
    else if (is(p, "int64_t", NULL))
        for (size_t k = 0; k < sizeof longs / sizeof *longs; k++)
            call_with(f, i, (union value){.number = longs[k]}, ANY, NULL, "extreme");
    else if (is(p, "float", NULL) || is(p, "double", NULL))
        for (size_t k = 0; k < sizeof reals / sizeof *reals; k++)
            /* As a value of metadata, everything is a number. */
            call_with(f, i, (union value){.real = reals[k]}, k > 0 || is(p, NULL, "value") ? ANY : (int)EMBER_E_INVALID_ARGUMENT,
                      k > 0 ? NULL : p->name, "no sensible number");
    else
        for (size_t k = 0; k < sizeof whole / sizeof *whole; k++)
            call_with(f, i, (union value){.whole = whole[k]}, ANY, NULL, "extreme");
}

/* The pointers among the chosen parameters are NULL. */
static void nulls_together(const struct function *f, unsigned chosen)
{
    struct handles handles = {{NULL}};
    union value arguments[MOST_PARAMETERS];
    good_arguments(f, &handles, outputs, arguments);
    for (int i = 0; i < f->n; i++)
        if (is_pointer(&f->parameters[i]) && (chosen >> i & 1))
            arguments[i].pointer = NULL;
    call(f, arguments, &handles, ANY, NULL, "several pointers NULL");
    free_handles(&handles);
}

static void misuse(const struct function *f)
{
    struct handles handles = {{NULL}};
    union value arguments[MOST_PARAMETERS];
    good_arguments(f, &handles, outputs, arguments);
    call(f, arguments, &handles, (int)good_status(f), NULL, "as it should be");
    free_handles(&handles);
    for (int i = 0; i < f->n; i++) {
        const struct parameter *p = &f->parameters[i];
        if (is_callback(p))
            call_with(f, i, (union value){.function = NULL}, may_be_null(f, p) ? EMBER_OK : EMBER_E_INVALID_ARGUMENT, p->name,
                      "NULL");
        else if (is_pointer(p))
            wrong_pointer(f, i);
        else if (strcmp(p->type, "bool") != 0) /* C makes every number a good one */
            wrong_number(f, i);
    }
    nulls_together(f, UINT_MAX);
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < i; k++)
            if (is_pointer(&f->parameters[i]) && is_pointer(&f->parameters[k]))
                nulls_together(f, 1u << i | 1u << k);
}

int main(int argc, char **argv)
{
    prepare(model_path(argc, argv));
    memset(poison, POISON_BYTE, sizeof poison);
    for (int i = 0; i < N_FUNCTIONS; i++)
        misuse(&FUNCTIONS[i]);
    printf("misuse: %d functions, %ld calls\n", N_FUNCTIONS, n_calls);
    put_away();
    return finish("misuse");
}

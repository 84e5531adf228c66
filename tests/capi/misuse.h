/* Calling any function of the header with arguments that are good but for what a test changes.
 *
 * The functions come from a table that is made of the header (tests/capi/abi/abi.py table), so a function that is new is
 * in the tests that include this file without anybody's doing. What it is given stands in GOOD where its parameters'
 * names do not say enough. */
#ifndef EMBER_TESTS_MISUSE_H
#define EMBER_TESTS_MISUSE_H

#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <unistd.h>

#include "check.h"

union value {
    void *pointer;
    uint64_t whole;
    int64_t number;
    double real;
    void (*function)(void);
};

enum { MOST_PARAMETERS = 12 };

struct parameter {
    const char *type, *name;
};

struct function {
    const char *name, *result;
    ember_status (*call)(const union value *arguments, union value *result);
    int n;
    struct parameter parameters[MOST_PARAMETERS];
};

struct sized {
    const char *name;
    size_t size;
};

#include "functions.h"

enum {
    N_FUNCTIONS = sizeof FUNCTIONS / sizeof *FUNCTIONS,
    N_OPAQUE = sizeof OPAQUE / sizeof *OPAQUE,
    N_SIZED = sizeof SIZED / sizeof *SIZED,
    CAPACITY = 1 << 18,   /* bytes of each output */
    POISONED = 1 << 12, /* of these */
    POISON_BYTE = 0xa5,
};

/* What is given where the type alone does not say it. `parameter` may stand for that of every function (NULL). */
struct good {
    const char *function, *parameter, *text;
    double number;
};

static const char *given_path; /* the model with a tokenizer */
static int given_fd;
#ifndef O_BINARY
#define O_BINARY 0 /* Windows ends files at Ctrl-Z otherwise */
#endif
static char state_path[] = "/tmp/ember-misuse-XXXXXX", saved_path[] = "/tmp/ember-misuse-XXXXXX";

#define TEMPLATE "{{ messages[0].content }}"

static const struct good GOOD[] = {
    {"ember_context_state_save_file", "path", saved_path, 0},
    {"ember_context_state_load_file", "path", state_path, 0},
    {NULL, "messages", "[{\"role\": \"user\", \"content\": \"Hello\"}]", 0},
    {"ember_conversation_add", "message", "{\"role\": \"user\", \"content\": \"Hello\"}", 0},
    {"ember_conversation_fork", "sequence", NULL, 1},
    {NULL, "thinking", NULL, 0},
    {NULL, "tools", "[{\"name\": \"f\"}]", 0},
    {NULL, "tool_choice", "auto", 0},
    {NULL, "finish_reason", NULL, 1},
    {"ember_chat_parser_push", "text", "Hi <tool_call>{\"name\": \"f\"}", 0},
    {NULL, "variables", "{\"x\": 1}", 0},
    {NULL, "template_text", TEMPLATE, 0},
    {"ember_model_chat_template", "name", "", 0},
    {"ember_model_meta_array", "key", "tokenizer.ggml.tokens", 0},
    {"ember_model_meta_array_string", "key", "tokenizer.ggml.tokens", 0},
    {"ember_model_meta_array_u64", "key", "tokenizer.ggml.token_type", 0},
    {"ember_model_meta_array_i64", "key", "tokenizer.ggml.token_type", 0},
    {NULL, "isa", "scalar", 0},
    {NULL, "schema", "{\"type\": \"object\"}", 0},
    {NULL, "regex", "[a-z]+", 0},
    {NULL, "grammar", "start: \"a\"", 0},
    {"ember_constraint_options_set_limit", "value", NULL, 1000},
    {"ember_completions_new", "n", NULL, 1},
    {"ember_completions_new_tokens", "n", NULL, 1},
    {"ember_model_meta_type", "key", "general.architecture", 0},
    {"ember_model_meta_string", "key", "general.architecture", 0},
    {"ember_model_meta_u64", "key", "gpt2.block_count", 0},
    {"ember_model_meta_i64", "key", "gpt2.block_count", 0},
    {"ember_model_meta_f64", "key", "gpt2.attention.layer_norm_epsilon", 0},
    {"ember_model_meta_bool", "key", "tokenizer.ggml.add_bos_token", 0},
    {"ember_context_logits", "index", NULL, 2},
    {NULL, "index", NULL, 0},
    {NULL, "from", NULL, 0},
    {NULL, "to", NULL, 1},
    {"ember_model_load_fd", "offset", NULL, 0},
    {"ember_model_load_fd", "len", NULL, 0},
    {NULL, "n_past", NULL, 2},
    {NULL, "sequence", NULL, 0},
    {NULL, "max_level", NULL, 1},
    {NULL, "n_texts", NULL, 1},
    {NULL, "n_documents", NULL, 1},
    {"ember_sampler_add_mirostat_1", "m", NULL, 100},
    {NULL, "n_prompt", NULL, 1},
    {NULL, "n_tokens", NULL, 3},
    {NULL, "base", NULL, 1.75},
    {NULL, "capacity", NULL, CAPACITY / 8},
    {"ember_model_inspect", "capacity", NULL, CAPACITY},
    {"ember_context_state_save", "capacity", NULL, CAPACITY},
};

/* What a good call gives where that is not EMBER_OK. */
static inline ember_status good_status(const struct function *f)
{
    /* The bundled model has no arrays of these. */
    if (strcmp(f->name, "ember_model_meta_array_f64") == 0 || strcmp(f->name, "ember_model_meta_array_bool") == 0)
        return EMBER_E_NOT_FOUND;
    /* It has learned positions. */
    if (strcmp(f->name, "ember_context_sequence_shift") == 0)
        return EMBER_E_UNSUPPORTED;
#ifdef _WIN32
    if (strcmp(f->name, "ember_model_load_fd") == 0)
        return EMBER_E_UNSUPPORTED;
#endif
    return EMBER_OK;
}

/* A model that scores texts. */
#define RANKING "tests/fixtures/rank/bert-rerank.gguf"

static ember_model *shared_model, *ranking_model;
static uint8_t *file_bytes, *state_bytes, *saved_bytes;
static size_t file_size, state_size, state_at, saved_size;
static const uint32_t some_ids[] = {300, 301, 302}, some_positions[] = {3, 4, 5}, some_sequences[] = {0, 0, 0};
static const uint8_t some_wishes[] = {0, 1, 1};
static const float some_floats[] = {0.5f, -1.0f, 0.25f};
static const char *const some_texts[] = {"Once upon a time", "the sea", "x"};
static const size_t text_lengths[] = {16, 7, 1}, token_lengths[] = {3};

/* Whether `type` is that of a handle, "const ember_model *" or "ember_model *": its number among the opaque types, or -1. */
static inline int handle_type(const char *type)
{
    if (strncmp(type, "const ", 6) == 0)
        type += 6;
    for (int i = 0; i < N_OPAQUE; i++) {
        size_t n = strlen(OPAQUE[i]);
        if (strncmp(type, OPAQUE[i], n) == 0 && strcmp(type + n, " *") == 0)
            return i;
    }
    return -1;
}

static inline int opaque(const char *name)
{
    for (int i = 0; i < N_OPAQUE; i++)
        if (strcmp(OPAQUE[i], name) == 0)
            return i;
    printf("there is no opaque type %s\n", name);
    exit(1);
}

/* The size of the struct that begins with its size and that "ember_event *" points to; 0 for all other types. */
static inline size_t struct_size_of(const char *type)
{
    for (int i = 0; i < N_SIZED; i++) {
        size_t n = strlen(SIZED[i].name);
        if (strncmp(type, SIZED[i].name, n) == 0 && strcmp(type + n, " *") == 0)
            return SIZED[i].size;
    }
    return 0;
}

static inline int is_pointer(const struct parameter *p)
{
    return p->type[strlen(p->type) - 1] == '*';
}

static inline int is(const struct parameter *p, const char *type, const char *name)
{
    return (type == NULL || strcmp(p->type, type) == 0) && (name == NULL || strcmp(p->name, name) == 0);
}

/* Where a function writes: every pointer to what is not constant, but for handles, callbacks' data and the error. */
static inline int is_output(const struct parameter *p)
{
    const int through_const = strncmp(p->type, "const ", 6) == 0 && strcmp(p->type + strlen(p->type) - 2, "**") != 0;
    return is_pointer(p) && !through_const && handle_type(p->type) < 0 && strcmp(p->type, "void *") != 0 &&
           strcmp(p->name, "err") != 0 && strncmp(p->name, "texts", 5) != 0;
}

static inline int32_t stop_at_once(const ember_event *event, void *user_data)
{
    (void)event, (void)user_data;
    return 1;
}

static inline int32_t stop_reply(const ember_chat_event *event, void *user_data)
{
    (void)event, (void)user_data;
    return 1;
}

static inline uint32_t drop_one(uint32_t n_tokens, uint32_t n_ctx, uint32_t n_turns, void *user_data)
{
    (void)n_tokens, (void)n_ctx, (void)n_turns, (void)user_data;
    return 1;
}

static inline void ignore_line(int32_t level, const char *text, size_t len, void *user_data)
{
    (void)level, (void)text, (void)len, (void)user_data;
}

static inline int32_t go_on(float done, void *user_data)
{
    (void)done, (void)user_data;
    return 0;
}

static inline void *allocate(size_t size, size_t alignment, void *user_data)
{
    (void)size, (void)alignment, (void)user_data;
    return NULL;
}

static inline void deallocate(void *block, size_t size, size_t alignment, void *user_data)
{
    (void)block, (void)size, (void)alignment, (void)user_data;
}

static inline void release(void *user_data)
{
    (void)user_data;
}

static inline int32_t leave_candidates(const uint32_t *tokens, float *logits, size_t n, void *user_data)
{
    (void)tokens, (void)logits, (void)n, (void)user_data;
    return 0;
}

static inline int32_t take_bytes(const uint8_t *data, size_t len, void *user_data)
{
    (void)data, (void)len, (void)user_data;
    return 0;
}

/* The state of a small context from its beginning on, for each good call anew. */
static inline int64_t give_bytes(uint8_t *buffer, size_t capacity, void *user_data)
{
    const size_t left = state_size - state_at, n = left < capacity ? left : capacity;
    (void)user_data;
    memcpy(buffer, state_bytes + state_at, n);
    state_at += n;
    return (int64_t)n;
}

static inline int is_callback(const struct parameter *p)
{
    const size_t n = strlen(p->type), end = strlen("_callback");
    return n > end && strcmp(p->type + n - end, "_callback") == 0;
}

static inline void (*good_callback(const struct parameter *p))(void)
{
    static const struct {
        const char *type;
        void (*function)(void);
    } callbacks[] = {
        {"ember_event_callback", (void (*)(void))stop_at_once},
        {"ember_log_callback", (void (*)(void))ignore_line},
        {"ember_chat_event_callback", (void (*)(void))stop_reply},
        {"ember_full_callback", (void (*)(void))drop_one},
        {"ember_progress_callback", (void (*)(void))go_on},
        {"ember_allocate_callback", (void (*)(void))allocate},
        {"ember_deallocate_callback", (void (*)(void))deallocate},
        {"ember_release_callback", (void (*)(void))release},
        {"ember_candidates_callback", (void (*)(void))leave_candidates},
        {"ember_write_callback", (void (*)(void))take_bytes},
        {"ember_read_callback", (void (*)(void))give_bytes},
    };
    for (size_t i = 0; i < sizeof callbacks / sizeof *callbacks; i++)
        if (strcmp(callbacks[i].type, p->type) == 0)
            return callbacks[i].function;
    printf("what is good for %s?\n", p->type);
    exit(1);
}

/* The handles of one call, by number of their type. A test may put another in the place of one. */
struct handles {
    void *of[N_OPAQUE];
};

/* The constructors and destructors of handles have their names from the type: the table has them. */
static inline const struct function *function(const char *type, const char *verb)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", type, verb);
    for (int i = 0; i < N_FUNCTIONS; i++)
        if (strcmp(FUNCTIONS[i].name, name) == 0)
            return &FUNCTIONS[i];
    return NULL;
}

static inline void free_handle(int type, void *handle)
{
    const struct function *f = function(OPAQUE[type], "_free");
    union value argument = {.pointer = handle}, result;
    if (f == NULL)
        f = function(OPAQUE[type], "_release");
    if (f == NULL) {
        printf("nothing frees an %s\n", OPAQUE[type]);
        exit(1);
    }
    f->call(&argument, &result);
}

/* A small context that has decoded three tokens. */
static inline void *small_context(void)
{
    ember_context_options *options = NULL;
    ember_context *context = NULL;
    OK(ember_context_options_new(&options, E));
    OK(ember_context_options_set_n_ctx(options, 64, E));
    OK(ember_context_options_set_n_seq(options, 2, E));
    OK(ember_context_options_set_n_threads(options, 1, E));
    OK(ember_context_new(shared_model, options, &context, E));
    OK(ember_context_decode(context, some_ids, NULL, NULL, NULL, 3, E));
    ember_context_options_free(options);
    return context;
}

/* Whether `f` scores texts, which the bundled model does not. */
static inline int scores_texts(const struct function *f)
{
    return strcmp(f->name, "ember_classify") == 0 || strcmp(f->name, "ember_rerank") == 0 ||
           strncmp(f->name, "ember_model_label", 17) == 0;
}

static inline void *ranking_context(void)
{
    ember_context *context = NULL;
    OK(ember_context_new(ranking_model, NULL, &context, E));
    return context;
}

static inline void *small_generator(ember_context *context)
{
    ember_generator *generator = NULL;
    OK(ember_generator_new(context, "The sea", 7, NULL, NULL, &generator, E));
    return generator;
}

/* Two completions that have ended. */
static inline void *small_completions(ember_context *context)
{
    ember_generate_options *options = NULL;
    ember_completions *completions = NULL;
    ember_event event = {.struct_size = sizeof event};
    uint32_t index;
    OK(ember_generate_options_new(&options, E));
    OK(ember_generate_options_set_max_tokens(options, 1, E));
    OK(ember_generate_options_set_logprobs(options, true, E));
    OK(ember_completions_new(context, "The sea", 7, 2, options, NULL, &completions, E));
    while (OK(ember_completions_next(completions, &event, &index, E)) && event.kind != EMBER_EVENT_NONE)
        ;
    ember_generate_options_free(options);
    return completions;
}

/* A conversation with something to reply to, by a template that knows thoughts. */
static inline void *small_conversation(ember_context *context)
{
    ember_chat_options *options = NULL;
    ember_conversation *conversation = NULL;
    OK(ember_chat_options_new(&options, E));
    OK(ember_chat_options_set_template(options, TEMPLATE "{# <think></think> #}", EMBER_NUL_TERMINATED, E));
    OK(ember_conversation_new(context, NULL, 0, options, NULL, &conversation, E));
    OK(ember_conversation_add(conversation, "{\"role\": \"user\", \"content\": \"Hello\"}", EMBER_NUL_TERMINATED, E));
    ember_chat_options_free(options);
    return conversation;
}

/* An engine with something to do, so that nobody waits for ever for that. */
static inline void *small_engine(void)
{
    ember_engine_options *options = NULL;
    ember_context_options *context_options = NULL;
    ember_engine *engine = NULL;
    ember_request *request = NULL;
    OK(ember_context_options_new(&context_options, E));
    OK(ember_context_options_set_n_ctx(context_options, 64, E));
    OK(ember_context_options_set_n_threads(context_options, 1, E));
    OK(ember_engine_options_new(&options, E));
    OK(ember_engine_options_set_n_parallel(options, 2, E));
    OK(ember_engine_options_set_context_options(options, context_options, E));
    OK(ember_engine_new(shared_model, options, &engine, E));
    OK(ember_engine_submit_tokens(engine, some_ids, 3, NULL, NULL, NULL, NULL, &request, E));
    ember_request_free(request);
    ember_engine_options_free(options);
    ember_context_options_free(context_options);
    return engine;
}

static inline void *small_request(ember_engine *engine)
{
    ember_request *request = NULL;
    OK(ember_engine_submit_tokens(engine, some_ids, 3, NULL, NULL, NULL, NULL, &request, E));
    return request;
}

/* A new handle of any type. Options come with their defaults, but for a template, which the bundled model lacks. */
static inline void *make_handle(int type, struct handles *handles)
{
    const char *name = OPAQUE[type];
    void *made = NULL;
    if (strcmp(name, "ember_model") == 0)
        return ember_model_retain(shared_model);
    if (strcmp(name, "ember_context") == 0)
        return small_context();
    if (strcmp(name, "ember_tokenizer") == 0) {
        OK(ember_model_tokenizer(shared_model, (ember_tokenizer **)(void *)&made, E));
        return made;
    }
    if (strcmp(name, "ember_generator") == 0) {
        const int context = opaque("ember_context");
        if (handles->of[context] == NULL)
            handles->of[context] = small_context();
        return small_generator(handles->of[context]);
    }
    if (strcmp(name, "ember_completions") == 0) {
        const int context = opaque("ember_context");
        if (handles->of[context] == NULL)
            handles->of[context] = small_context();
        return small_completions(handles->of[context]);
    }
    if (strcmp(name, "ember_conversation") == 0) {
        const int context = opaque("ember_context");
        if (handles->of[context] == NULL)
            handles->of[context] = small_context();
        return small_conversation(handles->of[context]);
    }
    if (strcmp(name, "ember_chat_parser") == 0) {
        OK(ember_chat_parser_new(shared_model, NULL, NULL, 0, (ember_chat_parser **)(void *)&made, E));
        return made;
    }
    if (strcmp(name, "ember_engine") == 0)
        return small_engine();
    if (strcmp(name, "ember_request") == 0) {
        const int engine = opaque("ember_engine");
        if (handles->of[engine] == NULL)
            handles->of[engine] = small_engine();
        return small_request(handles->of[engine]);
    }
    if (strcmp(name, "ember_error") == 0) {
        (void)ember_model_load(NULL, 0, NULL, NULL, (ember_error **)(void *)&made);
        return made;
    }
    if (strcmp(name, "ember_sampler") == 0) {
        OK(ember_sampler_new(1, (ember_sampler **)(void *)&made, E));
        return made;
    }
    if (strcmp(name, "ember_constraint") == 0) {
        OK(ember_constraint_new_regex(shared_model, "[a-z]+", 6, NULL, (ember_constraint **)(void *)&made, E));
        return made;
    }
    const struct function *f = function(name, "_new");
    union value arguments[] = {{.pointer = &made}, {.pointer = NULL}}, result;
    if (f == NULL || f->n != 2 || f->call(arguments, &result) != EMBER_OK) {
        printf("no test can make an %s\n", name);
        exit(1);
    }
    if (strcmp(name, "ember_chat_options") == 0)
        OK(ember_chat_options_set_template(made, TEMPLATE, EMBER_NUL_TERMINATED, E));
    return made;
}

static inline void *handle_of(struct handles *handles, int type)
{
    if (handles->of[type] == NULL)
        handles->of[type] = make_handle(type, handles);
    return handles->of[type];
}

static inline void free_handles(struct handles *handles)
{
    for (int i = 0; i < N_OPAQUE; i++) {
        free_handle(i, handles->of[i]);
        handles->of[i] = NULL;
    }
}

static inline const struct good *good_of(const struct function *f, const struct parameter *p)
{
    const struct good *found = NULL;
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        const struct good *g = &GOOD[i];
        if (strcmp(g->parameter, p->name) == 0 && (g->function == NULL || strcmp(g->function, f->name) == 0))
            found = found != NULL && found->function != NULL ? found : g;
    }
    return found;
}

static inline const char *good_text(const struct function *f, const struct parameter *p)
{
    const struct good *g = good_of(f, p);
    if (g == NULL && strcmp(p->name, "path") == 0)
        return given_path;
    return g != NULL && g->text != NULL ? g->text : "Once upon a time";
}

/* A good array, and its length to `n`. */
static inline const void *good_array(const struct function *f, const struct parameter *p, size_t *n)
{
    *n = 3;
    if (is(p, "const uint8_t *", "data") && strcmp(f->name, "ember_context_state_load") == 0)
        return *n = state_size, (const void *)state_bytes;
    if (is(p, "const uint8_t *", "saved"))
        return *n = saved_size, (const void *)saved_bytes;
    if (is(p, "const uint8_t *", "data"))
        return *n = file_size, (const void *)file_bytes;
    if (is(p, "const uint8_t *", "bytes"))
        return *n = 16, (const void *)some_texts[0];
    if (is(p, "const uint8_t *", NULL))
        return some_wishes;
    if (is(p, NULL, "positions"))
        return some_positions;
    if (is(p, NULL, "sequences"))
        return some_sequences;
    if (is(p, NULL, "cpus"))
        return *n = 1, (const void *)some_sequences;
    if (is(p, "const uint32_t *", NULL))
        return some_ids;
    if (is(p, "const float *", NULL))
        return some_floats;
    if (is(p, "const size_t *", NULL))
        return strcmp(f->name, "ember_embed_tokens") == 0 ? (const void *)token_lengths : (const void *)text_lengths;
    if (is(p, "const char *const *", NULL))
        return some_texts;
    printf("%s: what is good for %s %s?\n", f->name, p->type, p->name);
    exit(1);
}

/* The arguments of a good call. Outputs are `outputs[i]`, CAPACITY bytes that begin with poison, structs with their size. */
static inline void good_arguments(const struct function *f, struct handles *handles, uint8_t (*outputs)[CAPACITY],
                           union value *arguments)
{
    size_t length = 1; /* of the array or text before */
    state_at = 0;
    for (int i = 0; i < f->n; i++) {
        const struct parameter *p = &f->parameters[i];
        const struct good *g = good_of(f, p);
        const int handle = handle_type(p->type);
        union value *v = &arguments[i];
        v->whole = 0;
        if (handle >= 0 && handles->of[handle] == NULL && scores_texts(f)) {
            if (handle == opaque("ember_model"))
                handles->of[handle] = ember_model_retain(ranking_model);
            else if (handle == opaque("ember_context"))
                handles->of[handle] = ranking_context();
        }
        if (handle >= 0)
            v->pointer = handle_of(handles, handle);
        else if (strcmp(p->name, "err") == 0)
            v->pointer = &last_error;
        else if (is_output(p)) {
            const size_t size = struct_size_of(p->type);
            memset(outputs[i], POISON_BYTE, POISONED);
            memcpy(outputs[i], &size, size == 0 ? 0 : sizeof size);
            v->pointer = outputs[i];
        } else if (strcmp(p->type, "const char *") == 0) {
            v->pointer = (void *)(uintptr_t)good_text(f, p);
            length = strlen(v->pointer);
        } else if (strcmp(p->type, "void *") == 0)
            v->pointer = handles;
        else if (is_pointer(p)) {
            v->pointer = (void *)(uintptr_t)good_array(f, p, &length);
        } else if (is_callback(p))
            v->function = good_callback(p);
        else if (strcmp(p->type, "size_t") == 0)
            v->whole = g != NULL ? (uint64_t)g->number : length;
        else if (strcmp(p->type, "float") == 0 || strcmp(p->type, "double") == 0)
            v->real = g != NULL ? g->number : 0.5;
        else if (is(p, "int32_t", "fd"))
            v->number = given_fd;
        else if (strcmp(p->type, "int32_t") == 0 || strcmp(p->type, "int64_t") == 0)
            v->number = g != NULL ? (int64_t)g->number : 0;
        else
            v->whole = g != NULL ? (uint64_t)g->number : 1;
    }
}

/* Frees what a call that succeeded made, and forgets a handle that it freed. */
static inline void after_success(const struct function *f, const union value *arguments, const union value *result,
                          struct handles *handles)
{
    const size_t n = strlen(f->name);
    const int frees = (n > 5 && strcmp(f->name + n - 5, "_free") == 0) || (n > 8 && strcmp(f->name + n - 8, "_release") == 0);
    for (int i = 0; i < f->n; i++) {
        const char *type = f->parameters[i].type;
        const int handle = handle_type(type);
        if (frees && handle >= 0 && arguments[i].pointer == handles->of[handle])
            handles->of[handle] = NULL;
        for (int t = 0; t < N_OPAQUE; t++) {
            const size_t length = strlen(OPAQUE[t]);
            if (strncmp(type, OPAQUE[t], length) == 0 && strcmp(type + length, " **") == 0 &&
                strcmp(f->parameters[i].name, "err") != 0 && arguments[i].pointer != NULL)
                free_handle(t, *(void **)arguments[i].pointer);
        }
    }
    if (handle_type(f->result) >= 0)
        free_handle(handle_type(f->result), result->pointer);
    if (strcmp(f->name, "ember_log_set") == 0)
        OK(ember_log_set(NULL, NULL, EMBER_LOG_ERROR, E));
}

/* A model with a chat template, and all that good calls need. */
static inline void prepare(const char *path)
{
    ember_model_options *options = NULL;
    given_path = path;
    OK(ember_model_options_new(&options, E));
    OK(ember_model_options_set_meta_string(options, "tokenizer.chat_template", EMBER_NUL_TERMINATED, TEMPLATE,
                                           EMBER_NUL_TERMINATED, E));
    /* Marks for gaps, and a proposal for the choice of tokens. */
    OK(ember_model_options_set_meta_i64(options, "tokenizer.ggml.fim_pre_token_id", EMBER_NUL_TERMINATED, 5, E));
    OK(ember_model_options_set_meta_i64(options, "tokenizer.ggml.fim_suf_token_id", EMBER_NUL_TERMINATED, 6, E));
    OK(ember_model_options_set_meta_i64(options, "tokenizer.ggml.fim_mid_token_id", EMBER_NUL_TERMINATED, 7, E));
    OK(ember_model_options_set_meta_f64(options, "general.sampling.temp", EMBER_NUL_TERMINATED, 0.8, E));
    OK(ember_model_load(path, EMBER_NUL_TERMINATED, options, &shared_model, E));
    OK(ember_model_load(RANKING, EMBER_NUL_TERMINATED, NULL, &ranking_model, E));
    ember_model_options_free(options);

    given_fd = open(path, O_RDONLY | O_BINARY);
    const off_t size = lseek(given_fd, 0, SEEK_END);
    if (size <= 0 || lseek(given_fd, 0, SEEK_SET) != 0)
        exit(1);
    file_size = (size_t)size;
    file_bytes = malloc(file_size);
    if (file_bytes == NULL || read(given_fd, file_bytes, file_size) != size)
        exit(1);

    ember_context *context = small_context();
    const int a = mkstemp(state_path), b = mkstemp(saved_path);
    if (a < 0 || b < 0 || close(a) != 0 || close(b) != 0)
        exit(1);
    OK(ember_context_state_save_file(context, 0, state_path, EMBER_NUL_TERMINATED, E));
    CHECK(ember_context_state_save(context, 0, NULL, 0, &state_size, NULL) == EMBER_E_BUFFER_TOO_SMALL);
    state_bytes = malloc(state_size);
    OK(ember_context_state_save(context, 0, state_bytes, state_size, &state_size, E));
    ember_conversation *conversation = small_conversation(context);
    (void)ember_conversation_save(conversation, NULL, 0, &saved_size, NULL);
    saved_bytes = malloc(saved_size);
    OK(ember_conversation_save(conversation, saved_bytes, saved_size, &saved_size, E));
    ember_conversation_free(conversation);
    ember_context_free(context);
}

static inline void put_away(void)
{
    unlink(state_path);
    unlink(saved_path);
    close(given_fd);
    free(file_bytes);
    free(state_bytes);
    free(saved_bytes);
    ember_model_release(shared_model);
    ember_model_release(ranking_model);
}

#endif

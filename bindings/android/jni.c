/* Ember for the Java virtual machine, by JNI: what bindings/android/kotlin calls, over ember.h alone. Texts are UTF-8 in byte arrays, for the
 * strings of JNI are not UTF-8. Handles are pointers as numbers; the library refuses 0. What fails throws ember.EmberException. No function
 * calls JNI while an exception is pending, but for what JNI allows then. */
#include "ember.h"

#include <jni.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTION(type, name) JNIEXPORT type JNICALL Java_ember_kotlin_Jni_##name
#define POINTER(handle) ((void *)(intptr_t)(handle))
#define HANDLE(pointer) ((jlong)(intptr_t)(pointer))

static jclass exception_class, memory_error_class, bytes_class;
static jmethodID exception_new, progress_call;

static jclass class_of(JNIEnv *env, const char *name) {
    jclass local = (*env)->FindClass(env, name);
    jclass kept = local ? (*env)->NewGlobalRef(env, local) : NULL;
    if (local) (*env)->DeleteLocalRef(env, local);
    return kept;
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved) {
    JNIEnv *env = NULL;
    jclass progress;
    (void)reserved;
    if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
    exception_class = class_of(env, "ember/EmberException");
    memory_error_class = exception_class ? class_of(env, "java/lang/OutOfMemoryError") : NULL;
    bytes_class = memory_error_class ? class_of(env, "[B") : NULL;
    if (!bytes_class) return JNI_ERR; /* the exception is pending */
    exception_new = (*env)->GetMethodID(env, exception_class, "<init>", "(I[B)V");
    if (!exception_new || !(progress = (*env)->FindClass(env, "ember/kotlin/Progress"))) return JNI_ERR;
    progress_call = (*env)->GetMethodID(env, progress, "at", "(F)V");
    return progress_call ? JNI_VERSION_1_6 : JNI_ERR;
}

static jbyteArray bytes(JNIEnv *env, const void *from, size_t n) {
    jbyteArray to;
    if ((*env)->ExceptionCheck(env)) return NULL;
    if (n > INT32_MAX) {
        (*env)->ThrowNew(env, memory_error_class, "what the library gives is longer than an array can be");
        return NULL;
    }
    to = (*env)->NewByteArray(env, (jsize)n);
    if (to && n) (*env)->SetByteArrayRegion(env, to, 0, (jsize)n, from);
    return (*env)->ExceptionCheck(env) ? NULL : to;
}

static void no_memory(JNIEnv *env) {
    if (!(*env)->ExceptionCheck(env)) (*env)->ThrowNew(env, memory_error_class, "there is no memory for what is given to the library");
}

/* Whether a call succeeded; throws where it did not. What a function of Java's threw meanwhile goes before. Frees the error. */
static bool ok(JNIEnv *env, ember_status status, ember_error **err) {
    const char *message = *err ? ember_error_message(*err) : ember_status_name(status);
    if (status != EMBER_OK && !(*env)->ExceptionCheck(env)) {
        jbyteArray text = bytes(env, message, strlen(message));
        jobject e = text ? (*env)->NewObject(env, exception_class, exception_new, (jint)status, text) : NULL;
        if (e && !(*env)->ExceptionCheck(env)) (*env)->Throw(env, e);
    }
    ember_error_free(*err);
    *err = NULL;
    return status == EMBER_OK && !(*env)->ExceptionCheck(env);
}

/* A copy of a byte array, or of none; a NUL follows it. */
struct text {
    char *start;
    size_t length;
};

static bool take(JNIEnv *env, jbyteArray from, struct text *to) {
    to->start = NULL;
    to->length = 0;
    if ((*env)->ExceptionCheck(env)) return false;
    if (from) to->length = (size_t)(*env)->GetArrayLength(env, from);
    to->start = malloc(to->length + 1);
    if (!to->start) {
        no_memory(env);
        return false;
    }
    if (from) (*env)->GetByteArrayRegion(env, from, 0, (jsize)to->length, (jbyte *)to->start);
    to->start[to->length] = 0;
    if (!(*env)->ExceptionCheck(env)) return true;
    free(to->start);
    to->start = NULL;
    return false;
}

/* The same of an array of byte arrays. */
struct texts {
    char **starts;
    size_t *lengths;
    size_t n;
};

static void drop(struct texts *all) {
    for (size_t i = 0; all->starts && i < all->n; i++) free(all->starts[i]);
    free(all->starts);
    free(all->lengths);
}

static bool take_all(JNIEnv *env, jobjectArray from, struct texts *to) {
    size_t n = from ? (size_t)(*env)->GetArrayLength(env, from) : 0;
    to->n = n;
    to->starts = calloc(n + 1, sizeof *to->starts);
    to->lengths = calloc(n + 1, sizeof *to->lengths);
    if (!to->starts || !to->lengths) no_memory(env);
    for (size_t i = 0; i < n && !(*env)->ExceptionCheck(env); i++) {
        struct text one = {NULL, 0};
        jbyteArray bytes = (*env)->GetObjectArrayElement(env, from, (jsize)i);
        if ((*env)->ExceptionCheck(env)) break;
        take(env, bytes, &one);
        to->starts[i] = one.start;
        to->lengths[i] = one.length;
        if (bytes) (*env)->DeleteLocalRef(env, bytes);
    }
    if (!(*env)->ExceptionCheck(env)) return true;
    drop(to);
    return false;
}

/* Options in numbers: bit i of the first says whether number i is given. Floating-point numbers are given by their bits. */
enum { MOST = 32 };

static bool numbers(JNIEnv *env, jlongArray from, jlong to[MOST]) {
    jsize n;
    memset(to, 0, MOST * sizeof *to);
    if (!from) return true;
    n = (*env)->GetArrayLength(env, from);
    (*env)->GetLongArrayRegion(env, from, 0, n < MOST ? n : MOST, to);
    return !(*env)->ExceptionCheck(env);
}

static bool given(const jlong *all, int i) { return all[0] >> i & 1; }

static float real(jlong bits) {
    int32_t low = (int32_t)bits;
    float f;
    memcpy(&f, &low, sizeof f);
    return f;
}

static jlong bits(float f) {
    int32_t low;
    memcpy(&low, &f, sizeof low);
    return low;
}

static void give(JNIEnv *env, jlongArray to, const jlong *from, jsize n) {
    if (to && !(*env)->ExceptionCheck(env)) (*env)->SetLongArrayRegion(env, to, 0, n, from);
}

/* Sets an option where it is given, and nothing where an earlier call failed. */
#define SET(i, call) \
    if (status == EMBER_OK && given(n, i)) status = call

/* ---- Cancel tokens ---- */

FUNCTION(jlong, tokenNew)(JNIEnv *env, jclass self) {
    ember_cancel_token *token = NULL;
    ember_error *err = NULL;
    (void)self;
    return ok(env, ember_cancel_token_new(&token, &err), &err) ? HANDLE(token) : 0;
}

FUNCTION(void, tokenCancel)(JNIEnv *env, jclass self, jlong token) {
    (void)env, (void)self;
    ember_cancel_token_cancel(POINTER(token));
}

FUNCTION(void, tokenReset)(JNIEnv *env, jclass self, jlong token) {
    (void)env, (void)self;
    ember_cancel_token_reset(POINTER(token));
}

FUNCTION(void, tokenFree)(JNIEnv *env, jclass self, jlong token) {
    (void)env, (void)self;
    ember_cancel_token_free(POINTER(token));
}

/* ---- Models ---- */

struct progress {
    JNIEnv *env;
    jobject call;
};

static int32_t progress(float done, void *user_data) {
    const struct progress *to = user_data;
    if ((*to->env)->ExceptionCheck(to->env)) return 1;
    (*to->env)->CallVoidMethod(to->env, to->call, progress_call, done);
    return (*to->env)->ExceptionCheck(to->env);
}

/* Numbers: whether files are mapped, the memory limit. `path` is null for a descriptor. */
FUNCTION(jlong, modelLoad)(JNIEnv *env, jclass self, jbyteArray path, jint descriptor, jlong offset, jlong length, jlongArray options, jlong token, jobject call) {
    struct progress to = {env, call};
    ember_model_options *how = NULL;
    ember_model *model = NULL;
    ember_error *err = NULL;
    ember_status status;
    struct text name;
    jlong n[MOST];
    (void)self;
    if (!numbers(env, options, n) || !take(env, path, &name)) return 0;
    status = ember_model_options_new(&how, &err);
    SET(1, ember_model_options_set_use_mmap(how, n[1] != 0, &err));
    SET(2, ember_model_options_set_memory_limit(how, (uint64_t)n[2], &err));
    if (status == EMBER_OK && token) status = ember_model_options_set_cancel_token(how, POINTER(token), &err);
    if (status == EMBER_OK && call) status = ember_model_options_set_progress(how, progress, &to, &err);
    if (status == EMBER_OK) {
        status = path ? ember_model_load(name.start, name.length, how, &model, &err)
                      : ember_model_load_fd(descriptor, (uint64_t)offset, (uint64_t)length, how, &model, &err);
    }
    ember_model_options_free(how);
    free(name.start);
    if (ok(env, status, &err)) return HANDLE(model);
    ember_model_release(model); /* Java's function threw and the library loaded all the same */
    return 0;
}

FUNCTION(jlong, modelRetain)(JNIEnv *env, jclass self, jlong model) {
    (void)env, (void)self;
    return HANDLE(ember_model_retain(POINTER(model)));
}

FUNCTION(void, modelFree)(JNIEnv *env, jclass self, jlong model) {
    (void)env, (void)self;
    ember_model_release(POINTER(model));
}

FUNCTION(void, modelInfo)(JNIEnv *env, jclass self, jlong model, jlongArray to) {
    ember_model_info info = {.struct_size = sizeof info};
    ember_error *err = NULL;
    (void)self;
    if (ok(env, ember_model_info_get(POINTER(model), &info, &err), &err)) {
        const jlong all[] = {(jlong)info.n_params, (jlong)info.file_size, info.n_vocab, info.n_ctx_train, info.n_embd, info.n_embd_out, info.n_layer, info.causal, info.has_chat_template, info.pooling};
        give(env, to, all, sizeof all / sizeof *all);
    }
}

/* Tokens that a function writes: it is called for their number, and again. */
#define TOKENS(call) \
    uint32_t *tokens = NULL; \
    size_t capacity = 0, needed = 0; \
    jintArray result = NULL; \
    for (;;) { \
        status = call; \
        if (status != EMBER_E_BUFFER_TOO_SMALL) break; \
        ember_error_free(err); \
        err = NULL; \
        free(tokens); \
        capacity = needed; \
        tokens = malloc((capacity + 1) * sizeof *tokens); \
        if (!tokens) { \
            no_memory(env); \
            break; \
        } \
    } \
    if (ok(env, status, &err) && (result = (*env)->NewIntArray(env, (jsize)needed)) && needed) { \
        (*env)->SetIntArrayRegion(env, result, 0, (jsize)needed, (const jint *)tokens); \
    } \
    free(tokens)

FUNCTION(jintArray, modelTokenize)(JNIEnv *env, jclass self, jlong model, jbyteArray text, jboolean add, jboolean parse) {
    ember_error *err = NULL;
    ember_status status;
    struct text said;
    (void)self;
    if (!take(env, text, &said)) return NULL;
    TOKENS(ember_model_tokenize(POINTER(model), said.start, said.length, add, parse, tokens, capacity, &needed, &err));
    free(said.start);
    return result;
}

FUNCTION(jlong, constraintNew)(JNIEnv *env, jclass self, jlong model, jint kind, jbyteArray text) {
    ember_constraint *made = NULL;
    ember_error *err = NULL;
    ember_status status;
    struct text form;
    (void)self;
    if (!take(env, text, &form)) return 0;
    switch (kind) {
    case 0: status = ember_constraint_new_json_schema(POINTER(model), form.start, form.length, NULL, &made, &err); break;
    case 1: status = ember_constraint_new_regex(POINTER(model), form.start, form.length, NULL, &made, &err); break;
    default: status = ember_constraint_new_lark(POINTER(model), form.start, form.length, NULL, &made, &err);
    }
    free(form.start);
    return ok(env, status, &err) ? HANDLE(made) : 0;
}

FUNCTION(void, constraintFree)(JNIEnv *env, jclass self, jlong constraint) {
    (void)env, (void)self;
    ember_constraint_free(POINTER(constraint));
}

/* ---- Contexts ---- */

/* Numbers: positions, threads, sequences, batch, memory limit. */
FUNCTION(jlong, contextNew)(JNIEnv *env, jclass self, jlong model, jlongArray options, jlong token) {
    ember_context_options *how = NULL;
    ember_context *context = NULL;
    ember_error *err = NULL;
    ember_status status;
    jlong n[MOST];
    (void)self;
    if (!numbers(env, options, n)) return 0;
    status = ember_context_options_new(&how, &err);
    SET(1, ember_context_options_set_n_ctx(how, (uint32_t)n[1], &err));
    SET(2, ember_context_options_set_n_threads(how, (uint32_t)n[2], &err));
    SET(3, ember_context_options_set_n_seq(how, (uint32_t)n[3], &err));
    SET(4, ember_context_options_set_n_batch(how, (uint32_t)n[4], &err));
    SET(5, ember_context_options_set_memory_limit(how, (uint64_t)n[5], &err));
    if (status == EMBER_OK) status = ember_context_new(POINTER(model), how, &context, &err);
    if (status == EMBER_OK) status = ember_context_set_cancel_token(context, POINTER(token), &err);
    ember_context_options_free(how);
    if (ok(env, status, &err)) return HANDLE(context);
    ember_context_free(context);
    return 0;
}

FUNCTION(void, contextFree)(JNIEnv *env, jclass self, jlong context) {
    (void)env, (void)self;
    ember_context_free(POINTER(context));
}

FUNCTION(void, contextRewind)(JNIEnv *env, jclass self, jlong context, jint sequence, jint n) {
    ember_error *err = NULL;
    (void)self;
    ok(env, ember_context_rewind(POINTER(context), (uint32_t)sequence, (uint32_t)n, &err), &err);
}

/* Numbers: pooling, normalize, truncate, dimensions. `prompt` may be null. The vectors follow one another. */
FUNCTION(jfloatArray, embed)(JNIEnv *env, jclass self, jlong context, jobjectArray texts, jlongArray options, jbyteArray prompt) {
    ember_embed_options *how = NULL;
    ember_error *err = NULL;
    jfloatArray result = NULL;
    ember_status status;
    float *vectors = NULL;
    size_t capacity = 0, needed = 0;
    struct texts all;
    struct text name;
    jlong n[MOST];
    (void)self;
    if (!numbers(env, options, n) || !take(env, prompt, &name)) return NULL;
    if (!take_all(env, texts, &all)) {
        free(name.start);
        return NULL;
    }
    status = ember_embed_options_new(&how, &err);
    SET(1, ember_embed_options_set_pooling(how, (int32_t)n[1], &err));
    SET(2, ember_embed_options_set_normalize(how, n[2] != 0, &err));
    SET(3, ember_embed_options_set_truncate(how, n[3] != 0, &err));
    SET(4, ember_embed_options_set_dimensions(how, (size_t)n[4], &err));
    if (status == EMBER_OK && prompt) status = ember_embed_options_set_prompt(how, name.start, name.length, &err);
    while (status == EMBER_OK) {
        status = ember_embed(POINTER(context), (const char *const *)all.starts, all.lengths, all.n, how, vectors, capacity, &needed, &err);
        if (status != EMBER_E_BUFFER_TOO_SMALL) break;
        ember_error_free(err);
        err = NULL;
        status = EMBER_OK;
        free(vectors);
        capacity = needed;
        vectors = malloc((capacity + 1) * sizeof *vectors);
        if (!vectors) {
            no_memory(env);
            break;
        }
    }
    if (ok(env, status, &err)) {
        if (needed > INT32_MAX) {
            (*env)->ThrowNew(env, memory_error_class, "the vectors are longer than an array can be");
        } else if ((result = (*env)->NewFloatArray(env, (jsize)needed)) && needed) {
            (*env)->SetFloatArrayRegion(env, result, 0, (jsize)needed, vectors);
        }
    }
    free(vectors);
    ember_embed_options_free(how);
    drop(&all);
    free(name.start);
    return result;
}

/* ---- Generations ---- */

/* The numbers of generations. */
enum {
    MAX_TOKENS = 1, PENALTIES, REPEAT, FREQUENCY, PRESENCE, TOP_K, TOP_P, MIN_P, TEMPERATURE, SEED, CONSTRAINT, LOGPROBS, IGNORE_EOG, REUSE_PREFIX, PARSE_SPECIAL, SEQUENCE, TIME_LIMIT
};

static ember_status generate_options(const jlong *n, const struct texts *stops, ember_generate_options **how, ember_error **err) {
    ember_status status = ember_generate_options_new(how, err);
    SET(MAX_TOKENS, ember_generate_options_set_max_tokens(*how, (uint32_t)n[MAX_TOKENS], err));
    SET(CONSTRAINT, ember_generate_options_set_constraint(*how, POINTER(n[CONSTRAINT]), err));
    SET(LOGPROBS, ember_generate_options_set_logprobs(*how, n[LOGPROBS] != 0, err));
    SET(IGNORE_EOG, ember_generate_options_set_ignore_eog(*how, n[IGNORE_EOG] != 0, err));
    SET(REUSE_PREFIX, ember_generate_options_set_reuse_prefix(*how, n[REUSE_PREFIX] != 0, err));
    SET(PARSE_SPECIAL, ember_generate_options_set_parse_special(*how, n[PARSE_SPECIAL] != 0, err));
    SET(SEQUENCE, ember_generate_options_set_sequence(*how, (uint32_t)n[SEQUENCE], err));
    SET(TIME_LIMIT, ember_generate_options_set_time_limit(*how, (uint64_t)n[TIME_LIMIT], err));
    for (size_t i = 0; status == EMBER_OK && i < stops->n; i++) {
        status = ember_generate_options_add_stop(*how, stops->starts[i], stops->lengths[i], err);
    }
    return status;
}

/* A sampler, or none where nothing of one is given. */
static ember_status sampler(const jlong *n, ember_sampler **to, ember_error **err) {
    ember_status status;
    if (!given(n, PENALTIES) && !given(n, TOP_K) && !given(n, TOP_P) && !given(n, MIN_P) && !given(n, TEMPERATURE) && !given(n, SEED)) return EMBER_OK;
    status = ember_sampler_new(given(n, SEED) ? (uint64_t)n[SEED] : EMBER_SEED_RANDOM, to, err);
    SET(PENALTIES, ember_sampler_add_penalties(*to, (uint32_t)n[PENALTIES], real(n[REPEAT]), real(n[FREQUENCY]), real(n[PRESENCE]), err));
    SET(TOP_K, ember_sampler_add_top_k(*to, (uint32_t)n[TOP_K], err));
    SET(TOP_P, ember_sampler_add_top_p(*to, real(n[TOP_P]), err));
    SET(MIN_P, ember_sampler_add_min_p(*to, real(n[MIN_P]), err));
    SET(TEMPERATURE, ember_sampler_add_temperature(*to, real(n[TEMPERATURE]), err));
    return status;
}

/* `text` or `tokens` is the prompt; the other is null. */
FUNCTION(jlong, generatorNew)(JNIEnv *env, jclass self, jlong context, jbyteArray text, jintArray tokens, jlongArray options, jobjectArray stop) {
    ember_generate_options *how = NULL;
    ember_sampler *choice = NULL;
    ember_generator *generator = NULL;
    ember_error *err = NULL;
    ember_status status;
    struct texts stops;
    struct text said;
    jlong n[MOST];
    jsize n_tokens = tokens ? (*env)->GetArrayLength(env, tokens) : 0;
    uint32_t *ids = malloc(((size_t)n_tokens + 1) * sizeof *ids);
    (void)self;
    if (!ids) {
        no_memory(env);
        return 0;
    }
    if (n_tokens) (*env)->GetIntArrayRegion(env, tokens, 0, n_tokens, (jint *)ids);
    if ((*env)->ExceptionCheck(env) || !numbers(env, options, n) || !take(env, text, &said)) {
        free(ids);
        return 0;
    }
    if (!take_all(env, stop, &stops)) {
        free(ids);
        free(said.start);
        return 0;
    }
    status = generate_options(n, &stops, &how, &err);
    if (status == EMBER_OK) status = sampler(n, &choice, &err);
    if (status == EMBER_OK) {
        status = tokens ? ember_generator_new_tokens(POINTER(context), ids, (size_t)n_tokens, how, choice, &generator, &err)
                        : ember_generator_new(POINTER(context), said.start, said.length, how, choice, &generator, &err);
    }
    ember_sampler_free(choice);
    ember_generate_options_free(how);
    drop(&stops);
    free(said.start);
    free(ids);
    return ok(env, status, &err) ? HANDLE(generator) : 0;
}

/* The text of an event; its token, log-probability and reason to end, and at the end what the generation did, go into `to`. */
FUNCTION(jbyteArray, generatorNext)(JNIEnv *env, jclass self, jlong generator, jlongArray to) {
    ember_event event = {.struct_size = sizeof event};
    ember_generate_result did = {.struct_size = sizeof did};
    ember_error *err = NULL;
    ember_status status = ember_generator_next(POINTER(generator), &event, &err);
    jbyteArray text = NULL;
    (void)self;
    if (!ok(env, status, &err)) return NULL;
    text = bytes(env, event.text, event.text_len); /* before another call of the generator */
    err = NULL;
    if (text && event.kind == EMBER_EVENT_END && !ok(env, ember_generator_usage(POINTER(generator), &did, &err), &err)) return NULL;
    {
        const jlong all[] = {event.kind, (int32_t)event.token, bits(event.logprob), event.finish_reason, did.n_prompt, did.n_reused, did.n_generated, (jlong)did.prefill_ns, (jlong)did.decode_ns};
        give(env, to, all, sizeof all / sizeof *all);
    }
    return (*env)->ExceptionCheck(env) ? NULL : text;
}

FUNCTION(void, generatorFree)(JNIEnv *env, jclass self, jlong generator) {
    (void)env, (void)self;
    ember_generator_free(POINTER(generator));
}

FUNCTION(jlong, samplerNew)(JNIEnv *env, jclass self, jlongArray options) {
    ember_sampler *made = NULL;
    ember_error *err = NULL;
    ember_status status;
    jlong n[MOST];
    (void)self;
    if (!numbers(env, options, n)) return 0;
    status = sampler(n, &made, &err);
    if (ok(env, status, &err)) return HANDLE(made);
    ember_sampler_free(made);
    return 0;
}

FUNCTION(void, samplerFree)(JNIEnv *env, jclass self, jlong sampler) {
    (void)env, (void)self;
    ember_sampler_free(POINTER(sampler));
}

/* ---- Chat ---- */

/* Numbers: parallel calls, thinking (1 or 2); texts: tools, choice of tools, variables, template, of which bits 3 to 6 say whether they are given. */
static ember_status chat_options(const jlong *n, const struct texts *texts, ember_chat_options **how, ember_error **err) {
    typedef ember_status (*set_text)(ember_chat_options *, const char *, size_t, ember_error **);
    const set_text setters[] = {ember_chat_options_set_tools, ember_chat_options_set_tool_choice, ember_chat_options_set_variables, ember_chat_options_set_template};
    ember_status status = ember_chat_options_new(how, err);
    SET(1, ember_chat_options_set_parallel_calls(*how, n[1] != 0, err));
    SET(2, ember_chat_options_set_thinking(*how, (int32_t)n[2], err));
    for (int i = 0; i < 4; i++) {
        if (status == EMBER_OK && given(n, 3 + i) && (size_t)i < texts->n) status = setters[i](*how, texts->starts[i], texts->lengths[i], err);
    }
    return status;
}

FUNCTION(jintArray, chatTokenize)(JNIEnv *env, jclass self, jlong model, jbyteArray messages, jlongArray options, jobjectArray texts) {
    ember_chat_options *how = NULL;
    ember_error *err = NULL;
    ember_status status;
    struct texts all;
    struct text said;
    jlong n[MOST];
    (void)self;
    if (!numbers(env, options, n) || !take(env, messages, &said)) return NULL;
    if (!take_all(env, texts, &all)) {
        free(said.start);
        return NULL;
    }
    status = chat_options(n, &all, &how, &err);
    drop(&all);
    if (status != EMBER_OK) {
        ember_chat_options_free(how);
        free(said.start);
        ok(env, status, &err);
        return NULL;
    }
    TOKENS(ember_chat_tokenize(POINTER(model), said.start, said.length, how, tokens, capacity, &needed, &err));
    ember_chat_options_free(how);
    free(said.start);
    return result;
}

/* `from` is the system text, or what was saved. */
FUNCTION(jlong, conversationNew)(JNIEnv *env, jclass self, jlong context, jbyteArray from, jboolean saved, jlongArray chat, jobjectArray texts, jlongArray options, jobjectArray stop) {
    ember_generate_options *generate = NULL;
    ember_chat_options *how = NULL;
    ember_conversation *made = NULL;
    ember_error *err = NULL;
    ember_status status;
    struct texts all, stops;
    struct text source;
    jlong n_chat[MOST], n[MOST];
    (void)self;
    if (!numbers(env, chat, n_chat) || !numbers(env, options, n) || !take(env, from, &source)) return 0;
    if (!take_all(env, texts, &all)) {
        free(source.start);
        return 0;
    }
    if (!take_all(env, stop, &stops)) {
        drop(&all);
        free(source.start);
        return 0;
    }
    status = chat_options(n_chat, &all, &how, &err);
    if (status == EMBER_OK) status = generate_options(n, &stops, &generate, &err);
    if (status == EMBER_OK) {
        status = saved ? ember_conversation_load(POINTER(context), (const uint8_t *)source.start, source.length, how, generate, &made, &err)
                       : ember_conversation_new(POINTER(context), source.start, source.length, how, generate, &made, &err);
    }
    ember_generate_options_free(generate);
    ember_chat_options_free(how);
    drop(&stops);
    drop(&all);
    free(source.start);
    return ok(env, status, &err) ? HANDLE(made) : 0;
}

FUNCTION(void, conversationFree)(JNIEnv *env, jclass self, jlong conversation) {
    (void)env, (void)self;
    ember_conversation_free(POINTER(conversation));
}

FUNCTION(void, conversationBegin)(JNIEnv *env, jclass self, jlong conversation, jbyteArray text, jlong sampler) {
    ember_error *err = NULL;
    ember_status status;
    struct text said;
    (void)self;
    if (!take(env, text, &said)) return;
    status = ember_conversation_begin(POINTER(conversation), said.start, said.length, POINTER(sampler), &err);
    free(said.start);
    ok(env, status, &err);
}

/* Text, name, id and reason of an event; its kind, index and reason to end go into `to`. */
FUNCTION(jobjectArray, conversationNext)(JNIEnv *env, jclass self, jlong conversation, jlongArray to) {
    ember_chat_event event = {.struct_size = sizeof event};
    ember_error *err = NULL;
    ember_status status = ember_conversation_next(POINTER(conversation), &event, &err);
    jobjectArray texts;
    (void)self;
    if (!ok(env, status, &err)) return NULL;
    texts = (*env)->NewObjectArray(env, 4, bytes_class, NULL);
    if (!texts) return NULL;
    {
        const struct { const char *start; size_t length; } from[] = {{event.text, event.text_len}, {event.name, event.name_len}, {event.id, event.id_len}, {event.reason, event.reason_len}};
        const jlong all[] = {event.kind, event.index, event.finish_reason};
        for (int i = 0; i < 4; i++) {
            jbyteArray text = bytes(env, from[i].start, from[i].length);
            if (!text) return NULL;
            (*env)->SetObjectArrayElement(env, texts, i, text);
            if ((*env)->ExceptionCheck(env)) return NULL;
            (*env)->DeleteLocalRef(env, text);
        }
        give(env, to, all, sizeof all / sizeof *all);
    }
    return (*env)->ExceptionCheck(env) ? NULL : texts;
}

FUNCTION(void, conversationAbandon)(JNIEnv *env, jclass self, jlong conversation) {
    ember_error *err = NULL;
    (void)self;
    ok(env, ember_conversation_abandon(POINTER(conversation), &err), &err);
}

FUNCTION(void, conversationAdd)(JNIEnv *env, jclass self, jlong conversation, jbyteArray message) {
    ember_error *err = NULL;
    ember_status status;
    struct text json;
    (void)self;
    if (!take(env, message, &json)) return;
    status = ember_conversation_add(POINTER(conversation), json.start, json.length, &err);
    free(json.start);
    ok(env, status, &err);
}

FUNCTION(void, conversationUndo)(JNIEnv *env, jclass self, jlong conversation) {
    ember_error *err = NULL;
    (void)self;
    ok(env, ember_conversation_undo(POINTER(conversation), &err), &err);
}

/* What a function writes as bytes: it is called for their number, and again. */
static jbyteArray written(JNIEnv *env, jlong handle, ember_status (*write)(const ember_conversation *, uint8_t *, size_t, size_t *, ember_error **)) {
    uint8_t *buffer = NULL;
    size_t capacity = 0, needed = 0;
    jbyteArray result = NULL;
    for (;;) {
        ember_error *err = NULL;
        ember_status status = write(POINTER(handle), buffer, capacity, &needed, &err);
        if (status != EMBER_E_BUFFER_TOO_SMALL) {
            if (ok(env, status, &err)) result = bytes(env, buffer, needed);
            break;
        }
        ember_error_free(err);
        free(buffer);
        capacity = needed;
        buffer = malloc(capacity + 1);
        if (!buffer) {
            no_memory(env);
            break;
        }
    }
    free(buffer);
    return result;
}

FUNCTION(jbyteArray, conversationMessages)(JNIEnv *env, jclass self, jlong conversation) {
    (void)self;
    return written(env, conversation, ember_conversation_messages);
}

FUNCTION(jbyteArray, conversationSave)(JNIEnv *env, jclass self, jlong conversation) {
    (void)self;
    return written(env, conversation, ember_conversation_save);
}

FUNCTION(void, conversationUsage)(JNIEnv *env, jclass self, jlong conversation, jlongArray to) {
    ember_conversation_usage did = {.struct_size = sizeof did};
    ember_error *err = NULL;
    (void)self;
    if (ok(env, ember_conversation_usage_get(POINTER(conversation), &did, &err), &err)) {
        const jlong all[] = {did.n_prompt, did.n_reused, did.n_generated, did.n_thinking, did.n_dropped_turns, (jlong)did.prefill_ns, (jlong)did.decode_ns, did.finish_reason};
        give(env, to, all, sizeof all / sizeof *all);
    }
}

FUNCTION(jbyteArray, statusName)(JNIEnv *env, jclass self, jint status) {
    const char *name = ember_status_name(status);
    (void)self;
    return bytes(env, name, strlen(name));
}

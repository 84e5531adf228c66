/*
 * ember.h - Ember, CPU-first language-model inference as a C library.
 * Generated from the Rust sources by cbindgen; do not edit.
 *
 * The nouns:
 *  - An ember_model is immutable and may be shared between threads.
 *  - An ember_context (KV cache, workspace, sequences) and an ember_sampler are
 *    used by one thread at a time. A second thread gets EMBER_E_BUSY.
 *  - An ember_generator makes text with both, event by event.
 *  - An ember_engine runs many generations together, and many threads may use
 *    it.
 *  - An ember_cancel_token ends a call from any thread.
 *
 * Rules for every function here:
 *  - A function that can fail returns an ember_status. It writes outputs only
 *    when it returns EMBER_OK. The exception is n_needed, which it writes for
 *    EMBER_E_BUFFER_TOO_SMALL too.
 *  - err may be NULL. Otherwise *err receives NULL on success, or an error with
 *    a sentence that says what was wrong. Free it with ember_error_free.
 *    Whatever *err held before is overwritten, not freed.
 *  - A handle belongs to whoever made it, until its _free or _release. A handle
 *    keeps alive what it needs, so handles may be freed in any order. Freeing
 *    NULL does nothing. Freed handles must not be used; where Ember can notice
 *    that, it is an error.
 *  - A call that an ember_cancel_token ended gives EMBER_E_CANCELLED
 *    (generation: EMBER_FINISH_CANCELLED). What it worked on may be used again.
 *    Cancelling a token is all that a signal handler may do with Ember.
 *  - NULL where an argument is needed is an error. For text and arrays, NULL
 *    may stand with length 0. All other pointers must be valid for the lengths
 *    given, and what they point to unchanged while the call runs.
 *  - Text is UTF-8, given as pointer and length in bytes. EMBER_NUL_TERMINATED
 *    as length means "up to the NUL".
 *  - Struct arguments begin with struct_size. Set it to sizeof the struct, so
 *    that later versions can append fields. Initialise all fields: a library
 *    that is older than the header leaves those that it does not know as they
 *    are.
 *  - After fork() the child has the models of its parent and may make contexts
 *    and engines of its own. The parent's contexts and engines have no threads
 *    there. A call that needs threads, and an engine that was at work, give
 *    EMBER_E_INVALID_ARGUMENT. A handle that a call was using stays
 *    EMBER_E_BUSY. Freeing them is fine.
 *  - Callbacks run on the calling thread, before the function returns. Those of
 *    allocators, of lent bytes and of engines may run elsewhere, as their types
 *    say. Callbacks must not unwind (no longjmp, no C++ exceptions). They may
 *    call Ember, but a use of the context or sampler that is at work gives
 *    EMBER_E_BUSY.
 *  - A call takes at most 100 KB of the calling thread's stack, and callbacks
 *    what they take: threads need 112 KB.
 *  - Calls compute in the usual floating-point environment (rounding to
 *    nearest, no traps) and give the caller's back. Callbacks run in the
 *    caller's.
 *  - Ember changes no process state and prints nothing, with one exception: a
 *    defect in Ember ends as EMBER_E_INTERNAL, after a line on standard error
 *    that says where.
 */

#ifndef EMBER_H
#define EMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/* ==========================================================================
 * Handles and text
 * ========================================================================== */

/**
 * @defgroup ember_handles Handles and text
 * All objects are opaque handles, declared here so that every section can name
 * them. What makes a handle writes it to an out parameter. Its section's _free
 * (or _release) function takes it back; NULL is fine there. Text is UTF-8 with
 * a length in bytes.
 *
 * @code{.c}
 * if (ember_context_new(model, NULL, &context, &err) != EMBER_OK) {
 *     fprintf(stderr, "%s\n", ember_error_message(err));
 *     ember_error_free(err);
 * }
 * ember_context_free(context);
 * @endcode
 * @{
 */

/**
 * An error: a status and a sentence that names the culprit. Owned by the
 * caller; freed with ember_error_free.
 */
typedef struct ember_error ember_error;

/**
 * A switch that ends calls early: loading, decoding, embedding, generating,
 * scoring. Give it to them through ember_model_options_set_cancel_token,
 * ember_context_set_cancel_token and ember_generate_options_set_cancel_token;
 * one token may serve any number of them. Any number of threads may use it at
 * the same time.
 */
typedef struct ember_cancel_token ember_cancel_token;

/**
 * How to load a model. Made with ember_model_options_new, owned by the caller,
 * used by one thread at a time.
 */
typedef struct ember_model_options ember_model_options;

/**
 * A loaded model: immutable, usable from any number of threads at the same
 * time, reference-counted.
 */
typedef struct ember_model ember_model;

/**
 * A tokenizer: immutable, usable from any number of threads at the same time,
 * reference-counted. It is a model's, or was loaded alone.
 */
typedef struct ember_tokenizer ember_tokenizer;

/**
 * How to make a context. Made with ember_context_options_new, owned by the
 * caller, used by one thread at a time.
 */
typedef struct ember_context_options ember_context_options;

/**
 * Token sequences being processed over a model: KV cache, scratch memory,
 * threads. One thread at a time.
 */
typedef struct ember_context ember_context;

/**
 * How to generate. Made with ember_generate_options_new, owned by the caller,
 * used by one thread at a time.
 */
typedef struct ember_generate_options ember_generate_options;

/** A generation under way. One thread at a time. */
typedef struct ember_generator ember_generator;

/** Several completions of one prompt under way. One thread at a time. */
typedef struct ember_completions ember_completions;

/**
 * An ordered chain of stages that narrow or reweigh the candidates, then one
 * random draw. One thread at a time.
 */
typedef struct ember_sampler ember_sampler;

/**
 * How to make a constraint. Made with ember_constraint_options_new, owned by
 * the caller, used by one thread at a time.
 */
typedef struct ember_constraint_options ember_constraint_options;

/**
 * What a text has to follow, compiled for the tokens of a model. It does not
 * change, and many threads may use it at the same time.
 */
typedef struct ember_constraint ember_constraint;

/**
 * How a conversation becomes text. Made with ember_chat_options_new, owned by
 * the caller, used by one thread at a time.
 */
typedef struct ember_chat_options ember_chat_options;

/**
 * Reads one reply of a model. Made with ember_chat_parser_new, owned by the
 * caller, used by one thread at a time.
 */
typedef struct ember_chat_parser ember_chat_parser;

/**
 * A conversation with a model, in one sequence of a context. One thread at a
 * time.
 */
typedef struct ember_conversation ember_conversation;

/**
 * What a prompt to fill a gap has beside the text around it. Made with
 * ember_fim_options_new, owned by the caller, used by one thread at a time.
 */
typedef struct ember_fim_options ember_fim_options;

/**
 * How to make an engine. Made with ember_engine_options_new, owned by the
 * caller, used by one thread at a time.
 */
typedef struct ember_engine_options ember_engine_options;

/**
 * Many generations on one model: a queue of requests, and a context that runs
 * as many of them together as it may. Any number of threads may use it at the
 * same time.
 */
typedef struct ember_engine ember_engine;

/**
 * A generation that an engine was asked for. One thread at a time takes its
 * events; any may cancel it.
 */
typedef struct ember_request ember_request;

/**
 * How to embed. Made with ember_embed_options_new, owned by the caller, used by
 * one thread at a time.
 */
typedef struct ember_embed_options ember_embed_options;

/**
 * How texts are scored. Made with ember_classify_options_new, owned by the
 * caller, used by one thread at a time.
 */
typedef struct ember_classify_options ember_classify_options;

/** As the length of a text argument: the text ends at its first NUL byte. */
#define EMBER_NUL_TERMINATED SIZE_MAX

/** @} */

/* ==========================================================================
 * Version and features
 * ========================================================================== */

/**
 * @defgroup ember_library Version and features
 * What the library is that a program runs with: its version, and the optional
 * parts it was built with. These functions cannot fail.
 *
 * @code{.c}
 * printf("Ember %s\n%s\n", ember_version_string(), ember_build_info());
 * if (!ember_has_feature("chat", EMBER_NUL_TERMINATED))
 *     fprintf(stderr, "this build has no chat templates\n");
 * @endcode
 * @{
 */

/**
 * The version of the library at run time, for example "0.1.0". Static; never
 * freed. Any thread.
 */
const char *ember_version_string(void);

/**
 * 1 when the library has the part called `name`, 0 when it was built without it
 * or does not know the name: "chat" (chat templates), "hf" (Hugging Face
 * folders), "tokenizers" (GGUF files whose text is normalized as BERT's or
 * Qwen's). What needs a part that is missing gives EMBER_E_UNSUPPORTED. Any
 * thread.
 */
int32_t ember_has_feature(const char *name, size_t name_len);

/**
 * One line on what this build can do: version, architectures, number formats,
 * the instruction sets that this machine can run (lowest first), target.
 * Static; never freed. Any thread.
 */
const char *ember_build_info(void);

/** @} */

/* ==========================================================================
 * Statuses and errors
 * ========================================================================== */

/**
 * @defgroup ember_errors Statuses and errors
 * Functions that can fail return an ember_status. Through their last argument
 * they give an ember_error as well, if the caller asks for it: a sentence that
 * names the argument, file, key or tensor that was wrong. The caller frees the
 * error.
 *
 * @code{.c}
 * status = ember_model_load("x.gguf", 6, NULL, &model, &err);
 * if (status != EMBER_OK)
 *     fprintf(stderr, "%s: %s\n", ember_status_name(status),
 *             ember_error_message(err));
 * ember_error_free(err);
 * @endcode
 * @{
 */

/**
 * The numbers that cross the C boundary. A number, once released, is never
 * reused for something else.
 */
enum ember_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** Success. */
    EMBER_OK = 0,
    /** An argument is NULL, out of range, or does not fit the others. */
    EMBER_E_INVALID_ARGUMENT = 1,
    /** The operating system refused to open, map or read a file. */
    EMBER_E_IO = 2,
    /** A model file is malformed or contradicts itself. */
    EMBER_E_FORMAT = 3,
    /**
     * A model file is well formed but needs something this version cannot do.
     */
    EMBER_E_UNSUPPORTED = 4,
    /** An allocation failed or a size exceeds what the machine can address. */
    EMBER_E_NOMEM = 5,
    /** The context cannot hold the tokens; its state is unchanged. */
    EMBER_E_CONTEXT_FULL = 6,
    /** The object is in use by another call; nothing was done. */
    EMBER_E_BUSY = 7,
    /** Text that must be UTF-8 is not. */
    EMBER_E_UTF8 = 8,
    /** The caller's buffer is too small; the needed size was written. */
    EMBER_E_BUFFER_TOO_SMALL = 9,
    /** The asked-for key, token or row does not exist. */
    EMBER_E_NOT_FOUND = 10,
    /**
     * A defect in Ember itself was caught; the process lives and the message
     * says what happened.
     */
    EMBER_E_INTERNAL = 11,
    /** A cancel token ended the call; the context's sequences are as before. */
    EMBER_E_CANCELLED = 12,
    /** As many requests wait as may; nothing was done. Try it again later. */
    EMBER_E_QUEUE_FULL = 13,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_status ember_status;
#else
typedef int32_t ember_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The name of a status, for example "EMBER_E_IO"; "unknown status" for any
 * other number. Static; never freed.
 */
const char *ember_status_name(int32_t status);

/**
 * The status of an error; EMBER_OK for NULL, EMBER_E_INVALID_ARGUMENT for a
 * handle of another type. Any thread.
 */
ember_status ember_error_status(const struct ember_error *error);

/**
 * The sentence of an error, NUL-terminated UTF-8 that lives as long as the
 * error; "" for NULL. Any thread.
 */
const char *ember_error_message(const struct ember_error *error);

/** Frees an error. NULL is fine. */
void ember_error_free(struct ember_error *error);

/** @} */

/* ==========================================================================
 * Log
 * ========================================================================== */

/**
 * @defgroup ember_logging Log
 * The library is silent until the host sets a callback. Then the callback gets
 * whole lines, each with a level.
 *
 * @code{.c}
 * ember_log_set(print_line, NULL, EMBER_LOG_WARN, &err);
 * @endcode
 * @{
 */

/** How much a log line matters. */
enum ember_log_level
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Something went wrong that no call can report: a handle in use that was
     * not freed, say. Errors of calls are not logged.
     */
    EMBER_LOG_ERROR = 1,
    /** Something looks like a mistake. */
    EMBER_LOG_WARN = 2,
    /** What was done: a model loaded. */
    EMBER_LOG_INFO = 3,
    /** Details for finding defects. */
    EMBER_LOG_DEBUG = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_log_level ember_log_level;
#else
typedef int32_t ember_log_level;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Receives one line of the log: its level (an ember_log_level), its text of
 * `len` bytes without a line end, and the `user_data` given with the callback.
 * Runs on the thread whose call logs. It may call Ember; lines that arise from
 * such calls are dropped. It must return: no exception of C++ may leave it, and
 * no longjmp.
 */
typedef void (*ember_log_callback)(
    int32_t level,
    const char *text,
    size_t len,
    void *user_data);

/**
 * Sends log lines of `max_level` (an ember_log_level) and below to `callback`,
 * with `user_data`; a NULL callback makes the library silent again, as it is at
 * the start, whatever the level. One callback serves all models and contexts of
 * the process; `user_data` must stay valid until another is set and the calls
 * of other threads that were under way by then have returned. Any thread.
 * Errors: EMBER_E_INVALID_ARGUMENT for an unknown level.
 */
ember_status ember_log_set(
    ember_log_callback callback,
    void *user_data,
    int32_t max_level,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Cancel token
 * ========================================================================== */

/**
 * @defgroup ember_cancelling Cancel token
 * A cancel token ends calls early, from any thread or from a signal handler.
 * Give it to a load, a context or a generation by their options; one token may
 * serve any number of them.
 *
 * @code{.c}
 * ember_cancel_token *token = NULL;
 * ember_cancel_token_new(&token, &err);
 * ember_context_set_cancel_token(context, token, &err);
 * ember_cancel_token_cancel(token); // from another thread, say
 * ember_cancel_token_free(token);
 * @endcode
 * @{
 */

/**
 * Writes a new token, not cancelled, to `out`; free it with
 * ember_cancel_token_free. Any thread. Errors: EMBER_E_INVALID_ARGUMENT when
 * `out` is NULL.
 */
ember_status ember_cancel_token_new(
    struct ember_cancel_token **out,
    struct ember_error **err);

/**
 * Frees the token's handle. What it was given to keeps what it needs of it, and
 * nobody can cancel that any more. A token that is cancelled stays so there
 * until another, or NULL, takes its place. Reset it first if that is not
 * wanted. This may come at any time, but nobody may use the handle meanwhile or
 * afterwards. NULL is fine.
 */
void ember_cancel_token_free(struct ember_cancel_token *token);

/**
 * Ends the calls under way that were given the token, and those to come, until
 * ember_cancel_token_reset. Generation ends with EMBER_FINISH_CANCELLED, all
 * else with EMBER_E_CANCELLED. The calls return soon, since they look at the
 * token often:
 * - a forward pass before each task of a thread, within a layer too;
 * - encoding a text every thousand steps;
 * - loading and ember_memory_estimate at each tensor, at each half megabyte
 *   that is read or packed, and every few thousand elements of metadata and of
 *   the vocabulary.
 *
 * No token ends what is bounded otherwise: rendering chat templates, compiling
 * constraints, saving and loading states, and the functions of tokenizers. This
 * call does not wait for the others. Any thread, and a signal handler too: all
 * it does is one store to memory. NULL, or what is no token, is left alone.
 */
void ember_cancel_token_cancel(const struct ember_cancel_token *token);

/**
 * Makes a token fit for new calls. NULL, or what is no token, is left alone.
 * Any thread, and a signal handler too.
 */
void ember_cancel_token_reset(const struct ember_cancel_token *token);

/**
 * Whether the token is cancelled; false for NULL and for what is no token. Any
 * thread, and a signal handler too.
 */
bool ember_cancel_token_is_cancelled(const struct ember_cancel_token *token);

/** @} */

/* ==========================================================================
 * Model
 * ========================================================================== */

/**
 * @defgroup ember_models Model
 * A model is what a GGUF file or a Hugging Face folder holds: weights,
 * hyper-parameters, tokenizer. It never changes, so threads share it. It is
 * counted by reference: loading gives one reference, and contexts hold their
 * own.
 *
 * @code{.c}
 * const char *path = "model.gguf";
 * status = ember_model_load(path, strlen(path), NULL, &model, &err);
 * if (status == EMBER_OK)
 *     printf("%s\n", ember_model_isa(model));
 * ember_model_release(model);
 * @endcode
 * @{
 */

/**
 * Which hidden states of a text make its vector. The numbers are those of the
 * key `pooling_type` in model files.
 */
enum ember_pooling
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * What the model file says, or the mean where it says nothing: the default.
     */
    EMBER_POOLING_AUTO = -1,
    /** All of them: one vector for each token. */
    EMBER_POOLING_NONE = 0,
    /** The mean of all tokens'. */
    EMBER_POOLING_MEAN = 1,
    /** The first token's. */
    EMBER_POOLING_CLS = 2,
    /** The last token's. */
    EMBER_POOLING_LAST = 3,
    /**
     * No vector: scores, which ember_classify and ember_rerank give. In
     * ember_model_info alone; such a model embeds only with another pooling by
     * option.
     */
    EMBER_POOLING_RANK = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_pooling ember_pooling;
#else
typedef int32_t ember_pooling;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Which matrices are packed when a model is loaded: copied, with their rows
 * rearranged for the vector instructions of this machine, which multiply them
 * faster than rows in the file's order. Packing reads the whole model, so that
 * loading takes about as long as copying it does. Packed matrices take as much
 * memory as in the file and belong to the process. A file that is mapped takes
 * none of its own for them; a model that was read into memory or came from a
 * buffer keeps both and takes twice its size.
 */
enum ember_pack
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Those of number formats that this machine's instruction set has products
     * with packed rows for: the default.
     */
    EMBER_PACK_AUTO = 0,
    /**
     * None: loading reads next to nothing, and the matrices lie in the mapped
     * file, where processes with the same model share them and the system may
     * drop and fetch them again. They are packed a few rows at a time whenever
     * they are multiplied: on a machine with AVX-512 prompts take up to a third
     * longer for it, and tokens one by one two to three times as long.
     */
    EMBER_PACK_NEVER = 1,
    /**
     * Those of every number format that can be packed. Where the instruction
     * set has no products with packed rows, plain code multiplies them, slower
     * than it does rows in the file's order: for comparing machines.
     */
    EMBER_PACK_ALWAYS = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_pack ember_pack;
#else
typedef int32_t ember_pack;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Called when bytes that were lent are not needed any more, with the
 * `user_data` given for it. Runs on the thread that gives the last of what uses
 * them back.
 */
typedef void (*ember_release_callback)(void *user_data);

/**
 * Dimensions of a model. Set struct_size to sizeof(ember_model_info) before the
 * call.
 */
typedef struct ember_model_info {
    /** Size of this struct as the caller knows it. */
    size_t struct_size;
    /** Number of weights. */
    uint64_t n_params;
    /** Size of the model's files in bytes. */
    uint64_t file_size;
    /** Logits per position; token ids are below it. */
    uint32_t n_vocab;
    /** Positions the model was trained on. */
    uint32_t n_ctx_train;
    /** Width of the residual stream. */
    uint32_t n_embd;
    /** Layers. */
    uint32_t n_layer;
    /** Query heads. */
    uint32_t n_head;
    /** Key/value heads. */
    uint32_t n_head_kv;
    /** Length of a head's vector. */
    uint32_t head_dim;
    /** Width of the feed-forward block. */
    uint32_t n_ff;
    /** Beginning-of-sequence token, or EMBER_TOKEN_NONE. */
    uint32_t bos_token;
    /** End-of-sequence token, or EMBER_TOKEN_NONE. */
    uint32_t eos_token;
    /** 1 when the file has a tokenizer, else 0. */
    uint32_t has_tokenizer;
    /**
     * 1 when a sequence begins with bos_token, as the file says;
     * ember_model_tokenize adds it when asked.
     */
    uint32_t add_bos;
    /**
     * 1 for a model that gives logits; 0 for one that gives embeddings only: an
     * encoder, or a decoder without an output projection.
     */
    uint32_t causal;
    /**
     * How embeddings are pooled, as the file says: an ember_pooling,
     * EMBER_POOLING_AUTO when it says nothing.
     */
    int32_t pooling;
    /** Experts of a layer, 0 where there are none. */
    uint32_t n_expert;
    /** Experts of a token. */
    uint32_t n_expert_used;
    /** End-of-turn token, or EMBER_TOKEN_NONE. */
    uint32_t eot_token;
    /** The token for what no other stands for, or EMBER_TOKEN_NONE. */
    uint32_t unk_token;
    /** Padding token, or EMBER_TOKEN_NONE. */
    uint32_t pad_token;
    /** 1 when the file has a chat template, else 0. */
    uint32_t has_chat_template;
    /**
     * Numbers of a text's vector: n_embd, but in models with dense modules
     * behind the pooling.
     */
    uint32_t n_embd_out;
    /**
     * Prompts for texts to be embedded, by their names
     * (ember_embed_options_set_prompt).
     */
    uint32_t n_prompts;
} ember_model_info;

/**
 * Receives how far the loading is: `done` goes from 0 to 1, and `user_data` is
 * what was given with the callback. Runs on the thread that loads. Returning
 * anything but 0 ends the loading with EMBER_E_CANCELLED.
 */
typedef int32_t (*ember_progress_callback)(float done, void *user_data);

/**
 * Gives `size` bytes, all zero, at an address that is a multiple of `alignment`
 * (a power of two; with another address the call fails with
 * EMBER_E_INVALID_ARGUMENT), or NULL when there are none left. `user_data` is
 * what was given with the callback. Runs on any thread, also on several at the
 * same time.
 */
typedef void *(*ember_allocate_callback)(
    size_t size,
    size_t alignment,
    void *user_data);

/**
 * Takes back what an ember_allocate_callback gave for the same `size` and
 * `alignment`. Runs on any thread.
 */
typedef void (*ember_deallocate_callback)(
    void *block,
    size_t size,
    size_t alignment,
    void *user_data);

/**
 * Writes new options with their defaults to `out`; free them with
 * ember_model_options_free. Errors: EMBER_E_INVALID_ARGUMENT when `out` is
 * NULL.
 */
ember_status ember_model_options_new(
    struct ember_model_options **out,
    struct ember_error **err);

/** Frees options; models loaded with them are not affected. NULL is fine. */
void ember_model_options_free(struct ember_model_options *options);

/**
 * Whether the files are mapped (the default) or read into memory. A mapped file
 * must not be changed or shortened while the model lives. If it is shortened
 * all the same:
 * - matrices that were packed are not looked at again;
 * - calls that look up rows of embeddings that are gone give EMBER_E_IO;
 * - where other weights or keys are read the operating system ends the process
 *   with SIGBUS.
 *
 * Set it to false for files that others may change. Mapped files stay open,
 * each with a descriptor that a program started by exec does not get. Where the
 * host closes it, the mapping stands in.
 */
ember_status ember_model_options_set_use_mmap(
    struct ember_model_options *options,
    bool use_mmap,
    struct ember_error **err);

/**
 * Lowers the instruction-set level of the model and its contexts: `isa` names
 * the highest that may be used, for example "scalar" or "avx2";
 * ember_build_info lists those that the machine can run. A level above them
 * changes nothing, an empty name takes the limit away. Whatever the options
 * say, the environment variable EMBER_ISA, read when a model is loaded, lowers
 * the level of every model of the process in the same way. Errors:
 * EMBER_E_INVALID_ARGUMENT for a name that this build does not know,
 * EMBER_E_UTF8.
 */
ember_status ember_model_options_set_isa(
    struct ember_model_options *options,
    const char *isa,
    size_t isa_len,
    struct ember_error **err);

/**
 * Which matrices are packed, an ember_pack. That changes no result but those of
 * F16 and BF16, by roundings, and of EMBER_PACK_ALWAYS where the instruction
 * set has no products with packed rows. F16 and BF16 weights that are packed
 * are multiplied as whole numbers of 16 bits where that is faster (x86-64), and
 * with EMBER_PACK_NEVER in 32-bit floating point. Errors:
 * EMBER_E_INVALID_ARGUMENT for any other number.
 */
ember_status ember_model_options_set_pack(
    struct ember_model_options *options,
    int32_t pack,
    struct ember_error **err);

/**
 * The token that may end the loading early, which then gives EMBER_E_CANCELLED.
 * The options keep what they need of it, and so does a load under way. NULL,
 * the default: none. Errors: EMBER_E_INVALID_ARGUMENT.
 */
ember_status ember_model_options_set_cancel_token(
    struct ember_model_options *options,
    const struct ember_cancel_token *token,
    struct ember_error **err);

/**
 * Whether the weights are kept in memory, whatever else the system is short of,
 * as long as the model lives. What lies in mapped files is then read
 * immediately. Systems let a process lock little as a rule (`ulimit -l`):
 * loading gives EMBER_E_NOMEM when that is not enough. Default: false.
 */
ember_status ember_model_options_set_lock(
    struct ember_model_options *options,
    bool lock,
    struct ember_error **err);

/**
 * Whether loading looks at every number of every tensor and gives
 * EMBER_E_FORMAT, naming tensor and element, for one that is not finite. It
 * reads the whole file. Sizes, types and positions are checked in any case.
 * Default: false.
 */
ember_status ember_model_options_set_check_tensors(
    struct ember_model_options *options,
    bool check_tensors,
    struct ember_error **err);

/**
 * Has `callback` called with the progress of a loading, every few milliseconds
 * or megabytes. NULL, the default: none. The callback and `user_data` must be
 * usable as long as the options, and as a load with them.
 */
ember_status ember_model_options_set_progress(
    struct ember_model_options *options,
    ember_progress_callback callback,
    void *user_data,
    struct ember_error **err);

/**
 * The most bytes that the large buffers of the model and of all its contexts
 * may have together: packed weights, files that are read or copied, KV caches,
 * activations, logits. What would go beyond it gives EMBER_E_NOMEM. Mapped
 * files, tokenizer and metadata are not counted. 0, the default: no limit.
 */
ember_status ember_model_options_set_memory_limit(
    struct ember_model_options *options,
    uint64_t bytes,
    struct ember_error **err);

/**
 * Has the large buffers of the model and of its contexts come from the host:
 * `allocate` gives zeroed memory, and `deallocate` takes it back. Both are
 * called by any thread, and must be usable until the model and all its contexts
 * are gone. NULL for both, the default: the system. Errors:
 * EMBER_E_INVALID_ARGUMENT for one without the other.
 */
ember_status ember_model_options_set_allocator(
    struct ember_model_options *options,
    ember_allocate_callback allocate,
    ember_deallocate_callback deallocate,
    void *user_data,
    struct ember_error **err);

/**
 * Has models loaded as if the file had this integer for `key`, whether it has
 * the key or not: to correct a wrong number. A key that Ember reads is checked
 * as one of the file. A key that is set twice has the later value. Errors:
 * EMBER_E_INVALID_ARGUMENT for an empty key, EMBER_E_UTF8.
 */
ember_status ember_model_options_set_meta_i64(
    struct ember_model_options *options,
    const char *key,
    size_t key_len,
    int64_t value,
    struct ember_error **err);

/** As ember_model_options_set_meta_i64, a floating-point number. */
ember_status ember_model_options_set_meta_f64(
    struct ember_model_options *options,
    const char *key,
    size_t key_len,
    double value,
    struct ember_error **err);

/** As ember_model_options_set_meta_i64, a boolean. */
ember_status ember_model_options_set_meta_bool(
    struct ember_model_options *options,
    const char *key,
    size_t key_len,
    bool value,
    struct ember_error **err);

/** As ember_model_options_set_meta_i64, a text. */
ember_status ember_model_options_set_meta_string(
    struct ember_model_options *options,
    const char *key,
    size_t key_len,
    const char *value,
    size_t value_len,
    struct ember_error **err);

/**
 * Loads the model at `path` and writes it with one reference to `out`; give it
 * back with ember_model_release. The path is that of
 * - a GGUF file; one of several (`NAME-00001-of-00003.gguf`, any of them)
 *   brings the others from the same folder;
 * - a Hugging Face folder: `config.json` and `model.safetensors`, or several
 *   safetensors files and their index.
 *
 * `options` may be NULL and may be freed afterwards. The sentence of an error
 * begins with the path and names the file, key or tensor that is wrong. Errors:
 * EMBER_E_IO (missing, unreadable), EMBER_E_FORMAT (malformed),
 * EMBER_E_UNSUPPORTED (architecture, number format or tokenizer this version
 * does not know), EMBER_E_NOMEM, EMBER_E_UTF8, EMBER_E_INVALID_ARGUMENT (also
 * for an environment variable EMBER_ISA that names no level), EMBER_E_CANCELLED
 * by the token of the options.
 */
ember_status ember_model_load(
    const char *path,
    size_t path_len,
    const struct ember_model_options *options,
    struct ember_model **out,
    struct ember_error **err);

/**
 * Loads a GGUF file that is part of an open file: `len` bytes from `offset` on,
 * where `len` 0 means "up to the end". For files that have no path (Android
 * assets, sandboxed documents) or lie in an archive, stored and not compressed.
 * The descriptor is duplicated and stays the caller's, who may close it when
 * the call returns; its position is neither used nor moved, so that several
 * threads may load from one descriptor. The part is mapped where its offset is
 * a multiple of 4, and read into memory elsewhere. Everything else is as with
 * ember_model_load; error sentences begin with `<fd N>`. Errors: also
 * EMBER_E_INVALID_ARGUMENT for a part that is not inside the file;
 * EMBER_E_UNSUPPORTED for one file of several, and on systems without file
 * descriptors.
 */
ember_status ember_model_load_fd(
    int32_t fd,
    uint64_t offset,
    uint64_t len,
    const struct ember_model_options *options,
    struct ember_model **out,
    struct ember_error **err);

/**
 * Loads a GGUF file that lies in memory, `len` bytes at `data`, of which a copy
 * is kept. Everything else is as with ember_model_load; error sentences begin
 * with `<buffer>`.
 */
ember_status ember_model_load_buffer(
    const uint8_t *data,
    size_t len,
    const struct ember_model_options *options,
    struct ember_model **out,
    struct ember_error **err);

/**
 * As ember_model_load_buffer, without a copy: on EMBER_OK the bytes at `data`
 * must stay where and as they are until `release` is called with `user_data`,
 * once, when the model and all that uses it are gone. `release` NULL: they stay
 * for ever, as a constant of the program does. On an error nothing is called,
 * and the bytes are the caller's as before. An address that is no multiple of 4
 * is copied all the same, and released before the call returns.
 */
ember_status ember_model_load_borrowed(
    const uint8_t *data,
    size_t len,
    ember_release_callback release,
    void *user_data,
    const struct ember_model_options *options,
    struct ember_model **out,
    struct ember_error **err);

/**
 * Adds a reference and returns `model`; NULL when `model` is not a model. Any
 * thread.
 */
struct ember_model *ember_model_retain(struct ember_model *model);

/**
 * Gives a reference back; the last one frees the model as soon as no context
 * uses it any more. NULL is fine. Any thread.
 */
void ember_model_release(struct ember_model *model);

/**
 * Writes the model's dimensions to `out`, whose struct_size must be set. Any
 * thread. Errors: EMBER_E_INVALID_ARGUMENT.
 */
ember_status ember_model_info_get(
    const struct ember_model *model,
    struct ember_model_info *out,
    struct ember_error **err);

/**
 * The name of the instruction-set level that the model's contexts compute with
 * (all but those of EMBER_BACKEND_SCALAR), for example "avx512"; NULL when
 * `model` is not a model. Static; never freed. Any thread.
 */
const char *ember_model_isa(const struct ember_model *model);

/**
 * Writes what the header of the model at `path` says to `buffer` of `capacity`
 * bytes, as a JSON object without NUL, and its length to `n_needed`; a first
 * call with capacity 0 asks for the length. No weight is read. The object has
 * - "path", "file_size", "n_tensors", "n_params", "architecture", "name",
 *   "tokenizer";
 * - "chat_template": whether there is one;
 * - "types": tensors and bytes of each number format;
 * - "metadata": all keys;
 * - "supported": whether this build would load it. If so, "dimensions" has
 *   n_vocab to n_ff, n_expert, n_expert_used and causal of ember_model_info. If
 *   not, "reason" is a sentence.
 *
 * Of arrays of more than 16 elements and strings of more than 65,536 bytes
 * "metadata" has "type" and "length", and such an "architecture", "name" or
 * "tokenizer" is null. "supported" does not look at the numbers in tensors, the
 * texts of the vocabulary's tokens and merges, and a folder's tokenizer.json.
 * Errors: as ember_model_load for a file that cannot be read as a model at all;
 * EMBER_E_BUFFER_TOO_SMALL; EMBER_E_UNSUPPORTED in a build without the features
 * "chat" and "hf".
 */
ember_status ember_model_inspect(
    const char *path,
    size_t path_len,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Tokens and tokenizer
 * ========================================================================== */

/**
 * @defgroup ember_tokenizers Tokens and tokenizer
 * A tokenizer makes token ids of text, and text of token ids. A model has one,
 * and one can be loaded alone. ember_model_ functions and ember_tokenizer_
 * functions of the same name do the same. The number of tokens comes first,
 * from a call with capacity 0.
 *
 * @code{.c}
 * uint32_t tokens[64];
 * status = ember_model_tokenize(model, "Once upon", EMBER_NUL_TERMINATED,
 *                               true, false, tokens, 64, &n, &err);
 * @endcode
 * @{
 */

/** No token, where a token id could stand. */
#define EMBER_TOKEN_NONE UINT32_MAX

/**
 * What a tokenizer knows of its tokens; EMBER_TOKEN_NONE stands for a token
 * that there is not. Set struct_size to sizeof(ember_tokenizer_info) before the
 * call.
 */
typedef struct ember_tokenizer_info {
    /** Size of this struct as the caller knows it. */
    size_t struct_size;
    /**
     * Tokens; ids are below it. A model may have fewer embeddings, and more
     * logits.
     */
    uint32_t n_vocab;
    /** Beginning-of-sequence token. */
    uint32_t bos_token;
    /** End-of-sequence token. */
    uint32_t eos_token;
    /** End-of-turn token. */
    uint32_t eot_token;
    /** The token for what no other stands for. */
    uint32_t unk_token;
    /** Padding token. */
    uint32_t pad_token;
    /**
     * 1 when a text gets a token (BOS as a rule) put before it where that is
     * asked for, else 0.
     */
    uint32_t add_bos;
    /**
     * 1 when a text gets a token (EOS as a rule) put behind it where that is
     * asked for, else 0.
     */
    uint32_t add_eos;
    /** 1 when there is a chat template, else 0. */
    uint32_t has_chat_template;
    /** Fill-in-the-middle: the token before the text in front of a gap. */
    uint32_t fim_prefix_token;
    /** The token before the text behind a gap. */
    uint32_t fim_suffix_token;
    /** The token before what fills a gap. */
    uint32_t fim_middle_token;
    /** The token before the name of a repository. */
    uint32_t fim_repository_token;
    /** The token before the name of a file. */
    uint32_t fim_file_token;
} ember_tokenizer_info;

/**
 * Loads a tokenizer without a model and writes it with one reference to `out`;
 * give it back with ember_tokenizer_release. `path` is that of
 * - a GGUF file: a model's, whose tensors are not looked at, or one that holds
 *   a vocabulary alone;
 * - a Hugging Face folder with a `tokenizer.json`, which need not hold a model;
 * - a `tokenizer.json`, which is read with the files beside it; a JSON file of
 *   another name (`.json`) is taken alone.
 *
 * The sentence of an error begins with the path. Errors: EMBER_E_IO (missing,
 * unreadable), EMBER_E_FORMAT (malformed), EMBER_E_UNSUPPORTED (a kind of
 * vocabulary that this version does not know, or a file without one),
 * EMBER_E_NOMEM, EMBER_E_UTF8, EMBER_E_INVALID_ARGUMENT.
 */
ember_status ember_tokenizer_load(
    const char *path,
    size_t path_len,
    struct ember_tokenizer **out,
    struct ember_error **err);

/**
 * As ember_tokenizer_load, of `len` bytes at `data`: a GGUF file, or a
 * `tokenizer.json` alone. Nothing of them is kept. Error sentences begin with
 * `<buffer>`.
 */
ember_status ember_tokenizer_load_buffer(
    const uint8_t *data,
    size_t len,
    struct ember_tokenizer **out,
    struct ember_error **err);

/**
 * Adds a reference and returns `tokenizer`; NULL when `tokenizer` is not a
 * tokenizer. Any thread.
 */
struct ember_tokenizer *ember_tokenizer_retain(
    struct ember_tokenizer *tokenizer);

/**
 * Gives a reference back; the last one frees the tokenizer, unless a model has
 * it too. NULL is fine. Any thread.
 */
void ember_tokenizer_release(struct ember_tokenizer *tokenizer);

/**
 * Writes what is known of the tokens to `out`, whose struct_size must be set.
 * Any thread. Errors: EMBER_E_INVALID_ARGUMENT.
 */
ember_status ember_tokenizer_info_get(
    const struct ember_tokenizer *tokenizer,
    struct ember_tokenizer_info *out,
    struct ember_error **err);

/**
 * As ember_model_tokenize. Any thread. Errors: EMBER_E_INVALID_ARGUMENT,
 * EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED for a text that a
 * part of the tokenizer fails on, EMBER_E_NOMEM.
 */
ember_status ember_tokenizer_tokenize(
    const struct ember_tokenizer *tokenizer,
    const char *text,
    size_t text_len,
    bool add_special,
    bool parse_special,
    uint32_t *tokens,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * As ember_model_tokenize_bytes. Any thread. Errors: EMBER_E_INVALID_ARGUMENT,
 * EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED for a text that a part of the
 * tokenizer fails on, EMBER_E_NOMEM.
 */
ember_status ember_tokenizer_tokenize_bytes(
    const struct ember_tokenizer *tokenizer,
    const uint8_t *bytes,
    size_t len,
    bool add_special,
    bool parse_special,
    uint32_t *tokens,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Writes to `out` how many tokens ember_tokenizer_tokenize would give for
 * `text`. Any thread. Errors: as there, except EMBER_E_BUFFER_TOO_SMALL.
 */
ember_status ember_tokenizer_count(
    const struct ember_tokenizer *tokenizer,
    const char *text,
    size_t text_len,
    bool add_special,
    bool parse_special,
    size_t *out,
    struct ember_error **err);

/**
 * As ember_model_detokenize. Any thread. Errors: EMBER_E_INVALID_ARGUMENT for a
 * token that does not exist, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
 */
ember_status ember_tokenizer_detokenize(
    const struct ember_tokenizer *tokenizer,
    const uint32_t *tokens,
    size_t n_tokens,
    bool render_special,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * As ember_model_token_bytes: the exact bytes of one token, a control token's
 * text included. Any thread. Errors: EMBER_E_INVALID_ARGUMENT for a token that
 * does not exist, EMBER_E_BUFFER_TOO_SMALL.
 */
ember_status ember_tokenizer_token_bytes(
    const struct ember_tokenizer *tokenizer,
    uint32_t token,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * As ember_model_token_is_control. Any thread. Errors:
 * EMBER_E_INVALID_ARGUMENT, also for a token that does not exist.
 */
ember_status ember_tokenizer_token_is_control(
    const struct ember_tokenizer *tokenizer,
    uint32_t token,
    bool *out,
    struct ember_error **err);

/**
 * As ember_model_token_is_eog: whether `token` ends a generation. Any thread.
 * Errors: EMBER_E_INVALID_ARGUMENT, also for a token that does not exist.
 */
ember_status ember_tokenizer_token_is_eog(
    const struct ember_tokenizer *tokenizer,
    uint32_t token,
    bool *out,
    struct ember_error **err);

/**
 * Writes the tokenizer of a model with one reference to `out`; give it back
 * with ember_tokenizer_release. It is the model's own, not a copy, and may
 * outlive the model. Any thread. Errors: EMBER_E_INVALID_ARGUMENT,
 * EMBER_E_UNSUPPORTED for a model without a tokenizer, EMBER_E_NOMEM.
 */
ember_status ember_model_tokenizer(
    const struct ember_model *model,
    struct ember_tokenizer **out,
    struct ember_error **err);

/**
 * Writes the token ids of `text` to `tokens`, which holds `capacity` of them,
 * and their number to `n_needed`; a first call with capacity 0 asks for the
 * number. `add_special` adds the BOS and EOS tokens that the file asks for;
 * `parse_special` takes the text of control tokens ("<|im_start|>") for these
 * tokens instead of plain text. Any thread. Errors: EMBER_E_UTF8,
 * EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED for a model without a
 * tokenizer.
 */
ember_status ember_model_tokenize(
    const struct ember_model *model,
    const char *text,
    size_t text_len,
    bool add_special,
    bool parse_special,
    uint32_t *tokens,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * As ember_model_tokenize for `len` bytes at `bytes` that need not be UTF-8.
 * Valid stretches are taken as text; the bytes between them become byte tokens,
 * or the unknown token where the vocabulary has none. A vocabulary of bytes
 * that lacks some, as SmolLM2's lacks twenty, leaves these out, in valid text
 * too, as the model's own tokenizer does. Any thread. Errors:
 * EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED for a model without a
 * tokenizer.
 */
ember_status ember_model_tokenize_bytes(
    const struct ember_model *model,
    const uint8_t *bytes,
    size_t len,
    bool add_special,
    bool parse_special,
    uint32_t *tokens,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Writes the bytes of `n_tokens` tokens, joined, to `buffer` of `capacity`
 * bytes, and their number to `n_needed`. No NUL is added. They are taken for
 * the beginning of a text: where tokenizing puts a space before that, it goes
 * again. Tokens that continue a text keep it in ember_model_token_bytes and in
 * the bytes of events. The bytes need not be UTF-8 when the tokens begin or end
 * inside a code point. `render_special` writes control tokens as their text
 * instead of leaving them out. Any thread. Errors: EMBER_E_INVALID_ARGUMENT for
 * a token that does not exist, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED.
 */
ember_status ember_model_detokenize(
    const struct ember_model *model,
    const uint32_t *tokens,
    size_t n_tokens,
    bool render_special,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Writes the exact bytes of one token to `buffer` of `capacity` bytes, and
 * their number to `n_needed`. Any thread. Errors: EMBER_E_INVALID_ARGUMENT for
 * a token that does not exist, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED.
 */
ember_status ember_model_token_bytes(
    const struct ember_model *model,
    uint32_t token,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Writes to `out` whether `token` is a control token, such as BOS or the marks
 * of a chat's turns, which stands for no text. Any thread. Errors: as
 * ember_model_token_is_eog.
 */
ember_status ember_model_token_is_control(
    const struct ember_model *model,
    uint32_t token,
    bool *out,
    struct ember_error **err);

/**
 * Writes to `out` whether `token` ends a generation (end of sequence, of turn,
 * of message). Any thread. Errors: EMBER_E_INVALID_ARGUMENT for a token that
 * does not exist, EMBER_E_UNSUPPORTED for a model without a tokenizer.
 */
ember_status ember_model_token_is_eog(
    const struct ember_model *model,
    uint32_t token,
    bool *out,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Context
 * ========================================================================== */

/**
 * @defgroup ember_contexts Context
 * A context runs tokens through a model and remembers them: KV cache, threads,
 * buffers. It has one or more sequences, each a text of its own. One thread at
 * a time uses it; a second one gets EMBER_E_BUSY.
 *
 * @code{.c}
 * uint32_t tokens[] = {1, 2, 3};
 * const float *logits = NULL;
 * ember_context_new(model, NULL, &context, &err);
 * ember_context_decode(context, tokens, NULL, NULL, NULL, 3, &err);
 * ember_context_logits(context, 2, &logits, &err);
 * @endcode
 * @{
 */

/** What keys and values in the KV cache are rounded to. */
enum ember_kv_type
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** IEEE binary16. */
    EMBER_KV_F16 = 0,
    /** binary32: twice the memory, no rounding. */
    EMBER_KV_F32 = 1,
    /**
     * Bytes with a binary16 scale for each 32 components of a head: a little
     * more than half the memory of binary16. The length of the model's heads
     * must be a multiple of 32.
     */
    EMBER_KV_Q8_0 = 2,
    /**
     * 16-bit whole numbers times a power of two for each head's key or value of
     * a token: about as exact as binary16, four bytes more for each, and
     * multiplied as whole numbers, which is faster on x86-64. The length of the
     * model's heads must be a multiple of 16, 2048 at most.
     */
    EMBER_KV_I16 = 3,
    /**
     * The default: EMBER_KV_I16 on x86-64 where the model's heads allow it,
     * else EMBER_KV_F16. States can only be loaded where keys and values are of
     * the same types: who takes them from one kind of processor to another
     * chooses one.
     */
    EMBER_KV_AUTO = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_kv_type ember_kv_type;
#else
typedef int32_t ember_kv_type;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/** Implementation of the mathematics. */
enum ember_backend
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** The fastest there is, on all threads of the context: the default. */
    EMBER_BACKEND_AUTO = 0,
    /**
     * The plain scalar definition, on the calling thread: slow, the reference
     * to compare with.
     */
    EMBER_BACKEND_SCALAR = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_backend ember_backend;
#else
typedef int32_t ember_backend;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The options in force in a context. Set struct_size to
 * sizeof(ember_context_info) before the call.
 */
typedef struct ember_context_info {
    /** Size of this struct as the caller knows it. */
    size_t struct_size;
    /** Positions per sequence. */
    uint32_t n_ctx;
    /** Sequences, numbered from 0. */
    uint32_t n_seq;
    /** Rows run through the model at a time. */
    uint32_t n_batch;
    /** Threads, the caller's included. */
    uint32_t n_threads;
    /** Tokens of a page of the KV cache; a sequence takes whole pages. */
    uint32_t page_len;
    /** Pages of the KV cache; layers with a window have pages of their own. */
    uint32_t n_pages;
    /** Pages that no sequence has at the moment. */
    uint32_t n_free_pages;
    /** An ember_backend. */
    int32_t backend;
} ember_context_info;

/**
 * Tokens run and nanoseconds spent since the context was made or
 * ember_context_timings_reset. Calls that ended with an error do not count. Set
 * struct_size to sizeof(ember_timings) before the call.
 */
typedef struct ember_timings {
    /** Size of this struct as the caller knows it. */
    size_t struct_size;
    /** Nanoseconds that loading the model took. */
    uint64_t load_ns;
    /** Tokens of calls with several tokens of a sequence: prompts. */
    uint64_t n_prefill;
    /** Their nanoseconds. */
    uint64_t prefill_ns;
    /**
     * Tokens of calls with one token of a sequence, or one of each of several
     * in ascending order: generation.
     */
    uint64_t n_decode;
    /** Their nanoseconds. */
    uint64_t decode_ns;
    /** Tokens of texts that were embedded, without those that were cut off. */
    uint64_t n_embed;
    /** Their nanoseconds. */
    uint64_t embed_ns;
    /**
     * Tokens that were run once more for the states of recurrent layers (LFM2,
     * Qwen 3.5), since their sequence was shortened to where it has no
     * snapshot.
     */
    uint64_t n_replay;
    /** Their nanoseconds. */
    uint64_t replay_ns;
} ember_timings;

/**
 * Writes new options with their defaults to `out`; free them with
 * ember_context_options_free.
 */
ember_status ember_context_options_new(
    struct ember_context_options **out,
    struct ember_error **err);

/** Frees options; contexts made with them are not affected. NULL is fine. */
void ember_context_options_free(struct ember_context_options *options);

/**
 * Positions per sequence, 2147483647 at most. 0, the default: what the model
 * was trained on, but no more than 4096. Errors: EMBER_E_INVALID_ARGUMENT.
 */
ember_status ember_context_options_set_n_ctx(
    struct ember_context_options *options,
    uint32_t n_ctx,
    struct ember_error **err);

/**
 * Number of sequences, 1 to 4096. Default: 1. Errors: EMBER_E_INVALID_ARGUMENT
 * for any other number.
 */
ember_status ember_context_options_set_n_seq(
    struct ember_context_options *options,
    uint32_t n_seq,
    struct ember_error **err);

/**
 * Rows run through the model at a time; longer calls are cut. More is faster
 * and takes more memory. At most 65536; 0, the default: 256, and for an
 * encoder, which must see a text as a whole, n_ctx where that is more, up to
 * 65536. It is never more than n_ctx times n_seq. Errors:
 * EMBER_E_INVALID_ARGUMENT.
 */
ember_status ember_context_options_set_n_batch(
    struct ember_context_options *options,
    uint32_t n_batch,
    struct ember_error **err);

/**
 * Threads, the calling one included, 512 at most. 0, the default: one for each
 * core that the process may use (by its affinity mask and cgroup quota, or by
 * ember_context_options_set_worker_cpus), of performance cores only where there
 * are slower ones too. Results do not depend on it. When the contexts at work
 * in a process have more threads than it has CPUs, some of their threads sleep.
 * Errors: EMBER_E_INVALID_ARGUMENT.
 */
ember_status ember_context_options_set_n_threads(
    struct ember_context_options *options,
    uint32_t n_threads,
    struct ember_error **err);

/**
 * The CPUs, by the system's numbers, that the threads which the context makes
 * run on: n of them at `cpus`, each below 8192. n = 0, the default: the system
 * chooses. The calling thread, which works too, is never bound; bind it
 * yourself if you want that. Errors: EMBER_E_INVALID_ARGUMENT. Whether the
 * process may use each of these CPUs, and whether the system can bind threads
 * at all (Linux and Android can), shows when a context is made. A number may
 * come twice.
 */
ember_status ember_context_options_set_worker_cpus(
    struct ember_context_options *options,
    const uint32_t *cpus,
    size_t n,
    struct ember_error **err);

/**
 * What keys and values in the KV cache are rounded to, an ember_kv_type; by
 * default EMBER_KV_AUTO. An encoder's cache, which holds one layer at a time,
 * is float32 all the same. Errors: EMBER_E_INVALID_ARGUMENT for any other
 * number; whether the type fits the model shows when a context is made.
 */
ember_status ember_context_options_set_kv_type(
    struct ember_context_options *options,
    int32_t kv_type,
    struct ember_error **err);

/** As ember_context_options_set_kv_type, for keys alone. */
ember_status ember_context_options_set_k_type(
    struct ember_context_options *options,
    int32_t k_type,
    struct ember_error **err);

/**
 * As ember_context_options_set_kv_type, for values alone. A model whose values
 * are parts of its keys (latent attention, as in DeepSeek) keeps no others, and
 * refuses to have them of another type than keys.
 */
ember_status ember_context_options_set_v_type(
    struct ember_context_options *options,
    int32_t v_type,
    struct ember_error **err);

/**
 * Implementation, an ember_backend. Errors: EMBER_E_INVALID_ARGUMENT for any
 * other number.
 */
ember_status ember_context_options_set_backend(
    struct ember_context_options *options,
    int32_t backend,
    struct ember_error **err);

/**
 * The most bytes of the KV cache, whose pages all sequences share. When no page
 * is left, what would need one gives EMBER_E_CONTEXT_FULL and leaves every
 * sequence as it was; rewind one, then. 0, the default: as many as all
 * sequences need at full length, or at the same time where they give pages back
 * (ember_context_options_set_keep_all_positions). Making a context gives
 * EMBER_E_INVALID_ARGUMENT for less than one page.
 */
ember_status ember_context_options_set_kv_limit(
    struct ember_context_options *options,
    uint64_t bytes,
    struct ember_error **err);

/**
 * Whether whole pages of the KV cache are kept when no sequence has them any
 * more, until the pages are needed. Texts that begin alike (with the same
 * instructions, say) then need not be computed again.
 * ember_context_sequence_reuse finds such pages, and so does a generation with
 * ember_generate_options_set_reuse_prefix. Default: false.
 */
ember_status ember_context_options_set_keep_prefixes(
    struct ember_context_options *options,
    bool keep_prefixes,
    struct ember_error **err);

/**
 * Whether sequences keep all their positions in layers with a window (all of
 * Mistral 0.1 and Phi-3 mini, some of Gemma 2 to 4 and gpt-oss). By default
 * sequences give the memory back that no token to come sees while they grow: a
 * long text then takes about as much memory in these layers as its last tokens,
 * those of a window and of a batch. All n_ctx positions can be used, and the
 * numbers are the same; but a sequence cannot be cut (ember_context_rewind,
 * ember_context_sequence_copy) where a window would reach back to what is gone.
 * It can be cut within its last 32 tokens, and to nothing; and, unless the
 * pages were needed since, at the end of the last call with several tokens,
 * which is the last prompt as a rule. Default: false.
 */
ember_status ember_context_options_set_keep_all_positions(
    struct ember_context_options *options,
    bool keep_all_positions,
    struct ember_error **err);

/**
 * How many snapshots of recurrent states the context can hold, in models with
 * recurrent layers (LFM2, Qwen 3.5). Such a layer keeps one state of a
 * sequence, which cannot be taken back by a few tokens: a sequence that is
 * shortened goes on from its nearest snapshot, and what lies between is run
 * once more (`n_replay` of ember_timings). Ember takes snapshots at the ends of
 * prompts and answers and within prompts
 * (ember_context_options_set_snapshot_distance); a new one replaces the one
 * that was unused for the longest time. As many draft tokens as there are
 * snapshots can be checked at a time. Each has the size of a state, which
 * counts as part of the KV cache. 0, the default: 8 for each sequence, but no
 * more than 64. Errors: EMBER_E_INVALID_ARGUMENT for more than 65536.
 */
ember_status ember_context_options_set_n_snapshots(
    struct ember_context_options *options,
    uint32_t n_snapshots,
    struct ember_error **err);

/**
 * How many tokens lie between two snapshots of recurrent states within a
 * prompt, rounded up to whole pages (page_len of ember_context_info). A long
 * prompt has them further apart, so that it takes no more than half of all
 * snapshots. 0, the default: 256.
 */
ember_status ember_context_options_set_snapshot_distance(
    struct ember_context_options *options,
    uint32_t n_tokens,
    struct ember_error **err);

/**
 * The most bytes that the large buffers of a context may have: KV cache,
 * activations, logits. A limit of the model
 * (ember_model_options_set_memory_limit) counts as well. 0, the default: no
 * limit of its own.
 */
ember_status ember_context_options_set_memory_limit(
    struct ember_context_options *options,
    uint64_t bytes,
    struct ember_error **err);

/**
 * Makes a context over `model` and writes it to `out`; free it with
 * ember_context_free. The context keeps the model alive. `options` may be NULL
 * and may be freed afterwards. Any thread. Errors: EMBER_E_INVALID_ARGUMENT for
 * options that contradict the model, or a CPU that may not be used;
 * EMBER_E_NOMEM; EMBER_E_UNSUPPORTED for CPUs where the system cannot bind
 * threads.
 */
ember_status ember_context_new(
    const struct ember_model *model,
    const struct ember_context_options *options,
    struct ember_context **out,
    struct ember_error **err);

/**
 * Frees a context; a generator made with it keeps what it needs of it. NULL is
 * fine. While a call is using the context (from that call's callback, or on
 * another thread) it is not freed, and the log says so: free it afterwards.
 */
void ember_context_free(struct ember_context *context);

/**
 * Writes the options in force to `out`, whose struct_size must be set. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_context_info_get(
    const struct ember_context *context,
    struct ember_context_info *out,
    struct ember_error **err);

/**
 * The token that may end the context's calls early from now on. Decoding,
 * embedding and scoring then give EMBER_E_CANCELLED, and generation ends with
 * EMBER_FINISH_CANCELLED. Sequences stay as they were, except for what scoring
 * lets its sequence forget. The logits of the call before are gone. The context
 * keeps what it needs of the token. NULL: none. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_context_set_cancel_token(
    struct ember_context *context,
    const struct ember_cancel_token *token,
    struct ember_error **err);

/**
 * Runs `n` tokens through the model. All arrays have `n` elements, and all but
 * `tokens` may be NULL:
 * - `positions`, to check that the caller and the context agree on where each
 *   token goes (the end of its sequence);
 * - `sequences`, the sequence of each token (NULL: all in sequence 0);
 * - `want_logits`, non-zero where logits are wanted (NULL: for the last token
 *   only).
 *
 * On any error the sequences are as before. Errors: EMBER_E_INVALID_ARGUMENT
 * for a token, position or sequence out of range, n of 0, or a context with
 * threads that the parent process made before fork(); EMBER_E_CONTEXT_FULL;
 * EMBER_E_UNSUPPORTED for an encoder, which has embeddings only; EMBER_E_NOMEM;
 * EMBER_E_BUSY; EMBER_E_CANCELLED by the context's token; EMBER_E_IO when the
 * model's file can no longer be read (ember_model_options_set_use_mmap).
 */
ember_status ember_context_decode(
    struct ember_context *context,
    const uint32_t *tokens,
    const uint32_t *positions,
    const uint32_t *sequences,
    const uint8_t *want_logits,
    size_t n,
    struct ember_error **err);

/**
 * Writes the address of the logits of token `index` of the last
 * ember_context_decode, n_vocab floats, to `out`. They belong to the context
 * and stay as they are until its next decode, generate, score, rewind,
 * sequence_reuse, state_load or free. After a state was loaded, `index` counts
 * the sequences of it whose state has logits, the first being 0. After
 * ember_generate and ember_generator_next an index means nothing: which tokens
 * their last decode had is theirs to choose. Errors: EMBER_E_NOT_FOUND when
 * nothing was decoded yet, when that token does not exist or did not ask for
 * logits, and when the logits are gone; EMBER_E_UNSUPPORTED for an encoder,
 * EMBER_E_BUSY.
 */
ember_status ember_context_logits(
    const struct ember_context *context,
    size_t index,
    const float **out,
    struct ember_error **err);

/**
 * Writes the number of tokens in `sequence`, which is the position of its next
 * token, to `out`. Errors: EMBER_E_INVALID_ARGUMENT for a sequence that does
 * not exist, EMBER_E_BUSY.
 */
ember_status ember_context_n_past(
    const struct ember_context *context,
    uint32_t sequence,
    uint32_t *out,
    struct ember_error **err);

/**
 * Writes the tokens of `sequence`, in order, to `tokens`, which holds
 * `capacity` of them, and their number to `n_needed`; a first call with
 * capacity 0 asks for the number. They are what decoding, generating and
 * loading a state brought there: after a shift those that are left. Errors:
 * EMBER_E_INVALID_ARGUMENT for a sequence that does not exist,
 * EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
 */
ember_status ember_context_tokens(
    const struct ember_context *context,
    uint32_t sequence,
    uint32_t *tokens,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Forgets the tokens of `sequence` from position `n_past` on; 0 empties it. The
 * logits of the last decode are gone. Errors: EMBER_E_INVALID_ARGUMENT when the
 * sequence does not exist or is shorter, or has given back what its next token
 * would see (ember_context_options_set_keep_all_positions); EMBER_E_BUSY.
 */
ember_status ember_context_rewind(
    struct ember_context *context,
    uint32_t sequence,
    uint32_t n_past,
    struct ember_error **err);

/**
 * Makes sequence `to` the first `n_tokens` tokens of sequence `from`; what `to`
 * held is gone. The two share the memory of the KV cache until they differ, so
 * this costs next to nothing: for several answers to one prompt. Where the
 * logits behind the last of these tokens are there, they are `to`'s as well, so
 * that an empty prompt goes on from there. Errors: EMBER_E_INVALID_ARGUMENT
 * when a sequence does not exist, `from` is shorter, both are the same, or
 * `from` has given back what the next token would see
 * (ember_context_options_set_keep_all_positions); EMBER_E_BUSY.
 */
ember_status ember_context_sequence_copy(
    struct ember_context *context,
    uint32_t from,
    uint32_t to,
    uint32_t n_tokens,
    struct ember_error **err);

/**
 * Makes `sequence` as much of the beginning of the `n` tokens as the KV cache
 * has, `most` tokens at most, and writes their number to `n_reused`. That is
 * what the sequence has of it already, or whole pages that were kept of other
 * texts, if that is more (ember_context_options_set_keep_prefixes). Decode the
 * rest, then; leave one token at least, for its logits. Of what the sequence
 * has, none is reused where it has given back what its next token would see
 * (ember_context_options_set_keep_all_positions). Errors:
 * EMBER_E_INVALID_ARGUMENT when the sequence does not exist, EMBER_E_BUSY.
 */
ember_status ember_context_sequence_reuse(
    struct ember_context *context,
    uint32_t sequence,
    const uint32_t *tokens,
    size_t n,
    size_t most,
    size_t *n_reused,
    struct ember_error **err);

/**
 * Forgets `n_drop` tokens of `sequence` behind its first `n_keep`, where a text
 * has become too long. The tokens behind them move forward to their places, and
 * their keys in the KV cache are re-rotated to the new positions, which takes
 * about as long as reading them. What was computed from the forgotten tokens
 * stays in what follows, so this is cheaper than running the rest anew and not
 * quite the same. Each time the moved keys are rounded once more. The logits
 * behind the last token stay, unless it is forgotten. Prefixes that are kept
 * (ember_context_options_set_keep_prefixes) never have moved tokens. Errors:
 * EMBER_E_INVALID_ARGUMENT when the sequence does not exist or is shorter, or
 * of its first `n_keep` tokens would be seen again what was given back
 * (ember_context_options_set_keep_all_positions); EMBER_E_UNSUPPORTED for a
 * model with learned positions (GPT-2) or recurrent layers (LFM2, Qwen 3.5) and
 * for an encoder; EMBER_E_CONTEXT_FULL when the KV cache has too few pages left
 * to copy those that other sequences have too; EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_context_sequence_shift(
    struct ember_context *context,
    uint32_t sequence,
    uint32_t n_keep,
    uint32_t n_drop,
    struct ember_error **err);

/**
 * Empties all sequences but `sequence`. (ember_context_rewind to 0 empties
 * one.) Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist,
 * EMBER_E_BUSY.
 */
ember_status ember_context_sequence_keep(
    struct ember_context *context,
    uint32_t sequence,
    struct ember_error **err);

/**
 * Writes to `out` what the context has done, and how long it took. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_context_timings_get(
    const struct ember_context *context,
    struct ember_timings *out,
    struct ember_error **err);

/**
 * Sets the counters of the context to 0; load_ns stays. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_context_timings_reset(
    struct ember_context *context,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Generation
 * ========================================================================== */

/**
 * @defgroup ember_generation Generation
 * A generation continues a prompt token by token, as events with text.
 * ember_generate pushes the events to a callback; an ember_generator gives them
 * one by one. A prompt with the marks of a chat template needs
 * ember_generate_options_set_parse_special.
 *
 * @code{.c}
 * ember_generator *generator = NULL;
 * ember_generator_new(context, "Once", 4, options, sampler, &generator, &err);
 * while (ember_generator_next(generator, &event, &err) == EMBER_OK &&
 *        event.kind != EMBER_EVENT_END)
 *     fwrite(event.text, 1, event.text_len, stdout);
 * ember_generator_free(generator);
 * @endcode
 * @{
 */

/** Why a generation ended. */
enum ember_finish_reason
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** It has not ended. */
    EMBER_FINISH_NONE = -1,
    /** As many tokens as asked for were generated. */
    EMBER_FINISH_MAX_TOKENS = 0,
    /** The model gave an end-of-generation token. */
    EMBER_FINISH_EOG = 1,
    /** The callback asked to stop. */
    EMBER_FINISH_STOPPED = 2,
    /** The sequence has n_ctx tokens and cannot grow. */
    EMBER_FINISH_CONTEXT_FULL = 3,
    /** A stop string was generated. */
    EMBER_FINISH_STOP_STRING = 4,
    /**
     * A cancel token ended it, or a stage of the sampler's that is the caller's
     * own (ember_sampler_add_callback).
     */
    EMBER_FINISH_CANCELLED = 5,
    /**
     * It took longer than its time limit
     * (ember_generate_options_set_time_limit).
     */
    EMBER_FINISH_TIME_LIMIT = 6,
    /**
     * An error ended a request of an engine, which ember_request_next gives.
     */
    EMBER_FINISH_FAILED = 7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_finish_reason ember_finish_reason;
#else
typedef int32_t ember_finish_reason;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/** What an event is. */
enum ember_event_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * The text of the prompt, if an echo was asked for and it has any; the
     * first event. (A request of an engine that ends before it began has none.)
     */
    EMBER_EVENT_ECHO = 0,
    /** A token was generated. */
    EMBER_EVENT_TOKEN = 1,
    /** The generation has ended; the last event. */
    EMBER_EVENT_END = 2,
    /**
     * There is no event yet, from ember_request_next, whose time is over; or
     * none any more, from ember_completions_next.
     */
    EMBER_EVENT_NONE = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_event_kind ember_event_kind;
#else
typedef int32_t ember_event_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * A token and the natural logarithm of its probability, at most 0. Of fixed
 * size.
 */
typedef struct ember_token_logprob {
    /** The token. */
    uint32_t token;
    /** Its log-probability, before the sampler's stages. */
    float logprob;
} ember_token_logprob;

/**
 * What happens in a generation. What it points to is Ember's, and stays until
 * the next call with the generator (or, in a callback, until that returns). Set
 * struct_size to sizeof(ember_event) before ember_generator_next.
 */
typedef struct ember_event {
    /**
     * Size of this struct as the caller knows it; in a callback, as the library
     * knows it.
     */
    size_t struct_size;
    /**
     * New text, text_len bytes of whole UTF-8 code points, not NUL-terminated,
     * never NULL, perhaps of length 0. Bytes of the model that are no UTF-8 are
     * U+FFFD here. Text that may be the beginning of a stop string comes with a
     * later event, so it need not be that of the event's token. The texts of
     * all events in a row are the whole text.
     */
    const char *text;
    /** Length of text. */
    size_t text_len;
    /**
     * The bytes that the token stands for, perhaps a part of a code point;
     * n_bytes of them, never NULL.
     */
    const uint8_t *bytes;
    /** Length of bytes. */
    size_t n_bytes;
    /**
     * The likeliest tokens at the place of this one, the likeliest first; NULL
     * when there are none.
     */
    const struct ember_token_logprob *tops;
    /** Length of tops. */
    size_t n_tops;
    /** An ember_event_kind. */
    int32_t kind;
    /** The token of EMBER_EVENT_TOKEN, else EMBER_TOKEN_NONE. */
    uint32_t token;
    /**
     * Its log-probability, before the sampler's stages; NaN when it was not
     * asked for.
     */
    float logprob;
    /** The ember_finish_reason of EMBER_EVENT_END, else EMBER_FINISH_NONE. */
    int32_t finish_reason;
} ember_event;

/**
 * What a generation did. Set struct_size to sizeof(ember_generate_result)
 * before the call.
 */
typedef struct ember_generate_result {
    /** Size of this struct as the caller knows it. */
    size_t struct_size;
    /** Nanoseconds spent on the prompt. */
    uint64_t prefill_ns;
    /**
     * Nanoseconds spent on the generated tokens, the caller's own work between
     * them not counted.
     */
    uint64_t decode_ns;
    /** Tokens of the prompt, BOS included. */
    uint32_t n_prompt;
    /** Tokens generated, an end-of-generation token not counted. */
    uint32_t n_generated;
    /** An ember_finish_reason. */
    int32_t finish_reason;
    /**
     * Tokens of the prompt that the sequence held already
     * (ember_generate_options_set_reuse_prefix).
     */
    uint32_t n_reused;
    /**
     * Draft tokens that were run ahead (ember_generate_options_set_lookup,
     * ember_generate_options_set_draft).
     */
    uint32_t n_drafted;
    /** Of these, those that were accepted. */
    uint32_t n_accepted;
    /**
     * Tokens that were forgotten because the sequence was full
     * (ember_generate_options_set_shift).
     */
    uint64_t n_shifted;
    /**
     * Tokens that a constraint left no choice for and that were run together
     * with others (ember_generate_options_set_constraint).
     */
    uint32_t n_forced;
    /**
     * How far the text is that follows a constraint: an
     * ember_constraint_progress. A text that is cut off is
     * EMBER_CONSTRAINT_UNFINISHED.
     */
    int32_t progress;
    /**
     * Sum of the log-probabilities of the tokens generated, before the
     * sampler's stages, that of an end-of-generation token included; NaN when
     * they were not asked for (ember_generate_options_set_logprobs), or nothing
     * was generated.
     */
    double sum_logprob;
    /**
     * Their mean, which says how likely the model finds the text whatever its
     * length; NaN likewise.
     */
    double mean_logprob;
} ember_generate_result;

/**
 * Receives an event of a generation, valid during the call, and the `user_data`
 * given with the callback. Returning anything but 0 ends the generation; no
 * more events come then. Runs on the calling thread. It must return: an
 * exception of C++ that leaves it, or a longjmp out of it, is undefined
 * behaviour, since the library has no way to clean up. Catch everything inside,
 * keep it in `user_data`, and return 1.
 */
typedef int32_t (*ember_event_callback)(
    const struct ember_event *event,
    void *user_data);

/**
 * Writes new options with their defaults to `out`; free them with
 * ember_generate_options_free.
 */
ember_status ember_generate_options_new(
    struct ember_generate_options **out,
    struct ember_error **err);

/** Frees options. NULL is fine. */
void ember_generate_options_free(struct ember_generate_options *options);

/** Most tokens to generate. Default: 128. */
ember_status ember_generate_options_set_max_tokens(
    struct ember_generate_options *options,
    uint32_t max_tokens,
    struct ember_error **err);

/** The sequence of the context to continue. Default: 0. */
ember_status ember_generate_options_set_sequence(
    struct ember_generate_options *options,
    uint32_t sequence,
    struct ember_error **err);

/**
 * Whether the text of control tokens in the prompt stands for these tokens.
 * Default: false, as is right for text that users type.
 */
ember_status ember_generate_options_set_parse_special(
    struct ember_generate_options *options,
    bool parse_special,
    struct ember_error **err);

/**
 * Whether control tokens that the model generates appear in the text. Default:
 * false.
 */
ember_status ember_generate_options_set_render_special(
    struct ember_generate_options *options,
    bool render_special,
    struct ember_error **err);

/** Whether to go on after an end-of-generation token. Default: false. */
ember_status ember_generate_options_set_ignore_eog(
    struct ember_generate_options *options,
    bool ignore_eog,
    struct ember_error **err);

/**
 * Adds a stop string, `stop_len` bytes of UTF-8: generation ends where it has
 * been generated, with EMBER_FINISH_STOP_STRING, and the text ends before it.
 * Text that may be the beginning of a stop string is held back until that is
 * certain, however the model cuts it into tokens. Of several stop strings the
 * one that is complete first counts, of those complete at once the longest.
 * Errors: EMBER_E_INVALID_ARGUMENT for an empty one, EMBER_E_UTF8,
 * EMBER_E_BUSY.
 */
ember_status ember_generate_options_add_stop(
    struct ember_generate_options *options,
    const char *stop,
    size_t stop_len,
    struct ember_error **err);

/**
 * Whether the stop string that ended a generation is the end of its text.
 * Default: false.
 */
ember_status ember_generate_options_set_include_stop(
    struct ember_generate_options *options,
    bool include_stop,
    struct ember_error **err);

/**
 * Whether the prompt is the whole of what the sequence shall hold, from its
 * first token on. Ember keeps what the sequence begins with already, forgets
 * the rest of it, and runs only the new part of the prompt (its last token in
 * any case). This is for conversations: give all of it each time and pay for
 * what was added. Default: false, the prompt goes behind what the sequence
 * holds.
 */
ember_status ember_generate_options_set_reuse_prefix(
    struct ember_generate_options *options,
    bool reuse_prefix,
    struct ember_error **err);

/** Whether the first event is the prompt's text. Default: false. */
ember_status ember_generate_options_set_echo(
    struct ember_generate_options *options,
    bool echo,
    struct ember_error **err);

/**
 * Whether events carry the log-probability of their token: that of the model's
 * own distribution, before the sampler's stages. Default: false.
 */
ember_status ember_generate_options_set_logprobs(
    struct ember_generate_options *options,
    bool logprobs,
    struct ember_error **err);

/**
 * How many of the likeliest tokens each event carries with their
 * log-probabilities, at most 64; more than 0 means
 * ember_generate_options_set_logprobs too. Default: 0. Errors:
 * EMBER_E_INVALID_ARGUMENT for more than 64, EMBER_E_BUSY.
 */
ember_status ember_generate_options_set_n_top(
    struct ember_generate_options *options,
    uint32_t n_top,
    struct ember_error **err);

/**
 * How many milliseconds the generation may take, from the making of its
 * generator or its submission to an engine on; it ends with
 * EMBER_FINISH_TIME_LIMIT when another token would come after that. A prompt
 * that runs already is run to its end, or, by an engine, to the end of the
 * step. A limit that is over before the first step ends it there, and the
 * prompt is not run. 0: any. Default: 0.
 */
ember_status ember_generate_options_set_time_limit(
    struct ember_generate_options *options,
    uint64_t time_limit_ms,
    struct ember_error **err);

/**
 * Which of the requests that wait in an engine's queue begins first: that of
 * the highest priority, of equal ones the one that came first. Nobody waits for
 * ever. Of the requests that 32 later ones have passed, the one that came first
 * is next all the same, and all others are counted from 0 again. So an urgent
 * request behind a long queue waits for one of these at most, and then 32 go by
 * priority. Where pages of the KV cache are few, requests give theirs up in the
 * opposite order and are run again later. Requests that came later and stay
 * have passed them too. Default: 0.
 */
ember_status ember_generate_options_set_priority(
    struct ember_generate_options *options,
    int32_t priority,
    struct ember_error **err);

/**
 * The token that ends the generation early, with EMBER_FINISH_CANCELLED and no
 * error. The options keep what they need of it. NULL, the default: none. The
 * context's own token ends it too. A request of an engine ends with the
 * engine's next step, as with ember_request_cancel. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_generate_options_set_cancel_token(
    struct ember_generate_options *options,
    const struct ember_cancel_token *token,
    struct ember_error **err);

/**
 * What a generation does where its sequence is full (n_ctx): it forgets
 * `n_drop` tokens behind the first `n_keep` and goes on, each time that
 * happens, as ember_context_sequence_shift does it; ember_generate_result
 * counts them. `n_drop` of 0, the default: it ends with
 * EMBER_FINISH_CONTEXT_FULL. A prompt that does not fit is an error all the
 * same. If the KV cache has no pages left to copy those that other sequences
 * have too, the step gives EMBER_E_CONTEXT_FULL. Errors here:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY. Errors where the generation begins:
 * EMBER_E_INVALID_ARGUMENT when the two numbers together are not below n_ctx,
 * or of the first `n_keep` tokens would be seen again what was given back
 * (ember_context_options_set_keep_all_positions); EMBER_E_UNSUPPORTED for a
 * model with learned positions (GPT-2) or recurrent layers (LFM2, Qwen 3.5),
 * and in an engine.
 */
ember_status ember_generate_options_set_shift(
    struct ember_generate_options *options,
    uint32_t n_keep,
    uint32_t n_drop,
    struct ember_error **err);

/**
 * Takes draft tokens from the text itself: up to `n_draft` (at most 32; 0, the
 * default: none), which run together with the token before them. They are what
 * followed the last tokens, `ngram` (1 to 16; 3 is good) down to 2, where they
 * stood in the text before. That pays where texts repeat what they have said or
 * were given, as summaries, corrections and code do. Where drafts are rejected
 * Ember makes fewer, down to none for up to 32 tokens. The tokens are the same
 * as without: each is still chosen by the sampler from the model's logits, one
 * for each event, and with the default types of the KV cache these have the
 * same bits. Between two events the sequence holds what it would hold without.
 * A call that decodes on the same context between two events discards the
 * drafts made before it, so generators that take turns gain nothing; an engine
 * does without them. Takes memory for the logits of `n_draft` tokens more.
 * Errors: EMBER_E_INVALID_ARGUMENT for numbers out of range, EMBER_E_BUSY.
 */
ember_status ember_generate_options_set_lookup(
    struct ember_generate_options *options,
    uint32_t n_draft,
    uint32_t ngram,
    struct ember_error **err);

/**
 * Takes draft tokens from a smaller model with the same vocabulary: up to
 * `n_draft` (at most 32), which run together with the token before them. Where
 * a lookup (ember_generate_options_set_lookup) finds some, those are taken. All
 * said there holds here. `draft` is a context of the smaller model, whose
 * sequence `sequence` becomes the beginning of the text, whatever it held; it
 * needs about the n_ctx of the other, or drafts end where it is full. Several
 * generators may share it, each with a sequence of its own. The options, and
 * generators made with them, keep it alive, so it may be freed at any time. It
 * is used while a generator is made and during its steps: they give
 * EMBER_E_BUSY when another call is using it then, and can be tried again. What
 * is wrong with `draft` alone ends no generation: when it is full, short of
 * memory or cancelled by its own token (ember_context_set_cancel_token), there
 * are no drafts. `draft` NULL, the default, or `n_draft` 0: none. Errors here:
 * EMBER_E_INVALID_ARGUMENT for an n_draft out of range, EMBER_E_BUSY. Errors
 * where the generation begins: EMBER_E_INVALID_ARGUMENT for a sequence that
 * does not exist, for a model with other tokens, and when `draft` is the
 * context of the generation itself; EMBER_E_UNSUPPORTED for an encoder.
 */
ember_status ember_generate_options_set_draft(
    struct ember_generate_options *options,
    struct ember_context *draft,
    uint32_t sequence,
    uint32_t n_draft,
    struct ember_error **err);

/**
 * What the generated text has to follow: only tokens that it allows are
 * candidates, before all stages of the sampler, and the generation ends with
 * it, as EMBER_FINISH_EOG. The options keep what they need of it. It begins
 * with the first generated token, or behind its trigger. ember_generate_result
 * says whether the text is complete: one that is cut off, by max_tokens, a stop
 * string, a full context or a cancel token, is EMBER_CONSTRAINT_UNFINISHED.
 * Tokens that it leaves no choice for are run together with the one before
 * them, in one batch; each has its event all the same. Draft tokens
 * (ember_generate_options_set_lookup, ember_generate_options_set_draft) that it
 * does not allow are not run. NULL, the default: none. Errors here:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY. Errors where the generation begins:
 * EMBER_E_INVALID_ARGUMENT for a constraint of another model, and with
 * ember_generate_options_set_ignore_eog. Errors of a step:
 * EMBER_E_INVALID_ARGUMENT where a limit of the constraint is reached, or the
 * sampler's stages rule out all that it allows.
 */
ember_status ember_generate_options_set_constraint(
    struct ember_generate_options *options,
    const struct ember_constraint *constraint,
    struct ember_error **err);

/**
 * Continues a sequence of `context` by `prompt` and then by generated tokens,
 * and hands every event to `callback` with `user_data`: one call for each
 * token, with its text. **A prompt made by a chat template needs
 * ember_generate_options_set_parse_special.** Without it, the template's marks
 * are plain text to the model. An empty sequence begins with the special tokens
 * the file asks for (BOS). Behind what a sequence holds, none is put before the
 * prompt. The space that texts of some models begin with is there where the
 * whole text would have it: at the start and behind a special token, never
 * behind text. Afterwards the sequence holds the prompt and the generated
 * tokens, except an end-of-generation token. So the next call goes on from
 * there, and an empty prompt continues the text itself if nothing else was
 * decoded in between. ember_context_rewind starts anew.
 * ember_generate_options_set_reuse_prefix takes the prompt for the whole. A
 * callback that ends it before the first token (at EMBER_EVENT_ECHO) leaves the
 * sequence without the prompt. EMBER_FINISH_CANCELLED leaves the sequence with
 * what was run by then (ember_context_n_past gives the number):
 * - nothing of the prompt where that was not run to its end; with reuse_prefix
 *   perhaps what both have in common;
 * - all but the last token where that was to be run;
 * - all where a stage of the sampler ended the choice of the next token.
 *
 * The sampler accepts the tokens of the prompt (ember_sampler_accept), and each
 * token as it is generated: penalties count them all. With reuse_prefix the
 * prompt takes the place of all that was accepted before. `options` NULL: the
 * defaults. `sampler` NULL: greedy. `out_result` NULL: not wanted. The context
 * and the sampler are in use until the call returns. In the callback, using
 * either gives EMBER_E_BUSY, and freeing either does nothing but write a line
 * to the log. The same generation in pull form: ember_generator_new. Errors:
 * EMBER_E_CONTEXT_FULL when the prompt does not fit (the sequence is as before,
 * but for what reuse_prefix lets it forget); EMBER_E_CONTEXT_FULL when the
 * pages of the KV cache (ember_context_options_set_kv_limit) are used up later,
 * where what was run stays; EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8,
 * EMBER_E_UNSUPPORTED for an encoder or a model without a tokenizer,
 * EMBER_E_NOMEM, EMBER_E_BUSY. A cancel token is no error: finish_reason says
 * so.
 */
ember_status ember_generate(
    struct ember_context *context,
    const char *prompt,
    size_t prompt_len,
    const struct ember_generate_options *options,
    struct ember_sampler *sampler,
    ember_event_callback callback,
    void *user_data,
    struct ember_generate_result *out_result,
    struct ember_error **err);

/**
 * As ember_generate for a prompt of `n_tokens` token ids, to which nothing is
 * added; the model needs no tokenizer, unless there are stop strings or an
 * echo. Errors: as ember_generate, and EMBER_E_INVALID_ARGUMENT for a token
 * that does not exist.
 */
ember_status ember_generate_tokens(
    struct ember_context *context,
    const uint32_t *tokens,
    size_t n_tokens,
    const struct ember_generate_options *options,
    struct ember_sampler *sampler,
    ember_event_callback callback,
    void *user_data,
    struct ember_generate_result *out_result,
    struct ember_error **err);

/**
 * Prepares a generation as ember_generate does it, and writes it to `out`; free
 * it with ember_generator_free. Its events come from ember_generator_next, the
 * first of which runs the prompt. The generator keeps the context and the
 * sampler alive, so they may be freed in any order. It uses them during
 * ember_generator_next only: between two of those the context may do other
 * work, such as generators on its other sequences. If the generator's own
 * sequence is changed meanwhile, the next event is EMBER_E_INVALID_ARGUMENT.
 * `options` NULL: the defaults, and they may be freed afterwards; `sampler`
 * NULL: greedy. Errors: EMBER_E_INVALID_ARGUMENT (nothing to continue, a
 * sequence out of range), EMBER_E_UTF8, EMBER_E_UNSUPPORTED for an encoder or a
 * model without a tokenizer, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_generator_new(
    struct ember_context *context,
    const char *prompt,
    size_t prompt_len,
    const struct ember_generate_options *options,
    struct ember_sampler *sampler,
    struct ember_generator **out,
    struct ember_error **err);

/**
 * As ember_generator_new for a prompt of `n_tokens` token ids, to which nothing
 * is added; the model needs no tokenizer, unless there are stop strings or an
 * echo. Errors: as ember_generator_new, and EMBER_E_INVALID_ARGUMENT for a
 * token that does not exist.
 */
ember_status ember_generator_new_tokens(
    struct ember_context *context,
    const uint32_t *tokens,
    size_t n_tokens,
    const struct ember_generate_options *options,
    struct ember_sampler *sampler,
    struct ember_generator **out,
    struct ember_error **err);

/**
 * Frees a generator. NULL is fine. What was generated stays in the context's
 * sequence, but for the token of the last event, which the next call would have
 * run: begin the next prompt with it where no token shall be missing. While a
 * call is using the generator (on another thread) it is not freed, and the log
 * says so: free it afterwards.
 */
void ember_generator_free(struct ember_generator *generator);

/**
 * Writes the next event to `event`, whose struct_size must be set; what it
 * points to stays until the next call with this generator, or its free. The
 * first call runs the prompt, and each call the token of the event before; so
 * take events until EMBER_EVENT_END if the sequence shall hold all of them.
 * After EMBER_EVENT_END it comes again and again. Errors leave the sequence as
 * it was, but for what reuse_prefix and a shift let it forget, and for what was
 * run already where choosing the next token fails; the next call tries again:
 * EMBER_E_CONTEXT_FULL when the prompt does not fit, or no page is left;
 * EMBER_E_INVALID_ARGUMENT when the sequence was changed by other calls, and
 * for logits that are NaN; EMBER_E_NOMEM; EMBER_E_BUSY when the context or the
 * sampler is in use. A cancel token is no error: it gives EMBER_EVENT_END.
 */
ember_status ember_generator_next(
    struct ember_generator *generator,
    struct ember_event *event,
    struct ember_error **err);

/**
 * Writes what the generation did so far to `out`, whose struct_size must be
 * set; its finish_reason is EMBER_FINISH_NONE before EMBER_EVENT_END. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_generator_usage(
    const struct ember_generator *generator,
    struct ember_generate_result *out,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Several completions of a prompt
 * ========================================================================== */

/**
 * @defgroup ember_several Several completions of a prompt
 * Several completions of one prompt run together, each in a sequence of its
 * own. The prompt runs once. Their events take turns, and at the end they can
 * be ranked by likelihood.
 *
 * @code{.c}
 * ember_completions *four = NULL;
 * uint32_t which;
 * ember_completions_new(context, "Once", 4, 4, options, sampler, &four, &err);
 * while (ember_completions_next(four, &event, &which, &err) == EMBER_OK &&
 *        event.kind != EMBER_EVENT_NONE)
 *     printf("%u: %.*s\n", (unsigned)which, (int)event.text_len, event.text);
 * ember_completions_free(four);
 * @endcode
 * @{
 */

/**
 * Prepares `n` completions of `prompt`, and writes them to `out`; free them
 * with ember_completions_free. Their events come from ember_completions_next.
 * The prompt runs once, and each step runs a token of every completion, which
 * takes far less time than one after the other.
 *
 * Completion i is in sequence s + i of the context, where s is that of the
 * options (ember_generate_options_set_sequence), so the context needs s + `n`
 * sequences (ember_context_options_set_n_seq). The prompt is the whole of the
 * text, as with ember_generate_options_set_reuse_prefix: Ember runs only what
 * sequence s does not begin with already, and the other sequences forget what
 * they held. Afterwards each sequence holds the prompt and its completion.
 *
 * Each completion draws with a copy of `sampler`. Completion 0 draws as
 * `sampler` would; completion i has a seed that is i larger. `sampler` itself
 * stays as it is and may be freed, and so may `options`. `options` NULL: the
 * defaults; `sampler` NULL: greedy, so that all completions are the same. The
 * completions keep the context alive, and use it in ember_completions_next
 * only.
 *
 * Options hold for each completion: each may have so many tokens, and each text
 * ends at stop strings. Lookup and draft tokens are left out. Errors:
 * EMBER_E_INVALID_ARGUMENT (`n` is 0, too few sequences, an empty prompt),
 * EMBER_E_UTF8, EMBER_E_CONTEXT_FULL for more tokens than a sequence holds,
 * EMBER_E_UNSUPPORTED for an encoder, a model without a tokenizer, and
 * ember_generate_options_set_shift; EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_completions_new(
    struct ember_context *context,
    const char *prompt,
    size_t prompt_len,
    uint32_t n,
    const struct ember_generate_options *options,
    struct ember_sampler *sampler,
    struct ember_completions **out,
    struct ember_error **err);

/**
 * As ember_completions_new for a prompt of `n_tokens` token ids, to which
 * nothing is added. Errors: as ember_completions_new, and
 * EMBER_E_INVALID_ARGUMENT for a token that does not exist.
 */
ember_status ember_completions_new_tokens(
    struct ember_context *context,
    const uint32_t *tokens,
    size_t n_tokens,
    uint32_t n,
    const struct ember_generate_options *options,
    struct ember_sampler *sampler,
    struct ember_completions **out,
    struct ember_error **err);

/**
 * Frees completions. NULL is fine. What was generated stays in the context's
 * sequences. While a call is using the completions (on another thread) they are
 * not freed, and the log says so: free them afterwards.
 */
void ember_completions_free(struct ember_completions *completions);

/**
 * Writes the next event to `event`, whose struct_size must be set, and to
 * `out_index` which completion it is of, from 0 on. What the event points to
 * stays until the next call with these completions, or their free. The
 * completions take turns, a token each; each ends with one EMBER_EVENT_END.
 * When all have ended the event is EMBER_EVENT_NONE. Errors leave all as it
 * was, and the next call tries again: EMBER_E_CONTEXT_FULL when the prompt does
 * not fit, or no page is left; EMBER_E_INVALID_ARGUMENT when a sequence was
 * changed by other calls, and for logits that are NaN; EMBER_E_NOMEM;
 * EMBER_E_BUSY when the context is in use. A cancel token is no error: each
 * completion ends with EMBER_FINISH_CANCELLED.
 */
ember_status ember_completions_next(
    struct ember_completions *completions,
    struct ember_event *event,
    uint32_t *out_index,
    struct ember_error **err);

/**
 * Writes what completion `index` did so far to `out`, whose struct_size must be
 * set; its finish_reason is EMBER_FINISH_NONE before its end. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_completions_usage(
    const struct ember_completions *completions,
    uint32_t index,
    struct ember_generate_result *out,
    struct ember_error **err);

/**
 * Writes the text of completion `index` so far, that of all its events, to
 * `buffer` of `capacity` bytes, and its length to `n_needed`. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
 */
ember_status ember_completions_text(
    const struct ember_completions *completions,
    uint32_t index,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Writes the indices of all completions to `buffer` of `capacity` elements,
 * from the likeliest to the least likely, and their number to `n_needed`. The
 * measure is the mean log-probability of the tokens (mean_logprob of
 * ember_completions_usage), so the first is the best of `n`. Needs
 * ember_generate_options_set_logprobs. Errors: EMBER_E_INVALID_ARGUMENT while
 * one has not ended, and where log-probabilities were not asked for;
 * EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_completions_rank(
    const struct ember_completions *completions,
    uint32_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Sampler
 * ========================================================================== */

/**
 * @defgroup ember_samplers Sampler
 * A sampler chooses a token from logits: a chain of stages in the order in
 * which they were added, then one random draw. Generations take one, or choose
 * the likeliest token without. One thread at a time uses it.
 *
 * @code{.c}
 * ember_sampler_new(EMBER_SEED_RANDOM, &sampler, &err);
 * ember_sampler_add_top_k(sampler, 40, &err);
 * ember_sampler_add_temperature(sampler, 0.8f, &err);
 * @endcode
 * @{
 */

/** As the seed of a sampler: a random one. */
#define EMBER_SEED_RANDOM UINT64_MAX

/**
 * Looks at the `n` candidates that the stages before have left, at least one:
 * token ids in ascending order, and their logits, which it may change;
 * -INFINITY rules a token out, NaN and INFINITY are refused. `user_data` is
 * what was given with the callback. Returning anything but 0 ends the call with
 * EMBER_E_CANCELLED, and a generation with EMBER_FINISH_CANCELLED. Runs on the
 * thread that samples.
 */
typedef int32_t (*ember_candidates_callback)(
    const uint32_t *tokens,
    float *logits,
    size_t n,
    void *user_data);

/**
 * Writes a new sampler without stages to `out`; free it with
 * ember_sampler_free. Without a stage it draws from the softmax of the logits;
 * it has at most 1000 stages. The seed EMBER_SEED_RANDOM stands for a random
 * one, which ember_sampler_seed gives. The random numbers are those of
 * xoshiro256++ seeded through SplitMix64, so a seed gives the same choices on
 * every platform for the same logits.
 */
ember_status ember_sampler_new(
    uint64_t seed,
    struct ember_sampler **out,
    struct ember_error **err);

/**
 * Writes a new sampler to `out` with the stages that the model's file proposes;
 * free it with ember_sampler_free. A GGUF file does so by its keys
 * `general.sampling.*`, in the order of their "sequence" or llama.cpp's. A
 * folder does by its generation_config.json, read as `generate` of the Python
 * package transformers does: greedy unless `do_sample` is true, and 50 for an
 * absent `top_k` if it is. What a file proposes beyond that, and what it
 * proposes without an effect, is named in a warning of the log. `seed` is as
 * for ember_sampler_new. Any thread. Errors: EMBER_E_NOT_FOUND for a file that
 * proposes nothing, EMBER_E_FORMAT for a proposal that is wrong,
 * EMBER_E_UNSUPPORTED, EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 */
ember_status ember_model_sampler(
    const struct ember_model *model,
    uint64_t seed,
    struct ember_sampler **out,
    struct ember_error **err);

/**
 * Frees a sampler; a generator made with it keeps what it needs of it. NULL is
 * fine. While a call is using the sampler (from that call's callback, or on
 * another thread) it is not freed, and the log says so: free it afterwards.
 */
void ember_sampler_free(struct ember_sampler *sampler);

/**
 * Appends a stage that keeps the most probable token only; of equals the one
 * with the lowest id. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM,
 * EMBER_E_BUSY.
 */
ember_status ember_sampler_add_greedy(
    struct ember_sampler *sampler,
    struct ember_error **err);

/**
 * Appends a stage that divides the logits by `temperature`, a finite number not
 * below 0; 0 is greedy. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM,
 * EMBER_E_BUSY.
 */
ember_status ember_sampler_add_temperature(
    struct ember_sampler *sampler,
    float temperature,
    struct ember_error **err);

/**
 * Appends a stage that keeps the `k` most probable tokens; 0 keeps all. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_add_top_k(
    struct ember_sampler *sampler,
    uint32_t k,
    struct ember_error **err);

/**
 * Appends a stage that keeps the most probable tokens whose probabilities add
 * up to `p` (above 0, at most 1), at least one. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_add_top_p(
    struct ember_sampler *sampler,
    float p,
    struct ember_error **err);

/**
 * Appends a stage that keeps tokens at least `p` (0 to 1) times as probable as
 * the likeliest; 0 keeps all. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM,
 * EMBER_E_BUSY.
 */
ember_status ember_sampler_add_min_p(
    struct ember_sampler *sampler,
    float p,
    struct ember_error **err);

/**
 * Appends a stage that keeps the tokens whose surprise is closest to the
 * expected one, until their probabilities add up to more than `p` (above 0, at
 * most 1); 1 keeps all. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM,
 * EMBER_E_BUSY.
 */
ember_status ember_sampler_add_typical_p(
    struct ember_sampler *sampler,
    float p,
    struct ember_error **err);

/**
 * Appends a stage that keeps the tokens whose logits are at most `n` (finite,
 * not below 0) standard deviations of all candidates' logits below the largest
 * (top-n-sigma); 0 keeps all. A temperature before it changes nothing about
 * what is kept. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_add_top_n_sigma(
    struct ember_sampler *sampler,
    float n,
    struct ember_error **err);

/**
 * Appends a stage with a temperature between `temperature - range` (at least 0)
 * and `temperature + range`, which grows with the entropy of the distribution
 * to the power `exponent`. All are finite and at least 0. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_add_dynamic_temperature(
    struct ember_sampler *sampler,
    float temperature,
    float range,
    float exponent,
    struct ember_error **err);

/**
 * Appends a stage that, as often as `probability` (0 to 1) says, removes all
 * tokens at least as probable as `threshold` (0 to 1) but the least likely of
 * them ("exclude top choices"). It takes a random number each time that it may
 * change something (above a threshold of 0.5 it never does), also where a later
 * stage makes the choice fail; tried again, that goes on with the next. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_add_xtc(
    struct ember_sampler *sampler,
    float probability,
    float threshold,
    struct ember_error **err);

/**
 * Appends a stage that makes tokens less likely that are among the `last_n` (at
 * most 1048576) accepted latest. A positive logit is divided by `repeat` (above
 * 0; 1 changes nothing), another one multiplied. Then `frequency` is taken off
 * for each time the token occurred, and `presence` once. ember_sampler_accept
 * gives tokens to the sampler. It remembers as many of them as its stages look
 * back at by then; so add such stages first. Errors: EMBER_E_INVALID_ARGUMENT,
 * EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_add_penalties(
    struct ember_sampler *sampler,
    uint32_t last_n,
    float repeat,
    float frequency,
    float presence,
    struct ember_error **err);

/**
 * Appends a stage that makes tokens less likely which would carry on a passage
 * that is among the latest `last_n` accepted tokens already (DRY). If the
 * passage has `allowed_length` tokens at least, `multiplier` times `base` to
 * the power of (length of the passage − `allowed_length`) is taken off their
 * logits. Usual values: 0.8, 1.75, 2. `allowed_length` and `last_n` are at most
 * 1048576. No passage goes beyond one of the `n_breakers` texts, 128 different
 * ones at most: text i is `lengths[i]` bytes of UTF-8 at `breakers[i]`, 1 to
 * 40; `lengths` NULL: each ends at its NUL byte. `breakers` NULL: line end,
 * colon, quotation mark, asterisk. `model` is the one to sample for, whose
 * tokens the breakers are looked up in. As for ember_sampler_add_penalties,
 * tokens that were accepted before the stage was added may not be remembered.
 * Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_UNSUPPORTED for a
 * model without a tokenizer, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_add_dry(
    struct ember_sampler *sampler,
    const struct ember_model *model,
    float multiplier,
    float base,
    uint32_t allowed_length,
    uint32_t last_n,
    const char *const *breakers,
    const size_t *lengths,
    size_t n_breakers,
    struct ember_error **err);

/**
 * Appends a stage of the caller's own: `callback` may change the logits of the
 * candidates. It and `user_data` must be usable as long as the sampler, its
 * clones and generators made with it. Errors: EMBER_E_INVALID_ARGUMENT,
 * EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_add_callback(
    struct ember_sampler *sampler,
    ember_candidates_callback callback,
    void *user_data,
    struct ember_error **err);

/**
 * Appends a stage that keeps tokens whose surprise is below a bound, which
 * follows the surprise that is wanted, `tau` in bits, at the rate `eta`
 * (Mirostat 2). It is the last stage as a rule, and there is one at most.
 * Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_add_mirostat(
    struct ember_sampler *sampler,
    float tau,
    float eta,
    struct ember_error **err);

/**
 * Appends a stage of Mirostat's first version. It keeps a number of tokens that
 * follows the wanted surprise, `tau` in bits, at the rate `eta`. The number is
 * estimated from the `m` likeliest tokens (2 to 1048576; 100 is usual). It is
 * the last stage as a rule, and there is one of Mirostat's at most. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_add_mirostat_1(
    struct ember_sampler *sampler,
    float tau,
    float eta,
    uint32_t m,
    struct ember_error **err);

/**
 * Appends a stage that makes tokens the likelier, the nearer their probability
 * is to a target, which moves so that accepted tokens have the probability
 * `target` (0 to 1) on average (adaptive-p). An accepted token counts `decay`
 * times (0 to 0.99) as much as the one behind it. It is the last stage as a
 * rule, behind min-p, and there is one at most. It learns from a token that
 * ember_sampler_sample gave last and ember_sampler_accept takes; generations do
 * both. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_add_adaptive_p(
    struct ember_sampler *sampler,
    float target,
    float decay,
    struct ember_error **err);

/**
 * Appends a stage that adds `biases[i]` to the logit of `tokens[i]`, for `n`
 * tokens; -INFINITY rules a token out. A token that comes several times gets
 * the sum. Tokens that have no logit are passed over. Errors:
 * EMBER_E_INVALID_ARGUMENT for a NaN or +INFINITY, and for a sum that leaves
 * the range of floats; EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_add_bias(
    struct ember_sampler *sampler,
    const uint32_t *tokens,
    const float *biases,
    size_t n,
    struct ember_error **err);

/**
 * Appends a stage that keeps the `n` tokens at `tokens` only. When none of them
 * is left, sampling fails. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM,
 * EMBER_E_BUSY.
 */
ember_status ember_sampler_add_allow(
    struct ember_sampler *sampler,
    const uint32_t *tokens,
    size_t n,
    struct ember_error **err);

/**
 * Appends a stage that rules the `n` tokens at `tokens` out. When no other is
 * left, sampling fails. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM,
 * EMBER_E_BUSY.
 */
ember_status ember_sampler_add_deny(
    struct ember_sampler *sampler,
    const uint32_t *tokens,
    size_t n,
    struct ember_error **err);

/**
 * Appends a stage that keeps the tokens which may be next in a text that
 * follows `constraint`, of which the sampler keeps what it needs. Add it first:
 * what other stages have left before it may be none of these. Where the
 * constraint is complete it leaves the tokens that end a text, and nothing
 * else. It is about the tokens that ember_sampler_sample gives and
 * ember_sampler_accept accepts next; other tokens that are accepted are a
 * prompt, and the text under the constraint begins anew behind them, as it does
 * with ember_sampler_reset. In a generation it begins behind the prompt, and
 * goes on where the prompt is empty. A clone of the sampler goes on by itself.
 * Tokens that the constraint leaves no choice for are run together by
 * generations. A sampler may have several such stages. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY. Sampling and
 * generation give EMBER_E_INVALID_ARGUMENT where a token was accepted that does
 * not fit, where a limit of the constraint is reached, for a constraint of
 * another model, and with ember_generate_options_set_ignore_eog.
 */
ember_status ember_sampler_add_constraint(
    struct ember_sampler *sampler,
    const struct ember_constraint *constraint,
    struct ember_error **err);

/**
 * Appends a stage for filling a gap in a text, which ends a generation where no
 * continuation is likely. Where the tokens that end one are likely as against
 * the number of candidates, they alone are left. Otherwise tokens whose texts
 * begin with another candidate's are merged with it, and tokens with less than
 * a fifth of the probability go. When none is left, the end of a turn (or of
 * the text) is chosen, whether it was among the candidates or not. It stands
 * behind top-k and top-p as a rule. `model` is the one to sample for, and need
 * not be kept. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UNSUPPORTED for a
 * model without a tokenizer or without such a token, EMBER_E_NOMEM,
 * EMBER_E_BUSY.
 */
ember_status ember_sampler_add_infill(
    struct ember_sampler *sampler,
    const struct ember_model *model,
    struct ember_error **err);

/**
 * Sets whether `frequency` and `presence` of ember_sampler_add_penalties count
 * the tokens that were generated since the last one of a prompt and no others,
 * as OpenAI's API has them; false: all that were accepted. `repeat` always
 * counts all. Errors: EMBER_E_BUSY.
 */
ember_status ember_sampler_set_penalties_generated_only(
    struct ember_sampler *sampler,
    bool generated_only,
    struct ember_error **err);

/**
 * Writes an ember_constraint_progress to `out`: how far the text is that
 * follows a constraint of the sampler, of several the one that is furthest from
 * its end. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_sampler_progress(
    const struct ember_sampler *sampler,
    int32_t *out,
    struct ember_error **err);

/**
 * Reports to the stages that look back that `token` is now part of the text:
 * one that ember_sampler_sample gave, which accepts nothing by itself, or one
 * of a prompt. A stage that is added later does not see it, unless an earlier
 * one looks back as far. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_sampler_accept(
    struct ember_sampler *sampler,
    uint32_t token,
    struct ember_error **err);

/**
 * Writes a copy of a sampler to `out`: its stages and their state, its random
 * numbers where they stand. Free it with ember_sampler_free. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_clone(
    const struct ember_sampler *sampler,
    struct ember_sampler **out,
    struct ember_error **err);

/**
 * Writes the seed of the random numbers to `out`; for a sampler made with
 * EMBER_SEED_RANDOM the one that was taken. Errors: EMBER_E_INVALID_ARGUMENT,
 * EMBER_E_BUSY.
 */
ember_status ember_sampler_seed(
    const struct ember_sampler *sampler,
    uint64_t *out,
    struct ember_error **err);

/**
 * Starts over, as if the sampler were new: the random numbers and what was
 * accepted; the stages stay. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_sampler_reset(
    struct ember_sampler *sampler,
    struct ember_error **err);

/**
 * Chooses a token from `n` logits, 1 to 16777215 (the index is the token id),
 * and writes it to `out`. -INFINITY rules a token out, and +INFINITY all tokens
 * that have less. Errors: EMBER_E_INVALID_ARGUMENT for no logits or too many, a
 * NaN, or logits that rule every token out; EMBER_E_CANCELLED by a stage's
 * callback; EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_sampler_sample(
    struct ember_sampler *sampler,
    const float *logits,
    size_t n,
    uint32_t *out,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Constraints on text
 * ========================================================================== */

/**
 * @defgroup ember_constraints Constraints on text
 * A constraint has generated text follow a JSON schema, a regular expression, a
 * grammar or a list of choices. It is compiled once for a model, never changes,
 * and serves any number of generations.
 *
 * @code{.c}
 * ember_constraint *yes_no = NULL;
 * const char *words[] = {"yes", "no"};
 * ember_constraint_new_choices(model, words, NULL, 2, NULL, &yes_no, &err);
 * ember_generate_options_set_constraint(options, yes_no, &err);
 * ember_constraint_free(yes_no);
 * @endcode
 * @{
 */

/** A bound of ember_constraint_options_set_limit. */
enum ember_constraint_limit
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Most bytes of the schema, the expression, the grammar, or all choices
     * together. Default: 1048576.
     */
    EMBER_CONSTRAINT_LIMIT_SOURCE = 0,
    /** Most symbols of the compiled grammar. Default: 200000. */
    EMBER_CONSTRAINT_LIMIT_GRAMMAR = 1,
    /**
     * Most steps of compiling, about 50,000 in a millisecond. Default: 1000000.
     */
    EMBER_CONSTRAINT_LIMIT_COMPILE = 2,
    /**
     * Most steps in the expressions for one token, about 14,000 in a
     * millisecond. Default: 200000.
     */
    EMBER_CONSTRAINT_LIMIT_MASK = 3,
    /**
     * Most items of the parser for one token, about 20,000 in a millisecond.
     * Default: 50000.
     */
    EMBER_CONSTRAINT_LIMIT_ITEMS = 4,
    /**
     * Most states of the expressions in one text, each of 1 to 2 KB of memory.
     * Default: 50000.
     */
    EMBER_CONSTRAINT_LIMIT_STATES = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_constraint_limit ember_constraint_limit;
#else
typedef int32_t ember_constraint_limit;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/** How far a text is that follows a constraint. */
enum ember_constraint_progress
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** There is no constraint. */
    EMBER_CONSTRAINT_NONE = 0,
    /**
     * No trigger came yet, or none came again where the constraint repeats: no
     * text is unfinished.
     */
    EMBER_CONSTRAINT_WAITING = 1,
    /** The text is a beginning of what it has to be, and cut off. */
    EMBER_CONSTRAINT_UNFINISHED = 2,
    /** The text is what it has to be. */
    EMBER_CONSTRAINT_COMPLETE = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_constraint_progress ember_constraint_progress;
#else
typedef int32_t ember_constraint_progress;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Writes new options with their defaults to `out`; free them with
 * ember_constraint_options_free.
 */
ember_status ember_constraint_options_new(
    struct ember_constraint_options **out,
    struct ember_error **err);

/** Frees options. NULL is fine. */
void ember_constraint_options_free(struct ember_constraint_options *options);

/**
 * Most characters of white space between two parts of JSON, at most 256; 0:
 * none, so that JSON is as short as it can be. White space within strings is
 * text. Default: 32. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY; a number
 * above 256 where the constraint is made.
 */
ember_status ember_constraint_options_set_whitespace(
    struct ember_constraint_options *options,
    uint32_t whitespace,
    struct ember_error **err);

/**
 * Adds a trigger, `text_len` bytes of UTF-8 at `text`, 256 at most: the text is
 * free until this was generated, and the constraint begins behind it. For text
 * behind what a model thinks give the mark that ends its thought (`</think>`).
 * It is found however the model cuts it into tokens, also where it is the text
 * of a control token; what follows it within its last token is the beginning of
 * what the constraint describes. Of several triggers, 16 at most, the one that
 * is complete first counts. A text without a trigger is never under the
 * constraint: ember_generate_result says EMBER_CONSTRAINT_WAITING. Default:
 * none, it begins with the first token. Errors: EMBER_E_INVALID_ARGUMENT for an
 * empty text, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY; a text that is too
 * long, or too many, where the constraint is made.
 */
ember_status ember_constraint_options_add_trigger_text(
    struct ember_constraint_options *options,
    const char *text,
    size_t text_len,
    struct ember_error **err);

/**
 * Adds a trigger: as ember_constraint_options_add_trigger_text for the token
 * `token`, which does not end a text. Errors: EMBER_E_INVALID_ARGUMENT,
 * EMBER_E_BUSY; for a token that does not exist where the constraint is made.
 */
ember_status ember_constraint_options_add_trigger_token(
    struct ember_constraint_options *options,
    uint32_t token,
    struct ember_error **err);

/**
 * Whether the text is free again where the constraint is complete, until the
 * next trigger, behind which it holds anew. Otherwise the text ends there.
 * Needs a trigger. Default: false. Errors: EMBER_E_INVALID_ARGUMENT,
 * EMBER_E_BUSY.
 */
ember_status ember_constraint_options_set_repeat(
    struct ember_constraint_options *options,
    bool repeat,
    struct ember_error **err);

/**
 * Sets a bound on work or memory, `limit` of ember_constraint_limit. Where one
 * is reached, making the constraint fails, or the generation ends with an
 * error. Errors: EMBER_E_INVALID_ARGUMENT for a limit that does not exist,
 * EMBER_E_BUSY.
 */
ember_status ember_constraint_options_set_limit(
    struct ember_constraint_options *options,
    int32_t limit,
    uint64_t value,
    struct ember_error **err);

/**
 * Makes a constraint: the text is JSON that the JSON Schema at `schema`
 * describes, `schema_len` bytes of JSON itself (drafts 4 to 2020-12), and
 * writes it to `out`; free it with ember_constraint_free. It is made once and
 * used by many generations of the model, also at the same time. What `model`
 * has of tokens is arranged with its first constraint, which takes about a
 * second for a large vocabulary. `options` NULL: the defaults. Members of
 * objects come in the order of `properties`. Keywords that only describe
 * (title, default …) are passed over, and so are unknown ones, as JSON Schema
 * says. Understood are type, const, enum, anyOf, allOf, $ref; oneOf, if it is
 * certain that its parts exclude each other; properties, required,
 * additionalProperties, patternProperties, minProperties, maxProperties; items,
 * prefixItems, additionalItems, minItems, maxItems; minLength, maxLength,
 * pattern, format; minimum, maximum, exclusiveMinimum, exclusiveMaximum,
 * multipleOf. Nothing is fetched for a $ref. Errors: EMBER_E_UNSUPPORTED for
 * another keyword or format, by its name, for a model without a tokenizer, for
 * tokens that cannot spell JSON, and without the feature "constraints";
 * EMBER_E_INVALID_ARGUMENT for what is no schema, or too large, and for a
 * schema that no JSON meets; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_constraint_new_json_schema(
    const struct ember_model *model,
    const char *schema,
    size_t schema_len,
    const struct ember_constraint_options *options,
    struct ember_constraint **out,
    struct ember_error **err);

/**
 * Makes a constraint: the text is a JSON object, whatever it holds. All else as
 * ember_constraint_new_json_schema.
 */
ember_status ember_constraint_new_json_object(
    const struct ember_model *model,
    const struct ember_constraint_options *options,
    struct ember_constraint **out,
    struct ember_error **err);

/**
 * Makes a constraint: the text is one that the regular expression at `regex`
 * matches as a whole, `regex_len` bytes of UTF-8 in the syntax of the Rust
 * crate regex; there is no look-around, and no anchor but at the ends. All else
 * as ember_constraint_new_json_schema.
 */
ember_status ember_constraint_new_regex(
    const struct ember_model *model,
    const char *regex,
    size_t regex_len,
    const struct ember_constraint_options *options,
    struct ember_constraint **out,
    struct ember_error **err);

/**
 * Makes a constraint: the text is one that the context-free grammar at
 * `grammar`, `grammar_len` bytes of UTF-8, derives from its rule `start`. The
 * syntax is Lark's as the crate llguidance reads it: rules `name: "text"
 * /regex/ other_rule`, terminals `NAME: /regex/`, `|`, `?`, `*`, `+`, `{n,m}`,
 * `%ignore`, `%json {…}`, and control tokens as `<|name|>`. All else as
 * ember_constraint_new_json_schema.
 */
ember_status ember_constraint_new_lark(
    const struct ember_model *model,
    const char *grammar,
    size_t grammar_len,
    const struct ember_constraint_options *options,
    struct ember_constraint **out,
    struct ember_error **err);

/**
 * Makes a constraint: the text is one of the `n_texts` at `texts`, text i of
 * `lengths[i]` bytes of UTF-8, none of them empty; `lengths` NULL: each ends at
 * its NUL byte. All else as ember_constraint_new_json_schema.
 */
ember_status ember_constraint_new_choices(
    const struct ember_model *model,
    const char *const *texts,
    const size_t *lengths,
    size_t n_texts,
    const struct ember_constraint_options *options,
    struct ember_constraint **out,
    struct ember_error **err);

/**
 * Frees a constraint; samplers, options and generations keep what they need of
 * it. NULL is fine.
 */
void ember_constraint_free(struct ember_constraint *constraint);

/** @} */

/* ==========================================================================
 * Chat templates, tools and replies
 * ========================================================================== */

/**
 * @defgroup ember_chats Chat templates, tools and replies
 * A chat template makes a prompt of messages in JSON, as the model was trained
 * on it. A parser reads the model's reply: text, thoughts, and calls of tools.
 * An ember_conversation does both by itself.
 *
 * @code{.c}
 * const char *hello = "[{\"role\": \"user\", \"content\": \"Hello\"}]";
 * uint32_t tokens[512];
 * status = ember_chat_tokenize(model, hello, EMBER_NUL_TERMINATED, NULL,
 *                              tokens, 512, &n, &err);
 * if (status == EMBER_OK)
 *     ember_generate_tokens(context, tokens, n, options, sampler, print_event,
 *                           NULL, NULL, &err);
 * @endcode
 * @{
 */

/** What an ember_chat_event is. */
enum ember_chat_event_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** There is none: more text is needed, or the reply is over. */
    EMBER_CHAT_EVENT_NONE = 0,
    /** More of the answer: text. */
    EMBER_CHAT_EVENT_TEXT = 1,
    /** More of what the model thinks before it answers: text. */
    EMBER_CHAT_EVENT_THINKING = 2,
    /** A call of a tool begins: index, id and name. */
    EMBER_CHAT_EVENT_CALL_BEGIN = 3,
    /** More of the call's arguments: index, and JSON text. */
    EMBER_CHAT_EVENT_CALL_ARGUMENTS = 4,
    /**
     * The call is complete: index, id, name, and as text all of its arguments,
     * a JSON object.
     */
    EMBER_CHAT_EVENT_CALL_DONE = 5,
    /**
     * What began as a call is none: index, name (if it came so far), reason,
     * and the text as the model wrote it, which belongs to the answer at this
     * place. What was said of a call of this index before is void.
     */
    EMBER_CHAT_EVENT_CALL_BROKEN = 6,
    /** The reply is over, for finish_reason; only from conversations. */
    EMBER_CHAT_EVENT_END = 7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_chat_event_kind ember_chat_event_kind;
#else
typedef int32_t ember_chat_event_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/** Whether a model thinks before it answers. */
enum ember_thinking
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /** As the template has it. */
    EMBER_THINKING_DEFAULT = 0,
    /** It does. */
    EMBER_THINKING_ON = 1,
    /** It does not. */
    EMBER_THINKING_OFF = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_thinking ember_thinking;
#else
typedef int32_t ember_thinking;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * A part of a reply. What it points to is Ember's, UTF-8 and not
 * NUL-terminated, never NULL, perhaps of length 0, and stays until the next
 * call with the parser. Set struct_size to sizeof(ember_chat_event) before the
 * call.
 */
typedef struct ember_chat_event {
    /** Size of this struct as the caller knows it. */
    size_t struct_size;
    /** Text or JSON, as the kind says. */
    const char *text;
    /** Length of text. */
    size_t text_len;
    /** The name of the tool that is called. */
    const char *name;
    /** Length of name. */
    size_t name_len;
    /**
     * The id of the call: the model's own where its format has ids, else nine
     * letters and digits made from the prompt and the index, the same each
     * time.
     */
    const char *id;
    /** Length of id. */
    size_t id_len;
    /** Why a call is broken: a sentence. */
    const char *reason;
    /** Length of reason. */
    size_t reason_len;
    /**
     * The place of the call among those of the reply, from 0. A broken call has
     * a place of its own too.
     */
    uint32_t index;
    /** An ember_chat_event_kind. */
    int32_t kind;
    /**
     * The ember_finish_reason of EMBER_CHAT_EVENT_END, else EMBER_FINISH_NONE.
     */
    int32_t finish_reason;
} ember_chat_event;

/**
 * How replies to a template's prompts are written. What it points to is as in
 * ember_chat_event, and stays as long as the parser. Set struct_size to
 * sizeof(ember_chat_format) before the call.
 */
typedef struct ember_chat_format {
    /** Size of this struct as the caller knows it. */
    size_t struct_size;
    /**
     * The form of calls: "hermes", "llama3", "mistral", "harmony" … Of length
     * 0: none is known, calls come as text.
     */
    const char *name;
    /** Length of name. */
    size_t name_len;
    /**
     * The mark before a thought. Of length 0: the template knows no thoughts.
     */
    const char *thinking_open;
    /** Length of thinking_open. */
    size_t thinking_open_len;
    /**
     * The mark behind a thought. A host that ends a thought itself has the
     * model go on behind this text.
     */
    const char *thinking_close;
    /** Length of thinking_close. */
    size_t thinking_close_len;
    /**
     * The variable of the template (ember_chat_options_set_variables) that
     * switches thinking, "enable_thinking" say. Of length 0: there is none.
     */
    const char *thinking_variable;
    /** Length of thinking_variable. */
    size_t thinking_variable_len;
    /** The variable's value with which the model thinks, in JSON. */
    const char *thinking_on;
    /** Length of thinking_on. */
    size_t thinking_on_len;
    /**
     * The value with which it does not, in JSON. Of length 0: it cannot be
     * switched off.
     */
    const char *thinking_off;
    /** Length of thinking_off. */
    size_t thinking_off_len;
} ember_chat_format;

/**
 * Writes new options with their defaults to `out`; free them with
 * ember_chat_options_free. Errors: EMBER_E_INVALID_ARGUMENT when `out` is NULL.
 */
ember_status ember_chat_options_new(
    struct ember_chat_options **out,
    struct ember_error **err);

/** Frees options. NULL is fine. */
void ember_chat_options_free(struct ember_chat_options *options);

/**
 * The tools that the model may call: a JSON array, as a rule of objects with
 * "type" and "function". An empty text, the default, means none. It is read
 * when a template is applied. Errors: EMBER_E_UTF8, EMBER_E_BUSY.
 */
ember_status ember_chat_options_set_tools(
    struct ember_chat_options *options,
    const char *tools,
    size_t tools_len,
    struct ember_error **err);

/**
 * More variables for the template: a JSON object, for example
 * `{"enable_thinking": false}`; which ones matter is the template's to say. The
 * names "messages", "tools" and "add_generation_prompt", which are given
 * otherwise, are refused when a template is applied. An empty text, the
 * default, means none. Errors: EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_chat_options_set_variables(
    struct ember_chat_options *options,
    const char *variables,
    size_t variables_len,
    struct ember_error **err);

/**
 * A template to use instead of the model's: its text, in the Jinja language. An
 * empty text, the default, means the model's. Errors: EMBER_E_UTF8,
 * EMBER_E_BUSY.
 */
ember_status ember_chat_options_set_template(
    struct ember_chat_options *options,
    const char *template_text,
    size_t template_len,
    struct ember_error **err);

/**
 * Which of the model's templates to use, for models with several. By default it
 * is "tool_use" when there are tools and the model has one of that name, and
 * else "default", which is also the name of a template without a name. Errors:
 * EMBER_E_UTF8, EMBER_E_BUSY.
 */
ember_status ember_chat_options_set_template_name(
    struct ember_chat_options *options,
    const char *name,
    size_t name_len,
    struct ember_error **err);

/**
 * Whether the text ends with what comes before an answer of the assistant.
 * Default: true.
 */
ember_status ember_chat_options_set_add_generation_prompt(
    struct ember_chat_options *options,
    bool add_generation_prompt,
    struct ember_error **err);

/**
 * Whether the model calls tools, for ember_chat_parser_new:
 * - "auto", the default, as is an empty text: it may;
 * - "none": what looks like a call is text;
 * - "required": it has to;
 * - a tool's name, or OpenAI's object `{"type": "function", "function":
 *   {"name": …}}`: it has to call this tool, and a call of another is broken.
 *
 * Errors: EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_chat_options_set_tool_choice(
    struct ember_chat_options *options,
    const char *tool_choice,
    size_t tool_choice_len,
    struct ember_error **err);

/**
 * Whether a reply may have several calls, for ember_chat_parser_new. Default:
 * true. Else what comes behind the first is broken. Where calls are held to the
 * schemas of the tools (ember_chat_options_set_strict_tools), a reply has 32
 * calls at most, or one.
 */
ember_status ember_chat_options_set_parallel_calls(
    struct ember_chat_options *options,
    bool parallel_calls,
    struct ember_error **err);

/**
 * What time it is for templates that write the date: seconds since the start of
 * 1970 as the local clock shows them (universal time plus the zone's offset).
 * By default it is the system's universal time.
 */
ember_status ember_chat_options_set_now(
    struct ember_chat_options *options,
    int64_t seconds,
    struct ember_error **err);

/**
 * Whether a conversation (ember_conversation_new) constrains calls to the
 * schemas of the tools, so that every call parses: from the mark of a call on,
 * or from the beginning of the answer where a call has to be made. True by
 * default. Calls of the form "llama3", which has no mark, are free as long as
 * none has to be made. A schema that has what constraints have not, or what the
 * form of calls cannot be held to, is refused by name: false leaves it to the
 * model. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_chat_options_set_strict_tools(
    struct ember_chat_options *options,
    bool strict_tools,
    struct ember_error **err);

/**
 * Whether the model thinks before it answers: an ember_thinking. It sets the
 * variable of the template that switches thinking, which is found in the
 * template itself. Where the template has none, or no value for off, using the
 * options is EMBER_E_UNSUPPORTED. Errors: EMBER_E_INVALID_ARGUMENT,
 * EMBER_E_BUSY.
 */
ember_status ember_chat_options_set_thinking(
    struct ember_chat_options *options,
    int32_t thinking,
    struct ember_error **err);

/**
 * Writes the text of a conversation, as `model` was trained on it, to `buffer`
 * of `capacity` bytes, without NUL, and its length to `n_needed`; a first call
 * with capacity 0 asks for the length. `messages` is a JSON array of objects
 * with "role", "content" and what else the template looks at ("tool_calls",
 * "name", "reasoning_content").
 *
 * The text is what `apply_chat_template` of the Python package transformers
 * gives. It spells control tokens, and BOS where the template says so: tokenize
 * it with parse_special true and add_special false. Texts of users that spell
 * control tokens become these tokens; a host that minds must look for them
 * first.
 *
 * `options` NULL: the defaults. Templates are bounded in work and memory,
 * whatever a file holds. Any thread. Errors: EMBER_E_INVALID_ARGUMENT for what
 * is not the JSON it must be and for messages that the template refuses (the
 * sentence has the template's own words) or fails on; EMBER_E_UNSUPPORTED for a
 * model without a template and a build without the feature "chat";
 * EMBER_E_NOT_FOUND for a name that no template has; EMBER_E_FORMAT for a
 * template that is broken or takes too much; EMBER_E_UTF8,
 * EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
 */
ember_status ember_chat_apply_template(
    const struct ember_model *model,
    const char *messages,
    size_t messages_len,
    const struct ember_chat_options *options,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * As ember_chat_apply_template, but gives the tokens of the conversation:
 * `n_needed` of them, written to `tokens`, which holds `capacity`. Generate
 * from them with ember_generate_tokens. **No text of a message or tool can
 * spell a control token**: "<|im_end|>" in what a user typed is text. A
 * template that looks for such marks in messages ("</think>" in an answer) does
 * not find them. BOS comes first where the file asks for it, once. `options`
 * NULL: the defaults. Any thread. Errors: as ember_chat_apply_template.
 */
ember_status ember_chat_tokenize(
    const struct ember_model *model,
    const char *messages,
    size_t messages_len,
    const struct ember_chat_options *options,
    uint32_t *tokens,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Makes the constraint of a reply that may call tools, and writes it to `out`.
 * Every call follows the schema of its tool. Where the options' tool choice
 * asks for a call, the reply is one. Give it to
 * ember_generate_options_set_constraint. A conversation
 * (ember_conversation_new) does this by itself. `out` is NULL where there is
 * nothing to constrain: without tools, with the choice "none", and where no
 * call has to be made in the form "llama3", which has no mark. `prompt` is the
 * text that ember_chat_apply_template gave with the same options. It may end
 * inside a thought: then the constraint begins behind it. Empty: as the
 * template ends it when it has no variables. The reply's marks are often
 * special tokens: see ember_chat_parser_new. `options` NULL: the defaults,
 * which have no tools. Any thread. Errors: EMBER_E_UNSUPPORTED, by name, for
 * schemas that have what constraints or the form of calls have not; where a
 * call has to be made and Ember knows no form of the template; for a model
 * without a template; in builds without the features "chat" and "constraints".
 * EMBER_E_INVALID_ARGUMENT for tools and choices that are not what they must
 * be. EMBER_E_NOT_FOUND, EMBER_E_FORMAT, EMBER_E_UTF8, EMBER_E_NOMEM,
 * EMBER_E_BUSY.
 */
ember_status ember_chat_constraint(
    const struct ember_model *model,
    const struct ember_chat_options *options,
    const char *prompt,
    size_t prompt_len,
    struct ember_constraint **out,
    struct ember_error **err);

/**
 * Prepares to read a reply of `model`, and writes the parser to `out`; free it
 * with ember_chat_parser_free. What the reply looks like is found in the chat
 * template: the model's, or the one that `options` say. The options are best
 * those that the prompt was written with: of the tools in them the names are
 * known then, and the types of arguments where the format writes none down.
 * `options` NULL: the defaults; they may be freed afterwards.
 *
 * `prompt` is the text that ember_chat_apply_template gave, which may end
 * inside a thought; empty: as the template ends it when it has no variables. It
 * is also what ids of calls are made from.
 *
 * Marks are often special tokens, whose text a generation leaves out by itself:
 * have it write them (ember_generate_options_set_render_special). Errors:
 * EMBER_E_INVALID_ARGUMENT for tools or a tool choice that are not what they
 * must be, and a choice of a tool that is none of the tools;
 * EMBER_E_UNSUPPORTED for a model without a template and a build without the
 * feature "chat"; EMBER_E_NOT_FOUND for a name that no template has;
 * EMBER_E_FORMAT for a template that is broken; EMBER_E_UTF8, EMBER_E_NOMEM,
 * EMBER_E_BUSY.
 */
ember_status ember_chat_parser_new(
    const struct ember_model *model,
    const struct ember_chat_options *options,
    const char *prompt,
    size_t prompt_len,
    struct ember_chat_parser **out,
    struct ember_error **err);

/** Frees a parser. NULL is fine. */
void ember_chat_parser_free(struct ember_chat_parser *parser);

/**
 * More of the reply, in chunks of any length that end between two code points,
 * as those of ember_event do. Then take events with ember_chat_parser_next
 * until there is none. After ember_chat_parser_finish text is ignored. Errors:
 * EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_chat_parser_push(
    struct ember_chat_parser *parser,
    const char *text,
    size_t text_len,
    struct ember_error **err);

/**
 * The reply is over, for this ember_finish_reason. Text that waited for more
 * comes now, and a call that is not complete is broken. Errors:
 * EMBER_E_INVALID_ARGUMENT for EMBER_FINISH_NONE and what is no reason;
 * EMBER_E_BUSY.
 */
ember_status ember_chat_parser_finish(
    struct ember_chat_parser *parser,
    int32_t finish_reason,
    struct ember_error **err);

/**
 * Writes the next event to `event`, whose struct_size must be set;
 * EMBER_CHAT_EVENT_NONE when there is none now. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_chat_parser_next(
    struct ember_chat_parser *parser,
    struct ember_chat_event *event,
    struct ember_error **err);

/**
 * Writes to `out` whether the reply is inside a thought now. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_chat_parser_is_thinking(
    const struct ember_chat_parser *parser,
    uint32_t *out,
    struct ember_error **err);

/**
 * Writes to `out`, whose struct_size must be set, how the replies of the
 * parser's template are written: what form calls have, what is around thoughts,
 * and which variable switches them. Errors: EMBER_E_INVALID_ARGUMENT,
 * EMBER_E_BUSY.
 */
ember_status ember_chat_parser_format(
    const struct ember_chat_parser *parser,
    struct ember_chat_format *out,
    struct ember_error **err);

/**
 * Writes the text of the model's chat template `name` ("default" if the name is
 * empty) to `buffer` of `capacity` bytes, without NUL, and its length to
 * `n_needed`. Any thread. Errors: EMBER_E_UNSUPPORTED for a model without
 * templates, EMBER_E_NOT_FOUND for a name that it does not have, EMBER_E_UTF8,
 * EMBER_E_BUFFER_TOO_SMALL.
 */
ember_status ember_model_chat_template(
    const struct ember_model *model,
    const char *name,
    size_t name_len,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Conversation
 * ========================================================================== */

/**
 * @defgroup ember_conversations Conversation
 * A conversation keeps messages and replies in one sequence of a context. Each
 * reply runs only what is new, old turns go where the sequence is full, and no
 * message can spell a control token.
 *
 * @code{.c}
 * ember_conversation *chat = NULL;
 * ember_conversation_new(context, NULL, 0, NULL, NULL, &chat, &err);
 * ember_conversation_send(chat, "Hello", EMBER_NUL_TERMINATED, sampler,
 *                         print_reply, NULL, NULL, &err);
 * ember_conversation_free(chat);
 * @endcode
 * @{
 */

/** What happens where a conversation becomes longer than its sequence. */
enum ember_when_full
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Whole turns are dropped, the oldest first: a user's message and all up to
     * the next one. The system text and the first turn stay.
     */
    EMBER_WHEN_FULL_DROP_OLDEST = 0,
    /** The same, but the first turn may go too. */
    EMBER_WHEN_FULL_DROP_OLDEST_AND_FIRST = 1,
    /** The reply is EMBER_E_CONTEXT_FULL. */
    EMBER_WHEN_FULL_REFUSE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_when_full ember_when_full;
#else
typedef int32_t ember_when_full;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Receives an event of a reply, valid during the call, and the `user_data`
 * given with the callback. Returning anything but 0 ends the reply: what came
 * of it becomes no message. Runs on the calling thread. It must return, as
 * ember_event_callback says.
 */
typedef int32_t (*ember_chat_event_callback)(
    const struct ember_chat_event *event,
    void *user_data);

/**
 * What a reply took. Set struct_size to sizeof(ember_conversation_usage) before
 * the call.
 */
typedef struct ember_conversation_usage {
    /** Size of this struct as the caller knows it. */
    size_t struct_size;
    /** Nanoseconds spent on the prompt. */
    uint64_t prefill_ns;
    /** Nanoseconds spent on the generated tokens. */
    uint64_t decode_ns;
    /** Tokens of the whole conversation, as it was when the reply began. */
    uint32_t n_prompt;
    /**
     * Of these, those that the sequence held already: n_prompt - n_reused were
     * run.
     */
    uint32_t n_reused;
    /** Tokens generated, an end-of-generation token not counted. */
    uint32_t n_generated;
    /** Of these, those of thoughts. */
    uint32_t n_thinking;
    /**
     * Turns that were dropped before the reply, because the conversation had
     * become too long.
     */
    uint32_t n_dropped_turns;
    /**
     * Tokens that the sequence forgot with them, without what stands behind
     * them being run again.
     */
    uint32_t n_forgotten;
    /**
     * An ember_finish_reason; EMBER_FINISH_NONE while the reply is under way.
     */
    int32_t finish_reason;
    /** Zero. */
    int32_t reserved;
} ember_conversation_usage;

/**
 * Asked where a conversation becomes too long: it needs `n_tokens`, a sequence
 * holds `n_ctx`, and `n_turns` can be dropped, at least one. Returns how many
 * are, the oldest first; 0 ends the reply with EMBER_E_CONTEXT_FULL. Asked
 * again where that was not enough. `user_data` is what was given with the
 * callback. Runs on the calling thread.
 */
typedef uint32_t (*ember_full_callback)(
    uint32_t n_tokens,
    uint32_t n_ctx,
    uint32_t n_turns,
    void *user_data);

/**
 * Makes a conversation in a sequence of `context` and writes it to `out`; free
 * it with ember_conversation_free. It keeps the context alive.
 * - `system`: the system text; empty: none.
 * - `chat_options`: the template, variables, tools and thinking; NULL: the
 *   defaults. add_generation_prompt means nothing here.
 * - `generate_options`: how replies are generated, such as most tokens, the
 *   sequence, stop strings, a cancel token and a time limit; NULL: the
 *   defaults. echo, shift, ignore_eog and log-probabilities are refused.
 *
 * Both options may be freed afterwards. Each reply runs only what the sequence
 * does not hold. Use the sequence for nothing else: what others put there has
 * to be run again. **What a user types can never spell a control token**: see
 * ember_chat_tokenize. Errors: EMBER_E_UNSUPPORTED for a model without a
 * template or a tokenizer, for tools whose calls the template does not write,
 * for thinking that it cannot switch, and in a build without the feature
 * "chat"; EMBER_E_INVALID_ARGUMENT, EMBER_E_NOT_FOUND, EMBER_E_FORMAT,
 * EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_conversation_new(
    struct ember_context *context,
    const char *system,
    size_t system_len,
    const struct ember_chat_options *chat_options,
    const struct ember_generate_options *generate_options,
    struct ember_conversation **out,
    struct ember_error **err);

/**
 * Frees a conversation. NULL is fine. What its sequence holds stays there.
 * While a call is using the conversation (from that call's callback, or on
 * another thread) it is not freed, and the log says so: free it afterwards.
 */
void ember_conversation_free(struct ember_conversation *conversation);

/**
 * Adds a message without having it answered: a JSON object with `role` (system,
 * developer, user, assistant, tool) and what else the template takes:
 * `content`, `tool_calls`, `tool_call_id`, `name`. The result of a tool is
 * added so, and a conversation that was held elsewhere. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_BUSY while a reply is under
 * way.
 */
ember_status ember_conversation_add(
    struct ember_conversation *conversation,
    const char *message,
    size_t message_len,
    struct ember_error **err);

/**
 * Adds a user's message with this text and has it answered; empty `text`: has
 * the messages answered that were added. Hands every event to `callback` with
 * `user_data`, the last of which is EMBER_CHAT_EVENT_END; then the reply is a
 * message. A call of a tool ends a reply as a rule: add its result, and ask for
 * the reply to that. `sampler` NULL: greedy; `out_usage` NULL: not wanted. On
 * an error, and where the callback ends it, the reply is no message. A user's
 * message stays once its reply began; where it could not begin, it is taken
 * back. Errors: EMBER_E_CONTEXT_FULL where the conversation does not fit its
 * sequence, whatever is dropped; EMBER_E_INVALID_ARGUMENT when there is nothing
 * to reply to, or the template refuses the messages; EMBER_E_UTF8,
 * EMBER_E_NOMEM, EMBER_E_BUSY. A cancel token is no error: finish_reason tells.
 * A prompt of more than 4 KiB is the exception: EMBER_E_CANCELLED where the
 * token ends its encoding.
 */
ember_status ember_conversation_send(
    struct ember_conversation *conversation,
    const char *text,
    size_t text_len,
    struct ember_sampler *sampler,
    ember_chat_event_callback callback,
    void *user_data,
    struct ember_conversation_usage *out_usage,
    struct ember_error **err);

/**
 * The pull form of ember_conversation_send: begins a reply, whose events come
 * from ember_conversation_next. The conversation keeps the sampler as long as
 * the reply is under way. Errors: as ember_conversation_send.
 */
ember_status ember_conversation_begin(
    struct ember_conversation *conversation,
    const char *text,
    size_t text_len,
    struct ember_sampler *sampler,
    struct ember_error **err);

/**
 * Writes the next event of the reply to `event`, whose struct_size must be set;
 * what it points to stays until the next call with this conversation. After
 * EMBER_CHAT_EVENT_END it comes again and again; before the first reply
 * EMBER_CHAT_EVENT_NONE. Errors leave the reply where it was: try again, or
 * ember_conversation_abandon. As ember_generator_next.
 */
ember_status ember_conversation_next(
    struct ember_conversation *conversation,
    struct ember_chat_event *event,
    struct ember_error **err);

/**
 * Gives the reply under way up: it becomes no message. Fine when there is none.
 * Errors: EMBER_E_BUSY.
 */
ember_status ember_conversation_abandon(
    struct ember_conversation *conversation,
    struct ember_error **err);

/**
 * Forgets the last turn: the user's last message and all behind it. Errors:
 * EMBER_E_INVALID_ARGUMENT when there is none, EMBER_E_BUSY while a reply is
 * under way.
 */
ember_status ember_conversation_undo(
    struct ember_conversation *conversation,
    struct ember_error **err);

/**
 * Writes all messages so far, those that were dropped included, to `buffer` of
 * `capacity` bytes as a JSON array, without NUL, and its length to `n_needed`.
 * Errors: EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
 */
ember_status ember_conversation_messages(
    const struct ember_conversation *conversation,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Writes what the last reply took to `out`, whose struct_size must be set.
 * Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_conversation_usage_get(
    const struct ember_conversation *conversation,
    struct ember_conversation_usage *out,
    struct ember_error **err);

/**
 * Most tokens of a thought from now on: then it is closed by the template's own
 * mark, and the answer comes. 0: as many as it takes, the default. Errors:
 * EMBER_E_UNSUPPORTED when the template has no marks of thoughts, EMBER_E_BUSY.
 */
ember_status ember_conversation_set_thinking_budget(
    struct ember_conversation *conversation,
    uint32_t n_tokens,
    struct ember_error **err);

/**
 * What happens from now on where the conversation becomes longer than its
 * sequence: an ember_when_full, and how many tokens must be free for a reply
 * when it begins; 0: max_tokens, and a quarter of the sequence at most. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_conversation_set_when_full(
    struct ember_conversation *conversation,
    int32_t when_full,
    uint32_t n_reserve,
    struct ember_error **err);

/**
 * Has `callback` say, with `user_data`, how many turns are dropped where the
 * conversation becomes too long; NULL: as few as need be. It is called by
 * ember_conversation_send and ember_conversation_begin. Errors: EMBER_E_BUSY.
 */
ember_status ember_conversation_set_on_full(
    struct ember_conversation *conversation,
    ember_full_callback callback,
    void *user_data,
    struct ember_error **err);

/**
 * Writes to `out` the same conversation in sequence `sequence` of the same
 * context, which gets what this one's holds: both go on by themselves. Its
 * callback for a full sequence is not copied. Errors: EMBER_E_INVALID_ARGUMENT
 * for a sequence that does not exist, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_conversation_fork(
    const struct ember_conversation *conversation,
    uint32_t sequence,
    struct ember_conversation **out,
    struct ember_error **err);

/**
 * Writes the conversation as bytes to `buffer` of `capacity` bytes, and their
 * number to `n_needed`: its messages, and which tokens its sequence holds. Save
 * the sequence too (ember_context_save_sequence) where it shall not be run
 * again. Errors: EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY, also while a reply is
 * under way.
 */
ember_status ember_conversation_save(
    const struct ember_conversation *conversation,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Makes a conversation of the `len` bytes at `saved`, which
 * ember_conversation_save gave, as ember_conversation_new does: with options of
 * its own, which should be those that it had. Where the sequence does not hold
 * what it held, the next reply runs it again. Errors: EMBER_E_FORMAT for bytes
 * that are damaged, EMBER_E_UNSUPPORTED for those of a later version, and those
 * of ember_conversation_new.
 */
ember_status ember_conversation_load(
    struct ember_context *context,
    const uint8_t *saved,
    size_t len,
    const struct ember_chat_options *chat_options,
    const struct ember_generate_options *generate_options,
    struct ember_conversation **out,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Fill in the middle
 * ========================================================================== */

/**
 * @defgroup ember_infilling Fill in the middle
 * A model for code fills the gap between a prefix and a suffix. The prompt is
 * made of the tokenizer's own control tokens; the generated text is what fills
 * the gap.
 *
 * @code{.c}
 * ember_tokenizer *tokenizer = NULL;
 * uint32_t tokens[256];
 * ember_model_tokenizer(model, &tokenizer, &err);
 * ember_tokenizer_fim_prompt(tokenizer, "int add(", 8, "}", 1, NULL,
 *                            tokens, 256, &n, &err);
 * ember_tokenizer_release(tokenizer);
 * @endcode
 * @{
 */

/** In which order the parts of a prompt stand that is to fill a gap. */
enum ember_fim_order
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * The model's: prefix, suffix, middle; suffix, prefix where it has no token
     * for the middle, as Mistral's have. The default.
     */
    EMBER_FIM_AUTO = 0,
    /**
     * The text in front of the gap, the text behind it, the middle; each behind
     * its token.
     */
    EMBER_FIM_PSM = 1,
    /**
     * The text behind the gap, the text in front of it, the middle; each behind
     * its token.
     */
    EMBER_FIM_SPM = 2,
    /**
     * The tokens of prefix and suffix, the text behind the gap, the token of
     * the middle, the text in front of the gap: what CodeLlama and StarCoder
     * were trained with beside EMBER_FIM_PSM.
     */
    EMBER_FIM_SPM_JOINED = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_fim_order ember_fim_order;
#else
typedef int32_t ember_fim_order;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Writes new options with their defaults to `out`; free them with
 * ember_fim_options_free. Errors: EMBER_E_INVALID_ARGUMENT when `out` is NULL,
 * EMBER_E_NOMEM.
 */
ember_status ember_fim_options_new(
    struct ember_fim_options **out,
    struct ember_error **err);

/** Frees options. NULL is fine. */
void ember_fim_options_free(struct ember_fim_options *options);

/**
 * Sets in which order the parts stand: an ember_fim_order. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_fim_options_set_order(
    struct ember_fim_options *options,
    int32_t order,
    struct ember_error **err);

/**
 * Sets the name of the repository, which stands first; an empty one, the
 * default, for none. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8,
 * EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_fim_options_set_repository(
    struct ember_fim_options *options,
    const char *name,
    size_t name_len,
    struct ember_error **err);

/**
 * Sets the name of the file that has the gap; an empty one, the default, for
 * none. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM,
 * EMBER_E_BUSY.
 */
ember_status ember_fim_options_set_file(
    struct ember_fim_options *options,
    const char *name,
    size_t name_len,
    struct ember_error **err);

/**
 * Adds the name and the text of another file, to stand before the one with the
 * gap, in the order of the calls; 4096 at most. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_fim_options_add_file(
    struct ember_fim_options *options,
    const char *name,
    size_t name_len,
    const char *text,
    size_t text_len,
    struct ember_error **err);

/**
 * Writes the tokens of a prompt that asks for what stands between `prefix` and
 * `suffix` to `tokens`, which holds `capacity` of them, and their number to
 * `n_needed`; a first call with capacity 0 asks for the number. The control
 * tokens are the tokenizer's (ember_tokenizer_info); BOS comes first where it
 * asks for that. Texts spell no control tokens. Give the tokens to
 * ember_generator_new_tokens or ember_engine_submit_tokens; what is generated
 * fills the gap. `options` may be NULL. Any thread. Errors: EMBER_E_UNSUPPORTED
 * names the token that a prompt of this kind needs and the tokenizer lacks;
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL,
 * EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_tokenizer_fim_prompt(
    const struct ember_tokenizer *tokenizer,
    const char *prefix,
    size_t prefix_len,
    const char *suffix,
    size_t suffix_len,
    const struct ember_fim_options *options,
    uint32_t *tokens,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Engine: many requests
 * ========================================================================== */

/**
 * @defgroup ember_engines Engine: many requests
 * An engine runs many generations together on one model: threads submit
 * requests, a queue holds them, and each step runs a batch. Any thread may use
 * the engine; one at a time takes the events of a request.
 *
 * @code{.c}
 * ember_engine *engine = NULL;
 * ember_request *request = NULL;
 * ember_engine_new(model, NULL, &engine, &err);
 * ember_engine_submit(engine, "Once", 4, NULL, NULL, NULL, NULL, &request,
 *                     &err);
 * ember_request_next(request, EMBER_FOREVER, &event, &err);
 * @endcode
 * @{
 */

/** As a time to wait: without end. */
#define EMBER_FOREVER UINT32_MAX

/**
 * What an engine has done since it was made, and how things stand. Set
 * struct_size to sizeof(ember_engine_metrics) before the call.
 */
typedef struct ember_engine_metrics {
    /** Size of this struct as the caller knows it. */
    size_t struct_size;
    /** Requests that were taken. */
    uint64_t n_submitted;
    /** Requests that were refused with EMBER_E_QUEUE_FULL. */
    uint64_t n_refused;
    /**
     * Requests that ended by themselves, by a stop string, in a full context,
     * or by their callback.
     */
    uint64_t n_finished;
    /** Requests that were cancelled, or ended by their time limit. */
    uint64_t n_cancelled;
    /** Requests that an error ended. */
    uint64_t n_failed;
    /**
     * How often a request gave its pages up for others and was run again later.
     */
    uint64_t n_preempted;
    /** Tokens of the prompts of requests that generated. */
    uint64_t n_prompt;
    /** Of these, those that were in the cache already. */
    uint64_t n_reused;
    /**
     * Tokens of prompts that were run, and what was run again of requests that
     * had given their pages up.
     */
    uint64_t n_prefilled;
    /** Tokens generated. */
    uint64_t n_generated;
    /** Steps that ran something. */
    uint64_t n_steps;
    /** Nanoseconds spent in steps. */
    uint64_t busy_ns;
    /**
     * Tokens generated for each second spent in steps. For the rate of the last
     * minute take the difference of two snapshots of n_generated.
     */
    double tokens_per_s;
    /** n_reused for each of n_prompt, 0 to 1. */
    double cache_hit_rate;
    /** Requests that wait. */
    uint32_t n_queued;
    /** Requests that run. */
    uint32_t n_active;
    /** Pages of the KV cache. */
    uint32_t n_pages;
    /**
     * Pages that no request has; the cache may keep prefixes in them until they
     * are needed.
     */
    uint32_t n_free_pages;
} ember_engine_metrics;

/**
 * Writes new options with their defaults to `out`; free them with
 * ember_engine_options_free.
 */
ember_status ember_engine_options_new(
    struct ember_engine_options **out,
    struct ember_error **err);

/** Frees options. NULL is fine. */
void ember_engine_options_free(struct ember_engine_options *options);

/**
 * How the engine's context is made: n_ctx is the positions of each request,
 * n_batch the most rows of a step (prompts get 32 in any case). kv_limit and
 * threads are as in a context. The number of sequences and whether the engine
 * keeps prefixes are its own options. Copied. Default: those of
 * ember_context_options_new.
 */
ember_status ember_engine_options_set_context_options(
    struct ember_engine_options *options,
    const struct ember_context_options *context_options,
    struct ember_error **err);

/**
 * How many requests run together, 1 to 4096. More give more tokens in all,
 * fewer to each. Default: 8.
 */
ember_status ember_engine_options_set_n_parallel(
    struct ember_engine_options *options,
    uint32_t n_parallel,
    struct ember_error **err);

/**
 * How many requests may wait, at least 1, until one of those that run has
 * ended; more are refused with EMBER_E_QUEUE_FULL. A request waits until the
 * next step in any case. Default: 256.
 */
ember_status ember_engine_options_set_max_queue(
    struct ember_engine_options *options,
    uint32_t max_queue,
    struct ember_error **err);

/**
 * Whether requests that begin alike, such as with the same system prompt, share
 * what was computed for the first of them, as long as it is in the cache. What
 * they give does not change. Default: true.
 */
ember_status ember_engine_options_set_share_prefixes(
    struct ember_engine_options *options,
    bool share_prefixes,
    struct ember_error **err);

/**
 * Whether a thread of the engine's own does all steps; callbacks then run on
 * it. Default: false: the caller's threads do, in ember_engine_step and
 * ember_request_next.
 */
ember_status ember_engine_options_set_thread(
    struct ember_engine_options *options,
    bool thread,
    struct ember_error **err);

/**
 * Makes an engine over `model`, with a context of its own, and writes it to
 * `out`; free it with ember_engine_free. `options` NULL: the defaults. The
 * engine keeps the model alive. It takes its large buffers here: as much as
 * ember_memory_estimate says of a context whose n_seq is n_parallel. Errors:
 * EMBER_E_INVALID_ARGUMENT for options that contradict the model,
 * EMBER_E_UNSUPPORTED for an encoder and for a thread where there are none,
 * EMBER_E_NOMEM.
 */
ember_status ember_engine_new(
    struct ember_model *model,
    const struct ember_engine_options *options,
    struct ember_engine **out,
    struct ember_error **err);

/**
 * Ends all requests as cancelled, waits for the engine's own thread if it has
 * one, and frees the engine. NULL is fine. Requests stay until they are freed
 * themselves, in any order, with the events that were not taken; the KV cache
 * goes with the engine. While a call of ember_engine_step is under way (in one
 * of its callbacks, or on another thread) it is not freed, and the log says so:
 * free it afterwards.
 */
void ember_engine_free(struct ember_engine *engine);

/**
 * Has `prompt` continued, and writes the request to `out`; free it with
 * ember_request_free. The prompt is the whole text: it is tokenized here (BOS
 * included), waits in the queue, and runs together with other requests. What it
 * gives is what it would give alone (with keys and values in EMBER_KV_F32, but
 * for the last digits of log-probabilities). Any thread, and callbacks too.
 * `options` NULL: the defaults; of them, the sequence and reuse_prefix mean
 * nothing here; priority does. `sampler` NULL: greedy; otherwise a copy is
 * taken as it is (ember_sampler_clone), random state and all, so that requests
 * which shall differ need samplers of different seeds; the prompt takes the
 * place of all that it had accepted. `callback` NULL: take the events with
 * ember_request_next. Otherwise it gets them, with `user_data`, on the thread
 * that does the step: one of the callers of ember_engine_step and
 * ember_request_next, or the engine's own. It may call Ember,
 * ember_engine_submit included, but nothing that waits for this engine's steps
 * (EMBER_E_BUSY). The last event is EMBER_EVENT_END, unless it returned
 * non-zero before; until then `user_data` must stay valid. A prompt for which
 * the whole KV cache has too few pages (ember_context_options_set_kv_limit)
 * ends with EMBER_FINISH_CONTEXT_FULL and no token when its turn comes. Errors:
 * EMBER_E_QUEUE_FULL when as many requests wait as may, EMBER_E_CONTEXT_FULL
 * for a prompt of more than n_ctx tokens, EMBER_E_INVALID_ARGUMENT (an empty
 * prompt), EMBER_E_UTF8, EMBER_E_UNSUPPORTED without a tokenizer, EMBER_E_BUSY
 * when the options or the sampler are in use.
 */
ember_status ember_engine_submit(
    struct ember_engine *engine,
    const char *prompt,
    size_t prompt_len,
    const struct ember_generate_options *options,
    struct ember_sampler *sampler,
    ember_event_callback callback,
    void *user_data,
    struct ember_request **out,
    struct ember_error **err);

/**
 * As ember_engine_submit for a prompt of `n_tokens` token ids, to which nothing
 * is added. Errors: as ember_engine_submit, and EMBER_E_INVALID_ARGUMENT for a
 * token that does not exist.
 */
ember_status ember_engine_submit_tokens(
    struct ember_engine *engine,
    const uint32_t *tokens,
    size_t n_tokens,
    const struct ember_generate_options *options,
    struct ember_sampler *sampler,
    ember_event_callback callback,
    void *user_data,
    struct ember_request **out,
    struct ember_error **err);

/**
 * Does one step on the calling thread: a batch with the next token of each
 * request that runs and chunks of prompts, whose events it gives to callbacks
 * and requests. Before that it waits up to `timeout_ms` milliseconds for
 * something to do (0: not at all, EMBER_FOREVER: without end), and for another
 * thread that does a step. Writes to `out_more` whether there is more to do
 * now; it may be NULL. A pump is a thread that calls this in a loop, with a
 * timeout after which it looks whether the host has it stop: nothing but a
 * request ends a longer wait. Errors: EMBER_E_BUSY when another thread is at it
 * all the while, the engine has a thread of its own, or the caller is a
 * callback of the step under way; EMBER_E_INVALID_ARGUMENT. What ends a single
 * request is reported to that request.
 */
ember_status ember_engine_step(
    struct ember_engine *engine,
    uint32_t timeout_ms,
    bool *out_more,
    struct ember_error **err);

/**
 * Writes what the engine has done to `out`, whose struct_size must be set. Any
 * thread. Errors: EMBER_E_INVALID_ARGUMENT.
 */
ember_status ember_engine_metrics_get(
    const struct ember_engine *engine,
    struct ember_engine_metrics *out,
    struct ember_error **err);

/**
 * Writes the options in force in the engine's context to `out`, whose
 * struct_size must be set: n_ctx are the positions of each request, for its
 * prompt and what is generated, n_seq how many requests run together. Any
 * thread. Errors: EMBER_E_INVALID_ARGUMENT.
 */
ember_status ember_engine_info_get(
    const struct ember_engine *engine,
    struct ember_context_info *out,
    struct ember_error **err);

/**
 * Writes the next event of a request without a callback to `event`, whose
 * struct_size must be set; what it points to stays until the next call with
 * this request, or its free. If there is none yet this waits up to `timeout_ms`
 * milliseconds (0: not at all, EMBER_FOREVER: without end) and then gives
 * EMBER_EVENT_NONE. While it waits and no other thread does the engine's steps
 * it does them, so that a host needs no other thread; a step that has begun is
 * done to its end, which may be later. After EMBER_EVENT_END it comes again and
 * again; of a request with a callback it is the only event, and comes when the
 * callback is not called any more. Errors: what ended the request, behind its
 * events and then each time; EMBER_E_BUSY when another thread waits for this
 * request, or the caller is a callback of the step under way, which it would
 * wait for; EMBER_E_INVALID_ARGUMENT.
 */
ember_status ember_request_next(
    struct ember_request *request,
    uint32_t timeout_ms,
    struct ember_event *event,
    struct ember_error **err);

/**
 * Ends the request with the engine's next step, as EMBER_FINISH_CANCELLED. A
 * step under way is done to its end, unless all requests that it runs tokens of
 * are cancelled: then it ends before the model's next layer. Any thread. NULL,
 * or what is no request, is left alone.
 */
void ember_request_cancel(const struct ember_request *request);

/**
 * Writes what the request did so far to `out`, whose struct_size must be set;
 * its finish_reason is EMBER_FINISH_NONE before the end. Its nanoseconds are
 * those of the steps that it was part of. Any thread. Errors:
 * EMBER_E_INVALID_ARGUMENT.
 */
ember_status ember_request_usage(
    const struct ember_request *request,
    struct ember_generate_result *out,
    struct ember_error **err);

/**
 * Frees a request; one that has not ended is cancelled, and its callback gets
 * EMBER_EVENT_END with the engine's next step. NULL is fine. While a call is
 * using the request (on another thread) it is not freed, and the log says so:
 * free it afterwards.
 */
void ember_request_free(struct ember_request *request);

/** @} */

/* ==========================================================================
 * Embeddings
 * ========================================================================== */

/**
 * @defgroup ember_embeddings Embeddings
 * An embedding is a vector for a text. One call embeds many texts, in batches.
 * It leaves the sequences of the context as they are.
 *
 * @code{.c}
 * const char *texts[] = {"a cat", "a dog"};
 * float vectors[2 * 384];
 * status = ember_embed(context, texts, NULL, 2, NULL, vectors, 2 * 384, &n,
 *                      &err);
 * @endcode
 * @{
 */

/**
 * Writes new options with their defaults to `out`; free them with
 * ember_embed_options_free. Errors: EMBER_E_INVALID_ARGUMENT when `out` is
 * NULL.
 */
ember_status ember_embed_options_new(
    struct ember_embed_options **out,
    struct ember_error **err);

/** Frees options. NULL is fine. */
void ember_embed_options_free(struct ember_embed_options *options);

/**
 * Which hidden states make a text's vector, an ember_pooling. Default:
 * EMBER_POOLING_AUTO. Errors: EMBER_E_INVALID_ARGUMENT for any other number.
 */
ember_status ember_embed_options_set_pooling(
    struct ember_embed_options *options,
    int32_t pooling,
    struct ember_error **err);

/**
 * Whether each vector is scaled to length 1, so that the dot product of two is
 * their cosine similarity. Default: true for one vector per text, unless the
 * modules.json of a folder lists no Normalize; false for one per token.
 */
ember_status ember_embed_options_set_normalize(
    struct ember_embed_options *options,
    bool normalize,
    struct ember_error **err);

/**
 * Whether Ember cuts a text that is too long instead of refusing it. It takes
 * the first tokens (ember_embed: and the special token at the end): as many as
 * a text may have and as the free pages of the KV cache hold, if that is one at
 * least. Default: false.
 */
ember_status ember_embed_options_set_truncate(
    struct ember_embed_options *options,
    bool truncate,
    struct ember_error **err);

/**
 * How many numbers of each vector are kept: the first ones. The vector is
 * scaled to length 1 after that, where it is scaled at all. So models that were
 * trained for it (Matryoshka) give shorter vectors. 0: all, the default.
 * ember_embed refuses more than a vector has (n_embd_out of ember_model_info).
 */
ember_status ember_embed_options_set_dimensions(
    struct ember_embed_options *options,
    size_t dimensions,
    struct ember_error **err);

/**
 * Puts the prompt called `name` before each text that ember_embed embeds, in
 * place of the model's default prompt. Prompts and their names, such as "query"
 * and "document", are in the config_sentence_transformers.json of a folder;
 * GGUF files have none. An empty name: the model's default prompt, if it has
 * one; this is the default. `name` is `length` bytes of UTF-8, or
 * EMBER_NUL_TERMINATED. ember_embed refuses a name that the model does not have
 * (EMBER_E_INVALID_ARGUMENT, with the names that there are). Errors:
 * EMBER_E_UTF8.
 */
ember_status ember_embed_options_set_prompt(
    struct ember_embed_options *options,
    const char *name,
    size_t length,
    struct ember_error **err);

/**
 * Embeds `n_texts` texts in one call: text i is `lengths[i]` bytes of UTF-8 at
 * `texts[i]`; `lengths` NULL: each ends at its NUL byte. A text gets the
 * special tokens its model's texts begin and end with; the text of a control
 * token is plain text. The vectors go to `vectors`, whose capacity is
 * `capacity` numbers, one after the other in the order of the texts. Each has
 * n_embd_out (of ember_model_info) numbers, or as many as
 * ember_embed_options_set_dimensions says. With EMBER_POOLING_NONE there is one
 * of n_embd numbers for each token of each text. `n_needed` receives their
 * number; a first call with capacity 0 asks for it. `options` NULL: the
 * defaults. Texts run in batches of as many as fit n_batch, without padding.
 * The tokens and logits of the context's sequences stay as they are, and texts
 * cannot use their pages. Encoders see a text as a whole, so there it may have
 * n_batch tokens at most (if n_batch was not set, that is n_ctx up to 65536). A
 * folder of sentence-transformers may name a default prompt, which is put
 * before each text, and a max_seq_length, which a text may have at most.
 * Errors: EMBER_E_CONTEXT_FULL for a text that is too long, EMBER_E_UTF8,
 * EMBER_E_INVALID_ARGUMENT for a text without any token and for a vector that
 * would hold NaN or infinity (the model's weights overflow), each naming the
 * text by its index; EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED for a model
 * without a tokenizer, EMBER_E_NOMEM, EMBER_E_BUSY, EMBER_E_CANCELLED by the
 * context's token, EMBER_E_IO when the model's file can no longer be read.
 */
ember_status ember_embed(
    struct ember_context *context,
    const char *const *texts,
    const size_t *lengths,
    size_t n_texts,
    const struct ember_embed_options *options,
    float *vectors,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * As ember_embed for texts that are token ids already, to which nothing is
 * added, no prompt either: the texts stand one after the other in `tokens`,
 * `n_tokens` ids in all, and text i has `lengths[i]` of them. Errors: as
 * ember_embed, and EMBER_E_INVALID_ARGUMENT for lengths that do not add up to
 * n_tokens and for a token that does not exist.
 */
ember_status ember_embed_tokens(
    struct ember_context *context,
    const uint32_t *tokens,
    size_t n_tokens,
    const size_t *lengths,
    size_t n_texts,
    const struct ember_embed_options *options,
    float *vectors,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Classification and reranking
 * ========================================================================== */

/**
 * @defgroup ember_classification Classification and reranking
 * A classifier gives a text a score for each label. A reranker gives each of
 * several documents a score for how well it answers a query.
 *
 * @code{.c}
 * const char *documents[] = {"Paris is in France.", "Cats sleep a lot."};
 * float scores[2];
 * status = ember_rerank(context, "Where is Paris?", EMBER_NUL_TERMINATED,
 *                       documents, NULL, 2, NULL, scores, 2, &n, &err);
 * @endcode
 * @{
 */

/** What is done to the outputs of a head that scores texts. */
enum ember_classify_activation
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * What the model's source says, or EMBER_CLASSIFY_SIGMOID for one label and
     * EMBER_CLASSIFY_SOFTMAX for more: the default.
     */
    EMBER_CLASSIFY_AUTO = -1,
    /** Nothing: the scores are any numbers. */
    EMBER_CLASSIFY_NONE = 0,
    /** Each score is a probability of its own. */
    EMBER_CLASSIFY_SIGMOID = 1,
    /** The scores of a text are probabilities that add up to 1. */
    EMBER_CLASSIFY_SOFTMAX = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum ember_classify_activation ember_classify_activation;
#else
typedef int32_t ember_classify_activation;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Writes new options with their defaults to `out`; free them with
 * ember_classify_options_free. Errors: EMBER_E_INVALID_ARGUMENT when `out` is
 * NULL, EMBER_E_NOMEM.
 */
ember_status ember_classify_options_new(
    struct ember_classify_options **out,
    struct ember_error **err);

/** Frees options. NULL is fine. */
void ember_classify_options_free(struct ember_classify_options *options);

/**
 * Sets what is done to the head's outputs: an ember_classify_activation.
 * Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_classify_options_set_activation(
    struct ember_classify_options *options,
    int32_t activation,
    struct ember_error **err);

/**
 * Sets whether of a text that is too long what fits is taken (true), or the
 * call fails (false, the default). Of a query and a document, the end of the
 * document is left out. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_classify_options_set_truncate(
    struct ember_classify_options *options,
    bool truncate,
    struct ember_error **err);

/**
 * Sets the prompt of rerankers that are decoders: a text with the places
 * `{query}` and `{document}`, each once, in which texts of control tokens stand
 * for these tokens. An empty one, the default, stands for the model's
 * `tokenizer.chat_template.rerank`, or for Qwen3-Reranker's where a model of
 * that architecture has none. Encoders have no prompt. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_classify_options_set_template(
    struct ember_classify_options *options,
    const char *template_text,
    size_t template_len,
    struct ember_error **err);

/**
 * Sets whether a model without a head is asked for "yes" or "no", and its score
 * is the probability of "yes" (false by default): Qwen3-Reranker's original
 * folder, which Ember recognizes by its name too. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_classify_options_set_yes_no(
    struct ember_classify_options *options,
    bool yes_no,
    struct ember_error **err);

/**
 * Writes the scores of `n_texts` texts to `scores`, whose capacity is
 * `capacity` numbers: for each text one for each label (ember_model_label), and
 * their number to `n_needed`; a first call with capacity 0 asks for the number.
 * Text i is UTF-8 of `lengths[i]` bytes at `texts[i]`; `lengths` NULL: each
 * ends at its NUL byte. Texts run together, as with ember_embed; the context's
 * sequences stay as they are. `options` may be NULL. Errors:
 * EMBER_E_UNSUPPORTED for a model without a head that scores texts, or without
 * a tokenizer; EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_CONTEXT_FULL for
 * a text that is too long, by its index; EMBER_E_BUFFER_TOO_SMALL,
 * EMBER_E_NOMEM, EMBER_E_BUSY, EMBER_E_CANCELLED by the context's token,
 * EMBER_E_IO when the model's file can no longer be read.
 */
ember_status ember_classify(
    struct ember_context *context,
    const char *const *texts,
    const size_t *lengths,
    size_t n_texts,
    const struct ember_classify_options *options,
    float *scores,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Writes to `scores`, whose capacity is `capacity` numbers, how well each of
 * `n_documents` texts answers `query`: one score for each, in their order, the
 * higher the better; and their number to `n_needed`. Document i is UTF-8 of
 * `lengths[i]` bytes at `documents[i]`; `lengths` NULL: each ends at its NUL
 * byte. Encoders read a pair as they were trained to (`[CLS] query [SEP]
 * document [SEP]` with token types for BERT), decoders behind the prompt of the
 * model (ember_classify_options_set_template). Texts spell no control tokens.
 * Pairs run together, as texts do with ember_embed; the context's sequences
 * stay as they are. `options` may be NULL. Errors: EMBER_E_UNSUPPORTED for a
 * model that has no head, or one with several labels of which none is "yes";
 * else as ember_classify.
 */
ember_status ember_rerank(
    struct ember_context *context,
    const char *query,
    size_t query_len,
    const char *const *documents,
    const size_t *lengths,
    size_t n_documents,
    const struct ember_classify_options *options,
    float *scores,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Writes the number of labels of a model that scores texts to `out`: the scores
 * of a text. Any thread. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UNSUPPORTED
 * for a model without a head that does.
 */
ember_status ember_model_label_count(
    const struct ember_model *model,
    size_t *out,
    struct ember_error **err);

/**
 * Writes label number `index` (as the model's source names it, without NUL) to
 * `buffer` of `capacity` bytes, and its length to `n_needed`. A label without a
 * name is `LABEL_0` and so on. Any thread. Errors: EMBER_E_NOT_FOUND,
 * EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED as ember_model_label_count.
 */
ember_status ember_model_label(
    const struct ember_model *model,
    size_t index,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Likelihood of a given text
 * ========================================================================== */

/**
 * @defgroup ember_scoring Likelihood of a given text
 * A score says how likely the model finds a continuation of a prompt: the
 * log-probability of each of its tokens, and their sum.
 *
 * @code{.c}
 * ember_score_result result = {.struct_size = sizeof result};
 * status = ember_score(context, "2 + 2 =", 7, " 4", 2, NULL, NULL, 0, NULL,
 *                      &result, &err);
 * @endcode
 * @{
 */

/** What a token of a continuation scores. Of fixed size. */
typedef struct ember_token_score {
    /** The token. */
    uint32_t token;
    /**
     * Natural logarithm of its probability given all tokens before it, at most
     * 0.
     */
    float logprob;
    /**
     * How many tokens are likelier at its place: 0 for the one that a greedy
     * sampler would have taken.
     */
    uint32_t rank;
} ember_token_score;

/**
 * What a continuation scores. Set struct_size to sizeof(ember_score_result)
 * before the call.
 */
typedef struct ember_score_result {
    /** Size of this struct as the caller knows it. */
    size_t struct_size;
    /** The sum of its tokens' log-probabilities. */
    double logprob;
    /** Its tokens. */
    uint32_t n_scored;
    /** Tokens before them. */
    uint32_t n_prompt;
    /** Of these, those that the sequence held already. */
    uint32_t n_reused;
    /** 1 when a greedy sampler would have generated all of it, else 0. */
    uint32_t is_greedy;
} ember_score_result;

/**
 * Scores how likely `continuation` is behind `prompt`: the log-probability of
 * each of its tokens given all before it. Both together are tokenized as one
 * text, with the special tokens that texts begin with (BOS); scored are the
 * tokens from the first on that is not one of the prompt's alone. An empty
 * prompt needs a model that begins texts with BOS. Of `options` (NULL: the
 * defaults) the sequence, parse_special and the cancel token count. The
 * sequence keeps what it has in common with the prompt and forgets the rest;
 * afterwards it holds all but the last token, so that scoring many
 * continuations of one prompt runs the prompt once. Memory for logits does not
 * grow with the text. The tokens' scores go to `scores`, which holds `capacity`
 * of them, and their number to `n_needed`; a first call with capacity 0 asks
 * for it. `n_needed` NULL: they are not wanted, `scores` is not looked at.
 * `out_result` NULL: not wanted. Errors: EMBER_E_INVALID_ARGUMENT when there is
 * no token to score or none before it; EMBER_E_CONTEXT_FULL for more than n_ctx
 * tokens, and one (the last is not run) and EMBER_E_BUFFER_TOO_SMALL, the
 * sequence being as before; EMBER_E_CONTEXT_FULL when no page is left,
 * EMBER_E_CANCELLED and others, the sequence having forgotten what it had not
 * in common; EMBER_E_UTF8, EMBER_E_UNSUPPORTED for an encoder or a model
 * without a tokenizer, EMBER_E_NOMEM, EMBER_E_BUSY.
 */
ember_status ember_score(
    struct ember_context *context,
    const char *prompt,
    size_t prompt_len,
    const char *continuation,
    size_t continuation_len,
    const struct ember_generate_options *options,
    struct ember_token_score *scores,
    size_t capacity,
    size_t *n_needed,
    struct ember_score_result *out_result,
    struct ember_error **err);

/**
 * As ember_score for `n_tokens` token ids, of which the first `n_prompt`, at
 * least one, are the prompt. Nothing is added; the model needs no tokenizer.
 * Errors: as ember_score, and EMBER_E_INVALID_ARGUMENT for a token that does
 * not exist.
 */
ember_status ember_score_tokens(
    struct ember_context *context,
    const uint32_t *tokens,
    size_t n_tokens,
    size_t n_prompt,
    const struct ember_generate_options *options,
    struct ember_token_score *scores,
    size_t capacity,
    size_t *n_needed,
    struct ember_score_result *out_result,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * State of sequences
 * ========================================================================== */

/**
 * @defgroup ember_states State of sequences
 * A state is a sequence, or a whole context, as bytes: tokens and KV cache.
 * Loading it in another process with the same model goes on without running the
 * text again. Load only states of your own: a checksum finds damage, not
 * malice.
 *
 * @code{.c}
 * const char *file = "story.state";
 * status = ember_context_state_save_file(context, 0, file, strlen(file), &err);
 * if (status == EMBER_OK)
 *     ember_context_state_load_file(context, 0, file, strlen(file), &err);
 * @endcode
 * @{
 */

/** In place of a sequence's number: all sequences of the context. */
#define EMBER_ALL_SEQUENCES UINT32_MAX

/**
 * Takes `len` bytes of a state, the next after those of the call before.
 * `user_data` is what was given with the callback. Returning anything but 0
 * ends the saving with EMBER_E_CANCELLED.
 */
typedef int32_t (*ember_write_callback)(
    const uint8_t *data,
    size_t len,
    void *user_data);

/**
 * Writes the next bytes of a state to `buffer`, `capacity` at most, and returns
 * their number: 0 at the end, a negative number to end the loading with
 * EMBER_E_CANCELLED. `user_data` is what was given with the callback.
 */
typedef int64_t (*ember_read_callback)(
    uint8_t *buffer,
    size_t capacity,
    void *user_data);

/**
 * Writes the state of `sequence`, or of the whole context for
 * EMBER_ALL_SEQUENCES, to `buffer` of `capacity` bytes and its length to
 * `n_needed`; a first call with capacity 0 asks for the length. A state holds
 * tokens, KV cache and the logits of the last token where they are there;
 * loading it in another process with the same model goes on with the same bits.
 * It holds no sampler: what that has accepted, and its random state, is the
 * host's to keep. Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not
 * exist, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_UNSUPPORTED for an encoder,
 * EMBER_E_BUSY.
 */
ember_status ember_context_state_save(
    const struct ember_context *context,
    uint32_t sequence,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Makes `sequence` what a state of one sequence says; with EMBER_ALL_SEQUENCES
 * the whole context what a state of a context says, where sequences that the
 * state does not have become empty. `len` bytes at `data`. The state is looked
 * at whole before anything changes: on an error all is as it was. Its checksum
 * finds damage, not malice: load states of your own. With
 * ember_context_options_set_keep_prefixes no other sequence begins with pages
 * that came with a state of one sequence; where the cache has the same
 * beginning already, its pages take the place of the state's. Ember
 * distinguishes models by their dimensions, keys and tensors' names, and by
 * some bytes of each tensor, not by all. Errors: EMBER_E_FORMAT for a damaged
 * state; EMBER_E_INVALID_ARGUMENT for one of another model, another kind of KV
 * cache, more sequences or longer ones than the context has;
 * EMBER_E_UNSUPPORTED for one of a later version, and for an encoder;
 * EMBER_E_CONTEXT_FULL when the KV cache has too few pages left; EMBER_E_NOMEM,
 * EMBER_E_BUSY.
 */
ember_status ember_context_state_load(
    struct ember_context *context,
    uint32_t sequence,
    const uint8_t *data,
    size_t len,
    struct ember_error **err);

/**
 * As ember_context_state_save, to the file `path`. Whatever fails (a full disk,
 * say), a file that was there before is as it was: the state is written beside
 * it and takes its place when it is whole and on disk. Its permissions stay,
 * and so does a symbolic link to it. A process that is killed meanwhile leaves
 * the file beside it (`.ember-` and more, `.tmp`), which goes when a state is
 * saved to `path` again. Errors: also EMBER_E_IO (a folder, pipe or device at
 * `path` too), EMBER_E_UTF8.
 */
ember_status ember_context_state_save_file(
    const struct ember_context *context,
    uint32_t sequence,
    const char *path,
    size_t path_len,
    struct ember_error **err);

/**
 * As ember_context_state_load, from the file `path`. Errors: also EMBER_E_IO,
 * EMBER_E_UTF8.
 */
ember_status ember_context_state_load_file(
    struct ember_context *context,
    uint32_t sequence,
    const char *path,
    size_t path_len,
    struct ember_error **err);

/**
 * As ember_context_state_save, to a callback, which gets the state part by
 * part; no copy of it is held. Errors: also EMBER_E_CANCELLED by the callback.
 */
ember_status ember_context_state_write(
    const struct ember_context *context,
    uint32_t sequence,
    ember_write_callback callback,
    void *user_data,
    struct ember_error **err);

/**
 * As ember_context_state_load, from a callback, which is called until it gives
 * no more. The state is held in memory until it is found to be whole. Errors:
 * also EMBER_E_CANCELLED by the callback, EMBER_E_INVALID_ARGUMENT when it
 * returns more bytes than it was asked for.
 */
ember_status ember_context_state_read(
    struct ember_context *context,
    uint32_t sequence,
    ember_read_callback callback,
    void *user_data,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Metadata of a model
 * ========================================================================== */

/**
 * @defgroup ember_metadata Metadata of a model
 * A model file has keys with values beside its weights: "general.name",
 * "llama.context_length" and so on. A key has a type, and one function for each
 * type reads it.
 *
 * @code{.c}
 * uint64_t n_ctx;
 * status = ember_model_meta_u64(model, "llama.context_length",
 *                               EMBER_NUL_TERMINATED, &n_ctx, &err);
 * @endcode
 * @{
 */

/** Writes the number of metadata keys to `out`. Any thread. */
ember_status ember_model_meta_count(
    const struct ember_model *model,
    size_t *out,
    struct ember_error **err);

/**
 * Writes key number `index` (in file order, without NUL) to `buffer` of
 * `capacity` bytes, and its length to `n_needed`. Any thread. Errors:
 * EMBER_E_NOT_FOUND, EMBER_E_BUFFER_TOO_SMALL.
 */
ember_status ember_model_meta_key(
    const struct ember_model *model,
    size_t index,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Writes the type of a key to `out`, numbered as in GGUF files: 0 uint8, 1
 * int8, 2 uint16, 3 int16, 4 uint32, 5 int32, 6 float32, 7 bool, 8 string, 9
 * array, 10 uint64, 11 int64, 12 float64. Any thread. Errors:
 * EMBER_E_NOT_FOUND.
 */
ember_status ember_model_meta_type(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    uint32_t *out,
    struct ember_error **err);

/**
 * Writes the string of a key (bytes as in the file, without NUL) to `buffer` of
 * `capacity` bytes, and its length to `n_needed`. Any thread. Errors:
 * EMBER_E_NOT_FOUND, EMBER_E_INVALID_ARGUMENT for a key of another type,
 * EMBER_E_BUFFER_TOO_SMALL.
 */
ember_status ember_model_meta_string(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Writes an integer key that fits 64 unsigned bits to `out`. Any thread.
 * Errors: EMBER_E_NOT_FOUND, EMBER_E_INVALID_ARGUMENT for a key of another type
 * or a value that does not fit.
 */
ember_status ember_model_meta_u64(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    uint64_t *out,
    struct ember_error **err);

/**
 * Writes an integer key that fits 64 signed bits to `out`. Any thread. Errors:
 * EMBER_E_NOT_FOUND, EMBER_E_INVALID_ARGUMENT for a key of another type or a
 * value that does not fit.
 */
ember_status ember_model_meta_i64(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    int64_t *out,
    struct ember_error **err);

/**
 * Writes a floating-point key to `out`. Any thread. Errors: EMBER_E_NOT_FOUND,
 * EMBER_E_INVALID_ARGUMENT for a key of another type.
 */
ember_status ember_model_meta_f64(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    double *out,
    struct ember_error **err);

/**
 * Writes a boolean key to `out`. Any thread. Errors: EMBER_E_NOT_FOUND,
 * EMBER_E_INVALID_ARGUMENT for a key of another type.
 */
ember_status ember_model_meta_bool(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    bool *out,
    struct ember_error **err);

/**
 * Writes the number of elements of an array to `n_elements`, and to
 * `element_type` their type, numbered as by ember_model_meta_type; 9 for an
 * array of arrays, whose elements cannot be read here. Any thread. Errors:
 * EMBER_E_NOT_FOUND, EMBER_E_INVALID_ARGUMENT for a key that is no array.
 */
ember_status ember_model_meta_array(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    uint32_t *element_type,
    size_t *n_elements,
    struct ember_error **err);

/**
 * Writes element `index` of an array of strings (bytes as in the file, without
 * NUL) to `buffer` of `capacity` bytes, and its length to `n_needed`. Any
 * thread. Errors: EMBER_E_NOT_FOUND for a key or an element that is not there,
 * EMBER_E_INVALID_ARGUMENT for a key of another type, EMBER_E_BUFFER_TOO_SMALL.
 */
ember_status ember_model_meta_array_string(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    size_t index,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Writes element `index` of an array of integers that fits 64 unsigned bits to
 * `out`. Any thread. Errors: EMBER_E_NOT_FOUND for a key or an element that is
 * not there, EMBER_E_INVALID_ARGUMENT for a key of another type or a value that
 * does not fit.
 */
ember_status ember_model_meta_array_u64(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    size_t index,
    uint64_t *out,
    struct ember_error **err);

/**
 * Writes element `index` of an array of integers that fits 64 signed bits to
 * `out`. Any thread. Errors: EMBER_E_NOT_FOUND for a key or an element that is
 * not there, EMBER_E_INVALID_ARGUMENT for a key of another type or a value that
 * does not fit.
 */
ember_status ember_model_meta_array_i64(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    size_t index,
    int64_t *out,
    struct ember_error **err);

/**
 * Writes element `index` of an array of floating-point numbers to `out`. Any
 * thread. Errors: EMBER_E_NOT_FOUND for a key or an element that is not there,
 * EMBER_E_INVALID_ARGUMENT for a key of another type.
 */
ember_status ember_model_meta_array_f64(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    size_t index,
    double *out,
    struct ember_error **err);

/**
 * Writes element `index` of an array of booleans to `out`. Any thread. Errors:
 * EMBER_E_NOT_FOUND for a key or an element that is not there,
 * EMBER_E_INVALID_ARGUMENT for a key of another type.
 */
ember_status ember_model_meta_array_bool(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    size_t index,
    bool *out,
    struct ember_error **err);

/** @} */

/* ==========================================================================
 * Memory
 * ========================================================================== */

/**
 * @defgroup ember_memory_use Memory
 * What a model and a context take, in bytes of their large buffers. The
 * estimate tells it before anything is loaded.
 *
 * @code{.c}
 * ember_memory memory = {.struct_size = sizeof memory};
 * status = ember_memory_estimate("model.gguf", EMBER_NUL_TERMINATED, NULL,
 *                                NULL, &memory, &err);
 * @endcode
 * @{
 */

/**
 * Bytes of the large buffers of a model and of a context. Tokenizer, metadata
 * and the library, a few megabytes, are not counted. Set struct_size to
 * sizeof(ember_memory) before the call.
 */
typedef struct ember_memory {
    /** Size of this struct as the caller knows it. */
    size_t struct_size;
    /**
     * The model's files. Where they are mapped the system reads, shares and
     * drops their pages as it sees fit, and needs none for the weights that are
     * packed.
     */
    uint64_t file;
    /**
     * The model's own memory: packed weights, the files where they are read and
     * not mapped, and the tensors of a Hugging Face folder that are copied
     * because they are laid out otherwise than in GGUF.
     */
    uint64_t weights;
    /**
     * The KV cache of the context when it is full; what is not filled yet takes
     * addresses and no memory.
     */
    uint64_t kv;
    /**
     * What the context computes with, and logits for one token of each of its
     * sequences; a call that wants more takes more.
     */
    uint64_t workspace;
} ember_memory;

/**
 * Writes to `out` what the model at `path` and one context over it would take,
 * without loading it: little more than the header is read. Both options may be
 * NULL for the defaults; limits in them do not count. With a limit of so many
 * bytes both can be made. Any thread. Errors: as ember_model_load and
 * ember_context_new, but for the lack of memory and for what "supported" of
 * ember_model_inspect does not look at.
 */
ember_status ember_memory_estimate(
    const char *path,
    size_t path_len,
    const struct ember_model_options *model_options,
    const struct ember_context_options *context_options,
    struct ember_memory *out,
    struct ember_error **err);

/**
 * Writes to `out` what the model takes; nothing of contexts. Any thread.
 * Errors: EMBER_E_INVALID_ARGUMENT.
 */
ember_status ember_model_memory(
    const struct ember_model *model,
    struct ember_memory *out,
    struct ember_error **err);

/**
 * Writes to `out` what the context takes, and its model. Errors:
 * EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 */
ember_status ember_context_memory(
    const struct ember_context *context,
    struct ember_memory *out,
    struct ember_error **err);

/** @} */

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EMBER_H */

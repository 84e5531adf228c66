/*
 * ember.h - Ember, CPU-first language-model inference as a C library.
 * Generated from the Rust sources by cbindgen; do not edit.
 *
 * The nouns:
 *  - An ember_model holds weights and a tokenizer. It never changes, and threads
 *    share it.
 *  - An ember_context runs tokens through a model and remembers them in
 *    sequences (KV cache). An ember_sampler chooses the next token.
 *  - An ember_generator makes text with both, event by event.
 *  - An ember_engine runs many generations together, for many threads.
 *  - An ember_cancel_token ends a call from any thread.
 *
 * Each noun has a section: an overview, an example, then all constants, structs
 * and functions of that noun.
 *
 * The comment of a function says what it does, what each parameter is, and then
 *  - Ownership: who frees what, and what Ember keeps. If it says nothing, Ember
 *    keeps no pointer that it was given after the call.
 *  - Threads: which threads may call it, and what one call at a time may use.
 *    A second call with the same handle then gives EMBER_E_BUSY, and does
 *    nothing.
 *  - Errors: the statuses that it gives, and for what. Any function that can
 *    fail may give EMBER_E_INVALID_ARGUMENT (NULL where an argument is needed,
 *    a freed or foreign handle), EMBER_E_NOMEM and EMBER_E_INTERNAL.
 *
 * Rules for every function here:
 *  - A function that can fail returns an ember_status. It writes outputs only
 *    when it returns EMBER_OK. The exception is n_needed, which it writes for
 *    EMBER_E_BUFFER_TOO_SMALL too.
 *  - err may be NULL. Otherwise *err receives NULL on success, or an error with
 *    a sentence that says what was wrong. Free it with ember_error_free.
 *    Whatever *err held before is overwritten, not freed.
 *  - The caller frees a handle with the _free (or _release) function of its own
 *    type, and with nothing else. A handle keeps alive what it needs, so handles
 *    may be freed in any order. Freeing NULL does nothing. Freed handles must
 *    not be used; where Ember can notice that, it is an error.
 *  - Ember frees nothing of the caller's, and the caller frees no text, array or
 *    struct that Ember gave: these belong to a handle.
 *  - A call that an ember_cancel_token ended gives EMBER_E_CANCELLED
 *    (generation: EMBER_FINISH_CANCELLED). What it worked on may be used again.
 *    Cancelling a token is all that a signal handler may do with Ember.
 *  - NULL where an argument is needed is an error. For text and arrays, NULL
 *    may stand with length 0. All other pointers must be valid for the lengths
 *    given, and what they point to unchanged while the call runs.
 *  - Text is UTF-8, given as pointer and length in bytes. EMBER_NUL_TERMINATED
 *    as length means "up to the NUL".
 *  - A function that fills a buffer takes its capacity. A first call with
 *    capacity 0 asks for the number of elements: it writes n_needed and returns
 *    EMBER_E_BUFFER_TOO_SMALL.
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
 *  - Ember changes no process state and prints nothing, with one exception: when
 *    a call meets a defect in Ember, Rust's message "thread '…' panicked at …"
 *    goes to standard error, and the call gives EMBER_E_INTERNAL.
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
 * them. The function that makes a handle writes it to its out parameter. The
 * caller frees a handle with the _free (or _release) function of its type. Text
 * is UTF-8 with a length in bytes.
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

/** A generation under way. One thread at a time. */
typedef struct ember_generator ember_generator;

/**
 * How to generate. Made with ember_generate_options_new, owned by the caller,
 * used by one thread at a time.
 */
typedef struct ember_generate_options ember_generate_options;

/** Several completions of one prompt under way. One thread at a time. */
typedef struct ember_completions ember_completions;

/**
 * An ordered chain of stages that narrow or reweigh the candidates, then one
 * random draw. One thread at a time.
 */
typedef struct ember_sampler ember_sampler;

/**
 * What a text has to follow, compiled for the tokens of a model. It does not
 * change, and many threads may use it at the same time.
 */
typedef struct ember_constraint ember_constraint;

/**
 * How to make a constraint. Made with ember_constraint_options_new, owned by
 * the caller, used by one thread at a time.
 */
typedef struct ember_constraint_options ember_constraint_options;

/**
 * Reads one reply of a model. Made with ember_chat_parser_new, owned by the
 * caller, used by one thread at a time.
 */
typedef struct ember_chat_parser ember_chat_parser;

/**
 * How a conversation becomes text. Made with ember_chat_options_new, owned by
 * the caller, used by one thread at a time.
 */
typedef struct ember_chat_options ember_chat_options;

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
 * A generation that an engine was asked for. One thread at a time takes its
 * events; any may cancel it.
 */
typedef struct ember_request ember_request;

/**
 * Many generations on one model: a queue of requests, and a context that runs
 * as many of them together as it may. Any number of threads may use it at the
 * same time.
 */
typedef struct ember_engine ember_engine;

/**
 * How to make an engine. Made with ember_engine_options_new, owned by the
 * caller, used by one thread at a time.
 */
typedef struct ember_engine_options ember_engine_options;

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

/**
 * As the length of a text, or of one of several texts: the text ends at its
 * first NUL byte. The value is the largest size_t, all bits set. On 64-bit
 * machines no double holds it: it becomes 2^64, which is no size_t, and a call
 * with it may read past the text and crash. So from a language whose numbers
 * are doubles pass lengths in bytes. Or pass the exact value: in JavaScript the
 * BigInt `0xffffffffffffffffn`, in LuaJIT `ffi.cast("size_t", -1)`.
 */
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

/** The first number of this header's version. */
#define EMBER_VERSION_MAJOR 0

/**
 * The second number of this header's version. A program needs a library of this
 * number or a higher one.
 */
#define EMBER_VERSION_MINOR 2

/** The third number of this header's version. */
#define EMBER_VERSION_PATCH 0

/**
 * Gives the version of the library at run time, for example "0.2.0".
 *
 * - Ownership: The text is static and never freed.
 * - Threads: Any thread, also several at the same time.
 *
 * @return the version, NUL-terminated, never NULL
 */
const char *ember_version_string(void);

/**
 * Says whether the library was built with an optional part. What needs a part
 * that is missing gives EMBER_E_UNSUPPORTED.
 *
 * @param name the part, UTF-8: "chat" (chat templates), "constraints", "hf"
 *   (Hugging Face folders), "tokenizers" (GGUF files whose text is normalized
 *   as BERT's or Qwen's); may be NULL if `name_len` is 0
 * @param name_len length of `name` in bytes, or EMBER_NUL_TERMINATED
 *
 * - Threads: Any thread, also several at the same time.
 *
 * @return 1 when the library has the part, 0 when it has not or does not know
 *   the name
 */
int32_t ember_has_feature(const char *name, size_t name_len);

/**
 * Describes the build in one line: version, architectures, number formats,
 * instruction sets that this machine can run (lowest first), target.
 *
 * - Ownership: The text is static and never freed.
 * - Threads: Any thread, also several at the same time.
 *
 * @return the line, NUL-terminated, never NULL
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
 * How a call went. A number, once released, is never reused for something else.
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
 * Gives the name of a status, for example "EMBER_E_IO".
 *
 * @param status an ember_status
 *
 * - Ownership: The text is static and never freed.
 * - Threads: Any thread, also several at the same time.
 *
 * @return the name, NUL-terminated; "unknown status" for a number that is no
 *   status
 */
const char *ember_status_name(int32_t status);

/**
 * Gives the status of an error.
 *
 * @param error the error; may be NULL
 *
 * - Threads: Any thread, also several at the same time.
 *
 * @return the status; EMBER_OK for NULL, EMBER_E_INVALID_ARGUMENT for a handle
 *   of another type
 */
ember_status ember_error_status(const struct ember_error *error);

/**
 * Gives the sentence of an error, which names the argument, file, key or tensor
 * that was wrong.
 *
 * @param error the error; may be NULL
 *
 * - Ownership: The text belongs to the error and lives as long.
 * - Threads: Any thread, also several at the same time.
 *
 * @return the sentence, NUL-terminated UTF-8; "" for NULL
 */
const char *ember_error_message(const struct ember_error *error);

/**
 * Frees an error.
 *
 * @param error the error; may be NULL
 *
 * - Threads: Any thread; no other call may use the error.
 */
void ember_error_free(struct ember_error *error);

/** @} */

/* ==========================================================================
 * Log
 * ========================================================================== */

/**
 * @defgroup ember_logging Log
 * Log lines go to a callback of the host's, whole and each with a level. Errors
 * of calls are not logged: the calls give them.
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
 * Receives one line of the log, on the thread whose call logs. It may call
 * Ember; lines that arise from such calls are dropped. It must return: no
 * exception of C++ may leave it, and no longjmp.
 *
 * @param level an ember_log_level
 * @param text the line, UTF-8 without a line end or NUL, valid until the
 *   callback returns
 * @param len length of `text` in bytes
 * @param user_data what was given with the callback
 */
typedef void (*ember_log_callback)(
    int32_t level,
    const char *text,
    size_t len,
    void *user_data);

/**
 * Sets the callback that receives log lines. One callback serves all models and
 * contexts of the process.
 *
 * @param callback receives each line; NULL makes the library silent again, as
 *   it is at the start
 * @param user_data handed to `callback` as it is; may be NULL
 * @param max_level an ember_log_level; lines above it are left out
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `user_data` must stay valid until another callback is set and
 *   the calls of other threads that were under way by then have returned.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT for an unknown level.
 *
 * @return EMBER_OK, or the status of the error
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
 * Makes a cancel token, which is not cancelled.
 *
 * @param out receives the token; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_cancel_token_free.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_cancel_token_new(
    struct ember_cancel_token **out,
    struct ember_error **err);

/**
 * Frees the handle of a cancel token. Nobody can then cancel what the token was
 * given to. What was given a cancelled token stays cancelled until another
 * token, or NULL, takes its place; reset the token first if that is not wanted.
 *
 * @param token the token; may be NULL
 *
 * - Ownership: What was given the token keeps what it needs of it, so freeing
 *   may come at any time.
 * - Threads: Any thread; no other call may use the handle.
 */
void ember_cancel_token_free(struct ember_cancel_token *token);

/**
 * Ends the calls that were given the token: those under way, and those to come
 * until ember_cancel_token_reset. A generation ends with
 * EMBER_FINISH_CANCELLED, all else with EMBER_E_CANCELLED. The calls look at
 * the token often and so return soon:
 *
 * - a forward pass before each task of a thread, within a layer too;
 * - encoding a text every thousand steps;
 * - loading and ember_memory_estimate at each tensor, at each half megabyte
 *   that is read or packed, and every few thousand elements of metadata and of
 *   the vocabulary.
 *
 * Some calls are short by other bounds, and no token ends them: rendering chat
 * templates, compiling constraints, saving and loading states, and the
 * functions of tokenizers. Cancelling does not wait for the other calls.
 *
 * @param token the token; NULL, or what is no token, is left alone
 *
 * - Threads: Any thread, and a signal handler too: all it does is one store to
 *   memory.
 */
void ember_cancel_token_cancel(const struct ember_cancel_token *token);

/**
 * Takes a cancellation back, so that new calls run.
 *
 * @param token the token; NULL, or what is no token, is left alone
 *
 * - Threads: Any thread, and a signal handler too.
 */
void ember_cancel_token_reset(const struct ember_cancel_token *token);

/**
 * Says whether a token is cancelled.
 *
 * @param token the token; may be NULL
 *
 * - Threads: Any thread, and a signal handler too.
 *
 * @return true when it is cancelled; false also for NULL and for what is no
 *   token
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
 * Takes back bytes that were lent (ember_model_load_borrowed). It runs on the
 * thread that gives the last of what uses them back.
 *
 * @param user_data what was given with the callback
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
     * after the pooling.
     */
    uint32_t n_embd_out;
    /**
     * Prompts for texts to be embedded, by their names
     * (ember_embed_options_set_prompt).
     */
    uint32_t n_prompts;
} ember_model_info;

/**
 * Receives how far a load is, on the thread that loads.
 *
 * @param done how much is done, from 0 to 1
 * @param user_data what was given with the callback
 *
 * @return 0 to go on; anything else ends the load with EMBER_E_CANCELLED
 */
typedef int32_t (*ember_progress_callback)(float done, void *user_data);

/**
 * Gives memory to Ember, all bytes zero. It runs on any thread, also on several
 * at the same time.
 *
 * @param size number of bytes
 * @param alignment a power of two that the address must be a multiple of; with
 *   another address the call fails with EMBER_E_INVALID_ARGUMENT
 * @param user_data what was given with the callback
 *
 * @return the address, or NULL when there is no memory left
 */
typedef void *(*ember_allocate_callback)(
    size_t size,
    size_t alignment,
    void *user_data);

/**
 * Takes back memory that an ember_allocate_callback gave. It runs on any
 * thread, also on several at the same time.
 *
 * @param block the address
 * @param size the number of bytes that was asked for
 * @param alignment the alignment that was asked for
 * @param user_data what was given with the callback
 */
typedef void (*ember_deallocate_callback)(
    void *block,
    size_t size,
    size_t alignment,
    void *user_data);

/**
 * Loads a model from a GGUF file or a Hugging Face folder.
 *
 * @param path a GGUF file, UTF-8; one of several (`NAME-00001-of-00003.gguf`,
 *   any of them), whose others lie in the same folder; or a folder with
 *   `config.json` and `model.safetensors`, or with several safetensors files
 *   and their index; not NULL
 * @param path_len length of `path` in bytes, or EMBER_NUL_TERMINATED
 * @param options how to load; NULL: the defaults
 * @param out receives the model with one reference; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller gives `*out` back with ember_model_release. `options`
 *   may be freed after the call.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_IO (missing, unreadable); EMBER_E_FORMAT (malformed);
 *   EMBER_E_UNSUPPORTED (an architecture, number format or tokenizer that this
 *   version does not know); EMBER_E_CANCELLED by the token of the options;
 *   EMBER_E_INVALID_ARGUMENT, also for an environment variable EMBER_ISA that
 *   names no level; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY. The error's
 *   sentence begins with the path and names the file, key or tensor that is
 *   wrong.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_load(
    const char *path,
    size_t path_len,
    const struct ember_model_options *options,
    struct ember_model **out,
    struct ember_error **err);

/**
 * Loads a GGUF file that is part of an open file. This is for files without a
 * path (Android assets, sandboxed documents) and for files stored in an archive
 * without compression.
 *
 * Windows has no descriptors that libraries share, and there is no function for
 * its handles. Load a file by its path there, or map it (MapViewOfFile) and
 * lend it with ember_model_load_borrowed.
 *
 * @param fd the descriptor of the open file; its position is neither used nor
 *   moved, so several threads may load from one
 * @param offset where the part begins, in bytes; where it is no multiple of 4
 *   the part is read into memory, not mapped
 * @param len length of the part in bytes; 0: up to the end of the file
 * @param options how to load; NULL: the defaults
 * @param out receives the model with one reference; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller gives `*out` back with ember_model_release. `options`
 *   may be freed after the call. Ember duplicates `fd`, which the caller may
 *   close after the call.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a part that is not inside the file;
 *   EMBER_E_UNSUPPORTED for one file of several, and on Windows and
 *   WebAssembly; else as ember_model_load. The error's sentence begins with
 *   `<fd N>`.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_load_fd(
    int32_t fd,
    uint64_t offset,
    uint64_t len,
    const struct ember_model_options *options,
    struct ember_model **out,
    struct ember_error **err);

/**
 * Loads a GGUF file that lies in memory, of which Ember keeps a copy.
 *
 * @param data the bytes of the file; not NULL
 * @param len number of bytes
 * @param options how to load; NULL: the defaults
 * @param out receives the model with one reference; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller gives `*out` back with ember_model_release. `options`
 *   may be freed after the call. `data` may be freed after the call.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: as ember_model_load. The error's sentence begins with `<buffer>`.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_load_buffer(
    const uint8_t *data,
    size_t len,
    const struct ember_model_options *options,
    struct ember_model **out,
    struct ember_error **err);

/**
 * Loads a GGUF file that lies in memory, without a copy of it. Ember copies an
 * address that is no multiple of 4 all the same, and releases it before the
 * call returns.
 *
 * @param data the bytes of the file; not NULL
 * @param len number of bytes
 * @param release called once, when the model and all that uses it are gone;
 *   NULL: the bytes stay for ever, as a constant of the program does
 * @param user_data handed to `release` as it is; may be NULL
 * @param options how to load; NULL: the defaults
 * @param out receives the model with one reference; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller gives `*out` back with ember_model_release. `options`
 *   may be freed after the call. On EMBER_OK the bytes at `data` must stay
 *   where and as they are until `release` is called. On an error Ember calls
 *   nothing, and the bytes are the caller's as before.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: as ember_model_load. The error's sentence begins with `<buffer>`.
 *
 * @return EMBER_OK, or the status of the error
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
 * Describes a model file as JSON, without reading its weights. The object has
 *
 * - "path", "file_size", "n_tensors", "n_params", "architecture", "name",
 *   "tokenizer";
 * - "chat_template": whether there is one;
 * - "types": tensors and bytes of each number format;
 * - "metadata": all keys;
 * - "supported": whether this build would load the file. If so, "dimensions"
 *   has n_vocab to n_ff, n_expert, n_expert_used and causal of
 *   ember_model_info. If not, "reason" is a sentence.
 *
 * Of a Hugging Face folder of a kind that Ember does not know the object has
 * "path", "architecture" (the model type), "tokenizer", "chat_template",
 * "supported" and "reason".
 *
 * Of an array of more than 16 elements, and of a string of more than 65,536
 * bytes, "metadata" has "type" and "length"; such an "architecture", "name" or
 * "tokenizer" is null. "supported" does not look at the numbers in tensors, the
 * texts of the vocabulary's tokens and merges, and a folder's tokenizer.json.
 *
 * @param path as for ember_model_load, UTF-8; not NULL
 * @param path_len length of `path` in bytes, or EMBER_NUL_TERMINATED
 * @param buffer receives a JSON object, UTF-8 without NUL; may be NULL if
 *   `capacity` is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: as ember_model_load for a file that cannot be read as a model at
 *   all, and for EMBER_ISA; EMBER_E_UNSUPPORTED in a build without the features
 *   "chat" and "hf"; EMBER_E_BUFFER_TOO_SMALL.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_inspect(
    const char *path,
    size_t path_len,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Adds a reference to a model.
 *
 * @param model the model; may be NULL
 *
 * - Ownership: The caller gives each reference back with ember_model_release.
 * - Threads: Any thread, also several at the same time.
 *
 * @return `model`, or NULL when it is not a model
 */
struct ember_model *ember_model_retain(struct ember_model *model);

/**
 * Gives a reference to a model back. The last one frees the model as soon as no
 * context uses it any more.
 *
 * @param model the model; may be NULL
 *
 * - Threads: Any thread, also several at the same time.
 */
void ember_model_release(struct ember_model *model);

/**
 * Writes the dimensions of a model.
 *
 * @param model the model; not NULL
 * @param out receives the dimensions; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_info_get(
    const struct ember_model *model,
    struct ember_model_info *out,
    struct ember_error **err);

/**
 * Names the instruction-set level that the model's contexts compute with, for
 * example "avx512". Contexts with EMBER_BACKEND_SCALAR do not use it.
 *
 * @param model the model; may be NULL
 *
 * - Ownership: The text is static and never freed.
 * - Threads: Any thread, also several at the same time.
 *
 * @return the name, NUL-terminated; NULL when `model` is not a model
 */
const char *ember_model_isa(const struct ember_model *model);

/**
 * Makes options for loading a model, with their defaults.
 *
 * @param out receives the options; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_model_options_free.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_new(
    struct ember_model_options **out,
    struct ember_error **err);

/**
 * Frees options. Models loaded with them stay as they are.
 *
 * @param options the options; may be NULL
 *
 * - Threads: Any thread; no other call may use the options.
 */
void ember_model_options_free(struct ember_model_options *options);

/**
 * Sets whether model files are mapped or read into memory. A mapped file must
 * not be changed or shortened while the model lives. If it is shortened all the
 * same:
 *
 * - Ember does not look at matrices that were packed again;
 * - calls that look up rows of embeddings that are gone give EMBER_E_IO;
 * - where other weights or keys are read, the operating system ends the process
 *   with SIGBUS.
 *
 * Set it to false for files that others may change. A mapped file stays open,
 * with a descriptor that a program started by exec does not get. The mapping
 * stays where the host closes that descriptor.
 *
 * @param options the options to change; not NULL
 * @param use_mmap true, the default: mapped; false: read
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_set_use_mmap(
    struct ember_model_options *options,
    bool use_mmap,
    struct ember_error **err);

/**
 * Lowers the instruction-set level of the model and its contexts. The
 * environment variable EMBER_ISA, read when a model is loaded, lowers the level
 * of every model of the process in the same way.
 *
 * @param options the options to change; not NULL
 * @param isa the highest level that may be used, for example "scalar" or "avx2"
 *   (ember_build_info lists those of this machine), UTF-8; one above them
 *   changes nothing; empty, the default: no limit; may be NULL if `isa_len` is
 *   0
 * @param isa_len length of `isa` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `isa`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a name that this build does not know;
 *   EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_set_isa(
    struct ember_model_options *options,
    const char *isa,
    size_t isa_len,
    struct ember_error **err);

/**
 * Sets which matrices are packed when a model is loaded. Packing changes no
 * result but those of F16 and BF16 weights, by roundings, and of
 * EMBER_PACK_ALWAYS where the instruction set has no products with packed rows.
 * Packed F16 and BF16 weights are multiplied as 16-bit integers where that is
 * faster (x86-64); with EMBER_PACK_NEVER they are multiplied in 32-bit floating
 * point.
 *
 * @param options the options to change; not NULL
 * @param pack an ember_pack
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_set_pack(
    struct ember_model_options *options,
    int32_t pack,
    struct ember_error **err);

/**
 * Sets the token that may end a load early, with EMBER_E_CANCELLED.
 *
 * @param options the options to change; not NULL
 * @param token the token; NULL, the default: none
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The options, and a load under way, keep what they need of
 *   `token`; the caller may free it.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_set_cancel_token(
    struct ember_model_options *options,
    const struct ember_cancel_token *token,
    struct ember_error **err);

/**
 * Sets whether the weights stay in memory, whatever else the system is short
 * of, as long as the model lives. Ember then reads what lies in mapped files at
 * once. Systems let a process lock little as a rule (`ulimit -l`); where that
 * is not enough, loading gives EMBER_E_NOMEM.
 *
 * @param options the options to change; not NULL
 * @param lock true: they stay; false, the default: the system may drop them
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_set_lock(
    struct ember_model_options *options,
    bool lock,
    struct ember_error **err);

/**
 * Sets whether loading looks at every number of every tensor. For one that is
 * not finite it gives EMBER_E_FORMAT and names tensor and element. Ember checks
 * sizes, types and positions in any case.
 *
 * @param options the options to change; not NULL
 * @param check_tensors true: it does, and reads the whole file; false, the
 *   default: it does not
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_set_check_tensors(
    struct ember_model_options *options,
    bool check_tensors,
    struct ember_error **err);

/**
 * Sets a callback that hears how far a load is, every few milliseconds or
 * megabytes.
 *
 * @param options the options to change; not NULL
 * @param callback receives the progress; NULL, the default: none
 * @param user_data handed to the callback as it is; may be NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `callback` and `user_data` must stay valid as long as the
 *   options, and as long as a load with them.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_set_progress(
    struct ember_model_options *options,
    ember_progress_callback callback,
    void *user_data,
    struct ember_error **err);

/**
 * Limits the memory of a model and all its contexts: packed weights, files that
 * are read or copied, KV caches, activations, logits. What would go beyond it
 * gives EMBER_E_NOMEM. Mapped files, tokenizer and metadata do not count.
 *
 * @param options the options to change; not NULL
 * @param bytes the most bytes of all large buffers together; 0, the default: no
 *   limit
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_set_memory_limit(
    struct ember_model_options *options,
    uint64_t bytes,
    struct ember_error **err);

/**
 * Has the large buffers of a model and its contexts come from the host.
 *
 * @param options the options to change; not NULL
 * @param allocate gives zeroed memory; may be NULL if `deallocate` is NULL: the
 *   system's, the default
 * @param deallocate takes the memory back; may be NULL if `allocate` is NULL
 * @param user_data handed to both callbacks as it is; may be NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The callbacks and `user_data` must stay valid until the model
 *   and all its contexts are gone. Any thread calls them.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for one callback without the other;
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_set_allocator(
    struct ember_model_options *options,
    ember_allocate_callback allocate,
    ember_deallocate_callback deallocate,
    void *user_data,
    struct ember_error **err);

/**
 * Loads a model as if its file had this integer for a key, whether it has the
 * key or not: to correct a wrong number. Ember checks a key that it reads as it
 * checks one of the file. A key that is set twice has the later value.
 *
 * @param options the options to change; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param value the integer
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `key`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for an empty key; EMBER_E_UTF8,
 *   EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_set_meta_i64(
    struct ember_model_options *options,
    const char *key,
    size_t key_len,
    int64_t value,
    struct ember_error **err);

/**
 * Loads a model as if its file had this floating-point number for a key; see
 * ember_model_options_set_meta_i64.
 *
 * @param options the options to change; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param value the number
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `key`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for an empty key; EMBER_E_UTF8,
 *   EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_set_meta_f64(
    struct ember_model_options *options,
    const char *key,
    size_t key_len,
    double value,
    struct ember_error **err);

/**
 * Loads a model as if its file had this boolean for a key; see
 * ember_model_options_set_meta_i64.
 *
 * @param options the options to change; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param value the boolean
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `key`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for an empty key; EMBER_E_UTF8,
 *   EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_set_meta_bool(
    struct ember_model_options *options,
    const char *key,
    size_t key_len,
    bool value,
    struct ember_error **err);

/**
 * Loads a model as if its file had this text for a key; see
 * ember_model_options_set_meta_i64.
 *
 * @param options the options to change; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param value the text, UTF-8; may be NULL if `value_len` is 0
 * @param value_len length of `value` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `key` and `value`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for an empty key; EMBER_E_UTF8,
 *   EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_options_set_meta_string(
    struct ember_model_options *options,
    const char *key,
    size_t key_len,
    const char *value,
    size_t value_len,
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
     * 1 when a text gets a token (EOS as a rule) put after it where that is
     * asked for, else 0.
     */
    uint32_t add_eos;
    /** 1 when there is a chat template, else 0. */
    uint32_t has_chat_template;
    /** Fill-in-the-middle: the token that precedes the text before a gap. */
    uint32_t fim_prefix_token;
    /** The token that precedes the text after a gap. */
    uint32_t fim_suffix_token;
    /** The token that precedes the text that fills a gap. */
    uint32_t fim_middle_token;
    /** The token before the name of a repository. */
    uint32_t fim_repository_token;
    /** The token before the name of a file. */
    uint32_t fim_file_token;
} ember_tokenizer_info;

/**
 * Loads a tokenizer without a model.
 *
 * @param path a GGUF file, whose tensors are not looked at, or a Hugging Face
 *   folder with a `tokenizer.json`, which need not hold a model. Or a
 *   `tokenizer.json`, read with the files beside it; a JSON file of another
 *   name is taken alone; not NULL
 * @param path_len length of `path` in bytes, or EMBER_NUL_TERMINATED
 * @param out receives the tokenizer with one reference; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller gives `*out` back with ember_tokenizer_release.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_IO (missing, unreadable); EMBER_E_FORMAT (malformed);
 *   EMBER_E_UNSUPPORTED (a kind of vocabulary that this version does not know,
 *   or a file without one); EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8,
 *   EMBER_E_NOMEM. The error's sentence begins with the path.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_tokenizer_load(
    const char *path,
    size_t path_len,
    struct ember_tokenizer **out,
    struct ember_error **err);

/**
 * Loads a tokenizer from bytes in memory, without a model.
 *
 * @param data a GGUF file, or a `tokenizer.json` alone; not NULL
 * @param len number of bytes
 * @param out receives the tokenizer with one reference; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller gives `*out` back with ember_tokenizer_release.
 *   `data` may be freed after the call.
 * - Threads: Any thread, also several at the same time.
 * - Errors: as ember_tokenizer_load. The error's sentence begins with
 *   `<buffer>`.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_tokenizer_load_buffer(
    const uint8_t *data,
    size_t len,
    struct ember_tokenizer **out,
    struct ember_error **err);

/**
 * Adds a reference to a tokenizer.
 *
 * @param tokenizer the tokenizer; may be NULL
 *
 * - Ownership: The caller gives each reference back with
 *   ember_tokenizer_release.
 * - Threads: Any thread, also several at the same time.
 *
 * @return `tokenizer`, or NULL when it is not a tokenizer
 */
struct ember_tokenizer *ember_tokenizer_retain(
    struct ember_tokenizer *tokenizer);

/**
 * Gives a reference to a tokenizer back. The last one frees the tokenizer,
 * unless a model has it too.
 *
 * @param tokenizer the tokenizer; may be NULL
 *
 * - Threads: Any thread, also several at the same time.
 */
void ember_tokenizer_release(struct ember_tokenizer *tokenizer);

/**
 * Writes what is known of a tokenizer's tokens.
 *
 * @param tokenizer the tokenizer; not NULL
 * @param out receives the token ids and counts; set its struct_size first; not
 *   NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_tokenizer_info_get(
    const struct ember_tokenizer *tokenizer,
    struct ember_tokenizer_info *out,
    struct ember_error **err);

/**
 * Makes token ids of text.
 *
 * @param tokenizer the tokenizer; not NULL
 * @param text the text, UTF-8; may be NULL if `text_len` is 0
 * @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
 * @param add_special whether to add the BOS and EOS tokens that the file asks
 *   for
 * @param parse_special whether the text of a control token ("<|im_start|>")
 *   stands for that token; false: it is plain text, as is right for what users
 *   type
 * @param tokens receives the token ids; may be NULL if `capacity` is 0
 * @param capacity tokens that `tokens` can take; 0 to ask for the number
 * @param n_needed receives how many tokens there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_UNSUPPORTED for a text that a part of the tokenizer fails
 *   on; EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL,
 *   EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
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
 * Makes token ids of bytes that need not be UTF-8, as
 * ember_model_tokenize_bytes does.
 *
 * @param tokenizer the tokenizer; not NULL
 * @param bytes the bytes; may be NULL if `len` is 0
 * @param len number of bytes
 * @param add_special whether to add the BOS and EOS tokens that the file asks
 *   for
 * @param parse_special whether the text of a control token stands for that
 *   token
 * @param tokens receives the token ids; may be NULL if `capacity` is 0
 * @param capacity tokens that `tokens` can take; 0 to ask for the number
 * @param n_needed receives how many tokens there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_UNSUPPORTED for a text that a part of the tokenizer fails
 *   on; EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
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
 * Counts the tokens that ember_tokenizer_tokenize would give for a text.
 *
 * @param tokenizer the tokenizer; not NULL
 * @param text the text, UTF-8; may be NULL if `text_len` is 0
 * @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
 * @param add_special whether to count the BOS and EOS tokens that the file asks
 *   for
 * @param parse_special whether the text of a control token stands for that
 *   token
 * @param out receives the number of tokens; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_UNSUPPORTED for a text that a part of the tokenizer fails
 *   on; EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
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
 * Makes text of token ids. The tokens are taken for the beginning of a text: a
 * space that tokenizing puts before one goes again.
 *
 * @param tokenizer the tokenizer; not NULL
 * @param tokens the token ids; may be NULL if `n_tokens` is 0
 * @param n_tokens number of `tokens`
 * @param render_special whether control tokens appear as their text; false:
 *   they are left out
 * @param buffer receives the bytes, without NUL; no whole UTF-8 where the
 *   tokens begin or end inside a code point; may be NULL if `capacity` is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist;
 *   EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
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
 * Writes the exact bytes of a token: those it stands for, or the text of a
 * control token.
 *
 * @param tokenizer the tokenizer; not NULL
 * @param token the token id
 * @param buffer receives the bytes, without NUL, perhaps a part of a code
 *   point; may be NULL if `capacity` is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist;
 *   EMBER_E_BUFFER_TOO_SMALL.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_tokenizer_token_bytes(
    const struct ember_tokenizer *tokenizer,
    uint32_t token,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Says whether a token is a control token, such as BOS or the marks of a chat's
 * turns, which stands for no text.
 *
 * @param tokenizer the tokenizer; not NULL
 * @param token the token id
 * @param out receives the answer; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_tokenizer_token_is_control(
    const struct ember_tokenizer *tokenizer,
    uint32_t token,
    bool *out,
    struct ember_error **err);

/**
 * Says whether a token ends a generation (end of sequence, of turn, of
 * message).
 *
 * @param tokenizer the tokenizer; not NULL
 * @param token the token id
 * @param out receives the answer; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_tokenizer_token_is_eog(
    const struct ember_tokenizer *tokenizer,
    uint32_t token,
    bool *out,
    struct ember_error **err);

/**
 * Gives the tokenizer of a model. It is the model's own, not a copy, and may
 * outlive the model.
 *
 * @param model the model; not NULL
 * @param out receives the tokenizer with one reference; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller gives `*out` back with ember_tokenizer_release.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_UNSUPPORTED for a model without a tokenizer;
 *   EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_tokenizer(
    const struct ember_model *model,
    struct ember_tokenizer **out,
    struct ember_error **err);

/**
 * Makes token ids of text.
 *
 * @param model the model; not NULL
 * @param text the text, UTF-8; may be NULL if `text_len` is 0
 * @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
 * @param add_special whether to add the BOS and EOS tokens that the file asks
 *   for
 * @param parse_special whether the text of a control token ("<|im_start|>")
 *   stands for that token; false: it is plain text, as is right for what users
 *   type
 * @param tokens receives the token ids; may be NULL if `capacity` is 0
 * @param capacity tokens that `tokens` can take; 0 to ask for the number
 * @param n_needed receives how many tokens there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_UNSUPPORTED for a model without a tokenizer;
 *   EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL,
 *   EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
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
 * Makes token ids of bytes that need not be UTF-8. Valid stretches are taken as
 * text. The bytes between them become byte tokens, or the unknown token where
 * the vocabulary has none. A vocabulary of bytes that lacks some, as SmolLM2's
 * lacks twenty, leaves these out, in valid text too, as the model's own
 * tokenizer does.
 *
 * @param model the model; not NULL
 * @param bytes the bytes; may be NULL if `len` is 0
 * @param len number of bytes
 * @param add_special whether to add the BOS and EOS tokens that the file asks
 *   for
 * @param parse_special whether the text of a control token stands for that
 *   token
 * @param tokens receives the token ids; may be NULL if `capacity` is 0
 * @param capacity tokens that `tokens` can take; 0 to ask for the number
 * @param n_needed receives how many tokens there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_UNSUPPORTED for a model without a tokenizer;
 *   EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
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
 * Makes text of token ids. The tokens are taken for the beginning of a text: a
 * space that tokenizing puts before one goes again. ember_model_token_bytes,
 * and the bytes of events, keep it.
 *
 * @param model the model; not NULL
 * @param tokens the token ids; may be NULL if `n_tokens` is 0
 * @param n_tokens number of `tokens`
 * @param render_special whether control tokens appear as their text; false:
 *   they are left out
 * @param buffer receives the bytes, without NUL; no whole UTF-8 where the
 *   tokens begin or end inside a code point; may be NULL if `capacity` is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist;
 *   EMBER_E_UNSUPPORTED for a model without a tokenizer;
 *   EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
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
 * Writes the exact bytes that a token stands for.
 *
 * @param model the model; not NULL
 * @param token the token id
 * @param buffer receives the bytes, without NUL, perhaps a part of a code
 *   point; may be NULL if `capacity` is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist;
 *   EMBER_E_UNSUPPORTED for a model without a tokenizer;
 *   EMBER_E_BUFFER_TOO_SMALL.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_token_bytes(
    const struct ember_model *model,
    uint32_t token,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Says whether a token is a control token, such as BOS or the marks of a chat's
 * turns, which stands for no text.
 *
 * @param model the model; not NULL
 * @param token the token id
 * @param out receives the answer; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist;
 *   EMBER_E_UNSUPPORTED for a model without a tokenizer.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_token_is_control(
    const struct ember_model *model,
    uint32_t token,
    bool *out,
    struct ember_error **err);

/**
 * Says whether a token ends a generation (end of sequence, of turn, of
 * message).
 *
 * @param model the model; not NULL
 * @param token the token id
 * @param out receives the answer; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist;
 *   EMBER_E_UNSUPPORTED for a model without a tokenizer.
 *
 * @return EMBER_OK, or the status of the error
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
     * 16-bit integers times a power of two for each head's key or value of a
     * token: about as exact as binary16, four bytes more for each, and
     * multiplied as integers, which is faster on x86-64. The length of the
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
 * Makes a context over a model.
 *
 * @param model the model; not NULL
 * @param options how to make it; NULL: the defaults
 * @param out receives the context; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_context_free. `options` may
 *   be freed after the call. The context keeps the model alive.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for options that contradict the model, or
 *   a CPU that may not be used; EMBER_E_UNSUPPORTED for CPUs where the system
 *   cannot bind threads; EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_new(
    const struct ember_model *model,
    const struct ember_context_options *options,
    struct ember_context **out,
    struct ember_error **err);

/**
 * Frees a context.
 *
 * @param context the context; may be NULL
 *
 * - Ownership: A generator, completions or a conversation made with the context
 *   keep what they need of it.
 * - Threads: Any thread. While a call is using the context (from that call's
 *   callback, or on another thread) it is not freed, and the log says so: free
 *   it afterwards.
 */
void ember_context_free(struct ember_context *context);

/**
 * Runs tokens through the model and puts them at the end of their sequences. On
 * any error the sequences are as before.
 *
 * @param context the context; not NULL
 * @param tokens the token ids; not NULL
 * @param positions the place of each token, checked against the end of its
 *   sequence; NULL: not checked
 * @param sequences the sequence of each token; NULL: all in sequence 0
 * @param want_logits non-zero for each token whose logits are wanted; NULL: for
 *   the last token only
 * @param n number of tokens, and of elements of each array that is given; at
 *   least 1
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token, position or sequence out of
 *   range, and for a context with threads that the parent process made before
 *   fork(); EMBER_E_CONTEXT_FULL when a sequence is full or no page is left;
 *   EMBER_E_UNSUPPORTED for an encoder, which has embeddings only;
 *   EMBER_E_CANCELLED by the context's token; EMBER_E_IO when the model's file
 *   can no longer be read (ember_model_options_set_use_mmap); EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
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
 * Gives the logits of a token of the last ember_context_decode. After
 * ember_context_state_load, `index` counts the sequences of the state that have
 * logits. After ember_generate and ember_generator_next it means nothing.
 *
 * @param context the context; not NULL
 * @param index number of the token in that call, from 0
 * @param out receives the address of n_vocab floats (ember_model_info); not
 *   NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The logits belong to the context. They stay until its next
 *   decode, generate, score, rewind, sequence_reuse, state_load or free.
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_NOT_FOUND when nothing was decoded yet, when the token does
 *   not exist or did not ask for logits, and when the logits are gone;
 *   EMBER_E_UNSUPPORTED for an encoder; EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_logits(
    const struct ember_context *context,
    size_t index,
    const float **out,
    struct ember_error **err);

/**
 * Counts the tokens of a sequence. The number is the position of its next
 * token.
 *
 * @param context the context; not NULL
 * @param sequence number of the sequence, from 0
 * @param out receives the number of tokens; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a sequence that does not exist;
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_n_past(
    const struct ember_context *context,
    uint32_t sequence,
    uint32_t *out,
    struct ember_error **err);

/**
 * Writes the tokens of a sequence, in order. They are those that decoding,
 * generating and loading a state put there; after a shift, those that are left.
 *
 * @param context the context; not NULL
 * @param sequence number of the sequence, from 0
 * @param tokens receives the token ids; may be NULL if `capacity` is 0
 * @param capacity tokens that `tokens` can take; 0 to ask for the number
 * @param n_needed receives how many tokens there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a sequence that does not exist;
 *   EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_tokens(
    const struct ember_context *context,
    uint32_t sequence,
    uint32_t *tokens,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Forgets the end of a sequence. The logits of the last decode are gone.
 *
 * @param context the context; not NULL
 * @param sequence number of the sequence, from 0
 * @param n_past how many tokens stay, from the first on; 0 empties the sequence
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist or is
 *   shorter, or has given back what its next token would see
 *   (ember_context_options_set_keep_all_positions); EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_rewind(
    struct ember_context *context,
    uint32_t sequence,
    uint32_t n_past,
    struct ember_error **err);

/**
 * Copies the beginning of a sequence into another, for several answers to one
 * prompt. The two share the memory of the KV cache until they differ, so this
 * costs next to nothing. If the logits after the last of these tokens are
 * there, `to` has them too, and an empty prompt goes on from there.
 *
 * @param context the context; not NULL
 * @param from number of the sequence to copy from
 * @param to number of the sequence to copy into; what it held is gone
 * @param n_tokens how many tokens to copy, from the first on
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT when a sequence does not exist, `from` is
 *   shorter, both are the same, or `from` has given back what the next token
 *   would see (ember_context_options_set_keep_all_positions); EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_sequence_copy(
    struct ember_context *context,
    uint32_t from,
    uint32_t to,
    uint32_t n_tokens,
    struct ember_error **err);

/**
 * Makes a sequence as much of the beginning of a text as the KV cache has
 * already. That is what the sequence itself has of it, or whole pages that were
 * kept of other texts, if that is more
 * (ember_context_options_set_keep_prefixes). Decode the rest then. A sequence
 * that has given back what its next token would see
 * (ember_context_options_set_keep_all_positions) reuses nothing of its own.
 *
 * @param context the context; not NULL
 * @param sequence number of the sequence, from 0
 * @param tokens the token ids of the text; may be NULL if `n` is 0
 * @param n number of `tokens`
 * @param most the most tokens to reuse; leave one token at least to decode, for
 *   its logits
 * @param n_reused receives how many tokens the sequence has now; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist;
 *   EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
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
 * Forgets tokens within a sequence, where a text has become too long. The
 * tokens after them move forward, and their keys in the KV cache are re-rotated
 * to the new positions, which takes about as long as reading them. What was
 * computed from the forgotten tokens stays in what follows: this is cheaper
 * than running the rest anew, and not quite the same. Each shift rounds the
 * moved keys once more. The logits after the last token stay, unless it is
 * forgotten. Prefixes that are kept (ember_context_options_set_keep_prefixes)
 * never have moved tokens.
 *
 * @param context the context; not NULL
 * @param sequence number of the sequence, from 0
 * @param n_keep how many tokens stay at the beginning
 * @param n_drop how many tokens after these are forgotten
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist or is
 *   shorter, or the first `n_keep` tokens would see again what was given back
 *   (ember_context_options_set_keep_all_positions); EMBER_E_UNSUPPORTED for a
 *   model with learned positions (GPT-2) or recurrent layers (LFM2, Qwen 3.5)
 *   and for an encoder; EMBER_E_CONTEXT_FULL when the KV cache has too few
 *   pages to copy those that other sequences have too; EMBER_E_NOMEM;
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_sequence_shift(
    struct ember_context *context,
    uint32_t sequence,
    uint32_t n_keep,
    uint32_t n_drop,
    struct ember_error **err);

/**
 * Empties all sequences but one. (ember_context_rewind to 0 empties one.)
 *
 * @param context the context; not NULL
 * @param sequence number of the sequence that stays
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist;
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_sequence_keep(
    struct ember_context *context,
    uint32_t sequence,
    struct ember_error **err);

/**
 * Sets the token that may end the context's calls early from now on. Decoding,
 * embedding and scoring then give EMBER_E_CANCELLED, and a generation ends with
 * EMBER_FINISH_CANCELLED. Sequences stay as they were, except for what scoring
 * lets its sequence forget. The logits of the call before are gone.
 *
 * @param context the context; not NULL
 * @param token the token; NULL: none
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The context keeps what it needs of `token`; the caller may free
 *   it.
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_set_cancel_token(
    struct ember_context *context,
    const struct ember_cancel_token *token,
    struct ember_error **err);

/**
 * Writes the options in force in a context.
 *
 * @param context the context; not NULL
 * @param out receives them; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_info_get(
    const struct ember_context *context,
    struct ember_context_info *out,
    struct ember_error **err);

/**
 * Writes what a context has done, and how long it took.
 *
 * @param context the context; not NULL
 * @param out receives the counters; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_timings_get(
    const struct ember_context *context,
    struct ember_timings *out,
    struct ember_error **err);

/**
 * Sets the counters of a context to 0; load_ns stays.
 *
 * @param context the context; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_timings_reset(
    struct ember_context *context,
    struct ember_error **err);

/**
 * Makes options for a context, with their defaults.
 *
 * @param out receives the options; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_context_options_free.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_new(
    struct ember_context_options **out,
    struct ember_error **err);

/**
 * Frees options. Contexts made with them stay as they are.
 *
 * @param options the options; may be NULL
 *
 * - Threads: Any thread; no other call may use the options.
 */
void ember_context_options_free(struct ember_context_options *options);

/**
 * Sets how many positions each sequence has.
 *
 * @param options the options to change; not NULL
 * @param n_ctx tokens per sequence, 2147483647 at most; 0, the default: what
 *   the model was trained on, but no more than 4096
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_n_ctx(
    struct ember_context_options *options,
    uint32_t n_ctx,
    struct ember_error **err);

/**
 * Sets how many sequences a context has.
 *
 * @param options the options to change; not NULL
 * @param n_seq 1 to 4096; default: 1
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_n_seq(
    struct ember_context_options *options,
    uint32_t n_seq,
    struct ember_error **err);

/**
 * Sets how many rows run through the model at a time; longer calls are cut.
 * More is faster and takes more memory. It is never more than n_ctx times
 * n_seq.
 *
 * @param options the options to change; not NULL
 * @param n_batch rows, 65536 at most; 0, the default: 256, and for an encoder,
 *   which must see a text as a whole, n_ctx where that is more, up to 65536
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_n_batch(
    struct ember_context_options *options,
    uint32_t n_batch,
    struct ember_error **err);

/**
 * Sets how many threads compute. Results do not depend on it. When the contexts
 * at work in a process have more threads than it has CPUs, some of their
 * threads sleep.
 *
 * @param options the options to change; not NULL
 * @param n_threads threads, the calling one included, 512 at most; 0, the
 *   default: one for each core that the process may use (by its affinity mask
 *   and cgroup quota, or by ember_context_options_set_worker_cpus), of
 *   performance cores only where there are slower ones too
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_n_threads(
    struct ember_context_options *options,
    uint32_t n_threads,
    struct ember_error **err);

/**
 * Binds the threads that a context makes to CPUs. The calling thread, which
 * works too, is never bound; bind it yourself if you want that. Whether the
 * process may use each of these CPUs, and whether the system can bind threads
 * at all (Linux and Android can), shows when a context is made.
 *
 * @param options the options to change; not NULL
 * @param cpus the system's numbers of the CPUs, each below 8192; one may come
 *   twice; may be NULL if `n` is 0
 * @param n number of `cpus`; 0, the default: the system chooses
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `cpus`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_worker_cpus(
    struct ember_context_options *options,
    const uint32_t *cpus,
    size_t n,
    struct ember_error **err);

/**
 * Sets what keys and values in the KV cache are rounded to. The cache of an
 * encoder, which holds one layer at a time, is float32 all the same. Whether
 * the type fits the model shows when a context is made.
 *
 * @param options the options to change; not NULL
 * @param kv_type an ember_kv_type; default: EMBER_KV_AUTO
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_kv_type(
    struct ember_context_options *options,
    int32_t kv_type,
    struct ember_error **err);

/**
 * Sets what keys in the KV cache are rounded to; see
 * ember_context_options_set_kv_type.
 *
 * @param options the options to change; not NULL
 * @param k_type an ember_kv_type; default: EMBER_KV_AUTO
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_k_type(
    struct ember_context_options *options,
    int32_t k_type,
    struct ember_error **err);

/**
 * Sets what values in the KV cache are rounded to; see
 * ember_context_options_set_kv_type. A model whose values are parts of its keys
 * (latent attention, as in DeepSeek) keeps no others, and refuses another type
 * than that of keys.
 *
 * @param options the options to change; not NULL
 * @param v_type an ember_kv_type; default: EMBER_KV_AUTO
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_v_type(
    struct ember_context_options *options,
    int32_t v_type,
    struct ember_error **err);

/**
 * Sets the implementation of the mathematics.
 *
 * @param options the options to change; not NULL
 * @param backend an ember_backend; default: EMBER_BACKEND_AUTO
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_backend(
    struct ember_context_options *options,
    int32_t backend,
    struct ember_error **err);

/**
 * Limits the KV cache, whose pages all sequences share. When no page is left,
 * what would need one gives EMBER_E_CONTEXT_FULL and leaves every sequence as
 * it was; rewind one, then. Making a context gives EMBER_E_INVALID_ARGUMENT for
 * less than one page.
 *
 * @param options the options to change; not NULL
 * @param bytes the most bytes of the cache; 0, the default: as many as all
 *   sequences need at full length, or at the same time where they give pages
 *   back (ember_context_options_set_keep_all_positions)
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_kv_limit(
    struct ember_context_options *options,
    uint64_t bytes,
    struct ember_error **err);

/**
 * Sets whether whole pages of the KV cache are kept when no sequence has them
 * any more, until the pages are needed. Texts that begin alike (with the same
 * instructions, say) are then not computed again. ember_context_sequence_reuse
 * finds such pages, and so does a generation with
 * ember_generate_options_set_reuse_prefix.
 *
 * @param options the options to change; not NULL
 * @param keep_prefixes true: they are kept; false, the default: they are given
 *   back
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_keep_prefixes(
    struct ember_context_options *options,
    bool keep_prefixes,
    struct ember_error **err);

/**
 * Sets whether sequences keep all their positions in layers with a window (all
 * of Mistral 0.1 and Phi-3 mini, some of Gemma 2 to 4 and gpt-oss). By default
 * a growing sequence gives back the memory that no later token sees: a long
 * text then takes about as much memory in these layers as its last tokens,
 * those of a window and of a batch. All n_ctx positions can be used, and the
 * numbers are the same. But a sequence cannot be cut (ember_context_rewind,
 * ember_context_sequence_copy) where a window would reach back to what is gone.
 * It can be cut within its last 32 tokens, and to nothing. Unless the pages
 * were needed since, it can also be cut at the end of the last call with
 * several tokens, which is the last prompt as a rule.
 *
 * @param options the options to change; not NULL
 * @param keep_all_positions true: all are kept; false, the default: those that
 *   no later token sees are given back
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_keep_all_positions(
    struct ember_context_options *options,
    bool keep_all_positions,
    struct ember_error **err);

/**
 * Sets how many snapshots of recurrent states a context can hold, in models
 * with recurrent layers (LFM2, Qwen 3.5). Such a layer keeps one state of a
 * sequence, which cannot be taken back by a few tokens. So a sequence that is
 * shortened goes on from its nearest snapshot, and what lies between is run
 * once more (`n_replay` of ember_timings). Ember takes snapshots at the ends of
 * prompts and answers, and within prompts. A new one replaces the one that was
 * unused for the longest time. As many draft tokens can be checked at a time as
 * there are snapshots.
 *
 * @param options the options to change; not NULL
 * @param n_snapshots snapshots, 65536 at most, each of the size of a state,
 *   which counts as part of the KV cache; 0, the default: 8 for each sequence,
 *   but no more than 64
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for more than 65536; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_n_snapshots(
    struct ember_context_options *options,
    uint32_t n_snapshots,
    struct ember_error **err);

/**
 * Sets how many tokens lie between two snapshots of recurrent states within a
 * prompt. In a long prompt they are further apart, so that it takes no more
 * than half of all snapshots.
 *
 * @param options the options to change; not NULL
 * @param n_tokens tokens, rounded up to whole pages (page_len of
 *   ember_context_info); 0, the default: 256
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_snapshot_distance(
    struct ember_context_options *options,
    uint32_t n_tokens,
    struct ember_error **err);

/**
 * Limits the large buffers of a context: KV cache, activations, logits. A limit
 * of the model (ember_model_options_set_memory_limit) counts as well.
 *
 * @param options the options to change; not NULL
 * @param bytes the most bytes of these buffers; 0, the default: no limit of its
 *   own
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_options_set_memory_limit(
    struct ember_context_options *options,
    uint64_t bytes,
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
 * Receives an event of a generation. It runs on the calling thread; with an
 * engine, on the thread that does the step. It must return: an exception of C++
 * that leaves it, or a longjmp out of it, is undefined behaviour, since the
 * library has no way to clean up. Catch everything inside, keep it in
 * `user_data`, and return 1.
 *
 * @param event the event, valid until the callback returns
 * @param user_data what was given with the callback
 *
 * @return 0 to go on; anything else ends the generation, and no more events
 *   come
 */
typedef int32_t (*ember_event_callback)(
    const struct ember_event *event,
    void *user_data);

/**
 * Generates text after a prompt, and hands each event to a callback.
 *
 * **A prompt made by ember_chat_apply_template needs
 * ember_generate_options_set_parse_special.** Without it the template's marks
 * are plain text to the model, and the answer is poor without an error.
 * ember_chat_tokenize with ember_generate_tokens, and ember_conversation_send,
 * have no such trap.
 *
 * An empty sequence begins with the special tokens that the file asks for
 * (BOS). A sequence that holds tokens gets none before the prompt. The space
 * that texts of some models begin with is there where the whole text would have
 * it: at the start and after a special token, never after text.
 *
 * Afterwards the sequence holds the prompt and the generated tokens, without an
 * end-of-generation token. The next call goes on from there, and an empty
 * prompt continues the text itself if nothing else was decoded in between.
 * ember_context_rewind starts anew; ember_generate_options_set_reuse_prefix
 * takes the prompt for the whole text.
 *
 * A callback that ends the generation at EMBER_EVENT_ECHO leaves the sequence
 * without the prompt. EMBER_FINISH_CANCELLED leaves it with what was run by
 * then (ember_context_n_past gives the number):
 *
 * - nothing of the prompt where that was not run to its end; with reuse_prefix
 *   perhaps what both have in common;
 * - all but the last token where that was to be run;
 * - all where a stage of the sampler ended the choice of the next token.
 *
 * The sampler accepts the tokens of the prompt (ember_sampler_accept) and each
 * token that is generated: penalties count them all. With reuse_prefix the
 * prompt takes the place of all that was accepted before. ember_generator_new
 * is the same generation in pull form.
 *
 * @param context the context; not NULL
 * @param prompt the prompt, UTF-8; empty: continue what the sequence holds; may
 *   be NULL if `prompt_len` is 0
 * @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
 * @param options how to generate; NULL: the defaults
 * @param sampler chooses the tokens; NULL: greedy
 * @param callback receives each event, on the calling thread; not NULL
 * @param user_data handed to the callback as it is; may be NULL
 * @param out_result receives what the generation did; set its struct_size
 *   first; NULL: not wanted
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `options` may be freed after the call.
 * - Threads: Any thread; one call at a time for `context` and `sampler`, a
 *   second gives EMBER_E_BUSY, from the callback too. Freeing either in the
 *   callback does nothing but write a line to the log.
 * - Errors: EMBER_E_CONTEXT_FULL when the prompt does not fit (the sequence is
 *   as before, but for what reuse_prefix lets it forget), or when the pages of
 *   the KV cache are used up later (what was run stays); EMBER_E_UNSUPPORTED
 *   for an encoder or a model without a tokenizer; EMBER_E_INVALID_ARGUMENT,
 *   EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY. A cancel token is no error:
 *   finish_reason says so.
 *
 * @return EMBER_OK, or the status of the error
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
 * Generates text after a prompt of token ids, and hands each event to a
 * callback; see ember_generate. Nothing is added to the prompt. The model needs
 * no tokenizer, unless there are stop strings or an echo.
 *
 * @param context the context; not NULL
 * @param tokens the token ids of the prompt; may be NULL if `n_tokens` is 0
 * @param n_tokens number of `tokens`
 * @param options how to generate; NULL: the defaults
 * @param sampler chooses the tokens; NULL: greedy
 * @param callback receives each event, on the calling thread; not NULL
 * @param user_data handed to the callback as it is; may be NULL
 * @param out_result receives what the generation did; set its struct_size
 *   first; NULL: not wanted
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `options` may be freed after the call.
 * - Threads: Any thread; one call at a time for `context` and `sampler`, a
 *   second gives EMBER_E_BUSY, from the callback too.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; else as
 *   ember_generate.
 *
 * @return EMBER_OK, or the status of the error
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
 * Prepares a generation whose events ember_generator_next gives one by one; it
 * does what ember_generate does. **A prompt made by ember_chat_apply_template
 * needs ember_generate_options_set_parse_special.** The first event runs the
 * prompt. Between two events the context may do other work, such as generators
 * on its other sequences. If the generator's own sequence is changed meanwhile,
 * the next event is EMBER_E_INVALID_ARGUMENT.
 *
 * @param context the context; not NULL
 * @param prompt the prompt, UTF-8; empty: continue what the sequence holds; may
 *   be NULL if `prompt_len` is 0
 * @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
 * @param options how to generate; NULL: the defaults
 * @param sampler chooses the tokens; NULL: greedy
 * @param out receives the generator; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_generator_free. `options` may
 *   be freed after the call. The generator keeps `context` and `sampler` alive;
 *   they may be freed in any order.
 * - Threads: Any thread; one call at a time for `context`, `options` and
 *   `sampler`, a second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT when there is nothing to continue, or the
 *   sequence is out of range; EMBER_E_UNSUPPORTED for an encoder or a model
 *   without a tokenizer; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
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
 * Prepares a generation after a prompt of token ids; see ember_generator_new.
 * Nothing is added to the prompt. The model needs no tokenizer, unless there
 * are stop strings or an echo.
 *
 * @param context the context; not NULL
 * @param tokens the token ids of the prompt; may be NULL if `n_tokens` is 0
 * @param n_tokens number of `tokens`
 * @param options how to generate; NULL: the defaults
 * @param sampler chooses the tokens; NULL: greedy
 * @param out receives the generator; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_generator_free. `options` may
 *   be freed after the call. The generator keeps `context` and `sampler` alive;
 *   they may be freed in any order.
 * - Threads: Any thread; one call at a time for `context`, `options` and
 *   `sampler`, a second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; else as
 *   ember_generator_new.
 *
 * @return EMBER_OK, or the status of the error
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
 * Frees a generator. What was generated stays in the context's sequence, but
 * for the token of the last event, which the next call would have run: begin
 * the next prompt with it where no token shall be missing.
 *
 * @param generator the generator; may be NULL
 *
 * - Threads: Any thread. While a call is using the generator (on another
 *   thread) it is not freed, and the log says so: free it afterwards.
 */
void ember_generator_free(struct ember_generator *generator);

/**
 * Writes the next event of a generation. The first call runs the prompt, and
 * each call the token of the event before. So take events until EMBER_EVENT_END
 * if the sequence shall hold all of them. After EMBER_EVENT_END it comes again
 * and again. After an error the next call tries again. The sequence is then as
 * it was, but for what reuse_prefix and a shift let it forget, and for what was
 * run already where choosing the next token fails.
 *
 * @param generator the generator; not NULL
 * @param event receives the event; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: What the event points to stays until the next call with the
 *   generator, or its free.
 * - Threads: Any thread; one call at a time for `generator`, its context and
 *   its sampler, a second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_CONTEXT_FULL when the prompt does not fit, or no page is
 *   left; EMBER_E_INVALID_ARGUMENT when the sequence was changed by other
 *   calls, and for logits that are NaN; EMBER_E_NOMEM; EMBER_E_BUSY. A cancel
 *   token is no error: it gives EMBER_EVENT_END.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generator_next(
    struct ember_generator *generator,
    struct ember_event *event,
    struct ember_error **err);

/**
 * Writes what a generation did so far. Its finish_reason is EMBER_FINISH_NONE
 * before EMBER_EVENT_END.
 *
 * @param generator the generator; not NULL
 * @param out receives the counters; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `generator`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generator_usage(
    const struct ember_generator *generator,
    struct ember_generate_result *out,
    struct ember_error **err);

/**
 * Makes options for a generation, with their defaults.
 *
 * @param out receives the options; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_generate_options_free.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_new(
    struct ember_generate_options **out,
    struct ember_error **err);

/**
 * Frees options. Generations made with them stay as they are.
 *
 * @param options the options; may be NULL
 *
 * - Threads: Any thread; no other call may use the options.
 */
void ember_generate_options_free(struct ember_generate_options *options);

/**
 * Sets how many tokens a generation may have.
 *
 * @param options the options to change; not NULL
 * @param max_tokens the most tokens; default: 128
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_max_tokens(
    struct ember_generate_options *options,
    uint32_t max_tokens,
    struct ember_error **err);

/**
 * Sets which sequence of the context a generation continues.
 *
 * @param options the options to change; not NULL
 * @param sequence number of the sequence, from 0; default: 0
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_sequence(
    struct ember_generate_options *options,
    uint32_t sequence,
    struct ember_error **err);

/**
 * Sets whether the text of a control token in the prompt stands for that token.
 * A prompt made by ember_chat_apply_template needs it. Text that users type
 * must not have it: they could spell the marks of turns.
 *
 * @param options the options to change; not NULL
 * @param parse_special true: control tokens are recognized; false, the default:
 *   all is plain text
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_parse_special(
    struct ember_generate_options *options,
    bool parse_special,
    struct ember_error **err);

/**
 * Sets whether control tokens that the model generates appear in the text.
 *
 * @param options the options to change; not NULL
 * @param render_special true: they appear; false, the default: they are left
 *   out
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_render_special(
    struct ember_generate_options *options,
    bool render_special,
    struct ember_error **err);

/**
 * Sets whether a generation goes on after an end-of-generation token.
 *
 * @param options the options to change; not NULL
 * @param ignore_eog true: it goes on; false, the default: it ends
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_ignore_eog(
    struct ember_generate_options *options,
    bool ignore_eog,
    struct ember_error **err);

/**
 * Adds a stop string. A generation ends where it has been generated, with
 * EMBER_FINISH_STOP_STRING, and the text ends before it. Text that may be the
 * beginning of a stop string is held back until that is certain, however the
 * model cuts it into tokens. Of several stop strings the one that is complete
 * first counts, of those complete with the same token the longest.
 *
 * @param options the options to change; not NULL
 * @param stop the stop string, UTF-8, not empty; not NULL
 * @param stop_len length of `stop` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `stop`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for an empty one; EMBER_E_UTF8,
 *   EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_add_stop(
    struct ember_generate_options *options,
    const char *stop,
    size_t stop_len,
    struct ember_error **err);

/**
 * Sets whether the stop string that ended a generation is part of its text.
 *
 * @param options the options to change; not NULL
 * @param include_stop true: the text ends with it; false, the default: the text
 *   ends before it
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_include_stop(
    struct ember_generate_options *options,
    bool include_stop,
    struct ember_error **err);

/**
 * Sets whether the prompt is the whole text of the sequence, from its first
 * token on. Ember then keeps what the sequence begins with already, forgets the
 * rest of it, and runs only the new part of the prompt (its last token in any
 * case). This is for conversations: give all of it each time and pay for what
 * was added.
 *
 * @param options the options to change; not NULL
 * @param reuse_prefix true: the prompt is the whole text; false, the default:
 *   it goes after what the sequence holds
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_reuse_prefix(
    struct ember_generate_options *options,
    bool reuse_prefix,
    struct ember_error **err);

/**
 * Sets whether the first event is the prompt's text.
 *
 * @param options the options to change; not NULL
 * @param echo true: it is; false, the default: it is not
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_echo(
    struct ember_generate_options *options,
    bool echo,
    struct ember_error **err);

/**
 * Sets whether events carry the log-probability of their token, in the model's
 * own distribution, before the sampler's stages.
 *
 * @param options the options to change; not NULL
 * @param logprobs true: they do; false, the default: they do not
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_logprobs(
    struct ember_generate_options *options,
    bool logprobs,
    struct ember_error **err);

/**
 * Sets how many of the likeliest tokens each event carries, with their
 * log-probabilities. More than 0 means ember_generate_options_set_logprobs too.
 *
 * @param options the options to change; not NULL
 * @param n_top tokens, 64 at most; default: 0
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for more than 64; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_n_top(
    struct ember_generate_options *options,
    uint32_t n_top,
    struct ember_error **err);

/**
 * Limits how long a generation may take. It ends with EMBER_FINISH_TIME_LIMIT
 * when another token would come later. The time counts from the making of the
 * generator, or from the submission to an engine. A prompt that runs already is
 * run to its end, or, by an engine, to the end of the step. A limit that is
 * over before the first step ends the generation there, and the prompt is not
 * run.
 *
 * @param options the options to change; not NULL
 * @param time_limit_ms milliseconds; 0, the default: no limit
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_time_limit(
    struct ember_generate_options *options,
    uint64_t time_limit_ms,
    struct ember_error **err);

/**
 * Sets which of the requests that wait in an engine's queue begins first: the
 * one of the highest priority, of equal ones the one that came first. Nobody
 * waits for ever. Of the requests that 32 later ones have passed, the one that
 * came first is next all the same, and all others are counted from 0 again. So
 * an urgent request after a long queue waits for one of these at most, and then
 * 32 go by priority. Where pages of the KV cache are few, requests give theirs
 * up in the opposite order and are run again later. Requests that came later
 * and stay have passed them too.
 *
 * @param options the options to change; not NULL
 * @param priority any number, higher first; default: 0
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_priority(
    struct ember_generate_options *options,
    int32_t priority,
    struct ember_error **err);

/**
 * Sets the token that ends a generation early, with EMBER_FINISH_CANCELLED and
 * no error. The context's own token ends it too. A request of an engine ends
 * with the engine's next step, as with ember_request_cancel.
 *
 * @param options the options to change; not NULL
 * @param token the token; NULL, the default: none
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The options keep what they need of `token`; the caller may free
 *   it.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_cancel_token(
    struct ember_generate_options *options,
    const struct ember_cancel_token *token,
    struct ember_error **err);

/**
 * Sets what a generation forgets where its sequence is full (n_ctx). Each time
 * it then forgets tokens as ember_context_sequence_shift does, and goes on;
 * ember_generate_result counts them. A prompt that does not fit is an error all
 * the same. If the KV cache has no pages to copy those that other sequences
 * have too, the step gives EMBER_E_CONTEXT_FULL.
 *
 * @param options the options to change; not NULL
 * @param n_keep how many tokens stay at the beginning
 * @param n_drop how many tokens after these are forgotten each time; 0, the
 *   default: none, and the generation ends with EMBER_FINISH_CONTEXT_FULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY. Errors where the generation
 *   begins: EMBER_E_INVALID_ARGUMENT when both numbers together are not below
 *   n_ctx, or the first `n_keep` tokens would see again what was given back
 *   (ember_context_options_set_keep_all_positions); EMBER_E_UNSUPPORTED for a
 *   model with learned positions (GPT-2) or recurrent layers (LFM2, Qwen 3.5),
 *   and in an engine.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_shift(
    struct ember_generate_options *options,
    uint32_t n_keep,
    uint32_t n_drop,
    struct ember_error **err);

/**
 * Sets what generated text has to follow. Only tokens that the constraint
 * allows are candidates, before all stages of the sampler, and the generation
 * ends with it, as EMBER_FINISH_EOG. It begins with the first generated token,
 * or after its trigger. ember_generate_result says whether the text is
 * complete: one that is cut off, by max_tokens, a stop string, a full context
 * or a cancel token, is EMBER_CONSTRAINT_UNFINISHED. Tokens that the constraint
 * leaves no choice for are run together with the one before them, in one batch;
 * each has its event all the same. Draft tokens that it does not allow are not
 * run.
 *
 * @param options the options to change; not NULL
 * @param constraint the constraint, made for the same model; NULL, the default:
 *   none
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The options keep what they need of `constraint`; the caller may
 *   free it.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY. Errors where the generation
 *   begins: EMBER_E_INVALID_ARGUMENT for a constraint of another model, and
 *   with ember_generate_options_set_ignore_eog. Errors of a step:
 *   EMBER_E_INVALID_ARGUMENT where a limit of the constraint is reached, or the
 *   sampler's stages rule out all that it allows.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_constraint(
    struct ember_generate_options *options,
    const struct ember_constraint *constraint,
    struct ember_error **err);

/**
 * Takes draft tokens from the text itself, to run several tokens in one step.
 * The drafts are what followed the last tokens where these stood in the text
 * before. That pays where texts repeat what they have said or were given, as
 * summaries, corrections and code do. Where drafts are rejected Ember makes
 * fewer, down to none for up to 32 tokens.
 *
 * The tokens are the same as without: the sampler still chooses each from the
 * model's logits, one for each event, and with the default types of the KV
 * cache these have the same bits. Between two events the sequence holds what it
 * would hold without. A call that decodes on the same context between two
 * events discards the drafts made before it, so generators that take turns gain
 * nothing. An engine does without drafts. They take memory for the logits of
 * `n_draft` tokens more.
 *
 * @param options the options to change; not NULL
 * @param n_draft the most draft tokens of a step, 32 at most; 0, the default:
 *   none
 * @param ngram how many of the last tokens have to match, 1 to 16, 3 is good;
 *   where there is no match fewer are tried, down to 2
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for numbers out of range; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_lookup(
    struct ember_generate_options *options,
    uint32_t n_draft,
    uint32_t ngram,
    struct ember_error **err);

/**
 * Takes draft tokens from a smaller model with the same vocabulary, to run
 * several tokens in one step. Where a lookup
 * (ember_generate_options_set_lookup) finds some, those are taken. All that is
 * said there of drafts holds here. What is wrong with `draft` alone ends no
 * generation: when it is full, short of memory or cancelled by its own token
 * (ember_context_set_cancel_token), there are no drafts.
 *
 * @param options the options to change; not NULL
 * @param draft a context of the smaller model, with about the n_ctx of the
 *   other, or drafts end where it is full; several generators may share it,
 *   each with a sequence of its own; NULL, the default: none
 * @param sequence the sequence of `draft` that becomes the beginning of the
 *   text, whatever it held
 * @param n_draft the most draft tokens of a step, 32 at most; 0: none
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The options, and generators made with them, keep `draft` alive;
 *   the caller may free it at any time.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY. `draft` is used while a generator is made and during its
 *   steps. When another call is using it then, they give EMBER_E_BUSY and can
 *   be tried again.
 * - Errors: EMBER_E_INVALID_ARGUMENT for an `n_draft` out of range,
 *   EMBER_E_BUSY. Errors where the generation begins: EMBER_E_INVALID_ARGUMENT
 *   for a sequence that does not exist, for a model with other tokens, and when
 *   `draft` is the context of the generation itself; EMBER_E_UNSUPPORTED for an
 *   encoder.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_generate_options_set_draft(
    struct ember_generate_options *options,
    struct ember_context *draft,
    uint32_t sequence,
    uint32_t n_draft,
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
 * Prepares several completions of a prompt, whose events ember_completions_next
 * gives. The prompt runs once, and each step runs a token of every completion,
 * which takes far less time than one after the other. Completion i is in
 * sequence s + i, where s is that of the options
 * (ember_generate_options_set_sequence). The prompt is the whole of the text,
 * as with ember_generate_options_set_reuse_prefix; the other sequences forget
 * what they held. Afterwards each sequence holds the prompt and its completion.
 * Completion 0 draws as `sampler` would; completion i has a seed that is i
 * larger. Options hold for each completion; lookup and draft tokens are left
 * out.
 *
 * @param context the context; not NULL
 * @param prompt the prompt, UTF-8, not empty; not NULL
 * @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
 * @param n number of completions; the context needs s + `n` sequences
 *   (ember_context_options_set_n_seq)
 * @param options how to generate; NULL: the defaults
 * @param sampler chooses the tokens; NULL: greedy, so that all completions are
 *   the same
 * @param out receives the completions; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_completions_free. `options`
 *   may be freed after the call. The completions keep `context` alive and use
 *   it in ember_completions_next only. They draw with copies of `sampler`,
 *   which stays as it is and may be freed.
 * - Threads: Any thread; one call at a time for `context`, `options` and
 *   `sampler`, a second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT when `n` is 0, the prompt is empty, or the
 *   context has too few sequences; EMBER_E_CONTEXT_FULL for more tokens than a
 *   sequence holds; EMBER_E_UNSUPPORTED for an encoder, a model without a
 *   tokenizer, and ember_generate_options_set_shift; EMBER_E_UTF8,
 *   EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
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
 * Prepares several completions of a prompt of token ids; see
 * ember_completions_new. Nothing is added to the prompt.
 *
 * @param context the context; not NULL
 * @param tokens the token ids of the prompt, at least one; not NULL
 * @param n_tokens number of `tokens`
 * @param n number of completions
 * @param options how to generate; NULL: the defaults
 * @param sampler chooses the tokens; NULL: greedy, so that all completions are
 *   the same
 * @param out receives the completions; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_completions_free. `options`
 *   may be freed after the call. The completions keep `context` alive and draw
 *   with copies of `sampler`.
 * - Threads: Any thread; one call at a time for `context`, `options` and
 *   `sampler`, a second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; else as
 *   ember_completions_new.
 *
 * @return EMBER_OK, or the status of the error
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
 * Frees completions. What was generated stays in the context's sequences.
 *
 * @param completions the completions; may be NULL
 *
 * - Threads: Any thread. While a call is using the completions (on another
 *   thread) they are not freed, and the log says so: free them afterwards.
 */
void ember_completions_free(struct ember_completions *completions);

/**
 * Writes the next event of a completion. The completions take turns, a token
 * each; each ends with one EMBER_EVENT_END. When all have ended the event is
 * EMBER_EVENT_NONE. After an error all is as it was, and the next call tries
 * again.
 *
 * @param completions the completions; not NULL
 * @param event receives the event; set its struct_size first; not NULL
 * @param out_index receives which completion the event is of, from 0; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: What the event points to stays until the next call with the
 *   completions, or their free.
 * - Threads: Any thread; one call at a time for `completions` and their
 *   context, a second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_CONTEXT_FULL when the prompt does not fit, or no page is
 *   left; EMBER_E_INVALID_ARGUMENT when a sequence was changed by other calls,
 *   and for logits that are NaN; EMBER_E_NOMEM; EMBER_E_BUSY. A cancel token is
 *   no error: each completion ends with EMBER_FINISH_CANCELLED.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_completions_next(
    struct ember_completions *completions,
    struct ember_event *event,
    uint32_t *out_index,
    struct ember_error **err);

/**
 * Writes what one completion did so far. Its finish_reason is EMBER_FINISH_NONE
 * before its end.
 *
 * @param completions the completions; not NULL
 * @param index number of the completion, from 0
 * @param out receives the counters; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `completions`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_completions_usage(
    const struct ember_completions *completions,
    uint32_t index,
    struct ember_generate_result *out,
    struct ember_error **err);

/**
 * Writes the text of one completion so far, that of all its events.
 *
 * @param completions the completions; not NULL
 * @param index number of the completion, from 0
 * @param buffer receives the text, UTF-8 without NUL; may be NULL if `capacity`
 *   is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `completions`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_completions_text(
    const struct ember_completions *completions,
    uint32_t index,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Ranks all completions from the likeliest to the least likely. The measure is
 * the mean log-probability of the tokens (mean_logprob of
 * ember_completions_usage), so the first is the best of all. Needs
 * ember_generate_options_set_logprobs.
 *
 * @param completions the completions; not NULL
 * @param buffer receives the numbers of the completions; may be NULL if
 *   `capacity` is 0
 * @param capacity numbers that `buffer` can take; 0 to ask for their number
 * @param n_needed receives the number of completions, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `completions`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT while one has not ended, and where
 *   log-probabilities were not asked for; EMBER_E_NOMEM;
 *   EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
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

/**
 * As the seed of a sampler: a random seed. The value is that of 64 set bits:
 * see EMBER_NUL_TERMINATED for languages whose numbers are doubles.
 */
#define EMBER_SEED_RANDOM UINT64_MAX

/**
 * Looks at the candidates that the stages before have left, and may change
 * their logits. It runs on the thread that samples.
 *
 * @param tokens the token ids in ascending order
 * @param logits the logit of each token, which may be changed; -INFINITY rules
 *   a token out, NaN and INFINITY are refused
 * @param n number of candidates, at least 1
 * @param user_data what was given with the callback
 *
 * @return 0 to go on; anything else ends the call with EMBER_E_CANCELLED, and a
 *   generation with EMBER_FINISH_CANCELLED
 */
typedef int32_t (*ember_candidates_callback)(
    const uint32_t *tokens,
    float *logits,
    size_t n,
    void *user_data);

/**
 * Makes a sampler without stages, which draws from the softmax of the logits.
 * It can have 1000 stages. The random numbers are those of xoshiro256++ seeded
 * through SplitMix64, so a seed gives the same choices on every platform for
 * the same logits.
 *
 * @param seed any number; EMBER_SEED_RANDOM: a random one, which
 *   ember_sampler_seed gives
 * @param out receives the sampler; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_sampler_free.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_new(
    uint64_t seed,
    struct ember_sampler **out,
    struct ember_error **err);

/**
 * Makes a sampler with the stages that a model's file proposes. A GGUF file
 * proposes them by its keys `general.sampling.*`, in the order of their
 * "sequence" or llama.cpp's. A folder does by its generation_config.json, read
 * as `generate` of the Python package transformers does: greedy unless
 * `do_sample` is true, and 50 for an absent `top_k` if it is. A warning of the
 * log names what a file proposes beyond that, and what it proposes without an
 * effect.
 *
 * @param model the model; not NULL
 * @param seed any number; EMBER_SEED_RANDOM: a random one
 * @param out receives the sampler; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_sampler_free.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for a file that proposes nothing; EMBER_E_FORMAT
 *   for a proposal that is wrong; EMBER_E_UNSUPPORTED for one that Ember cannot
 *   follow; EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_sampler(
    const struct ember_model *model,
    uint64_t seed,
    struct ember_sampler **out,
    struct ember_error **err);

/**
 * Frees a sampler.
 *
 * @param sampler the sampler; may be NULL
 *
 * - Ownership: A generator made with the sampler keeps what it needs of it.
 * - Threads: Any thread. While a call is using the sampler (from that call's
 *   callback, or on another thread) it is not freed, and the log says so: free
 *   it afterwards.
 */
void ember_sampler_free(struct ember_sampler *sampler);

/**
 * Chooses a token from logits. ember_sampler_accept makes it part of the text.
 *
 * @param sampler the sampler; not NULL
 * @param logits a number for each token id; -INFINITY rules a token out, and
 *   +INFINITY all tokens that have less; not NULL
 * @param n number of `logits`, 1 to 16777215
 * @param out receives the token id; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for no logits or too many, a NaN, or
 *   logits that rule every token out; EMBER_E_CANCELLED by a stage's callback;
 *   EMBER_E_NOMEM; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_sample(
    struct ember_sampler *sampler,
    const float *logits,
    size_t n,
    uint32_t *out,
    struct ember_error **err);

/**
 * Tells the stages that look back that a token is now part of the text.
 * ember_sampler_sample accepts nothing by itself; a prompt's tokens may be
 * accepted too. A stage that is added later does not see the token, unless an
 * earlier one looks back as far.
 *
 * @param sampler the sampler; not NULL
 * @param token the token id
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_accept(
    struct ember_sampler *sampler,
    uint32_t token,
    struct ember_error **err);

/**
 * Starts a sampler over, as if it were new: the random numbers, and what was
 * accepted. The stages stay.
 *
 * @param sampler the sampler; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_reset(
    struct ember_sampler *sampler,
    struct ember_error **err);

/**
 * Copies a sampler: its stages and their state, its random numbers where they
 * stand.
 *
 * @param sampler the sampler; not NULL
 * @param out receives the copy; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_sampler_free.
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_clone(
    const struct ember_sampler *sampler,
    struct ember_sampler **out,
    struct ember_error **err);

/**
 * Gives the seed of a sampler's random numbers.
 *
 * @param sampler the sampler; not NULL
 * @param out receives the seed; for a sampler made with EMBER_SEED_RANDOM the
 *   one that was taken; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_seed(
    const struct ember_sampler *sampler,
    uint64_t *out,
    struct ember_error **err);

/**
 * Says how far the text is that follows a constraint of the sampler; of several
 * constraints, the one furthest from its end.
 *
 * @param sampler the sampler; not NULL
 * @param out receives an ember_constraint_progress; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_progress(
    const struct ember_sampler *sampler,
    int32_t *out,
    struct ember_error **err);

/**
 * Adds a stage that keeps only the most probable token; of equals the one with
 * the lowest id.
 *
 * @param sampler the sampler; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_greedy(
    struct ember_sampler *sampler,
    struct ember_error **err);

/**
 * Adds a stage that divides the logits by a temperature.
 *
 * @param sampler the sampler; not NULL
 * @param temperature a finite number, at least 0; 0 is greedy
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_temperature(
    struct ember_sampler *sampler,
    float temperature,
    struct ember_error **err);

/**
 * Adds a stage that keeps the most probable tokens.
 *
 * @param sampler the sampler; not NULL
 * @param k how many tokens stay; 0 keeps all
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_top_k(
    struct ember_sampler *sampler,
    uint32_t k,
    struct ember_error **err);

/**
 * Adds a stage that keeps the most probable tokens whose probabilities add up
 * to a sum, at least one.
 *
 * @param sampler the sampler; not NULL
 * @param p the sum, above 0, at most 1
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_top_p(
    struct ember_sampler *sampler,
    float p,
    struct ember_error **err);

/**
 * Adds a stage that keeps tokens that are probable enough as against the
 * likeliest.
 *
 * @param sampler the sampler; not NULL
 * @param p the least share of the likeliest token's probability, 0 to 1; 0
 *   keeps all
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_min_p(
    struct ember_sampler *sampler,
    float p,
    struct ember_error **err);

/**
 * Adds a stage that keeps the tokens whose surprise is closest to the expected
 * one.
 *
 * @param sampler the sampler; not NULL
 * @param p the sum of probabilities that the tokens kept have to exceed, above
 *   0, at most 1; 1 keeps all
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_typical_p(
    struct ember_sampler *sampler,
    float p,
    struct ember_error **err);

/**
 * Adds a stage that keeps the tokens whose logits are near the largest
 * (top-n-sigma). A temperature before it changes nothing about what is kept.
 *
 * @param sampler the sampler; may be NULL if `n` is 0
 * @param n the most standard deviations of all candidates' logits below the
 *   largest, finite, at least 0; 0 keeps all
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_top_n_sigma(
    struct ember_sampler *sampler,
    float n,
    struct ember_error **err);

/**
 * Adds a stage whose temperature grows with the entropy of the distribution.
 *
 * @param sampler the sampler; not NULL
 * @param temperature the middle of the temperatures, finite, at least 0
 * @param range how far the temperature goes below (to 0 at most) and above the
 *   middle, finite, at least 0
 * @param exponent the power of the entropy that it grows with, finite, at least
 *   0
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_dynamic_temperature(
    struct ember_sampler *sampler,
    float temperature,
    float range,
    float exponent,
    struct ember_error **err);

/**
 * Adds a stage that removes at random all tokens above a threshold but the
 * least likely of them ("exclude top choices"). It takes a random number each
 * time that it may change something, also where a later stage makes the choice
 * fail. Tried again, it goes on with the next random number.
 *
 * @param sampler the sampler; not NULL
 * @param probability how often it removes tokens, 0 to 1
 * @param threshold the probability from which on tokens are removed, 0 to 1;
 *   above 0.5 the stage does nothing
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_xtc(
    struct ember_sampler *sampler,
    float probability,
    float threshold,
    struct ember_error **err);

/**
 * Adds a stage that makes tokens less likely that were accepted lately.
 * ember_sampler_accept gives tokens to the sampler. The sampler remembers as
 * many of them as its stages look back at by then; so add such stages first.
 *
 * @param sampler the sampler; not NULL
 * @param last_n how many of the tokens accepted latest count, 1048576 at most
 * @param repeat a positive logit is divided by it, another one multiplied;
 *   above 0, 1 changes nothing
 * @param frequency taken off a logit for each time the token occurred
 * @param presence taken off a logit once
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_penalties(
    struct ember_sampler *sampler,
    uint32_t last_n,
    float repeat,
    float frequency,
    float presence,
    struct ember_error **err);

/**
 * Sets which tokens `frequency` and `presence` of ember_sampler_add_penalties
 * count. `repeat` always counts all.
 *
 * @param sampler the sampler; not NULL
 * @param generated_only true: those generated since the last one of a prompt,
 *   as OpenAI's API has it; false, the default: all that were accepted
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_set_penalties_generated_only(
    struct ember_sampler *sampler,
    bool generated_only,
    struct ember_error **err);

/**
 * Adds a stage against repeated passages (DRY). It makes tokens less likely
 * which would carry on a passage that is among the accepted tokens already. If
 * the passage has `allowed_length` tokens at least, `multiplier` times `base`
 * to the power of (length of the passage − `allowed_length`) is taken off their
 * logits. No passage goes beyond a breaker. Tokens that were accepted before
 * the stage was added may not be remembered.
 *
 * @param sampler the sampler; not NULL
 * @param model the model to sample for, whose tokens the breakers are looked up
 *   in; not NULL
 * @param multiplier the penalty of a passage of `allowed_length`; 0.8 is usual
 * @param base how fast the penalty grows; 1.75 is usual
 * @param allowed_length the length from which on passages count, 1048576 at
 *   most; 2 is usual
 * @param last_n how many of the tokens accepted latest are searched, 1048576 at
 *   most
 * @param breakers texts of 1 to 40 bytes of UTF-8; NULL: line end, colon,
 *   quotation mark, asterisk
 * @param lengths length of each breaker in bytes; NULL: each ends at its NUL
 * @param n_breakers number of `breakers`, 128 different ones at most
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `breakers` and keeps nothing of `model`.
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_UNSUPPORTED for a model without a tokenizer;
 *   EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
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
 * Adds a stage of the caller's own, which may change the logits of the
 * candidates.
 *
 * @param sampler the sampler; not NULL
 * @param callback receives the candidates, on the thread that samples; not NULL
 * @param user_data handed to the callback as it is; may be NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `callback` and `user_data` must stay valid as long as the
 *   sampler, its clones and generators made with it.
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_callback(
    struct ember_sampler *sampler,
    ember_candidates_callback callback,
    void *user_data,
    struct ember_error **err);

/**
 * Adds a stage that keeps tokens whose surprise is below a bound, which follows
 * the surprise that is wanted (Mirostat 2). It is the last stage as a rule, and
 * there is one of Mirostat's at most.
 *
 * @param sampler the sampler; not NULL
 * @param tau the wanted surprise in bits
 * @param eta the rate at which the bound follows
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_mirostat(
    struct ember_sampler *sampler,
    float tau,
    float eta,
    struct ember_error **err);

/**
 * Adds a stage of Mirostat's first version, which keeps a number of tokens that
 * follows the surprise that is wanted. It is the last stage as a rule, and
 * there is one of Mirostat's at most.
 *
 * @param sampler the sampler; not NULL
 * @param tau the wanted surprise in bits
 * @param eta the rate at which the number follows
 * @param m from how many of the likeliest tokens the number is estimated, 2 to
 *   1048576; 100 is usual
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_mirostat_1(
    struct ember_sampler *sampler,
    float tau,
    float eta,
    uint32_t m,
    struct ember_error **err);

/**
 * Adds a stage that makes tokens the likelier, the nearer their probability is
 * to a target (adaptive-p). The target moves so that accepted tokens have the
 * wanted probability on average. It is the last stage as a rule, after min-p,
 * and there is one at most. It learns from a token that ember_sampler_sample
 * gave last and ember_sampler_accept takes; generations do both.
 *
 * @param sampler the sampler; not NULL
 * @param target the wanted probability, 0 to 1
 * @param decay how much an accepted token counts as against the next one, 0 to
 *   0.99
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_adaptive_p(
    struct ember_sampler *sampler,
    float target,
    float decay,
    struct ember_error **err);

/**
 * Adds a stage that adds numbers to the logits of tokens. Tokens that have no
 * logit are passed over.
 *
 * @param sampler the sampler; not NULL
 * @param tokens the token ids; one that comes several times gets the sum; not
 *   NULL
 * @param biases a number for each of `tokens`; -INFINITY rules the token out;
 *   may be NULL if `n` is 0
 * @param n number of `tokens` and `biases`
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `tokens` and `biases`.
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a NaN or +INFINITY, and for a sum that
 *   leaves the range of floats; EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_bias(
    struct ember_sampler *sampler,
    const uint32_t *tokens,
    const float *biases,
    size_t n,
    struct ember_error **err);

/**
 * Adds a stage that keeps the given tokens only. When none of them is left,
 * sampling fails.
 *
 * @param sampler the sampler; not NULL
 * @param tokens the token ids that stay; may be NULL if `n` is 0
 * @param n number of `tokens`
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `tokens`.
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_allow(
    struct ember_sampler *sampler,
    const uint32_t *tokens,
    size_t n,
    struct ember_error **err);

/**
 * Adds a stage that rules the given tokens out. When no other is left, sampling
 * fails.
 *
 * @param sampler the sampler; not NULL
 * @param tokens the token ids that go; may be NULL if `n` is 0
 * @param n number of `tokens`
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `tokens`.
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_deny(
    struct ember_sampler *sampler,
    const uint32_t *tokens,
    size_t n,
    struct ember_error **err);

/**
 * Adds a stage that keeps the tokens which may be next in a text that follows a
 * constraint. Add it first: what other stages left before it may be none of
 * these. Where the constraint is complete it leaves the tokens that end a text,
 * and nothing else. The text is made of the tokens that ember_sampler_sample
 * gives and ember_sampler_accept accepts next. Other tokens that are accepted
 * are a prompt, and the text under the constraint begins anew after them, as it
 * does with ember_sampler_reset. In a generation it begins after the prompt,
 * and goes on where the prompt is empty. A clone of the sampler goes on by
 * itself. Generations run tokens together that the constraint leaves no choice
 * for. A sampler may have several such stages.
 *
 * @param sampler the sampler; not NULL
 * @param constraint the constraint, made for the same model; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The sampler keeps what it needs of `constraint`; the caller may
 *   free it.
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY. Errors of
 *   sampling and generation: EMBER_E_INVALID_ARGUMENT where a token was
 *   accepted that does not fit, where a limit of the constraint is reached, for
 *   a constraint of another model, and with
 *   ember_generate_options_set_ignore_eog.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_constraint(
    struct ember_sampler *sampler,
    const struct ember_constraint *constraint,
    struct ember_error **err);

/**
 * Adds a stage for filling a gap in a text, which ends a generation where no
 * continuation is likely. Where the tokens that end one are likely as against
 * the number of candidates, they alone are left. Otherwise tokens whose texts
 * begin with another candidate's are merged with it, and tokens with less than
 * a fifth of the probability go. When none is left, the end of a turn (or of
 * the text) is chosen, whether it was among the candidates or not. The stage
 * stands after top-k and top-p as a rule.
 *
 * @param sampler the sampler; not NULL
 * @param model the model to sample for; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember keeps nothing of `model`.
 * - Threads: Any thread; one call at a time for `sampler`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_UNSUPPORTED for a model without a tokenizer or without a
 *   token that ends a text; EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_sampler_add_infill(
    struct ember_sampler *sampler,
    const struct ember_model *model,
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
 * Makes a constraint: the text is JSON that a JSON Schema describes (drafts 4
 * to 2020-12). It is made once and used by many generations of the model, also
 * at the same time. The first constraint of a model arranges its tokens, which
 * takes about a second for a large vocabulary.
 *
 * Members of objects come in the order of `properties`. Keywords that only
 * describe (title, default …) are passed over, and so are unknown ones, as JSON
 * Schema says. Understood are type, const, enum, anyOf, allOf, $ref; oneOf, if
 * it is certain that its parts exclude each other; properties, required,
 * additionalProperties, patternProperties, minProperties, maxProperties; items,
 * prefixItems, additionalItems, minItems, maxItems; minLength, maxLength,
 * pattern, format; minimum, maximum, exclusiveMinimum, exclusiveMaximum,
 * multipleOf. Nothing is fetched for a $ref.
 *
 * @param model the model; not NULL
 * @param schema the schema, JSON itself; not NULL
 * @param schema_len length of `schema` in bytes, or EMBER_NUL_TERMINATED
 * @param options how to make it; NULL: the defaults
 * @param out receives the constraint; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_constraint_free. `options`
 *   may be freed after the call. `model` may be released after the call.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_UNSUPPORTED for another keyword or format, by its name, for
 *   a model without a tokenizer, for tokens that cannot spell JSON, and without
 *   the feature "constraints"; EMBER_E_INVALID_ARGUMENT for what is no schema,
 *   or too large, and for a schema that no JSON meets; EMBER_E_UTF8,
 *   EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_constraint_new_json_schema(
    const struct ember_model *model,
    const char *schema,
    size_t schema_len,
    const struct ember_constraint_options *options,
    struct ember_constraint **out,
    struct ember_error **err);

/**
 * Makes a constraint: the text is a JSON object, whatever it holds.
 *
 * @param model the model; not NULL
 * @param options how to make it; NULL: the defaults
 * @param out receives the constraint; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_constraint_free. `options`
 *   may be freed after the call.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: as ember_constraint_new_json_schema.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_constraint_new_json_object(
    const struct ember_model *model,
    const struct ember_constraint_options *options,
    struct ember_constraint **out,
    struct ember_error **err);

/**
 * Makes a constraint: a regular expression matches the text as a whole.
 *
 * @param model the model; not NULL
 * @param regex the expression, UTF-8, in the syntax of the Rust crate regex;
 *   there is no look-around, and no anchor but at the ends; not NULL
 * @param regex_len length of `regex` in bytes, or EMBER_NUL_TERMINATED
 * @param options how to make it; NULL: the defaults
 * @param out receives the constraint; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_constraint_free. `options`
 *   may be freed after the call.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for what is no such expression; else as
 *   ember_constraint_new_json_schema.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_constraint_new_regex(
    const struct ember_model *model,
    const char *regex,
    size_t regex_len,
    const struct ember_constraint_options *options,
    struct ember_constraint **out,
    struct ember_error **err);

/**
 * Makes a constraint: a context-free grammar derives the text from its rule
 * `start`. The syntax is Lark's as the crate llguidance reads it: rules `name:
 * "text" /regex/ other_rule`, terminals `NAME: /regex/`, `|`, `?`, `*`, `+`,
 * `{n,m}`, `%ignore`, `%json {…}`, and control tokens as `<|name|>`.
 *
 * @param model the model; not NULL
 * @param grammar the grammar, UTF-8; not NULL
 * @param grammar_len length of `grammar` in bytes, or EMBER_NUL_TERMINATED
 * @param options how to make it; NULL: the defaults
 * @param out receives the constraint; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_constraint_free. `options`
 *   may be freed after the call.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for what is no such grammar; else as
 *   ember_constraint_new_json_schema.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_constraint_new_lark(
    const struct ember_model *model,
    const char *grammar,
    size_t grammar_len,
    const struct ember_constraint_options *options,
    struct ember_constraint **out,
    struct ember_error **err);

/**
 * Makes a constraint: the text is one of several.
 *
 * @param model the model; not NULL
 * @param texts the texts, UTF-8, none of them empty; not NULL
 * @param lengths length of each text in bytes; NULL: each ends at its NUL
 * @param n_texts number of `texts`
 * @param options how to make it; NULL: the defaults
 * @param out receives the constraint; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_constraint_free. `options`
 *   may be freed after the call.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for no texts or an empty one; else as
 *   ember_constraint_new_json_schema.
 *
 * @return EMBER_OK, or the status of the error
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
 * Frees a constraint.
 *
 * @param constraint the constraint; may be NULL
 *
 * - Ownership: Samplers, options and generations keep what they need of the
 *   constraint.
 * - Threads: Any thread; no other call may use the handle.
 */
void ember_constraint_free(struct ember_constraint *constraint);

/**
 * Makes options for a constraint, with their defaults.
 *
 * @param out receives the options; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_constraint_options_free.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_constraint_options_new(
    struct ember_constraint_options **out,
    struct ember_error **err);

/**
 * Frees options. Constraints made with them stay as they are.
 *
 * @param options the options; may be NULL
 *
 * - Threads: Any thread; no other call may use the options.
 */
void ember_constraint_options_free(struct ember_constraint_options *options);

/**
 * Limits white space between two parts of JSON. White space within strings is
 * text.
 *
 * @param options the options to change; not NULL
 * @param whitespace the most characters, 256 at most; 0: none, so that JSON is
 *   as short as it can be; default: 32
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY. A number above 256 is an
 *   error where the constraint is made.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_constraint_options_set_whitespace(
    struct ember_constraint_options *options,
    uint32_t whitespace,
    struct ember_error **err);

/**
 * Adds a text that starts the constraint: what comes before it is free. For the
 * text after a thought give the mark that ends its thought (`</think>`). Ember
 * finds it however the model cuts it into tokens, also where it is the text of
 * a control token. What follows it within its last token is the beginning of
 * what the constraint describes. Of several triggers, 16 at most, the one that
 * is complete first counts. A text without a trigger is never under the
 * constraint: ember_generate_result says EMBER_CONSTRAINT_WAITING. Without
 * triggers the constraint begins with the first token.
 *
 * @param options the options to change; not NULL
 * @param text the trigger, 1 to 256 bytes, UTF-8; not NULL
 * @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `text`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for an empty text; EMBER_E_UTF8,
 *   EMBER_E_NOMEM, EMBER_E_BUSY. A text that is too long, or too many, are
 *   errors where the constraint is made.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_constraint_options_add_trigger_text(
    struct ember_constraint_options *options,
    const char *text,
    size_t text_len,
    struct ember_error **err);

/**
 * Adds a token that starts the constraint; see
 * ember_constraint_options_add_trigger_text.
 *
 * @param options the options to change; not NULL
 * @param token the token id; no token that ends a text
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY. A token that does not exist
 *   is an error where the constraint is made.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_constraint_options_add_trigger_token(
    struct ember_constraint_options *options,
    uint32_t token,
    struct ember_error **err);

/**
 * Sets what follows a complete constraint. Needs a trigger.
 *
 * @param options the options to change; not NULL
 * @param repeat true: the text is free again until the next trigger, after
 *   which the constraint holds anew; false, the default: the text ends
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_constraint_options_set_repeat(
    struct ember_constraint_options *options,
    bool repeat,
    struct ember_error **err);

/**
 * Limits the work or memory of a constraint. Where a limit is reached, making
 * the constraint fails, or the generation ends with an error.
 *
 * @param options the options to change; not NULL
 * @param limit an ember_constraint_limit
 * @param value the limit, in the unit that ember_constraint_limit says
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a limit that does not exist;
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_constraint_options_set_limit(
    struct ember_constraint_options *options,
    int32_t limit,
    uint64_t value,
    struct ember_error **err);

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
     * The mark after a thought. A host that ends a thought itself appends this
     * text, and the model goes on from there.
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
 * Writes the text of a conversation as the model was trained on it. The text is
 * what `apply_chat_template` of the Python package transformers gives.
 * Templates are bounded in work and memory, whatever a file holds.
 *
 * **The text spells control tokens**, and BOS where the template says so.
 * Generate from it with ember_generate_options_set_parse_special, or tokenize
 * it with parse_special true and add_special false. Texts of users that spell
 * control tokens then become these tokens. ember_chat_tokenize has neither
 * trap.
 *
 * @param model the model; not NULL
 * @param messages a JSON array of objects with "role", "content" and what else
 *   the template looks at ("tool_calls", "name", "reasoning_content"); not NULL
 * @param messages_len length of `messages` in bytes, or EMBER_NUL_TERMINATED
 * @param options the template, tools and variables; NULL: the defaults
 * @param buffer receives the text, UTF-8 without NUL; may be NULL if `capacity`
 *   is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `options` may be freed after the call.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for what is not the JSON it must be, and
 *   for messages that the template refuses (the sentence has the template's own
 *   words) or fails on; EMBER_E_UNSUPPORTED for a model without a template, and
 *   in a build without the feature "chat"; EMBER_E_NOT_FOUND for a name that no
 *   template has; EMBER_E_FORMAT for a template that is broken or takes too
 *   much; EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
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
 * Writes the tokens of a conversation as the model was trained on it. Generate
 * from them with ember_generate_tokens. **No text of a message or tool can
 * spell a control token**: "<|im_end|>" in what a user typed is text. A
 * template that looks for such marks in messages ("</think>" in an answer) does
 * not find them. BOS comes first where the file asks for it, once.
 *
 * @param model the model; not NULL
 * @param messages a JSON array of objects with "role", "content" and what else
 *   the template looks at ("tool_calls", "name", "reasoning_content"); not NULL
 * @param messages_len length of `messages` in bytes, or EMBER_NUL_TERMINATED
 * @param options the template, tools and variables; NULL: the defaults
 * @param tokens receives the token ids; may be NULL if `capacity` is 0
 * @param capacity tokens that `tokens` can take; 0 to ask for the number
 * @param n_needed receives how many tokens there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `options` may be freed after the call.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: as ember_chat_apply_template; EMBER_E_BUFFER_TOO_SMALL.
 *
 * @return EMBER_OK, or the status of the error
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
 * Writes the text of a model's chat template.
 *
 * @param model the model; not NULL
 * @param name the template's name, UTF-8; empty: "default"; may be NULL if
 *   `name_len` is 0
 * @param name_len length of `name` in bytes, or EMBER_NUL_TERMINATED
 * @param buffer receives the text, UTF-8 without NUL; may be NULL if `capacity`
 *   is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_UNSUPPORTED for a model without templates;
 *   EMBER_E_NOT_FOUND for a name that it does not have;
 *   EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL,
 *   EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_chat_template(
    const struct ember_model *model,
    const char *name,
    size_t name_len,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Makes a parser for one reply of a model. It finds in the chat template what
 * the reply looks like: the model's, or that of `options`. Marks are often
 * special tokens, whose text a generation leaves out by itself: have it write
 * them with ember_generate_options_set_render_special.
 *
 * @param model the model; not NULL
 * @param options best those that the prompt was written with, so that the names
 *   of tools are known, and the types of arguments where the format writes none
 *   down; NULL: the defaults
 * @param prompt the text that ember_chat_apply_template gave, which may end
 *   inside a thought, UTF-8; empty: as the template ends it when it has no
 *   variables; ids of calls are made from it too; may be NULL if `prompt_len`
 *   is 0
 * @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
 * @param out receives the parser; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_chat_parser_free. `options`
 *   may be freed after the call.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for tools or a tool choice that are not
 *   what they must be, and for the choice of a tool that is none of the tools;
 *   EMBER_E_UNSUPPORTED for a model without a template, and in a build without
 *   the feature "chat"; EMBER_E_NOT_FOUND for a name that no template has;
 *   EMBER_E_FORMAT for a broken template; EMBER_E_UTF8, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_parser_new(
    const struct ember_model *model,
    const struct ember_chat_options *options,
    const char *prompt,
    size_t prompt_len,
    struct ember_chat_parser **out,
    struct ember_error **err);

/**
 * Frees a parser.
 *
 * @param parser the parser; may be NULL
 *
 * - Threads: Any thread; no other call may use the parser.
 */
void ember_chat_parser_free(struct ember_chat_parser *parser);

/**
 * Gives a parser more of the reply. Then take events with
 * ember_chat_parser_next until there is none. Text after
 * ember_chat_parser_finish is ignored.
 *
 * @param parser the parser; not NULL
 * @param text the text, UTF-8, of any length, which ends between two code
 *   points as that of an ember_event does; may be NULL if `text_len` is 0
 * @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `parser`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_parser_push(
    struct ember_chat_parser *parser,
    const char *text,
    size_t text_len,
    struct ember_error **err);

/**
 * Tells a parser that the reply is over. Text that waited for more comes now,
 * and a call that is not complete is broken.
 *
 * @param parser the parser; not NULL
 * @param finish_reason the ember_finish_reason of the reply
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `parser`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for EMBER_FINISH_NONE and what is no
 *   reason; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_parser_finish(
    struct ember_chat_parser *parser,
    int32_t finish_reason,
    struct ember_error **err);

/**
 * Writes the next event of a reply.
 *
 * @param parser the parser; not NULL
 * @param event receives the event, EMBER_CHAT_EVENT_NONE when there is none
 *   now; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: What the event points to stays until the next call with the
 *   parser.
 * - Threads: Any thread; one call at a time for `parser`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_parser_next(
    struct ember_chat_parser *parser,
    struct ember_chat_event *event,
    struct ember_error **err);

/**
 * Says whether the reply is inside a thought now.
 *
 * @param parser the parser; not NULL
 * @param out receives 1 or 0; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `parser`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_parser_is_thinking(
    const struct ember_chat_parser *parser,
    uint32_t *out,
    struct ember_error **err);

/**
 * Says how the replies of a template are written: what form calls have, what is
 * around thoughts, and which variable switches them.
 *
 * @param parser the parser; not NULL
 * @param out receives the description; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: What `out` points to stays as long as the parser.
 * - Threads: Any thread; one call at a time for `parser`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_parser_format(
    const struct ember_chat_parser *parser,
    struct ember_chat_format *out,
    struct ember_error **err);

/**
 * Makes the constraint of a reply that may call tools, for
 * ember_generate_options_set_constraint. Every call follows the schema of its
 * tool. Where the options' tool choice asks for a call, the reply is one. A
 * conversation (ember_conversation_new) does this by itself. The reply's marks
 * are often special tokens: see ember_chat_parser_new.
 *
 * @param model the model; not NULL
 * @param options tools and tool choice; NULL: the defaults, which have no tools
 * @param prompt the text that ember_chat_apply_template gave with the same
 *   options, which may end inside a thought: then the constraint begins after
 *   it, UTF-8; empty: as the template ends it when it has no variables; may be
 *   NULL if `prompt_len` is 0
 * @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
 * @param out receives the constraint, or a null pointer where there is nothing
 *   to constrain: without tools, with the choice "none", and where no call has
 *   to be made in the form "llama3", which has no mark; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_constraint_free. `options`
 *   may be freed after the call.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_UNSUPPORTED, by name, for schemas that have what
 *   constraints or the form of calls have not; EMBER_E_UNSUPPORTED where a call
 *   has to be made and Ember knows no form of the template, for a model without
 *   a template, and in builds without the features "chat" and "constraints";
 *   EMBER_E_INVALID_ARGUMENT for tools and choices that are not what they must
 *   be; EMBER_E_NOT_FOUND for a name that no template has; EMBER_E_FORMAT for a
 *   broken template; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_constraint(
    const struct ember_model *model,
    const struct ember_chat_options *options,
    const char *prompt,
    size_t prompt_len,
    struct ember_constraint **out,
    struct ember_error **err);

/**
 * Makes options for a chat template, with their defaults.
 *
 * @param out receives the options; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_chat_options_free.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_options_new(
    struct ember_chat_options **out,
    struct ember_error **err);

/**
 * Frees options. What was made with them stays as it is.
 *
 * @param options the options; may be NULL
 *
 * - Threads: Any thread; no other call may use the options.
 */
void ember_chat_options_free(struct ember_chat_options *options);

/**
 * Sets the tools that the model may call. They are read when a template is
 * applied.
 *
 * @param options the options to change; not NULL
 * @param tools a JSON array, as a rule of objects with "type" and "function";
 *   empty, the default: none; may be NULL if `tools_len` is 0
 * @param tools_len length of `tools` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `tools`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_options_set_tools(
    struct ember_chat_options *options,
    const char *tools,
    size_t tools_len,
    struct ember_error **err);

/**
 * Sets more variables for the template; which ones matter is the template's to
 * say. They are read when a template is applied. The names "messages", "tools"
 * and "add_generation_prompt", which are given otherwise, are then refused.
 *
 * @param options the options to change; not NULL
 * @param variables a JSON object, for example `{"enable_thinking": false}`;
 *   empty, the default: none; may be NULL if `variables_len` is 0
 * @param variables_len length of `variables` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `variables`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_options_set_variables(
    struct ember_chat_options *options,
    const char *variables,
    size_t variables_len,
    struct ember_error **err);

/**
 * Sets a template to use instead of the model's.
 *
 * @param options the options to change; not NULL
 * @param template_text the template in the Jinja language; empty, the default:
 *   the model's; may be NULL if `template_len` is 0
 * @param template_len length of `template_text` in bytes, or
 *   EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `template_text`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_options_set_template(
    struct ember_chat_options *options,
    const char *template_text,
    size_t template_len,
    struct ember_error **err);

/**
 * Sets which of the model's templates to use, for models with several.
 *
 * @param options the options to change; not NULL
 * @param name the template's name, UTF-8; "default" is also the name of a
 *   template without a name. Empty, the default: "tool_use" when there are
 *   tools and the model has one of that name, and else "default"; may be NULL
 *   if `name_len` is 0
 * @param name_len length of `name` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `name`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_options_set_template_name(
    struct ember_chat_options *options,
    const char *name,
    size_t name_len,
    struct ember_error **err);

/**
 * Sets whether the text ends with what comes before an answer of the assistant.
 *
 * @param options the options to change; not NULL
 * @param add_generation_prompt true, the default: it does; false: it ends with
 *   the last message
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_options_set_add_generation_prompt(
    struct ember_chat_options *options,
    bool add_generation_prompt,
    struct ember_error **err);

/**
 * Sets whether the model calls tools, for ember_chat_parser_new,
 * ember_chat_constraint and conversations.
 *
 * @param options the options to change; not NULL
 * @param tool_choice "auto", the default, as is an empty text: it may. "none":
 *   what looks like a call is text. "required": it has to. A tool's name, or
 *   OpenAI's JSON object `{"type": "function", "function": {"name": …}}`: it
 *   has to call this tool, and a call of another is broken; may be NULL if
 *   `tool_choice_len` is 0
 * @param tool_choice_len length of `tool_choice` in bytes, or
 *   EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `tool_choice`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_options_set_tool_choice(
    struct ember_chat_options *options,
    const char *tool_choice,
    size_t tool_choice_len,
    struct ember_error **err);

/**
 * Sets whether a reply may have several calls. Where calls are held to the
 * schemas of the tools (ember_chat_options_set_strict_tools), a reply has 32
 * calls at most.
 *
 * @param options the options to change; not NULL
 * @param parallel_calls true, the default: it may; false: what comes after the
 *   first call is broken
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_options_set_parallel_calls(
    struct ember_chat_options *options,
    bool parallel_calls,
    struct ember_error **err);

/**
 * Sets what time it is for templates that write the date.
 *
 * @param options the options to change; not NULL
 * @param seconds seconds since the start of 1970 as the local clock shows them
 *   (universal time plus the zone's offset); by default the system's universal
 *   time
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_options_set_now(
    struct ember_chat_options *options,
    int64_t seconds,
    struct ember_error **err);

/**
 * Sets whether a conversation (ember_conversation_new) constrains calls to the
 * schemas of the tools, so that every call parses. The constraint holds from
 * the mark of a call on, or from the beginning of the answer where a call has
 * to be made. Calls of the form "llama3", which has no mark, are free as long
 * as none has to be made. Ember refuses by name a schema that has what
 * constraints have not, or what the form of calls cannot be held to.
 *
 * @param options the options to change; not NULL
 * @param strict_tools true, the default: it does; false: the calls are left to
 *   the model
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_options_set_strict_tools(
    struct ember_chat_options *options,
    bool strict_tools,
    struct ember_error **err);

/**
 * Sets whether the model thinks before it answers. It sets the variable of the
 * template that switches thinking, which is found in the template itself. Where
 * the template has none, or no value for off, using the options is
 * EMBER_E_UNSUPPORTED.
 *
 * @param options the options to change; not NULL
 * @param thinking an ember_thinking
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_chat_options_set_thinking(
    struct ember_chat_options *options,
    int32_t thinking,
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
 * Receives an event of a reply, on the calling thread. It must return, as
 * ember_event_callback says.
 *
 * @param event the event, valid until the callback returns
 * @param user_data what was given with the callback
 *
 * @return 0 to go on; anything else ends the reply: what came of it becomes no
 *   message
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
     * Tokens that the sequence forgot with them, without running the tokens
     * after them again.
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
 * Says how many turns are dropped where a conversation becomes too long. It
 * runs on the calling thread, and again where what it said was not enough.
 *
 * @param n_tokens how many tokens the conversation needs
 * @param n_ctx how many tokens a sequence holds
 * @param n_turns how many turns can be dropped, at least one
 * @param user_data what was given with the callback
 *
 * @return how many turns are dropped, the oldest first; 0 ends the reply with
 *   EMBER_E_CONTEXT_FULL
 */
typedef uint32_t (*ember_full_callback)(
    uint32_t n_tokens,
    uint32_t n_ctx,
    uint32_t n_turns,
    void *user_data);

/**
 * Makes a conversation in a sequence of a context. Each reply runs only what
 * the sequence does not hold. Use the sequence for nothing else: what others
 * put there has to be run again. **What a user types can never spell a control
 * token**: see ember_chat_tokenize.
 *
 * @param context the context; not NULL
 * @param system the system text, UTF-8; empty: none; may be NULL if
 *   `system_len` is 0
 * @param system_len length of `system` in bytes, or EMBER_NUL_TERMINATED
 * @param chat_options the template, variables, tools and thinking; NULL: the
 *   defaults; add_generation_prompt means nothing here
 * @param generate_options how replies are generated: most tokens, the sequence,
 *   stop strings, a cancel token, a time limit and so on; NULL: the defaults;
 *   echo, shift, ignore_eog and log-probabilities are refused
 * @param out receives the conversation; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_conversation_free.
 *   `chat_options` and `generate_options` may be freed after the call. The
 *   conversation keeps `context` alive.
 * - Threads: Any thread; one call at a time for `context`, `chat_options` and
 *   `generate_options`, a second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_UNSUPPORTED for a model without a template or a tokenizer,
 *   for tools whose calls the template does not write, for thinking that it
 *   cannot switch, and in a build without the feature "chat"; EMBER_E_NOT_FOUND
 *   for a name that no template has; EMBER_E_FORMAT for a broken template;
 *   EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
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
 * Frees a conversation. What its sequence holds stays there.
 *
 * @param conversation the conversation; may be NULL
 *
 * - Threads: Any thread. While a call is using the conversation (from that
 *   call's callback, or on another thread) it is not freed, and the log says
 *   so: free it afterwards.
 */
void ember_conversation_free(struct ember_conversation *conversation);

/**
 * Adds a user's message, has it answered, and hands each event of the reply to
 * a callback. The last event is EMBER_CHAT_EVENT_END; then the reply is a
 * message. A call of a tool ends a reply as a rule: add its result, and ask for
 * the reply to that. On an error, and where the callback ends it, the reply is
 * no message. The user's message stays once its reply began; where it could not
 * begin, it is taken back.
 *
 * @param conversation the conversation; not NULL
 * @param text the user's message, UTF-8; empty: have the messages answered that
 *   were added; may be NULL if `text_len` is 0
 * @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
 * @param sampler chooses the tokens; NULL: greedy
 * @param callback receives each event, on the calling thread; not NULL
 * @param user_data handed to the callback as it is; may be NULL
 * @param out_usage receives what the reply took; set its struct_size first;
 *   NULL: not wanted
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `conversation`, its context and
 *   `sampler`, a second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_CONTEXT_FULL where the conversation does not fit its
 *   sequence, whatever is dropped; EMBER_E_INVALID_ARGUMENT when there is
 *   nothing to reply to, or the template refuses the messages;
 *   EMBER_E_CANCELLED where a token ends the encoding of a prompt of more than
 *   4 KiB; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY. Otherwise a cancel token
 *   is no error: finish_reason says so.
 *
 * @return EMBER_OK, or the status of the error
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
 * Begins the reply to a user's message; its events come from
 * ember_conversation_next. This is the pull form of ember_conversation_send.
 *
 * @param conversation the conversation; not NULL
 * @param text the user's message, UTF-8; empty: have the messages answered that
 *   were added; may be NULL if `text_len` is 0
 * @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
 * @param sampler chooses the tokens; NULL: greedy
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The conversation keeps `sampler` as long as the reply is under
 *   way.
 * - Threads: Any thread; one call at a time for `conversation`, its context and
 *   `sampler`, a second gives EMBER_E_BUSY.
 * - Errors: as ember_conversation_send.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_begin(
    struct ember_conversation *conversation,
    const char *text,
    size_t text_len,
    struct ember_sampler *sampler,
    struct ember_error **err);

/**
 * Writes the next event of a reply. After EMBER_CHAT_EVENT_END it comes again
 * and again; before the first reply the event is EMBER_CHAT_EVENT_NONE. An
 * error leaves the reply where it was: try again, or
 * ember_conversation_abandon.
 *
 * @param conversation the conversation; not NULL
 * @param event receives the event; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: What the event points to stays until the next call with the
 *   conversation.
 * - Threads: Any thread; one call at a time for `conversation`, its context and
 *   the sampler of the reply, a second gives EMBER_E_BUSY.
 * - Errors: as ember_generator_next.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_next(
    struct ember_conversation *conversation,
    struct ember_chat_event *event,
    struct ember_error **err);

/**
 * Gives up a reply that is under way: it becomes no message. Without one the
 * call does nothing.
 *
 * @param conversation the conversation; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `conversation`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_abandon(
    struct ember_conversation *conversation,
    struct ember_error **err);

/**
 * Adds a message without having it answered, such as the result of a tool, or
 * the messages of a conversation that was held elsewhere.
 *
 * @param conversation the conversation; not NULL
 * @param message a JSON object with `role` (system, developer, user, assistant,
 *   tool) and what else the template takes: `content`, `tool_calls`,
 *   `tool_call_id`, `name`; not NULL
 * @param message_len length of `message` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `conversation`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_BUSY while a reply is under way, too;
 *   EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_add(
    struct ember_conversation *conversation,
    const char *message,
    size_t message_len,
    struct ember_error **err);

/**
 * Forgets the last turn: the user's last message and all after it.
 *
 * @param conversation the conversation; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `conversation`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT when there is none; EMBER_E_BUSY while a
 *   reply is under way, too.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_undo(
    struct ember_conversation *conversation,
    struct ember_error **err);

/**
 * Writes all messages so far, those that were dropped included.
 *
 * @param conversation the conversation; not NULL
 * @param buffer receives a JSON array, UTF-8 without NUL; may be NULL if
 *   `capacity` is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `conversation`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_messages(
    const struct ember_conversation *conversation,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Writes what the last reply took.
 *
 * @param conversation the conversation; not NULL
 * @param out receives the counters; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `conversation`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_usage_get(
    const struct ember_conversation *conversation,
    struct ember_conversation_usage *out,
    struct ember_error **err);

/**
 * Copies a conversation into another sequence of the same context, which gets
 * what this one's holds. Both go on by themselves. The callback for a full
 * sequence is not copied.
 *
 * @param conversation the conversation; not NULL
 * @param sequence number of the other sequence
 * @param out receives the copy; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_conversation_free.
 * - Threads: Any thread; one call at a time for `conversation`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a sequence that does not exist;
 *   EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_fork(
    const struct ember_conversation *conversation,
    uint32_t sequence,
    struct ember_conversation **out,
    struct ember_error **err);

/**
 * Writes a conversation as bytes: its messages, and which tokens its sequence
 * holds. Save the sequence too (ember_context_state_save) where it shall not be
 * run again.
 *
 * @param conversation the conversation; not NULL
 * @param buffer receives the bytes; may be NULL if `capacity` is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `conversation`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_BUSY while a reply is under way, too;
 *   EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_save(
    const struct ember_conversation *conversation,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Makes a conversation of saved bytes. Where the sequence does not hold what it
 * held, the next reply runs it again.
 *
 * @param context the context; not NULL
 * @param saved what ember_conversation_save wrote; not NULL
 * @param len number of bytes
 * @param chat_options as for ember_conversation_new; best those that it had;
 *   NULL: the defaults
 * @param generate_options as for ember_conversation_new; best those that it
 *   had; NULL: the defaults
 * @param out receives the conversation; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_conversation_free.
 *   `chat_options` and `generate_options` may be freed after the call. The
 *   conversation keeps `context` alive.
 * - Threads: Any thread; one call at a time for `context`, `chat_options` and
 *   `generate_options`, a second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_FORMAT for bytes that are damaged; EMBER_E_UNSUPPORTED for
 *   those of a later version; else as ember_conversation_new.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_load(
    struct ember_context *context,
    const uint8_t *saved,
    size_t len,
    const struct ember_chat_options *chat_options,
    const struct ember_generate_options *generate_options,
    struct ember_conversation **out,
    struct ember_error **err);

/**
 * Limits the tokens of a thought from now on. Then the thought is closed by the
 * template's own mark, and the answer comes.
 *
 * @param conversation the conversation; not NULL
 * @param n_tokens the most tokens; 0, the default: as many as it takes
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `conversation`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_UNSUPPORTED when the template has no marks of thoughts;
 *   EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_set_thinking_budget(
    struct ember_conversation *conversation,
    uint32_t n_tokens,
    struct ember_error **err);

/**
 * Sets whether replies from now on have to call a tool, in place of what
 * ember_chat_options_set_tool_choice said. A choice holds until another one is
 * set: after a call that was required, set "auto" before the reply to its
 * result, or the model has to call a tool again.
 *
 * @param conversation the conversation; not NULL
 * @param tool_choice as for ember_chat_options_set_tool_choice; may be NULL if
 *   `tool_choice_len` is 0
 * @param tool_choice_len length of `tool_choice` in bytes, or
 *   EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `tool_choice`.
 * - Threads: Any thread; one call at a time for `conversation`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: after which the choice is as before: EMBER_E_BUSY while a reply is
 *   under way, too; EMBER_E_INVALID_ARGUMENT for a tool that the conversation
 *   does not have, and for a call that has to be made where it has no tools;
 *   EMBER_E_UNSUPPORTED where the form of calls or a schema is one that replies
 *   cannot be held to; EMBER_E_UTF8, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_set_tool_choice(
    struct ember_conversation *conversation,
    const char *tool_choice,
    size_t tool_choice_len,
    struct ember_error **err);

/**
 * Sets what happens from now on where the conversation becomes longer than its
 * sequence.
 *
 * @param conversation the conversation; not NULL
 * @param when_full an ember_when_full
 * @param n_reserve how many tokens must be free for a reply when it begins; 0:
 *   max_tokens, and a quarter of the sequence at most
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `conversation`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_set_when_full(
    struct ember_conversation *conversation,
    int32_t when_full,
    uint32_t n_reserve,
    struct ember_error **err);

/**
 * Sets a callback that says how many turns are dropped where the conversation
 * becomes too long. ember_conversation_send and ember_conversation_begin call
 * it.
 *
 * @param conversation the conversation; not NULL
 * @param callback says how many turns are dropped, on the calling thread; NULL:
 *   as few as need be
 * @param user_data handed to the callback as it is; may be NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `callback` and `user_data` must stay valid as long as the
 *   conversation, or until others are set.
 * - Threads: Any thread; one call at a time for `conversation`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_conversation_set_on_full(
    struct ember_conversation *conversation,
    ember_full_callback callback,
    void *user_data,
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
     * The text before the gap, the text after it, the middle; each after its
     * token.
     */
    EMBER_FIM_PSM = 1,
    /**
     * The text after the gap, the text before it, the middle; each after its
     * token.
     */
    EMBER_FIM_SPM = 2,
    /**
     * The tokens of prefix and suffix, the text after the gap, the token of the
     * middle, the text before the gap: what CodeLlama and StarCoder were
     * trained with beside EMBER_FIM_PSM.
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
 * Writes the tokens of a prompt that asks for what stands between two texts.
 * Give the tokens to ember_generator_new_tokens or ember_engine_submit_tokens;
 * what is generated fills the gap. The control tokens are the tokenizer's
 * (ember_tokenizer_info); BOS comes first where it asks for that. Texts spell
 * no control tokens.
 *
 * @param tokenizer the tokenizer; not NULL
 * @param prefix the text in front of the gap, UTF-8; may be NULL if
 *   `prefix_len` is 0
 * @param prefix_len length of `prefix` in bytes, or EMBER_NUL_TERMINATED
 * @param suffix the text after the gap, UTF-8; may be NULL if `suffix_len` is 0
 * @param suffix_len length of `suffix` in bytes, or EMBER_NUL_TERMINATED
 * @param options file names and order; NULL: the defaults
 * @param tokens receives the token ids; may be NULL if `capacity` is 0
 * @param capacity tokens that `tokens` can take; 0 to ask for the number
 * @param n_needed receives how many tokens there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `options` may be freed after the call.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_UNSUPPORTED names the token that a prompt of this kind
 *   needs and the tokenizer lacks; EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8,
 *   EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
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

/**
 * Makes options for a prompt that asks to fill a gap, with their defaults.
 *
 * @param out receives the options; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_fim_options_free.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_fim_options_new(
    struct ember_fim_options **out,
    struct ember_error **err);

/**
 * Frees options.
 *
 * @param options the options; may be NULL
 *
 * - Threads: Any thread; no other call may use the options.
 */
void ember_fim_options_free(struct ember_fim_options *options);

/**
 * Sets in which order the parts of the prompt stand.
 *
 * @param options the options to change; not NULL
 * @param order an ember_fim_order; default: EMBER_FIM_AUTO
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_fim_options_set_order(
    struct ember_fim_options *options,
    int32_t order,
    struct ember_error **err);

/**
 * Sets the name of the repository, which stands first in the prompt.
 *
 * @param options the options to change; not NULL
 * @param name the name, UTF-8; empty, the default: none; may be NULL if
 *   `name_len` is 0
 * @param name_len length of `name` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `name`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_fim_options_set_repository(
    struct ember_fim_options *options,
    const char *name,
    size_t name_len,
    struct ember_error **err);

/**
 * Sets the name of the file that has the gap.
 *
 * @param options the options to change; not NULL
 * @param name the name, UTF-8; empty, the default: none; may be NULL if
 *   `name_len` is 0
 * @param name_len length of `name` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `name`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_fim_options_set_file(
    struct ember_fim_options *options,
    const char *name,
    size_t name_len,
    struct ember_error **err);

/**
 * Adds another file, to stand before the one with the gap, in the order of the
 * calls; 4096 at most.
 *
 * @param options the options to change; not NULL
 * @param name the name of the file, UTF-8; may be NULL if `name_len` is 0
 * @param name_len length of `name` in bytes, or EMBER_NUL_TERMINATED
 * @param text its text, UTF-8; may be NULL if `text_len` is 0
 * @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `name` and `text`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_fim_options_add_file(
    struct ember_fim_options *options,
    const char *name,
    size_t name_len,
    const char *text,
    size_t text_len,
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
 * ember_request_free(request);
 * ember_engine_free(engine);
 * @endcode
 * @{
 */

/** As a time to wait in milliseconds: without end. */
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
 * Makes an engine over a model, with a context of its own. It takes its large
 * buffers here: as much as ember_memory_estimate says of a context whose n_seq
 * is n_parallel.
 *
 * @param model the model; not NULL
 * @param options how to make it; NULL: the defaults
 * @param out receives the engine; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_engine_free. `options` may be
 *   freed after the call. The engine keeps the model alive.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for options that contradict the model;
 *   EMBER_E_UNSUPPORTED for an encoder, and for a thread where there are none;
 *   EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_engine_new(
    struct ember_model *model,
    const struct ember_engine_options *options,
    struct ember_engine **out,
    struct ember_error **err);

/**
 * Ends all requests as cancelled, waits for the engine's own thread if it has
 * one, and frees the engine. The KV cache goes with it.
 *
 * @param engine the engine; may be NULL
 *
 * - Ownership: Requests stay, with the events that were not taken, until they
 *   are freed themselves, in any order.
 * - Threads: Any thread. While a call of ember_engine_step is under way (in one
 *   of its callbacks, or on another thread) the engine is not freed, and the
 *   log says so: free it afterwards.
 */
void ember_engine_free(struct ember_engine *engine);

/**
 * Has a prompt continued, together with other requests. The prompt is the whole
 * text: it is tokenized here (BOS included) and waits in the queue. A request
 * gives what it would give alone (with keys and values in EMBER_KV_F32, but for
 * the last digits of log-probabilities). **A prompt made by
 * ember_chat_apply_template needs ember_generate_options_set_parse_special.** A
 * prompt for which the whole KV cache has too few pages
 * (ember_context_options_set_kv_limit) ends with EMBER_FINISH_CONTEXT_FULL and
 * no token when its turn comes.
 *
 * @param engine the engine; not NULL
 * @param prompt the prompt, UTF-8, not empty; not NULL
 * @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
 * @param options how to generate; NULL: the defaults; of them the sequence and
 *   reuse_prefix mean nothing here
 * @param sampler chooses the tokens; NULL: greedy; requests that shall differ
 *   need samplers of different seeds, since Ember takes a copy, random state
 *   and all (ember_sampler_clone), in which the prompt takes the place of all
 *   that was accepted
 * @param callback receives each event, on the thread that does the step: a
 *   caller of ember_engine_step or ember_request_next, or the engine's own;
 *   NULL: take the events with ember_request_next
 * @param user_data handed to the callback as it is; may be NULL
 * @param out receives the request; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_request_free. `options` may
 *   be freed after the call. `sampler` is copied. `user_data` must stay valid
 *   until the last event, EMBER_EVENT_END, or until the callback returned
 *   non-zero.
 * - Threads: Any thread, and callbacks too; one call at a time for `options`
 *   and `sampler`, a second gives EMBER_E_BUSY. A callback that waits for this
 *   engine's steps gets EMBER_E_BUSY.
 * - Errors: EMBER_E_QUEUE_FULL when as many requests wait as may;
 *   EMBER_E_CONTEXT_FULL for a prompt of more than n_ctx tokens;
 *   EMBER_E_INVALID_ARGUMENT for an empty prompt; EMBER_E_UNSUPPORTED without a
 *   tokenizer; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
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
 * Has a prompt of token ids continued, together with other requests; see
 * ember_engine_submit. Nothing is added to the prompt.
 *
 * @param engine the engine; not NULL
 * @param tokens the token ids of the prompt, at least one; not NULL
 * @param n_tokens number of `tokens`
 * @param options how to generate; NULL: the defaults
 * @param sampler chooses the tokens; NULL: greedy
 * @param callback receives each event, on the thread that does the step; NULL:
 *   take the events with ember_request_next
 * @param user_data handed to the callback as it is; may be NULL
 * @param out receives the request; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_request_free. `options` may
 *   be freed after the call. `sampler` is copied. `user_data` must stay valid
 *   until the last event, EMBER_EVENT_END, or until the callback returned
 *   non-zero.
 * - Threads: Any thread, and callbacks too; one call at a time for `options`
 *   and `sampler`, a second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; else as
 *   ember_engine_submit.
 *
 * @return EMBER_OK, or the status of the error
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
 * Writes the next event of a request. While it waits and no other thread does
 * the engine's steps, it does them, so that a host needs no other thread; a
 * step that has begun is done to its end, which may be later than the timeout.
 * After EMBER_EVENT_END it comes again and again. Of a request with a callback
 * it is the only event, and comes when the callback is not called any more.
 *
 * @param request the request; not NULL
 * @param timeout_ms milliseconds to wait for an event; 0: not at all;
 *   EMBER_FOREVER: without end
 * @param event receives the event, EMBER_EVENT_NONE when there was none in
 *   time; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: What the event points to stays until the next call with the
 *   request, or its free.
 * - Threads: Any thread; one call at a time for `request`, a second gives
 *   EMBER_E_BUSY, and so does a callback of the step under way.
 * - Errors: what ended the request, after its events, and then each time;
 *   EMBER_E_BUSY; EMBER_E_INVALID_ARGUMENT.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_request_next(
    struct ember_request *request,
    uint32_t timeout_ms,
    struct ember_event *event,
    struct ember_error **err);

/**
 * Ends a request with the engine's next step, as EMBER_FINISH_CANCELLED. A step
 * under way is done to its end, unless all requests that it runs tokens of are
 * cancelled: then it ends before the model's next layer.
 *
 * @param request the request; NULL, or what is no request, is left alone
 *
 * - Threads: Any thread, also several at the same time.
 */
void ember_request_cancel(const struct ember_request *request);

/**
 * Writes what a request did so far. Its finish_reason is EMBER_FINISH_NONE
 * before the end. Its nanoseconds are those of the steps that it was part of.
 *
 * @param request the request; not NULL
 * @param out receives the counters; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_request_usage(
    const struct ember_request *request,
    struct ember_generate_result *out,
    struct ember_error **err);

/**
 * Frees a request. One that has not ended is cancelled, and its callback gets
 * EMBER_EVENT_END with the engine's next step.
 *
 * @param request the request; may be NULL
 *
 * - Threads: Any thread. While a call is using the request (on another thread)
 *   it is not freed, and the log says so: free it afterwards.
 */
void ember_request_free(struct ember_request *request);

/**
 * Does one step on the calling thread: a batch with the next token of each
 * request that runs, and chunks of prompts. Callbacks and requests get its
 * events. A pump is a thread that calls this in a loop, with a timeout after
 * which it looks whether the host has it stop: nothing but a request ends a
 * longer wait. What ends a single request is reported to that request.
 *
 * @param engine the engine; not NULL
 * @param timeout_ms milliseconds to wait for something to do, and for another
 *   thread that does a step; 0: not at all; EMBER_FOREVER: without end
 * @param out_more receives whether there is more to do now; NULL: not wanted
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_BUSY when another thread does steps all the while, the
 *   engine has a thread of its own, or the caller is a callback of the step
 *   under way; EMBER_E_INVALID_ARGUMENT.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_engine_step(
    struct ember_engine *engine,
    uint32_t timeout_ms,
    bool *out_more,
    struct ember_error **err);

/**
 * Writes what an engine has done since it was made, and how things stand.
 *
 * @param engine the engine; not NULL
 * @param out receives the counters; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_engine_metrics_get(
    const struct ember_engine *engine,
    struct ember_engine_metrics *out,
    struct ember_error **err);

/**
 * Writes the options in force in the engine's context. n_ctx are the positions
 * of each request, for its prompt and what is generated; n_seq is how many
 * requests run together.
 *
 * @param engine the engine; not NULL
 * @param out receives them; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_engine_info_get(
    const struct ember_engine *engine,
    struct ember_context_info *out,
    struct ember_error **err);

/**
 * Makes options for an engine, with their defaults.
 *
 * @param out receives the options; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_engine_options_free.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_engine_options_new(
    struct ember_engine_options **out,
    struct ember_error **err);

/**
 * Frees options. Engines made with them stay as they are.
 *
 * @param options the options; may be NULL
 *
 * - Threads: Any thread; no other call may use the options.
 */
void ember_engine_options_free(struct ember_engine_options *options);

/**
 * Sets how the engine's context is made: n_ctx is the positions of each
 * request, n_batch the most rows of a step (prompts get 32 in any case);
 * kv_limit and threads are as in a context. The number of sequences, and
 * whether prefixes are kept, are the engine's own options.
 *
 * @param options the options to change; not NULL
 * @param context_options the options; default: those of
 *   ember_context_options_new; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `context_options`.
 * - Threads: Any thread; one call at a time for `options` and
 *   `context_options`, a second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_engine_options_set_context_options(
    struct ember_engine_options *options,
    const struct ember_context_options *context_options,
    struct ember_error **err);

/**
 * Sets how many requests run together. More give more tokens in all, fewer to
 * each.
 *
 * @param options the options to change; not NULL
 * @param n_parallel 1 to 4096; default: 8
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_engine_options_set_n_parallel(
    struct ember_engine_options *options,
    uint32_t n_parallel,
    struct ember_error **err);

/**
 * Sets how many requests may wait until one of those that run has ended; more
 * are refused with EMBER_E_QUEUE_FULL. A request waits until the next step in
 * any case.
 *
 * @param options the options to change; not NULL
 * @param max_queue requests, at least 1; default: 256
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_engine_options_set_max_queue(
    struct ember_engine_options *options,
    uint32_t max_queue,
    struct ember_error **err);

/**
 * Sets whether requests that begin alike, such as with the same system prompt,
 * share what was computed for the first of them, as long as it is in the cache.
 * What they give does not change.
 *
 * @param options the options to change; not NULL
 * @param share_prefixes true, the default: they do; false: each is computed
 *   alone
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_engine_options_set_share_prefixes(
    struct ember_engine_options *options,
    bool share_prefixes,
    struct ember_error **err);

/**
 * Sets which threads do the engine's steps.
 *
 * @param options the options to change; not NULL
 * @param thread true: one of the engine's own, on which callbacks then run;
 *   false, the default: the caller's threads, in ember_engine_step and
 *   ember_request_next
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_engine_options_set_thread(
    struct ember_engine_options *options,
    bool thread,
    struct ember_error **err);

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
 * float vectors[2 * 384]; // n_embd_out of ember_model_info for each text
 * status = ember_embed(context, texts, NULL, 2, NULL, vectors, 2 * 384, &n,
 *                      &err);
 * @endcode
 * @{
 */

/**
 * Makes vectors of texts. A text gets the special tokens that the model's texts
 * begin and end with; the text of a control token is plain text. Texts run in
 * batches of as many as fit n_batch, without padding. The tokens and logits of
 * the context's sequences stay as they are, and texts cannot use their pages.
 * Encoders see a text as a whole, so there it may have n_batch tokens at most
 * (if n_batch was not set, that is n_ctx up to 65536). A folder of
 * sentence-transformers may name a default prompt, which is put before each
 * text, and a max_seq_length, which a text may have at most.
 *
 * @param context the context; not NULL
 * @param texts the texts, UTF-8; may be NULL if `n_texts` is 0
 * @param lengths length of each text in bytes; NULL: each ends at its NUL
 * @param n_texts number of `texts`
 * @param options pooling and so on; NULL: the defaults
 * @param vectors receives the vectors in the order of the texts, each of
 *   n_embd_out numbers (ember_model_info), or as many as
 *   ember_embed_options_set_dimensions says; with EMBER_POOLING_NONE n_embd
 *   numbers for each token of each text; may be NULL if `capacity` is 0
 * @param capacity numbers that `vectors` can take; 0 to ask for the number
 * @param n_needed receives how many numbers there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `options` may be freed after the call.
 * - Threads: Any thread; one call at a time for `context` and `options`, a
 *   second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_CONTEXT_FULL for a text that is too long, and
 *   EMBER_E_INVALID_ARGUMENT for a text without any token and for a vector that
 *   would hold NaN or infinity (the model's weights overflow), each by the
 *   text's index; EMBER_E_UNSUPPORTED for a model without a tokenizer;
 *   EMBER_E_CANCELLED by the context's token; EMBER_E_IO when the model's file
 *   can no longer be read; EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL,
 *   EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
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
 * Makes vectors of texts that are token ids already; see ember_embed. Nothing
 * is added to them, no prompt either.
 *
 * @param context the context; not NULL
 * @param tokens the token ids of all texts, one text after the other; may be
 *   NULL if `n_tokens` is 0
 * @param n_tokens number of `tokens`, of all texts together
 * @param lengths number of tokens of each text; not NULL
 * @param n_texts number of texts, and of `lengths`
 * @param options pooling and so on; NULL: the defaults
 * @param vectors receives the vectors in the order of the texts, as from
 *   ember_embed; may be NULL if `capacity` is 0
 * @param capacity numbers that `vectors` can take; 0 to ask for the number
 * @param n_needed receives how many numbers there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `options` may be freed after the call.
 * - Threads: Any thread; one call at a time for `context` and `options`, a
 *   second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for lengths that do not add up to
 *   `n_tokens`, and for a token that does not exist; else as ember_embed;
 *   EMBER_E_BUFFER_TOO_SMALL.
 *
 * @return EMBER_OK, or the status of the error
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

/**
 * Makes options for embedding, with their defaults.
 *
 * @param out receives the options; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_embed_options_free.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_embed_options_new(
    struct ember_embed_options **out,
    struct ember_error **err);

/**
 * Frees options.
 *
 * @param options the options; may be NULL
 *
 * - Threads: Any thread; no other call may use the options.
 */
void ember_embed_options_free(struct ember_embed_options *options);

/**
 * Sets which hidden states make a text's vector.
 *
 * @param options the options to change; not NULL
 * @param pooling an ember_pooling; default: EMBER_POOLING_AUTO
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_embed_options_set_pooling(
    struct ember_embed_options *options,
    int32_t pooling,
    struct ember_error **err);

/**
 * Sets whether each vector is scaled to length 1, so that the dot product of
 * two is their cosine similarity.
 *
 * @param options the options to change; not NULL
 * @param normalize true: it is; false: it is not; default: true for one vector
 *   per text, unless the modules.json of a folder lists no Normalize, and false
 *   for one per token
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_embed_options_set_normalize(
    struct ember_embed_options *options,
    bool normalize,
    struct ember_error **err);

/**
 * Sets whether Ember cuts a text that is too long instead of refusing it. It
 * takes the first tokens (ember_embed: and the special token at the end): as
 * many as a text may have and as the free pages of the KV cache hold, if that
 * is one at least.
 *
 * @param options the options to change; not NULL
 * @param truncate true: the text is cut; false, the default: the call fails
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_embed_options_set_truncate(
    struct ember_embed_options *options,
    bool truncate,
    struct ember_error **err);

/**
 * Sets how many numbers of each vector are kept: the first ones. Models that
 * were trained for it (Matryoshka) give shorter vectors so. Where vectors are
 * scaled to length 1, that comes afterwards. ember_embed refuses more numbers
 * than a vector has (n_embd_out of ember_model_info).
 *
 * @param options the options to change; not NULL
 * @param dimensions numbers of a vector; 0, the default: all
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_embed_options_set_dimensions(
    struct ember_embed_options *options,
    size_t dimensions,
    struct ember_error **err);

/**
 * Sets the prompt that ember_embed puts before each text, by its name. Prompts
 * and their names, such as "query" and "document", are in the
 * config_sentence_transformers.json of a folder; GGUF files have none.
 * ember_embed refuses a name that the model does not have, with the names that
 * there are.
 *
 * @param options the options to change; not NULL
 * @param name the name, UTF-8; empty, the default: the model's default prompt,
 *   if it has one; may be NULL if `length` is 0
 * @param length length of `name` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `name`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_embed_options_set_prompt(
    struct ember_embed_options *options,
    const char *name,
    size_t length,
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
 * Gives each of several texts a score for each label of the model. Texts run
 * together, as with ember_embed. The context's sequences stay as they are.
 *
 * @param context the context; not NULL
 * @param texts the texts, UTF-8; may be NULL if `n_texts` is 0
 * @param lengths length of each text in bytes; NULL: each ends at its NUL
 * @param n_texts number of `texts`
 * @param options the activation and so on; NULL: the defaults
 * @param scores receives, for each text in order, a number for each label
 *   (ember_model_label); may be NULL if `capacity` is 0
 * @param capacity scores that `scores` can take; 0 to ask for the number
 * @param n_needed receives how many scores there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `options` may be freed after the call.
 * - Threads: Any thread; one call at a time for `context` and `options`, a
 *   second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_UNSUPPORTED for a model without a head that scores texts,
 *   or without a tokenizer; EMBER_E_CONTEXT_FULL for a text that is too long,
 *   by its index; EMBER_E_CANCELLED by the context's token; EMBER_E_IO when the
 *   model's file can no longer be read; EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8,
 *   EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
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
 * Gives each of several documents a score for how well it answers a query, the
 * higher the better. Encoders read a pair as they were trained to (`[CLS] query
 * [SEP] document [SEP]` with token types for BERT), decoders after the prompt
 * of the model (ember_classify_options_set_template). Texts spell no control
 * tokens. Pairs run together, as texts do with ember_embed. The context's
 * sequences stay as they are.
 *
 * @param context the context; not NULL
 * @param query the query, UTF-8; not NULL
 * @param query_len length of `query` in bytes, or EMBER_NUL_TERMINATED
 * @param documents the documents, UTF-8; may be NULL if `n_documents` is 0
 * @param lengths length of each text in bytes; NULL: each ends at its NUL
 * @param n_documents number of `documents`
 * @param options the activation and so on; NULL: the defaults
 * @param scores receives a number for each document, in their order; may be
 *   NULL if `capacity` is 0
 * @param capacity scores that `scores` can take; 0 to ask for the number
 * @param n_needed receives how many scores there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `options` may be freed after the call.
 * - Threads: Any thread; one call at a time for `context` and `options`, a
 *   second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_UNSUPPORTED for a model that has no head, or one with
 *   several labels of which none is "yes"; else as ember_classify;
 *   EMBER_E_BUFFER_TOO_SMALL.
 *
 * @return EMBER_OK, or the status of the error
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
 * Counts the labels of a model that scores texts: the scores of a text.
 *
 * @param model the model; not NULL
 * @param out receives the number of labels; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_UNSUPPORTED for a model without a head that scores texts;
 *   EMBER_E_INVALID_ARGUMENT.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_label_count(
    const struct ember_model *model,
    size_t *out,
    struct ember_error **err);

/**
 * Writes the name of a label.
 *
 * @param model the model; not NULL
 * @param index number of the label, from 0
 * @param buffer receives the name as the model's source has it, UTF-8 without
 *   NUL; a label without a name is `LABEL_0` and so on; may be NULL if
 *   `capacity` is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for an index that is too large;
 *   EMBER_E_UNSUPPORTED for a model without a head that scores texts;
 *   EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_label(
    const struct ember_model *model,
    size_t index,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Makes options for classifying and reranking, with their defaults.
 *
 * @param out receives the options; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: The caller frees `*out` with ember_classify_options_free.
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_classify_options_new(
    struct ember_classify_options **out,
    struct ember_error **err);

/**
 * Frees options.
 *
 * @param options the options; may be NULL
 *
 * - Threads: Any thread; no other call may use the options.
 */
void ember_classify_options_free(struct ember_classify_options *options);

/**
 * Sets what is done to the outputs of the model's head.
 *
 * @param options the options to change; not NULL
 * @param activation an ember_classify_activation; default: EMBER_CLASSIFY_AUTO
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_classify_options_set_activation(
    struct ember_classify_options *options,
    int32_t activation,
    struct ember_error **err);

/**
 * Sets whether Ember cuts a text that is too long instead of refusing it. Of a
 * query and a document, it leaves the end of the document out.
 *
 * @param options the options to change; not NULL
 * @param truncate true: the text is cut; false, the default: the call fails
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_classify_options_set_truncate(
    struct ember_classify_options *options,
    bool truncate,
    struct ember_error **err);

/**
 * Sets the prompt of rerankers that are decoders. Encoders have no prompt.
 *
 * @param options the options to change; not NULL
 * @param template_text a text with the places `{query}` and `{document}`, each
 *   once, in which texts of control tokens stand for these tokens. Empty, the
 *   default: the model's `tokenizer.chat_template.rerank`, or Qwen3-Reranker's
 *   where a model of that architecture has none; may be NULL if `template_len`
 *   is 0
 * @param template_len length of `template_text` in bytes, or
 *   EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: Ember copies `template_text`.
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_classify_options_set_template(
    struct ember_classify_options *options,
    const char *template_text,
    size_t template_len,
    struct ember_error **err);

/**
 * Sets whether a model without a head is asked for "yes" or "no", and its score
 * is the probability of "yes". Qwen3-Reranker's original folder is such a
 * model; Ember recognizes it by its name too.
 *
 * @param options the options to change; not NULL
 * @param yes_no true: it is asked; false, the default: it is not
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `options`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_classify_options_set_yes_no(
    struct ember_classify_options *options,
    bool yes_no,
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
 * Scores how likely a continuation is after a prompt: the log-probability of
 * each of its tokens given all before it. Both together are tokenized as one
 * text, with the special tokens that texts begin with (BOS). Scored are the
 * tokens from the first on that is not one of the prompt's alone. The sequence
 * keeps what it has in common with the prompt and forgets the rest. Afterwards
 * it holds all but the last token, so that scoring many continuations of one
 * prompt runs the prompt once. Memory for logits does not grow with the text.
 *
 * @param context the context; not NULL
 * @param prompt the prompt, UTF-8; an empty one needs a model that begins texts
 *   with BOS; may be NULL if `prompt_len` is 0
 * @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
 * @param continuation the continuation, UTF-8; may be NULL if
 *   `continuation_len` is 0
 * @param continuation_len length of `continuation` in bytes, or
 *   EMBER_NUL_TERMINATED
 * @param options of them the sequence, parse_special and the cancel token
 *   count; NULL: the defaults
 * @param scores receives the score of each token of the continuation; may be
 *   NULL if `capacity` is 0
 * @param capacity scores that `scores` can take; 0 to ask for the number
 * @param n_needed receives the number of scores, also with
 *   EMBER_E_BUFFER_TOO_SMALL; NULL: they are not wanted, and `scores` is not
 *   looked at
 * @param out_result receives the sums; set its struct_size first; NULL: not
 *   wanted
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `options` may be freed after the call.
 * - Threads: Any thread; one call at a time for `context` and `options`, a
 *   second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT when there is no token to score or none
 *   before it; EMBER_E_CONTEXT_FULL for more than n_ctx tokens, and one (the
 *   last is not run), or when no page is left; EMBER_E_CANCELLED by the cancel
 *   token; EMBER_E_UNSUPPORTED for an encoder or a model without a tokenizer;
 *   EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM, EMBER_E_BUSY. For
 *   too many tokens, and with EMBER_E_BUFFER_TOO_SMALL, the sequence is as
 *   before; after other errors it has forgotten what it had not in common.
 *
 * @return EMBER_OK, or the status of the error
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
 * Scores how likely the last of given tokens are; see ember_score. Nothing is
 * added to the tokens. The model needs no tokenizer.
 *
 * @param context the context; not NULL
 * @param tokens the token ids of the prompt and the continuation; may be NULL
 *   if `n_tokens` is 0
 * @param n_tokens number of `tokens`
 * @param n_prompt how many of them are the prompt, at least one
 * @param options of them the sequence and the cancel token count; NULL: the
 *   defaults
 * @param scores receives the score of each token of the continuation; may be
 *   NULL if `capacity` is 0
 * @param capacity scores that `scores` can take; 0 to ask for the number
 * @param n_needed receives the number of scores, also with
 *   EMBER_E_BUFFER_TOO_SMALL; NULL: they are not wanted, and `scores` is not
 *   looked at
 * @param out_result receives the sums; set its struct_size first; NULL: not
 *   wanted
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `options` may be freed after the call.
 * - Threads: Any thread; one call at a time for `context` and `options`, a
 *   second gives EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; else as
 *   ember_score; EMBER_E_BUFFER_TOO_SMALL.
 *
 * @return EMBER_OK, or the status of the error
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
 * Takes the next bytes of a state, on the calling thread.
 *
 * @param data the bytes, valid until the callback returns
 * @param len number of bytes
 * @param user_data what was given with the callback
 *
 * @return 0 to go on; anything else ends the saving with EMBER_E_CANCELLED
 */
typedef int32_t (*ember_write_callback)(
    const uint8_t *data,
    size_t len,
    void *user_data);

/**
 * Gives the next bytes of a state, on the calling thread.
 *
 * @param buffer where to write the bytes
 * @param capacity the most bytes to write
 * @param user_data what was given with the callback
 *
 * @return the number of bytes written; 0 at the end; a negative number ends the
 *   loading with EMBER_E_CANCELLED
 */
typedef int64_t (*ember_read_callback)(
    uint8_t *buffer,
    size_t capacity,
    void *user_data);

/**
 * Writes the state of a sequence, or of a whole context, as bytes. A state
 * holds tokens, KV cache, and the logits of the last token where they are
 * there. Loaded in another process with the same model it goes on with the same
 * bits. It holds no sampler: the host keeps what that has accepted, and its
 * random state.
 *
 * @param context the context; not NULL
 * @param sequence number of the sequence, or EMBER_ALL_SEQUENCES for the whole
 *   context
 * @param buffer receives the state; may be NULL if `capacity` is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist;
 *   EMBER_E_UNSUPPORTED for an encoder; EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_state_save(
    const struct ember_context *context,
    uint32_t sequence,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Loads the state of a sequence, or of a whole context, from bytes. Ember looks
 * at the whole state before anything changes: on an error all is as it was. Its
 * checksum finds damage, not malice: load only states of your own. Ember
 * distinguishes models by their dimensions, keys and tensors' names, and by
 * some bytes of each tensor, not by all. With
 * ember_context_options_set_keep_prefixes no other sequence begins with pages
 * that came with the state of one sequence. Where the cache has the same
 * beginning already, its pages take the place of the state's.
 *
 * @param context the context; not NULL
 * @param sequence number of the sequence, for the state of one; or
 *   EMBER_ALL_SEQUENCES for the state of a context, where sequences that the
 *   state does not have become empty
 * @param data the state, as ember_context_state_save wrote it; not NULL
 * @param len number of bytes
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_FORMAT for a damaged state; EMBER_E_INVALID_ARGUMENT for
 *   one of another model, of another kind of KV cache, and for more or longer
 *   sequences than the context has; EMBER_E_UNSUPPORTED for one of a later
 *   version, and for an encoder; EMBER_E_CONTEXT_FULL when the KV cache has too
 *   few pages left; EMBER_E_NOMEM, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_state_load(
    struct ember_context *context,
    uint32_t sequence,
    const uint8_t *data,
    size_t len,
    struct ember_error **err);

/**
 * Writes the state of a sequence, or of a whole context, to a file; see
 * ember_context_state_save. Ember writes the state beside the file and puts it
 * in the file's place when it is whole and on disk. Whatever fails (a full
 * disk, say), a file that was there before is as it was. Its permissions stay,
 * and so does a symbolic link to it. A process that is killed meanwhile leaves
 * the file beside it (`.ember-` and more, `.tmp`), which goes when a state is
 * saved to `path` again.
 *
 * @param context the context; not NULL
 * @param sequence number of the sequence, or EMBER_ALL_SEQUENCES for the whole
 *   context
 * @param path the file, UTF-8; not NULL
 * @param path_len length of `path` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_IO, for a folder, pipe or device at `path` too;
 *   EMBER_E_INVALID_ARGUMENT when the sequence does not exist;
 *   EMBER_E_UNSUPPORTED for an encoder; EMBER_E_UTF8, EMBER_E_NOMEM,
 *   EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_state_save_file(
    const struct ember_context *context,
    uint32_t sequence,
    const char *path,
    size_t path_len,
    struct ember_error **err);

/**
 * Loads the state of a sequence, or of a whole context, from a file; see
 * ember_context_state_load.
 *
 * @param context the context; not NULL
 * @param sequence number of the sequence, or EMBER_ALL_SEQUENCES for the state
 *   of a whole context
 * @param path the file, UTF-8; not NULL
 * @param path_len length of `path` in bytes, or EMBER_NUL_TERMINATED
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_IO for a file that cannot be read; EMBER_E_UTF8; else as
 *   ember_context_state_load.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_state_load_file(
    struct ember_context *context,
    uint32_t sequence,
    const char *path,
    size_t path_len,
    struct ember_error **err);

/**
 * Hands the state of a sequence, or of a whole context, to a callback, part by
 * part; see ember_context_state_save. Ember holds no copy of the state.
 *
 * @param context the context; not NULL
 * @param sequence number of the sequence, or EMBER_ALL_SEQUENCES for the whole
 *   context
 * @param callback takes the parts, on the calling thread; not NULL
 * @param user_data handed to the callback as it is; may be NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_CANCELLED by the callback; EMBER_E_INVALID_ARGUMENT when
 *   the sequence does not exist; EMBER_E_UNSUPPORTED for an encoder;
 *   EMBER_E_NOMEM; EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_context_state_write(
    const struct ember_context *context,
    uint32_t sequence,
    ember_write_callback callback,
    void *user_data,
    struct ember_error **err);

/**
 * Loads the state of a sequence, or of a whole context, from a callback, which
 * Ember calls until it gives no more; see ember_context_state_load. Ember holds
 * the state in memory until it is found to be whole.
 *
 * @param context the context; not NULL
 * @param sequence number of the sequence, or EMBER_ALL_SEQUENCES for the state
 *   of a whole context
 * @param callback gives the parts, on the calling thread; not NULL
 * @param user_data handed to the callback as it is; may be NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_CANCELLED by the callback; EMBER_E_INVALID_ARGUMENT when it
 *   returns more bytes than it was asked for; else as ember_context_state_load.
 *
 * @return EMBER_OK, or the status of the error
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

/**
 * Counts the metadata keys of a model.
 *
 * @param model the model; not NULL
 * @param out receives the number of keys; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_meta_count(
    const struct ember_model *model,
    size_t *out,
    struct ember_error **err);

/**
 * Writes the name of a metadata key.
 *
 * @param model the model; not NULL
 * @param index number of the key in the order of the file, from 0
 * @param buffer receives the name, without NUL; may be NULL if `capacity` is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for an index that is too large;
 *   EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_meta_key(
    const struct ember_model *model,
    size_t index,
    uint8_t *buffer,
    size_t capacity,
    size_t *n_needed,
    struct ember_error **err);

/**
 * Writes the type of a metadata key, numbered as in GGUF files.
 *
 * @param model the model; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param out receives the type: 0 uint8, 1 int8, 2 uint16, 3 int16, 4 uint32, 5
 *   int32, 6 float32, 7 bool, 8 string, 9 array, 10 uint64, 11 int64, 12
 *   float64; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for a key that is not there;
 *   EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_meta_type(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    uint32_t *out,
    struct ember_error **err);

/**
 * Reads a metadata key that is a string.
 *
 * @param model the model; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param buffer receives the bytes as in the file, without NUL; may be NULL if
 *   `capacity` is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for a key that is not there;
 *   EMBER_E_INVALID_ARGUMENT for a key of another type; EMBER_E_UTF8,
 *   EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
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
 * Reads a metadata key that is an integer, as 64 unsigned bits.
 *
 * @param model the model; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param out receives the value; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for a key that is not there;
 *   EMBER_E_INVALID_ARGUMENT for a key of another type or a value that does not
 *   fit; EMBER_E_UTF8, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_meta_u64(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    uint64_t *out,
    struct ember_error **err);

/**
 * Reads a metadata key that is an integer, as 64 signed bits.
 *
 * @param model the model; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param out receives the value; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for a key that is not there;
 *   EMBER_E_INVALID_ARGUMENT for a key of another type or a value that does not
 *   fit; EMBER_E_UTF8, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_meta_i64(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    int64_t *out,
    struct ember_error **err);

/**
 * Reads a metadata key that is a floating-point number.
 *
 * @param model the model; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param out receives the value; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for a key that is not there;
 *   EMBER_E_INVALID_ARGUMENT for a key of another type; EMBER_E_UTF8,
 *   EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_meta_f64(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    double *out,
    struct ember_error **err);

/**
 * Reads a metadata key that is a boolean.
 *
 * @param model the model; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param out receives the value; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for a key that is not there;
 *   EMBER_E_INVALID_ARGUMENT for a key of another type; EMBER_E_UTF8,
 *   EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_meta_bool(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    bool *out,
    struct ember_error **err);

/**
 * Writes the type and the number of the elements of an array.
 *
 * @param model the model; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param element_type receives the type, numbered as by ember_model_meta_type;
 *   9 for an array of arrays, whose elements no function reads; not NULL
 * @param n_elements receives the number of elements; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for a key that is not there;
 *   EMBER_E_INVALID_ARGUMENT for a key that is no array; EMBER_E_UTF8,
 *   EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_meta_array(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    uint32_t *element_type,
    size_t *n_elements,
    struct ember_error **err);

/**
 * Reads an element of an array of strings.
 *
 * @param model the model; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param index number of the element, from 0
 * @param buffer receives the bytes as in the file, without NUL; may be NULL if
 *   `capacity` is 0
 * @param capacity bytes that `buffer` can take; 0 to ask for the number
 * @param n_needed receives how many bytes there are, also with
 *   EMBER_E_BUFFER_TOO_SMALL; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for a key or an element that is not there;
 *   EMBER_E_INVALID_ARGUMENT for a key of another type; EMBER_E_UTF8,
 *   EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
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
 * Reads an element of an array of integers, as 64 unsigned bits.
 *
 * @param model the model; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param index number of the element, from 0
 * @param out receives the value; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for a key or an element that is not there;
 *   EMBER_E_INVALID_ARGUMENT for a key of another type or a value that does not
 *   fit; EMBER_E_UTF8, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_meta_array_u64(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    size_t index,
    uint64_t *out,
    struct ember_error **err);

/**
 * Reads an element of an array of integers, as 64 signed bits.
 *
 * @param model the model; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param index number of the element, from 0
 * @param out receives the value; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for a key or an element that is not there;
 *   EMBER_E_INVALID_ARGUMENT for a key of another type or a value that does not
 *   fit; EMBER_E_UTF8, EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_meta_array_i64(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    size_t index,
    int64_t *out,
    struct ember_error **err);

/**
 * Reads an element of an array of floating-point numbers.
 *
 * @param model the model; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param index number of the element, from 0
 * @param out receives the value; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for a key or an element that is not there;
 *   EMBER_E_INVALID_ARGUMENT for a key of another type; EMBER_E_UTF8,
 *   EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_meta_array_f64(
    const struct ember_model *model,
    const char *key,
    size_t key_len,
    size_t index,
    double *out,
    struct ember_error **err);

/**
 * Reads an element of an array of booleans.
 *
 * @param model the model; not NULL
 * @param key the name of the key, UTF-8; not NULL
 * @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
 * @param index number of the element, from 0
 * @param out receives the value; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_NOT_FOUND for a key or an element that is not there;
 *   EMBER_E_INVALID_ARGUMENT for a key of another type; EMBER_E_UTF8,
 *   EMBER_E_NOMEM.
 *
 * @return EMBER_OK, or the status of the error
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
 * estimate says it before anything is loaded.
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
 * Computes what a model and one context over it would take, without loading the
 * model. Ember reads little more than the header. A memory limit of the bytes
 * in `out` is enough for both.
 *
 * @param path as for ember_model_load, UTF-8; not NULL
 * @param path_len length of `path` in bytes, or EMBER_NUL_TERMINATED
 * @param model_options how the model would be loaded; NULL: the defaults; a
 *   limit in them does not count
 * @param context_options how the context would be made; NULL: the defaults; a
 *   limit in them does not count
 * @param out receives the bytes; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Ownership: `model_options` and `context_options` may be freed after the
 *   call.
 * - Threads: Any thread; one call at a time for `model_options` and
 *   `context_options`, a second gives EMBER_E_BUSY.
 * - Errors: as ember_model_load and ember_context_new, but for a lack of memory
 *   and for what "supported" of ember_model_inspect does not look at.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_memory_estimate(
    const char *path,
    size_t path_len,
    const struct ember_model_options *model_options,
    const struct ember_context_options *context_options,
    struct ember_memory *out,
    struct ember_error **err);

/**
 * Writes what a model takes, without its contexts.
 *
 * @param model the model; not NULL
 * @param out receives the bytes; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread, also several at the same time.
 * - Errors: EMBER_E_INVALID_ARGUMENT.
 *
 * @return EMBER_OK, or the status of the error
 */
ember_status ember_model_memory(
    const struct ember_model *model,
    struct ember_memory *out,
    struct ember_error **err);

/**
 * Writes what a context takes, and its model.
 *
 * @param context the context; not NULL
 * @param out receives the bytes; set its struct_size first; not NULL
 * @param err receives an error that the caller frees, or NULL on EMBER_OK; may
 *   be NULL
 *
 * - Threads: Any thread; one call at a time for `context`, a second gives
 *   EMBER_E_BUSY.
 * - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
 *
 * @return EMBER_OK, or the status of the error
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

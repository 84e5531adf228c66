/* What the example programs share: reading the command line and standard input, writing numbers, telling what went wrong;
 * and for those that write text, loading a model, sampling, and the options for both.
 *
 * Exit codes: 0 success, 1 Ember or the operating system refused, 2 the command line is wrong. */
#ifndef EMBER_EXAMPLES_COMMON_H
#define EMBER_EXAMPLES_COMMON_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#include <windows.h>
#include <shellapi.h>
#endif

#include "ember.h"

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2 };

/* Windows gives programs arguments in its own encoding and as UTF-16. Ember takes UTF-8, as does the console from here on. */
static inline void use_utf8(int *argc, char ***argv)
{
#ifdef _WIN32
    int n = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &n);
    char **arguments = wide == NULL ? NULL : calloc((size_t)n + 1, sizeof *arguments);
    for (int i = 0; arguments != NULL && i < n; i++) {
        const int len = WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, NULL, 0, NULL, NULL);
        arguments[i] = malloc((size_t)len + 1);
        if (arguments[i] == NULL || WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, arguments[i], len, NULL, NULL) != len)
            exit(EXIT_REFUSED);
    }
    if (arguments != NULL)
        *argc = n, *argv = arguments;
    SetConsoleCP(CP_UTF8);
    SetConsoleOutputCP(CP_UTF8);
#else
    (void)argc, (void)argv;
#endif
}

/* Ends the program over a wrong command line, with a sentence made as by printf. */
static inline void usage_error(const char *program, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s: ", program);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nTry \"%s --help\".\n", program);
    exit(EXIT_USAGE);
}

/* Prints Ember's sentence, frees the error and returns the exit code for it. */
static inline int refused(const char *program, ember_error *err)
{
    fprintf(stderr, "%s: %s\n", program, ember_error_message(err));
    ember_error_free(err);
    return EXIT_REFUSED;
}

/* Reads digits alone (no sign, no space, nothing after) as a number of at most `max`; 0 when they are none. */
static inline int read_unsigned(const char *text, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    if (*text == '\0')
        return 0;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return 0;
        uint64_t digit = (uint64_t)(*text - '0');
        if (value > (max - digit) / 10)
            return 0;
        value = value * 10 + digit;
    }
    *out = value;
    return 1;
}

/* The value after option number *i, which the caller has at argv[*i]; ends the program when there is none. */
static inline const char *option_value(int argc, char **argv, int *i)
{
    if (*i + 1 >= argc)
        usage_error(argv[0], "the option %s needs a value after it", argv[*i]);
    return argv[++*i];
}

/* The value after option number *i as an integer from 0 to `max`. */
static inline uint64_t option_unsigned(int argc, char **argv, int *i, uint64_t max)
{
    const char *option = argv[*i];
    const char *value = option_value(argc, argv, i);
    uint64_t number = 0;
    if (!read_unsigned(value, max, &number))
        usage_error(argv[0], "the option %s takes an integer from 0 to %llu, not \"%s\"", option,
                    (unsigned long long)max, value);
    return number;
}

/* The value after option number *i as a number from `min` to `max`. */
static inline float option_float(int argc, char **argv, int *i, double min, double max)
{
    const char *option = argv[*i];
    const char *value = option_value(argc, argv, i);
    char *end = NULL;
    double number = strtod(value, &end);
    if (end == value || *end != '\0' || !(number >= min && number <= max))
        usage_error(argv[0], "the option %s takes a number from %g to %g, not \"%s\"", option, min, max, value);
    return (float)number;
}

/* Flushes and checks a stream that was written to; 0 on failure, after a sentence that names it. */
static inline int written(const char *program, FILE *stream, const char *name)
{
    if (fflush(stream) == 0 && !ferror(stream))
        return 1;
    fprintf(stderr, "%s: cannot write to %s: %s\n", program, name, strerror(errno));
    return 0;
}

/* Allocates `n` elements of `size` bytes; ends the program when the memory is short. */
static inline void *grow(void *memory, size_t n, size_t size)
{
    void *more = n == 0 || n > SIZE_MAX / size ? NULL : realloc(memory, n * size);
    if (more == NULL) {
        fprintf(stderr, "no memory for %lu bytes\n", (unsigned long)n);
        exit(EXIT_REFUSED);
    }
    return more;
}

/* All of standard input and a NUL after it, for the caller to free. */
static inline char *read_input(const char *program, size_t *len)
{
    size_t capacity = 4096;
    char *text = grow(NULL, capacity, 1);
    *len = 0;
    for (;;) {
        *len += fread(text + *len, 1, capacity - *len - 1, stdin);
        if (*len < capacity - 1)
            break;
        capacity *= 2;
        text = grow(text, capacity, 1);
    }
    if (ferror(stdin)) {
        fprintf(stderr, "%s: cannot read standard input: %s\n", program, strerror(errno));
        exit(EXIT_REFUSED);
    }
    text[*len] = '\0';
    return text;
}

/* Writes `n` numbers as little-endian bytes, whatever the machine's byte order. 0 when the stream fails. */
static inline int write_floats(FILE *file, const float *numbers, size_t n)
{
    unsigned char bytes[4096];
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &numbers[i], sizeof bits);
        for (int shift = 0; shift < 32; shift += 8)
            bytes[used++] = (unsigned char)(bits >> shift);
        if (used == sizeof bytes || i + 1 == n) {
            if (fwrite(bytes, 1, used, file) != used)
                return 0;
            used = 0;
        }
    }
    return 1;
}

/* What programs that write text print about the model, its context and the sampler. */
struct text_settings {
    const char *model;
    uint32_t n_tokens;
    float temperature;
    uint32_t top_k;
    float top_p;
    uint64_t seed;
    uint32_t n_threads;
    uint32_t n_ctx;
};

/* Reads option number *i if it is one of those; 0 when it is another one. */
static inline int read_text_option(struct text_settings *s, int argc, char **argv, int *i)
{
    const char *arg = argv[*i];
    if (strcmp(arg, "-m") == 0)
        s->model = option_value(argc, argv, i);
    else if (strcmp(arg, "-n") == 0)
        s->n_tokens = (uint32_t)option_unsigned(argc, argv, i, UINT32_MAX);
    else if (strcmp(arg, "--temp") == 0)
        s->temperature = option_float(argc, argv, i, 0, 1000);
    else if (strcmp(arg, "--top-k") == 0)
        s->top_k = (uint32_t)option_unsigned(argc, argv, i, UINT32_MAX);
    else if (strcmp(arg, "--top-p") == 0)
        s->top_p = option_float(argc, argv, i, 1e-6, 1);
    else if (strcmp(arg, "--seed") == 0)
        s->seed = option_unsigned(argc, argv, i, UINT64_MAX);
    else if (strcmp(arg, "-t") == 0)
        s->n_threads = (uint32_t)option_unsigned(argc, argv, i, 512);
    else if (strcmp(arg, "-c") == 0)
        s->n_ctx = (uint32_t)option_unsigned(argc, argv, i, INT32_MAX);
    else
        return 0;
    return 1;
}

/* Loads the model; the token ends that. */
static inline ember_status text_model(const struct text_settings *s, const ember_cancel_token *cancel, ember_model **out,
                                      ember_error **err)
{
    ember_model_options *options = NULL;
    ember_status status = ember_model_options_new(&options, err);
    if (status == EMBER_OK)
        status = ember_model_options_set_cancel_token(options, cancel, err);
    if (status == EMBER_OK)
        status = ember_model_load(s->model, EMBER_NUL_TERMINATED, options, out, err);
    ember_model_options_free(options);
    return status;
}

/* A context of the model: with the scalar backend if `scalar`. */
static inline ember_status text_context(const struct text_settings *s, int scalar, const ember_model *model,
                                        ember_context **out, ember_error **err)
{
    ember_context_options *options = NULL;
    ember_status status = ember_context_options_new(&options, err);
    if (status == EMBER_OK)
        status = ember_context_options_set_n_ctx(options, s->n_ctx, err);
    if (status == EMBER_OK)
        status = ember_context_options_set_n_threads(options, s->n_threads, err);
    if (status == EMBER_OK && scalar)
        status = ember_context_options_set_backend(options, EMBER_BACKEND_SCALAR, err);
    if (status == EMBER_OK)
        status = ember_context_new(model, options, out, err);
    ember_context_options_free(options);
    return status;
}

/* The stages in the order top-k, top-p, temperature. */
static inline ember_status text_sampler(const struct text_settings *s, ember_sampler **out, ember_error **err)
{
    ember_status status = ember_sampler_new(s->seed, out, err);
    if (status == EMBER_OK)
        status = ember_sampler_add_top_k(*out, s->top_k, err);
    if (status == EMBER_OK)
        status = ember_sampler_add_top_p(*out, s->top_p, err);
    if (status == EMBER_OK)
        status = ember_sampler_add_temperature(*out, s->temperature, err);
    return status;
}

#if defined _POSIX_C_SOURCE || defined _WIN32
/* A seed that is another one every microsecond. */
static inline uint64_t seed_from_clock(void)
{
#ifdef _WIN32
    FILETIME ticks;
    GetSystemTimeAsFileTime(&ticks);
    return ticks.dwLowDateTime;
#else
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u) & UINT32_MAX;
#endif
}
#endif

#endif

/* Streams tokens with ember_generator_next and tells what a token costs inside the library and beside it, as the benchmark
 * BenchmarkStream of the Go package does: "bench/stream MODEL TOKENS ROUNDS". The text is copied, as a program would. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ember.h"

static uint64_t now_ns(void)
{
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void check(ember_status status, ember_error **err)
{
    if (status != EMBER_OK) {
        fprintf(stderr, "%s\n", ember_error_message(*err));
        exit(1);
    }
}

enum { MAX_SAMPLES = 1 << 20 };

/* Nanoseconds of every token, inside the library and beside it. */
static double inside[MAX_SAMPLES], beside[MAX_SAMPLES];
static size_t n_samples;

static void stream(ember_context *context, uint32_t n)
{
    static char text[1 << 16];
    ember_error *err = NULL;
    ember_generate_options *options = NULL;
    ember_generator *generator = NULL;
    ember_event event = {.struct_size = sizeof event};
    ember_generate_result result = {.struct_size = sizeof result};
    uint64_t before = 0;
    check(ember_context_rewind(context, 0, 0, &err), &err);
    check(ember_generate_options_new(&options, &err), &err);
    check(ember_generate_options_set_max_tokens(options, n, &err), &err);
    check(ember_generate_options_set_ignore_eog(options, true, &err), &err);
    check(ember_generator_new(context, "Once upon a time", EMBER_NUL_TERMINATED, options, NULL, &generator, &err), &err);
    do {
        uint64_t start = now_ns();
        check(ember_generator_next(generator, &event, &err), &err);
        memcpy(text, event.text, event.text_len < sizeof text ? event.text_len : sizeof text);
        uint64_t wall = now_ns() - start;
        check(ember_generator_usage(generator, &result, &err), &err);
        uint64_t library = result.decode_ns + result.prefill_ns - before;
        before += library;
        if (n_samples < MAX_SAMPLES) {
            inside[n_samples] = (double)library;
            beside[n_samples++] = (double)wall - (double)library;
        }
    } while (event.kind != EMBER_EVENT_END);
    ember_generator_free(generator);
    ember_generate_options_free(options);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, n_samples, sizeof *values, by_size);
    return values[n_samples / 2];
}

int main(int argc, char **argv)
{
    ember_error *err = NULL;
    ember_model *model = NULL;
    ember_context *context = NULL;
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL TOKENS ROUNDS\n", argv[0]);
        return 2;
    }
    check(ember_model_load(argv[1], EMBER_NUL_TERMINATED, NULL, &model, &err), &err);
    check(ember_context_new(model, NULL, &context, &err), &err);
    for (int i = 0; i < atoi(argv[3]); i++)
        stream(context, (uint32_t)atoi(argv[2]));
    printf("medians: %.0f ns/token-inside, %.0f ns/token-beside\n", median(inside), median(beside));
    ember_context_free(context);
    ember_model_release(model);
    return 0;
}

#define _POSIX_C_SOURCE 200809L
#include "overhead.h"

#include <string.h>
#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int overhead_stream(struct ember_context *context, const char *prompt, uint32_t n_tokens, double *inside, double *beside)
{
    static char text[1 << 16];
    ember_generate_options *options = NULL;
    ember_generator *generator = NULL;
    ember_event event = {.struct_size = sizeof event};
    ember_generate_result result = {.struct_size = sizeof result};
    int n = -1;
    if (ember_generate_options_new(&options, NULL) == EMBER_OK &&
        ember_generate_options_set_max_tokens(options, n_tokens, NULL) == EMBER_OK &&
        ember_generate_options_set_ignore_eog(options, true, NULL) == EMBER_OK &&
        ember_generate_options_set_reuse_prefix(options, true, NULL) == EMBER_OK &&
        ember_generator_new(context, prompt, EMBER_NUL_TERMINATED, options, NULL, &generator, NULL) == EMBER_OK &&
        ember_generator_next(generator, &event, NULL) == EMBER_OK) { /* runs the prompt */
        uint64_t before = 0;
        if (ember_generator_usage(generator, &result, NULL) == EMBER_OK) {
            before = result.decode_ns;
            n = 0;
        }
        while (n >= 0 && event.kind != EMBER_EVENT_END) {
            uint64_t start = now_ns();
            ember_status status = ember_generator_next(generator, &event, NULL);
            memcpy(text, event.text, event.text_len < sizeof text ? event.text_len : sizeof text);
            uint64_t wall = now_ns() - start;
            if (status != EMBER_OK || ember_generator_usage(generator, &result, NULL) != EMBER_OK) {
                n = -1;
            } else if (event.kind == EMBER_EVENT_TOKEN && n < (int)n_tokens) {
                inside[n] = (double)(result.decode_ns - before);
                beside[n++] = (double)wall - (double)(result.decode_ns - before);
            }
            before = result.decode_ns;
        }
    }
    ember_generator_free(generator);
    ember_generate_options_free(options);
    return n;
}

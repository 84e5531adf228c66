#include "../../../Sources/CEmber/shim.h"

/* Streams n_tokens tokens after `prompt` with ember_generator_next, from the token after the prompt's on, and writes for
 * each the nanoseconds inside the library and beside it. The text is copied, as a program would. Returns the number of
 * tokens written, at most n_tokens; -1 when the library refused. */
int overhead_stream(struct ember_context *context, const char *prompt, uint32_t n_tokens, double *inside, double *beside);

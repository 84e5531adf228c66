// Calls that may lead to a stage of a sampler that is a Go function. `raised` receives the cgo.Handle of how it failed, or 0.
#ifndef EMBER_GO_CALLBACK_H
#define EMBER_GO_CALLBACK_H

#include <ember.h>

int32_t ember_go_candidates(const uint32_t *tokens, float *logits, size_t n, void *user_data);
ember_status ember_go_sample(ember_sampler *sampler, const float *logits, size_t n, uint32_t *out, uintptr_t *raised,
                             ember_error **err);
ember_status ember_go_next(ember_generator *generator, ember_event *event, uintptr_t *raised, ember_error **err);
ember_status ember_go_completions(ember_completions *completions, ember_event *event, uint32_t *index, uintptr_t *raised,
                                  ember_error **err);
ember_status ember_go_reply(ember_conversation *conversation, ember_chat_event *event, uintptr_t *raised, ember_error **err);

// Whether this thread is an engine's and runs a stage.
bool ember_go_on_engine(void);

// Callbacks whose arguments are const, which those that Go exports are not.
int32_t ember_go_event(const ember_event *event, void *user_data);
int32_t ember_go_write(const uint8_t *data, size_t len, void *user_data);

#endif

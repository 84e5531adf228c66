#include "callback.h"

extern uintptr_t emberGoCandidates(uint32_t *tokens, float *logits, size_t n, void *user_data);
extern void emberGoEvent(ember_event *event, uintptr_t raised, void *user_data);
extern int32_t emberGoWrite(uint8_t *data, size_t len, void *user_data);

// Of the innermost call on this thread. A sampler's clones share the Go function and may run at once, so it is no place for it.
static _Thread_local uintptr_t failure;

// How many calls of ember_go_sample, ember_go_next, ember_go_completions and ember_go_reply are under way on this thread. A stage outside of them is one of an engine.
static _Thread_local unsigned own_calls;

// How many stages of an engine are under way on this thread. Calls of its own that such a stage makes leave it as it is.
static _Thread_local unsigned engine_stages;

bool ember_go_on_engine(void)
{
    return engine_stages > 0;
}

int32_t ember_go_candidates(const uint32_t *tokens, float *logits, size_t n, void *user_data)
{
    unsigned of_engine = own_calls == 0;
    engine_stages += of_engine;
    uintptr_t failed = emberGoCandidates((uint32_t *)tokens, logits, n, user_data);
    engine_stages -= of_engine;
    failure = failed;
    return failed != 0;
}

ember_status ember_go_sample(ember_sampler *sampler, const float *logits, size_t n, uint32_t *out, uintptr_t *raised,
                             ember_error **err)
{
    uintptr_t outer = failure;
    failure = 0;
    own_calls++;
    ember_status status = ember_sampler_sample(sampler, logits, n, out, err);
    own_calls--;
    *raised = failure;
    failure = outer;
    return status;
}

ember_status ember_go_next(ember_generator *generator, ember_event *event, uintptr_t *raised, ember_error **err)
{
    uintptr_t outer = failure;
    failure = 0;
    own_calls++;
    ember_status status = ember_generator_next(generator, event, err);
    own_calls--;
    *raised = failure;
    failure = outer;
    return status;
}

ember_status ember_go_completions(ember_completions *completions, ember_event *event, uint32_t *index, uintptr_t *raised,
                                  ember_error **err)
{
    uintptr_t outer = failure;
    failure = 0;
    own_calls++;
    ember_status status = ember_completions_next(completions, event, index, err);
    own_calls--;
    *raised = failure;
    failure = outer;
    return status;
}

ember_status ember_go_reply(ember_conversation *conversation, ember_chat_event *event, uintptr_t *raised, ember_error **err)
{
    uintptr_t outer = failure;
    failure = 0;
    own_calls++;
    ember_status status = ember_conversation_next(conversation, event, err);
    own_calls--;
    *raised = failure;
    failure = outer;
    return status;
}

int32_t ember_go_event(const ember_event *event, void *user_data)
{
    // What a stage of this request left on this thread, if that is what ended it: its event comes right after.
    uintptr_t failed = failure;
    failure = 0;
    emberGoEvent((ember_event *)event, failed, user_data);
    return 0;
}

int32_t ember_go_write(const uint8_t *data, size_t len, void *user_data)
{
    return emberGoWrite((uint8_t *)data, len, user_data);
}

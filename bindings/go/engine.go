package ember

/*
#include "callback.h"
*/
import "C"

import (
	"context"
	"iter"
	"time"
)

// Engine runs many generations on one model together, which takes far less time than one after the other. Requests wait in a
// queue of bounded length, in order of their priority; each gives what it would give alone. Any number of goroutines may use an
// engine at once.
//
// All work is done by one thread of the engine's own and the threads of its context. Goroutines that wait for events wait as
// for a channel: they hold no threads of the system.
type Engine struct {
	h    *handle[*C.ember_engine]
	info ContextInfo
}

// EngineOption is an option of [Model.NewEngine].
type EngineOption struct {
	apply func(*C.ember_engine_options) error
}

// engineSetting is an option that one call of the library sets.
func engineSetting(set func(*C.ember_engine_options, **C.ember_error) C.ember_status) EngineOption {
	return EngineOption{func(o *C.ember_engine_options) error {
		var cerr *C.ember_error
		return check(set(o, &cerr), &cerr)
	}}
}

// WithParallel sets how many requests run together, 1 to 4096; by default 8. More give more tokens in all, fewer to each.
func WithParallel(n int) EngineOption {
	return EngineOption{func(o *C.ember_engine_options) error {
		n, err := number("the number of requests that run together", n)
		if err != nil {
			return err
		}
		var cerr *C.ember_error
		return check(C.ember_engine_options_set_n_parallel(o, n, &cerr), &cerr)
	}}
}

// WithMaxQueue sets how many requests may wait, at least 1, until one of those that run has ended; more are refused with
// [ErrQueueFull]. By default 256.
func WithMaxQueue(n int) EngineOption {
	return EngineOption{func(o *C.ember_engine_options) error {
		n, err := number("the length of the queue", n)
		if err != nil {
			return err
		}
		var cerr *C.ember_error
		return check(C.ember_engine_options_set_max_queue(o, n, &cerr), &cerr)
	}}
}

// WithSharedPrefixes says whether requests that begin alike, such as with the same system prompt, share what was computed for the
// first of them, as long as it is in the cache. Their results do not change. By default true.
func WithSharedPrefixes(share bool) EngineOption {
	return engineSetting(func(o *C.ember_engine_options, err **C.ember_error) C.ember_status {
		return C.ember_engine_options_set_share_prefixes(o, C.bool(share), err)
	})
}

// WithContextOptions says how the engine's context is made: [WithSize] sets the positions of each request, [WithBatch] the rows
// of a step, [WithKVLimit] the memory. The number of its sequences and whether it keeps prefixes are the engine's own matter.
func WithContextOptions(options ...ContextOption) EngineOption {
	return EngineOption{func(o *C.ember_engine_options) error {
		context, err := newContextOptions(options)
		if err != nil {
			return err
		}
		defer C.ember_context_options_free(context)
		var cerr *C.ember_error
		return check(C.ember_engine_options_set_context_options(o, context, &cerr), &cerr)
	}}
}

// NewEngine makes an engine over the model.
func (m *Model) NewEngine(options ...EngineOption) (*Engine, error) {
	model, err := m.h.use()
	if err != nil {
		return nil, err
	}
	defer m.h.done()
	var cerr *C.ember_error
	var o *C.ember_engine_options
	if err := check(C.ember_engine_options_new(&o, &cerr), &cerr); err != nil {
		return nil, err
	}
	defer C.ember_engine_options_free(o)
	for _, option := range options {
		if err := applied(option.apply, o); err != nil {
			return nil, err
		}
	}
	if err := check(C.ember_engine_options_set_thread(o, true, &cerr), &cerr); err != nil {
		return nil, err
	}
	var p *C.ember_engine
	if err := check(C.ember_engine_new(model, o, &p, &cerr), &cerr); err != nil {
		return nil, err
	}
	// The last use may end in a stage on the engine's own thread, where the library does not free it.
	e := &Engine{h: newHandleApart(p, func(p *C.ember_engine) { C.ember_engine_free(p) })}
	own(e, e.h)
	info := C.ember_context_info{struct_size: C.sizeof_ember_context_info}
	if err := check(C.ember_engine_info_get(p, &info, &cerr), &cerr); err != nil {
		e.Close()
		return nil, err
	}
	e.info = toContextInfo(&info)
	return e, nil
}

// Info tells the options in force in the engine's context, also after Close. Size is the number of positions of a request, for
// its prompt and what is generated. Sequences is how many requests run together.
func (e *Engine) Info() ContextInfo { return e.info }

// Close ends all requests as cancelled, once calls of Submit and Metrics that are under way have ended, and waits until the
// engine and its thread are gone, whoever closed it first. In a [StageFunc] of a request it does not wait: the engine ends once
// the stage has returned.
func (e *Engine) Close() error {
	if e.h == nil {
		return nil
	}
	e.h.close()
	if !C.ember_go_on_engine() {
		<-e.h.freed
	}
	return nil
}

// Submit has prompt continued, which is the whole text, and gives the request at once. It waits in the queue and runs together
// with others; when the queue is full the error is [ErrQueueFull]. Ending ctx ends the request with the engine's next step. A
// sampler is copied as it is, random state and all: requests that shall differ need samplers of different seeds.
// [WithSequence] and [WithReusePrefix] mean nothing here.
func (e *Engine) Submit(ctx context.Context, prompt string, options ...GenerateOption) (*Request, error) {
	return e.submit(ctx, options, func(s submission, out **C.ember_request, err **C.ember_error) C.ember_status {
		text, n := chars(prompt)
		return C.ember_engine_submit(s.engine, text, n, s.options, s.sampler, s.callback, s.user, out, err)
	})
}

// SubmitTokens is Submit for a prompt of tokens, to which nothing is added.
func (e *Engine) SubmitTokens(ctx context.Context, prompt []Token, options ...GenerateOption) (*Request, error) {
	return e.submit(ctx, options, func(s submission, out **C.ember_request, err **C.ember_error) C.ember_status {
		return C.ember_engine_submit_tokens(s.engine, elements[C.uint32_t](prompt), C.size_t(len(prompt)), s.options, s.sampler,
			s.callback, s.user, out, err)
	})
}

// Generate submits a request and yields its events as they come; each range over the result is a request of its own.
//
//	for event, err := range engine.Generate(ctx, "Once upon a time") {
//
// The last pair is an [EventEnd], or an error, or both, as of [Context.Generate]. Leaving the loop early ends the request.
func (e *Engine) Generate(ctx context.Context, prompt string, options ...GenerateOption) iter.Seq2[Event, error] {
	return events(func() (*Request, error) { return e.Submit(ctx, prompt, options...) })
}

// GenerateTokens is Generate for a prompt of tokens, to which nothing is added.
func (e *Engine) GenerateTokens(ctx context.Context, prompt []Token, options ...GenerateOption) iter.Seq2[Event, error] {
	return events(func() (*Request, error) { return e.SubmitTokens(ctx, prompt, options...) })
}

// Complete submits a request and waits for its end. With an error it gives what there was until then.
func (e *Engine) Complete(ctx context.Context, prompt string, options ...GenerateOption) (Completion, error) {
	return complete(e.Generate(ctx, prompt, options...))
}

// EngineMetrics is what an engine has done since it was made, and how things stand.
type EngineMetrics struct {
	Submitted int64 // requests that were taken
	Refused   int64 // requests that were refused with ErrQueueFull
	Finished  int64 // requests that ended by themselves, by a stop text, or where the context was full
	Cancelled int64 // requests that were cancelled, or ended by their time limit
	Failed    int64 // requests that an error ended
	Preempted int64 // how often a request gave its pages up for others and was run again later

	PromptTokens    int64 // of the prompts of requests that generated
	ReusedTokens    int64 // of these, those that were in the cache already
	PrefilledTokens int64 // of prompts that were run, those that were run again included
	GeneratedTokens int64
	Steps           int64         // that ran something
	Busy            time.Duration // spent in steps

	TokensPerSecond float64 // generated, for each second spent in steps
	CacheHitRate    float64 // reused of prompt tokens, 0 to 1

	Queued    int // requests that wait
	Active    int // requests that run
	Pages     int // of the KV cache
	FreePages int // that no request has; the cache may keep prefixes in them until they are needed
}

// Metrics tells what the engine has done.
func (e *Engine) Metrics() (EngineMetrics, error) {
	p, err := e.h.use()
	if err != nil {
		return EngineMetrics{}, err
	}
	defer e.h.done()
	var cerr *C.ember_error
	m := C.ember_engine_metrics{struct_size: C.sizeof_ember_engine_metrics}
	err = check(C.ember_engine_metrics_get(p, &m, &cerr), &cerr)
	return EngineMetrics{
		Submitted:       int64(m.n_submitted),
		Refused:         int64(m.n_refused),
		Finished:        int64(m.n_finished),
		Cancelled:       int64(m.n_cancelled),
		Failed:          int64(m.n_failed),
		Preempted:       int64(m.n_preempted),
		PromptTokens:    int64(m.n_prompt),
		ReusedTokens:    int64(m.n_reused),
		PrefilledTokens: int64(m.n_prefilled),
		GeneratedTokens: int64(m.n_generated),
		Steps:           int64(m.n_steps),
		Busy:            time.Duration(m.busy_ns),
		TokensPerSecond: float64(m.tokens_per_s),
		CacheHitRate:    float64(m.cache_hit_rate),
		Queued:          int(m.n_queued),
		Active:          int(m.n_active),
		Pages:           int(m.n_pages),
		FreePages:       int(m.n_free_pages),
	}, err
}

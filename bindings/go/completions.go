package ember

/*
#include "callback.h"
*/
import "C"

import (
	"context"
	"io"
	"runtime"
)

// Completions are several completions of one prompt under way, which take turns, a token each. Completion i is in sequence s+i of the
// context, where s is that of [WithSequence], and draws with the sampler's seed + i.
type Completions struct {
	h       *handle[*C.ember_completions]
	context *Context
	token   *cancelToken
	ctx     context.Context
	stop    *stopper
	event   C.ember_event // written by the library, guarded by h
	index   C.uint32_t
	cerr    *C.ember_error
	raised  C.uintptr_t
	ended   error // why, of cancelled ones
}

// NewCompletions prepares n completions of a prompt, which the first Next runs once for all. The context needs as many sequences
// ([WithSequences]). Ending ctx ends them.
func (c *Context) NewCompletions(ctx context.Context, prompt string, n int, options ...GenerateOption) (*Completions, error) {
	return c.newCompletions(ctx, n, options, func(p *C.ember_context, n C.uint32_t, o *C.ember_generate_options, s *C.ember_sampler, out **C.ember_completions) error {
		var cerr *C.ember_error
		text, length := chars(prompt)
		return check(C.ember_completions_new(p, text, length, n, o, s, out, &cerr), &cerr)
	})
}

// NewCompletionsTokens is NewCompletions for a prompt of tokens, to which nothing is added.
func (c *Context) NewCompletionsTokens(ctx context.Context, prompt []Token, n int, options ...GenerateOption) (*Completions, error) {
	return c.newCompletions(ctx, n, options, func(p *C.ember_context, n C.uint32_t, o *C.ember_generate_options, s *C.ember_sampler, out **C.ember_completions) error {
		var cerr *C.ember_error
		return check(C.ember_completions_new_tokens(p, elements[C.uint32_t](prompt), C.size_t(len(prompt)), n, o, s, out, &cerr), &cerr)
	})
}

func (c *Context) newCompletions(ctx context.Context, n int, options []GenerateOption,
	call func(*C.ember_context, C.uint32_t, *C.ember_generate_options, *C.ember_sampler, **C.ember_completions) error) (*Completions, error) {
	count, err := number("the number of completions", n)
	if err != nil {
		return nil, err
	}
	config, err := newGenerateConfig(options)
	if err != nil {
		return nil, err
	}
	defer config.free()
	var sampler *C.ember_sampler
	functions := &callees{}
	if config.sampler != nil {
		if sampler, err = config.sampler.h.use(); err != nil {
			return nil, err
		}
		defer config.sampler.h.done()
	}
	token, err := newCancelToken()
	if err != nil {
		return nil, err
	}
	var cerr *C.ember_error
	err = check(C.ember_generate_options_set_cancel_token(config.options, token.pointer, &cerr), &cerr)
	if err == nil && ctx.Err() != nil {
		err = cancelled(ctx)
	}
	var p *C.ember_completions
	if err == nil {
		err = c.with(func(context *C.ember_context) error {
			done, err := config.draft.lendTo(c)
			if err != nil {
				return err
			}
			defer done()
			return call(context, count, config.options, sampler, &p)
		})
	}
	if err != nil {
		token.close()
		return nil, err
	}
	if config.sampler != nil {
		functions = config.sampler.callees.retain()
	}
	s := &Completions{
		h: newHandle(p, func(p *C.ember_completions) {
			C.ember_completions_free(p)
			functions.release()
		}),
		context: c,
		token:   token,
		ctx:     ctx,
		stop:    &stopper{watch(ctx, token)},
		event:   C.ember_event{struct_size: C.sizeof_ember_event},
	}
	own(s, s.h)
	own(s, s.token)
	runtime.AddCleanup(s, func(stop *stopper) { stop.stop() }, s.stop)
	return s, nil
}

// Next gives the next event and which completion it is of, from 0 on. Each completion ends with one EventEnd; when all have ended the
// error is [io.EOF]. When ctx has ended, each EventEnd comes with an error that is [ErrCancelled] and the cause of ctx.
func (s *Completions) Next() (int, Event, error) {
	none := Event{Token: NoToken, Finish: FinishNone}
	p, err := s.h.useAlone()
	if err != nil {
		return 0, none, err
	}
	defer s.h.done()
	// The context is theirs for this call.
	if _, err := s.context.h.useAlone(); err != nil {
		return 0, none, err
	}
	defer s.context.h.done()
	if err := check(C.ember_go_completions(p, &s.event, &s.index, &s.raised, &s.cerr), &s.cerr); err != nil {
		return 0, none, settled(s.raised, err)
	}
	if s.event.kind == C.EMBER_EVENT_NONE {
		return 0, none, io.EOF
	}
	index, event := int(s.index), eventOf(&s.event)
	if event.Kind == EventEnd {
		usage, err := completionUsage(p, s.index)
		if err != nil {
			return index, event, err
		}
		event.Usage = &usage
		if event.Finish == FinishCancelled {
			if s.ended == nil {
				s.ended = settled(s.raised, cancelled(s.ctx))
			}
			return index, event, s.ended
		}
	}
	return index, event, nil
}

// Finish takes all events that are left. It is the first error that came with one.
func (s *Completions) Finish() error {
	for {
		_, _, err := s.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Text gives the text of a completion so far.
func (s *Completions) Text(index int) (string, error) {
	n, err := number("the completion", index)
	if err != nil {
		return "", err
	}
	p, err := s.h.useAlone()
	if err != nil {
		return "", err
	}
	defer s.h.done()
	text, err := fill(256, func(buffer []byte, needed *C.size_t) error {
		var cerr *C.ember_error
		return check(C.ember_completions_text(p, n, elements[C.uint8_t](buffer), C.size_t(len(buffer)), needed, &cerr), &cerr)
	})
	return string(text), err
}

// Usage tells what a completion did so far.
func (s *Completions) Usage(index int) (Usage, error) {
	n, err := number("the completion", index)
	if err != nil {
		return Usage{Finish: FinishNone}, err
	}
	p, err := s.h.useAlone()
	if err != nil {
		return Usage{Finish: FinishNone}, err
	}
	defer s.h.done()
	return completionUsage(p, n)
}

func completionUsage(p *C.ember_completions, index C.uint32_t) (Usage, error) {
	return usage(func(out *C.ember_generate_result, err **C.ember_error) C.ember_status {
		return C.ember_completions_usage(p, index, out, err)
	})
}

// Rank gives all completions by the mean log-probability of their tokens, the likeliest first, when all have ended. It needs
// [WithLogprobs].
func (s *Completions) Rank() ([]int, error) {
	p, err := s.h.useAlone()
	if err != nil {
		return nil, err
	}
	defer s.h.done()
	order, err := fill(8, func(buffer []uint32, needed *C.size_t) error {
		var cerr *C.ember_error
		return check(C.ember_completions_rank(p, elements[C.uint32_t](buffer), C.size_t(len(buffer)), needed, &cerr), &cerr)
	})
	if err != nil {
		return nil, err
	}
	out := make([]int, len(order))
	for i, index := range order {
		out[i] = int(index)
	}
	return out, nil
}

// Close frees the completions. What was generated stays in the context's sequences.
func (s *Completions) Close() error {
	if s.stop != nil {
		s.stop.stop()
	}
	s.h.close()
	s.token.close()
	return nil
}

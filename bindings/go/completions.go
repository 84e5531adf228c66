package ember

/*
#include "callback.h"
*/
import "C"

import (
	"context"
	"io"
)

// Completions are several completions of one prompt under way, which take turns, a token each. Completion i is in sequence s+i of the
// context, where s is that of [WithSequence], and draws with the sampler's seed + i.
type Completions struct{ running[*C.ember_completions] }

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
	s := &Completions{}
	err = s.begin(c, ctx, options, func(p *C.ember_context, o *C.ember_generate_options, sampler *C.ember_sampler, out **C.ember_completions) error {
		return call(p, count, o, sampler, out)
	}, func(p *C.ember_completions) { C.ember_completions_free(p) })
	if err != nil {
		return nil, err
	}
	s.draft = nil // the library makes no draft tokens for completions
	s.step = func(p *C.ember_completions) C.ember_status {
		return C.ember_go_completions(p, &s.event, &s.index, &s.raised, &s.cerr)
	}
	s.running.usage = func(p *C.ember_completions) (Usage, error) { return completionUsage(p, s.index) }
	keep(s, &s.running)
	return s, nil
}

// Next gives the next event and which completion it is of, from 0 on. Each completion ends with one EventEnd; when all have ended the
// error is [io.EOF]. When ctx has ended, each EventEnd comes with an error that is [ErrCancelled] and the cause of ctx.
func (s *Completions) Next() (int, Event, error) {
	index, event, err := s.next()
	if err == nil && event.Kind == C.EMBER_EVENT_NONE {
		return 0, Event{Token: NoToken, Finish: FinishNone}, io.EOF
	}
	return index, event, err
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

// Close frees the completions. The context's sequences keep the generated tokens.
func (s *Completions) Close() error {
	s.close()
	return nil
}

package ember

/*
#include "callback.h"
*/
import "C"

import (
	"runtime"
	"runtime/cgo"
	"sync/atomic"
	"unsafe"
)

// StageFunc is a stage of your own. f sees the candidates that the stages before have left, at least one, and may change their
// logits; minus infinity rules a token out. tokens are in ascending order, and f must not change them. Both slices are the
// library's memory, valid until f returns. f runs on the goroutine that samples, those of clones at the same time. An error of f
// ends the call with an [ErrCancelled] that wraps it. A sampler whose f refers to the sampler itself is never found by the
// collector: close it.
//
// For requests f runs on the engine's thread, which makes the events of all its requests, so f cannot wait for any. There
// [Request.Next], [Request.Wait], [Engine.Complete] and [Engine.Generate] give [ErrBusy] instead of waiting, and [Engine.Close]
// returns at once.
//
// No function that the library calls may call runtime.Goexit, and so neither t.FailNow nor t.Fatal: neither f, nor those of
// [WithProgress] and [SetLogger], nor a writer or a reader of states.
func StageFunc(f func(tokens []Token, logits []float32) error) Stage {
	return Stage{function: f, add: func(s *C.ember_sampler) error {
		return invalid("StageFunc needs a function")
	}}
}

// callee is a Go function that C has, for as many samplers and generators as count says.
type callee struct {
	ref   unsafe.Pointer
	count atomic.Int64
}

// callees are those of a sampler.
type callees struct{ list []*callee }

// add appends a stage that is a Go function.
func (c *callees) add(s *C.ember_sampler, f func([]Token, []float32) error) error {
	one := &callee{ref: newReference(f)}
	one.count.Store(1)
	c.list = append(c.list, one)
	var cerr *C.ember_error
	return check(C.ember_sampler_add_callback(s, C.ember_candidates_callback(unsafe.Pointer(C.ember_go_candidates)), one.ref, &cerr), &cerr)
}

// retain gives the same functions to one more.
func (c *callees) retain() *callees {
	for _, one := range c.list {
		one.count.Add(1)
	}
	return &callees{c.list}
}

func (c *callees) release() {
	for _, one := range c.list {
		if one.count.Add(-1) == 0 {
			freeReference(one.ref)
		}
	}
}

//export emberGoCandidates
func emberGoCandidates(tokens *C.uint32_t, logits *C.float, n C.size_t, user unsafe.Pointer) C.uintptr_t {
	f := referenced[func([]Token, []float32) error](user)
	var o outcome
	if !o.run(func() error {
		return f(unsafe.Slice((*Token)(unsafe.Pointer(tokens)), int(n)), unsafe.Slice((*float32)(unsafe.Pointer(logits)), int(n)))
	}) {
		return 0
	}
	return C.uintptr_t(cgo.NewHandle(o))
}

// settled goes on with what a stage left in raised: a panic, or an error in place of err.
func settled(raised C.uintptr_t, err error) error {
	if raised == 0 {
		return err
	}
	o := takeOutcome(raised)
	return o.settle(err)
}

// takeOutcome gives what emberGoCandidates left.
func takeOutcome(raised C.uintptr_t) outcome {
	h := cgo.Handle(raised)
	defer h.Delete()
	return h.Value().(outcome)
}

// DRY makes tokens less likely that would continue a passage which the last lastN accepted tokens have already. It takes
// multiplier times base to the power of (length of the passage - allowed) off their logits, if the passage has allowed tokens at
// least. Usual values: 0.8, 1.75, 2. No passage goes beyond a breaker, 40 bytes at most; without any in the call those are line
// end, colon, quotation mark and asterisk, and with []string{}... there is none. The model is the one to sample for.
func DRY(model *Model, lastN int, multiplier, base float32, allowed int, breakers ...string) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		n, err := number("the number of tokens to look back", lastN)
		if err != nil {
			return err
		}
		length, err := number("the allowed length", allowed)
		if err != nil {
			return err
		}
		if model == nil {
			return ErrClosed
		}
		m, err := model.h.use()
		if err != nil {
			return err
		}
		defer model.h.done()
		var pinner runtime.Pinner
		defer pinner.Unpin()
		texts, lengths := pinnedTexts(&pinner, breakers)
		var cerr *C.ember_error
		return check(C.ember_sampler_add_dry(s, m, C.float(multiplier), C.float(base), length, n,
			texts, lengths, C.size_t(len(breakers)), &cerr), &cerr)
	}}
}

// TopNSigma keeps the tokens whose logits are at most n standard deviations of all candidates' logits below the largest; 0 keeps all.
func TopNSigma(n float32) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_top_n_sigma(s, C.float(n), &cerr), &cerr)
	}}
}

// AdaptiveP makes tokens the likelier, the nearer their probability is to a target, which moves so that accepted tokens have the
// probability target (0 to 1) on average. An accepted token counts decay times (0 to 0.99; 0.9 is usual) as much as the one after it.
// It is the last stage as a rule, after MinP.
func AdaptiveP(target, decay float32) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_adaptive_p(s, C.float(target), C.float(decay), &cerr), &cerr)
	}}
}

// MirostatV1 is the first version of [Mirostat], which looks at the m likeliest tokens; 100 is usual.
func MirostatV1(tau, eta float32, m int) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		n, err := number("the number of likeliest tokens", m)
		if err != nil {
			return err
		}
		var cerr *C.ember_error
		return check(C.ember_sampler_add_mirostat_1(s, C.float(tau), C.float(eta), n, &cerr), &cerr)
	}}
}

// Infill is for filling a gap in a text: after TopK and TopP, it ends the text rather than go on with something unlikely. The
// model is the one to sample for.
func Infill(model *Model) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		if model == nil {
			return ErrClosed
		}
		m, err := model.h.use()
		if err != nil {
			return err
		}
		defer model.h.done()
		var cerr *C.ember_error
		return check(C.ember_sampler_add_infill(s, m, &cerr), &cerr)
	}}
}

// Constrained keeps the tokens that may be next in a text that follows constraint; [WithConstraint] is the same as an option. Make it
// the first stage.
func Constrained(constraint *Constraint) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		if constraint == nil {
			return ErrClosed
		}
		p, err := constraint.h.use()
		if err != nil {
			return err
		}
		defer constraint.h.done()
		var cerr *C.ember_error
		return check(C.ember_sampler_add_constraint(s, p, &cerr), &cerr)
	}}
}

// Progress tells how far the text is that follows a constraint of the sampler.
func (s *Sampler) Progress() (Progress, error) {
	p, err := s.h.useAlone()
	if err != nil {
		return ProgressNone, err
	}
	defer s.h.done()
	var cerr *C.ember_error
	var out C.int32_t
	err = check(C.ember_sampler_progress(p, &out, &cerr), &cerr)
	return Progress(out), err
}

// Sampler makes a sampler with the stages that the model's file proposes. [ErrNotFound] for a file that proposes nothing.
func (m *Model) Sampler(seed uint64) (*Sampler, error) {
	model, err := m.h.use()
	if err != nil {
		return nil, err
	}
	defer m.h.done()
	var cerr *C.ember_error
	var p *C.ember_sampler
	if err := check(C.ember_model_sampler(model, C.uint64_t(seed), &p, &cerr), &cerr); err != nil {
		return nil, err
	}
	return newSamplerOf(p, &callees{}), nil
}

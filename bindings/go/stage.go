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

// StageFunc is a stage of your own: f sees the candidates that the stages before have left, at least one, and may change their
// logits; minus infinity rules a token out. tokens, in ascending order, are for reading, and both are the library's memory, valid
// until f returns. f runs on the goroutine that samples, those of clones at the same time. An error of f ends the call with an
// [ErrCancelled] that wraps it. A sampler whose f refers to the sampler itself is never found by the collector: close it.
//
// For requests f runs on the engine's thread, which makes the events of all its requests, so it cannot wait for any: there
// [Request.Next], [Request.Wait], [Engine.Complete] and [Engine.Generate] give [ErrBusy] instead of waiting, and
// [Engine.Close] returns at once.
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

// DRY makes tokens less likely which would carry on a passage that is among the lastN accepted latest already: multiplier times
// base to the power of (length of the passage - allowed) is taken off their logits, if the passage has allowed tokens at least.
// Usual values: 0.8, 1.75, 2. No passage goes beyond a breaker, 40 bytes at most; without any in the call those are line end,
// colon, quotation mark and asterisk, and with []string{}... there is none. The model is the one to sample for.
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

package ember

/*
#include "callback.h"
*/
import "C"

import (
	"context"
	"runtime"
)

// running is what a [Generator] and [Completions] have in common: P of the library's that gives events, and what ends it.
type running[P comparable] struct {
	h       *handle[P]
	context *Context
	draft   *Context // which makes draft tokens, or nil
	token   *cancelToken
	ctx     context.Context
	stop    *stopper
	step    func(P) C.ember_status // has the library write the next event
	usage   func(P) (Usage, error) // of the event of an end
	event   C.ember_event          // written by the library, guarded by h
	index   C.uint32_t             // which of several the event is of
	cerr    *C.ember_error
	raised  C.uintptr_t
	ended   error // why, of a cancelled one
}

// stopper ends the watch over a context.Context; apart from its owner so that the collector can find that.
type stopper struct{ stop func() }

// begin has call make P with the options, and has ctx end it.
func (r *running[P]) begin(c *Context, ctx context.Context, options []GenerateOption,
	call func(*C.ember_context, *C.ember_generate_options, *C.ember_sampler, *P) error, free func(P)) error {
	config, err := newGenerateConfig(options)
	if err != nil {
		return err
	}
	defer config.free()
	var sampler *C.ember_sampler
	if config.sampler != nil {
		if sampler, err = config.sampler.h.use(); err != nil {
			return err
		}
		defer config.sampler.h.done()
	}
	token, err := newCancelToken()
	if err != nil {
		return err
	}
	var cerr *C.ember_error
	err = check(C.ember_generate_options_set_cancel_token(config.options, token.pointer, &cerr), &cerr)
	if err == nil && ctx.Err() != nil {
		err = cancelled(ctx)
	}
	var p P
	if err == nil {
		err = c.with(func(context *C.ember_context) error {
			done, err := config.draft.lendTo(c)
			if err != nil {
				return err
			}
			defer done()
			return call(context, config.options, sampler, &p)
		})
	}
	if err != nil {
		token.close()
		return err
	}
	functions := &callees{}
	if config.sampler != nil {
		functions = config.sampler.callees.retain()
	}
	r.h = newHandle(p, func(p P) {
		free(p)
		functions.release()
	})
	r.context, r.draft, r.token, r.ctx = c, config.draft, token, ctx
	r.stop = &stopper{watch(ctx, token)}
	r.event.struct_size = C.sizeof_ember_event
	return nil
}

// keep has all that r holds closed when the collector finds that its owner is unreachable.
func keep[T any, P comparable](owner *T, r *running[P]) {
	own(owner, r.h)
	own(owner, r.token)
	runtime.AddCleanup(owner, func(s *stopper) { s.stop() }, r.stop)
}

// next gives the next event and which of several it is of, and with the one of an end its usage. When ctx has ended, that comes with an error which is
// [ErrCancelled] and the cause of ctx; so it does with the error of a [StageFunc].
func (r *running[P]) next() (int, Event, error) {
	none := Event{Token: NoToken, Finish: FinishNone}
	p, err := r.h.useAlone()
	if err != nil {
		return 0, none, err
	}
	defer r.h.done()
	// The contexts are its own for this call.
	if _, err := r.context.h.useAlone(); err != nil {
		return 0, none, err
	}
	defer r.context.h.done()
	done, err := r.draft.lendTo(r.context)
	if err != nil {
		return 0, none, err
	}
	defer done()
	if err := check(r.step(p), &r.cerr); err != nil {
		return 0, none, settled(r.raised, err)
	}
	index, event := int(r.index), eventOf(&r.event)
	if event.Kind != EventEnd {
		return index, event, nil
	}
	usage, err := r.usage(p)
	if err != nil {
		return index, event, err
	}
	event.Usage = &usage
	if event.Finish != FinishCancelled {
		return index, event, nil
	}
	if r.ended == nil {
		r.ended = settled(r.raised, cancelled(r.ctx))
	}
	return index, event, r.ended
}

func (r *running[P]) close() {
	if r.stop != nil {
		r.stop.stop()
	}
	r.h.close()
	r.token.close()
}

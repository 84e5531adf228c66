package ember

/*
#include "callback.h"
*/
import "C"

import (
	"context"
	"iter"
	"runtime"
	"sync"
	"unsafe"
)

// Request is a generation that an [Engine] was asked for. One goroutine at a time takes its events; any may cancel it.
type Request struct {
	h      *handle[*C.ember_request]
	engine *Engine // lives as long as its requests
	inbox  *inbox
	ctx    context.Context
	stop   *stopper

	taking sync.Mutex // of who takes events
	end    *Event     // the last event, once taken, and its error
	err    error
}

// inbox is where the engine's thread puts events. It never waits for those who take them.
type inbox struct {
	functions *callees      // that the request's sampler calls until the end
	news      chan struct{} // has an element when there may be events
	closed    chan struct{}
	close     func()

	mu     sync.Mutex
	events []Event
	stage  outcome // how a stage ended the request
}

// submission is what a request is submitted with.
type submission struct {
	engine   *C.ember_engine
	options  *C.ember_generate_options
	sampler  *C.ember_sampler
	callback C.ember_event_callback
	user     unsafe.Pointer
}

func (e *Engine) submit(ctx context.Context, options []GenerateOption,
	call func(submission, **C.ember_request, **C.ember_error) C.ember_status) (*Request, error) {
	engine, err := e.h.use()
	if err != nil {
		return nil, err
	}
	defer e.h.done()
	config, err := newGenerateConfig(options)
	if err != nil {
		return nil, err
	}
	defer config.free()
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	in := &inbox{functions: &callees{}, news: make(chan struct{}, 1), closed: make(chan struct{})}
	in.close = sync.OnceFunc(func() { close(in.closed) })
	s := submission{engine: engine, options: config.options, callback: C.ember_event_callback(unsafe.Pointer(C.ember_go_event))}
	if config.sampler != nil {
		if s.sampler, err = config.sampler.copy(); err != nil {
			return nil, err
		}
		defer C.ember_sampler_free(s.sampler)
		in.functions = config.sampler.callees.retain()
	}
	s.user = newReference(in) // freed with the last event
	var p *C.ember_request
	var cerr *C.ember_error
	if err := check(call(s, &p, &cerr), &cerr); err != nil {
		in.functions.release()
		freeReference(s.user)
		return nil, err
	}
	h := newHandle(p, func(p *C.ember_request) { C.ember_request_free(p) })
	end := func() bool { return true }
	if ctx.Done() != nil {
		end = context.AfterFunc(ctx, func() { cancelRequest(h) })
	}
	r := &Request{h: h, engine: e, inbox: in, ctx: ctx, stop: &stopper{func() { end() }}}
	own(r, r.h)
	runtime.AddCleanup(r, func(s *stopper) { s.stop() }, r.stop)
	return r, nil
}

//export emberGoEvent
func emberGoEvent(from *C.ember_event, raised C.uintptr_t, user unsafe.Pointer) {
	in := referenced[*inbox](user)
	event := eventOf(from)
	in.mu.Lock()
	in.events = append(in.events, event)
	if raised != 0 {
		in.stage = takeOutcome(raised)
	}
	in.mu.Unlock()
	select {
	case in.news <- struct{}{}:
	default: // reported already
	}
	if event.Kind == EventEnd {
		in.functions.release()
		freeReference(user)
	}
}

func cancelRequest(h *handle[*C.ember_request]) {
	if p, err := h.use(); err == nil {
		C.ember_request_cancel(p)
		h.done()
	}
}

// take gives the next event, for which it waits, but not on the thread of an engine, which may be the one that makes it.
func (in *inbox) take() (Event, error) {
	none := Event{Token: NoToken, Finish: FinishNone}
	for {
		in.mu.Lock()
		if len(in.events) > 0 {
			event := in.events[0]
			in.events = in.events[1:]
			in.mu.Unlock()
			return event, nil
		}
		in.mu.Unlock()
		if C.ember_go_on_engine() {
			return none, &Error{Status: ErrBusy, Message: "a StageFunc runs on the engine's thread and cannot wait for events of a request"}
		}
		select {
		case <-in.news:
		case <-in.closed:
			return none, ErrClosed
		}
	}
}

// Next gives the next event, for which it waits. After [EventEnd] that comes again and again. When ctx has ended, the EventEnd
// comes with an error that is [ErrCancelled] and the cause of ctx. So it does after Cancel, when the engine was closed, and for
// the error of a [StageFunc]. Any other error that ends a request ([FinishFailed]) comes with its EventEnd too. In a StageFunc of
// a request it gives [ErrBusy] instead of waiting.
func (r *Request) Next() (Event, error) {
	none := Event{Token: NoToken, Finish: FinishNone}
	if r.inbox == nil {
		return none, ErrClosed
	}
	if !r.taking.TryLock() {
		return none, &Error{Status: ErrBusy, Message: "another goroutine takes events of this request"}
	}
	defer r.taking.Unlock()
	select {
	case <-r.inbox.closed:
		return none, ErrClosed
	default:
	}
	if r.end != nil {
		return *r.end, r.err
	}
	event, err := r.inbox.take()
	if err != nil || event.Kind != EventEnd {
		return event, err
	}
	r.end = &event
	r.err = ErrClosed
	if p, err := r.h.use(); err == nil {
		defer r.h.done()
		r.err = r.finish(p, &event)
	}
	r.err = r.inbox.stage.settle(r.err) // may go on with a panic
	return event, r.err
}

// finish gives the last event its usage, and the error that ended the request.
func (r *Request) finish(p *C.ember_request, event *Event) error {
	// The event comes a little before the result is written down.
	var cerr *C.ember_error
	again := C.ember_event{struct_size: C.sizeof_ember_event}
	failed := check(C.ember_request_next(p, C.EMBER_FOREVER, &again, &cerr), &cerr)
	usage, err := requestUsage(p)
	usage.Finish = event.Finish
	event.Usage = &usage
	switch {
	case failed != nil:
		return failed
	case event.Finish == FinishCancelled:
		return cancelled(r.ctx)
	}
	return err
}

// Events yields the request's events as they come, until the end, and closes the request, also when the loop is left early.
func (r *Request) Events() iter.Seq2[Event, error] {
	return events(func() (*Request, error) { return r, nil })
}

// Wait takes all events until the end, and closes the request. With an error it gives what there was until then.
func (r *Request) Wait() (Completion, error) { return complete(r.Events()) }

// Usage tells what the request did so far. Its durations are those of the steps that it was part of.
func (r *Request) Usage() (Usage, error) {
	p, err := r.h.use()
	if err != nil {
		return Usage{Finish: FinishNone}, err
	}
	defer r.h.done()
	return requestUsage(p)
}

func requestUsage(p *C.ember_request) (Usage, error) {
	return usage(func(out *C.ember_generate_result, err **C.ember_error) C.ember_status {
		return C.ember_request_usage(p, out, err)
	})
}

// Cancel ends the request with the engine's next step. Any goroutine.
func (r *Request) Cancel() { cancelRequest(r.h) }

// Close frees the request; one that has not ended is cancelled.
func (r *Request) Close() error {
	if r.inbox == nil {
		return nil
	}
	r.stop.stop()
	r.inbox.close()
	r.h.close()
	return nil
}

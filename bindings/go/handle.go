package ember

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// live counts the handles that are not freed yet, for tests.
var live atomic.Int64

// handle owns a pointer P of the library. It frees it once it is closed and nobody uses it any more.
type handle[P comparable] struct {
	free  func(P)
	freed chan struct{} // nil, or closed once a goroutine of its own has freed the pointer

	mu      sync.Mutex
	pointer P // the zero P once freed
	uses    int
	closed  bool
}

func newHandle[P comparable](pointer P, free func(P)) *handle[P] {
	live.Add(1)
	return &handle[P]{pointer: pointer, free: free}
}

// newHandleApart is newHandle for what cannot be freed on every thread: a goroutine of its own does it.
func newHandleApart[P comparable](pointer P, free func(P)) *handle[P] {
	h := newHandle(pointer, free)
	h.freed = make(chan struct{})
	return h
}

// own has the handle closed when the collector finds that owner is unreachable.
func own[T any, P comparable](owner *T, h *handle[P]) {
	runtime.AddCleanup(owner, func(h *handle[P]) { h.close() }, h)
}

// use gives the pointer, which stays valid until done is called.
func (h *handle[P]) use() (P, error) { return h.take(false) }

// useAlone is use for what serves one call at a time.
func (h *handle[P]) useAlone() (P, error) { return h.take(true) }

// lend is useAlone for a call that reaches the object through another one of the library's, which keeps it alive: it may be closed.
func (h *handle[P]) lend() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uses > 0 {
		return inUse()
	}
	h.uses++
	return nil
}

func inUse() error { return &Error{Status: ErrBusy, Message: "in use by another call"} }

func (h *handle[P]) take(alone bool) (none P, err error) {
	if h == nil {
		return none, ErrClosed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return none, ErrClosed
	}
	if alone && h.uses > 0 {
		return none, inUse()
	}
	h.uses++
	return h.pointer, nil
}

func (h *handle[P]) done() {
	h.mu.Lock()
	h.uses--
	pointer := h.last()
	h.mu.Unlock()
	h.release(pointer)
}

func (h *handle[P]) close() {
	if h == nil {
		return
	}
	h.mu.Lock()
	h.closed = true
	pointer := h.last()
	h.mu.Unlock()
	h.release(pointer)
}

// last takes the pointer away when it is to be freed. The lock is held.
func (h *handle[P]) last() (pointer P) {
	if h.closed && h.uses == 0 {
		pointer, h.pointer = h.pointer, pointer
	}
	return pointer
}

func (h *handle[P]) release(pointer P) {
	var none P
	switch {
	case pointer == none:
	case h.freed == nil:
		h.end(pointer)
	default:
		go func() {
			h.end(pointer)
			close(h.freed)
		}()
	}
}

func (h *handle[P]) end(pointer P) {
	h.free(pointer)
	live.Add(-1)
}

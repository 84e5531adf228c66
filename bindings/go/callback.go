package ember

// #include <stdlib.h>
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

// newReference gives C a value of Go's to hold: the address of C's memory with a handle in it. Free it with freeReference.
func newReference(value any) unsafe.Pointer {
	p := C.malloc(C.size_t(unsafe.Sizeof(cgo.Handle(0))))
	*(*cgo.Handle)(p) = cgo.NewHandle(value)
	live.Add(1)
	return p
}

func referenced[T any](p unsafe.Pointer) T { return (*(*cgo.Handle)(p)).Value().(T) }

func freeReference(p unsafe.Pointer) {
	(*(*cgo.Handle)(p)).Delete()
	C.free(p)
	live.Add(-1)
}

// outcome is how a function ended that C called: neither errors nor panics pass through C, so they wait here for the call that
// led there.
type outcome struct {
	err      error
	panicked any
}

// run tells whether f failed.
func (o *outcome) run(f func() error) (failed bool) {
	defer func() {
		if p := recover(); p != nil {
			o.panicked = p
			failed = true
		}
	}()
	o.err = f()
	return o.err != nil
}

// settle goes on with a panic, or gives the error of the call that led to f.
func (o *outcome) settle(err error) error {
	if o.panicked != nil {
		panic(o.panicked)
	}
	if o.err != nil {
		return &Error{Status: ErrCancelled, Message: "a function of the caller ended the call: " + o.err.Error(), causes: []error{o.err}}
	}
	return err
}

package ember

/*
#include <ember.h>
*/
import "C"

import (
	"context"
	"errors"
)

// Status is the kind of an error, one of the constants below; use it with errors.Is.
type Status int32

const (
	ErrInvalidArgument Status = C.EMBER_E_INVALID_ARGUMENT // an argument is out of range or does not fit the others
	ErrIO              Status = C.EMBER_E_IO               // a file cannot be opened, mapped or read
	ErrFormat          Status = C.EMBER_E_FORMAT           // a model file is malformed
	ErrUnsupported     Status = C.EMBER_E_UNSUPPORTED      // a model needs, or lacks, what this needs
	ErrNoMemory        Status = C.EMBER_E_NOMEM            // memory is short
	ErrContextFull     Status = C.EMBER_E_CONTEXT_FULL     // the tokens do not fit; the context is unchanged
	ErrBusy            Status = C.EMBER_E_BUSY             // in use by another call; nothing was done
	ErrUTF8            Status = C.EMBER_E_UTF8             // a text is not UTF-8
	ErrBufferTooSmall  Status = C.EMBER_E_BUFFER_TOO_SMALL // never seen: the package asks again
	ErrNotFound        Status = C.EMBER_E_NOT_FOUND        // there is no such key, token or row
	ErrInternal        Status = C.EMBER_E_INTERNAL         // a defect in Ember, caught
	ErrCancelled       Status = C.EMBER_E_CANCELLED        // the context.Context ended the call
	ErrQueueFull       Status = C.EMBER_E_QUEUE_FULL       // as many requests wait as may; nothing was done
)

// ErrClosed is given by the methods of what was closed, and of values that nothing in this package made.
var ErrClosed = errors.New("ember: used after Close")

// Error names the status, for example "EMBER_E_BUSY".
func (s Status) Error() string { return C.GoString(C.ember_status_name(C.int32_t(s))) }

// Error is a refusal by the library.
type Error struct {
	Status  Status  // what kind of error it is
	Message string  // a sentence that names the culprit
	causes  []error // of ErrCancelled: why the call was ended; of ErrIO: what the system says of the path
}

func (e *Error) Error() string { return "ember: " + e.Message }

// Unwrap gives the status and what led to the error. Of ErrCancelled that is the cause of the context.Context, and its Err too.
// So errors.Is(err, context.DeadlineExceeded) works as well as errors.Is(err, ember.ErrCancelled), also where the cause is one of
// the caller's own (context.WithTimeoutCause). Of [Load] with a path that does not exist it is fs.ErrNotExist.
func (e *Error) Unwrap() []error { return append([]error{e.Status}, e.causes...) }

// check turns what a call returned into an error, and frees the library's. The pointer is read after the call.
func check(status C.ember_status, cerr **C.ember_error) error {
	if status == C.EMBER_OK {
		return nil
	}
	err := &Error{Status: Status(status), Message: C.GoString(C.ember_error_message(*cerr))}
	C.ember_error_free(*cerr)
	*cerr = nil
	return err
}

func is(err error, status Status) bool {
	e, ok := err.(*Error)
	return ok && e.Status == status
}

func invalid(message string) error { return &Error{Status: ErrInvalidArgument, Message: message} }

// cancelled is the error of a call that ctx ended.
func cancelled(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == nil {
		return &Error{Status: ErrCancelled, Message: "cancelled"}
	}
	err := &Error{Status: ErrCancelled, Message: "cancelled: " + cause.Error(), causes: []error{cause}}
	if ended := ctx.Err(); !errors.Is(cause, ended) {
		err.causes = append(err.causes, ended)
	}
	return err
}

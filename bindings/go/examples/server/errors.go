package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"ember.example/ember"
)

// apiError is an error as OpenAI's API writes it.
type apiError struct {
	status  int
	headers map[string]string

	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (e *apiError) Error() string { return e.Message }

func newError(status int, kind, code, message string) *apiError {
	e := &apiError{status: status, Type: kind, Message: message}
	if code != "" {
		e.Code = &code
	}
	return e
}

// invalid is an error about the field param of a request.
func invalid(param, format string, args ...any) *apiError {
	e := newError(http.StatusBadRequest, "invalid_request_error", "invalid_value", fmt.Sprintf(format, args...))
	e.Param = &param
	return e
}

// unsupported is the error about a field that the server knows and cannot honour.
func unsupported(param, format string, args ...any) *apiError {
	e := invalid(param, format, args...)
	code := "unsupported_parameter"
	e.Code = &code
	return e
}

func tooLong(format string, args ...any) *apiError {
	return newError(http.StatusBadRequest, "invalid_request_error", "context_length_exceeded", fmt.Sprintf(format, args...))
}

func busy() *apiError {
	e := newError(http.StatusTooManyRequests, "rate_limit_error", "queue_full", "As many requests wait as may. Try again later.")
	e.headers = map[string]string{"Retry-After": "1"}
	return e
}

// What ends the context of a request, besides a client that goes.
var (
	errTimeout  = errors.New("the time for the request is over")
	errDraining = errors.New("the server shuts down")
)

// statusClientGone is what the log and the metrics call a request whose client went; nobody receives it.
const statusClientGone = 499

func clientGone() *apiError {
	return newError(statusClientGone, "server_error", "client_gone", "The client closed the connection.")
}

// asAPIError tells a client about err, which ended work that had ctx. internal is true for what a client can do nothing about:
// its sentence belongs into the log.
func asAPIError(ctx context.Context, err error) (e *apiError, internal bool) {
	if errors.As(err, &e) {
		return e, false
	}
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, ember.ErrCancelled) || errors.Is(err, cause)) {
		switch {
		case errors.Is(cause, errTimeout):
			e = newError(http.StatusGatewayTimeout, "server_error", "request_timeout", "The time that the server allows for a request is over.")
			e.headers = map[string]string{"X-Should-Retry": "false"}
		case errors.Is(cause, errDraining):
			e = draining()
		default:
			e = clientGone()
		}
		return e, false
	}
	switch {
	case errors.Is(err, ember.ErrQueueFull):
		return busy(), false
	case errors.Is(err, ember.ErrContextFull):
		return tooLong("%s", err), false
	case errors.Is(err, ember.ErrInvalidArgument), errors.Is(err, ember.ErrUTF8), errors.Is(err, ember.ErrUnsupported):
		return newError(http.StatusBadRequest, "invalid_request_error", "invalid_value", err.Error()), false
	case errors.Is(err, ember.ErrNoMemory):
		return newError(http.StatusServiceUnavailable, "server_error", "out_of_memory", "There is no memory for this request."), true
	}
	return newError(http.StatusInternalServerError, "server_error", "internal_error", "The server could not answer; its log says why."), true
}

func draining() *apiError {
	e := newError(http.StatusServiceUnavailable, "server_error", "shutting_down", "The server shuts down.")
	e.headers = map[string]string{"Connection": "close", "Retry-After": "5"}
	return e
}

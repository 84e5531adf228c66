package ember

/*
#include <ember.h>
*/
import "C"

import "context"

// cancelToken is the library's switch that a context.Context turns.
type cancelToken = handle[*C.ember_cancel_token]

func newCancelToken() (*cancelToken, error) {
	var token *C.ember_cancel_token
	var cerr *C.ember_error
	if err := check(C.ember_cancel_token_new(&token, &cerr), &cerr); err != nil {
		return nil, err
	}
	return newHandle(token, func(p *C.ember_cancel_token) { C.ember_cancel_token_free(p) }), nil
}

// watch cancels the token when ctx ends. The function that it returns stops that; once it has returned, the token is not
// cancelled any more.
func watch(ctx context.Context, token *cancelToken) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	ended := make(chan struct{})
	end := context.AfterFunc(ctx, func() {
		defer close(ended)
		if p, err := token.use(); err == nil {
			C.ember_cancel_token_cancel(p)
			token.done()
		}
	})
	return func() {
		if !end() {
			<-ended
		}
	}
}

// cancellable runs call, which uses the token, and has ctx end it. The token is fit for new calls afterwards.
func cancellable(ctx context.Context, token *cancelToken, call func() error) error {
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	stop := watch(ctx, token)
	err := call()
	stop()
	if ctx.Err() != nil {
		if p, closed := token.use(); closed == nil {
			C.ember_cancel_token_reset(p)
			token.done()
		}
		if is(err, ErrCancelled) {
			return cancelled(ctx)
		}
	}
	return err
}

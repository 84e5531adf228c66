package ember

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// watched fails the test when f does not end.
func watched(t *testing.T, what string, f func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not end", what)
	}
}

// slow submits a request that takes seconds. Its stage calls first, once.
func slow(t *testing.T, e *Engine, first func()) *Request {
	t.Helper()
	var once sync.Once
	s, err := NewSampler(1, StageFunc(func([]Token, []float32) error {
		once.Do(first)
		time.Sleep(20 * time.Millisecond)
		return nil
	}), Greedy())
	must(t, err)
	r, err := e.Submit(context.Background(), prompt, WithMaxTokens(240), WithIgnoreEOG(true), WithSampler(s))
	must(t, err)
	must(t, s.Close())
	return r
}

// untilClosed waits until a Close of the engine has begun.
func untilClosed(e *Engine) {
	for {
		if _, err := e.Metrics(); errors.Is(err, ErrClosed) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// isCancelled waits for the end of a request of an engine that was closed.
func isCancelled(t *testing.T, r *Request) {
	t.Helper()
	completion, err := r.Wait()
	refusal(t, err, ErrCancelled, "")
	equal(t, "finish", completion.Usage.Finish, FinishCancelled)
}

// A stage uses the engine while another goroutine closes it, and is the last to use it, on the engine's own thread.
func TestLastUseEndsInAStage(t *testing.T) {
	bundled(t)
	before := live.Load()
	e := newEngine(t)
	entered := make(chan struct{})
	r := slow(t, e, func() {
		if _, err := e.h.use(); err != nil {
			t.Error(err)
		}
		close(entered)
		untilClosed(e)
		e.h.done()
	})
	<-entered
	watched(t, "Close", func() { e.Close() })
	isCancelled(t, r)
	equal(t, "handles", live.Load(), before)
}

// A stage that closes its engine goes on, and the engine ends after it, also when calls of its own lead to the stage.
func TestCloseInAStage(t *testing.T) {
	bundled(t)
	before := live.Load()
	for name, closing := range map[string]func(*Engine){
		"at once": func(e *Engine) { e.Close() },
		"within a call of its own": func(e *Engine) {
			s, err := NewSampler(1, StageFunc(func([]Token, []float32) error { return e.Close() }))
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if _, err := s.Sample([]float32{1}); err != nil {
				t.Error(err)
			}
			e.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			closed := make(chan struct{})
			r := slow(t, e, func() {
				closing(e)
				close(closed)
			})
			watched(t, "Close in a stage", func() { <-closed })
			watched(t, "Close", func() { e.Close() })
			isCancelled(t, r)
			equal(t, "handles", live.Load(), before)
		})
	}
}

// Close comes back when the engine is gone, whatever keeps it: a call under way, or another Close.
func TestCloseWaits(t *testing.T) {
	bundled(t)
	before := live.Load()
	e := newEngine(t)
	_, err := e.h.use()
	must(t, err)
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- e.Close() }()
	}
	untilClosed(e)
	stays(t, closed, "Close, during a call,")
	e.h.done()
	for range 2 {
		must(t, <-closed)
		equal(t, "handles", live.Load(), before)
	}

	e = newEngine(t)
	r, let := held(t, e)
	go func() { closed <- e.Close() }()
	untilClosed(e)
	go func() { closed <- e.Close() }()
	stays(t, closed, "Close, during another one,")
	let()
	must(t, <-closed)
	must(t, <-closed)
	must(t, r.Close())
}

// stays looks whether something comes back that has to wait.
func stays(t *testing.T, back chan error, what string) {
	t.Helper()
	select {
	case err := <-back:
		t.Errorf("%s has not waited", what)
		back <- err
	case <-time.After(50 * time.Millisecond):
	}
}

// A stage of a context's generation runs on the caller's thread, where an engine can be waited for.
func TestEngineInAStageOfAContext(t *testing.T) {
	c, e := newContext(t), newEngine(t)
	s := newSampler(t, 1, StageFunc(func([]Token, []float32) error {
		whole, err := e.Complete(context.Background(), prompt, WithMaxTokens(2))
		if err != nil || len(whole.Tokens) != 2 {
			t.Errorf("Complete in the stage: %v, %v", whole, err)
		}
		e.Close()
		select {
		case <-e.h.freed:
		default:
			t.Error("Close has not waited")
		}
		return nil
	}), Greedy())
	watched(t, "Complete", func() {
		if _, err := c.Complete(context.Background(), prompt, WithSampler(s), WithMaxTokens(1)); err != nil {
			t.Error(err)
		}
	})
}

// In a stage of a request nothing waits for events, which the stage's own thread would have to make.
func TestWaitingInAStage(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t)
	ended, err := e.Submit(ctx, prompt, WithMaxTokens(2))
	must(t, err)
	for usage := (Usage{Finish: FinishNone}); usage.Finish == FinishNone; time.Sleep(time.Millisecond) {
		usage, err = ended.Usage()
		must(t, err)
	}
	refused := map[string]error{}
	var taken Completion
	var takenErr error
	stage := func() {
		_, refused["Complete"] = e.Complete(ctx, prompt)
		for _, err := range e.Generate(ctx, prompt) {
			refused["Generate"] = err
		}
		for name, wait := range map[string]func(*Request) error{
			"Next": func(r *Request) error { _, err := r.Next(); return err },
			"Wait": func(r *Request) error { _, err := r.Wait(); return err },
		} {
			r, err := e.Submit(ctx, prompt, WithMaxTokens(1))
			if err != nil {
				t.Error(err)
				return
			}
			refused[name] = wait(r)
			r.Close()
		}
		taken, takenErr = ended.Wait() // its events are there already
	}
	var once sync.Once
	s := newSampler(t, 1, StageFunc(func([]Token, []float32) error {
		once.Do(stage)
		return nil
	}), Greedy())
	watched(t, "Complete", func() {
		whole, err := e.Complete(ctx, prompt, WithSampler(s), WithMaxTokens(3))
		if err != nil || len(whole.Tokens) != 3 {
			t.Errorf("the request: %v, %v", whole, err)
		}
	})
	equal(t, "refusals", len(refused), 4)
	for _, err := range refused {
		refusal(t, err, ErrBusy, "StageFunc")
	}
	must(t, takenErr)
	equal(t, "tokens", len(taken.Tokens), 2)
}

package ember

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func newEngine(t testing.TB, options ...EngineOption) *Engine {
	t.Helper()
	e, err := bundled(t).NewEngine(append([]EngineOption{WithContextOptions(WithThreads(1), WithSize(256))}, options...)...)
	must(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

var openings = []string{prompt, "The wolf said", "The sea was calm, and the moon", "An old man had"}

// Many goroutines submit at once, with samplers and without; each gets what it gets alone.
func TestRequestsGiveWhatTheyGiveAlone(t *testing.T) {
	const requests = 24
	sampler := func(i int) GenerateOption {
		if i%3 == 0 {
			return WithSampler(nil)
		}
		return WithSampler(newSampler(t, uint64(i), TopK(20), Temperature(0.8)))
	}
	options := func(i int) []GenerateOption {
		return []GenerateOption{WithMaxTokens(4 + i%9), WithEcho(i%2 == 0), WithTop(i % 3), sampler(i)}
	}
	var want [requests]string
	c := newContext(t, WithSize(256))
	describe := func(completion Completion) string {
		return fmt.Sprint(completion.Text, completion.Tokens, completion.Usage.Finish, completion.Usage.PromptTokens, completion.Usage.GeneratedTokens)
	}
	for i := range want {
		must(t, c.Rewind(0, 0))
		alone, err := c.Complete(context.Background(), openings[i%4], options(i)...)
		must(t, err)
		want[i] = describe(alone)
	}
	e := newEngine(t, WithParallel(6))
	var group sync.WaitGroup
	for i := range want {
		config := options(i)
		group.Add(1)
		go func() {
			defer group.Done()
			together, err := e.Complete(context.Background(), openings[i%4], config...)
			if err != nil || describe(together) != want[i] {
				t.Errorf("request %d: %v, %v\nalone: %v", i, describe(together), err, want[i])
			}
		}()
	}
	group.Wait()
	m, err := e.Metrics()
	must(t, err)
	equal(t, "submitted", m.Submitted, requests)
	equal(t, "finished", m.Finished, requests)
	equal(t, "queued and active", m.Queued+m.Active, 0)
	equal(t, "together, pages", [2]int{e.Info().Sequences, e.Info().Pages}, [2]int{6, m.Pages})
	if m.GeneratedTokens == 0 || m.Steps == 0 || m.Busy <= 0 || m.TokensPerSecond <= 0 || m.Pages < 6 || m.FreePages > m.Pages || m.PromptTokens == 0 {
		t.Fatalf("metrics: %+v", m)
	}
}

func TestEventsOfARequest(t *testing.T) {
	e := newEngine(t)
	r, err := e.Submit(context.Background(), prompt, WithMaxTokens(4), WithEcho(true), WithTop(2))
	must(t, err)
	defer r.Close()
	want := collect(t, newContext(t), prompt, WithMaxTokens(4), WithEcho(true), WithTop(2))
	for i, expected := range want {
		event, err := r.Next()
		must(t, err)
		equal(t, "text", event.Text, expected.Text)
		equal(t, "kind", event.Kind, expected.Kind)
		equal(t, "likeliest", fmt.Sprint(event.Top, event.Bytes, event.Token, event.Finish), fmt.Sprint(expected.Top, expected.Bytes, expected.Token, expected.Finish))
		equal(t, "usage", event.Usage != nil, i == len(want)-1)
	}
	again, err := r.Next()
	must(t, err)
	equal(t, "after the end", again.Kind, EventEnd)
	equal(t, "generated", again.Usage.GeneratedTokens, 4)
	if again.Usage.Prefill <= 0 || again.Usage.Decode <= 0 {
		t.Fatalf("usage: %+v", *again.Usage)
	}
	usage, err := r.Usage()
	must(t, err)
	equal(t, "usage", usage, *again.Usage)

	ids, err := bundled(t).Tokenize(prompt, AddSpecial)
	must(t, err)
	r, err = e.SubmitTokens(context.Background(), ids, WithMaxTokens(4))
	must(t, err)
	whole, err := r.Wait()
	must(t, err)
	text := ""
	for event, err := range e.GenerateTokens(context.Background(), ids, WithMaxTokens(4)) {
		must(t, err)
		text += event.Text
	}
	equal(t, "of tokens", text, whole.Text)
	equal(t, "of tokens", prompt+text, want[0].Text+want[1].Text+want[2].Text+want[3].Text+want[4].Text+want[5].Text)
}

// slowly has a generation take five milliseconds for each token, so that it does not end before somebody ends it.
func slowly(t *testing.T) GenerateOption {
	t.Helper()
	wait := StageFunc(func([]Token, []float32) error {
		time.Sleep(5 * time.Millisecond)
		return nil
	})
	return WithSampler(newSampler(t, 1, wait, Greedy()))
}

// begun submits a request that goes on for long, and waits for its first event.
func begun(t *testing.T, e *Engine, ctx context.Context, options ...GenerateOption) *Request {
	t.Helper()
	r, err := e.Submit(ctx, prompt, append([]GenerateOption{WithMaxTokens(240), WithIgnoreEOG(true)}, options...)...)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	event, err := r.Next()
	must(t, err)
	equal(t, "first event", event.Kind, EventToken)
	return r
}

func TestCancelARequest(t *testing.T) {
	e := newEngine(t)
	reason := errors.New("the client has gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	r := begun(t, e, ctx, slowly(t))
	cancel(reason)
	completion, err := r.Wait()
	equal(t, "finish", completion.Usage.Finish, FinishCancelled)
	for _, want := range []error{ErrCancelled, reason} {
		if !errors.Is(err, want) {
			t.Fatalf("%v is not %v", err, want)
		}
	}
	_, err = e.Submit(ctx, prompt)
	if !errors.Is(err, reason) {
		t.Fatalf("submitted with a context.Context that has ended: %v", err)
	}
	r = begun(t, e, context.Background(), slowly(t))
	r.Cancel()
	_, err = r.Wait()
	refusal(t, err, ErrCancelled, "")

	// A loop that is left cancels its request.
	for _, err := range e.Generate(context.Background(), prompt, WithMaxTokens(240)) {
		must(t, err)
		break
	}
	// Close wakes whoever waits.
	r = begun(t, e, context.Background(), slowly(t))
	done := make(chan error)
	go func() {
		_, err := r.Wait()
		done <- err
	}()
	must(t, r.Close())
	if err := <-done; err != nil && !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	// So does closing the engine.
	r = begun(t, e, context.Background(), slowly(t))
	must(t, e.Close())
	completion, err = r.Wait()
	refusal(t, err, ErrCancelled, "")
	equal(t, "finish", completion.Usage.Finish, FinishCancelled)
	_, err = e.Submit(context.Background(), prompt)
	equal(t, "closed engine", err, ErrClosed)
	_, err = e.Metrics()
	equal(t, "closed engine", err, ErrClosed)
	_, err = r.Next()
	equal(t, "closed request", err, ErrClosed)
	_, err = r.Usage()
	equal(t, "closed request", err, ErrClosed)
	r.Cancel()
	_, err = new(Engine).Metrics()
	equal(t, "zero engine", err, ErrClosed)
	_, err = new(Request).Next()
	equal(t, "zero request", err, ErrClosed)
	must(t, new(Request).Close())
}

// held submits a request whose stage keeps the engine waiting until the function that it returns is called.
func held(t *testing.T, e *Engine) (*Request, func()) {
	t.Helper()
	inside, gate := make(chan struct{}, 1), make(chan struct{})
	s := newSampler(t, 1, StageFunc(func([]Token, []float32) error {
		inside <- struct{}{}
		<-gate
		return nil
	}), Greedy())
	r, err := e.Submit(context.Background(), prompt, WithMaxTokens(1), WithSampler(s))
	must(t, err)
	<-inside
	let := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(let)
	return r, let
}

func TestQueueFull(t *testing.T) {
	e := newEngine(t, WithParallel(1), WithMaxQueue(1))
	running, let := held(t, e)
	waiting, err := e.Submit(context.Background(), prompt, WithMaxTokens(1))
	must(t, err)
	_, err = e.Complete(context.Background(), prompt)
	refusal(t, err, ErrQueueFull, "")
	m, err := e.Metrics()
	must(t, err)
	equal(t, "refused", m.Refused, 1)
	equal(t, "queued", m.Queued, 1)
	let()
	for _, r := range []*Request{running, waiting} {
		completion, err := r.Wait()
		must(t, err)
		equal(t, "tokens", len(completion.Tokens), 1)
	}
}

func TestTimeLimitAndPriority(t *testing.T) {
	e := newEngine(t, WithParallel(1))
	completion, err := begun(t, e, context.Background(), WithTimeLimit(time.Hour)).Wait()
	must(t, err)
	equal(t, "in time", completion.Usage.Finish, FinishMaxTokens)
	for { // as long as the machine makes all tokens within a millisecond
		completion, err = e.Complete(context.Background(), strings.Repeat("word ", 100), WithMaxTokens(100), WithIgnoreEOG(true), WithTimeLimit(time.Nanosecond))
		must(t, err)
		if completion.Usage.Finish == FinishTimeLimit {
			break
		}
	}
	equal(t, "name", completion.Usage.Finish.String(), "time_limit")
	_, err = e.Submit(context.Background(), prompt, WithTimeLimit(-1))
	refusal(t, err, ErrInvalidArgument, "-1ns")

	// What waits begins in order of priority.
	running, let := held(t, e)
	low, err := e.Submit(context.Background(), "The wolf said", WithMaxTokens(1), WithPriority(-1))
	must(t, err)
	high, err := e.Submit(context.Background(), "The sea", WithMaxTokens(1), WithPriority(7))
	must(t, err)
	let()
	_, err = low.Wait()
	must(t, err)
	usage, err := high.Usage()
	must(t, err)
	equal(t, "the one of higher priority", usage.Finish, FinishMaxTokens)
	must(t, high.Close())
	must(t, running.Close())
	if bigger := uint64(1) << 31; uint64(int(bigger)) == bigger {
		_, err = e.Submit(context.Background(), prompt, WithPriority(int(bigger)))
		refusal(t, err, ErrInvalidArgument, "priority")
	}
}

func TestSharedPrefixes(t *testing.T) {
	system := strings.Repeat("The sea was calm, and the moon was bright. ", 8)
	e := newEngine(t)
	for _, line := range []string{"The wolf", "The king"} {
		_, err := e.Complete(context.Background(), system+line, WithMaxTokens(2))
		must(t, err)
	}
	m, err := e.Metrics()
	must(t, err)
	if m.ReusedTokens == 0 || m.CacheHitRate <= 0 || m.PrefilledTokens >= m.PromptTokens {
		t.Fatalf("metrics: %+v", m)
	}
	e = newEngine(t, WithSharedPrefixes(false))
	for range 2 {
		_, err := e.Complete(context.Background(), system, WithMaxTokens(1))
		must(t, err)
	}
	m, err = e.Metrics()
	must(t, err)
	equal(t, "reused", m.ReusedTokens, 0)
}

// Requests take copies of a sampler, so goroutines need not wait for each other to make them.
func TestRequestsThatShareASampler(t *testing.T) {
	e, s := newEngine(t), newSampler(t, 1, Greedy())
	var group sync.WaitGroup
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 25 { // in all fewer than may wait
				r, err := e.Submit(context.Background(), strings.Repeat(prompt, 10), WithSampler(s), WithMaxTokens(1))
				if err != nil {
					t.Errorf("submit: %v", err)
					return
				}
				if err := r.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}
		}()
	}
	group.Wait()
}

// Stages that are Go functions run on the engine's thread; what they raise comes out where the request's events are taken.
func TestStagesInRequests(t *testing.T) {
	c := newContext(t)
	before := live.Load()
	e := newEngine(t)
	ctx := context.Background()
	odd := newSampler(t, 1, StageFunc(onlyOdd), Greedy())
	alone, err := c.Complete(ctx, prompt, WithSampler(odd), WithMaxTokens(5))
	must(t, err)
	r, err := e.Submit(ctx, prompt, WithSampler(odd), WithMaxTokens(5))
	must(t, err)
	must(t, odd.Close()) // the request keeps the function
	together, err := r.Wait()
	must(t, err)
	equal(t, "text", together.Text, alone.Text)

	refusing, panicking := newSampler(t, 1, StageFunc(refuse)), newSampler(t, 1, StageFunc(func([]Token, []float32) error { panic("a stage") }))
	var group sync.WaitGroup
	for range 3 {
		group.Add(3)
		go func() {
			defer group.Done()
			_, err := e.Complete(ctx, prompt, WithSampler(refusing))
			if !errors.Is(err, errEnough) || !errors.Is(err, ErrCancelled) {
				t.Errorf("a stage's error: %v", err)
			}
		}()
		go func() {
			defer group.Done()
			defer func() {
				if p := recover(); p != "a stage" {
					t.Errorf("a stage's panic: %v", p)
				}
			}()
			_, _ = e.Complete(ctx, prompt, WithSampler(panicking))
		}()
		go func() {
			defer group.Done()
			whole, err := e.Complete(ctx, prompt, WithMaxTokens(5))
			if err != nil || len(whole.Tokens) != 5 {
				t.Errorf("a neighbour: %v, %v", whole, err)
			}
		}()
	}
	group.Wait()
	// Nobody takes these events.
	r, err = e.Submit(ctx, prompt, WithSampler(refusing))
	must(t, err)
	must(t, r.Close())
	must(t, refusing.Close())
	must(t, panicking.Close())
	must(t, e.Close())
	equal(t, "handles", live.Load(), before)
}

func TestEngineRefusals(t *testing.T) {
	m := bundled(t)
	for culprit, option := range map[string]EngineOption{
		"-1": WithParallel(-1), "4097": WithParallel(4097), "-2": WithMaxQueue(-2), "max_queue": WithMaxQueue(0), "-3": WithContextOptions(WithSize(-3)),
	} {
		_, err := m.NewEngine(option)
		refusal(t, err, ErrInvalidArgument, culprit)
	}
	e := newEngine(t)
	ctx := context.Background()
	_, err := e.Submit(ctx, "")
	refusal(t, err, ErrInvalidArgument, "")
	_, err = e.Submit(ctx, "\xff")
	refusal(t, err, ErrUTF8, "")
	_, err = e.Submit(ctx, strings.Repeat("word ", 400))
	refusal(t, err, ErrContextFull, "256")
	_, err = e.SubmitTokens(ctx, []Token{99999})
	refusal(t, err, ErrInvalidArgument, "99999")
	_, err = e.Submit(ctx, prompt, WithMaxTokens(-1))
	refusal(t, err, ErrInvalidArgument, "-1")
	closed, err := NewSampler(1)
	must(t, err)
	must(t, closed.Close())
	_, err = e.Submit(ctx, prompt, WithSampler(closed))
	equal(t, "closed sampler", err, ErrClosed)
	for event, err := range e.Generate(ctx, "") {
		refusal(t, err, ErrInvalidArgument, "")
		equal(t, "finish", event.Finish, FinishNone)
	}
	r := begun(t, e, ctx)
	r.taking.Lock()
	_, err = r.Next()
	refusal(t, err, ErrBusy, "")
	r.taking.Unlock()
}

package ember

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
)

var errEnough = errors.New("enough")

func refuse([]Token, []float32) error { return errEnough }

func onlyOdd(tokens []Token, logits []float32) error {
	for i, token := range tokens {
		if token%2 == 0 {
			logits[i] = float32(math.Inf(-1))
		}
	}
	return nil
}

func TestStageFunc(t *testing.T) {
	logits := []float32{3, 2, 1, 9, 8, 0}
	var seen []Token
	s := newSampler(t, 1, Deny(3), StageFunc(func(tokens []Token, logits []float32) error {
		seen = slices.Clone(tokens)
		return onlyOdd(tokens, logits)
	}), Greedy())
	clone, err := s.Clone()
	must(t, err)
	defer clone.Close()
	token, err := s.Sample(logits)
	must(t, err)
	equal(t, "token", token, 1)
	equal(t, "candidates", fmt.Sprint(seen), "[0 1 2 4 5]")
	must(t, s.Close())
	runtime.GC()
	token, err = clone.Sample(logits) // keeps the function
	must(t, err)
	equal(t, "token of the clone", token, 1)
	_, err = NewSampler(1, StageFunc(nil))
	refusal(t, err, ErrInvalidArgument, "function")
}

func TestErrorsOfStages(t *testing.T) {
	s := newSampler(t, 1, StageFunc(refuse))
	_, err := s.Sample([]float32{1, 2})
	refusal(t, err, ErrCancelled, "enough")
	if !errors.Is(err, errEnough) {
		t.Fatalf("%v does not wrap the stage's error", err)
	}
	c := newContext(t)
	n := 0
	third := newSampler(t, 1, StageFunc(func([]Token, []float32) error {
		// A stage may sample itself, and its failures stay its own.
		if _, err := s.Sample([]float32{1}); !errors.Is(err, errEnough) {
			t.Errorf("the inner sampler: %v", err)
		}
		if n++; n == 3 {
			return errors.New("third")
		}
		return nil
	}), Greedy())
	g, err := c.NewGenerator(context.Background(), prompt, WithSampler(third))
	must(t, err)
	defer g.Close()
	must(t, third.Close())
	for range 2 {
		_, err := g.Next()
		must(t, err)
	}
	for range 2 {
		event, err := g.Next()
		refusal(t, err, ErrCancelled, "third")
		equal(t, "finish", event.Finish, FinishCancelled)
	}
	equal(t, "tokens", n, 3)
}

func TestPanicsOfStages(t *testing.T) {
	s := newSampler(t, 1, StageFunc(func([]Token, []float32) error { panic("a stage") }))
	func() {
		defer func() { equal[any](t, "panic", recover(), "a stage") }()
		_, _ = s.Sample([]float32{1})
	}()
	c := newContext(t)
	func() {
		defer func() { equal[any](t, "panic", recover(), "a stage") }()
		_, _ = c.Complete(context.Background(), prompt, WithSampler(s))
	}()
	must(t, c.Rewind(0, 0)) // it is as good as before
	whole, err := c.Complete(context.Background(), prompt, WithMaxTokens(1))
	must(t, err)
	equal(t, "tokens", len(whole.Tokens), 1)
}

// Clones share the function; each call gets its own error.
func TestClonesOfStagesAtOnce(t *testing.T) {
	s := newSampler(t, 1, StageFunc(func(tokens []Token, logits []float32) error {
		if len(tokens)%2 == 1 {
			return fmt.Errorf("odd: %d", len(tokens))
		}
		return nil
	}), Greedy())
	var group sync.WaitGroup
	for i := range 4 {
		clone, err := s.Clone()
		must(t, err)
		group.Add(1)
		go func() {
			defer group.Done()
			defer clone.Close()
			for range 200 {
				_, err := clone.Sample(make([]float32, i+4))
				if i%2 == 0 && err != nil || i%2 == 1 && (err == nil || errors.Unwrap(err) != nil || err.Error() != fmt.Sprintf("ember: a function of the caller ended the call: odd: %d", i+4)) {
					t.Errorf("%d: %v", i, err)
				}
			}
		}()
	}
	group.Wait()
}

func TestDRY(t *testing.T) {
	m := bundled(t)
	logits := make([]float32, m.Info().VocabSize)
	logits[302], logits[400] = 2, 1
	s := newSampler(t, 1, DRY(m, 100, 5, 1.75, 2), Greedy())
	for _, token := range []Token{300, 301, 302, 500, 300, 301} {
		got, err := s.Sample(logits)
		must(t, err)
		equal(t, "token", got, 302)
		must(t, s.Accept(token))
	}
	got, err := s.Sample(logits)
	must(t, err)
	equal(t, "token", got, 400) // 302 would say 300 301 302 again
	newSampler(t, 1, DRY(m, 8, 1, 1, 2, []string{}...), DRY(m, 8, 1, 1, 2, "\n", "the cat"))
	_, err = NewSampler(1, DRY(m, 8, -1, 1, 2))
	refusal(t, err, ErrInvalidArgument, "multiplier")
	_, err = NewSampler(1, DRY(m, -1, 1, 1, 2))
	refusal(t, err, ErrInvalidArgument, "look back")
}

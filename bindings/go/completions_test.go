package ember

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
)

func TestCompletionsAreAsAlone(t *testing.T) {
	const n, seed, prompt = 3, 21, "Once upon a time"
	ctx := context.Background()
	c := newContext(t, WithSize(128), WithSequences(n))
	options := []GenerateOption{WithMaxTokens(12), WithLogprobs(true)}
	with := func(seed uint64) []GenerateOption {
		return append(slices.Clone(options), WithSampler(newSampler(t, seed, Temperature(1.1))))
	}
	all, err := c.NewCompletions(ctx, prompt, n, with(seed)...)
	must(t, err)
	defer all.Close()
	if _, err := all.Rank(); !errors.Is(err, ErrInvalidArgument) {
		t.Fatalf("ranked before the end: %v", err)
	}
	var texts [n]string
	var sums [n]float64
	var counts [n]int
	ends := 0
	for {
		index, event, err := all.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		texts[index] += event.Text
		if event.Kind == EventToken {
			sums[index] += float64(event.Logprob)
			counts[index]++
		}
		if event.Kind == EventEnd {
			ends++
			equal(t, "tokens", event.Usage.GeneratedTokens, counts[index])
			equal(t, "finish", event.Finish, FinishMaxTokens)
		}
	}
	equal(t, "ends", ends, n)
	for i := range n {
		alone, err := newContext(t, WithSize(128)).Complete(ctx, prompt, with(seed+uint64(i))...)
		must(t, err)
		equal(t, "text", texts[i], alone.Text)
		text, err := all.Text(i)
		must(t, err)
		equal(t, "whole text", text, alone.Text)
	}
	order, err := all.Rank()
	must(t, err)
	equal(t, "ranked", len(order), n)
	for i := 1; i < n; i++ {
		if a, b := order[i-1], order[i]; sums[a]/float64(counts[a]) < sums[b]/float64(counts[b]) {
			t.Errorf("%d is before %d, which is likelier", a, b)
		}
	}

	tokens, err := bundled(t).Tokenize(prompt, AddSpecial)
	must(t, err)
	greedy, err := c.NewCompletionsTokens(ctx, tokens, 2, WithMaxTokens(6))
	must(t, err)
	defer greedy.Close()
	must(t, greedy.Finish())
	first, err := greedy.Text(0)
	must(t, err)
	second, err := greedy.Text(1)
	must(t, err)
	equal(t, "greedy", first, second)
	if _, err := greedy.Text(2); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a third text: %v", err)
	}
	if _, err := c.NewCompletions(ctx, prompt, n+1); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("more than sequences: %v", err)
	}
}

func TestCompletionsEnd(t *testing.T) {
	c := newContext(t, WithSize(128), WithSequences(2))
	ctx, cancel := context.WithCancelCause(context.Background())
	all, err := c.NewCompletions(ctx, "Once", 2, WithMaxTokens(100), WithIgnoreEOG(true))
	must(t, err)
	_, _, err = all.Next()
	must(t, err)
	reason := errors.New("enough")
	cancel(reason)
	if err := all.Finish(); !errors.Is(err, reason) || !errors.Is(err, ErrCancelled) {
		t.Errorf("got %v", err)
	}
	must(t, all.Close())
	if _, _, err := all.Next(); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

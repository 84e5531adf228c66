package ember

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// resident is the process's memory in bytes.
func resident(t *testing.T) int {
	t.Helper()
	runtime.GC()
	statm, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	pages, err := strconv.Atoi(string(bytes.Fields(statm)[1]))
	must(t, err)
	return pages * os.Getpagesize()
}

// What the library allocates for a call is freed with it: rounds of everything take no more memory.
func TestMemoryDoesNotGrow(t *testing.T) {
	ctx := context.Background()
	m := bundled(t)
	round := func() {
		c, err := m.NewContext(WithThreads(2), WithSize(64))
		must(t, err)
		s, err := NewSampler(1, TopK(5), StageFunc(func([]Token, []float32) error { return nil }))
		must(t, err)
		refusing, err := NewSampler(1, StageFunc(refuse))
		must(t, err)
		_, err = c.Complete(ctx, prompt, WithSampler(refusing))
		must(t, refusing.Close())
		refusal(t, err, ErrCancelled, "enough")
		must(t, c.Rewind(0, 0))
		_, err = c.Complete(ctx, prompt, WithMaxTokens(3), WithSampler(s), WithTop(4), WithStop("zzz"))
		must(t, err)
		_, err = c.Complete(ctx, "\xff", WithStop("a", ""))
		if err == nil {
			t.Fatal("an empty stop text")
		}
		_, err = c.Embed(ctx, []string{"a", "b"})
		must(t, err)
		_, err = c.Score(ctx, "The", " sea", WithReusePrefix(true))
		must(t, err)
		_, err = m.Meta("no such key")
		refusal(t, err, ErrNotFound, "")
		c.Close()
		s.Close()
	}
	for range 20 {
		round()
	}
	before := resident(t)
	const rounds = 200
	for range rounds {
		round()
	}
	// A context alone is a megabyte; an error's sentence, times seven a round, would be the least.
	if grown := resident(t) - before; grown > 16<<20 {
		t.Fatalf("%d bytes more after %d rounds", grown, rounds)
	}
}

package ember

import (
	"bytes"
	"context"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
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

// threads counts those of the process.
func threads(t testing.TB) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	must(t, err)
	return len(tasks)
}

// Hundreds of goroutines that wait for events are goroutines and no threads.
func TestWaitingTakesNoThreads(t *testing.T) {
	const requests = 300
	e := newEngine(t, WithMaxQueue(requests))
	running, let := held(t, e)
	defer running.Close()
	var group, started sync.WaitGroup
	before := threads(t)
	for range requests {
		r, err := e.Submit(context.Background(), prompt, WithMaxTokens(1))
		must(t, err)
		group.Add(1)
		started.Add(1)
		go func() {
			defer group.Done()
			started.Done()
			if _, err := r.Wait(); err != nil {
				t.Error(err)
			}
		}()
	}
	started.Wait()
	for range 100 {
		runtime.Gosched()
	}
	if grown := threads(t) - before; grown > 20 {
		t.Errorf("%d threads more for %d requests", grown, requests)
	}
	let()
	group.Wait()
}

// The library frees with a call what it allocated for it: rounds of everything take no more memory. With -race they do, which is
// the detector's own, so test.sh runs this without.
func TestMemoryDoesNotGrow(t *testing.T) {
	ctx := context.Background()
	m := bundled(t)
	e := newEngine(t)
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
		must(t, c.WriteState(0, io.Discard))
		other, err := m.NewContext(WithThreads(1), WithSize(64))
		must(t, err)
		_, err = c.Complete(ctx, " and", WithMaxTokens(4), WithDraft(other, 0, 2), WithLookup(2, 2))
		must(t, err)
		other.Close()
		c.Close()
		r, err := e.Submit(ctx, prompt, WithMaxTokens(3), WithSampler(s), WithTop(4))
		must(t, err)
		s.Close()
		_, err = r.Wait()
		must(t, err)
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

//go:build linux

package ember

import (
	"context"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkStream streams 64 tokens of the model in EMBER_BENCH_MODEL, or of the bundled one. It reports how long a token took
// inside the library and outside (crossing into C, the scheduler's part of that, copying): the median of all.
func BenchmarkStream(b *testing.B) {
	path := os.Getenv("EMBER_BENCH_MODEL")
	if path == "" {
		path = modelPath
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m, err := Load(ctx, path)
	must(b, err)
	defer m.Close()
	c, err := m.NewContext()
	must(b, err)
	defer c.Close()

	const tokens = 64
	var inside, beside []time.Duration
	for b.Loop() {
		must(b, c.Rewind(0, 0))
		g, err := c.NewGenerator(ctx, prompt, WithMaxTokens(tokens), WithIgnoreEOG(true))
		must(b, err)
		var before Usage
		for event := (Event{}); event.Kind != EventEnd; {
			start := time.Now()
			event, err = g.Next()
			wall := time.Since(start)
			must(b, err)
			usage, err := g.Usage()
			must(b, err)
			library := usage.Decode - before.Decode + usage.Prefill - before.Prefill
			inside = append(inside, library)
			beside = append(beside, wall-library)
			before = usage
		}
		equal(b, "tokens", before.GeneratedTokens, tokens)
		g.Close()
	}
	slices.Sort(inside)
	slices.Sort(beside)
	median := func(sorted []time.Duration) float64 { return float64(sorted[len(sorted)/2]) }
	b.ReportMetric(median(inside), "ns/token-inside")
	b.ReportMetric(median(beside), "ns/token-beside")
	b.ReportMetric(100*median(beside)/median(inside), "%overhead")
}

// BenchmarkEngine has as many goroutines as EMBER_BENCH_REQUESTS says, by default 256, take 16 tokens each of one engine. It
// reports how many tokens a second there were, and how long a token took outside the library: how much later than the engine's
// steps the last goroutine was done, for each token. It also reports how many threads the process had meanwhile.
func BenchmarkEngine(b *testing.B) {
	path, requests := os.Getenv("EMBER_BENCH_MODEL"), 256
	if path == "" {
		path = modelPath
	}
	if n, err := strconv.Atoi(os.Getenv("EMBER_BENCH_REQUESTS")); err == nil {
		requests = n
	}
	m, err := Load(context.Background(), path)
	must(b, err)
	defer m.Close()
	e, err := m.NewEngine(WithMaxQueue(requests))
	must(b, err)
	defer e.Close()
	most := 0
	start := time.Now()
	for b.Loop() {
		var group sync.WaitGroup
		var tokens atomic.Int64
		for range requests {
			group.Add(1)
			go func() {
				defer group.Done()
				completion, err := e.Complete(context.Background(), prompt, WithMaxTokens(16), WithIgnoreEOG(true))
				if err != nil {
					b.Error(err)
				}
				if tokens.Add(int64(len(completion.Tokens))) == int64(requests*8) {
					most = threads(b)
				}
			}()
		}
		group.Wait()
		equal(b, "tokens", tokens.Load(), int64(requests*16))
	}
	wall := time.Since(start)
	metrics, err := e.Metrics()
	must(b, err)
	n := float64(metrics.GeneratedTokens)
	b.ReportMetric(n/wall.Seconds(), "tokens/s")
	b.ReportMetric(float64(wall-metrics.Busy)/n, "ns/token-beside")
	b.ReportMetric(float64(most), "threads")
}

package ember

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"
)

// BenchmarkStream streams 64 tokens of the model in EMBER_BENCH_MODEL, or of the bundled one, and tells how long a token
// took inside the library and beside it (crossing into C, the scheduler's part of that, copying): the median of all.
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

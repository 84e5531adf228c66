package ember

import (
	"context"
	"os"
	"testing"
	"time"
)

// BenchmarkStream streams 64 tokens of the model in EMBER_BENCH_MODEL, or of the bundled one, and tells the least time of
// a round that a token took inside the library and beside it: crossing into C, copying, the loop.
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
	decode, beside := time.Hour, time.Hour
	for b.Loop() {
		must(b, c.Rewind(0, 0))
		g, err := c.NewGenerator(ctx, prompt, WithMaxTokens(tokens), WithIgnoreEOG(true))
		must(b, err)
		start := time.Now()
		var event Event
		for event.Kind != EventEnd {
			event, err = g.Next()
			must(b, err)
		}
		wall := time.Since(start)
		g.Close()
		equal(b, "tokens", event.Usage.GeneratedTokens, tokens)
		decode = min(decode, event.Usage.Decode)
		beside = min(beside, wall-event.Usage.Decode-event.Usage.Prefill)
	}
	b.ReportMetric(float64(decode.Nanoseconds())/tokens, "ns/token-inside")
	b.ReportMetric(float64(beside.Nanoseconds())/tokens, "ns/token-beside")
	b.ReportMetric(100*float64(beside)/float64(decode), "%overhead")
}

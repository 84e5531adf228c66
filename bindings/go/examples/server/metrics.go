package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ember.example/ember"
)

// Upper bounds of histograms, in seconds.
var (
	httpBounds = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	ttftBounds = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
)

// histogram counts values by upper bounds.
type histogram struct {
	mu     sync.Mutex
	bounds []float64
	counts []uint64 // one more than bounds
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(value float64) {
	i, _ := slices.BinarySearch(h.bounds, value)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[i]++
	h.sum += value
}

// write writes the histogram as one metric with these labels.
func (h *histogram) write(w io.Writer, name, labels string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var count uint64
	for i, n := range h.counts {
		count += n
		bound := "+Inf"
		if i < len(h.bounds) {
			bound = strconv.FormatFloat(h.bounds[i], 'g', -1, 64)
		}
		fmt.Fprintf(w, "%s_bucket{%s,le=%q} %d\n", name, labels, bound, count)
	}
	fmt.Fprintf(w, "%s_sum{%s} %g\n%s_count{%s} %d\n", name, labels, h.sum, name, labels, count)
}

// httpMetrics counts requests over HTTP.
type httpMetrics struct {
	inFlight atomic.Int64

	mu       sync.Mutex
	requests map[string]uint64 // by labels
	seconds  map[string]*histogram
}

func (m *httpMetrics) observe(path string, status int, took time.Duration) {
	m.mu.Lock()
	if m.requests == nil {
		m.requests, m.seconds = map[string]uint64{}, map[string]*histogram{}
	}
	m.requests[fmt.Sprintf("path=%q,code=\"%d\"", path, status)]++
	h := m.seconds[path]
	if h == nil {
		h = newHistogram(httpBounds)
		m.seconds[path] = h
	}
	m.mu.Unlock()
	h.observe(took.Seconds())
}

func (m *httpMetrics) write(w io.Writer) {
	head(w, "ember_http_requests_total", "counter", "Requests answered, by path and status; 499: the client went.")
	m.mu.Lock()
	for _, labels := range slices.Sorted(maps.Keys(m.requests)) {
		fmt.Fprintf(w, "ember_http_requests_total{%s} %d\n", labels, m.requests[labels])
	}
	seconds := maps.Clone(m.seconds)
	m.mu.Unlock()
	head(w, "ember_http_requests_in_flight", "gauge", "Requests that are being answered.")
	fmt.Fprintf(w, "ember_http_requests_in_flight %d\n", m.inFlight.Load())
	head(w, "ember_http_request_duration_seconds", "histogram", "Time from a request's header to the end of its answer.")
	for _, path := range slices.Sorted(maps.Keys(seconds)) {
		seconds[path].write(w, "ember_http_request_duration_seconds", fmt.Sprintf("path=%q", path))
	}
}

func head(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// engineMetrics are what Prometheus learns of each engine.
var engineMetrics = []struct {
	name, kind, help string
	value            func(ember.EngineMetrics) float64
}{
	{"ember_requests_submitted_total", "counter", "Generations that an engine took; each choice of an answer is one.",
		func(m ember.EngineMetrics) float64 { return float64(m.Submitted) }},
	{"ember_requests_refused_total", "counter", "Generations refused because the queue was full.",
		func(m ember.EngineMetrics) float64 { return float64(m.Refused) }},
	{"ember_requests_finished_total", "counter", "Generations that came to their end.",
		func(m ember.EngineMetrics) float64 { return float64(m.Finished) }},
	{"ember_requests_cancelled_total", "counter", "Generations that a client's leaving, a time limit or a shutdown ended.",
		func(m ember.EngineMetrics) float64 { return float64(m.Cancelled) }},
	{"ember_requests_failed_total", "counter", "Generations that an error ended.",
		func(m ember.EngineMetrics) float64 { return float64(m.Failed) }},
	{"ember_requests_preempted_total", "counter", "How often a generation gave its memory up for others and was run again later.",
		func(m ember.EngineMetrics) float64 { return float64(m.Preempted) }},
	{"ember_requests_queued", "gauge", "Generations that wait.",
		func(m ember.EngineMetrics) float64 { return float64(m.Queued) }},
	{"ember_requests_active", "gauge", "Generations that run.",
		func(m ember.EngineMetrics) float64 { return float64(m.Active) }},
	{"ember_prompt_tokens_total", "counter", "Tokens of prompts.",
		func(m ember.EngineMetrics) float64 { return float64(m.PromptTokens) }},
	{"ember_prompt_tokens_reused_total", "counter", "Tokens of prompts that were in the cache.",
		func(m ember.EngineMetrics) float64 { return float64(m.ReusedTokens) }},
	{"ember_prompt_tokens_run_total", "counter", "Tokens of prompts that were run, those that were run again included.",
		func(m ember.EngineMetrics) float64 { return float64(m.PrefilledTokens) }},
	{"ember_generated_tokens_total", "counter", "Tokens generated.",
		func(m ember.EngineMetrics) float64 { return float64(m.GeneratedTokens) }},
	{"ember_engine_steps_total", "counter", "Batches run.",
		func(m ember.EngineMetrics) float64 { return float64(m.Steps) }},
	{"ember_engine_busy_seconds_total", "counter", "Time spent in batches.",
		func(m ember.EngineMetrics) float64 { return m.Busy.Seconds() }},
	{"ember_kv_pages", "gauge", "Pages of the KV cache.",
		func(m ember.EngineMetrics) float64 { return float64(m.Pages) }},
	{"ember_kv_pages_free", "gauge", "Pages of the KV cache that no generation has.",
		func(m ember.EngineMetrics) float64 { return float64(m.FreePages) }},
}

// metrics is GET /metrics, in Prometheus' text format.
func (s *server) metrics(w http.ResponseWriter, _ *http.Request) error {
	var out strings.Builder
	head(&out, "ember_build_info", "gauge", "1; the labels tell the library's version and the machine's instruction set for each model.")
	label := make([]string, len(s.models))
	of := make([]ember.EngineMetrics, len(s.models))
	for i, m := range s.models {
		label[i] = "model=" + strconv.Quote(m.name)
		fmt.Fprintf(&out, "ember_build_info{%s,version=%q,isa=%q} 1\n", label[i], ember.Version(), m.model.ISA())
		if m.engine != nil {
			var err error
			if of[i], err = m.engine.Metrics(); err != nil {
				return err
			}
		}
	}
	for _, metric := range engineMetrics {
		head(&out, metric.name, metric.kind, metric.help)
		for i, m := range s.models {
			if m.engine != nil {
				fmt.Fprintf(&out, "%s{%s} %g\n", metric.name, label[i], metric.value(of[i]))
			}
		}
	}
	head(&out, "ember_time_to_first_token_seconds", "histogram", "Time from a request's submission to its first token.")
	for i, m := range s.models {
		if m.engine != nil {
			m.ttft.write(&out, "ember_time_to_first_token_seconds", label[i])
		}
	}
	head(&out, "ember_embedded_tokens_total", "counter", "Tokens of texts that became embeddings.")
	for i, m := range s.models {
		fmt.Fprintf(&out, "ember_embedded_tokens_total{%s} %d\n", label[i], m.embedded.Load())
	}
	s.http.write(&out)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, err := io.WriteString(w, out.String())
	return err
}

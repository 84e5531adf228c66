package ember

import (
	"context"
	"os"
	"sync"
	"testing"
)

// root is the repository's root.
const root = "../../"

const modelPath = root + "examples/models/ember-tales.gguf"

// shared is the bundled model, loaded once.
var shared = sync.OnceValues(func() (*Model, error) { return Load(context.Background(), modelPath) })

func bundled(t testing.TB) *Model {
	t.Helper()
	m, err := shared()
	must(t, err)
	return m
}

func newContext(t testing.TB, options ...ContextOption) *Context {
	t.Helper()
	c, err := bundled(t).NewContext(append([]ContextOption{WithThreads(1)}, options...)...)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func newSampler(t testing.TB, seed uint64, stages ...Stage) *Sampler {
	t.Helper()
	s, err := NewSampler(seed, stages...)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

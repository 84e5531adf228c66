package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"ember.example/ember"
)

const (
	root = "../../../../"
	toy  = root + "examples/models/ember-tales.gguf"
)

// template is for the toy model, which has none.
const template = "{% for m in messages %}{{ m.content }}\n{% endfor %}{{ mood }}{% if add_generation_prompt %}The king said{% endif %}"

// encoder is a folder of a tiny encoder, and texts with the vectors that sentence-transformers gives for them.
type encoder struct {
	folder  string
	texts   []string
	vectors [][]float32
}

var bert = sync.OnceValues(func() (encoder, error) {
	var from struct {
		Texts     []string        `json:"texts"`
		Widths    []int           `json:"widths"`
		Tokenizer json.RawMessage `json:"tokenizer"`
		Cases     []struct {
			Files map[string]json.RawMessage `json:"files"`
		} `json:"cases"`
	}
	folder, err := os.MkdirTemp("", "ember-server-test-")
	if err != nil {
		return encoder{}, err
	}
	text, err := os.ReadFile(root + "tests/fixtures/sentence/bert.json")
	if err == nil {
		err = json.Unmarshal(text, &from)
	}
	numbers, err2 := os.ReadFile(root + "tests/fixtures/sentence/bert.f32")
	errs := []error{err, err2, os.CopyFS(folder, os.DirFS(root+"tests/fixtures/hf/bert")), os.WriteFile(folder+"/tokenizer.json", from.Tokenizer, 0o600),
		os.WriteFile(folder+"/tokenizer_config.json", []byte(`{"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]"}`), 0o600)}
	for name, text := range from.Cases[0].Files {
		errs = append(errs, os.MkdirAll(filepath.Dir(folder+"/"+name), 0o700), os.WriteFile(folder+"/"+name, text, 0o600))
	}
	e := encoder{folder: folder, texts: from.Texts}
	for range e.texts {
		vector := make([]float32, from.Widths[0])
		for i := range vector {
			vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(numbers))
			numbers = numbers[4:]
		}
		e.vectors = append(e.vectors, vector)
	}
	return e, errors.Join(errs...)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if e, err := bert(); err == nil {
		_ = os.RemoveAll(e.folder)
	}
	os.Exit(code)
}

// testServer is a server with the toy model, called "toy", which chats, and an encoder, called "bert".
type testServer struct {
	*server
	*httptest.Server
	t testing.TB
}

func newTestServer(t testing.TB, change func(*config)) *testServer {
	t.Helper()
	e, err := bert()
	must(t, err)
	c, err := parse([]string{"-m", "toy=" + toy, "-m", "bert=" + e.folder, "-threads", "1"})
	must(t, err)
	c.template = template
	if change != nil {
		change(c)
	}
	s, err := newServer(context.Background(), c, discard())
	must(t, err)
	h := httptest.NewServer(s.handler())
	t.Cleanup(func() {
		h.Close()
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return &testServer{s, h, t}
}

// post sends a body, JSON or what becomes JSON, and gives the answer's status, body and header.
func (s *testServer) post(path string, body any) (int, map[string]any, http.Header) {
	s.t.Helper()
	response := s.send(context.Background(), path, body)
	defer response.Body.Close()
	var answer map[string]any
	must(s.t, json.NewDecoder(response.Body).Decode(&answer))
	return response.StatusCode, answer, response.Header
}

func (s *testServer) send(ctx context.Context, path string, body any) *http.Response {
	s.t.Helper()
	text, ok := body.(string)
	if !ok {
		marshalled, err := json.Marshal(body)
		must(s.t, err)
		text = string(marshalled)
	}
	request, err := http.NewRequestWithContext(ctx, "POST", s.URL+path, strings.NewReader(text))
	must(s.t, err)
	response, err := http.DefaultClient.Do(request)
	must(s.t, err)
	return response
}

// ok is post, which must succeed.
func (s *testServer) ok(path string, body any) map[string]any {
	s.t.Helper()
	status, answer, _ := s.post(path, body)
	if status != http.StatusOK {
		s.t.Fatalf("status %d: %v", status, answer)
	}
	return answer
}

// stream sends a body and gives the events' data up to [DONE], which must come.
func (s *testServer) stream(path string, body any) []map[string]any {
	s.t.Helper()
	response := s.send(context.Background(), path, body)
	defer response.Body.Close()
	equal(s.t, "type", response.Header.Get("Content-Type"), "text/event-stream")
	events, done := readEvents(s.t, response.Body)
	equal(s.t, "done", done, true)
	return events
}

func readEvents(t testing.TB, from io.Reader) (events []map[string]any, done bool) {
	t.Helper()
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case data == "[DONE]":
			return events, true
		case is:
			var event map[string]any
			must(t, json.Unmarshal([]byte(data), &event))
			events = append(events, event)
		}
	}
	return events, false
}

// metric is the value of a line of /metrics.
func (s *testServer) metric(line string) string {
	s.t.Helper()
	response, err := http.Get(s.URL + "/metrics")
	must(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(s.t, err)
	for l := range bytes.Lines(text) {
		if value, ok := strings.CutPrefix(string(l), line+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// waitFor waits until a metric has a value.
func (s *testServer) waitFor(line, value string) {
	s.t.Helper()
	for s.metric(line) != value {
		time.Sleep(5 * time.Millisecond) // go test ends what waits too long
	}
}

// endless are the fields of a request that the model does not end.
func (s *testServer) endless(fields map[string]any) map[string]any {
	biases := map[string]float64{}
	m := s.models[0]
	for token := range m.info.VocabSize {
		if ends, err := m.model.IsEOG(ember.Token(token)); err == nil && ends {
			biases[jsonText(token)] = -100
		}
	}
	all := map[string]any{"model": "toy", "logit_bias": biases, "stream": true}
	for name, value := range fields {
		all[name] = value
	}
	return all
}

// at goes into a JSON value by names and indices.
func at(value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			value = value.(map[string]any)[step]
		case int:
			value = value.([]any)[step]
		}
	}
	return value
}

func jsonText(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func writeFile(t testing.TB, text string) string {
	t.Helper()
	path := t.TempDir() + "/file"
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newHTTPTest(t testing.TB, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

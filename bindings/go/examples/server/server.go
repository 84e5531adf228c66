package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
)

// server answers requests over HTTP.
type server struct {
	config   *config
	models   []*served
	keys     map[[sha256.Size]byte]bool // hashes of the keys that are let in; empty: everybody is
	draining atomic.Bool
	http     httpMetrics
	log      *slog.Logger
}

// handler is what the server does for each path.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]handleFunc{
		"POST /v1/chat/completions": s.chat,
		"POST /v1/completions":      s.completions,
		"POST /v1/embeddings":       s.embeddings,
		"POST /v1/rerank":           s.rerank,
		"GET /v1/models":            s.listModels,
		"GET /v1/models/{model...}": s.showModel,
	} {
		mux.Handle(pattern, s.handle(pattern, s.guarded(handle)))
		_, path, _ := strings.Cut(pattern, " ")
		mux.Handle(path, s.handle(path, wrongMethod))
	}
	mux.Handle("GET /health", s.handle("GET /health", s.health))
	mux.Handle("GET /metrics", s.handle("GET /metrics", s.metrics))
	mux.Handle("/", s.handle("other", func(_ http.ResponseWriter, r *http.Request) error {
		return newError(http.StatusNotFound, "invalid_request_error", "unknown_url", fmt.Sprintf("Unknown URL: %s %s.", r.Method, r.URL.Path))
	}))
	return mux
}

func wrongMethod(_ http.ResponseWriter, r *http.Request) error {
	return newError(http.StatusMethodNotAllowed, "invalid_request_error", "method_not_allowed", fmt.Sprintf("%s is not allowed for %s.", r.Method, r.URL.Path))
}

// handleFunc answers a request, or says why it does not.
type handleFunc func(http.ResponseWriter, *http.Request) error

// recorder notes what was sent.
type recorder struct {
	http.ResponseWriter
	status int // 0: nothing was sent
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(data []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// handle makes a handler of f: it counts and logs requests, and turns errors and panics into answers.
func (s *server) handle(pattern string, f handleFunc) http.Handler {
	path := pattern[strings.LastIndex(pattern, " ")+1:]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		s.http.inFlight.Add(1)
		defer s.http.inFlight.Add(-1)
		id := newID("req-")
		w.Header().Set("X-Request-Id", id)
		ctx, cancel := context.WithTimeoutCause(r.Context(), s.config.requestTimeout, errTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		out := &recorder{ResponseWriter: w}
		err := recovered(f, out, r)
		status := out.status
		if err != nil {
			status = s.fail(out, r, id, err)
		}
		took := time.Since(begin)
		s.http.observe(path, status, took)
		if path != "/health" && path != "/metrics" {
			s.log.Info("request", "id", id, "method", r.Method, "path", r.URL.Path, "status", status, "took", took.Round(time.Microsecond))
		}
	})
}

// recovered is f, whose panics are errors.
func recovered(f handleFunc, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f(w, r)
}

// fail answers with an error and tells its status. In a stream that has begun it is an event.
func (s *server) fail(w *recorder, r *http.Request, id string, err error) int {
	e, internal := asAPIError(r.Context(), err)
	if internal {
		s.log.Error("request failed", "id", id, "error", err)
	}
	if w.status != 0 {
		if e.status != statusClientGone && w.Header().Get("Content-Type") == "text/event-stream" {
			out := newStream(w)
			out.open = true
			_ = out.send(map[string]any{"error": e}) // who does not read it has gone
		}
		return e.status
	}
	for name, value := range e.headers {
		w.Header().Set(name, value)
	}
	_ = writeJSON(w, e.status, map[string]any{"error": e})
	return e.status
}

// guarded lets f see requests only with a key, and while the server is up.
func (s *server) guarded(f handleFunc) handleFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := s.authorize(r); err != nil {
			return err
		}
		if s.draining.Load() {
			return draining()
		}
		return f(w, r)
	}
}

func (s *server) authorize(r *http.Request) error {
	if len(s.keys) == 0 {
		return nil
	}
	key, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	// A hash is looked up, so that the time it takes tells nothing of the keys.
	if bearer && s.keys[sha256.Sum256([]byte(key))] {
		return nil
	}
	e := newError(http.StatusUnauthorized, "invalid_request_error", "invalid_api_key", "There is no such API key. Send one as \"Authorization: Bearer KEY\".")
	e.headers = map[string]string{"WWW-Authenticate": "Bearer"}
	return e
}

// readTimeout is how long a client may take to send the body of its request.
const readTimeout = time.Minute

// read reads the body of a request into the struct that into points to.
func (s *server) read(w http.ResponseWriter, r *http.Request, into any, rules rules) error {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readTimeout)) // not every connection has one
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.config.maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return newError(http.StatusRequestEntityTooLarge, "invalid_request_error", "request_too_large",
			fmt.Sprintf("The body of a request may have %d bytes at most.", s.config.maxBody))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return newError(http.StatusRequestTimeout, "invalid_request_error", "request_timeout", "The body of the request did not come in time.")
	case err != nil:
		return newError(http.StatusBadRequest, "invalid_request_error", "incomplete_body", "The body of the request did not come whole.")
	}
	// Or the deadline would end the wait for the client's leaving, too.
	_ = control.SetReadDeadline(time.Time{})
	if err := checkUTF8(body); err != nil {
		return err
	}
	return decode(body, into, rules, "")
}

func (s *server) modelNamed(name string) (*served, error) {
	for _, m := range s.models {
		if m.name == name {
			return m, nil
		}
	}
	if name == "" {
		return nil, invalid("model", "model is missing.")
	}
	e := newError(http.StatusNotFound, "invalid_request_error", "model_not_found", fmt.Sprintf("There is no model %q; /v1/models lists those there are.", name))
	param := "model"
	e.Param = &param
	return nil, e
}

// modelInfo is a model as OpenAI's API lists it, and what an application may want to know.
type modelInfo struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Created  int64  `json:"created"`
	OwnedBy  string `json:"owned_by"`
	MaxLen   int    `json:"max_model_len,omitempty"` // tokens of a prompt and its answer
	Embedded int    `json:"embedding_length"`
	Chat     bool   `json:"chat"`
}

func (m *served) list() modelInfo {
	return modelInfo{m.name, "model", m.created, "ember", m.size, m.info.EmbeddingLen, m.canChat}
}

func (s *server) listModels(w http.ResponseWriter, _ *http.Request) error {
	list := []modelInfo{}
	for _, m := range s.models {
		list = append(list, m.list())
	}
	return writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

func (s *server) showModel(w http.ResponseWriter, r *http.Request) error {
	m, err := s.modelNamed(r.PathValue("model"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, m.list())
}

func (s *server) health(w http.ResponseWriter, _ *http.Request) error {
	if s.draining.Load() {
		return draining()
	}
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// toJSON writes v as a line of JSON, in which "<" stays "<".
func toJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return text.Bytes(), err
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	text, err := toJSON(v)
	if err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has one
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(text); err != nil {
		return clientGone()
	}
	return nil
}

// newID makes a name that no other request has.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

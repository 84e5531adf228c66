package main

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// Whatever the body, the answer is one, or says what is wrong with the request: nothing is a defect of the server's.
func FuzzBodies(f *testing.F) {
	s := newTestServer(f, func(c *config) { c.size = 64 })
	h := s.handler()
	paths := []string{chatPath, textPath, "/v1/embeddings"}
	for _, body := range []string{
		`{"model": "toy", "messages": [{"role": "user", "content": "a"}], "max_tokens": 2, "temperature": 0.5, "stop": ["x"], "n": 2}`,
		`{"model": "toy", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "max_tokens": 1, "logprobs": true, "top_logprobs": 2}`,
		`{"model": "toy", "prompt": ["a", [1, 2]], "echo": true, "logprobs": 1, "max_tokens": 0, "logit_bias": {"5": -100}}`,
		`{"model": "bert", "input": ["w1", "w2"], "encoding_format": "base64"}`,
		`{"model": "toy", "prompt": "a", "stream": true, "stream_options": {"include_usage": true}, "seed": -1, "top_k": 3, "min_p": 0.1}`,
	} {
		for i := range paths {
			f.Add(i, body)
		}
	}
	f.Fuzz(func(t *testing.T, path int, body string) {
		if path < 0 || strings.Contains(body, `"n"`) && len(body) > 300 {
			return // many choices take long
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", paths[path%len(paths)], strings.NewReader(body)))
		if w.Code >= 500 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	})
}

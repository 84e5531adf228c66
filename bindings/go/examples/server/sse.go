package main

import (
	"net/http"
	"time"
)

// stream sends server-sent events. Its header goes out with the first one, so that an error before that is an ordinary answer.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	open    bool
}

// writeTimeout is how long a client may leave an event, or a whole answer, unread.
const writeTimeout = 30 * time.Second

func newStream(w http.ResponseWriter) *stream {
	return &stream{w: w, control: http.NewResponseController(w)}
}

// send sends v as JSON.
func (s *stream) send(v any) error {
	text, err := toJSON(v)
	if err != nil {
		return err
	}
	return s.write(text)
}

// done says that nothing follows.
func (s *stream) done() error { return s.write([]byte("[DONE]\n")) }

// write sends a line, and the empty one that ends an event.
func (s *stream) write(data []byte) error {
	if !s.open {
		s.open = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-cache")
		s.w.Header().Set("X-Accel-Buffering", "no") // proxies shall pass each event on at once
		s.w.WriteHeader(http.StatusOK)
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has one
	for _, part := range [][]byte{[]byte("data: "), data, []byte("\n")} {
		if _, err := s.w.Write(part); err != nil {
			return clientGone()
		}
	}
	if err := s.control.Flush(); err != nil {
		return clientGone()
	}
	return nil
}

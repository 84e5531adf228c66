// Serves models over HTTP, in the way of OpenAI's API.
//
//	go run ./examples/server -m model.gguf
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"ember.example/ember"
)

func main() {
	c, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(ctx, stop) // a second signal ends the program at once
		err = run(ctx, c, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and then shuts down.
func run(ctx context.Context, c *config, log *slog.Logger) (err error) {
	s, err := newServer(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	listener, err := net.Listen("tcp", c.addr)
	if err != nil {
		return err
	}
	log.Info("listening", "addr", listener.Addr().String(), "keys", len(s.keys), "version", ember.Version())
	return s.serve(ctx, listener)
}

func newServer(ctx context.Context, c *config, log *slog.Logger) (*server, error) {
	s := &server{config: c, keys: c.keys, log: log}
	for _, spec := range c.models {
		m, err := loadModel(ctx, spec, c)
		if err == nil {
			for _, other := range s.models {
				if other.name == m.name {
					err = errors.Join(fmt.Errorf("two models are called %s; name one of them: -m name=file", m.name), m.close())
					break
				}
			}
		}
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.models = append(s.models, m)
		log.Info("loaded", "model", m.name, "context", m.size, "chat", m.canChat, "isa", m.model.ISA())
	}
	return s, nil
}

func (s *server) close() (err error) {
	for _, m := range s.models {
		err = errors.Join(err, m.close())
	}
	return err
}

// serve answers until ctx ends. Then it takes no more requests, lets those under way go on for a while, and cancels the rest.
func (s *server) serve(ctx context.Context, listener net.Listener) error {
	base, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	h := &http.Server{
		Handler:           s.handler(),
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.log.Info("draining", "requests", s.http.inFlight.Load(), "timeout", s.config.drainTimeout)
	s.draining.Store(true)
	drain, stop := context.WithTimeout(context.Background(), s.config.drainTimeout)
	defer stop()
	err := h.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("cancelling", "requests", s.http.inFlight.Load())
		cancel(errDraining)
		rest, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err = h.Shutdown(rest); err != nil {
			err = errors.Join(err, h.Close())
		}
	}
	s.log.Info("stopped")
	return err
}

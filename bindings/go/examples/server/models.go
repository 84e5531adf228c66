package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"ember.example/ember"
)

// served is a model that the server answers with.
type served struct {
	name     string
	model    *ember.Model
	info     ember.ModelInfo
	engine   *ember.Engine // nil for an encoder, which gives embeddings only
	size     int           // tokens of a prompt and its answer
	template string        // in place of the model's chat template; "": that
	canChat  bool
	created  int64

	aside       aside
	constraints constraints

	ttft     *histogram   // seconds to the first token of requests
	embedded atomic.Int64 // tokens of texts that became embeddings
}

// loadModel loads the model of spec, a path or name=path.
func loadModel(ctx context.Context, spec string, c *config) (*served, error) {
	name, path, named := strings.Cut(spec, "=")
	if !named {
		path = spec
		base := filepath.Base(filepath.Clean(path))
		name = strings.TrimSuffix(base, ".gguf")
	}
	if name == "" || path == "" {
		return nil, fmt.Errorf("%q is neither a file nor name=file", spec)
	}
	model, err := ember.Load(ctx, path)
	if err != nil {
		return nil, err
	}
	m := &served{name: name, model: model, info: model.Info(), template: c.template, created: time.Now().Unix(), ttft: newHistogram(ttftBounds)}
	if !m.info.HasTokenizer {
		return nil, errors.Join(fmt.Errorf("%s has no tokenizer", path), m.close())
	}
	m.canChat = m.info.Causal && (m.info.ChatTemplate || m.template != "")
	m.aside = aside{model: model, threads: c.threads, turn: make(chan struct{}, 1), most: int64(c.queue)}
	if !m.info.Causal {
		return m, nil
	}
	options := []ember.ContextOption{ember.WithSize(c.size), ember.WithThreads(c.threads), ember.WithKVLimit(c.kvLimit)}
	m.engine, err = model.NewEngine(ember.WithParallel(c.parallel), ember.WithMaxQueue(c.queue), ember.WithContextOptions(options...))
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	m.size = m.engine.Info().Size
	m.aside.size = m.size
	return m, nil
}

func (m *served) close() error {
	if m.engine != nil {
		m.engine.Close()
	}
	m.aside.close()
	return m.model.Close()
}

// fingerprint names what, beside a request and its seed, an answer depends on.
func (m *served) fingerprint() string { return "ember-" + ember.Version() + "-" + m.model.ISA() }

// aside is a context beside the engine, for embeddings and for the log-probabilities of prompts. Requests take turns with it.
type aside struct {
	model         *ember.Model
	size, threads int
	turn          chan struct{} // holds an element while somebody has the context
	waiting       atomic.Int64
	most          int64 // who may wait
	context       *ember.Context
}

// use calls f with the context when it is this request's turn.
func (a *aside) use(ctx context.Context, f func(*ember.Context) error) error {
	if a.waiting.Add(1) > a.most {
		a.waiting.Add(-1)
		return busy()
	}
	select {
	case a.turn <- struct{}{}:
		a.waiting.Add(-1)
	case <-ctx.Done():
		a.waiting.Add(-1)
		return context.Cause(ctx)
	}
	defer func() { <-a.turn }()
	if a.context == nil { // made when first asked for, since it takes memory
		c, err := a.model.NewContext(ember.WithSize(a.size), ember.WithThreads(a.threads))
		if err != nil {
			return err
		}
		a.context = c
	}
	return f(a.context)
}

func (a *aside) close() {
	if a.turn == nil {
		return
	}
	a.turn <- struct{}{}
	if a.context != nil {
		a.context.Close()
		a.context = nil
	}
	<-a.turn
}

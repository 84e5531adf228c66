package ember

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestUseAfterClose(t *testing.T) {
	ctx := context.Background()
	m, err := Load(ctx, modelPath)
	must(t, err)
	c, err := m.NewContext(WithThreads(1))
	must(t, err)
	s, err := NewSampler(1)
	must(t, err)
	g, err := c.NewGenerator(ctx, prompt, WithSampler(s))
	must(t, err)
	for range 2 { // in an order that children outlive what they use, and twice
		must(t, m.Close())
		must(t, s.Close())
	}
	_, err = g.Next() // keeps what it needs
	must(t, err)
	for range 2 {
		must(t, c.Close())
		must(t, g.Close())
	}

	equal(t, "dimensions stay", m.Info().Layers, 5)
	equal(t, "options stay", c.Info().Threads, 1)
	for name, call := range map[string]func() error{
		"NewContext":    func() error { _, err := m.NewContext(); return err },
		"Tokenize":      func() error { _, err := m.Tokenize("x", 0); return err },
		"TokenizeBytes": func() error { _, err := m.TokenizeBytes([]byte("x"), 0); return err },
		"Detokenize":    func() error { _, err := m.Detokenize([]Token{1}, 0); return err },
		"TokenBytes":    func() error { _, err := m.TokenBytes(1); return err },
		"IsEOG":         func() error { _, err := m.IsEOG(1); return err },
		"IsControl":     func() error { _, err := m.IsControl(1); return err },
		"Model.Memory":  func() error { _, err := m.Memory(); return err },
		"Memory":        func() error { _, err := c.Memory(); return err },
		"Timings":       func() error { _, err := c.Timings(); return err },
		"ResetTimings":  func() error { return c.ResetTimings() },
		"DRY":           func() error { _, err := NewSampler(1, DRY(m, 8, 1, 1, 2)); return err },
		"MetaKeys":      func() error { _, err := m.MetaKeys(); return err },
		"Meta":          func() error { _, err := m.Meta("x"); return err },
		"Decode":        func() error { return c.Decode(ctx, []Token{1}) },
		"Logits":        func() error { _, err := c.Logits(0); return err },
		"NPast":         func() error { _, err := c.NPast(0); return err },
		"Rewind":        func() error { return c.Rewind(0, 0) },
		"ShiftSequence": func() error { return c.ShiftSequence(0, 0, 0) },
		"Embed":         func() error { _, err := c.Embed(ctx, []string{"x"}); return err },
		"EmbedTokens":   func() error { _, err := c.EmbedTokens(ctx, [][]Token{{1}}); return err },
		"Score":         func() error { _, err := c.Score(ctx, "The", " sea"); return err },
		"NewGenerator":  func() error { _, err := c.NewGenerator(ctx, "x"); return err },
		"Complete":      func() error { _, err := c.Complete(ctx, "x"); return err },
		"Next":          func() error { _, err := g.Next(); return err },
		"Usage":         func() error { _, err := g.Usage(); return err },
		"Sample":        func() error { _, err := s.Sample([]float32{1}); return err },
		"Reset":         func() error { return s.Reset() },
		"closed sampler": func() error {
			_, err := newContext(t).NewGenerator(ctx, "x", WithSampler(s))
			return err
		},
		"closed draft": func() error {
			_, err := newContext(t).NewGenerator(ctx, "x", WithDraft(c, 0, 4))
			return err
		},
	} {
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestZeroValues(t *testing.T) {
	_, err := new(Model).Tokenize("x", 0)
	equal(t, "model", err, ErrClosed)
	_, err = new(Context).NPast(0)
	equal(t, "context", err, ErrClosed)
	_, err = new(Sampler).Sample(nil)
	equal(t, "sampler", err, ErrClosed)
	_, err = new(Generator).Next()
	equal(t, "generator", err, ErrClosed)
	must(t, new(Model).Close())
	must(t, new(Context).Close())
	must(t, new(Sampler).Close())
	must(t, new(Generator).Close())
	must(t, new(Engine).Close())
}

func TestZeroOptions(t *testing.T) {
	ctx := context.Background()
	m, c, e := bundled(t), newContext(t), newEngine(t)
	before := live.Load()
	for name, call := range map[string]func() error{
		"Stage":                func() error { _, err := NewSampler(1, Greedy(), Stage{}); return err },
		"LoadOption":           func() error { _, err := Load(ctx, modelPath, LoadOption{}); return err },
		"of an estimate":       func() error { _, err := EstimateMemory(modelPath, []LoadOption{{}}, nil); return err },
		"ContextOption":        func() error { _, err := m.NewContext(ContextOption{}); return err },
		"EngineOption":         func() error { _, err := m.NewEngine(EngineOption{}); return err },
		"of an engine":         func() error { _, err := m.NewEngine(WithContextOptions(ContextOption{})); return err },
		"GenerateOption":       func() error { _, err := c.Complete(ctx, prompt, GenerateOption{}); return err },
		"of a score":           func() error { _, err := c.Score(ctx, prompt, " a", GenerateOption{}); return err },
		"of a request":         func() error { _, err := e.Submit(ctx, prompt, GenerateOption{}); return err },
		"EmbedOption":          func() error { _, err := c.Embed(ctx, []string{prompt}, EmbedOption{}); return err },
		"ChatOption":           func() error { _, err := m.ApplyChatTemplate(nil, ChatOption{}); return err },
		"ChatOption with JSON": func() error { _, err := m.ApplyChatTemplateJSON([]byte("[]"), ChatOption{}); return err },
	} {
		t.Run(name, func(t *testing.T) { refusal(t, call(), ErrInvalidArgument, "nothing in this package made") })
	}
	_, err := NewSampler(1, DRY(nil, 8, 1, 1, 2))
	equal(t, "no model", err, ErrClosed)
	_, err = NewSampler(1, DRY(new(Model), 8, 1, 1, 2))
	equal(t, "zero model", err, ErrClosed)
	equal(t, "handles", live.Load(), before)
}

func TestSecondGoroutineIsBusy(t *testing.T) {
	c := newContext(t)
	must(t, c.Decode(context.Background(), []Token{1}))
	inside, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- c.ViewLogits(0, func([]float32) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	_, err := c.Complete(context.Background(), prompt)
	refusal(t, err, ErrBusy, "")
	refusal(t, c.Decode(context.Background(), []Token{1}), ErrBusy, "")
	close(leave)
	must(t, <-done)
	must(t, c.Decode(context.Background(), []Token{1}))
}

// Many goroutines at one context, a sampler and a generator: each call succeeds or is refused.
func TestGoroutinesCollide(t *testing.T) {
	c := newContext(t)
	s := newSampler(t, 1, TopK(5))
	g, err := c.NewGenerator(context.Background(), prompt, WithMaxTokens(60), WithSampler(s))
	must(t, err)
	defer g.Close()
	logits := make([]float32, 100)
	var group sync.WaitGroup
	for i := range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 40 {
				var err error
				switch i % 4 {
				case 0, 1:
					_, err = g.Next()
				case 2:
					_, err = c.NPast(0)
				case 3:
					_, err = s.Sample(logits)
				}
				if err != nil && !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
}

func TestCloseDuringACall(t *testing.T) {
	before := live.Load()
	for range 10 {
		c, err := bundled(t).NewContext(WithThreads(1))
		must(t, err)
		started := make(chan struct{})
		done := make(chan error)
		go func() {
			var last error
			n := 0
			for _, err := range c.Generate(context.Background(), prompt, WithMaxTokens(300)) {
				if n++; n == 2 {
					close(started)
				}
				last = err
			}
			done <- last
		}()
		<-started
		must(t, c.Close())
		if err := <-done; err != nil && !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
	equal(t, "handles", live.Load(), before)
}

func TestForgottenHandlesAreFreed(t *testing.T) {
	bundled(t)
	before := live.Load()
	forget := func() {
		m, err := Load(context.Background(), modelPath)
		must(t, err)
		c, err := m.NewContext(WithThreads(1))
		must(t, err)
		s, err := NewSampler(1, StageFunc(func([]Token, []float32) error { return nil }))
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel) // a context.Context that lives on must not hold the generator
		draft, err := m.NewContext(WithThreads(1))
		must(t, err)
		g, err := c.NewGenerator(ctx, prompt, WithSampler(s), WithDraft(draft, 0, 4))
		must(t, err)
		_, err = g.Next()
		must(t, err)
		e, err := m.NewEngine()
		must(t, err)
		r, err := e.Submit(ctx, prompt, WithSampler(s))
		must(t, err)
		_, err = r.Next()
		must(t, err)
	}
	for range 3 {
		forget()
	}
	for range 200 {
		runtime.GC()
		if live.Load() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d handles, %d before", live.Load(), before)
}

func TestRefusalsLeaveNoHandles(t *testing.T) {
	ctx := context.Background()
	c := newContext(t)
	before := live.Load()
	for range 10 {
		_, _ = Load(ctx, "no such file")
		_, _ = Load(ctx, modelPath, WithISA("abacus"))
		_, _ = bundled(t).NewContext(WithSequences(0))
		_, _ = Load(ctx, modelPath, WithProgress(func(float32) error { return errEnough }))
		_, _ = LoadBorrowed(ctx, []byte("no GGUF"), nil)
		_, _ = NewSampler(1, TopP(9))
		_, _ = NewSampler(1, StageFunc(refuse), TopP(9))
		_, _ = c.NewGenerator(ctx, "")
		_, _ = c.NewGenerator(ctx, prompt, WithTop(1000))
		_, _ = c.NewGenerator(ctx, prompt, WithDraft(c, 0, 4))
		_, _ = c.Complete(ctx, "\xff")
	}
	equal(t, "handles", live.Load(), before)
}

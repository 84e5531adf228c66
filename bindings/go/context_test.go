package ember

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestContextInfo(t *testing.T) {
	c := newContext(t, WithSize(64), WithSequences(3), WithBatch(16), WithKVType(KVF32), WithBackend(BackendAuto))
	equal(t, "options", c.Info(), ContextInfo{Size: 64, Sequences: 3, Batch: 16, Threads: 1, PageLen: 32, Pages: 6})
	m := bundled(t)
	_, err := m.NewContext(WithSequences(0))
	refusal(t, err, ErrInvalidArgument, "0")
	_, err = m.NewContext(WithSize(-1))
	refusal(t, err, ErrInvalidArgument, "-1")
	_, err = m.NewContext(WithThreads(math.MaxInt32))
	refusal(t, err, ErrInvalidArgument, "")
	_, err = m.NewContext(WithWorkerCPUs(1 << 20))
	refusal(t, err, ErrInvalidArgument, "")
	_, err = m.NewContext(WithKVType(9))
	refusal(t, err, ErrInvalidArgument, "9")
	_, err = m.NewContext(WithKeyType(9))
	refusal(t, err, ErrInvalidArgument, "9")
	_, err = m.NewContext(WithValueType(9))
	refusal(t, err, ErrInvalidArgument, "9")
	newContext(t, WithKeyType(KVQ8), WithValueType(KVF16))
	newContext(t, WithKVType(KVI16))
	_, err = m.NewContext(WithBackend(9))
	refusal(t, err, ErrInvalidArgument, "9")
}

func TestDecodeAndLogits(t *testing.T) {
	ctx := context.Background()
	c := newContext(t)
	tokens, err := bundled(t).Tokenize("Once upon a time", AddSpecial)
	must(t, err)
	must(t, c.Decode(ctx, tokens))
	past, err := c.NPast(0)
	must(t, err)
	equal(t, "tokens", past, len(tokens))

	last := len(tokens) - 1
	logits, err := c.Logits(last)
	must(t, err)
	equal(t, "logits", len(logits), 3072)
	var viewed []float32
	must(t, c.ViewLogits(last, func(view []float32) error {
		viewed = slices.Clone(view)
		_, err := c.NPast(0) // in use meanwhile
		refusal(t, err, ErrBusy, "")
		return nil
	}))
	if !slices.Equal(logits, viewed) {
		t.Fatal("view and copy differ")
	}
	appended, err := c.AppendLogits(make([]float32, 1, 4000), last)
	must(t, err)
	equal(t, "appended", len(appended), 3073)

	greedy := newSampler(t, 0, Greedy())
	token, err := greedy.Sample(logits)
	must(t, err)
	equal(t, "token", token, 12) // as in the golden file

	_, err = c.Logits(0)
	refusal(t, err, ErrNotFound, "")
	_, err = c.Logits(-1)
	refusal(t, err, ErrNotFound, "-1")
	must(t, c.Rewind(0, 2))
	past, err = c.NPast(0)
	must(t, err)
	equal(t, "tokens after rewinding", past, 2)
	_, err = c.Logits(last)
	refusal(t, err, ErrNotFound, "")
	refusal(t, c.Rewind(0, 3), ErrInvalidArgument, "")
	refusal(t, c.Rewind(-1, 0), ErrInvalidArgument, "-1")
	_, err = c.NPast(7)
	refusal(t, err, ErrInvalidArgument, "7")
}

func TestDecodeBatch(t *testing.T) {
	ctx := context.Background()
	c := newContext(t, WithSequences(2))
	must(t, c.DecodeBatch(ctx, Batch{
		Tokens:     []Token{47, 47, 1069, 602},
		Positions:  []uint32{0, 0, 1, 1},
		Sequences:  []uint32{0, 1, 0, 1},
		WantLogits: []bool{true, false, true, true},
	}))
	_, err := c.Logits(1)
	refusal(t, err, ErrNotFound, "")
	both, err := c.Logits(2)
	must(t, err)

	alone := newContext(t)
	must(t, alone.Decode(ctx, []Token{47, 1069}))
	want, err := alone.Logits(1)
	must(t, err)
	if !slices.Equal(both, want) {
		t.Fatal("a sequence depends on its neighbour")
	}
	refusal(t, c.DecodeBatch(ctx, Batch{Tokens: []Token{1, 2}, Sequences: []uint32{0}}), ErrInvalidArgument, "Sequences")
	refusal(t, c.DecodeBatch(ctx, Batch{Tokens: []Token{1}, Positions: []uint32{9}}), ErrInvalidArgument, "9")
	refusal(t, c.Decode(ctx, []Token{99999}), ErrInvalidArgument, "99999")
	refusal(t, c.Decode(ctx, nil), ErrInvalidArgument, "")
	small := newContext(t, WithSize(2))
	refusal(t, small.Decode(ctx, []Token{1, 2, 3}), ErrContextFull, "")
}

func TestSampler(t *testing.T) {
	logits := []float32{0, 3, 2, 1}
	draw := func(s *Sampler) (drawn []Token) {
		for range 20 {
			token, err := s.Sample(logits)
			must(t, err)
			drawn = append(drawn, token)
		}
		return drawn
	}
	s := newSampler(t, 5, TopK(3), TopP(0.99), Temperature(2))
	first := draw(s)
	must(t, s.Reset())
	if again := draw(s); !slices.Equal(first, again) {
		t.Fatalf("%v, then %v", first, again)
	}
	if slices.Contains(first, 0) {
		t.Fatal("a token that top-k rules out")
	}
	_, err := NewSampler(1, Temperature(-1))
	refusal(t, err, ErrInvalidArgument, "-1")
	_, err = NewSampler(1, TopP(0))
	refusal(t, err, ErrInvalidArgument, "0")
	_, err = NewSampler(1, TopK(-4))
	refusal(t, err, ErrInvalidArgument, "-4")
	_, err = s.Sample(nil)
	refusal(t, err, ErrInvalidArgument, "")
	_, err = s.Sample([]float32{float32(math.NaN())})
	refusal(t, err, ErrInvalidArgument, "")
}

func TestStages(t *testing.T) {
	logits := []float32{1, 5, 4, 3}
	sample := func(stages ...Stage) Token {
		t.Helper()
		s := newSampler(t, 3, stages...)
		must(t, s.Accept(1))
		token, err := s.Sample(logits)
		must(t, err)
		return token
	}
	equal(t, "min-p", sample(MinP(1)), 1)
	equal(t, "penalties", sample(Penalties(8, 1, 0, 9), Greedy()), 2)
	equal(t, "bias", sample(Bias(map[Token]float32{0: 9, 1: float32(math.Inf(-1))}), Greedy()), 0)
	equal(t, "allow", sample(Allow(0, 3), Greedy()), 3)
	equal(t, "deny", sample(Deny(1, 2), Greedy()), 3)
	equal(t, "XTC", sample(XTC(1, 0.2), Greedy()), 2)
	for name, stage := range map[string]Stage{
		"typical": TypicalP(0.9), "dynamic": DynamicTemperature(1, 0.5, 1), "mirostat": Mirostat(5, 0.1),
	} {
		if token := sample(stage); int(token) >= len(logits) {
			t.Fatalf("%s: %d", name, token)
		}
	}
	for culprit, stage := range map[string]Stage{
		"2": MinP(2), "-5": Penalties(-5, 1, 0, 0), "0": Penalties(1, 0, 0, 0), "": Bias(map[Token]float32{1: float32(math.NaN())}),
	} {
		_, err := NewSampler(1, stage)
		refusal(t, err, ErrInvalidArgument, culprit)
	}

	s := newSampler(t, SeedRandom)
	seed, err := s.Seed()
	must(t, err)
	clone, err := s.Clone()
	must(t, err)
	defer clone.Close()
	again, err := clone.Seed()
	must(t, err)
	equal(t, "the clone's seed", again, seed)
	for range 8 {
		a, err := s.Sample(logits)
		must(t, err)
		b, err := clone.Sample(logits)
		must(t, err)
		equal(t, "the clone's token", b, a)
	}
}

func TestEmbed(t *testing.T) {
	ctx := context.Background()
	c := newContext(t)
	texts := []string{"The sea.", "A longer text about the old king.", "🌙"}
	vectors, err := c.Embed(ctx, texts)
	must(t, err)
	equal(t, "vectors", len(vectors), 3)
	near(t, "length", dot(vectors[1], vectors[1]), 1, 1e-5)

	var tokens [][]Token
	n := 0
	for _, text := range texts {
		ids, err := bundled(t).Tokenize(text, AddSpecial)
		must(t, err)
		tokens = append(tokens, ids)
		n += len(ids)
	}
	again, err := c.EmbedTokens(ctx, tokens)
	must(t, err)
	for i := range vectors {
		if !slices.Equal(vectors[i], again[i]) {
			t.Fatalf("text %d has another vector as tokens", i)
		}
	}
	each, err := c.Embed(ctx, texts, WithPooling(PoolingNone))
	must(t, err)
	equal(t, "vectors of tokens", len(each), n)
	raw, err := c.Embed(ctx, texts, WithPooling(PoolingLast), WithNormalize(false))
	must(t, err)
	if math.Abs(dot(raw[0], raw[0])-1) < 1e-3 {
		t.Fatal("scaled all the same")
	}

	nothing, err := c.Embed(ctx, nil)
	if len(nothing) != 0 {
		t.Fatalf("%d vectors of no texts, %v", len(nothing), err)
	}
	_, err = c.Embed(ctx, []string{"fine", ""})
	refusal(t, err, ErrInvalidArgument, "1")
	_, err = c.Embed(ctx, []string{"fine", "\xff"})
	refusal(t, err, ErrUTF8, "1")
	_, err = c.Embed(ctx, texts, WithPooling(42))
	refusal(t, err, ErrInvalidArgument, "42")
	long := []string{strings.Repeat("word ", 2000)}
	_, err = c.Embed(ctx, long)
	refusal(t, err, ErrContextFull, "0")
	cut, err := c.Embed(ctx, long, WithTruncate(true))
	must(t, err)
	equal(t, "vectors of a cut text", len(cut), 1)
}

// The kinds of what ends a context.Context stay distinct, also where it was given a cause of its own.
func TestCausesOfTheEnd(t *testing.T) {
	reason := errors.New("too slow")
	late, cancel := context.WithTimeoutCause(context.Background(), time.Nanosecond, reason)
	defer cancel()
	<-late.Done()
	left, leave := context.WithCancelCause(context.Background())
	c, e := newContext(t), newEngine(t)
	g, err := c.NewGenerator(left, prompt, WithMaxTokens(500), WithIgnoreEOG(true), slowly(t))
	must(t, err)
	defer g.Close()
	r := begun(t, e, left, slowly(t))
	leave(reason)
	for ctx, kind := range map[context.Context]error{late: context.DeadlineExceeded, left: context.Canceled} {
		for name, call := range map[string]func() error{
			"Load":     func() error { _, err := Load(ctx, modelPath); return err },
			"Decode":   func() error { return c.Decode(ctx, []Token{1}) },
			"Complete": func() error { _, err := c.Complete(ctx, prompt); return err },
			"Submit":   func() error { _, err := e.Submit(ctx, prompt); return err },
		} {
			endedBy(t, name, call(), ErrCancelled, reason, kind)
		}
	}
	for event := (Event{}); err == nil && event.Kind != EventEnd; {
		event, err = g.Next() // perhaps a few events more
	}
	endedBy(t, "Next", err, ErrCancelled, reason, context.Canceled)
	_, err = r.Wait()
	endedBy(t, "Wait", err, ErrCancelled, reason, context.Canceled)

	// Without a context.Context there is none of its kinds.
	r = begun(t, e, context.Background(), slowly(t))
	r.Cancel()
	_, err = r.Wait()
	refusal(t, err, ErrCancelled, "")
	if errors.Is(err, context.Canceled) {
		t.Errorf("%v is %v", err, context.Canceled)
	}
}

func endedBy(t *testing.T, name string, err error, all ...error) {
	t.Helper()
	for _, want := range all {
		if !errors.Is(err, want) {
			t.Errorf("%s: %v is not %v", name, err, want)
		}
	}
}

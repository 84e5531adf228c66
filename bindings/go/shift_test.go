package ember

import (
	"context"
	"slices"
	"testing"
)

// rotary loads a model whose tokens can be moved, as those of the bundled one cannot; it has no tokenizer.
func rotary(t *testing.T, path string, options ...ContextOption) *Context {
	t.Helper()
	m, err := Load(context.Background(), root+path)
	must(t, err)
	t.Cleanup(func() { m.Close() })
	c, err := m.NewContext(append([]ContextOption{WithThreads(1)}, options...)...)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func past(t *testing.T, c *Context, sequence int) int {
	t.Helper()
	n, err := c.NPast(sequence)
	must(t, err)
	return n
}

// A generation that goes over the size of its sequence, and the same by hand.
func TestGoldenShift(t *testing.T) {
	ctx := context.Background()
	g := readGolden(t).Shift
	c := rotary(t, g.Model, WithSize(g.Size), WithSequences(2))
	options := []GenerateOption{WithMaxTokens(g.MaxTokens), WithShift(g.Keep, g.Drop)}
	whole, err := complete(c.GenerateTokens(ctx, g.PromptTokens, options...))
	must(t, err)
	if !slices.Equal(whole.Tokens, g.Tokens) {
		t.Fatalf("tokens: got %v, want %v", whole.Tokens, g.Tokens)
	}
	equal(t, "finish", whole.Usage.Finish.String(), g.Finish)
	equal(t, "forgotten tokens", whole.Usage.ShiftedTokens, g.Shifted)
	equal(t, "more than fit", g.Shifted > g.Size, true)
	equal(t, "length", past(t, c, 0), len(g.PromptTokens)+g.MaxTokens-g.Shifted)

	drafted, err := complete(c.GenerateTokens(ctx, g.PromptTokens, append(options, WithReusePrefix(true), WithLookup(8, 3))...))
	must(t, err)
	equal(t, "with a lookup", slices.Equal(drafted.Tokens, g.Tokens), true)

	greedy := newSampler(t, 0, Greedy())
	next := g.PromptTokens
	var tokens []Token
	for len(tokens) < g.MaxTokens {
		if past(t, c, 1) == g.Size {
			must(t, c.ShiftSequence(1, g.Keep, g.Drop))
			equal(t, "length", past(t, c, 1), g.Size-g.Drop)
		}
		must(t, c.DecodeBatch(ctx, Batch{Tokens: next, Sequences: slices.Repeat([]uint32{1}, len(next))}))
		logits, err := c.Logits(len(next) - 1)
		must(t, err)
		token, err := greedy.Sample(logits)
		must(t, err)
		tokens = append(tokens, token)
		next = []Token{token}
	}
	equal(t, "by hand", slices.Equal(tokens, g.Tokens), true)
}

func TestRefusedShifts(t *testing.T) {
	ctx := context.Background()
	g := readGolden(t).Shift
	c := rotary(t, g.Model, WithSize(32))
	_, err := c.NewGeneratorTokens(ctx, g.PromptTokens, WithShift(22, 10))
	refusal(t, err, ErrInvalidArgument, "n_ctx 32")
	_, err = c.NewGeneratorTokens(ctx, g.PromptTokens, WithShift(-1, 10))
	refusal(t, err, ErrInvalidArgument, "-1")
	full, err := complete(c.GenerateTokens(ctx, g.PromptTokens, WithMaxTokens(100), WithShift(22, 0)))
	must(t, err)
	equal(t, "no shift", full.Usage.Finish, FinishContextFull)
	equal(t, "forgotten tokens", full.Usage.ShiftedTokens, 0)
	refusal(t, c.ShiftSequence(0, 30, 3), ErrInvalidArgument, "32")
	refusal(t, c.ShiftSequence(9, 0, 1), ErrInvalidArgument, "9")
	refusal(t, c.ShiftSequence(0, 0, -5), ErrInvalidArgument, "-5")
	equal(t, "length", past(t, c, 0), 32)

	learned := newContext(t)
	must(t, learned.Decode(ctx, []Token{1, 2, 3}))
	refusal(t, learned.ShiftSequence(0, 0, 1), ErrUnsupported, "position")
	_, err = learned.NewGenerator(ctx, prompt, WithShift(4, 8))
	refusal(t, err, ErrUnsupported, "position")
	_, err = newEngine(t).Submit(ctx, prompt, WithShift(4, 8))
	refusal(t, err, ErrUnsupported, "engine")
}

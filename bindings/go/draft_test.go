package ember

import (
	"context"
	"fmt"
	"testing"
)

// A text that says things again, for a lookup to find.
const repeating = "one two three, one two three, one two three, one two"

func described(c Completion) string { return fmt.Sprint(c.Text, c.Tokens, c.Usage.Finish) }

// generated gives a whole generation in an empty sequence.
func generated(t *testing.T, c *Context, options ...GenerateOption) Completion {
	t.Helper()
	must(t, c.Rewind(0, 0))
	whole, err := c.Complete(context.Background(), repeating, append([]GenerateOption{WithMaxTokens(40), WithIgnoreEOG(true)}, options...)...)
	must(t, err)
	return whole
}

// Drafts come from the text, from a second context, and from both; the text is the same, greedy and drawn.
func TestDraftsChangeNothing(t *testing.T) {
	c, draft := newContext(t, WithSize(256)), newContext(t, WithSize(256), WithSequences(2))
	drawn := func() GenerateOption { return WithSampler(newSampler(t, 3, TopK(5), Temperature(0.7))) }
	for name, sampled := range map[string]func() GenerateOption{"greedy": func() GenerateOption { return WithSampler(nil) }, "drawn": drawn} {
		plain := generated(t, c, sampled())
		equal(t, "draft tokens without any", plain.Usage.DraftedTokens+plain.Usage.AcceptedTokens+plain.Usage.ShiftedTokens, 0)
		for who, options := range map[string][]GenerateOption{
			"lookup": {WithLookup(8, 3)},
			"draft":  {WithDraft(draft, 1, 4)},
			"both":   {WithLookup(8, 3), WithDraft(draft, 1, 4)},
		} {
			whole := generated(t, c, append(options, sampled())...)
			equal(t, name+" by "+who, described(whole), described(plain))
			usage := whole.Usage
			if usage.DraftedTokens == 0 || usage.AcceptedTokens == 0 || usage.AcceptedTokens > usage.DraftedTokens {
				t.Errorf("%s by %s: %+v", name, who, usage)
			}
		}
		equal(t, "the other sequence", past(t, draft, 0), 0)
		none := generated(t, c, WithDraft(draft, 1, 4), WithDraft(nil, 0, 0), WithLookup(8, 3), WithLookup(0, 0), sampled())
		equal(t, "draft tokens that were switched off", none.Usage.DraftedTokens, 0)
		equal(t, "text", none.Text, plain.Text)
	}
}

func TestEnginesDoWithoutDrafts(t *testing.T) {
	plain := generated(t, newContext(t, WithSize(256)))
	whole, err := newEngine(t).Complete(context.Background(), repeating, WithMaxTokens(40), WithIgnoreEOG(true), WithLookup(8, 3), WithDraft(newContext(t), 0, 4))
	must(t, err)
	equal(t, "text", described(whole), described(plain))
	equal(t, "draft tokens", whole.Usage.DraftedTokens, 0)
}

// A draft context that is busy is an error which can be tried again; one that is closed, or forgotten, goes on.
func TestLifeOfADraft(t *testing.T) {
	ctx := context.Background()
	c := newContext(t, WithSize(256))
	want := described(generated(t, c))
	must(t, c.Rewind(0, 0))
	before := live.Load()
	draft, err := bundled(t).NewContext(WithThreads(1), WithSize(256))
	must(t, err)
	option := WithDraft(draft, 0, 4)
	busy := func(call func() error) {
		must(t, draft.Decode(ctx, []Token{7})) // between two events it is free
		must(t, draft.ViewLogits(0, func([]float32) error {
			refusal(t, call(), ErrBusy, "in use")
			return nil
		}))
	}
	busy(func() error {
		_, err := c.NewGenerator(ctx, repeating, option)
		return err
	})
	g, err := c.NewGenerator(ctx, repeating, WithMaxTokens(40), WithIgnoreEOG(true), option)
	must(t, err)
	busy(func() error {
		_, err := g.Next()
		return err
	})
	n := 0
	whole, err := complete(func(yield func(Event, error) bool) {
		for {
			event, err := g.Next()
			if n++; n == 3 {
				busy(func() error { _, err := g.Next(); return err })
			} else if n == 5 {
				must(t, draft.Close())
			}
			if !yield(event, err) || err != nil || event.Kind == EventEnd {
				return
			}
		}
	})
	must(t, err)
	equal(t, "text", described(whole), want)
	equal(t, "draft tokens accepted", whole.Usage.AcceptedTokens > 0, true)
	must(t, g.Close())
	equal(t, "handles", live.Load(), before)
}

func TestRefusedDrafts(t *testing.T) {
	ctx := context.Background()
	c := newContext(t, WithSize(64))
	g := readGolden(t).Shift
	for culprit, option := range map[string]GenerateOption{
		"n_draft":    WithLookup(33, 3),
		"ngram":      WithLookup(8, 0),
		"17":         WithLookup(8, 17),
		"-1":         WithLookup(-1, 3),
		"-2":         WithDraft(newContext(t), -2, 4),
		"33":         WithDraft(newContext(t), 0, 33),
		"sequence 1": WithDraft(newContext(t), 1, 4),
		"itself":     WithDraft(c, 0, 4),
		"vocabulary": WithDraft(rotary(t, g.Model), 0, 4),
	} {
		_, err := c.NewGenerator(ctx, prompt, option)
		refusal(t, err, ErrInvalidArgument, culprit)
	}
	bert := rotary(t, "tests/fixtures/models/bert.gguf")
	_, err := c.NewGenerator(ctx, prompt, WithDraft(bert, 0, 4))
	refusal(t, err, ErrUnsupported, "encoder")
	_, err = c.NewGenerator(ctx, prompt, WithDraft(new(Context), 0, 4))
	equal(t, "zero value", err, ErrClosed)
}

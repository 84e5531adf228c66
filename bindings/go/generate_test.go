package ember

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const prompt = "Once upon a time"

func collect(t *testing.T, c *Context, prompt string, options ...GenerateOption) (events []Event) {
	t.Helper()
	for event, err := range c.Generate(context.Background(), prompt, options...) {
		must(t, err)
		events = append(events, event)
	}
	return events
}

func TestEvents(t *testing.T) {
	events := collect(t, newContext(t), prompt, WithMaxTokens(4), WithEcho(true), WithTop(3))
	equal(t, "events", len(events), 6)
	equal(t, "first", events[0].Kind, EventEcho)
	equal(t, "echo", events[0].Text, prompt)
	for _, event := range events[1:5] {
		equal(t, "kind", event.Kind, EventToken)
		equal(t, "likeliest", len(event.Top), 3)
		equal(t, "the greedy token", event.Top[0], TokenLogprob{event.Token, event.Logprob})
		bytes, err := bundled(t).TokenBytes(event.Token)
		must(t, err)
		equal(t, "bytes", string(event.Bytes), string(bytes))
		equal(t, "finish", event.Finish, FinishNone)
		if event.Usage != nil {
			t.Fatal("usage before the end")
		}
	}
	end := events[5]
	equal(t, "last", end.Kind, EventEnd)
	equal(t, "token", end.Token, NoToken)
	equal(t, "generated", end.Usage.GeneratedTokens, 4)
	if end.Usage.Prefill <= 0 || end.Usage.Decode <= 0 {
		t.Fatalf("usage: %+v", *end.Usage)
	}

	plain := collect(t, newContext(t), prompt, WithMaxTokens(1))
	equal(t, "no log-probability", math.IsNaN(float64(plain[0].Logprob)), true)
	withLogprobs := collect(t, newContext(t), prompt, WithMaxTokens(1), WithLogprobs(true))
	equal(t, "log-probability", withLogprobs[0].Logprob, events[1].Logprob)
}

func TestStopsAcrossTokens(t *testing.T) {
	whole, err := newContext(t).Complete(context.Background(), prompt, WithMaxTokens(40), WithStop("never", "of making a ve"))
	must(t, err)
	equal(t, "finish", whole.Usage.Finish, FinishStopString)
	if !strings.HasSuffix(whole.Text, "in the habit ") || strings.Contains(whole.Text, "ve") {
		t.Fatalf("text: %q", whole.Text)
	}
	whole, err = newContext(t).Complete(context.Background(), prompt, WithMaxTokens(40), WithStop("of making a ve"), WithIncludeStop(true))
	must(t, err)
	if !strings.HasSuffix(whole.Text, "of making a ve") {
		t.Fatalf("text: %q", whole.Text)
	}
}

func TestConversation(t *testing.T) {
	ctx := context.Background()
	c := newContext(t)
	first, err := c.Complete(ctx, prompt, WithMaxTokens(8))
	must(t, err)
	second, err := c.Complete(ctx, "", WithMaxTokens(8))
	must(t, err)
	whole, err := newContext(t).Complete(ctx, prompt, WithMaxTokens(16))
	must(t, err)
	equal(t, "in two parts", first.Text+second.Text, whole.Text)

	again, err := c.Complete(ctx, prompt+first.Text, WithMaxTokens(8), WithReusePrefix(true))
	must(t, err)
	equal(t, "after a prefix", again.Text, second.Text)
	equal(t, "kept tokens", again.Usage.ReusedTokens >= 8, true)
}

func TestSequencesTakeTurns(t *testing.T) {
	ctx := context.Background()
	c := newContext(t, WithSequences(2))
	a, err := c.NewGenerator(ctx, prompt, WithMaxTokens(8))
	must(t, err)
	defer a.Close()
	ids, err := bundled(t).Tokenize("The wolf said", AddSpecial)
	must(t, err)
	b, err := c.NewGeneratorTokens(ctx, ids, WithMaxTokens(8), WithSequence(1))
	must(t, err)
	defer b.Close()
	var texts [2]string
	for range 9 {
		for i, g := range []*Generator{a, b} {
			event, err := g.Next()
			must(t, err)
			texts[i] += event.Text
		}
	}
	alone, err := newContext(t).Complete(ctx, "The wolf said", WithMaxTokens(8))
	must(t, err)
	equal(t, "the second sequence", texts[1], alone.Text)
	equal(t, "the first sequence", texts[0], ", I was in the habit of")
	usage, err := a.Usage()
	must(t, err)
	equal(t, "generated", usage.GeneratedTokens, 8)
	event, err := a.Next()
	must(t, err)
	equal(t, "after the end", event.Kind, EventEnd)
}

func TestLoopLeftEarly(t *testing.T) {
	c := newContext(t)
	before := live.Load()
	n := 0
	for _, err := range c.Generate(context.Background(), prompt) {
		must(t, err)
		if n++; n == 3 {
			break
		}
	}
	equal(t, "handles", live.Load(), before)
	past, err := c.NPast(0)
	must(t, err)
	equal(t, "tokens in the sequence", past, 5+2)
}

func TestRangeTwice(t *testing.T) {
	c := newContext(t)
	seq := c.Generate(context.Background(), prompt, WithMaxTokens(4), WithReusePrefix(true))
	var texts []string
	for range 2 {
		text := ""
		for event, err := range seq {
			must(t, err)
			text += event.Text
		}
		texts = append(texts, text)
	}
	equal(t, "second range", texts[1], texts[0])
}

func TestContextFull(t *testing.T) {
	c := newContext(t, WithSize(8))
	whole, err := c.Complete(context.Background(), prompt)
	must(t, err)
	equal(t, "finish", whole.Usage.Finish, FinishContextFull)
	_, err = c.Complete(context.Background(), prompt)
	refusal(t, err, ErrContextFull, "")
}

func TestTextIsUTF8(t *testing.T) {
	s := newSampler(t, 9, Temperature(20)) // nearly random tokens: many break code points
	for event, err := range newContext(t).Generate(context.Background(), "Grüße, 月!", WithMaxTokens(200), WithSampler(s)) {
		must(t, err)
		if !utf8.ValidString(event.Text) {
			t.Fatalf("%q", event.Text)
		}
	}
}

func TestGenerateOptionRefusals(t *testing.T) {
	ctx := context.Background()
	c := newContext(t)
	for culprit, option := range map[string]GenerateOption{
		"-1": WithMaxTokens(-1), "-2": WithSequence(-2), "65": WithTop(65), "stop": WithStop(""),
	} {
		_, err := c.NewGenerator(ctx, prompt, option)
		refusal(t, err, ErrInvalidArgument, culprit)
	}
	_, err := c.NewGenerator(ctx, prompt, WithSequence(5))
	refusal(t, err, ErrInvalidArgument, "5")
	_, err = c.NewGenerator(ctx, "")
	refusal(t, err, ErrInvalidArgument, "")
	_, err = c.NewGenerator(ctx, "\xff")
	refusal(t, err, ErrUTF8, "")
	_, err = c.NewGeneratorTokens(ctx, []Token{99999})
	refusal(t, err, ErrInvalidArgument, "99999")
	_, err = c.NewGenerator(ctx, prompt, WithStop("\xff"))
	refusal(t, err, ErrUTF8, "")
	special, err := c.Complete(ctx, "<|endoftext|>", WithParseSpecial(true), WithRenderSpecial(true), WithIgnoreEOG(true), WithMaxTokens(4))
	must(t, err)
	equal(t, "prompt", special.Usage.PromptTokens, 1)
	equal(t, "tokens", len(special.Tokens), 4)
}

func TestCancelFromAnotherGoroutine(t *testing.T) {
	c := newContext(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	reason := errors.New("the client has gone")
	var last Event
	var lastErr error
	n := 0
	for event, err := range c.Generate(ctx, prompt, WithMaxTokens(400)) {
		if n++; n == 5 {
			cancelled := make(chan struct{})
			go func() {
				cancel(reason)
				close(cancelled)
			}()
			<-cancelled
		}
		last, lastErr = event, err
	}
	equal(t, "last event", last.Kind, EventEnd)
	equal(t, "finish", last.Finish, FinishCancelled)
	for _, want := range []error{ErrCancelled, reason} {
		if !errors.Is(lastErr, want) {
			t.Fatalf("%v is not %v", lastErr, want)
		}
	}
	if n >= 400 {
		t.Fatal("it was not cancelled")
	}
	// The context is as good as before.
	_, err := c.Complete(context.Background(), " and", WithMaxTokens(2))
	must(t, err)
}

func TestCancelDuringCalls(t *testing.T) {
	c := newContext(t)
	tokens := slices.Repeat([]Token{47}, 500)
	long := slices.Repeat([]string{strings.Repeat("word ", 200)}, 400)
	calls := map[string]func(context.Context) error{
		"embed":    func(ctx context.Context) error { _, err := c.Embed(ctx, long); return err },
		"generate": func(ctx context.Context) error { _, err := c.Complete(ctx, prompt, WithMaxTokens(450)); return err },
		"decode": func(ctx context.Context) error {
			for range 1000 {
				if err := c.Decode(ctx, tokens); err != nil {
					return err
				}
				if err := c.Rewind(0, 0); err != nil {
					return err
				}
			}
			return nil
		},
		"score": func(ctx context.Context) error {
			for range 1000 {
				if _, err := c.ScoreTokens(ctx, tokens[:1], tokens[:400]); err != nil {
					return err
				}
				if err := c.Rewind(0, 0); err != nil {
					return err
				}
			}
			return nil
		},
	}
	for name, call := range calls {
		must(t, c.Rewind(0, 0))
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		err := call(ctx)
		cancel()
		if !errors.Is(err, ErrCancelled) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s: %v", name, err)
		}
		must(t, c.Rewind(0, 0))
		must(t, c.Decode(context.Background(), tokens[:3]))
	}
}

func TestCancelledBeforehand(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := newContext(t)
	_, load := Load(ctx, modelPath)
	_, embed := c.Embed(ctx, []string{"x"})
	_, score := c.Score(ctx, "The", " sea")
	_, generate := c.Complete(ctx, prompt)
	for _, err := range []error{load, embed, score, generate, c.Decode(ctx, []Token{1})} {
		if !errors.Is(err, ErrCancelled) || !errors.Is(err, context.Canceled) {
			t.Fatalf("%v", err)
		}
	}
}

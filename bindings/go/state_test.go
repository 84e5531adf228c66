package ember

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

var story = strings.Repeat("Once upon a time, there was a king who had three sons, and the eldest of them was very proud. ", 4)

// decoded is a context that holds a story in a sequence, and its tokens.
func decoded(t *testing.T, sequence int, options ...ContextOption) (*Context, []Token) {
	t.Helper()
	c := newContext(t, append([]ContextOption{WithSize(256)}, options...)...)
	tokens, err := bundled(t).Tokenize(story, AddSpecial)
	must(t, err)
	must(t, c.DecodeBatch(context.Background(), Batch{Tokens: tokens, Sequences: slices.Repeat([]uint32{uint32(sequence)}, len(tokens))}))
	return c, tokens
}

func goesOn(t *testing.T, c *Context, sequence int) string {
	t.Helper()
	whole, err := c.Complete(context.Background(), " He", WithMaxTokens(6), WithSequence(sequence))
	must(t, err)
	return whole.Text
}

func TestSequences(t *testing.T) {
	c, tokens := decoded(t, 0, WithSequences(3), WithKeepPrefixes(true))
	free, err := c.FreePages()
	must(t, err)
	must(t, c.CopySequence(0, 2, len(tokens)))
	after, err := c.FreePages()
	must(t, err)
	equal(t, "pages of a copy", free-after, 0)
	want := goesOn(t, c, 0)
	equal(t, "the copy", goesOn(t, c, 2), want)
	must(t, c.KeepSequence(2))
	for sequence, length := range []int{0, 0, len(tokens) + 1 + 6} {
		past, err := c.NPast(sequence)
		must(t, err)
		equal(t, "length", past, length)
	}
	held, err := c.Tokens(2)
	must(t, err)
	equal(t, "tokens", slices.Equal(held[:len(tokens)], tokens) && len(held) == len(tokens)+1+6, true)
	held, err = c.Tokens(0)
	must(t, err)
	equal(t, "no tokens", len(held), 0)
	_, err = c.Tokens(3)
	refusal(t, err, ErrInvalidArgument, "sequence 3")
	_, err = c.Tokens(-1)
	refusal(t, err, ErrInvalidArgument, "-1")
	must(t, c.Rewind(2, 0))
	n, err := c.Reuse(1, tokens[:len(tokens)-1])
	must(t, err)
	equal(t, "kept pages", n, (len(tokens)-1)/c.Info().PageLen*c.Info().PageLen)
	equal(t, "some", n > 0, true)
	must(t, c.DecodeBatch(context.Background(), Batch{Tokens: tokens[n:], Sequences: slices.Repeat([]uint32{1}, len(tokens)-n)}))
	equal(t, "after reuse", goesOn(t, c, 1), want)

	refusal(t, c.CopySequence(0, 0, 1), ErrInvalidArgument, "")
	refusal(t, c.CopySequence(-1, 0, 1), ErrInvalidArgument, "-1")
	refusal(t, c.CopySequence(1, 0, 1000), ErrInvalidArgument, "")
	refusal(t, c.KeepSequence(9), ErrInvalidArgument, "9")
	refusal(t, c.KeepSequence(AllSequences), ErrInvalidArgument, "-1")
	_, err = c.Reuse(9, tokens)
	refusal(t, err, ErrInvalidArgument, "9")
}

func TestKVLimit(t *testing.T) {
	whole := newContext(t, WithSize(256), WithSequences(4))
	memory, err := whole.Memory()
	must(t, err)
	c := newContext(t, WithSize(256), WithSequences(4), WithKVLimit(memory.KV/4))
	equal(t, "pages", c.Info().Pages, whole.Info().Pages/4)
	equal(t, "backend", c.Info().Backend, BackendAuto)
	tokens := slices.Repeat([]Token{47}, 250)
	must(t, c.Decode(context.Background(), tokens))
	refusal(t, c.DecodeBatch(context.Background(), Batch{Tokens: tokens, Sequences: slices.Repeat([]uint32{1}, 250)}), ErrContextFull, "")
	must(t, c.Rewind(0, 0))
	must(t, c.DecodeBatch(context.Background(), Batch{Tokens: tokens, Sequences: slices.Repeat([]uint32{1}, 250)}))
	_, err = bundled(t).NewContext(WithKVLimit(1))
	refusal(t, err, ErrInvalidArgument, "")
}

func TestStates(t *testing.T) {
	c, tokens := decoded(t, 1, WithSequences(2))
	state, err := c.SaveState(1)
	must(t, err)
	all, err := c.SaveState(AllSequences)
	must(t, err)
	var stream bytes.Buffer
	must(t, c.WriteState(1, &stream))
	equal(t, "the stream", bytes.Equal(stream.Bytes(), state), true)
	path := filepath.Join(t.TempDir(), "state")
	must(t, c.SaveStateFile(1, path))
	file, err := os.ReadFile(path)
	must(t, err)
	equal(t, "the file", bytes.Equal(file, state), true)
	want := goesOn(t, c, 1)

	for name, load := range map[string]func(*Context) error{
		"bytes":    func(c *Context) error { return c.LoadState(0, state) },
		"file":     func(c *Context) error { return c.LoadStateFile(0, path) },
		"reader":   func(c *Context) error { return c.ReadState(0, bytes.NewReader(state)) },
		"slow":     func(c *Context) error { return c.ReadState(0, iotest.HalfReader(bytes.NewReader(state))) },
		"data+EOF": func(c *Context) error { return c.ReadState(0, iotest.DataErrReader(bytes.NewReader(state))) },
	} {
		other := newContext(t, WithSize(256))
		must(t, load(other))
		past, err := other.NPast(0)
		must(t, err)
		equal(t, name, past, len(tokens))
		equal(t, name, goesOn(t, other, 0), want)
	}
	other := newContext(t, WithSize(256), WithSequences(2))
	must(t, other.LoadState(AllSequences, all))
	equal(t, "all", goesOn(t, other, 1), want)

	// A pipe: one goroutine writes while the other reads.
	must(t, c.LoadState(1, state))
	in, out := io.Pipe()
	go func() { out.CloseWithError(c.WriteState(1, out)) }()
	other = newContext(t, WithSize(256))
	must(t, other.ReadState(0, in))
	equal(t, "through a pipe", goesOn(t, other, 0), want)
}

func TestRefusedStates(t *testing.T) {
	c, _ := decoded(t, 0)
	state, err := c.SaveState(0)
	must(t, err)
	damaged := bytes.Clone(state)
	damaged[len(damaged)/2] ^= 1
	refusal(t, c.LoadState(0, damaged), ErrFormat, "")
	refusal(t, c.ReadState(0, bytes.NewReader(state[:100])), ErrFormat, "")
	refusal(t, c.LoadState(3, state), ErrInvalidArgument, "3")
	refusal(t, c.LoadStateFile(0, "no such file"), ErrIO, "no such file")
	refusal(t, c.SaveStateFile(0, "no such folder/state"), ErrIO, "no such folder")
	_, err = c.SaveState(-2)
	refusal(t, err, ErrInvalidArgument, "-2")

	before := live.Load()
	for _, err := range []error{c.ReadState(0, iotest.ErrReader(errEnough)), c.WriteState(0, failing{})} {
		refusal(t, err, ErrCancelled, "enough")
		if !errors.Is(err, errEnough) {
			t.Fatalf("%v does not wrap the stream's error", err)
		}
	}
	func() {
		defer func() { equal[any](t, "panic", recover(), "a writer") }()
		_ = c.WriteState(0, panicking{})
	}()
	equal(t, "handles", live.Load(), before)
	again, err := c.SaveState(0)
	must(t, err)
	equal(t, "as before", bytes.Equal(again, state), true)
	must(t, c.Close())
	equal(t, "closed", c.WriteState(0, io.Discard), ErrClosed)
	equal(t, "closed", c.ReadState(0, bytes.NewReader(state)), ErrClosed)
	_, err = c.FreePages()
	equal(t, "closed", err, ErrClosed)
}

// A reader may give nothing now and then, but not for ever.
func TestReadersThatGiveNothing(t *testing.T) {
	c, tokens := decoded(t, 0)
	state, err := c.SaveState(0)
	must(t, err)
	other := newContext(t, WithSize(256))
	must(t, other.ReadState(0, &hesitant{r: bytes.NewReader(state)}))
	past, err := other.NPast(0)
	must(t, err)
	equal(t, "tokens", past, len(tokens))
	watched(t, "ReadState", func() { err = other.ReadState(0, idle{}) })
	refusal(t, err, ErrCancelled, io.ErrNoProgress.Error())
	if !errors.Is(err, io.ErrNoProgress) {
		t.Fatalf("%v is not %v", err, io.ErrNoProgress)
	}
	past, err = other.NPast(0)
	must(t, err)
	equal(t, "as before", past, len(tokens))
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// hesitant gives nothing 99 times before it reads.
type hesitant struct {
	r     io.Reader
	calls int
}

func (h *hesitant) Read(p []byte) (int, error) {
	if h.calls++; h.calls%100 != 0 {
		return 0, nil
	}
	return h.r.Read(p)
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errEnough }

type panicking struct{}

func (panicking) Write([]byte) (int, error) { panic("a writer") }

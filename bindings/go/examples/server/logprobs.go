package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"ember.example/ember"
)

// scored is a token of a text with its log-probability and the likeliest tokens at its place.
type scored struct {
	bytes   []byte
	logprob *float32 // nil: it has none, being the first
	top     []ember.TokenLogprob
}

// smallest stands for the log-probability of what cannot come, which JSON has no number for.
const smallest = -9999

func finite(logprob float32) float32 {
	if math.IsInf(float64(logprob), -1) || math.IsNaN(float64(logprob)) {
		return smallest
	}
	return logprob
}

func scoredOf(event ember.Event) scored {
	logprob := finite(event.Logprob)
	return scored{event.Bytes, &logprob, event.Top}
}

// tokenLogprob is one of the likeliest tokens at a place.
type tokenLogprob struct {
	Token   string  `json:"token"`
	Logprob float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// chatLogprobs holds the log-probabilities of a chat completion.
type chatLogprobs struct {
	Content []chatLogprob `json:"content"`
	Refusal *string       `json:"refusal"`
}

// chatLogprob is a token of the answer.
type chatLogprob struct {
	tokenLogprob
	TopLogprobs []tokenLogprob `json:"top_logprobs"`
}

func newTokenLogprob(bytes []byte, logprob float32) tokenLogprob {
	numbers := make([]int, len(bytes))
	for i, b := range bytes {
		numbers[i] = int(b)
	}
	return tokenLogprob{Token: strings.ToValidUTF8(string(bytes), "\uFFFD"), Logprob: finite(logprob), Bytes: numbers}
}

func (m *served) chatLogprob(s scored) (chatLogprob, error) {
	out := chatLogprob{newTokenLogprob(s.bytes, *s.logprob), []tokenLogprob{}}
	for _, top := range s.top {
		bytes, err := m.model.TokenBytes(top.Token)
		if err != nil {
			return out, err
		}
		out.TopLogprobs = append(out.TopLogprobs, newTokenLogprob(bytes, top.Logprob))
	}
	return out, nil
}

// textLogprobs holds the log-probabilities of a completion: an element for each token.
type textLogprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []*float32           `json:"token_logprobs"`
	TopLogprobs   []map[string]float32 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"` // code points before the token
	offset        int
}

// newTextLogprobs has no token yet; its lists are empty in JSON, too.
func newTextLogprobs() textLogprobs {
	return textLogprobs{Tokens: []string{}, TokenLogprobs: []*float32{}, TopLogprobs: []map[string]float32{}, TextOffset: []int{}}
}

// add appends a token. As in OpenAI's answers the likeliest tokens have the token itself among them.
func (t *textLogprobs) add(m *served, s scored) error {
	t.Tokens = append(t.Tokens, tokenName(s.bytes))
	t.TokenLogprobs = append(t.TokenLogprobs, s.logprob)
	t.TextOffset = append(t.TextOffset, t.offset)
	for _, b := range s.bytes {
		if utf8.RuneStart(b) {
			t.offset++
		}
	}
	if s.logprob == nil {
		t.TopLogprobs = append(t.TopLogprobs, nil)
		return nil
	}
	tops := map[string]float32{tokenName(s.bytes): *s.logprob}
	for _, top := range s.top {
		bytes, err := m.model.TokenBytes(top.Token)
		if err != nil {
			return err
		}
		tops[tokenName(bytes)] = finite(top.Logprob)
	}
	t.TopLogprobs = append(t.TopLogprobs, tops)
	return nil
}

func (t *textLogprobs) clone() textLogprobs {
	return textLogprobs{slices.Clone(t.Tokens), slices.Clone(t.TokenLogprobs), slices.Clone(t.TopLogprobs), slices.Clone(t.TextOffset), t.offset}
}

// take gives what was added since the last call.
func (t *textLogprobs) take() *textLogprobs {
	taken := *t
	*t = newTextLogprobs()
	t.offset = taken.offset
	return &taken
}

// tokenName is the text of a token, or "bytes:\xe2\x80" for one that is a part of a code point.
func tokenName(bytes []byte) string {
	if utf8.Valid(bytes) {
		return string(bytes)
	}
	var name strings.Builder
	name.WriteString("bytes:")
	for _, b := range bytes {
		fmt.Fprintf(&name, "\\x%02x", b)
	}
	return name.String()
}

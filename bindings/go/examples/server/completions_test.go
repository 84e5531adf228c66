package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"ember.example/ember"
)

const textPath = "/v1/completions"

func TestCompletions(t *testing.T) {
	s := newTestServer(t, nil)
	m := s.models[0]
	prompts := []string{"The sea was calm", "The wolf said"}
	var wants []string
	for _, prompt := range prompts {
		want, err := m.engine.Complete(context.Background(), prompt, ember.WithMaxTokens(8))
		must(t, err)
		wants = append(wants, want.Text)
	}
	answer := s.ok(textPath, map[string]any{"model": "toy", "prompt": prompts[0], "temperature": 0, "max_tokens": 8})
	equal(t, "text", at(answer, "choices", 0, "text"), wants[0])
	equal(t, "object", answer["object"], "text_completion")

	request := map[string]any{"model": "toy", "prompt": prompts, "temperature": 0, "max_tokens": 8, "n": 2, "echo": true}
	answer = s.ok(textPath, request)
	for i := range 4 {
		equal(t, "index", at(answer, "choices", i, "index"), float64(i))
		equal(t, "echoed", at(answer, "choices", i, "text"), prompts[i/2]+wants[i/2])
	}
	request["stream"] = true
	var streamed [4]string
	for _, event := range s.stream(textPath, request) {
		streamed[int(at(event, "choices", 0, "index").(float64))] += at(event, "choices", 0, "text").(string)
	}
	for i := range 4 {
		equal(t, "streamed", streamed[i], prompts[i/2]+wants[i/2])
	}

	var tokens [][]ember.Token
	for _, prompt := range prompts {
		ids, err := m.model.Tokenize(prompt, ember.AddSpecial)
		must(t, err)
		tokens = append(tokens, ids)
	}
	answer = s.ok(textPath, map[string]any{"model": "toy", "prompt": tokens, "temperature": 0, "max_tokens": 8})
	equal(t, "of tokens", at(answer, "choices", 1, "text"), wants[1])
	answer = s.ok(textPath, map[string]any{"model": "toy", "prompt": tokens[0], "temperature": 0, "max_tokens": 8})
	equal(t, "of one list of tokens", at(answer, "choices", 0, "text"), wants[0])
	equal(t, "sixteen by default", at(s.ok(textPath, map[string]any{"model": "toy", "prompt": "The sea", "temperature": 0}), "usage", "completion_tokens"), 16.0)
}

// What lm-eval and its like ask for: the log-probabilities of a text, with nothing generated.
func TestEchoedLogprobs(t *testing.T) {
	s := newTestServer(t, nil)
	m := s.models[0]
	const prompt, ending = "Once upon a time there", " was a king who had three daughters and a very old dog that would not bark at the moon, nor at the sun, however long it shone."
	c, err := m.model.NewContext()
	must(t, err)
	defer c.Close()
	score, err := c.Score(context.Background(), prompt, ending)
	must(t, err)
	if len(score.Tokens) <= scoreRows-5 {
		t.Fatalf("%d tokens are too few", len(score.Tokens))
	}
	answer := s.ok(textPath, map[string]any{"model": "toy", "prompt": prompt + ending, "max_tokens": 0, "echo": true, "logprobs": 2})
	equal(t, "text", at(answer, "choices", 0, "text"), prompt+ending)
	equal(t, "reason", at(answer, "choices", 0, "finish_reason"), "length")
	logprobs := at(answer, "choices", 0, "logprobs")
	tokens, numbers := at(logprobs, "tokens").([]any), at(logprobs, "token_logprobs").([]any)
	equal(t, "the first has none", numbers[0], nil)
	equal(t, "the first has no tops", at(logprobs, "top_logprobs", 0), nil)
	after := len(numbers) - len(score.Tokens)
	var text strings.Builder
	for i := range tokens {
		equal(t, "offset", at(logprobs, "text_offset", i), float64(len(text.String())))
		text.WriteString(tokens[i].(string))
		if i < after {
			continue
		}
		want := score.Tokens[i-after]
		if got := numbers[i].(float64); math.Abs(got-float64(want.Logprob)) > 1e-5 {
			t.Fatalf("token %d: %v instead of %v", i, got, want.Logprob)
		}
		tops := at(logprobs, "top_logprobs", i).(map[string]any)
		if n := len(tops); n != 2 && n != 3 {
			t.Fatalf("%d tops", n)
		}
		equal(t, "the likeliest is there", tops[tokens[i].(string)] != nil, true)
		equal(t, "and no other is likelier", want.Rank < 2, len(tops) == 2)
	}
	equal(t, "tokens' text", text.String(), prompt+ending)

	// Generated tokens go on after them, in a stream too.
	request := map[string]any{"model": "toy", "prompt": prompt, "max_tokens": 3, "echo": true, "logprobs": 0, "temperature": 0}
	whole := at(s.ok(textPath, request), "choices", 0)
	request["stream"] = true
	streamed, all := "", []any{}
	for _, event := range s.stream(textPath, request) {
		streamed += at(event, "choices", 0, "text").(string)
		if logprobs := at(event, "choices", 0, "logprobs"); logprobs != nil {
			all = append(all, at(logprobs, "text_offset").([]any)...)
		}
	}
	equal(t, "streamed", streamed, at(whole, "text"))
	equal(t, "offsets", all, at(whole, "logprobs", "text_offset"))
}

func TestLogprobOf(t *testing.T) {
	logits := []float32{1, 3, float32(math.Inf(-1)), 3, 2}
	logprob, top := logprobOf(logits, 2, 3)
	equal(t, "of what cannot come", *logprob, float32(smallest))
	for i, token := range []ember.Token{1, 3, 4} {
		equal(t, "token", top[i].Token, token)
	}
	sum := 0.0
	for i := range logits {
		logprob, top := logprobOf(logits, ember.Token(i), 0)
		equal(t, "no tops", len(top), 0)
		sum += math.Exp(float64(*logprob))
	}
	if math.Abs(sum-1) > 1e-6 {
		t.Fatalf("the probabilities add up to %v", sum)
	}
}

func TestEmbeddings(t *testing.T) {
	s := newTestServer(t, nil)
	m := s.models[1]
	e, err := bert()
	must(t, err)
	texts, want := e.texts, e.vectors
	check := func(answer map[string]any) {
		t.Helper()
		data := at(answer, "data").([]any)
		equal(t, "vectors", len(data), len(want))
		for i, element := range data {
			equal(t, "index", at(element, "index"), float64(i))
			var got []float32
			switch vector := at(element, "embedding").(type) {
			case []any:
				for _, number := range vector {
					got = append(got, float32(number.(float64)))
				}
			case string:
				bytes, err := base64.StdEncoding.DecodeString(vector)
				must(t, err)
				for ; len(bytes) > 0; bytes = bytes[4:] {
					got = append(got, math.Float32frombits(binary.LittleEndian.Uint32(bytes)))
				}
			}
			equal(t, "width", len(got), len(want[i]))
			for j := range got {
				if math.Abs(float64(got[j]-want[i][j])) > 1e-4 {
					t.Fatalf("number %d of text %d is %v instead of %v", j, i, got[j], want[i][j])
				}
			}
		}
	}
	request := map[string]any{"model": "bert", "input": texts}
	answer := s.ok("/v1/embeddings", request)
	check(answer)
	var tokens [][]ember.Token
	count := 0
	for _, text := range texts {
		ids, err := m.model.Tokenize(text, ember.AddSpecial)
		must(t, err)
		tokens = append(tokens, ids)
		count += len(ids)
	}
	equal(t, "usage", at(answer, "usage", "prompt_tokens"), float64(count))
	equal(t, "metric", s.metric(`ember_embedded_tokens_total{model="bert"}`), jsonText(count))
	request["encoding_format"] = "base64"
	check(s.ok("/v1/embeddings", request))
	request["input"] = tokens
	check(s.ok("/v1/embeddings", request))
	equal(t, "one text", len(at(s.ok("/v1/embeddings", map[string]any{"model": "bert", "input": texts[0]}), "data").([]any)), 1)
	equal(t, "a decoder's", len(at(s.ok("/v1/embeddings", map[string]any{"model": "toy", "input": texts[0]}), "data").([]any)), 1)
}

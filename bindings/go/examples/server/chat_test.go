package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"ember.example/ember"
)

const chatPath = "/v1/chat/completions"

func said(texts ...string) []map[string]any {
	var messages []map[string]any
	for _, text := range texts {
		messages = append(messages, map[string]any{"role": "user", "content": text})
	}
	return messages
}

// expected is what the engine gives for the text that the template makes.
func expected(t *testing.T, s *testServer, text string, options ...ember.GenerateOption) ember.Completion {
	t.Helper()
	tokens, err := s.models[0].model.Tokenize(text, ember.ParseSpecial)
	must(t, err)
	request, err := s.models[0].engine.SubmitTokens(context.Background(), tokens, options...)
	must(t, err)
	completion, err := request.Wait()
	must(t, err)
	return completion
}

func TestChat(t *testing.T) {
	s := newTestServer(t, nil)
	request := map[string]any{"model": "toy", "messages": said("The sea was calm."), "temperature": 0, "max_tokens": 12}
	want := expected(t, s, "The sea was calm.\nThe king said", ember.WithMaxTokens(12))
	answer := s.ok(chatPath, request)
	equal(t, "text", at(answer, "choices", 0, "message", "content"), want.Text)
	equal(t, "role", at(answer, "choices", 0, "message", "role"), "assistant")
	equal(t, "reason", at(answer, "choices", 0, "finish_reason"), "length")
	equal(t, "object", answer["object"], "chat.completion")
	equal(t, "completion tokens", at(answer, "usage", "completion_tokens"), 12.0)
	equal(t, "prompt tokens", at(answer, "usage", "prompt_tokens"), float64(want.Usage.PromptTokens))
	equal(t, "total", at(answer, "usage", "total_tokens"), float64(want.Usage.PromptTokens+12))

	// The same by the other name of the limit, in parts, as system text, with variables, and as a stream.
	delete(request, "max_tokens")
	request["max_completion_tokens"] = 12
	request["messages"] = []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "The sea was calm."}}}}
	equal(t, "parts", at(s.ok(chatPath, request), "choices", 0, "message", "content"), want.Text)
	request["messages"] = []any{map[string]any{"role": "developer", "content": "The sea was calm."}}
	equal(t, "developer", at(s.ok(chatPath, request), "choices", 0, "message", "content"), want.Text)
	request["chat_template_kwargs"] = map[string]any{"mood": "Once more. "}
	other := expected(t, s, "The sea was calm.\nOnce more. The king said", ember.WithMaxTokens(12))
	equal(t, "variables", at(s.ok(chatPath, request), "choices", 0, "message", "content"), other.Text)
	delete(request, "chat_template_kwargs")

	request["stream"] = true
	request["stream_options"] = map[string]any{"include_usage": true}
	events := s.stream(chatPath, request)
	var text strings.Builder
	for i, event := range events[:len(events)-1] {
		equal(t, "object", event["object"], "chat.completion.chunk")
		usage, there := event["usage"]
		equal(t, "usage is there", there, true)
		equal(t, "usage", usage, nil)
		delta := at(event, "choices", 0, "delta").(map[string]any)
		if i == 0 {
			equal(t, "role", delta["role"], "assistant")
		}
		if content, ok := delta["content"].(string); ok {
			text.WriteString(content)
		}
	}
	equal(t, "streamed", text.String(), want.Text)
	equal(t, "reason", at(events[len(events)-2], "choices", 0, "finish_reason"), "length")
	last := events[len(events)-1]
	equal(t, "no choices", last["choices"], []any{})
	equal(t, "completion tokens", at(last, "usage", "completion_tokens"), 12.0)

	delete(request, "stream_options")
	for _, event := range s.stream(chatPath, request) {
		if _, there := event["usage"]; there {
			t.Fatal("usage that nobody asked for")
		}
	}
}

func TestStop(t *testing.T) {
	s := newTestServer(t, nil)
	whole := expected(t, s, "The sea was calm.\nThe king said", ember.WithMaxTokens(30)).Text
	stop := strings.Fields(whole)[2]
	for _, value := range []any{stop, []string{"never", stop}} {
		answer := s.ok(chatPath, map[string]any{"model": "toy", "messages": said("The sea was calm."), "temperature": 0, "stop": value})
		before, _, _ := strings.Cut(whole, stop)
		equal(t, "text", at(answer, "choices", 0, "message", "content"), before)
		equal(t, "reason", at(answer, "choices", 0, "finish_reason"), "stop")
	}
}

func TestChatLogprobs(t *testing.T) {
	s := newTestServer(t, nil)
	request := map[string]any{"model": "toy", "messages": said("The sea was calm."), "temperature": 0, "max_tokens": 6,
		"logprobs": true, "top_logprobs": 3}
	var want []ember.Event
	tokens, err := s.models[0].model.Tokenize("The sea was calm.\nThe king said", ember.ParseSpecial)
	must(t, err)
	for event, err := range s.models[0].engine.GenerateTokens(context.Background(), tokens, ember.WithMaxTokens(6), ember.WithLogprobs(true), ember.WithTop(3)) {
		must(t, err)
		if event.Kind == ember.EventToken {
			want = append(want, event)
		}
	}
	check := func(content []any) {
		t.Helper()
		equal(t, "tokens", len(content), 6)
		for i, token := range content {
			equal(t, "token", at(token, "token"), string(want[i].Bytes))
			equal(t, "logprob", float32(at(token, "logprob").(float64)), want[i].Logprob)
			equal(t, "bytes", len(at(token, "bytes").([]any)), len(want[i].Bytes))
			equal(t, "tops", len(at(token, "top_logprobs").([]any)), 3)
			equal(t, "likeliest", at(token, "top_logprobs", 0, "token"), string(want[i].Bytes))
		}
	}
	check(at(s.ok(chatPath, request), "choices", 0, "logprobs", "content").([]any))
	request["stream"] = true
	var content []any
	for _, event := range s.stream(chatPath, request) {
		if logprobs := at(event, "choices", 0, "logprobs"); logprobs != nil {
			content = append(content, at(logprobs, "content").([]any)...)
		}
	}
	check(content)
	request["stream"] = false
	delete(request, "top_logprobs")
	equal(t, "no tops", at(s.ok(chatPath, request), "choices", 0, "logprobs", "content", 0, "top_logprobs"), []any{})
}

func TestChoices(t *testing.T) {
	s := newTestServer(t, nil)
	request := map[string]any{"model": "toy", "messages": said("The wolf ran."), "n": 3, "seed": 7, "max_tokens": 16}
	answer := s.ok(chatPath, request)
	var texts []string
	for i := range 3 {
		equal(t, "index", at(answer, "choices", i, "index"), float64(i))
		texts = append(texts, at(answer, "choices", i, "message", "content").(string))
		one := s.ok(chatPath, map[string]any{"model": "toy", "messages": said("The wolf ran."), "seed": 7 + i, "max_tokens": 16})
		equal(t, "alone", at(one, "choices", 0, "message", "content"), texts[i])
	}
	if texts[0] == texts[1] && texts[1] == texts[2] {
		t.Fatalf("all choices are %q", texts[0])
	}
	prompt := at(answer, "usage", "prompt_tokens").(float64)
	equal(t, "the prompt counts once", at(answer, "usage", "total_tokens").(float64)-at(answer, "usage", "completion_tokens").(float64), prompt)

	request["stream"] = true
	streamed := make([]string, 3)
	for _, event := range s.stream(chatPath, request) {
		i := int(at(event, "choices", 0, "index").(float64))
		if content, ok := at(event, "choices", 0, "delta").(map[string]any)["content"].(string); ok {
			streamed[i] += content
		}
	}
	equal(t, "streamed", streamed, texts)

	// Without a seed each answer is another's.
	delete(request, "stream")
	delete(request, "seed")
	first, second := s.ok(chatPath, request), s.ok(chatPath, request)
	if fmt.Sprint(at(first, "choices")) == fmt.Sprint(at(second, "choices")) {
		t.Fatal("two answers without a seed are the same")
	}
	// -1 is a seed as good as any, though the library's number for chance has the same bits.
	request["seed"] = -1
	equal(t, "seed -1", at(s.ok(chatPath, request), "choices", 0, "message"), at(s.ok(chatPath, request), "choices", 0, "message"))
}

func TestSampling(t *testing.T) {
	s := newTestServer(t, nil)
	m := s.models[0]
	greedy := map[string]any{"model": "toy", "messages": said("The sea was calm."), "temperature": 0, "max_tokens": 20}
	plain := at(s.ok(chatPath, greedy), "choices", 0, "message", "content").(string)
	tokens, err := m.model.Tokenize("The sea was calm.\nThe king said", ember.ParseSpecial)
	must(t, err)
	for name, option := range map[string]struct {
		field  string
		value  any
		stages []ember.Stage
	}{
		"frequency":  {"frequency_penalty", 1.5, []ember.Stage{ember.Penalties(m.size, 1, 1.5, 0), ember.PenaltiesOfGenerated(), ember.Greedy()}},
		"presence":   {"presence_penalty", -2, []ember.Stage{ember.Penalties(m.size, 1, 0, -2), ember.PenaltiesOfGenerated(), ember.Greedy()}},
		"repetition": {"repetition_penalty", 1.3, []ember.Stage{ember.Penalties(m.size, 1.3, 0, 0), ember.PenaltiesOfGenerated(), ember.Greedy()}},
		"bias":       {"logit_bias", map[string]any{"300": 100}, []ember.Stage{ember.Bias(map[ember.Token]float32{300: 100}), ember.Greedy()}},
	} {
		t.Run(name, func(t *testing.T) {
			sampler, err := ember.NewSampler(1, option.stages...)
			must(t, err)
			defer sampler.Close()
			request, err := m.engine.SubmitTokens(context.Background(), tokens, ember.WithMaxTokens(20), ember.WithSampler(sampler))
			must(t, err)
			want, err := request.Wait()
			must(t, err)
			greedy := map[string]any{"model": "toy", "messages": said("The sea was calm."), "temperature": 0, "max_tokens": 20, option.field: option.value}
			got := at(s.ok(chatPath, greedy), "choices", 0, "message", "content")
			equal(t, "text", got, want.Text)
			if name != "presence" && got == plain {
				t.Fatal("the field changed nothing")
			}
		})
	}
	// These leave one candidate.
	for field, value := range map[string]any{"top_p": 0, "top_k": 1, "min_p": 1} {
		request := map[string]any{"model": "toy", "messages": said("The sea was calm."), "max_tokens": 20, field: value}
		equal(t, field, at(s.ok(chatPath, request), "choices", 0, "message", "content"), plain)
	}
}

// 64 clients at once get what each gets alone.
func TestParallelClients(t *testing.T) {
	s := newTestServer(t, nil)
	request := func(i int) map[string]any {
		r := map[string]any{"model": "toy", "messages": said(fmt.Sprintf("The %d sheep slept.", i)), "max_tokens": 12, "temperature": 0}
		if i%2 == 1 {
			r["temperature"], r["seed"] = 1.2, i
		}
		return r
	}
	var alone, together [64]any
	for i := range alone {
		alone[i] = at(s.ok(chatPath, request(i)), "choices")
	}
	var group sync.WaitGroup
	for i := range together {
		group.Add(1)
		go func() {
			defer group.Done()
			status, answer, _ := s.post(chatPath, request(i))
			if status != 200 {
				t.Errorf("client %d: %v", i, answer)
				return
			}
			together[i] = at(answer, "choices")
		}()
	}
	group.Wait()
	equal(t, "answers", together, alone)
}

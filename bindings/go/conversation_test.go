package ember

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

const plainTemplate = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>"

// said is the text of a reply.
func said(t *testing.T, c *Conversation, text string) string {
	t.Helper()
	var all strings.Builder
	for event, err := range c.Send(context.Background(), text) {
		must(t, err)
		all.WriteString(event.Text)
	}
	return all.String()
}

func TestConversations(t *testing.T) {
	c := newContext(t, WithSize(256), WithSequences(2))
	conversation, err := c.NewConversation("Be brief.", []ChatOption{WithTemplate(plainTemplate)}, WithMaxTokens(8))
	must(t, err)
	defer conversation.Close()
	first := said(t, conversation, "Tell of the sea.")
	equal(t, "says something", first != "", true)
	fork, err := conversation.Fork(1)
	must(t, err)
	defer fork.Close()
	saved, err := conversation.Save()
	must(t, err)
	next := said(t, conversation, "Go on.")
	equal(t, "the fork", said(t, fork, "Go on."), next)
	loaded, err := c.LoadConversation(saved, []ChatOption{WithTemplate(plainTemplate)}, WithMaxTokens(8), WithSequence(1))
	must(t, err)
	defer loaded.Close()
	equal(t, "what was saved", said(t, loaded, "Go on."), next)
	usage, err := conversation.Usage()
	must(t, err)
	equal(t, "finish", usage.Finish, FinishMaxTokens)
	equal(t, "generated", usage.GeneratedTokens, 8)
	equal(t, "reused", usage.ReusedTokens > 0 && usage.ReusedTokens < usage.PromptTokens, true)

	var messages []map[string]any
	data, err := conversation.Messages()
	must(t, err)
	must(t, json.Unmarshal(data, &messages))
	equal(t, "messages", len(messages), 5)
	equal(t, "the answer", messages[2]["content"], any(first))
	must(t, conversation.Undo())
	equal(t, "again", said(t, conversation, "Go on."), next)

	// Left early, and ended by a context: no message comes of it.
	for range conversation.Send(context.Background(), "Why?") {
		break
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	for event, err := range conversation.Send(ctx, "") {
		if n++; n == 1 {
			cancel()
		} else if event.Kind == ReplyEnd {
			equal(t, "cancelled", is(err, ErrCancelled), true)
		}
	}
	cancel()
	must(t, conversation.SetWhenFull(RefuseWhenFull, 300))
	for _, err := range conversation.Send(context.Background(), "Too much?") {
		equal(t, "full", is(err, ErrContextFull), true)
	}
	equal(t, "no thoughts", is(conversation.SetThinkingBudget(4), ErrUnsupported), true)
	_, err = c.NewConversation("", []ChatOption{WithTemplate(plainTemplate), WithThinking(true)})
	equal(t, "no switch", is(err, ErrUnsupported), true)
}

func TestRerank(t *testing.T) {
	data, err := os.ReadFile("../../tests/fixtures/rank/scores.json")
	must(t, err)
	var golden struct {
		Query  string
		Texts  []string
		Scores map[string]struct {
			Texts  [][]float32
			Pairs  []float32
			Labels []string
		}
	}
	must(t, json.Unmarshal(data, &golden))
	near := func(what string, got, want float32) {
		t.Helper()
		if difference := got - want; difference > 1e-4 || difference < -1e-4 {
			t.Errorf("%s: %v, expected %v", what, got, want)
		}
	}
	for _, name := range []string{"bert-rerank", "bert-labels"} {
		m, err := Load(context.Background(), "../../tests/fixtures/rank/"+name+".gguf")
		must(t, err)
		defer m.Close()
		c, err := m.NewContext()
		must(t, err)
		defer c.Close()
		want := golden.Scores[name]
		labels, err := m.Labels()
		must(t, err)
		equal(t, "labels", strings.Join(labels, ","), strings.Join(want.Labels, ","))
		scores, err := c.Classify(context.Background(), golden.Texts)
		must(t, err)
		for i, of := range scores {
			for j, score := range of {
				near(golden.Texts[i], score, want.Texts[i][j])
			}
		}
		if want.Pairs != nil {
			pairs, err := c.Rerank(context.Background(), golden.Query, golden.Texts)
			must(t, err)
			for i, score := range pairs {
				near(golden.Texts[i], score, want.Pairs[i])
			}
		}
	}
}

func TestWhatIsDroppedIsAskedFor(t *testing.T) {
	c := newContext(t, WithSize(96))
	conversation, err := c.NewConversation("", []ChatOption{WithTemplate(plainTemplate)}, WithMaxTokens(8))
	must(t, err)
	defer conversation.Close()
	talk := func() error {
		for range 10 {
			for _, err := range conversation.Send(context.Background(), "Tell of the sea and the moon.") {
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
	answer, asked := 0, 0
	must(t, conversation.SetOnFull(func(needed, size, turns int) int {
		asked++
		equal(t, "arguments", needed > size && size == 96 && turns > 0, true)
		if answer == 7 {
			panic("full")
		}
		return answer
	}))
	equal(t, "refused", is(talk(), ErrContextFull), true)
	answer = 7
	func() {
		defer func() { equal(t, "panic", recover(), any("full")) }()
		t.Error(talk())
	}()
	answer = 1
	must(t, talk())
	must(t, conversation.SetOnFull(nil))
	n := asked
	must(t, talk())
	equal(t, "asked", asked, n)
	equal(t, "asked at all", asked > 3, true)
}

// A model calls a tool by itself, and answers with its result. EMBER_TOOLS_MODEL is what bindings/tool_model.py writes.
func TestTools(t *testing.T) {
	path := os.Getenv("EMBER_TOOLS_MODEL")
	if path == "" {
		t.Skip("EMBER_TOOLS_MODEL names no model")
	}
	m, err := Load(context.Background(), path)
	must(t, err)
	defer m.Close()
	c, err := m.NewContext()
	must(t, err)
	defer c.Close()
	tools := WithTools(json.RawMessage(`[{"type": "function", "function": {"name": "weather", "parameters":
		{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]`))
	conversation, err := c.NewConversation("", []ChatOption{tools}, WithMaxTokens(40))
	must(t, err)
	defer conversation.Close()
	var pieces string
	var call ReplyEvent
	for event, err := range conversation.Send(context.Background(), "What is the weather in Paris?") {
		must(t, err)
		switch event.Kind {
		case ReplyCallArguments:
			pieces += event.Text
		case ReplyCallDone:
			call = event
		}
	}
	var arguments struct{ City string }
	must(t, json.Unmarshal([]byte(call.Text), &arguments))
	equal(t, "call", call.Name+" "+arguments.City, "weather Paris")
	equal(t, "pieces", pieces, call.Text)
	must(t, conversation.Add(Message{Role: "tool", Name: call.Name, ToolCallID: call.ID, Content: "It is sunny, 21 degrees."}))
	answer := said(t, conversation, "")
	equal(t, "answer: "+answer, strings.Contains(answer, "sunny"), true)
	_, err = c.NewConversation("", []ChatOption{tools, WithToolChoice("sing")})
	refusal(t, err, ErrInvalidArgument, "tool_choice")
	// The choice of one reply.
	refusal(t, conversation.SetToolChoice("sing"), ErrInvalidArgument, "tool_choice")
	for i, choice := range []string{"none", "required"} {
		must(t, conversation.SetToolChoice(choice))
		calls := false
		for event, err := range conversation.Send(t.Context(), "What is the weather in Bern?") {
			must(t, err)
			calls = calls || event.Kind == ReplyCallDone
		}
		equal(t, choice, calls, i == 1)
	}
}

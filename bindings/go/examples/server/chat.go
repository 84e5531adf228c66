package main

import (
	"encoding/json"
	"net/http"
	"time"

	"ember.example/ember"
)

// chatRequest is the body of POST /v1/chat/completions.
type chatRequest struct {
	sampling
	toolRequest
	Messages            []json.RawMessage `json:"messages"`
	MaxCompletionTokens *int              `json:"max_completion_tokens"`
	Logprobs            *bool             `json:"logprobs"`
	TopLogprobs         *int              `json:"top_logprobs"`
	TemplateVariables   map[string]any    `json:"chat_template_kwargs"` // not OpenAI's: variables of the chat template
}

var chatRules = bookkeeping.with(toolRules).with(rules{
	"prediction":         ignored, // it makes answers faster, never different
	"modalities":         refused("this server answers with text", `["text"]`),
	"audio":              refused("this server answers with text"),
	"reasoning_effort":   refused("the models' templates have variables for it, which chat_template_kwargs sets"),
	"verbosity":          refused("models have no such setting"),
	"web_search_options": refused("this server searches nothing"),
})

// check refuses values that are out of range, and returns the most tokens to generate; -1: as many as fit.
func (r *chatRequest) check() (most int, err error) {
	if err := r.sampling.check(); err != nil {
		return 0, err
	}
	if r.MaxTokens != nil && r.MaxCompletionTokens != nil {
		return 0, invalid("max_tokens", "max_tokens and max_completion_tokens are the same limit; give one of them.")
	}
	for name, limit := range map[string]*int{"max_tokens": r.MaxTokens, "max_completion_tokens": r.MaxCompletionTokens} {
		if limit != nil && *limit < 1 {
			return 0, invalid(name, "%s must be at least 1, not %d.", name, *limit)
		}
	}
	if err := inRange("top_logprobs", r.TopLogprobs, 0, mostTop); err != nil {
		return 0, err
	}
	if r.TopLogprobs != nil && *r.TopLogprobs > 0 && !isTrue(r.Logprobs) {
		return 0, invalid("top_logprobs", "top_logprobs needs logprobs to be true.")
	}
	return or(r.MaxCompletionTokens, or(r.MaxTokens, -1)), nil
}

// chatAnswer is a chat completion, or a chunk of one.
type chatAnswer struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	Model       string       `json:"model"`
	Fingerprint string       `json:"system_fingerprint"`
	Choices     []chatChoice `json:"choices"`
	Usage       any          `json:"usage,omitempty"`
}

type chatChoice struct {
	Index        int           `json:"index"`
	Message      *chatMessage  `json:"message,omitempty"`
	Delta        *chatDelta    `json:"delta,omitempty"`
	Logprobs     *chatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
}

type chatMessage struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"` // null where there are calls and nothing else
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
	Refusal   *string    `json:"refusal"`
}

// add appends a piece to an answer.
func (m *chatMessage) add(p piece) {
	*m.Content += p.content
	m.Reasoning += p.thinking
	if p.call != nil {
		call := *p.call
		call.Index = nil
		m.ToolCalls = append(m.ToolCalls, call)
	}
}

type chatDelta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

// delta makes a chunk's delta of a piece.
func (p piece) delta() *chatDelta {
	d := &chatDelta{Reasoning: p.thinking}
	if p.content != "" {
		d.Content = &p.content
	}
	if p.call != nil {
		d.ToolCalls = []toolCall{*p.call}
	}
	return d
}

func (s *server) chat(w http.ResponseWriter, r *http.Request) error {
	var request chatRequest
	if err := s.read(w, r, &request, chatRules); err != nil {
		return err
	}
	m, err := s.modelNamed(request.Model)
	if err != nil {
		return err
	}
	most, err := request.check()
	if err != nil {
		return err
	}
	prompt, err := m.chatPrompt(&request)
	if err != nil {
		return err
	}
	replies := make([]*reply, request.choices())
	for i := range replies {
		if replies[i], err = m.newReply(prompt); err != nil {
			return err
		}
		defer replies[i].close()
	}
	p := &plan{prompts: [][]ember.Token{prompt.tokens}, special: prompt.parsed, calls: prompt.calls, offered: prompt.offered, trigger: prompt.thinkingClose, top: or(request.TopLogprobs, 0), logprob: isTrue(request.Logprobs), sampling: &request.sampling}
	if err := p.fit(m, most, "messages"); err != nil {
		return err
	}
	answer := chatAnswer{ID: newID("chatcmpl-"), Object: "chat.completion", Created: time.Now().Unix(), Model: m.name, Fingerprint: m.fingerprint()}
	if isTrue(request.Stream) {
		return s.streamChat(w, r, m, p, answer, replies)
	}
	answer.Choices = make([]chatChoice, p.choices())
	count := p.promptUsage()
	err = m.generate(r.Context(), p, func(i int, event ember.Event) error {
		choice := &answer.Choices[i]
		if choice.Message == nil {
			*choice = chatChoice{Index: i, Message: &chatMessage{Role: "assistant", Content: new(string)}}
		}
		pieces, err := replies[i].read(event)
		if err != nil {
			return err
		}
		for _, piece := range pieces {
			choice.Message.add(piece)
		}
		if event.Kind == ember.EventEnd {
			reason := replies[i].finishReason(event)
			choice.FinishReason = &reason
			if *choice.Message.Content == "" && len(choice.Message.ToolCalls) > 0 {
				choice.Message.Content = nil
			}
			count.add(i, p, event)
		}
		return m.addLogprob(choice, p, event)
	})
	if err != nil {
		return err
	}
	answer.Usage = count
	return writeJSON(w, http.StatusOK, answer)
}

// addLogprob appends the log-probability of an event's token to a choice, if the request asks for it.
func (m *served) addLogprob(choice *chatChoice, p *plan, event ember.Event) error {
	if !p.logprob {
		return nil
	}
	if choice.Logprobs == nil {
		choice.Logprobs = &chatLogprobs{Content: []chatLogprob{}}
	}
	if event.Kind != ember.EventToken {
		return nil
	}
	logprob, err := m.chatLogprob(scoredOf(event))
	choice.Logprobs.Content = append(choice.Logprobs.Content, logprob)
	return err
}

// noUsage is the usage of chunks before the one that has it.
var noUsage = json.RawMessage("null")

func (s *server) streamChat(w http.ResponseWriter, r *http.Request, m *served, p *plan, answer chatAnswer, replies []*reply) error {
	out := newStream(w)
	answer.Object = "chat.completion.chunk"
	if p.includeUsage {
		answer.Usage = noUsage
	}
	send := func(choice chatChoice) error {
		answer.Choices = []chatChoice{choice}
		return out.send(answer)
	}
	begun := make([]bool, p.choices())
	count := p.promptUsage()
	err := m.generate(r.Context(), p, func(i int, event ember.Event) error {
		if !begun[i] {
			begun[i] = true
			nothing := ""
			if err := send(chatChoice{Index: i, Delta: &chatDelta{Role: "assistant", Content: &nothing}}); err != nil {
				return err
			}
		}
		pieces, err := replies[i].read(event)
		if err != nil {
			return err
		}
		if len(pieces) == 0 && p.logprob && event.Kind == ember.EventToken {
			pieces = []piece{{}} // of the token alone
		}
		for n, piece := range pieces {
			choice := chatChoice{Index: i, Delta: piece.delta()}
			if n == 0 && event.Kind == ember.EventToken {
				if err := m.addLogprob(&choice, p, event); err != nil {
					return err
				}
			}
			if err := send(choice); err != nil {
				return err
			}
		}
		if event.Kind != ember.EventEnd {
			return nil
		}
		count.add(i, p, event)
		reason := replies[i].finishReason(event)
		return send(chatChoice{Index: i, Delta: &chatDelta{}, FinishReason: &reason})
	})
	if err != nil {
		return err
	}
	if p.includeUsage {
		answer.Choices = []chatChoice{}
		answer.Usage = count
		if err := out.send(answer); err != nil {
			return err
		}
	}
	return out.done()
}

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"ember.example/ember"
)

// textRequest is the body of POST /v1/completions.
type textRequest struct {
	sampling
	Prompt   json.RawMessage `json:"prompt"`
	Echo     *bool           `json:"echo"`
	Logprobs *int            `json:"logprobs"`
	BestOf   *int            `json:"best_of"`
}

var textRules = bookkeeping.with(rules{
	"suffix": refused("this server does not fill in the middle yet", `""`),
})

// defaultMaxTokens is OpenAI's for completions.
const defaultMaxTokens = 16

func (r *textRequest) check() error {
	if err := r.sampling.check(); err != nil {
		return err
	}
	if r.BestOf != nil && *r.BestOf != r.choices() {
		return unsupported("best_of", "best_of other than n is not supported.")
	}
	return inRange("logprobs", r.Logprobs, 0, mostTop)
}

// textAnswer is a completion, or a chunk of one.
type textAnswer struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	Model       string       `json:"model"`
	Fingerprint string       `json:"system_fingerprint"`
	Choices     []textChoice `json:"choices"`
	Usage       any          `json:"usage,omitempty"`
}

type textChoice struct {
	Index        int           `json:"index"`
	Text         string        `json:"text"`
	Logprobs     *textLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`

	score textLogprobs // not yet sent
}

func (s *server) completions(w http.ResponseWriter, r *http.Request) error {
	var request textRequest
	if err := s.read(w, r, &request, textRules); err != nil {
		return err
	}
	m, err := s.modelNamed(request.Model)
	if err != nil {
		return err
	}
	if m.engine == nil {
		return invalid("model", "The model %s gives embeddings only.", m.name)
	}
	if err := request.check(); err != nil {
		return err
	}
	inputs, err := m.inputs("prompt", request.Prompt, mostChoices, ember.ParseSpecial)
	if err != nil {
		return err
	}
	if n := len(inputs) * request.choices(); n > mostChoices {
		return invalid("n", "%d prompts with %d choices each are %d choices; at most %d are allowed.", len(inputs), request.choices(), n, mostChoices)
	}
	p := &plan{top: or(request.Logprobs, 0), logprob: request.Logprobs != nil, sampling: &request.sampling}
	for _, input := range inputs {
		p.prompts = append(p.prompts, input.tokens)
	}
	most := or(request.MaxTokens, defaultMaxTokens)
	if err := p.fit(m, most, "prompt"); err != nil {
		return err
	}
	choices := make([]textChoice, len(inputs)*p.choices())
	for i := range choices {
		choices[i].Index = i
		choices[i].score = newTextLogprobs()
		if isTrue(request.Echo) {
			if err := m.echo(r.Context(), &choices[i], p, inputs[i/p.choices()], choices[:i]); err != nil {
				return err
			}
		}
	}
	answer := textAnswer{ID: newID("cmpl-"), Object: "text_completion", Created: time.Now().Unix(), Model: m.name, Fingerprint: m.fingerprint()}
	if isTrue(request.Stream) {
		return s.streamText(w, r, m, p, answer, choices, most)
	}
	count := p.promptUsage()
	err = m.complete(r.Context(), p, most, func(i int, event ember.Event) error {
		choice := &choices[i]
		choice.Text += event.Text
		if event.Kind == ember.EventEnd {
			reason := finishReason(event)
			choice.FinishReason = &reason
			count.add(i, p, event)
		}
		return choice.addLogprob(m, p, event)
	})
	if err != nil {
		return err
	}
	for i := range choices {
		if p.logprob {
			choices[i].Logprobs = choices[i].score.take()
		}
	}
	answer.Choices, answer.Usage = choices, count
	return writeJSON(w, http.StatusOK, answer)
}

// complete is generate, which may have nothing to do.
func (m *served) complete(ctx context.Context, p *plan, most int, each func(int, ember.Event) error) error {
	if most > 0 {
		return m.generate(ctx, p, each)
	}
	for i := range len(p.prompts) * p.choices() {
		if err := each(i, ember.Event{Kind: ember.EventEnd, Finish: ember.FinishMaxTokens}); err != nil {
			return err
		}
	}
	return nil
}

// echo makes a choice begin with its prompt. Choices before it may have the same prompt.
func (m *served) echo(ctx context.Context, choice *textChoice, p *plan, from input, before []textChoice) error {
	if i := choice.Index; i%p.choices() > 0 {
		choice.Text, choice.score = before[i-1].Text, before[i-1].score.clone()
		return nil
	}
	choice.Text = from.text
	if !p.logprob {
		return nil
	}
	tokens, err := m.scorePrompt(ctx, from.tokens, p.top)
	if err != nil {
		return err
	}
	for _, token := range tokens {
		if err := choice.score.add(m, token); err != nil {
			return err
		}
	}
	return nil
}

func (c *textChoice) addLogprob(m *served, p *plan, event ember.Event) error {
	if !p.logprob || event.Kind != ember.EventToken {
		return nil
	}
	return c.score.add(m, scoredOf(event))
}

// streamText sends choices, which begin with what is echoed, as they grow.
func (s *server) streamText(w http.ResponseWriter, r *http.Request, m *served, p *plan, answer textAnswer, choices []textChoice, most int) error {
	out := newStream(w)
	if p.includeUsage {
		answer.Usage = noUsage
	}
	count := p.promptUsage()
	err := m.complete(r.Context(), p, most, func(i int, event ember.Event) error {
		choice := &choices[i]
		choice.Text += event.Text // after what is echoed, the first time
		if err := choice.addLogprob(m, p, event); err != nil {
			return err
		}
		if event.Kind == ember.EventEnd {
			reason := finishReason(event)
			choice.FinishReason = &reason
			count.add(i, p, event)
		}
		if choice.Text == "" && len(choice.score.Tokens) == 0 && choice.FinishReason == nil {
			return nil
		}
		choice.Logprobs = nil
		if len(choice.score.Tokens) > 0 {
			choice.Logprobs = choice.score.take()
		}
		answer.Choices = []textChoice{*choice}
		choice.Text = ""
		return out.send(answer)
	})
	if err != nil {
		return err
	}
	if p.includeUsage {
		answer.Choices = []textChoice{}
		answer.Usage = count
		if err := out.send(answer); err != nil {
			return err
		}
	}
	return out.done()
}

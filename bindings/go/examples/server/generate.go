package main

import (
	"context"
	"sync"
	"time"

	"ember.example/ember"
)

// plan is what a request wants generated: n answers to each prompt. Choice i is answer i%n to prompt i/n.
type plan struct {
	prompts [][]ember.Token
	most    []int // tokens to generate, for each prompt
	top     int   // how many likely tokens events tell, if logprobs
	logprob bool
	special bool              // control tokens are to be seen in the text
	calls   *ember.Constraint // what calls of tools follow; nil: nothing
	offered bool              // whether there are tools to call
	trigger string            // after which the answer begins that a response_format binds; "": at once
	*sampling
}

// check refuses prompts that do not fit, and gives each its most tokens: most, or for -1 as many as fit.
func (p *plan) fit(m *served, most int, what string) error {
	for _, prompt := range p.prompts {
		left := m.size - len(prompt)
		switch {
		case most >= 0 && most > left:
			return tooLong("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the %s, %d in the completion). Reduce one of the two.",
				m.size, len(prompt)+most, len(prompt), what, most)
		case left < 1 && most != 0:
			return tooLong("This model's maximum context length is %d tokens. However, the %s take %d tokens, which leaves none for an answer.",
				m.size, what, len(prompt))
		case most >= 0:
			left = most
		}
		p.most = append(p.most, left)
	}
	return nil
}

// generate runs all choices of p together and calls each for every event, on this goroutine, with the choice's number. It ends
// with the last choice, with ctx, or with the first error, which is each's own or the engine's.
func (m *served) generate(ctx context.Context, p *plan, each func(choice int, event ember.Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	requests, err := m.submit(ctx, p)
	if err != nil {
		return err
	}
	type happened struct {
		choice int
		event  ember.Event
		err    error
	}
	news := make(chan happened)
	var running sync.WaitGroup
	for i, request := range requests {
		running.Add(1)
		go func() {
			defer running.Done()
			for event, err := range request.Events() {
				select {
				case news <- happened{i, event, err}:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	go func() {
		running.Wait()
		close(news)
	}()
	first := true
	for n := range news {
		if n.err == nil && first && n.event.Kind == ember.EventToken {
			m.ttft.observe(time.Since(begin).Seconds())
			first = false
		}
		if n.err == nil {
			n.err = each(n.choice, n.event)
		}
		if n.err != nil {
			cancel()
			for range news { // until all have ended
			}
			return n.err
		}
	}
	return context.Cause(ctx)
}

// submit gives the engine all choices of p, or none.
func (m *served) submit(ctx context.Context, p *plan) (requests []*ember.Request, err error) {
	defer func() {
		if err != nil {
			for _, r := range requests {
				r.Close()
			}
		}
	}()
	stages, err := p.stages(m)
	if err != nil {
		return nil, err
	}
	constraint, err := m.constraint(p.ResponseFormat, p.trigger)
	if err != nil {
		return nil, err
	}
	if constraint != nil && p.offered {
		return nil, unsupported("response_format", "response_format and tools in one request are more than this server can hold an answer to: leave one away.")
	}
	if constraint == nil {
		constraint = p.calls
	}
	for prompt, tokens := range p.prompts {
		for i := range p.choices() {
			options := []ember.GenerateOption{ember.WithMaxTokens(p.most[prompt]), ember.WithStop(p.stop...), ember.WithRenderSpecial(p.special)}
			if constraint != nil {
				options = append(options, ember.WithConstraint(constraint))
			}
			if p.logprob {
				options = append(options, ember.WithLogprobs(true), ember.WithTop(p.top))
			}
			request, err := m.submitOne(ctx, tokens, p.seedOf(i), stages, options)
			if err != nil {
				return requests, err
			}
			requests = append(requests, request)
		}
	}
	return requests, nil
}

func (m *served) submitOne(ctx context.Context, tokens []ember.Token, seed uint64, stages []ember.Stage, options []ember.GenerateOption) (*ember.Request, error) {
	if len(stages) > 0 {
		sampler, err := ember.NewSampler(seed, stages...)
		if err != nil {
			return nil, err
		}
		defer sampler.Close() // the request takes a copy
		options = append(options, ember.WithSampler(sampler))
	}
	return m.engine.SubmitTokens(ctx, tokens, options...)
}

// finishReason says why a choice ended in OpenAI's words.
func finishReason(event ember.Event) string {
	switch event.Finish {
	case ember.FinishEOG, ember.FinishStopString:
		return "stop"
	}
	return "length" // FinishMaxTokens, FinishContextFull
}

// usage counts the tokens of a request.
type usage struct {
	PromptTokens     int           `json:"prompt_tokens"`
	CompletionTokens int           `json:"completion_tokens"`
	TotalTokens      int           `json:"total_tokens"`
	PromptDetails    promptDetails `json:"prompt_tokens_details"`
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"` // that were computed before
}

// promptUsage counts each prompt once, however many choices there are.
func (p *plan) promptUsage() (u usage) {
	for _, prompt := range p.prompts {
		u.PromptTokens += len(prompt)
	}
	u.TotalTokens = u.PromptTokens
	return u
}

// add counts choice's answer, which has ended with event. Of several choices to a prompt the first says what was cached.
func (u *usage) add(choice int, p *plan, event ember.Event) {
	if event.Usage == nil {
		return
	}
	u.CompletionTokens += event.Usage.GeneratedTokens
	u.TotalTokens += event.Usage.GeneratedTokens
	if choice%p.choices() == 0 {
		u.PromptDetails.CachedTokens += event.Usage.ReusedTokens
	}
}

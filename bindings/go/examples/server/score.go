package main

import (
	"context"
	"math"
	"slices"

	"ember.example/ember"
)

// scoreRows is how many tokens of a prompt are scored at a time: the logits of each take four bytes for each token of the
// vocabulary.
const scoreRows = 32

// scorePrompt gives the log-probability of each token of a prompt after those before it, and the top likeliest ones.
func (m *served) scorePrompt(ctx context.Context, prompt []ember.Token, top int) ([]scored, error) {
	all := make([]scored, len(prompt))
	for i, token := range prompt {
		var err error
		if all[i].bytes, err = m.textBytes(token); err != nil {
			return nil, err
		}
	}
	err := m.aside.use(ctx, func(c *ember.Context) error {
		if err := c.Rewind(0, 0); err != nil {
			return err
		}
		want := slices.Repeat([]bool{true}, scoreRows)
		for start := 0; start < len(prompt)-1; start += scoreRows {
			rows := prompt[start:min(start+scoreRows, len(prompt)-1)]
			if err := c.DecodeBatch(ctx, ember.Batch{Tokens: rows, WantLogits: want[:len(rows)]}); err != nil {
				return err
			}
			for i := range rows {
				next := start + i + 1
				if err := c.ViewLogits(i, func(logits []float32) error {
					all[next].logprob, all[next].top = logprobOf(logits, prompt[next], top)
					return nil
				}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return all, err
}

// textBytes is what a token adds to a text: nothing, for a control token.
func (m *served) textBytes(token ember.Token) ([]byte, error) {
	if control, err := m.model.IsControl(token); err != nil || control {
		return nil, err
	}
	return m.model.TokenBytes(token)
}

// logprobOf gives the log-probability of token, and the top likeliest tokens with theirs, the likeliest first.
func logprobOf(logits []float32, token ember.Token, top int) (*float32, []ember.TokenLogprob) {
	most := float64(slices.Max(logits))
	var sum float64
	for _, logit := range logits {
		sum += math.Exp(float64(logit) - most)
	}
	norm := most + math.Log(sum)
	of := func(t ember.Token) float32 { return finite(float32(float64(logits[t]) - norm)) }

	best := make([]ember.TokenLogprob, 0, top+1) // sorted
	for t, logit := range logits {
		if top == 0 || len(best) == top && logit <= best[top-1].Logprob {
			continue
		}
		i, _ := slices.BinarySearchFunc(best, logit, func(b ember.TokenLogprob, logit float32) int {
			if b.Logprob >= logit {
				return -1 // after those that are as likely
			}
			return 1
		})
		best = slices.Insert(best, i, ember.TokenLogprob{Token: ember.Token(t), Logprob: logit})
		best = best[:min(len(best), top)]
	}
	for i := range best {
		best[i].Logprob = of(best[i].Token)
	}
	logprob := of(token)
	return &logprob, best
}

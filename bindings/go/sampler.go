package ember

/*
#include "callback.h"
*/
import "C"

import (
	"maps"
	"slices"
	"sync"
)

// Sampler chooses tokens: an ordered chain of stages that narrow or reweigh the candidates, then one random draw. One
// goroutine at a time, but any number may make requests of engines with it, which take copies.
type Sampler struct {
	h       *handle[*C.ember_sampler]
	callees *callees
	copying sync.Mutex // held by a request while it takes a copy, which others may do at once
}

// Stage is a step of a [Sampler].
type Stage struct {
	add      func(*C.ember_sampler) error
	function func([]Token, []float32) error // of StageFunc, in place of add
}

// Greedy keeps the most probable token only; of equals the one with the lowest number.
func Greedy() Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_greedy(s, &cerr), &cerr)
	}}
}

// Temperature divides the logits by t, which is not below 0; 0 is greedy.
func Temperature(t float32) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_temperature(s, C.float(t), &cerr), &cerr)
	}}
}

// TopK keeps the k most probable tokens; 0 keeps all.
func TopK(k int) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		n, err := number("top-k", k)
		if err != nil {
			return err
		}
		var cerr *C.ember_error
		return check(C.ember_sampler_add_top_k(s, n, &cerr), &cerr)
	}}
}

// TopP keeps the most probable tokens whose probabilities add up to p (above 0, at most 1), at least one.
func TopP(p float32) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_top_p(s, C.float(p), &cerr), &cerr)
	}}
}

// MinP keeps tokens at least p (0 to 1) times as probable as the likeliest; 0 keeps all.
func MinP(p float32) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_min_p(s, C.float(p), &cerr), &cerr)
	}}
}

// TypicalP keeps the tokens whose surprise is closest to the expected one, until their probabilities add up to more than p
// (above 0, at most 1); 1 keeps all.
func TypicalP(p float32) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_typical_p(s, C.float(p), &cerr), &cerr)
	}}
}

// DynamicTemperature is a temperature between t - spread (at least 0) and t + spread, which grows with the entropy of the
// distribution to the power exponent.
func DynamicTemperature(t, spread, exponent float32) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_dynamic_temperature(s, C.float(t), C.float(spread), C.float(exponent), &cerr), &cerr)
	}}
}

// XTC, as often as probability (0 to 1) says, removes all tokens at least as probable as threshold (0 to 1) but the least
// likely of them.
func XTC(probability, threshold float32) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_xtc(s, C.float(probability), C.float(threshold), &cerr), &cerr)
	}}
}

// Penalties makes tokens less likely that are among the last lastN accepted ones. A positive logit is divided by repeat (above 0;
// 1 changes nothing), another one multiplied. Then frequency is taken off for each time the token occurred, and presence once. A
// generation accepts its tokens by itself; see [Sampler.Accept].
func Penalties(lastN int, repeat, frequency, presence float32) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		n, err := number("the number of tokens to look back", lastN)
		if err != nil {
			return err
		}
		var cerr *C.ember_error
		return check(C.ember_sampler_add_penalties(s, n, C.float(repeat), C.float(frequency), C.float(presence), &cerr), &cerr)
	}}
}

// PenaltiesOfGenerated has the frequency and the presence of [Penalties] count the tokens that were generated since the last one of
// a prompt and no others, as OpenAI's API has them; repeat counts all. It is a setting of the sampler and no stage, so its place among them
// does not matter.
func PenaltiesOfGenerated() Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_set_penalties_generated_only(s, true, &cerr), &cerr)
	}}
}

// Mirostat keeps tokens whose surprise is below a bound, which follows the surprise that is wanted, tau in bits, at the rate
// eta. It is the last stage as a rule.
func Mirostat(tau, eta float32) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_mirostat(s, C.float(tau), C.float(eta), &cerr), &cerr)
	}}
}

// Bias adds numbers to the logits of tokens; minus infinity rules a token out.
func Bias(biases map[Token]float32) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		tokens := slices.Sorted(maps.Keys(biases))
		numbers := make([]float32, len(tokens))
		for i, token := range tokens {
			numbers[i] = biases[token]
		}
		var cerr *C.ember_error
		return check(C.ember_sampler_add_bias(s, elements[C.uint32_t](tokens), elements[C.float](numbers), C.size_t(len(tokens)), &cerr), &cerr)
	}}
}

// Allow keeps these tokens only. When none of them is left, sampling fails.
func Allow(tokens ...Token) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_allow(s, elements[C.uint32_t](tokens), C.size_t(len(tokens)), &cerr), &cerr)
	}}
}

// Deny rules these tokens out. When no other is left, sampling fails.
func Deny(tokens ...Token) Stage {
	return Stage{add: func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_deny(s, elements[C.uint32_t](tokens), C.size_t(len(tokens)), &cerr), &cerr)
	}}
}

// SeedRandom as a seed stands for one drawn at random, which [Sampler.Seed] tells.
const SeedRandom uint64 = C.EMBER_SEED_RANDOM

// NewSampler makes a sampler of these stages, in their order. Without a stage it draws from the softmax of the logits. A
// seed gives the same choices on every platform for the same logits.
func NewSampler(seed uint64, stages ...Stage) (*Sampler, error) {
	var cerr *C.ember_error
	var p *C.ember_sampler
	if err := check(C.ember_sampler_new(C.uint64_t(seed), &p, &cerr), &cerr); err != nil {
		return nil, err
	}
	s := newSamplerOf(p, &callees{})
	for _, stage := range stages {
		var err error
		switch {
		case stage.function != nil:
			err = s.callees.add(p, stage.function)
		case stage.add != nil:
			err = stage.add(p)
		default:
			err = invalid("a stage that nothing in this package made")
		}
		if err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

func newSamplerOf(p *C.ember_sampler, callees *callees) *Sampler {
	h := newHandle(p, func(p *C.ember_sampler) {
		C.ember_sampler_free(p)
		callees.release()
	})
	s := &Sampler{h: h, callees: callees}
	own(s, s.h)
	return s
}

// Close frees the sampler. A [Generator] made with it goes on working.
func (s *Sampler) Close() error {
	s.h.close()
	return nil
}

// Clone copies a sampler: its stages and their state, its random numbers where they stand.
func (s *Sampler) Clone() (*Sampler, error) {
	p, err := s.h.useAlone()
	if err != nil {
		return nil, err
	}
	defer s.h.done()
	var cerr *C.ember_error
	var clone *C.ember_sampler
	if err := check(C.ember_sampler_clone(p, &clone, &cerr), &cerr); err != nil {
		return nil, err
	}
	return newSamplerOf(clone, s.callees.retain()), nil
}

// copy is what a request is made with; the caller frees it.
func (s *Sampler) copy() (*C.ember_sampler, error) {
	p, err := s.h.use()
	if err != nil {
		return nil, err
	}
	defer s.h.done()
	s.copying.Lock()
	defer s.copying.Unlock()
	var cerr *C.ember_error
	var copied *C.ember_sampler
	err = check(C.ember_sampler_clone(p, &copied, &cerr), &cerr)
	return copied, err
}

// Seed tells the seed of the random numbers.
func (s *Sampler) Seed() (uint64, error) {
	p, err := s.h.useAlone()
	if err != nil {
		return 0, err
	}
	defer s.h.done()
	var cerr *C.ember_error
	var seed C.uint64_t
	err = check(C.ember_sampler_seed(p, &seed, &cerr), &cerr)
	return uint64(seed), err
}

// Accept tells the stages that look back that token is now part of the text: one that Sample gave, or one of a prompt.
func (s *Sampler) Accept(token Token) error {
	p, err := s.h.useAlone()
	if err != nil {
		return err
	}
	defer s.h.done()
	var cerr *C.ember_error
	return check(C.ember_sampler_accept(p, C.uint32_t(token), &cerr), &cerr)
}

// Reset starts over, as if the sampler were new: the random numbers and what was accepted; the stages stay.
func (s *Sampler) Reset() error {
	p, err := s.h.useAlone()
	if err != nil {
		return err
	}
	defer s.h.done()
	var cerr *C.ember_error
	return check(C.ember_sampler_reset(p, &cerr), &cerr)
}

// Sample chooses a token from logits, whose index is the token.
func (s *Sampler) Sample(logits []float32) (Token, error) {
	p, err := s.h.useAlone()
	if err != nil {
		return NoToken, err
	}
	defer s.h.done()
	var cerr *C.ember_error
	var token C.uint32_t
	var raised C.uintptr_t
	err = check(C.ember_go_sample(p, elements[C.float](logits), C.size_t(len(logits)), &token, &raised, &cerr), &cerr)
	if err := settled(raised, err); err != nil {
		return NoToken, err
	}
	return Token(token), nil
}

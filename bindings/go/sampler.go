package ember

/*
#include <ember.h>
*/
import "C"

// Sampler chooses tokens: an ordered chain of stages that narrow or reweigh the candidates, then one random draw. One
// goroutine at a time.
type Sampler struct {
	h *handle[*C.ember_sampler]
}

// Stage is a step of a [Sampler].
type Stage struct {
	add func(*C.ember_sampler) error
}

// Greedy keeps the most probable token only; of equals the one with the lowest number.
func Greedy() Stage {
	return Stage{func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_greedy(s, &cerr), &cerr)
	}}
}

// Temperature divides the logits by t, which is not below 0; 0 is greedy.
func Temperature(t float32) Stage {
	return Stage{func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_temperature(s, C.float(t), &cerr), &cerr)
	}}
}

// TopK keeps the k most probable tokens; 0 keeps all.
func TopK(k int) Stage {
	return Stage{func(s *C.ember_sampler) error {
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
	return Stage{func(s *C.ember_sampler) error {
		var cerr *C.ember_error
		return check(C.ember_sampler_add_top_p(s, C.float(p), &cerr), &cerr)
	}}
}

// NewSampler makes a sampler of these stages, in their order. Without a stage it draws from the softmax of the logits. A
// seed gives the same choices on every platform for the same logits.
func NewSampler(seed uint64, stages ...Stage) (*Sampler, error) {
	var cerr *C.ember_error
	var p *C.ember_sampler
	if err := check(C.ember_sampler_new(C.uint64_t(seed), &p, &cerr), &cerr); err != nil {
		return nil, err
	}
	s := &Sampler{newHandle(p, func(p *C.ember_sampler) { C.ember_sampler_free(p) })}
	own(s, s.h)
	for _, stage := range stages {
		if err := stage.add(p); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Close frees the sampler. A [Generator] made with it goes on working.
func (s *Sampler) Close() error {
	s.h.close()
	return nil
}

// Reset starts the random numbers over.
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
	if err := check(C.ember_sampler_sample(p, elements[C.float](logits), C.size_t(len(logits)), &token, &cerr), &cerr); err != nil {
		return NoToken, err
	}
	return Token(token), nil
}

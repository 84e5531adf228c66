package ember

/*
#include <ember.h>
*/
import "C"

import (
	"fmt"
	"math"
	"time"
)

// GenerateOption is an option of [Context.Generate], [Context.NewGenerator], [Context.Score] and [Engine.Submit].
type GenerateOption struct {
	apply func(*generateConfig) error
}

// generateConfig is what options change.
type generateConfig struct {
	options *C.ember_generate_options
	sampler *Sampler
	draft   *Context
}

// newGenerateConfig applies options; free what it gives.
func newGenerateConfig(options []GenerateOption) (*generateConfig, error) {
	var cerr *C.ember_error
	config := &generateConfig{}
	if err := check(C.ember_generate_options_new(&config.options, &cerr), &cerr); err != nil {
		return nil, err
	}
	for _, option := range options {
		if err := applied(option.apply, config); err != nil {
			config.free()
			return nil, err
		}
	}
	return config, nil
}

func (config *generateConfig) free() { C.ember_generate_options_free(config.options) }

// setting is an option that one call of the library sets.
func setting(set func(*C.ember_generate_options, **C.ember_error) C.ember_status) GenerateOption {
	return GenerateOption{func(config *generateConfig) error {
		var cerr *C.ember_error
		return check(set(config.options, &cerr), &cerr)
	}}
}

// counting is setting for an integer.
func counting(name string, value int, set func(*C.ember_generate_options, C.uint32_t, **C.ember_error) C.ember_status) GenerateOption {
	return GenerateOption{func(config *generateConfig) error {
		n, err := number(name, value)
		if err != nil {
			return err
		}
		var cerr *C.ember_error
		return check(set(config.options, n, &cerr), &cerr)
	}}
}

// WithSampler chooses tokens with s; without it the likeliest token is taken. The sampler stays the caller's to close.
func WithSampler(s *Sampler) GenerateOption {
	return GenerateOption{func(config *generateConfig) error {
		config.sampler = s
		return nil
	}}
}

// WithMaxTokens sets the most tokens to generate; by default 128.
func WithMaxTokens(n int) GenerateOption {
	return counting("the number of tokens", n, func(o *C.ember_generate_options, n C.uint32_t, err **C.ember_error) C.ember_status {
		return C.ember_generate_options_set_max_tokens(o, n, err)
	})
}

// WithSequence sets the sequence of the context to continue; by default 0.
func WithSequence(sequence int) GenerateOption {
	return counting("the sequence", sequence, func(o *C.ember_generate_options, n C.uint32_t, err **C.ember_error) C.ember_status {
		return C.ember_generate_options_set_sequence(o, n, err)
	})
}

// WithParseSpecial takes the text of control tokens in the prompt for these tokens. Not for text that users type.
func WithParseSpecial(parse bool) GenerateOption {
	return setting(func(o *C.ember_generate_options, err **C.ember_error) C.ember_status {
		return C.ember_generate_options_set_parse_special(o, C.bool(parse), err)
	})
}

// WithRenderSpecial has control tokens that the model generates appear in the text.
func WithRenderSpecial(render bool) GenerateOption {
	return setting(func(o *C.ember_generate_options, err **C.ember_error) C.ember_status {
		return C.ember_generate_options_set_render_special(o, C.bool(render), err)
	})
}

// WithIgnoreEOG goes on after an end-of-generation token.
func WithIgnoreEOG(ignore bool) GenerateOption {
	return setting(func(o *C.ember_generate_options, err **C.ember_error) C.ember_status {
		return C.ember_generate_options_set_ignore_eog(o, C.bool(ignore), err)
	})
}

// WithStop ends the generation where one of these texts was generated. The text ends before it; what may be its beginning
// is held back until that is certain.
func WithStop(stops ...string) GenerateOption {
	return GenerateOption{func(config *generateConfig) error {
		for _, stop := range stops {
			var cerr *C.ember_error
			start, n := chars(stop)
			if err := check(C.ember_generate_options_add_stop(config.options, start, n, &cerr), &cerr); err != nil {
				return err
			}
		}
		return nil
	}}
}

// WithIncludeStop makes the stop text that ended a generation the end of its text.
func WithIncludeStop(include bool) GenerateOption {
	return setting(func(o *C.ember_generate_options, err **C.ember_error) C.ember_status {
		return C.ember_generate_options_set_include_stop(o, C.bool(include), err)
	})
}

// WithReusePrefix takes the prompt for the whole of what the sequence shall hold. Ember keeps the beginning that it has already,
// and runs only the rest: give all of a conversation each time and pay for what was added.
func WithReusePrefix(reuse bool) GenerateOption {
	return setting(func(o *C.ember_generate_options, err **C.ember_error) C.ember_status {
		return C.ember_generate_options_set_reuse_prefix(o, C.bool(reuse), err)
	})
}

// WithEcho makes the first event the prompt's text.
func WithEcho(echo bool) GenerateOption {
	return setting(func(o *C.ember_generate_options, err **C.ember_error) C.ember_status {
		return C.ember_generate_options_set_echo(o, C.bool(echo), err)
	})
}

// WithTimeLimit ends the generation with [FinishTimeLimit] when a token comes after that time, counted from the making of the
// generator or the submission to an engine on. 0, the default: any. Unlike the deadline of a context.Context this is no error.
func WithTimeLimit(limit time.Duration) GenerateOption {
	return GenerateOption{func(config *generateConfig) error {
		if limit < 0 {
			return invalid(fmt.Sprintf("the time limit is %v", limit))
		}
		milliseconds := (limit + time.Millisecond - 1) / time.Millisecond
		var cerr *C.ember_error
		return check(C.ember_generate_options_set_time_limit(config.options, C.uint64_t(milliseconds), &cerr), &cerr)
	}}
}

// WithPriority says which of the requests that wait in an engine's queue begins first: that of the highest priority, of equal
// ones the one that came first. Of those that were passed by 32 others the one that came first is next all the same, and the
// rest are counted anew. By default 0.
func WithPriority(priority int) GenerateOption {
	return GenerateOption{func(config *generateConfig) error {
		if priority < math.MinInt32 || priority > math.MaxInt32 {
			return invalid(fmt.Sprintf("the priority is %d, which 32 bits do not hold", priority))
		}
		var cerr *C.ember_error
		return check(C.ember_generate_options_set_priority(config.options, C.int32_t(priority), &cerr), &cerr)
	}}
}

// WithLogprobs has events tell the log-probability of their token.
func WithLogprobs(logprobs bool) GenerateOption {
	return setting(func(o *C.ember_generate_options, err **C.ember_error) C.ember_status {
		return C.ember_generate_options_set_logprobs(o, C.bool(logprobs), err)
	})
}

// WithTop has events tell the n likeliest tokens, at most 64, and log-probabilities.
func WithTop(n int) GenerateOption {
	return counting("the number of likeliest tokens", n, func(o *C.ember_generate_options, n C.uint32_t, err **C.ember_error) C.ember_status {
		return C.ember_generate_options_set_n_top(o, n, err)
	})
}

// WithShift has a generation go on where its sequence is full ([WithSize]). Each time it forgets drop tokens after the first
// keep, as [Context.ShiftSequence] does; [Usage] tells how many those were. drop of 0, the default: it ends with
// [FinishContextFull]. A prompt that does not fit is an error all the same. [ErrUnsupported] for a model with learned positions
// (GPT-2), and in an engine.
func WithShift(keep, drop int) GenerateOption {
	return GenerateOption{func(config *generateConfig) error {
		n, err := numbers(toKeep(keep), toForget(drop))
		if err != nil {
			return err
		}
		var cerr *C.ember_error
		return check(C.ember_generate_options_set_shift(config.options, n[0], n[1], &cerr), &cerr)
	}}
}

// WithLookup takes up to n draft tokens (at most 32; 0, the default: none) from the text itself, to run several tokens in one step.
// The drafts are what followed the last tokens where these stood in the text before: the last ngram of them (1 to 16; 3 is good),
// then fewer, down to 2. The text is the same as without. It takes less time where texts repeat what they have said or were given.
// Other calls that decode on the same context between two events discard the drafts. An engine makes none.
func WithLookup(n, ngram int) GenerateOption {
	return GenerateOption{func(config *generateConfig) error {
		n, err := numbers(toDraft(n), named{"the number of tokens to look up", ngram})
		if err != nil {
			return err
		}
		var cerr *C.ember_error
		return check(C.ember_generate_options_set_lookup(config.options, n[0], n[1], &cerr), &cerr)
	}}
}

// WithDraft takes up to n draft tokens, at most 32, from a smaller model with the same vocabulary where [WithLookup] finds none. All
// that is said there holds here. draft is a context of that model, of about the size of the other. Its sequence becomes the beginning of
// the text, whatever it held. Several generators may share it, each with a sequence of its own. It is in use while a generator is
// made and during [Generator.Next]: when another call has it then they give [ErrBusy], and can be tried again. Generators keep what
// they need of it, so it may be closed while there are some. nil, the default: none.
func WithDraft(draft *Context, sequence, n int) GenerateOption {
	return GenerateOption{func(config *generateConfig) error {
		n, err := numbers(named{"the sequence", sequence}, toDraft(n))
		if err != nil {
			return err
		}
		var p *C.ember_context
		if draft != nil {
			if p, err = draft.h.use(); err != nil {
				return err
			}
			defer draft.h.done()
		}
		config.draft = draft
		var cerr *C.ember_error
		return check(C.ember_generate_options_set_draft(config.options, p, n[0], n[1], &cerr), &cerr)
	}}
}

func toDraft(n int) named { return named{"the number of draft tokens", n} }

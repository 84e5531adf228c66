package ember

/*
#include <ember.h>
*/
import "C"

import "runtime"

// Constraint is what a generated text has to follow, compiled for the tokens of a model. It does not change: any number of
// goroutines may use it, for any number of generations.
type Constraint struct {
	h *handle[*C.ember_constraint]
}

// ConstraintOption is an option of [Model.JSONSchema] and its like.
type ConstraintOption struct {
	apply func(*C.ember_constraint_options) error
}

func constraintSetting(set func(*C.ember_constraint_options, **C.ember_error) C.ember_status) ConstraintOption {
	return ConstraintOption{func(o *C.ember_constraint_options) error {
		var cerr *C.ember_error
		return check(set(o, &cerr), &cerr)
	}}
}

// WithTrigger leaves the text free until this text was generated; the constraint begins after it. Of several the one that is complete
// first counts. For a model that thinks it is the mark that ends its thought.
func WithTrigger(text string) ConstraintOption {
	return constraintSetting(func(o *C.ember_constraint_options, err **C.ember_error) C.ember_status {
		start, n := chars(text)
		return C.ember_constraint_options_add_trigger_text(o, start, n, err)
	})
}

// WithTriggerToken is WithTrigger for a token.
func WithTriggerToken(token Token) ConstraintOption {
	return constraintSetting(func(o *C.ember_constraint_options, err **C.ember_error) C.ember_status {
		return C.ember_constraint_options_add_trigger_token(o, C.uint32_t(token), err)
	})
}

// WithRepeat says whether the text is free again where the constraint is complete, until the next trigger. By default it ends.
func WithRepeat(repeat bool) ConstraintOption {
	return constraintSetting(func(o *C.ember_constraint_options, err **C.ember_error) C.ember_status {
		return C.ember_constraint_options_set_repeat(o, C.bool(repeat), err)
	})
}

// WithWhitespace sets the most characters of white space between two parts of JSON; by default 32.
func WithWhitespace(most int) ConstraintOption {
	return ConstraintOption{func(o *C.ember_constraint_options) error {
		n, err := number("the white space", most)
		if err != nil {
			return err
		}
		var cerr *C.ember_error
		return check(C.ember_constraint_options_set_whitespace(o, n, &cerr), &cerr)
	}}
}

// ConstraintLimit is a bound on the work and memory of a [Constraint].
type ConstraintLimit int32

const (
	LimitSource  ConstraintLimit = C.EMBER_CONSTRAINT_LIMIT_SOURCE  // bytes of the schema, the expression, the grammar, or all choices
	LimitGrammar ConstraintLimit = C.EMBER_CONSTRAINT_LIMIT_GRAMMAR // symbols of the compiled grammar
	LimitCompile ConstraintLimit = C.EMBER_CONSTRAINT_LIMIT_COMPILE // steps of compiling
	LimitMask    ConstraintLimit = C.EMBER_CONSTRAINT_LIMIT_MASK    // steps in the expressions for one token
	LimitItems   ConstraintLimit = C.EMBER_CONSTRAINT_LIMIT_ITEMS   // items of the parser for one token
	LimitStates  ConstraintLimit = C.EMBER_CONSTRAINT_LIMIT_STATES  // states of the expressions in one text
)

// WithConstraintLimit sets a bound. Where it is reached, making the constraint fails, or the generation ends with an error.
func WithConstraintLimit(limit ConstraintLimit, most uint64) ConstraintOption {
	return constraintSetting(func(o *C.ember_constraint_options, err **C.ember_error) C.ember_status {
		return C.ember_constraint_options_set_limit(o, C.int32_t(limit), C.uint64_t(most), err)
	})
}

// JSONSchema makes a constraint: the text is JSON that this JSON Schema describes. ErrUnsupported names what of it the library cannot
// hold to, and ErrInvalidArgument tells of one that is none, or that no JSON meets; ember_constraint_new_json_schema in ember.h lists the
// keywords.
func (m *Model) JSONSchema(schema []byte, options ...ConstraintOption) (*Constraint, error) {
	return m.constraint(options, func(p *C.ember_model, o *C.ember_constraint_options, out **C.ember_constraint, err **C.ember_error) C.ember_status {
		return C.ember_constraint_new_json_schema(p, elements[C.char](schema), C.size_t(len(schema)), o, out, err)
	})
}

// JSONObject makes a constraint: the text is a JSON object.
func (m *Model) JSONObject(options ...ConstraintOption) (*Constraint, error) {
	return m.constraint(options, func(p *C.ember_model, o *C.ember_constraint_options, out **C.ember_constraint, err **C.ember_error) C.ember_status {
		return C.ember_constraint_new_json_object(p, o, out, err)
	})
}

// Regex makes a constraint: the text matches the regular expression as a whole, which has the syntax of Rust's crate regex, as Go's
// package regexp does nearly.
func (m *Model) Regex(regex string, options ...ConstraintOption) (*Constraint, error) {
	return m.constraint(options, func(p *C.ember_model, o *C.ember_constraint_options, out **C.ember_constraint, err **C.ember_error) C.ember_status {
		start, n := chars(regex)
		return C.ember_constraint_new_regex(p, start, n, o, out, err)
	})
}

// Lark makes a constraint: the text is derived from the rule "start" of a grammar in the syntax of Lark.
func (m *Model) Lark(grammar string, options ...ConstraintOption) (*Constraint, error) {
	return m.constraint(options, func(p *C.ember_model, o *C.ember_constraint_options, out **C.ember_constraint, err **C.ember_error) C.ember_status {
		start, n := chars(grammar)
		return C.ember_constraint_new_lark(p, start, n, o, out, err)
	})
}

// Choices makes a constraint: the text is one of these.
func (m *Model) Choices(texts []string, options ...ConstraintOption) (*Constraint, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pointers, lengths := pinnedTexts(&pinner, texts)
	return m.constraint(options, func(p *C.ember_model, o *C.ember_constraint_options, out **C.ember_constraint, err **C.ember_error) C.ember_status {
		return C.ember_constraint_new_choices(p, pointers, lengths, C.size_t(len(texts)), o, out, err)
	})
}

func (m *Model) constraint(options []ConstraintOption,
	make func(*C.ember_model, *C.ember_constraint_options, **C.ember_constraint, **C.ember_error) C.ember_status) (*Constraint, error) {
	model, err := m.h.use()
	if err != nil {
		return nil, err
	}
	defer m.h.done()
	var cerr *C.ember_error
	var o *C.ember_constraint_options
	if err := check(C.ember_constraint_options_new(&o, &cerr), &cerr); err != nil {
		return nil, err
	}
	defer C.ember_constraint_options_free(o)
	for _, option := range options {
		if err := applied(option.apply, o); err != nil {
			return nil, err
		}
	}
	var p *C.ember_constraint
	if err := check(make(model, o, &p, &cerr), &cerr); err != nil {
		return nil, err
	}
	c := &Constraint{newHandle(p, func(p *C.ember_constraint) { C.ember_constraint_free(p) })}
	own(c, c.h)
	return c, nil
}

// ChatConstraint makes the constraint of a reply that may call tools. Every call follows the schema of its tool. Where
// [WithToolChoice] asks for a call, the reply is one. nil: there is nothing to constrain. prompt is the text that
// [Model.ApplyChatTemplate] gave with the same options.
func (m *Model) ChatConstraint(prompt string, options ...ChatOption) (*Constraint, error) {
	var p *C.ember_constraint
	err := m.withChat(options, func(model *C.ember_model, o *C.ember_chat_options) error {
		var cerr *C.ember_error
		start, n := chars(prompt)
		return check(C.ember_chat_constraint(model, o, start, n, &p, &cerr), &cerr)
	})
	if err != nil || p == nil {
		return nil, err
	}
	c := &Constraint{newHandle(p, func(p *C.ember_constraint) { C.ember_constraint_free(p) })}
	own(c, c.h)
	return c, nil
}

// Close frees the constraint. Generations that use it go on.
func (c *Constraint) Close() error {
	c.h.close()
	return nil
}

// WithConstraint has the generated text follow c: only tokens that it allows are chosen, and the generation ends with it, as
// FinishEOG. A text that is cut off before, by WithMaxTokens say, is unfinished, as Usage.Progress tells. nil: none.
func WithConstraint(c *Constraint) GenerateOption {
	return GenerateOption{func(config *generateConfig) error {
		var cerr *C.ember_error
		if c == nil {
			return check(C.ember_generate_options_set_constraint(config.options, nil, &cerr), &cerr)
		}
		p, err := c.h.use()
		if err != nil {
			return err
		}
		defer c.h.done()
		return check(C.ember_generate_options_set_constraint(config.options, p, &cerr), &cerr)
	}}
}

// Progress is how far a text is that follows a [Constraint].
type Progress int32

const (
	ProgressNone       Progress = iota // there is no constraint
	ProgressWaiting                    // no trigger came, so the text was free
	ProgressUnfinished                 // the text was cut off
	ProgressComplete                   // the text is what it has to be
)

package ember

/*
#include <ember.h>
*/
import "C"

import (
	"context"
	"runtime"
)

// ScoreOption is an option of [Context.Rerank] and [Context.Classify].
type ScoreOption struct {
	apply func(*C.ember_classify_options) error
}

func scoreSetting(set func(*C.ember_classify_options, **C.ember_error) C.ember_status) ScoreOption {
	return ScoreOption{func(o *C.ember_classify_options) error {
		var cerr *C.ember_error
		return check(set(o, &cerr), &cerr)
	}}
}

// Activation is what is done to the outputs of a head that scores texts.
type Activation int32

const (
	ActivationAuto    Activation = -1 // what the model's source says, or sigmoid for one label and softmax for more
	ActivationNone    Activation = 0  // nothing: the scores are any numbers
	ActivationSigmoid Activation = 1  // each score is a probability of its own
	ActivationSoftmax Activation = 2  // the scores of a text are probabilities that add up to 1
)

// WithActivation says what is done to the head's outputs; by default ActivationAuto.
func WithActivation(activation Activation) ScoreOption {
	return scoreSetting(func(o *C.ember_classify_options, err **C.ember_error) C.ember_status {
		return C.ember_classify_options_set_activation(o, C.int32_t(activation), err)
	})
}

// WithTruncateScored says whether of a text that is too long what fits is taken, or the call fails, as by default.
func WithTruncateScored(truncate bool) ScoreOption {
	return scoreSetting(func(o *C.ember_classify_options, err **C.ember_error) C.ember_status {
		return C.ember_classify_options_set_truncate(o, C.bool(truncate), err)
	})
}

// WithRerankTemplate sets the prompt of rerankers that are decoders: a text with the places {query} and {document}.
func WithRerankTemplate(template string) ScoreOption {
	return scoreSetting(func(o *C.ember_classify_options, err **C.ember_error) C.ember_status {
		text, n := chars(template)
		return C.ember_classify_options_set_template(o, text, n, err)
	})
}

// WithYesNo says whether a model without a head is asked for "yes" or "no", as Qwen3-Reranker's original folder is.
func WithYesNo(yesNo bool) ScoreOption {
	return scoreSetting(func(o *C.ember_classify_options, err **C.ember_error) C.ember_status {
		return C.ember_classify_options_set_yes_no(o, C.bool(yesNo), err)
	})
}

// Rerank tells how well each document answers query: a score for each, the higher the better. The pairs run in batches, so
// give many at once. ErrUnsupported for a model that is no reranker.
func (c *Context) Rerank(ctx context.Context, query string, documents []string, options ...ScoreOption) ([]float32, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pointers, lengths := pinnedTexts(&pinner, documents)
	start, n := chars(query)
	return c.scores(ctx, len(documents), options, func(p *C.ember_context, o *C.ember_classify_options, scores []float32, needed *C.size_t) error {
		var cerr *C.ember_error
		return check(C.ember_rerank(p, start, n, pointers, lengths, C.size_t(len(documents)), o,
			elements[C.float](scores), C.size_t(len(scores)), needed, &cerr), &cerr)
	})
}

// Classify gives the scores of each text: one for each of the model's [Model.Labels].
func (c *Context) Classify(ctx context.Context, texts []string, options ...ScoreOption) ([][]float32, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pointers, lengths := pinnedTexts(&pinner, texts)
	all, err := c.scores(ctx, len(texts), options, func(p *C.ember_context, o *C.ember_classify_options, scores []float32, needed *C.size_t) error {
		var cerr *C.ember_error
		return check(C.ember_classify(p, pointers, lengths, C.size_t(len(texts)), o,
			elements[C.float](scores), C.size_t(len(scores)), needed, &cerr), &cerr)
	})
	if err != nil || len(texts) == 0 {
		return nil, err
	}
	scores := make([][]float32, 0, len(texts))
	for width := len(all) / len(texts); len(all) > 0; all = all[width:] {
		scores = append(scores, all[:width:width])
	}
	return scores, nil
}

func (c *Context) scores(ctx context.Context, n int, options []ScoreOption,
	call func(*C.ember_context, *C.ember_classify_options, []float32, *C.size_t) error) (scores []float32, err error) {
	var cerr *C.ember_error
	var o *C.ember_classify_options
	if err := check(C.ember_classify_options_new(&o, &cerr), &cerr); err != nil {
		return nil, err
	}
	defer C.ember_classify_options_free(o)
	for _, option := range options {
		if err := applied(option.apply, o); err != nil {
			return nil, err
		}
	}
	err = c.until(ctx, func(p *C.ember_context) (err error) {
		scores, err = fill(n, func(scores []float32, needed *C.size_t) error { return call(p, o, scores, needed) })
		return err
	})
	return scores, err
}

// Labels names what [Context.Classify] scores, in the order of the scores.
func (m *Model) Labels() ([]string, error) {
	p, err := m.h.use()
	if err != nil {
		return nil, err
	}
	defer m.h.done()
	var cerr *C.ember_error
	var n C.size_t
	if err := check(C.ember_model_label_count(p, &n, &cerr), &cerr); err != nil {
		return nil, err
	}
	labels := make([]string, n)
	for i := range labels {
		label, err := fill(64, func(buffer []byte, needed *C.size_t) error {
			var cerr *C.ember_error
			return check(C.ember_model_label(p, C.size_t(i), elements[C.uint8_t](buffer), C.size_t(len(buffer)), needed, &cerr), &cerr)
		})
		if err != nil {
			return nil, err
		}
		labels[i] = string(label)
	}
	return labels, nil
}

package ember

/*
#include <ember.h>
*/
import "C"

import (
	"context"
	"fmt"
	"runtime"
	"unsafe"
)

// EmbedOption is an option of [Context.Embed].
type EmbedOption struct {
	apply func(*C.ember_embed_options) error
	width func(*embedWidth) // nil: it does not change
}

// WithPooling says which hidden states make a text's vector; by default [PoolingAuto].
func WithPooling(pooling Pooling) EmbedOption {
	return EmbedOption{func(o *C.ember_embed_options) error {
		var cerr *C.ember_error
		return check(C.ember_embed_options_set_pooling(o, C.int32_t(pooling), &cerr), &cerr)
	}, func(w *embedWidth) { w.pooling = pooling }}
}

// WithNormalize says whether each vector is scaled to length 1, so that the dot product of two is their cosine. By default
// true for one vector per text, false for one per token.
func WithNormalize(normalize bool) EmbedOption {
	return EmbedOption{apply: func(o *C.ember_embed_options) error {
		var cerr *C.ember_error
		return check(C.ember_embed_options_set_normalize(o, C.bool(normalize), &cerr), &cerr)
	}}
}

// WithTruncate says whether a text that is too long is cut instead of refused; by default false.
func WithTruncate(truncate bool) EmbedOption {
	return EmbedOption{apply: func(o *C.ember_embed_options) error {
		var cerr *C.ember_error
		return check(C.ember_embed_options_set_truncate(o, C.bool(truncate), &cerr), &cerr)
	}}
}

// WithDimensions says how many numbers of each vector are kept, the first ones; 0, the default: all.
func WithDimensions(n int) EmbedOption {
	return EmbedOption{func(o *C.ember_embed_options) error {
		if n < 0 {
			return invalid(fmt.Sprintf("the number of dimensions is %d, which is less than 0", n))
		}
		var cerr *C.ember_error
		return check(C.ember_embed_options_set_dimensions(o, C.size_t(n), &cerr), &cerr)
	}, func(w *embedWidth) { w.dimensions = n }}
}

// WithPromptName puts the model's prompt of this name, such as "query" or "document", before each text of [Context.Embed]; by default
// the model's default prompt, if it has one.
func WithPromptName(name string) EmbedOption {
	return EmbedOption{apply: func(o *C.ember_embed_options) error {
		var cerr *C.ember_error
		start, n := chars(name)
		return check(C.ember_embed_options_set_prompt(o, start, n, &cerr), &cerr)
	}}
}

// embedWidth is what the length of vectors depends on.
type embedWidth struct {
	pooling    Pooling
	dimensions int
}

// of is the length of a model's vectors, before and after the cut to the dimensions that were asked for.
func (w embedWidth) of(info ModelInfo) (whole, kept int) {
	pooling := w.pooling
	if pooling == PoolingAuto {
		pooling = info.Pooling
	}
	whole = info.VectorLen
	if pooling == PoolingNone {
		whole = info.EmbeddingLen
	}
	if w.dimensions > 0 {
		return whole, w.dimensions
	}
	return whole, whole
}

// Embed gives a vector for each text, in their order; with [PoolingNone] one for each token of each text. The texts run in
// batches, so give many at once. The context's sequences stay as they are.
func (c *Context) Embed(ctx context.Context, texts []string, options ...EmbedOption) ([][]float32, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pointers, lengths := pinnedTexts(&pinner, texts)
	return c.embed(ctx, len(texts), options, func(p *C.ember_context, o *C.ember_embed_options, vectors []float32, needed *C.size_t) error {
		var cerr *C.ember_error
		return check(C.ember_embed(p, pointers, lengths, C.size_t(len(texts)), o,
			elements[C.float](vectors), C.size_t(len(vectors)), needed, &cerr), &cerr)
	})
}

// EmbedTokens is Embed for texts that are tokens already, to which nothing is added.
func (c *Context) EmbedTokens(ctx context.Context, texts [][]Token, options ...EmbedOption) ([][]float32, error) {
	var tokens []Token
	lengths := make([]C.size_t, len(texts))
	for i, text := range texts {
		tokens = append(tokens, text...)
		lengths[i] = C.size_t(len(text))
	}
	return c.embed(ctx, len(texts), options, func(p *C.ember_context, o *C.ember_embed_options, vectors []float32, needed *C.size_t) error {
		var cerr *C.ember_error
		return check(C.ember_embed_tokens(p, elements[C.uint32_t](tokens), C.size_t(len(tokens)), unsafe.SliceData(lengths),
			C.size_t(len(texts)), o, elements[C.float](vectors), C.size_t(len(vectors)), needed, &cerr), &cerr)
	})
}

func (c *Context) embed(ctx context.Context, texts int, options []EmbedOption,
	call func(*C.ember_context, *C.ember_embed_options, []float32, *C.size_t) error) ([][]float32, error) {
	var cerr *C.ember_error
	var o *C.ember_embed_options
	if err := check(C.ember_embed_options_new(&o, &cerr), &cerr); err != nil {
		return nil, err
	}
	defer C.ember_embed_options_free(o)
	asked := embedWidth{pooling: PoolingAuto}
	for _, option := range options {
		if err := applied(option.apply, o); err != nil {
			return nil, err
		}
		if option.width != nil {
			option.width(&asked)
		}
	}
	whole, width := asked.of(c.model)
	var numbers []float32
	err := c.until(ctx, func(p *C.ember_context) (err error) {
		numbers, err = fill(texts*whole, func(vectors []float32, needed *C.size_t) error { return call(p, o, vectors, needed) })
		return err
	})
	if err != nil {
		return nil, err
	}
	vectors := make([][]float32, 0, len(numbers)/max(width, 1))
	for ; len(numbers) > 0; numbers = numbers[width:] {
		vectors = append(vectors, numbers[:width:width])
	}
	return vectors, nil
}

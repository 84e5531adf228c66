package ember

/*
#include <ember.h>
*/
import "C"

import (
	"context"
	"runtime"
	"unsafe"
)

// EmbedOption is an option of [Context.Embed].
type EmbedOption struct {
	apply func(*C.ember_embed_options) error
}

// WithPooling says which hidden states make a text's vector; by default [PoolingAuto].
func WithPooling(pooling Pooling) EmbedOption {
	return EmbedOption{func(o *C.ember_embed_options) error {
		var cerr *C.ember_error
		return check(C.ember_embed_options_set_pooling(o, C.int32_t(pooling), &cerr), &cerr)
	}}
}

// WithNormalize says whether each vector is scaled to length 1, so that the dot product of two is their cosine. By default
// true for one vector per text, false for one per token.
func WithNormalize(normalize bool) EmbedOption {
	return EmbedOption{func(o *C.ember_embed_options) error {
		var cerr *C.ember_error
		return check(C.ember_embed_options_set_normalize(o, C.bool(normalize), &cerr), &cerr)
	}}
}

// WithTruncate says whether a text that is too long is cut instead of refused; by default false.
func WithTruncate(truncate bool) EmbedOption {
	return EmbedOption{func(o *C.ember_embed_options) error {
		var cerr *C.ember_error
		return check(C.ember_embed_options_set_truncate(o, C.bool(truncate), &cerr), &cerr)
	}}
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
	for _, option := range options {
		if err := applied(option.apply, o); err != nil {
			return nil, err
		}
	}
	width := c.model.EmbeddingLen
	var numbers []float32
	err := c.until(ctx, func(p *C.ember_context) (err error) {
		numbers, err = fill(texts*width, func(vectors []float32, needed *C.size_t) error { return call(p, o, vectors, needed) })
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

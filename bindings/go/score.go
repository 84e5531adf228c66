package ember

/*
#include <ember.h>
*/
import "C"

import (
	"context"
	"unsafe"
)

// Score tells how likely a continuation is.
type Score struct {
	Tokens       []TokenScore // of the continuation
	Logprob      float64      // the sum of their log-probabilities
	PromptTokens int          // tokens before them
	ReusedTokens int          // of these, what the sequence held already
	Greedy       bool         // whether taking the likeliest token each time would have given the continuation
}

// TokenScore is what a token of a continuation scores.
type TokenScore struct {
	Token   Token
	Logprob float32 // natural logarithm of its probability given all tokens before it
	Rank    uint32  // how many tokens are likelier at its place
}

// Score tells how likely continuation is after prompt; both are tokenized as one text. Of the options WithSequence and
// WithParseSpecial count. The sequence keeps what it has in common with the prompt, so that scoring many continuations of
// one prompt runs the prompt once.
func (c *Context) Score(ctx context.Context, prompt, continuation string, options ...GenerateOption) (Score, error) {
	return c.score(ctx, len(continuation), options, func(p *C.ember_context, config *generateConfig, scores []TokenScore, needed *C.size_t, result *C.ember_score_result) error {
		var cerr *C.ember_error
		head, n := chars(prompt)
		tail, m := chars(continuation)
		return check(C.ember_score(p, head, n, tail, m, config.options, elements[C.ember_token_score](scores), C.size_t(len(scores)), needed, result, &cerr), &cerr)
	})
}

// ScoreTokens is Score for tokens, to which nothing is added.
func (c *Context) ScoreTokens(ctx context.Context, prompt, continuation []Token, options ...GenerateOption) (Score, error) {
	tokens := append(append([]Token(nil), prompt...), continuation...)
	return c.score(ctx, len(continuation), options, func(p *C.ember_context, config *generateConfig, scores []TokenScore, needed *C.size_t, result *C.ember_score_result) error {
		var cerr *C.ember_error
		return check(C.ember_score_tokens(p, elements[C.uint32_t](tokens), C.size_t(len(tokens)), C.size_t(len(prompt)), config.options,
			elements[C.ember_token_score](scores), C.size_t(len(scores)), needed, result, &cerr), &cerr)
	})
}

func (c *Context) score(ctx context.Context, n int, options []GenerateOption,
	call func(*C.ember_context, *generateConfig, []TokenScore, *C.size_t, *C.ember_score_result) error) (Score, error) {
	config, err := newGenerateConfig(options)
	if err != nil {
		return Score{}, err
	}
	defer config.free()
	result := C.ember_score_result{struct_size: C.sizeof_ember_score_result}
	var scores []TokenScore
	err = c.until(ctx, func(p *C.ember_context) (err error) {
		// A token is a byte at least, but for few that the tokenizer adds; a buffer that is too small costs a second call.
		scores, err = fill(n+8, func(buffer []TokenScore, needed *C.size_t) error { return call(p, config, buffer, needed, &result) })
		return err
	})
	if err != nil {
		return Score{}, err
	}
	return Score{
		Tokens:       scores,
		Logprob:      float64(result.logprob),
		PromptTokens: int(result.n_prompt),
		ReusedTokens: int(result.n_reused),
		Greedy:       result.is_greedy != 0,
	}, nil
}

// These structs have the layout of the library's.
var (
	_ [unsafe.Sizeof(TokenScore{})]byte   = [C.sizeof_ember_token_score]byte{}
	_ [unsafe.Sizeof(TokenLogprob{})]byte = [C.sizeof_ember_token_logprob]byte{}
)

package ember

/*
#include "callback.h"
*/
import "C"

import (
	"context"
	"iter"
	"strings"
	"time"
	"unsafe"
)

// EventKind is what an [Event] is.
type EventKind int32

const (
	EventEcho  EventKind = C.EMBER_EVENT_ECHO  // the prompt's text, if asked for; the first event
	EventToken EventKind = C.EMBER_EVENT_TOKEN // a token was generated
	EventEnd   EventKind = C.EMBER_EVENT_END   // the generation has ended; the last event
)

// FinishReason is why a generation ended.
type FinishReason int32

const (
	FinishNone        FinishReason = C.EMBER_FINISH_NONE         // it has not
	FinishMaxTokens   FinishReason = C.EMBER_FINISH_MAX_TOKENS   // as many tokens as asked for
	FinishEOG         FinishReason = C.EMBER_FINISH_EOG          // the model gave an end-of-generation token
	FinishContextFull FinishReason = C.EMBER_FINISH_CONTEXT_FULL // the context has no position for another token
	FinishStopString  FinishReason = C.EMBER_FINISH_STOP_STRING  // a stop text was generated
	FinishCancelled   FinishReason = C.EMBER_FINISH_CANCELLED    // the context.Context ended it
	FinishTimeLimit   FinishReason = C.EMBER_FINISH_TIME_LIMIT   // it took longer than WithTimeLimit says
	FinishFailed      FinishReason = C.EMBER_FINISH_FAILED       // an error ended the request of an engine
)

// String gives a short name, for example "max_tokens".
func (r FinishReason) String() string {
	switch r {
	case FinishNone:
		return "none"
	case FinishMaxTokens:
		return "max_tokens"
	case FinishEOG:
		return "eog"
	case FinishContextFull:
		return "context_full"
	case FinishStopString:
		return "stop_string"
	case FinishCancelled:
		return "cancelled"
	case FinishTimeLimit:
		return "time_limit"
	case FinishFailed:
		return "failed"
	}
	return "unknown"
}

// Event is what happens in a generation. It is a copy, valid for good.
type Event struct {
	Kind EventKind
	// Text is new text, of whole code points, perhaps none. Text that may begin a stop text comes with a later event, so it need not
	// be the token's. The texts of all events in a row are the whole text.
	Text    string
	Token   Token          // of EventToken, else NoToken
	Bytes   []byte         // what the token stands for, perhaps a part of a code point
	Logprob float32        // of the token, before the sampler's stages; NaN when not asked for
	Top     []TokenLogprob // the likeliest tokens at its place, if asked for
	Finish  FinishReason   // of EventEnd, else FinishNone
	Usage   *Usage         // of EventEnd, else nil
}

// TokenLogprob is a token and the natural logarithm of its probability.
type TokenLogprob struct {
	Token   Token
	Logprob float32
}

// Usage is what a generation did.
type Usage struct {
	PromptTokens    int           // of the prompt, BOS included
	ReusedTokens    int           // of these, what the sequence held already
	GeneratedTokens int           // generated, an end-of-generation token not counted
	DraftedTokens   int           // draft tokens that were run (WithLookup, WithDraft)
	AcceptedTokens  int           // of these, those that were accepted
	ShiftedTokens   int           // forgotten to go on (WithShift)
	ForcedTokens    int           // that a constraint left no choice for, and that were run together (WithConstraint)
	Prefill         time.Duration // spent on the prompt
	Decode          time.Duration // spent on the generated tokens, the caller's work between them not counted
	Finish          FinishReason
	Progress        Progress // how far the text is that follows a constraint
}

// Generator is a generation under way, of which [Generator.Next] gives the events. [Context.Generate] is the easier
// way; this one is for generations that take turns, on several sequences of a context.
type Generator struct{ running[*C.ember_generator] }

// NewGenerator prepares a generation that continues a sequence of the context by prompt. The first Next runs the prompt.
// An empty sequence begins with the special tokens the model asks for (BOS). Ending ctx ends the generation.
func (c *Context) NewGenerator(ctx context.Context, prompt string, options ...GenerateOption) (*Generator, error) {
	return c.newGenerator(ctx, options, func(p *C.ember_context, o *C.ember_generate_options, s *C.ember_sampler, out **C.ember_generator) error {
		var cerr *C.ember_error
		text, n := chars(prompt)
		return check(C.ember_generator_new(p, text, n, o, s, out, &cerr), &cerr)
	})
}

// NewGeneratorTokens is NewGenerator for a prompt of tokens, to which nothing is added.
func (c *Context) NewGeneratorTokens(ctx context.Context, prompt []Token, options ...GenerateOption) (*Generator, error) {
	return c.newGenerator(ctx, options, func(p *C.ember_context, o *C.ember_generate_options, s *C.ember_sampler, out **C.ember_generator) error {
		var cerr *C.ember_error
		return check(C.ember_generator_new_tokens(p, elements[C.uint32_t](prompt), C.size_t(len(prompt)), o, s, out, &cerr), &cerr)
	})
}

func (c *Context) newGenerator(ctx context.Context, options []GenerateOption,
	call func(*C.ember_context, *C.ember_generate_options, *C.ember_sampler, **C.ember_generator) error) (*Generator, error) {
	g := &Generator{}
	if err := g.begin(c, ctx, options, call, func(p *C.ember_generator) { C.ember_generator_free(p) }); err != nil {
		return nil, err
	}
	g.step = func(p *C.ember_generator) C.ember_status { return C.ember_go_next(p, &g.event, &g.raised, &g.cerr) }
	g.running.usage = usageOf
	keep(g, &g.running)
	return g, nil
}

// Next gives the next event, the first time by running the prompt. Each call runs the token of the event before, so take
// events until EventEnd if the sequence shall hold all of them; after EventEnd it comes again and again. When ctx has ended,
// the EventEnd comes with an error that is [ErrCancelled] and the cause of ctx; so it is with the error of a [StageFunc]. Other errors leave the sequence as it was.
func (g *Generator) Next() (Event, error) {
	_, event, err := g.next()
	return event, err
}

// lendTo has nobody else use a context that makes draft tokens for a generator of another one, until done is called. It may be nil,
// and the library refuses a context as its own draft.
func (c *Context) lendTo(other *Context) (done func(), err error) {
	if c == nil || c.h == other.h {
		return func() {}, nil
	}
	return c.h.done, c.h.lend()
}

// eventOf copies an event of the library's.
func eventOf(from *C.ember_event) Event {
	event := Event{
		Kind:    EventKind(from.kind),
		Text:    string(unsafe.Slice((*byte)(unsafe.Pointer(from.text)), int(from.text_len))),
		Token:   Token(from.token),
		Logprob: float32(from.logprob),
		Finish:  FinishReason(from.finish_reason),
	}
	if n := int(from.n_bytes); n > 0 {
		event.Bytes = append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(from.bytes)), n)...)
	}
	if n := int(from.n_tops); n > 0 {
		event.Top = append([]TokenLogprob(nil), unsafe.Slice((*TokenLogprob)(unsafe.Pointer(from.tops)), n)...)
	}
	return event
}

// Usage tells what the generation did so far.
func (g *Generator) Usage() (Usage, error) {
	p, err := g.h.useAlone()
	if err != nil {
		return Usage{Finish: FinishNone}, err
	}
	defer g.h.done()
	return usageOf(p)
}

func usageOf(p *C.ember_generator) (Usage, error) {
	return usage(func(out *C.ember_generate_result, err **C.ember_error) C.ember_status {
		return C.ember_generator_usage(p, out, err)
	})
}

func usage(call func(*C.ember_generate_result, **C.ember_error) C.ember_status) (Usage, error) {
	var cerr *C.ember_error
	result := C.ember_generate_result{struct_size: C.sizeof_ember_generate_result}
	err := check(call(&result, &cerr), &cerr)
	return Usage{
		PromptTokens:    int(result.n_prompt),
		ReusedTokens:    int(result.n_reused),
		GeneratedTokens: int(result.n_generated),
		DraftedTokens:   int(result.n_drafted),
		AcceptedTokens:  int(result.n_accepted),
		ShiftedTokens:   int(result.n_shifted),
		Prefill:         time.Duration(result.prefill_ns),
		Decode:          time.Duration(result.decode_ns),
		Finish:          FinishReason(result.finish_reason),
		ForcedTokens:    int(result.n_forced),
		Progress:        Progress(result.progress),
	}, err
}

// Close frees the generator. The context's sequence keeps all generated tokens but that of the last event, which the next event
// would have run. After an [EventEnd] it has all of them, unless that was [FinishCancelled].
func (g *Generator) Close() error {
	g.close()
	return nil
}

// Generate continues a sequence of the context by prompt and then by generated tokens, and yields every event as it comes.
// Nothing is run before the first; each range over the result is a generation of its own.
//
//	for event, err := range c.Generate(ctx, "Once upon a time") {
//
// The last pair is an [EventEnd], or an error. When ctx has ended, it is both: an EventEnd and an error that is
// [ErrCancelled] and the cause of ctx. Between two events the context is not in use. Leaving the loop early ends the
// generation, and the sequence lacks the last token that was seen.
func (c *Context) Generate(ctx context.Context, prompt string, options ...GenerateOption) iter.Seq2[Event, error] {
	return events(func() (*Generator, error) { return c.NewGenerator(ctx, prompt, options...) })
}

// GenerateTokens is Generate for a prompt of tokens, to which nothing is added.
func (c *Context) GenerateTokens(ctx context.Context, prompt []Token, options ...GenerateOption) iter.Seq2[Event, error] {
	return events(func() (*Generator, error) { return c.NewGeneratorTokens(ctx, prompt, options...) })
}

// eventSource is what gives events until the last one.
type eventSource interface {
	Next() (Event, error)
	Close() error
}

// events gives those of what start makes, and closes it.
func events[S eventSource](start func() (S, error)) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s, err := start()
		if err != nil {
			yield(Event{Token: NoToken, Finish: FinishNone}, err)
			return
		}
		defer s.Close()
		for {
			event, err := s.Next()
			if !yield(event, err) || err != nil || event.Kind == EventEnd {
				return
			}
		}
	}
}

// Completion is a whole generation.
type Completion struct {
	Text   string  // the texts of all events
	Tokens []Token // the tokens generated
	Usage  Usage
}

// Complete runs a generation to its end. With an error it gives what there was until then.
func (c *Context) Complete(ctx context.Context, prompt string, options ...GenerateOption) (Completion, error) {
	return complete(c.Generate(ctx, prompt, options...))
}

// complete joins events.
func complete(events iter.Seq2[Event, error]) (Completion, error) {
	completion := Completion{Usage: Usage{Finish: FinishNone}}
	var text strings.Builder
	var last error
	for event, err := range events {
		text.WriteString(event.Text)
		if event.Token != NoToken {
			completion.Tokens = append(completion.Tokens, event.Token)
		}
		if event.Usage != nil {
			completion.Usage = *event.Usage
		}
		last = err
	}
	completion.Text = text.String()
	return completion, last
}

package ember

/*
#include <ember.h>
*/
import "C"

import (
	"context"
	"fmt"
	"unsafe"
)

// Context holds token sequences being processed over a model: KV cache, scratch memory, threads. One goroutine at a time;
// another one gets [ErrBusy].
type Context struct {
	h     *handle[*C.ember_context]
	token *cancelToken // of the context's own calls; generations have theirs
	info  ContextInfo
	model ModelInfo
}

// ContextInfo holds the options in force in a context.
type ContextInfo struct {
	Size      int // positions per sequence
	Sequences int // sequences, numbered from 0
	Batch     int // rows run through the model at a time
	Threads   int // threads, the caller's included
	PageLen   int // tokens of a page of the KV cache; a sequence takes whole pages
	Pages     int // pages of the KV cache, see Context.FreePages
	Backend   Backend
}

// KVType is what keys and values in the KV cache are rounded to.
type KVType int32

const (
	KVF16 KVType = C.EMBER_KV_F16  // binary16
	KVF32 KVType = C.EMBER_KV_F32  // twice the memory, no rounding
	KVQ8  KVType = C.EMBER_KV_Q8_0 // bytes with scales, a little more than half the memory
	KVI16 KVType = C.EMBER_KV_I16  // integers with a unit for each vector: faster on amd64
	// KVAuto is the default: KVI16 on amd64 where the model's heads allow it, else KVF16. States can only be loaded where keys and
	// values are of the same types.
	KVAuto KVType = C.EMBER_KV_AUTO
)

// Backend is an implementation of the mathematics.
type Backend int32

const (
	BackendAuto   Backend = C.EMBER_BACKEND_AUTO   // the fastest there is
	BackendScalar Backend = C.EMBER_BACKEND_SCALAR // the plain reference, on the calling thread
)

// ContextOption is an option of [Model.NewContext].
type ContextOption struct {
	apply func(*C.ember_context_options) error
}

// numbered is an option whose value is an integer.
func numbered(name string, value int, set func(*C.ember_context_options, C.uint32_t, **C.ember_error) C.ember_status) ContextOption {
	return ContextOption{func(o *C.ember_context_options) error {
		n, err := number(name, value)
		if err != nil {
			return err
		}
		var cerr *C.ember_error
		return check(set(o, n, &cerr), &cerr)
	}}
}

// WithSize sets the positions per sequence; 0, the default: what the model was trained on, but no more than 4096.
func WithSize(n int) ContextOption {
	return numbered("the size", n, func(o *C.ember_context_options, n C.uint32_t, err **C.ember_error) C.ember_status {
		return C.ember_context_options_set_n_ctx(o, n, err)
	})
}

// WithSequences sets the number of sequences, 1 to 4096; by default 1.
func WithSequences(n int) ContextOption {
	return numbered("the number of sequences", n, func(o *C.ember_context_options, n C.uint32_t, err **C.ember_error) C.ember_status {
		return C.ember_context_options_set_n_seq(o, n, err)
	})
}

// WithBatch sets the rows run through the model at a time; 0, the default: 256, or the whole text for an encoder.
func WithBatch(n int) ContextOption {
	return numbered("the batch", n, func(o *C.ember_context_options, n C.uint32_t, err **C.ember_error) C.ember_status {
		return C.ember_context_options_set_n_batch(o, n, err)
	})
}

// WithThreads sets the number of threads, the calling one included; 0, the default: one for each core that the process
// may use.
func WithThreads(n int) ContextOption {
	return numbered("the number of threads", n, func(o *C.ember_context_options, n C.uint32_t, err **C.ember_error) C.ember_status {
		return C.ember_context_options_set_n_threads(o, n, err)
	})
}

// WithWorkerCPUs binds the threads that the context makes to these CPUs; by default the system chooses.
func WithWorkerCPUs(cpus ...uint32) ContextOption {
	return ContextOption{func(o *C.ember_context_options) error {
		var cerr *C.ember_error
		return check(C.ember_context_options_set_worker_cpus(o, elements[C.uint32_t](cpus), C.size_t(len(cpus)), &cerr), &cerr)
	}}
}

// WithKeyType is [WithKVType] for keys alone.
func WithKeyType(kv KVType) ContextOption {
	return ContextOption{func(o *C.ember_context_options) error {
		var cerr *C.ember_error
		return check(C.ember_context_options_set_k_type(o, C.int32_t(kv), &cerr), &cerr)
	}}
}

// WithValueType is [WithKVType] for values alone.
func WithValueType(kv KVType) ContextOption {
	return ContextOption{func(o *C.ember_context_options) error {
		var cerr *C.ember_error
		return check(C.ember_context_options_set_v_type(o, C.int32_t(kv), &cerr), &cerr)
	}}
}

// WithKVType says what keys and values in the KV cache are rounded to; by default [KVAuto].
func WithKVType(kv KVType) ContextOption {
	return ContextOption{func(o *C.ember_context_options) error {
		var cerr *C.ember_error
		return check(C.ember_context_options_set_kv_type(o, C.int32_t(kv), &cerr), &cerr)
	}}
}

// WithBackend sets the implementation; by default [BackendAuto].
func WithBackend(backend Backend) ContextOption {
	return ContextOption{func(o *C.ember_context_options) error {
		var cerr *C.ember_error
		return check(C.ember_context_options_set_backend(o, C.int32_t(backend), &cerr), &cerr)
	}}
}

// WithKVLimit sets the most bytes of the KV cache, whose pages all sequences share. When no page is left, what would need one
// gives [ErrContextFull] and leaves every sequence as it was; rewind one, then. 0, the default: as many as all sequences need at
// full length.
func WithKVLimit(bytes uint64) ContextOption {
	return ContextOption{func(o *C.ember_context_options) error {
		var cerr *C.ember_error
		return check(C.ember_context_options_set_kv_limit(o, C.uint64_t(bytes), &cerr), &cerr)
	}}
}

// WithKeepPrefixes says whether whole pages of the KV cache are kept when no sequence has them any more, until the pages are
// needed. Texts that begin alike are then not computed again. [Context.Reuse] finds them, and so does a generation with
// [WithReusePrefix]. By default false.
func WithKeepPrefixes(keep bool) ContextOption {
	return ContextOption{func(o *C.ember_context_options) error {
		var cerr *C.ember_error
		return check(C.ember_context_options_set_keep_prefixes(o, C.bool(keep), &cerr), &cerr)
	}}
}

// WithSnapshots says how many snapshots of recurrent states a context can hold, in models with recurrent layers (LFM2). A
// sequence that is shortened goes on from the nearest one, and what lies between is run once more. 0, the default: 8 for each
// sequence, but no more than 64.
func WithSnapshots(n int) ContextOption {
	return numbered("the number of snapshots", n, func(o *C.ember_context_options, n C.uint32_t, err **C.ember_error) C.ember_status {
		return C.ember_context_options_set_n_snapshots(o, n, err)
	})
}

// WithSnapshotDistance says how many tokens lie between two snapshots within a prompt; 0, the default: 256.
func WithSnapshotDistance(n int) ContextOption {
	return numbered("the distance of snapshots", n, func(o *C.ember_context_options, n C.uint32_t, err **C.ember_error) C.ember_status {
		return C.ember_context_options_set_snapshot_distance(o, n, err)
	})
}

// WithKeepAllPositions says whether sequences keep all their positions in layers with a window. By default
// they give back what no token to come sees, and cannot be cut ([Context.Rewind], [Context.CopySequence]) where it would be
// seen again.
func WithKeepAllPositions(keep bool) ContextOption {
	return ContextOption{func(o *C.ember_context_options) error {
		var cerr *C.ember_error
		return check(C.ember_context_options_set_keep_all_positions(o, C.bool(keep), &cerr), &cerr)
	}}
}

// WithContextMemoryLimit sets the most bytes that the large buffers of the context may have. What [WithMemoryLimit] sets counts
// as well. 0, the default: no limit of its own.
func WithContextMemoryLimit(bytes uint64) ContextOption {
	return ContextOption{func(o *C.ember_context_options) error {
		var cerr *C.ember_error
		return check(C.ember_context_options_set_memory_limit(o, C.uint64_t(bytes), &cerr), &cerr)
	}}
}

// newContextOptions gives the library's options, to be freed.
func newContextOptions(options []ContextOption) (*C.ember_context_options, error) {
	var cerr *C.ember_error
	var o *C.ember_context_options
	if err := check(C.ember_context_options_new(&o, &cerr), &cerr); err != nil {
		return nil, err
	}
	for _, option := range options {
		if err := applied(option.apply, o); err != nil {
			C.ember_context_options_free(o)
			return nil, err
		}
	}
	return o, nil
}

// NewContext makes a context over the model.
func (m *Model) NewContext(options ...ContextOption) (*Context, error) {
	model, err := m.h.use()
	if err != nil {
		return nil, err
	}
	defer m.h.done()
	o, err := newContextOptions(options)
	if err != nil {
		return nil, err
	}
	defer C.ember_context_options_free(o)
	var cerr *C.ember_error
	var p *C.ember_context
	if err := check(C.ember_context_new(model, o, &p, &cerr), &cerr); err != nil {
		return nil, err
	}
	c := &Context{h: newHandle(p, func(p *C.ember_context) { C.ember_context_free(p) }), model: m.info}
	own(c, c.h)
	if err := c.prepare(p); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// prepare gives a new context its cancel token and takes over what never changes.
func (c *Context) prepare(p *C.ember_context) (err error) {
	if c.token, err = newCancelToken(); err != nil {
		return err
	}
	own(c, c.token)
	var cerr *C.ember_error
	if err := check(C.ember_context_set_cancel_token(p, c.token.pointer, &cerr), &cerr); err != nil {
		return err
	}
	info, err := contextInfo(p)
	c.info = toContextInfo(&info)
	return err
}

func toContextInfo(info *C.ember_context_info) ContextInfo {
	return ContextInfo{
		Size:      int(info.n_ctx),
		Sequences: int(info.n_seq),
		Batch:     int(info.n_batch),
		Threads:   int(info.n_threads),
		PageLen:   int(info.page_len),
		Pages:     int(info.n_pages),
		Backend:   Backend(info.backend),
	}
}

func contextInfo(p *C.ember_context) (C.ember_context_info, error) {
	var cerr *C.ember_error
	info := C.ember_context_info{struct_size: C.sizeof_ember_context_info}
	err := check(C.ember_context_info_get(p, &info, &cerr), &cerr)
	return info, err
}

// Close frees the context, once a call that is under way has ended.
func (c *Context) Close() error {
	c.h.close()
	c.token.close()
	return nil
}

// Info tells the options in force, also after Close.
func (c *Context) Info() ContextInfo { return c.info }

// with runs a call that has the context for itself.
func (c *Context) with(call func(*C.ember_context) error) error {
	p, err := c.h.useAlone()
	if err != nil {
		return err
	}
	defer c.h.done()
	return call(p)
}

// until is with for a call that ctx may end.
func (c *Context) until(ctx context.Context, call func(*C.ember_context) error) error {
	return c.with(func(p *C.ember_context) error {
		return cancellable(ctx, c.token, func() error { return call(p) })
	})
}

// Decode runs tokens through the model after sequence 0; the last one gives logits. On an error the sequence is as before.
func (c *Context) Decode(ctx context.Context, tokens []Token) error {
	return c.DecodeBatch(ctx, Batch{Tokens: tokens})
}

// Batch is what [Context.DecodeBatch] runs. Every slice has an element for each token, or is nil.
type Batch struct {
	Tokens     []Token  // what to run
	Positions  []uint32 // where each goes, to be checked; nil: not checked
	Sequences  []uint32 // the sequence of each; nil: all in sequence 0
	WantLogits []bool   // which give logits; nil: the last one
}

// DecodeBatch runs tokens of several sequences through the model. On an error all sequences are as before.
func (c *Context) DecodeBatch(ctx context.Context, b Batch) error {
	n := len(b.Tokens)
	for name, length := range map[string]int{"Positions": len(b.Positions), "Sequences": len(b.Sequences), "WantLogits": len(b.WantLogits)} {
		if length != 0 && length != n {
			return invalid(fmt.Sprintf("%s has %d elements, Tokens %d", name, length, n))
		}
	}
	return c.until(ctx, func(p *C.ember_context) error {
		var cerr *C.ember_error
		return check(C.ember_context_decode(p, elements[C.uint32_t](b.Tokens), elements[C.uint32_t](b.Positions),
			elements[C.uint32_t](b.Sequences), elements[C.uint8_t](b.WantLogits), C.size_t(n), &cerr), &cerr)
	})
}

// ViewLogits calls f with the logits of token index of the last decode, without a copy: they are the library's memory, for
// reading, and valid until f returns. Meanwhile the context is in use. Tokens that asked for none give [ErrNotFound].
func (c *Context) ViewLogits(index int, f func(logits []float32) error) error {
	if index < 0 {
		return &Error{Status: ErrNotFound, Message: fmt.Sprintf("there is no token %d", index)}
	}
	return c.with(func(p *C.ember_context) error {
		var cerr *C.ember_error
		var first *C.float
		if err := check(C.ember_context_logits(p, C.size_t(index), &first, &cerr), &cerr); err != nil {
			return err
		}
		return f(unsafe.Slice((*float32)(unsafe.Pointer(first)), c.model.VocabSize))
	})
}

// Logits copies the logits of token index of the last decode.
func (c *Context) Logits(index int) ([]float32, error) { return c.AppendLogits(nil, index) }

// AppendLogits appends the logits of token index of the last decode to dst, so that a buffer can be used again.
func (c *Context) AppendLogits(dst []float32, index int) ([]float32, error) {
	err := c.ViewLogits(index, func(logits []float32) error {
		dst = append(dst, logits...)
		return nil
	})
	return dst, err
}

// NPast tells the number of tokens in a sequence, which is the position of its next one.
func (c *Context) NPast(sequence int) (int, error) {
	var past C.uint32_t
	s, err := number("the sequence", sequence)
	if err != nil {
		return 0, err
	}
	err = c.with(func(p *C.ember_context) error {
		var cerr *C.ember_error
		return check(C.ember_context_n_past(p, s, &past, &cerr), &cerr)
	})
	return int(past), err
}

// Tokens gives a copy of the tokens of a sequence, in order: those that decoding, generating and loading a state brought there,
// after a shift those that are left.
func (c *Context) Tokens(sequence int) ([]Token, error) {
	s, err := number("the sequence", sequence)
	if err != nil {
		return nil, err
	}
	var tokens []Token
	err = c.with(func(p *C.ember_context) (err error) {
		var cerr *C.ember_error
		var n C.uint32_t
		if err := check(C.ember_context_n_past(p, s, &n, &cerr), &cerr); err != nil {
			return err
		}
		tokens, err = fill(int(n), func(tokens []Token, needed *C.size_t) error {
			var cerr *C.ember_error
			return check(C.ember_context_tokens(p, s, elements[C.uint32_t](tokens), C.size_t(len(tokens)),
				needed, &cerr), &cerr)
		})
		return err
	})
	return tokens, err
}

// Rewind forgets the tokens of a sequence from position past on; 0 empties it. The logits of the last decode are gone.
func (c *Context) Rewind(sequence, past int) error {
	s, err := number("the sequence", sequence)
	if err != nil {
		return err
	}
	n, err := number("the position", past)
	if err != nil {
		return err
	}
	return c.with(func(p *C.ember_context) error {
		var cerr *C.ember_error
		return check(C.ember_context_rewind(p, s, n, &cerr), &cerr)
	})
}

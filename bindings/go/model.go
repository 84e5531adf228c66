package ember

/*
#include <ember.h>
*/
import "C"

import (
	"context"
)

// Model is a loaded model: immutable, for any number of goroutines at once.
type Model struct {
	h    *handle[*C.ember_model]
	info ModelInfo
	isa  string
}

// ModelInfo holds the dimensions of a model.
type ModelInfo struct {
	Params       uint64  // number of weights
	FileSize     uint64  // bytes of the model's files
	VocabSize    int     // logits per position; tokens are below it
	TrainContext int     // positions the model was trained on
	EmbeddingLen int     // width of the residual stream, and length of embeddings
	Layers       int     // layers
	Heads        int     // query heads
	KVHeads      int     // key/value heads
	HeadLen      int     // length of a head's vector
	FeedForward  int     // width of the feed-forward block
	BOS          Token   // beginning of a sequence, or NoToken
	EOS          Token   // end of a sequence, or NoToken
	HasTokenizer bool    // whether the file has a tokenizer
	AddBOS       bool    // whether a sequence begins with BOS
	Causal       bool    // true: gives logits; false: an encoder, which gives embeddings only
	Pooling      Pooling // how embeddings are pooled, as the file says; PoolingAuto when it says nothing
}

// Pack says which matrices are packed when a model is loaded.
type Pack int32

const (
	PackAuto   Pack = C.EMBER_PACK_AUTO   // those that this machine multiplies faster packed
	PackNever  Pack = C.EMBER_PACK_NEVER  // none: quick to load, shared between processes, slower to run
	PackAlways Pack = C.EMBER_PACK_ALWAYS // all that can be packed
)

// LoadOption is an option of [Load].
type LoadOption struct {
	apply func(*C.ember_model_options) error
}

// WithMmap says whether the files are mapped, as by default, or read into memory. A mapped file must not be changed or
// shortened while the model lives: the operating system would end the process.
func WithMmap(mmap bool) LoadOption {
	return LoadOption{func(o *C.ember_model_options) error {
		var cerr *C.ember_error
		return check(C.ember_model_options_set_use_mmap(o, C.bool(mmap), &cerr), &cerr)
	}}
}

// WithISA lowers the instruction-set level, for example to "scalar" or "avx2". [BuildInfo] names those of the machine.
func WithISA(isa string) LoadOption {
	return LoadOption{func(o *C.ember_model_options) error {
		var cerr *C.ember_error
		name, n := chars(isa)
		return check(C.ember_model_options_set_isa(o, name, n, &cerr), &cerr)
	}}
}

// WithPack says which matrices are packed; by default [PackAuto].
func WithPack(pack Pack) LoadOption {
	return LoadOption{func(o *C.ember_model_options) error {
		var cerr *C.ember_error
		return check(C.ember_model_options_set_pack(o, C.int32_t(pack), &cerr), &cerr)
	}}
}

// Load loads a GGUF file (one of several brings the others) or a Hugging Face folder. Ending ctx ends the loading.
func Load(ctx context.Context, path string, options ...LoadOption) (*Model, error) {
	var cerr *C.ember_error
	var o *C.ember_model_options
	if err := check(C.ember_model_options_new(&o, &cerr), &cerr); err != nil {
		return nil, err
	}
	defer C.ember_model_options_free(o)
	token, err := newCancelToken()
	if err != nil {
		return nil, err
	}
	defer token.close()
	if err := check(C.ember_model_options_set_cancel_token(o, token.pointer, &cerr), &cerr); err != nil {
		return nil, err
	}
	for _, option := range options {
		if err := option.apply(o); err != nil {
			return nil, err
		}
	}
	var model *C.ember_model
	err = cancellable(ctx, token, func() error {
		name, n := chars(path)
		return check(C.ember_model_load(name, n, o, &model, &cerr), &cerr)
	})
	return newModel(model, err)
}

// LoadBytes loads a GGUF file that lies in memory. The library keeps a copy of data.
func LoadBytes(data []byte) (*Model, error) {
	var cerr *C.ember_error
	var model *C.ember_model
	err := check(C.ember_model_load_buffer(elements[C.uint8_t](data), C.size_t(len(data)), nil, &model, &cerr), &cerr)
	return newModel(model, err)
}

func newModel(p *C.ember_model, err error) (*Model, error) {
	if p == nil {
		return nil, err
	}
	m := &Model{h: newHandle(p, func(p *C.ember_model) { C.ember_model_release(p) })}
	own(m, m.h)
	if err == nil {
		err = m.read(p)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// read takes what never changes over from the library.
func (m *Model) read(p *C.ember_model) error {
	var cerr *C.ember_error
	info := C.ember_model_info{struct_size: C.sizeof_ember_model_info}
	if err := check(C.ember_model_info_get(p, &info, &cerr), &cerr); err != nil {
		return err
	}
	m.isa = C.GoString(C.ember_model_isa(p))
	m.info = ModelInfo{
		Params:       uint64(info.n_params),
		FileSize:     uint64(info.file_size),
		VocabSize:    int(info.n_vocab),
		TrainContext: int(info.n_ctx_train),
		EmbeddingLen: int(info.n_embd),
		Layers:       int(info.n_layer),
		Heads:        int(info.n_head),
		KVHeads:      int(info.n_head_kv),
		HeadLen:      int(info.head_dim),
		FeedForward:  int(info.n_ff),
		BOS:          Token(info.bos_token),
		EOS:          Token(info.eos_token),
		HasTokenizer: info.has_tokenizer != 0,
		AddBOS:       info.add_bos != 0,
		Causal:       info.causal != 0,
		Pooling:      Pooling(info.pooling),
	}
	return nil
}

// Close gives the model back. Contexts over it go on working and keep it in memory until they are closed too.
func (m *Model) Close() error {
	m.h.close()
	return nil
}

// Info tells the model's dimensions, also after Close.
func (m *Model) Info() ModelInfo { return m.info }

// ISA names the instruction-set level that the model computes with, for example "avx512", also after Close.
func (m *Model) ISA() string { return m.isa }

// TextFlags say how text and tokens become each other; zero is plain text.
type TextFlags uint

const (
	// AddSpecial adds the BOS and EOS tokens that the model's texts begin and end with.
	AddSpecial TextFlags = 1 << iota
	// ParseSpecial takes the text of control tokens ("<|im_start|>") for these tokens. Not for text that users type.
	ParseSpecial
	// RenderSpecial writes control tokens as their text instead of leaving them out.
	RenderSpecial
)

// Tokenize gives the tokens of a text; AddSpecial and ParseSpecial count.
func (m *Model) Tokenize(text string, flags TextFlags) ([]Token, error) {
	return m.tokenize(len(text), func(p *C.ember_model, tokens []Token, needed *C.size_t) error {
		var cerr *C.ember_error
		start, n := chars(text)
		return check(C.ember_model_tokenize(p, start, n, flags&AddSpecial != 0, flags&ParseSpecial != 0,
			elements[C.uint32_t](tokens), C.size_t(len(tokens)), needed, &cerr), &cerr)
	})
}

// TokenizeBytes is Tokenize for bytes that need not be UTF-8.
func (m *Model) TokenizeBytes(text []byte, flags TextFlags) ([]Token, error) {
	return m.tokenize(len(text), func(p *C.ember_model, tokens []Token, needed *C.size_t) error {
		var cerr *C.ember_error
		return check(C.ember_model_tokenize_bytes(p, elements[C.uint8_t](text), C.size_t(len(text)),
			flags&AddSpecial != 0, flags&ParseSpecial != 0,
			elements[C.uint32_t](tokens), C.size_t(len(tokens)), needed, &cerr), &cerr)
	})
}

func (m *Model) tokenize(n int, call func(*C.ember_model, []Token, *C.size_t) error) ([]Token, error) {
	p, err := m.h.use()
	if err != nil {
		return nil, err
	}
	defer m.h.done()
	return fill(n/3+8, func(tokens []Token, needed *C.size_t) error { return call(p, tokens, needed) })
}

// Detokenize gives the bytes of tokens, joined; RenderSpecial counts. They need not be UTF-8 when the tokens begin or
// end inside a code point.
func (m *Model) Detokenize(tokens []Token, flags TextFlags) ([]byte, error) {
	p, err := m.h.use()
	if err != nil {
		return nil, err
	}
	defer m.h.done()
	return fill(8*len(tokens), func(buffer []byte, needed *C.size_t) error {
		var cerr *C.ember_error
		return check(C.ember_model_detokenize(p, elements[C.uint32_t](tokens), C.size_t(len(tokens)),
			flags&RenderSpecial != 0, elements[C.uint8_t](buffer), C.size_t(len(buffer)), needed, &cerr), &cerr)
	})
}

// TokenBytes gives the exact bytes of one token.
func (m *Model) TokenBytes(token Token) ([]byte, error) {
	p, err := m.h.use()
	if err != nil {
		return nil, err
	}
	defer m.h.done()
	return fill(32, func(buffer []byte, needed *C.size_t) error {
		var cerr *C.ember_error
		return check(C.ember_model_token_bytes(p, C.uint32_t(token), elements[C.uint8_t](buffer),
			C.size_t(len(buffer)), needed, &cerr), &cerr)
	})
}

// IsEOG tells whether a token ends a generation (end of sequence, of turn, of message).
func (m *Model) IsEOG(token Token) (bool, error) {
	p, err := m.h.use()
	if err != nil {
		return false, err
	}
	defer m.h.done()
	var cerr *C.ember_error
	var eog C.bool
	err = check(C.ember_model_token_is_eog(p, C.uint32_t(token), &eog, &cerr), &cerr)
	return bool(eog), err
}

// MetaKeys lists the metadata keys of the model's file, in its order.
func (m *Model) MetaKeys() ([]string, error) {
	p, err := m.h.use()
	if err != nil {
		return nil, err
	}
	defer m.h.done()
	var cerr *C.ember_error
	var count C.size_t
	if err := check(C.ember_model_meta_count(p, &count, &cerr), &cerr); err != nil {
		return nil, err
	}
	keys := make([]string, 0, int(count))
	for i := range count {
		key, err := fill(64, func(buffer []byte, needed *C.size_t) error {
			return check(C.ember_model_meta_key(p, i, elements[C.uint8_t](buffer), C.size_t(len(buffer)), needed, &cerr), &cerr)
		})
		if err != nil {
			return nil, err
		}
		keys = append(keys, string(key))
	}
	return keys, nil
}

// The numbers of types in GGUF files.
const (
	ggufFloat32 = 6
	ggufBool    = 7
	ggufString  = 8
	ggufUint64  = 10
	ggufFloat64 = 12
)

// Meta gives a metadata value of the model's file: a string, bool, float64, int64, or uint64 (of type uint64 in the file
// only). A key that is not there is [ErrNotFound]; an array, which the library keeps to itself, [ErrInvalidArgument].
func (m *Model) Meta(key string) (any, error) {
	p, err := m.h.use()
	if err != nil {
		return nil, err
	}
	defer m.h.done()
	var cerr *C.ember_error
	var kind C.uint32_t
	name, n := chars(key)
	if err := check(C.ember_model_meta_type(p, name, n, &kind, &cerr), &cerr); err != nil {
		return nil, err
	}
	switch kind {
	case ggufString:
		text, err := fill(128, func(buffer []byte, needed *C.size_t) error {
			return check(C.ember_model_meta_string(p, name, n, elements[C.uint8_t](buffer), C.size_t(len(buffer)), needed, &cerr), &cerr)
		})
		return value(string(text), err)
	case ggufBool:
		var out C.bool
		err := check(C.ember_model_meta_bool(p, name, n, &out, &cerr), &cerr)
		return value(bool(out), err)
	case ggufFloat32, ggufFloat64:
		var out C.double
		err := check(C.ember_model_meta_f64(p, name, n, &out, &cerr), &cerr)
		return value(float64(out), err)
	case ggufUint64:
		var out C.uint64_t
		err := check(C.ember_model_meta_u64(p, name, n, &out, &cerr), &cerr)
		return value(uint64(out), err)
	default:
		var out C.int64_t
		err := check(C.ember_model_meta_i64(p, name, n, &out, &cerr), &cerr)
		return value(int64(out), err)
	}
}

func value[T any](v T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

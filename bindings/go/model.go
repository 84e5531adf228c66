package ember

/*
#include <ember.h>
*/
import "C"

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
	EmbeddingLen int     // width of the residual stream
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
	Experts      int     // experts of a layer, 0 where there are none
	ExpertsUsed  int     // experts of a token
	EOT          Token   // end of a turn, or NoToken
	Unknown      Token   // for what no other token stands for, or NoToken
	Padding      Token   // padding, or NoToken
	ChatTemplate bool    // whether the file has a chat template
	VectorLen    int     // numbers of a text's vector: EmbeddingLen, but in models with dense modules after the pooling
	Prompts      int     // prompts for texts to be embedded, by their names ([WithPromptName])
}

// Pack says which matrices are packed when a model is loaded.
type Pack int32

const (
	PackAuto   Pack = C.EMBER_PACK_AUTO   // those that this machine multiplies faster packed
	PackNever  Pack = C.EMBER_PACK_NEVER  // none: quick to load, shared between processes, slower to run
	PackAlways Pack = C.EMBER_PACK_ALWAYS // all that can be packed
)

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
		Experts:      int(info.n_expert),
		ExpertsUsed:  int(info.n_expert_used),
		EOT:          Token(info.eot_token),
		Unknown:      Token(info.unk_token),
		Padding:      Token(info.pad_token),
		ChatTemplate: info.has_chat_template != 0,
		VectorLen:    int(info.n_embd_out),
		Prompts:      int(info.n_prompts),
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
	return m.flag(func(p *C.ember_model, out *C.bool, cerr **C.ember_error) C.ember_status {
		return C.ember_model_token_is_eog(p, C.uint32_t(token), out, cerr)
	})
}

// IsControl tells whether a token is a control token, such as BOS or the marks of a chat's turns, which stands for no text.
func (m *Model) IsControl(token Token) (bool, error) {
	return m.flag(func(p *C.ember_model, out *C.bool, cerr **C.ember_error) C.ember_status {
		return C.ember_model_token_is_control(p, C.uint32_t(token), out, cerr)
	})
}

func (m *Model) flag(call func(*C.ember_model, *C.bool, **C.ember_error) C.ember_status) (bool, error) {
	p, err := m.h.use()
	if err != nil {
		return false, err
	}
	defer m.h.done()
	var cerr *C.ember_error
	var out C.bool
	err = check(call(p, &out, &cerr), &cerr)
	return bool(out), err
}

package ember

/*
#include <ember.h>
*/
import "C"

// Tokenizer makes tokens of texts: a model's, or one that was loaded alone. It does not change: any number of goroutines may use it.
type Tokenizer struct {
	h    *handle[*C.ember_tokenizer]
	info TokenizerInfo
}

// TokenizerInfo is what a tokenizer knows of its tokens; NoToken stands for one that there is not.
type TokenizerInfo struct {
	VocabSize     int   // tokens are below it
	BOS           Token // beginning of a sequence
	EOS           Token // end of a sequence
	EOT           Token // end of a turn
	Unknown       Token // for what no other token stands for
	Padding       Token // padding
	AddBOS        bool  // whether AddSpecial puts a token before a text
	AddEOS        bool  // and after it
	ChatTemplate  bool  // whether there is a chat template
	FIMPrefix     Token // fill-in-the-middle: before the text in front of a gap
	FIMSuffix     Token // before the text after it
	FIMMiddle     Token // before what fills it
	FIMRepository Token // before the name of a repository
	FIMFile       Token // before the name of a file
}

// LoadTokenizer loads a tokenizer without a model: from a GGUF file, of which no tensor is looked at, from a tokenizer.json, or from the
// folder of one.
func LoadTokenizer(path string) (*Tokenizer, error) {
	var cerr *C.ember_error
	var p *C.ember_tokenizer
	name, n := chars(path)
	err := check(C.ember_tokenizer_load(name, n, &p, &cerr), &cerr)
	t, err := newTokenizer(p, err)
	return t, withStat(err, path)
}

// LoadTokenizerBytes is LoadTokenizer for a GGUF file or a tokenizer.json that lies in memory, of which nothing is kept.
func LoadTokenizerBytes(data []byte) (*Tokenizer, error) {
	var cerr *C.ember_error
	var p *C.ember_tokenizer
	err := check(C.ember_tokenizer_load_buffer(elements[C.uint8_t](data), C.size_t(len(data)), &p, &cerr), &cerr)
	return newTokenizer(p, err)
}

// Tokenizer gives the model's own tokenizer, which may outlive it.
func (m *Model) Tokenizer() (*Tokenizer, error) {
	model, err := m.h.use()
	if err != nil {
		return nil, err
	}
	defer m.h.done()
	var cerr *C.ember_error
	var p *C.ember_tokenizer
	err = check(C.ember_model_tokenizer(model, &p, &cerr), &cerr)
	return newTokenizer(p, err)
}

func newTokenizer(p *C.ember_tokenizer, err error) (*Tokenizer, error) {
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{h: newHandle(p, func(p *C.ember_tokenizer) { C.ember_tokenizer_release(p) })}
	own(t, t.h)
	var cerr *C.ember_error
	info := C.ember_tokenizer_info{struct_size: C.sizeof_ember_tokenizer_info}
	if err := check(C.ember_tokenizer_info_get(p, &info, &cerr), &cerr); err != nil {
		t.Close()
		return nil, err
	}
	t.info = TokenizerInfo{
		VocabSize:     int(info.n_vocab),
		BOS:           Token(info.bos_token),
		EOS:           Token(info.eos_token),
		EOT:           Token(info.eot_token),
		Unknown:       Token(info.unk_token),
		Padding:       Token(info.pad_token),
		AddBOS:        info.add_bos != 0,
		AddEOS:        info.add_eos != 0,
		ChatTemplate:  info.has_chat_template != 0,
		FIMPrefix:     Token(info.fim_prefix_token),
		FIMSuffix:     Token(info.fim_suffix_token),
		FIMMiddle:     Token(info.fim_middle_token),
		FIMRepository: Token(info.fim_repository_token),
		FIMFile:       Token(info.fim_file_token),
	}
	return t, nil
}

// Info tells what the tokenizer knows of its tokens, also after Close.
func (t *Tokenizer) Info() TokenizerInfo { return t.info }

// Close gives the tokenizer back.
func (t *Tokenizer) Close() error {
	t.h.close()
	return nil
}

// Tokenize is [Model.Tokenize].
func (t *Tokenizer) Tokenize(text string, flags TextFlags) ([]Token, error) {
	return t.tokens(len(text)/3+8, func(p *C.ember_tokenizer, tokens []Token, needed *C.size_t) error {
		var cerr *C.ember_error
		start, n := chars(text)
		return check(C.ember_tokenizer_tokenize(p, start, n, flags&AddSpecial != 0, flags&ParseSpecial != 0,
			elements[C.uint32_t](tokens), C.size_t(len(tokens)), needed, &cerr), &cerr)
	})
}

// TokenizeBytes is Tokenize for bytes that need not be UTF-8.
func (t *Tokenizer) TokenizeBytes(text []byte, flags TextFlags) ([]Token, error) {
	return t.tokens(len(text)/3+8, func(p *C.ember_tokenizer, tokens []Token, needed *C.size_t) error {
		var cerr *C.ember_error
		return check(C.ember_tokenizer_tokenize_bytes(p, elements[C.uint8_t](text), C.size_t(len(text)),
			flags&AddSpecial != 0, flags&ParseSpecial != 0,
			elements[C.uint32_t](tokens), C.size_t(len(tokens)), needed, &cerr), &cerr)
	})
}

func (t *Tokenizer) tokens(capacity int, call func(*C.ember_tokenizer, []Token, *C.size_t) error) ([]Token, error) {
	p, err := t.h.use()
	if err != nil {
		return nil, err
	}
	defer t.h.done()
	return fill(capacity, func(tokens []Token, needed *C.size_t) error { return call(p, tokens, needed) })
}

// Count tells how many tokens Tokenize gives.
func (t *Tokenizer) Count(text string, flags TextFlags) (int, error) {
	p, err := t.h.use()
	if err != nil {
		return 0, err
	}
	defer t.h.done()
	var cerr *C.ember_error
	var out C.size_t
	start, n := chars(text)
	err = check(C.ember_tokenizer_count(p, start, n, flags&AddSpecial != 0, flags&ParseSpecial != 0, &out, &cerr), &cerr)
	return int(out), err
}

// Detokenize is [Model.Detokenize].
func (t *Tokenizer) Detokenize(tokens []Token, flags TextFlags) ([]byte, error) {
	p, err := t.h.use()
	if err != nil {
		return nil, err
	}
	defer t.h.done()
	return fill(8*len(tokens), func(buffer []byte, needed *C.size_t) error {
		var cerr *C.ember_error
		return check(C.ember_tokenizer_detokenize(p, elements[C.uint32_t](tokens), C.size_t(len(tokens)),
			flags&RenderSpecial != 0, elements[C.uint8_t](buffer), C.size_t(len(buffer)), needed, &cerr), &cerr)
	})
}

// TokenBytes gives the exact bytes of one token.
func (t *Tokenizer) TokenBytes(token Token) ([]byte, error) {
	p, err := t.h.use()
	if err != nil {
		return nil, err
	}
	defer t.h.done()
	return fill(32, func(buffer []byte, needed *C.size_t) error {
		var cerr *C.ember_error
		return check(C.ember_tokenizer_token_bytes(p, C.uint32_t(token), elements[C.uint8_t](buffer),
			C.size_t(len(buffer)), needed, &cerr), &cerr)
	})
}

// IsEOG tells whether a token ends a generation (end of sequence, of turn, of message).
func (t *Tokenizer) IsEOG(token Token) (bool, error) {
	return t.flag(func(p *C.ember_tokenizer, out *C.bool, cerr **C.ember_error) C.ember_status {
		return C.ember_tokenizer_token_is_eog(p, C.uint32_t(token), out, cerr)
	})
}

// IsControl tells whether a token is a control token, which stands for no text.
func (t *Tokenizer) IsControl(token Token) (bool, error) {
	return t.flag(func(p *C.ember_tokenizer, out *C.bool, cerr **C.ember_error) C.ember_status {
		return C.ember_tokenizer_token_is_control(p, C.uint32_t(token), out, cerr)
	})
}

func (t *Tokenizer) flag(call func(*C.ember_tokenizer, *C.bool, **C.ember_error) C.ember_status) (bool, error) {
	p, err := t.h.use()
	if err != nil {
		return false, err
	}
	defer t.h.done()
	var cerr *C.ember_error
	var out C.bool
	err = check(call(p, &out, &cerr), &cerr)
	return bool(out), err
}

// FIMOrder is in which order the parts of a prompt stand that is to fill a gap.
type FIMOrder int32

const (
	FIMAuto              FIMOrder = C.EMBER_FIM_AUTO       // the model's: prefix, suffix, middle as a rule
	FIMPrefixFirst       FIMOrder = C.EMBER_FIM_PSM        // prefix, suffix, middle
	FIMSuffixFirst       FIMOrder = C.EMBER_FIM_SPM        // suffix, prefix, middle
	FIMSuffixFirstJoined FIMOrder = C.EMBER_FIM_SPM_JOINED // the tokens of both, the suffix, the middle's token, the prefix
)

// FIMOption is an option of [Tokenizer.FIMPrompt].
type FIMOption struct {
	apply func(*C.ember_fim_options) error
}

func fimSetting(set func(*C.ember_fim_options, **C.ember_error) C.ember_status) FIMOption {
	return FIMOption{func(o *C.ember_fim_options) error {
		var cerr *C.ember_error
		return check(set(o, &cerr), &cerr)
	}}
}

// WithFIMOrder sets in which order the parts stand; by default FIMAuto.
func WithFIMOrder(order FIMOrder) FIMOption {
	return fimSetting(func(o *C.ember_fim_options, err **C.ember_error) C.ember_status {
		return C.ember_fim_options_set_order(o, C.int32_t(order), err)
	})
}

// WithFIMRepository sets the name of the repository, which stands first.
func WithFIMRepository(name string) FIMOption {
	return fimSetting(func(o *C.ember_fim_options, err **C.ember_error) C.ember_status {
		text, n := chars(name)
		return C.ember_fim_options_set_repository(o, text, n, err)
	})
}

// WithFIMFile sets the name of the file that has the gap.
func WithFIMFile(name string) FIMOption {
	return fimSetting(func(o *C.ember_fim_options, err **C.ember_error) C.ember_status {
		text, n := chars(name)
		return C.ember_fim_options_set_file(o, text, n, err)
	})
}

// WithFIMOther adds the name and the text of another file, to stand before the one with the gap.
func WithFIMOther(name, content string) FIMOption {
	return fimSetting(func(o *C.ember_fim_options, err **C.ember_error) C.ember_status {
		text, n := chars(name)
		other, length := chars(content)
		return C.ember_fim_options_add_file(o, text, n, other, length, err)
	})
}

// FIMPrompt gives the tokens of a prompt that asks for what stands between prefix and suffix, for [Context.GenerateTokens].
// [ErrUnsupported] names the token that the tokenizer lacks.
func (t *Tokenizer) FIMPrompt(prefix, suffix string, options ...FIMOption) ([]Token, error) {
	var cerr *C.ember_error
	var o *C.ember_fim_options
	if err := check(C.ember_fim_options_new(&o, &cerr), &cerr); err != nil {
		return nil, err
	}
	defer C.ember_fim_options_free(o)
	for _, option := range options {
		if err := applied(option.apply, o); err != nil {
			return nil, err
		}
	}
	return t.tokens((len(prefix)+len(suffix))/3+64, func(p *C.ember_tokenizer, tokens []Token, needed *C.size_t) error {
		var cerr *C.ember_error
		before, m := chars(prefix)
		after, n := chars(suffix)
		return check(C.ember_tokenizer_fim_prompt(p, before, m, after, n, o,
			elements[C.uint32_t](tokens), C.size_t(len(tokens)), needed, &cerr), &cerr)
	})
}

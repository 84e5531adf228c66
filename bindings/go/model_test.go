package ember

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestVersion(t *testing.T) {
	if !strings.Contains(BuildInfo(), Version()) || Version() == "" {
		t.Fatalf("version %q, build %q", Version(), BuildInfo())
	}
}

func TestModelInfo(t *testing.T) {
	m := bundled(t)
	info := m.Info()
	equal(t, "parameters", info.Params, 2912832)
	equal(t, "vocabulary", info.VocabSize, 3072)
	equal(t, "context", info.TrainContext, 512)
	equal(t, "width", info.EmbeddingLen, 192)
	equal(t, "layers", info.Layers, 5)
	equal(t, "heads", info.Heads, 3)
	equal(t, "BOS", info.BOS, 0)
	equal(t, "tokenizer", info.HasTokenizer, true)
	equal(t, "causal", info.Causal, true)
	if m.ISA() == "" {
		t.Fatal("no instruction-set level")
	}
}

func TestLoadOptions(t *testing.T) {
	m, err := Load(context.Background(), modelPath, WithMmap(false), WithISA("scalar"), WithPack(PackNever))
	must(t, err)
	defer m.Close()
	equal(t, "level", m.ISA(), "scalar")
	_, err = Load(context.Background(), modelPath, WithISA("abacus"))
	refusal(t, err, ErrInvalidArgument, "abacus")
	_, err = Load(context.Background(), modelPath, WithPack(99))
	refusal(t, err, ErrInvalidArgument, "99")
}

func TestLoadBytes(t *testing.T) {
	data, err := os.ReadFile(modelPath)
	must(t, err)
	m, err := LoadBytes(context.Background(), data)
	must(t, err)
	defer m.Close()
	clear(data) // the library has a copy
	c, err := m.NewContext(WithThreads(1))
	must(t, err)
	defer c.Close()
	whole, err := c.Complete(context.Background(), "Once upon a time", WithMaxTokens(3))
	must(t, err)
	equal(t, "text", whole.Text, ", I was")

	_, err = LoadBytes(context.Background(), []byte("no GGUF"))
	refusal(t, err, ErrFormat, "<buffer>")
	_, err = LoadBytes(context.Background(), nil)
	if err == nil {
		t.Fatal("a model without bytes")
	}
}

func TestLoadRefusals(t *testing.T) {
	_, err := Load(context.Background(), "no such model.gguf")
	refusal(t, err, ErrIO, "no such model.gguf")
	_, err = Load(context.Background(), "model.go")
	refusal(t, err, ErrFormat, "model.go")
	_, err = Load(context.Background(), "\xff.gguf")
	refusal(t, err, ErrUTF8, "")
}

// refusal checks an error's status and that it names the culprit.
func refusal(t *testing.T, err error, status Status, culprit string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, status) {
		t.Fatalf("got %v, want %v", err, status)
	}
	if !strings.Contains(e.Message, culprit) {
		t.Fatalf("%q does not name %q", e.Message, culprit)
	}
}

func TestStatusNames(t *testing.T) {
	equal(t, "name", ErrBusy.Error(), "EMBER_E_BUSY")
	equal(t, "name", Status(12345).Error(), "unknown status")
}

func TestTokens(t *testing.T) {
	m := bundled(t)
	for _, text := range []string{"", "The sea", "Grüße, 月! 🌙", strings.Repeat("x9?", 5000)} {
		tokens, err := m.Tokenize(text, 0)
		must(t, err)
		back, err := m.Detokenize(tokens, 0)
		must(t, err)
		equal(t, "text and back", string(back), text)
		var joined []byte
		for _, token := range tokens {
			part, err := m.TokenBytes(token)
			must(t, err)
			joined = append(joined, part...)
		}
		equal(t, "bytes of tokens", string(joined), text)
	}
	_, err := m.Tokenize("\xff", 0)
	refusal(t, err, ErrUTF8, "")
	odd := []byte("a\xff\x00b")
	tokens, err := m.TokenizeBytes(odd, 0)
	must(t, err)
	back, err := m.Detokenize(tokens, 0)
	must(t, err)
	equal(t, "bytes and back", string(back), string(odd))

	special, err := m.Tokenize("<|endoftext|>", ParseSpecial)
	must(t, err)
	if !slices.Equal(special, []Token{0}) {
		t.Fatalf("the control token is %v", special)
	}
	hidden, err := m.Detokenize(special, 0)
	must(t, err)
	shown, err := m.Detokenize(special, RenderSpecial)
	must(t, err)
	equal(t, "control token", string(hidden)+string(shown), "<|endoftext|>")
	eog, err := m.IsEOG(0)
	must(t, err)
	equal(t, "end of generation", eog, true)
	eog, err = m.IsEOG(1)
	must(t, err)
	equal(t, "end of generation", eog, false)

	control, err := m.IsControl(0)
	must(t, err)
	equal(t, "control token", control, true)
	control, err = m.IsControl(50)
	must(t, err)
	equal(t, "control token", control, false)

	none := Token(m.Info().VocabSize)
	_, err = m.IsControl(none)
	refusal(t, err, ErrInvalidArgument, "3072")
	_, err = m.IsEOG(none)
	refusal(t, err, ErrInvalidArgument, "3072")
	_, err = m.TokenBytes(none)
	refusal(t, err, ErrInvalidArgument, "3072")
	_, err = m.Detokenize([]Token{1, none}, 0)
	refusal(t, err, ErrInvalidArgument, "3072")
}

func TestMeta(t *testing.T) {
	m := bundled(t)
	keys, err := m.MetaKeys()
	must(t, err)
	if !slices.Contains(keys, "general.architecture") {
		t.Fatalf("keys: %v", keys)
	}
	kinds := map[string]int{}
	for _, key := range keys {
		value, err := m.Meta(key)
		switch value.(type) {
		case string:
			kinds["string"]++
		case float64:
			kinds["float"]++
		case int64, uint64:
			kinds["integer"]++
		case bool:
			kinds["bool"]++
		case []string, []int64, []float64:
			kinds["array"]++
		default:
			t.Errorf("%s is a %T", key, value)
		}
		must(t, err)
	}
	for _, kind := range []string{"string", "float", "integer", "array"} {
		if kinds[kind] == 0 {
			t.Errorf("no key is a %s", kind)
		}
	}
	architecture, err := m.Meta("general.architecture")
	must(t, err)
	equal[any](t, "architecture", architecture, "gpt2")
	layers, err := m.Meta("gpt2.block_count")
	must(t, err)
	equal[any](t, "layers", layers, int64(5))
	list, err := m.Meta("tokenizer.ggml.tokens")
	must(t, err)
	equal(t, "token", list.([]string)[0], "<|endoftext|>")
	equal(t, "tokens", len(list.([]string)), m.Info().VocabSize)
	list, err = m.Meta("tokenizer.ggml.token_type")
	must(t, err)
	equal(t, "type", list.([]int64)[0], 3)
	_, err = m.Meta("no.such.key")
	refusal(t, err, ErrNotFound, "no.such.key")
}

func TestModelIsForAllGoroutines(t *testing.T) {
	m := bundled(t)
	var group sync.WaitGroup
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			c, err := m.NewContext(WithThreads(1))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			whole, err := c.Complete(context.Background(), "Once upon a time", WithMaxTokens(8))
			if err != nil || whole.Text != ", I was in the habit of" {
				t.Errorf("%q, %v", whole.Text, err)
			}
		}()
	}
	group.Wait()
}

func TestLog(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	must(t, SetLogger(LogInfo, func(level LogLevel, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}))
	defer SetLogger(LogInfo, nil)
	m, err := Load(context.Background(), modelPath)
	must(t, err)
	m.Close()
	must(t, SetLogger(LogInfo, nil))
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(strings.Join(lines, "\n"), "ember-tales") {
		t.Fatalf("no line names the model: %q", lines)
	}
	refusal(t, SetLogger(99, func(LogLevel, string) {}), ErrInvalidArgument, "99")
}

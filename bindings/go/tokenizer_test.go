package ember

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"
)

func TestTokenizersAlone(t *testing.T) {
	const text = "Once upon a time <|endoftext|>"
	m := bundled(t)
	alone, err := LoadTokenizer(modelPath)
	must(t, err)
	own, err := m.Tokenizer()
	must(t, err)
	data, err := os.ReadFile(modelPath)
	must(t, err)
	loaded, err := LoadTokenizerBytes(data)
	must(t, err)
	for _, one := range []*Tokenizer{alone, own, loaded} {
		defer one.Close()
		for _, flags := range []TextFlags{AddSpecial, AddSpecial | ParseSpecial} {
			want, err := m.Tokenize(text, flags)
			must(t, err)
			tokens, err := one.Tokenize(text, flags)
			must(t, err)
			equal(t, "tokens", slices.Equal(tokens, want), true)
			tokens, err = one.TokenizeBytes([]byte(text), flags)
			must(t, err)
			equal(t, "tokens of bytes", slices.Equal(tokens, want), true)
			n, err := one.Count(text, flags)
			must(t, err)
			equal(t, "count", n, len(want))
			back, err := one.Detokenize(tokens, RenderSpecial)
			must(t, err)
			equal(t, "text", string(back), text)
		}
	}
	info := alone.Info()
	equal(t, "size", info.VocabSize, m.Info().VocabSize)
	equal(t, "EOS", info.EOS, m.Info().EOS)
	equal(t, "AddBOS", info.AddBOS, m.Info().AddBOS)
	equal(t, "no tokens for gaps", info.FIMPrefix, NoToken)
	for what, of := range map[string]func(Token) (bool, error){"EOG": alone.IsEOG, "control": alone.IsControl} {
		is, err := of(info.EOS)
		must(t, err)
		equal(t, what, is, true)
	}
	_, err = alone.IsEOG(NoToken)
	refusal(t, err, ErrInvalidArgument, "4294967295")
	name, err := alone.TokenBytes(info.EOS)
	must(t, err)
	equal(t, "bytes", bytes.Equal(name, []byte("<|endoftext|>")), true)

	_, err = alone.FIMPrompt("a", "b")
	refusal(t, err, ErrUnsupported, "before the gap")
	_, err = LoadTokenizer("no/such/file")
	refusal(t, err, ErrIO, "no/such/file")
	equal(t, "does not exist", errors.Is(err, fs.ErrNotExist), true)
	_, err = LoadTokenizerBytes([]byte("GGUF"))
	refusal(t, err, ErrFormat, "<buffer>")
	must(t, alone.Close())
	_, err = alone.Tokenize(text, 0)
	equal(t, "closed", err, error(ErrClosed))
}

func TestPromptsToFillAGap(t *testing.T) {
	m, err := Load(context.Background(), modelPath, WithMeta("tokenizer.ggml.fim_pre_token_id", 5),
		WithMeta("tokenizer.ggml.fim_suf_token_id", 6), WithMeta("tokenizer.ggml.fim_mid_token_id", 7),
		WithMeta("tokenizer.ggml.fim_sep_token_id", 8))
	must(t, err)
	tokenizer, err := m.Tokenizer()
	must(t, err)
	defer tokenizer.Close()
	must(t, m.Close()) // which the tokenizer outlives
	prefix, err := tokenizer.Tokenize("Once upon", 0)
	must(t, err)
	suffix, err := tokenizer.Tokenize(" time.", 0)
	must(t, err)
	prompt, err := tokenizer.FIMPrompt("Once upon", " time.")
	must(t, err)
	want := slices.Concat([]Token{5}, prefix, []Token{6}, suffix, []Token{7})
	equal(t, "prompt", slices.Equal(prompt, want), true)
	prompt, err = tokenizer.FIMPrompt("Once upon", " time.", WithFIMOrder(FIMSuffixFirst))
	must(t, err)
	equal(t, "suffix first", slices.Equal(prompt, slices.Concat([]Token{6}, suffix, []Token{5}, prefix, []Token{7})), true)
	prompt, err = tokenizer.FIMPrompt("Once upon", " time.", WithFIMFile("a"), WithFIMOther("b", "the sea"))
	must(t, err)
	equal(t, "other file", prompt[0], 8)
	_, err = tokenizer.FIMPrompt("Once upon", " time.", WithFIMRepository("r"))
	refusal(t, err, ErrUnsupported, "repository")
	_, err = tokenizer.FIMPrompt("a", "b", WithFIMOrder(9))
	refusal(t, err, ErrInvalidArgument, "order")
}

func TestStagesOfLate(t *testing.T) {
	m := bundled(t)
	logits := make([]float32, m.Info().VocabSize)
	for i := range logits {
		logits[i] = -9
	}
	logits[7] = 9
	proposing, err := Load(context.Background(), modelPath, WithMeta("general.sampling.temp", 0.0))
	must(t, err)
	defer proposing.Close()
	proposed, err := proposing.Sampler(7)
	must(t, err)
	defer proposed.Close()
	seed, err := proposed.Seed()
	must(t, err)
	equal(t, "seed", seed, 7)
	for _, s := range []*Sampler{
		newSampler(t, 1, TopNSigma(1), MinP(0.05), AdaptiveP(0.5, 0.9)),
		newSampler(t, 1, MirostatV1(5, 0.1, 100)),
		newSampler(t, 1, TopK(40), Infill(m), Greedy()),
		proposed,
	} {
		token, err := s.Sample(logits)
		must(t, err)
		equal(t, "token", token, 7)
	}
	_, err = m.Sampler(1)
	refusal(t, err, ErrNotFound, "general.sampling")
	_, err = NewSampler(1, AdaptiveP(2, 0.9))
	refusal(t, err, ErrInvalidArgument, "target")
	_, err = NewSampler(1, MirostatV1(5, 0.1, -1))
	refusal(t, err, ErrInvalidArgument, "-1")
	_, err = NewSampler(1, Infill(nil))
	equal(t, "no model", err, error(ErrClosed))

	choice, err := m.Choices([]string{"only this"})
	if is(err, ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	s := newSampler(t, 1, Constrained(choice), Greedy())
	must(t, choice.Close())
	_, err = NewSampler(1, Constrained(choice))
	equal(t, "closed", err, error(ErrClosed))
	completion, err := newContext(t).Complete(context.Background(), prompt, WithSampler(s))
	must(t, err)
	equal(t, "text", completion.Text, "only this")
	progress, err := s.Progress()
	must(t, err)
	equal(t, "progress", progress, ProgressComplete)
	_, err = m.Regex("abc", WithConstraintLimit(LimitSource, 2))
	refusal(t, err, ErrInvalidArgument, "limit")
}

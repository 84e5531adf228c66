package ember

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// golden is tests/golden/bindings.json, which the C library made.
type golden struct {
	Model    string
	Generate []struct {
		Name         string
		Prompt       string
		PromptTokens []Token `json:"prompt_tokens"`
		MaxTokens    int     `json:"max_tokens"`
		Stops        []string
		Sampler      *struct {
			Seed   uint64
			Stages []struct {
				Stage string
				Value float64
			}
		}
		Tokens []Token
		Text   string
		Finish string
	}
	Embeddings struct {
		Texts   []string
		NEmbd   int `json:"n_embd"`
		Vectors [][]float64
		Cosine  float64
	}
	Score struct {
		Prompt, Continuation string
		Tokens               []struct {
			Token   Token
			Logprob float64
			Rank    uint32
		}
		Logprob  float64
		IsGreedy bool `json:"is_greedy"`
	}
	Shift struct {
		Model        string
		Size         int     `json:"n_ctx"`
		PromptTokens []Token `json:"prompt_tokens"`
		MaxTokens    int     `json:"max_tokens"`
		Keep         int     `json:"n_keep"`
		Drop         int     `json:"n_drop"`
		Tokens       []Token
		Finish       string
		Shifted      int `json:"n_shifted"`
	}
}

func readGolden(t *testing.T) golden {
	t.Helper()
	var g golden
	must(t, json.Unmarshal([]byte(readFile(t, root+"tests/golden/bindings.json")), &g))
	return g
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func TestGoldenGenerations(t *testing.T) {
	for _, g := range readGolden(t).Generate {
		t.Run(g.Name, func(t *testing.T) {
			options := []GenerateOption{WithMaxTokens(g.MaxTokens), WithStop(g.Stops...)}
			if g.Sampler != nil {
				var stages []Stage
				for _, s := range g.Sampler.Stages {
					stages = append(stages, map[string]Stage{
						"temperature": Temperature(float32(s.Value)),
						"top_k":       TopK(int(s.Value)),
						"top_p":       TopP(float32(s.Value)),
					}[s.Stage])
				}
				options = append(options, WithSampler(newSampler(t, g.Sampler.Seed, stages...)))
			}
			prompt, err := bundled(t).Tokenize(g.Prompt, AddSpecial)
			must(t, err)
			if !slices.Equal(prompt, g.PromptTokens) {
				t.Fatalf("prompt: got %v, want %v", prompt, g.PromptTokens)
			}

			var tokens []Token
			var text strings.Builder
			var end Event
			for event, err := range newContext(t).Generate(context.Background(), g.Prompt, options...) {
				must(t, err)
				text.WriteString(event.Text)
				if event.Kind == EventToken {
					tokens = append(tokens, event.Token)
				}
				end = event
			}
			if !slices.Equal(tokens, g.Tokens) {
				t.Errorf("tokens: got %v, want %v", tokens, g.Tokens)
			}
			equal(t, "text", text.String(), g.Text)
			equal(t, "finish", end.Finish.String(), g.Finish)
			equal(t, "last event", end.Kind, EventEnd)
			equal(t, "prompt tokens", end.Usage.PromptTokens, len(prompt))

			if g.Sampler != nil {
				return
			}
			whole, err := newContext(t).Complete(context.Background(), g.Prompt, options...)
			must(t, err)
			equal(t, "completion", whole.Text, g.Text)
			equal(t, "completion's finish", whole.Usage.Finish.String(), g.Finish)
			text.Reset()
			for event, err := range newContext(t).GenerateTokens(context.Background(), prompt, options...) {
				must(t, err)
				text.WriteString(event.Text)
			}
			equal(t, "text from tokens", text.String(), g.Text)
		})
	}
}

func TestGoldenEmbeddings(t *testing.T) {
	g := readGolden(t).Embeddings
	vectors, err := newContext(t).Embed(context.Background(), g.Texts)
	must(t, err)
	equal(t, "vectors", len(vectors), len(g.Vectors))
	for i, want := range g.Vectors {
		equal(t, "length", len(vectors[i]), g.NEmbd)
		for j := range want {
			near(t, "number", float64(vectors[i][j]), want[j], 0.01)
		}
	}
	near(t, "cosine", dot(vectors[0], vectors[1]), g.Cosine, 0.01)
}

// The vectors of a folder with a Dense module are narrower than the model's layers.
func TestDense(t *testing.T) {
	var g struct {
		Texts []string
		Cases []struct {
			Base       string
			Dense      []any
			Normalize  bool
			Dimensions int
			Rows       [][]float64
		}
	}
	must(t, json.Unmarshal([]byte(readFile(t, root+"tests/fixtures/dense.json")), &g))
	ctx := context.Background()
	m, err := Load(ctx, root+"tests/fixtures/dense-folder")
	must(t, err)
	defer m.Close()
	equal(t, "width", m.Info().EmbeddingLen, 36)
	equal(t, "vectors' length", m.Info().VectorLen, 7)
	equal(t, "prompts", m.Info().Prompts, 3)
	c, err := m.NewContext(WithThreads(1), WithKVType(KVF32))
	must(t, err)
	defer c.Close()
	cases := 0
	for _, one := range g.Cases {
		if one.Base != "bert" || len(one.Dense) == 0 {
			continue
		}
		cases++
		vectors, err := c.Embed(ctx, g.Texts, WithNormalize(one.Normalize), WithDimensions(one.Dimensions))
		must(t, err)
		equal(t, "vectors", len(vectors), len(g.Texts))
		for i, want := range one.Rows {
			equal(t, "length", len(vectors[i]), len(want))
			for j := range want {
				near(t, "number", float64(vectors[i][j]), want[j], 1e-4)
			}
		}
	}
	equal(t, "cases", cases, 2)
	var prompted []string
	for _, text := range g.Texts {
		prompted = append(prompted, "w5 w6 "+text)
	}
	want, err := c.Embed(ctx, prompted)
	must(t, err)
	got, err := c.Embed(ctx, g.Texts, WithPromptName("query"))
	must(t, err)
	for i := range want {
		equal(t, "prompted", slices.Equal(got[i], want[i]), true)
	}
	rows, err := c.Embed(ctx, []string{"w7 w8"}, WithPooling(PoolingNone))
	must(t, err)
	cut, err := c.Embed(ctx, []string{"w7 w8"}, WithPooling(PoolingNone), WithDimensions(5))
	must(t, err)
	equal(t, "rows", len(rows), len(cut))
	for i := range rows {
		equal(t, "row", len(rows[i]), 36)
		equal(t, "cut row", slices.Equal(cut[i], rows[i][:5]), true)
	}
	for _, refused := range []struct {
		option EmbedOption
		says   string
	}{{WithDimensions(8), "1 to 7"}, {WithDimensions(math.MaxInt), "1 to 7"}, {WithDimensions(-1), "-1"}, {WithPromptName("passage"), "\"passage\""}} {
		if _, err := c.Embed(ctx, g.Texts, refused.option); err == nil || !strings.Contains(err.Error(), refused.says) {
			t.Errorf("got %v, want a sentence with %s", err, refused.says)
		}
	}
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestGoldenScore(t *testing.T) {
	g := readGolden(t).Score
	c := newContext(t)
	ctx := context.Background()
	score, err := c.Score(ctx, g.Prompt, g.Continuation)
	must(t, err)
	equal(t, "tokens", len(score.Tokens), len(g.Tokens))
	for i, want := range g.Tokens {
		equal(t, "token", score.Tokens[i].Token, want.Token)
		equal(t, "rank", score.Tokens[i].Rank, want.Rank)
		near(t, "log-probability", float64(score.Tokens[i].Logprob), want.Logprob, 0.1)
	}
	near(t, "sum", score.Logprob, g.Logprob, 0.2)
	equal(t, "greedy", score.Greedy, g.IsGreedy)

	prompt, err := bundled(t).Tokenize(g.Prompt, AddSpecial)
	must(t, err)
	var continuation []Token
	for _, s := range score.Tokens {
		continuation = append(continuation, s.Token)
	}
	again, err := c.ScoreTokens(ctx, prompt, continuation)
	must(t, err)
	near(t, "sum of tokens", again.Logprob, score.Logprob, 1e-3)
	equal(t, "prompt's tokens", again.PromptTokens, len(prompt))
	equal(t, "kept tokens", again.ReusedTokens > 0, true)
}

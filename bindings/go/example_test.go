package ember_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"ember.example/ember"
)

// The bodies of these functions stand in README.md; a test compares them.

var ctx = context.Background()

// try ends the program over an error, to keep the examples short.
func try[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func open() (*ember.Model, *ember.Context) {
	model := try(ember.Load(ctx, modelPath))
	return model, try(model.NewContext())
}

const modelPath = "../../examples/models/ember-tales.gguf"

func Example_streaming() {
	model, c := open()
	defer model.Close()
	defer c.Close()

	sampler, err := ember.NewSampler(42, ember.TopK(40), ember.TopP(0.95), ember.Temperature(0.8))
	if err != nil {
		log.Fatal(err)
	}
	defer sampler.Close()
	for event, err := range c.Generate(ctx, "The wolf said", ember.WithSampler(sampler),
		ember.WithMaxTokens(100), ember.WithStop("\n"), ember.WithTop(3)) {
		if err != nil {
			log.Fatal(err)
		}
		switch event.Kind {
		case ember.EventToken:
			fmt.Print(event.Text) // event.Token, event.Logprob, event.Top …
		case ember.EventEnd:
			fmt.Println(event.Text, event.Finish, event.Usage.GeneratedTokens)
		}
	}
}

func Example_complete() {
	model, c := open()
	defer model.Close()
	defer c.Close()

	answer, err := c.Complete(ctx, "Once upon a time", ember.WithMaxTokens(8))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Text, answer.Usage.Finish)
	// Output: , I was in the habit of max_tokens
}

func Example_cancel() {
	model, c := open()
	defer model.Close()
	defer c.Close()

	ctx, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	answer, err := c.Complete(ctx, "Once upon a time", ember.WithMaxTokens(500))
	switch {
	case errors.Is(err, context.DeadlineExceeded): // or context.Canceled; ember.ErrCancelled is both
		fmt.Println("out of time after", answer.Usage.GeneratedTokens, "tokens")
	case errors.Is(err, ember.ErrContextFull):
		fmt.Println("the prompt does not fit")
	case err != nil:
		log.Fatal(err)
	}
}

func Example_conversation() {
	model, c := open()
	defer model.Close()
	defer c.Close()

	conversation := "The king said:"
	for _, line := range []string{" \"Who are you?\"", " \"And you?\""} {
		conversation += line
		answer, err := c.Complete(ctx, conversation, ember.WithReusePrefix(true), ember.WithMaxTokens(16))
		if err != nil {
			log.Fatal(err)
		}
		conversation += answer.Text // the next call runs only what it adds
	}
}

func Example_chat() {
	model, c := open()
	defer model.Close()
	defer c.Close()
	template := ember.WithTemplate("{% for m in messages %}{{ m.content }}{% endfor %}") // the bundled model has none

	text, err := model.ApplyChatTemplate([]ember.Message{{Role: "user", Content: "Once upon a time"}}, template)
	if err != nil {
		log.Fatal(err)
	}
	prompt, err := model.Tokenize(text, ember.ParseSpecial) // the text spells control tokens
	if err != nil {
		log.Fatal(err)
	}
	for event, err := range c.GenerateTokens(ctx, prompt, ember.WithReusePrefix(true), ember.WithMaxTokens(4)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(event.Text)
	}
	// Output: , I was in
}

// The model calls tools. Nothing is printed here that a test could compare; TestReadmeCallsATool runs it.
func Example_tools() {
	model := try(ember.Load(ctx, os.Getenv("EMBER_TOOLS_MODEL")))
	defer model.Close()
	c := try(model.NewContext())
	defer c.Close()

	tools := ember.WithTools(json.RawMessage(`[{"type": "function", "function": {"name": "weather", "parameters":
		{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]`))
	conversation, err := c.NewConversation("", []ember.ChatOption{tools})
	for message, results := "What is the weather in Paris?", []any{nil}; err == nil && len(results) > 0; message = "" {
		results = nil
		for event, failed := range conversation.Send(ctx, message) { // without a message, what was added is answered
			switch err = failed; event.Kind {
			case ember.ReplyText:
				fmt.Print(event.Text)
			case ember.ReplyCallDone: // event.Text is {"city": "Paris"}
				results = append(results, ember.Message{Role: "tool", Name: event.Name, ToolCallID: event.ID, Content: "It is sunny, 21 degrees."})
			}
		}
		err = errors.Join(err, conversation.Add(results...))
	}
	if err != nil {
		log.Fatal(err)
	}
}

func Example_constraint() {
	model, c := open()
	defer model.Close()
	defer c.Close()

	schema, err := model.JSONSchema([]byte(`{"type": "object", "properties": {"answer": {"enum": ["yes", "no"]}},
		"required": ["answer"], "additionalProperties": false}`), ember.WithWhitespace(0))
	if err != nil {
		log.Fatal(err)
	}
	defer schema.Close()
	answer, err := c.Complete(ctx, "Is water wet? ", ember.WithConstraint(schema))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Text, answer.Usage.Progress == ember.ProgressComplete)
	// Output: {"answer":"no"} true
}

func Example_tokenizer() {
	path := modelPath

	tokenizer, err := ember.LoadTokenizer(path) // or model.Tokenizer()
	if err != nil {
		log.Fatal(err)
	}
	defer tokenizer.Close()
	n, err := tokenizer.Count("Once upon a time", ember.AddSpecial)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n)
	if tokenizer.Info().FIMMiddle != ember.NoToken {
		prompt, err := tokenizer.FIMPrompt("def add(a, b):\n    return ", "\n") // for GenerateTokens
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(prompt))
	}
	// Output: 5
}

func Example_embed() {
	model, c := open()
	defer model.Close()
	defer c.Close()

	vectors, err := c.Embed(ctx, []string{"A cat sleeps.", "The kitten naps."})
	if err != nil {
		log.Fatal(err)
	}
	var cosine float64
	for i, number := range vectors[0] {
		cosine += float64(number) * float64(vectors[1][i])
	}
	fmt.Printf("%.2f\n", cosine)
}

func Example_score() {
	model, c := open()
	defer model.Close()
	defer c.Close()

	for _, ending := range []string{" king.", " xylophone."} {
		score, err := c.Score(ctx, "Once upon a time there was a", ending)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %.1f\n", ending, score.Logprob)
	}
}

func Example_decode() {
	model, c := open()
	defer model.Close()
	defer c.Close()

	tokens, err := model.Tokenize("Once upon a time", ember.AddSpecial)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Decode(ctx, tokens); err != nil {
		log.Fatal(err)
	}
	err = c.ViewLogits(len(tokens)-1, func(logits []float32) error {
		fmt.Println(len(logits)) // the library's own memory: read it here, copy what you keep
		return nil
	})
	// Output: 3072
}

func Example_stage() {
	model, c := open()
	defer model.Close()
	defer c.Close()

	short := ember.StageFunc(func(tokens []ember.Token, logits []float32) error {
		for i, token := range tokens {
			if text, err := model.TokenBytes(token); err != nil {
				return err
			} else if len(text) > 4 {
				logits[i] = float32(math.Inf(-1))
			}
		}
		return nil
	})
	sampler, err := ember.NewSampler(7, ember.DRY(model, 256, 0.8, 1.75, 2), ember.TopK(40), short)
	if err != nil {
		log.Fatal(err)
	}
	defer sampler.Close()
	answer, err := c.Complete(ctx, "The old lighthouse", ember.WithSampler(sampler), ember.WithMaxTokens(20))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Text)
}

func Example_loading() {
	path := modelPath

	header, err := ember.Inspect(path) // JSON
	if err != nil {
		log.Fatal(err)
	}
	memory, err := ember.EstimateMemory(path, nil, []ember.ContextOption{ember.WithSize(256)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(header), memory.Weights+memory.KV+memory.Workspace)
	model, err := ember.Load(ctx, path,
		ember.WithProgress(func(done float32) error {
			fmt.Printf("\r%.0f %%", 100*done) // an error would end the loading
			return nil
		}),
		ember.WithCheckTensors(true),            // look for numbers that are not finite
		ember.WithMemoryLimit(1<<30),            // for the large buffers of the model and of its contexts
		ember.WithMeta("general.name", "Tales")) // as if the file had it
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	tokens, err := model.Meta("tokenizer.ggml.tokens")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(tokens.([]string)))
}

func Example_engine() {
	model := try(ember.Load(ctx, modelPath))
	defer model.Close()

	engine, err := model.NewEngine(ember.WithParallel(16), ember.WithContextOptions(ember.WithSize(512)))
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	handle := func(w http.ResponseWriter, r *http.Request) {
		for event, err := range engine.Generate(r.Context(), r.FormValue("prompt"), ember.WithMaxTokens(40),
			ember.WithTimeLimit(time.Minute)) {
			switch {
			case errors.Is(err, ember.ErrQueueFull):
				http.Error(w, "busy, try again later", http.StatusServiceUnavailable)
			case err != nil:
				log.Print(err) // the client has gone: r.Context() has ended the request
			default:
				fmt.Fprint(w, event.Text)
			}
		}
	}
	server := httptest.NewServer(http.HandlerFunc(handle))
	defer server.Close()
	var group sync.WaitGroup
	for range 50 {
		group.Add(1)
		go func() {
			defer group.Done()
			answer, err := http.Get(server.URL + "?prompt=The+wolf+said")
			if err != nil {
				log.Fatal(err)
			}
			defer answer.Body.Close()
			if text, err := io.ReadAll(answer.Body); err != nil || len(text) == 0 {
				log.Fatal(err)
			}
		}()
	}
	group.Wait()
	metrics, err := engine.Metrics()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(metrics.Finished, metrics.GeneratedTokens)
	// Output: 50 2000
}

func Example_states() {
	model := try(ember.Load(ctx, modelPath))
	defer model.Close()

	c, err := model.NewContext(ember.WithSequences(2))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Complete(ctx, "Once upon a time there was", ember.WithMaxTokens(8)); err != nil {
		log.Fatal(err)
	}
	length, err := c.NPast(0)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.CopySequence(0, 1, length); err != nil { // shares memory until the two differ
		log.Fatal(err)
	}
	var saved bytes.Buffer
	if err := c.WriteState(1, &saved); err != nil { // to any io.Writer; SaveStateFile to a file
		log.Fatal(err)
	}
	if err := c.KeepSequence(0); err != nil {
		log.Fatal(err)
	}
	if err := c.ReadState(1, &saved); err != nil { // in this process or in another one, with the same model
		log.Fatal(err)
	}
	for sequence := range 2 {
		answer, err := c.Complete(ctx, " and", ember.WithMaxTokens(4), ember.WithSequence(sequence))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer.Text)
	}
}

func Example_shift() {
	model := try(ember.Load(ctx, "../../tests/fixtures/models/gemma3.gguf")) // the bundled model has learned positions
	defer model.Close()
	c := try(model.NewContext(ember.WithSize(64)))
	defer c.Close()
	prompt := []ember.Token{1, 2, 3, 4, 5, 6}

	for event, err := range c.GenerateTokens(ctx, prompt, ember.WithMaxTokens(200), ember.WithShift(4, 32)) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Kind == ember.EventEnd {
			fmt.Println(event.Finish, event.Usage.ShiftedTokens) // without the option: context_full
		}
	}
	// Output: max_tokens 160
}

func Example_drafts() {
	model, c := open()
	defer model.Close()
	defer c.Close()
	smallPath := modelPath

	small, err := ember.Load(ctx, smallPath)
	if err != nil {
		log.Fatal(err)
	}
	defer small.Close()
	draft, err := small.NewContext()
	if err != nil {
		log.Fatal(err)
	}
	defer draft.Close()
	answer, err := c.Complete(ctx, "Once upon a time", ember.WithMaxTokens(32),
		ember.WithLookup(8, 3),       // up to 8 tokens, where the last 3, or 2, stand in the text already
		ember.WithDraft(draft, 0, 4)) // else up to 4 by the smaller model, in sequence 0 of its context
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Text) // answer.Usage: DraftedTokens ran ahead, and AcceptedTokens of them were accepted
	// Output: , I was in the habit of making a little more of the matter. I was in the habit of making a very good deal of money. I
}

// The README's streamed chat with a tool is short, and it works.
func TestReadmeCallsATool(t *testing.T) {
	readme := string(try(os.ReadFile("README.md")))
	block := regexp.MustCompile("(?s)```go\n(tools := .*?)```").FindStringSubmatch(readme)
	if lines := strings.Count(block[1], "\n"); lines >= 20 {
		t.Fatalf("it has %d lines", lines)
	}
	if os.Getenv("EMBER_TOOLS_MODEL") == "" {
		t.Skip("EMBER_TOOLS_MODEL names no model")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = w
	Example_tools()
	os.Stdout = stdout
	w.Close()
	if said := try(io.ReadAll(r)); !regexp.MustCompile("sunny.*21 degrees").Match(said) {
		t.Fatalf("it says %q", said)
	}
}

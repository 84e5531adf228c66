// Answers a message through the model's chat template; the text is printed as it comes.
//
//	go run ./examples/chat -m model.gguf -p "What is the capital of France?"
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"

	"ember.example/ember"
)

func main() {
	log.SetFlags(0)
	path := flag.String("m", "", "GGUF `file` of a model with a chat template")
	message := flag.String("p", "What is the capital of France?", "the user's `message`")
	n := flag.Int("n", 128, "most `tokens` to generate")
	temperature := flag.Float64("temp", 0.8, "temperature; 0 always takes the most probable token")
	topK := flag.Int("top-k", 40, "choose among the `K` most probable tokens; 0: all")
	topP := flag.Float64("top-p", 0.95, "choose among the most probable tokens that make up `P`")
	seed := flag.Uint64("seed", uint64(rand.Uint32()), "the same `seed` gives the same text; by default another each time")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	if err := run(ctx, *path, *message, *n, *seed,
		ember.TopK(*topK), ember.TopP(float32(*topP)), ember.Temperature(float32(*temperature))); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path, message string, n int, seed uint64, stages ...ember.Stage) error {
	model, err := ember.Load(ctx, path)
	if err != nil {
		return err
	}
	defer model.Close()
	c, err := model.NewContext()
	if err != nil {
		return err
	}
	defer c.Close()
	sampler, err := ember.NewSampler(seed, stages...)
	if err != nil {
		return err
	}
	defer sampler.Close()

	text, err := model.ApplyChatTemplate([]ember.Message{{Role: "user", Content: message}})
	if err != nil {
		return err
	}
	prompt, err := model.Tokenize(text, ember.ParseSpecial)
	if err != nil {
		return err
	}
	for event, err := range c.GenerateTokens(ctx, prompt, ember.WithMaxTokens(n), ember.WithSampler(sampler)) {
		fmt.Print(event.Text)
		if errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			return err
		}
	}
	fmt.Println()
	return nil
}

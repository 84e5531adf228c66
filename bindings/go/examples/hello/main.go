// Continues a sentence with the bundled model. Run it from the folder bindings/go.
package main

import (
	"context"
	"fmt"
	"log"

	"ember.example/ember"
)

func main() {
	ctx := context.Background()
	model, err := ember.Load(ctx, "../../examples/models/ember-tales.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	c, err := model.NewContext()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for event, err := range c.Generate(ctx, "Once upon a time", ember.WithEcho(true), ember.WithMaxTokens(32)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(event.Text)
	}
	fmt.Println()
}

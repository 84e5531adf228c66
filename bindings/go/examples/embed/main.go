// Prints how alike two texts are: the cosine of their vectors.
//
//	go run ./examples/embed -m model.gguf "A cat sleeps." "The kitten naps."
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"

	"ember.example/ember"
)

func main() {
	log.SetFlags(0)
	path := flag.String("m", "../../examples/models/ember-tales.gguf", "GGUF `file` or Hugging Face folder")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: embed -m MODEL TEXT TEXT")
		os.Exit(2)
	}
	cosine, err := compare(*path, flag.Args())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.4f\n", cosine)
}

func compare(path string, texts []string) (cosine float64, err error) {
	ctx := context.Background()
	model, err := ember.Load(ctx, path)
	if err != nil {
		return 0, err
	}
	defer model.Close()
	c, err := model.NewContext()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	vectors, err := c.Embed(ctx, texts)
	if err != nil {
		return 0, err
	}
	for i, number := range vectors[0] { // of length 1, so the dot product is the cosine
		cosine += float64(number) * float64(vectors[1][i])
	}
	return cosine, nil
}

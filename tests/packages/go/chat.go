// Answers each line of standard input, as it comes.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"

	"ember.example/ember"
)

func main() {
	ctx := context.Background()
	model, err := ember.Load(ctx, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	chatContext, err := model.NewContext()
	if err != nil {
		log.Fatal(err)
	}
	defer chatContext.Close()
	chat, err := chatContext.NewConversation("", nil, ember.WithMaxTokens(32))
	if err != nil {
		log.Fatal(err)
	}
	defer chat.Close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); fmt.Println() {
		for event, err := range chat.Send(ctx, lines.Text()) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(event.Text)
		}
	}
}

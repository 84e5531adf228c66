package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// config is what the command line says.
type config struct {
	models         []string
	addr           string
	template       string // the text of the chat template
	parallel       int
	queue          int
	size           int
	threads        int
	kvLimit        uint64
	maxBody        int64
	requestTimeout time.Duration
	drainTimeout   time.Duration
	keys           map[[sha256.Size]byte]bool
}

// parse reads the command line. EMBER_API_KEYS in the environment holds keys too.
func parse(args []string) (*config, error) {
	c := &config{}
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.Func("m", "serve the `model` in this GGUF file or folder, by its file's name, or by another: name=file; may be given again for more", func(spec string) error {
		c.models = append(c.models, spec)
		return nil
	})
	flags.StringVar(&c.addr, "addr", "127.0.0.1:8080", "listen on this `address`; port 0 takes a free one, which the log names")
	template := flags.String("chat-template", "", "take the chat template in this `file`, in the Jinja language, instead of the models' own")
	flags.IntVar(&c.parallel, "parallel", 8, "how many `generations` run together")
	flags.IntVar(&c.queue, "queue", 256, "how many `generations` may wait; more are refused with status 429")
	flags.IntVar(&c.size, "ctx", 0, "`tokens` of a prompt and its answer together; 0: what the model was trained on, 4096 at most")
	flags.IntVar(&c.threads, "threads", 0, "`threads` that compute; 0: one for each core")
	flags.Uint64Var(&c.kvLimit, "kv-limit", 0, "most `bytes` of the KV cache, which all generations share; 0: no limit")
	flags.Int64Var(&c.maxBody, "max-body", 8<<20, "most `bytes` of a request's body")
	flags.DurationVar(&c.requestTimeout, "request-timeout", 10*time.Minute, "how long a request may take")
	flags.DurationVar(&c.drainTimeout, "drain-timeout", 30*time.Second, "how long requests may go on after SIGTERM or SIGINT, before they are cancelled")
	keys := flags.String("api-keys", "", "let only requests in that have a key of this `file`, one a line; the environment variable EMBER_API_KEYS has keys too, with commas between them")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("%q is no flag", flags.Arg(0))
	case len(c.models) == 0:
		return nil, errors.New("there is no model to serve; name one with -m")
	case c.requestTimeout <= 0 || c.maxBody <= 0:
		return nil, errors.New("-request-timeout and -max-body must be above 0")
	}
	var err error
	if c.template, err = fileText(*template); err != nil {
		return nil, err
	}
	text, err := fileText(*keys)
	if err != nil {
		return nil, err
	}
	c.keys = keysOf(text, os.Getenv("EMBER_API_KEYS"))
	if len(c.keys) == 0 && *keys != "" {
		return nil, fmt.Errorf("%s has no keys", *keys)
	}
	return c, nil
}

func fileText(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

// keysOf gives hashes of the keys in a file's lines, of which those that begin with # are comments, and in a list.
func keysOf(lines, list string) map[[sha256.Size]byte]bool {
	keys := map[[sha256.Size]byte]bool{}
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			keys[sha256.Sum256([]byte(line))] = true
		}
	}
	for key := range strings.SplitSeq(list, ",") {
		if key = strings.TrimSpace(key); key != "" {
			keys[sha256.Sum256([]byte(key))] = true
		}
	}
	return keys
}

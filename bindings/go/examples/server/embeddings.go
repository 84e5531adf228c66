package main

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"

	"ember.example/ember"
)

// embeddingRequest is the body of POST /v1/embeddings.
type embeddingRequest struct {
	Model          string          `json:"model"`
	Input          json.RawMessage `json:"input"`
	EncodingFormat *string         `json:"encoding_format"`
	Dimensions     *int            `json:"dimensions"`
}

// mostTexts is the most texts of a request, as OpenAI has it.
const mostTexts = 2048

type embeddingAnswer struct {
	Object string           `json:"object"`
	Data   []embedding      `json:"data"`
	Model  string           `json:"model"`
	Usage  map[string]int64 `json:"usage"`
}

type embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"` // an array of numbers, or base64 of their bytes
}

func (s *server) embeddings(w http.ResponseWriter, r *http.Request) error {
	var request embeddingRequest
	if err := s.read(w, r, &request, bookkeeping); err != nil {
		return err
	}
	m, err := s.modelNamed(request.Model)
	if err != nil {
		return err
	}
	format := or(request.EncodingFormat, "float")
	if format != "float" && format != "base64" {
		return invalid("encoding_format", "encoding_format is %q; it must be \"float\" or \"base64\".", format)
	}
	if request.Dimensions != nil && *request.Dimensions != m.info.EmbeddingLen {
		return unsupported("dimensions", "The embeddings of %s have %d dimensions; this server does not shorten them.", m.name, m.info.EmbeddingLen)
	}
	inputs, err := m.inputs("input", request.Input, mostTexts, 0)
	if err != nil {
		return err
	}
	answer := embeddingAnswer{Object: "list", Data: []embedding{}, Model: m.name}
	var count uint64
	err = m.aside.use(r.Context(), func(c *ember.Context) error {
		before, err := c.Timings()
		if err != nil {
			return err
		}
		vectors, err := embedAll(r, c, inputs)
		if err != nil {
			return err
		}
		after, err := c.Timings()
		count = after.EmbedTokens - before.EmbedTokens
		for i, vector := range vectors {
			answer.Data = append(answer.Data, embedding{"embedding", i, encode(vector, format)})
		}
		return err
	})
	if err != nil {
		return err
	}
	m.embedded.Add(int64(count))
	answer.Usage = map[string]int64{"prompt_tokens": int64(count), "total_tokens": int64(count)}
	return writeJSON(w, http.StatusOK, answer)
}

// embedAll embeds texts as texts, since a model may have a prompt to put before them, and tokens as tokens.
func embedAll(r *http.Request, c *ember.Context, inputs []input) ([][]float32, error) {
	if inputs[0].asTokens {
		tokens := make([][]ember.Token, len(inputs))
		for i, in := range inputs {
			if !in.asTokens {
				return nil, invalid("input", "input has both texts and tokens.")
			}
			tokens[i] = in.tokens
		}
		return c.EmbedTokens(r.Context(), tokens)
	}
	texts := make([]string, len(inputs))
	for i, in := range inputs {
		if in.asTokens {
			return nil, invalid("input", "input has both texts and tokens.")
		}
		if in.text == "" {
			return nil, invalid("input", "input has an empty text.")
		}
		texts[i] = in.text
	}
	return c.Embed(r.Context(), texts)
}

func encode(vector []float32, format string) any {
	if format == "float" {
		return vector
	}
	bytes := make([]byte, 0, 4*len(vector))
	for _, number := range vector {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(number))
	}
	return base64.StdEncoding.EncodeToString(bytes)
}

package main

import (
	"encoding/json"
	"math"
	"strconv"

	"ember.example/ember"
)

// sampling holds the fields that chat completions and completions have in common.
type sampling struct {
	Model            string             `json:"model"`
	N                *int               `json:"n"`
	Stop             json.RawMessage    `json:"stop"`
	Seed             *int64             `json:"seed"`
	Temperature      *float64           `json:"temperature"`
	TopP             *float64           `json:"top_p"`
	PresencePenalty  *float64           `json:"presence_penalty"`
	FrequencyPenalty *float64           `json:"frequency_penalty"`
	LogitBias        map[string]float64 `json:"logit_bias"`
	MaxTokens        *int               `json:"max_tokens"`
	Stream           *bool              `json:"stream"`
	StreamOptions    json.RawMessage    `json:"stream_options"`
	ResponseFormat   json.RawMessage    `json:"response_format"`

	// Beyond OpenAI's fields, by the names that other servers have for them.
	TopK              *int     `json:"top_k"`
	MinP              *float64 `json:"min_p"`
	RepetitionPenalty *float64 `json:"repetition_penalty"`

	stop         []string
	includeUsage bool
}

// The most that one request may ask for.
const (
	mostChoices = 128
	mostStops   = 16
	mostTop     = 20
)

// check refuses values that are out of range.
func (s *sampling) check() (err error) {
	for _, e := range []error{
		inRange("n", s.N, 1, mostChoices),
		inRange("temperature", s.Temperature, 0, 2),
		inRange("top_p", s.TopP, 0, 1),
		inRange("presence_penalty", s.PresencePenalty, -2, 2),
		inRange("frequency_penalty", s.FrequencyPenalty, -2, 2),
		inRange("max_tokens", s.MaxTokens, 0, math.MaxInt32),
		inRange("top_k", s.TopK, 0, math.MaxInt32),
		inRange("min_p", s.MinP, 0, 1),
		inRange("repetition_penalty", s.RepetitionPenalty, 0.01, 100),
	} {
		if e != nil {
			return e
		}
	}
	if s.stop, err = stringsOf("stop", s.Stop); err != nil {
		return err
	}
	if len(s.stop) > mostStops {
		return invalid("stop", "stop has %d texts; at most %d are allowed.", len(s.stop), mostStops)
	}
	for _, text := range s.stop {
		if text == "" {
			return invalid("stop", "stop has an empty text.")
		}
	}
	if absent(s.StreamOptions) {
		return nil
	}
	if !isTrue(s.Stream) {
		return invalid("stream_options", "stream_options is allowed with stream only.")
	}
	var options struct {
		IncludeUsage *bool `json:"include_usage"`
	}
	if err := decode(s.StreamOptions, &options, rules{"include_obfuscation": ignored}, "stream_options."); err != nil {
		return err
	}
	s.includeUsage = isTrue(options.IncludeUsage)
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }

// or gives what a pointer points to, or a default.
func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// choices is the number of answers to each prompt.
func (s *sampling) choices() int { return or(s.N, 1) }

// seedOf gives choice i of a request its seed; without one in the request each is drawn at random.
func (s *sampling) seedOf(i int) uint64 {
	if s.Seed == nil {
		return ember.SeedRandom
	}
	seed := uint64(*s.Seed) + uint64(i)
	if seed == ember.SeedRandom {
		seed-- // this number stands for chance
	}
	return seed
}

// stages makes a sampler's stages of the fields; none: the likeliest token is taken. They come in the order of OpenAI's
// description: logits are changed first, then the temperature applies, and then candidates are narrowed.
func (s *sampling) stages(m *served) ([]ember.Stage, error) {
	var stages []ember.Stage
	if len(s.LogitBias) > 0 {
		biases := make(map[ember.Token]float32, len(s.LogitBias))
		for name, bias := range s.LogitBias {
			token, err := strconv.ParseUint(name, 10, 32)
			if err != nil || int(token) >= m.info.VocabSize {
				return nil, invalid("logit_bias", "logit_bias has the key %q, which is no token of the model: its tokens are 0 to %d.", name, m.info.VocabSize-1)
			}
			if err := inRange("logit_bias", &bias, -100, 100); err != nil {
				return nil, err
			}
			biases[ember.Token(token)] = float32(bias)
		}
		stages = append(stages, ember.Bias(biases))
	}
	repeat, frequency, presence := or(s.RepetitionPenalty, 1), or(s.FrequencyPenalty, 0), or(s.PresencePenalty, 0)
	if repeat != 1 || frequency != 0 || presence != 0 {
		stages = append(stages, ember.Penalties(m.size, float32(repeat), float32(frequency), float32(presence)), ember.PenaltiesOfGenerated())
	}
	temperature, topP := or(s.Temperature, 1), or(s.TopP, 1)
	if temperature == 0 || topP == 0 {
		if len(stages) > 0 {
			stages = append(stages, ember.Greedy())
		}
		return stages, nil
	}
	stages = append(stages, ember.Temperature(float32(temperature)))
	if k := or(s.TopK, 0); k > 0 {
		stages = append(stages, ember.TopK(k))
	}
	if topP < 1 {
		stages = append(stages, ember.TopP(float32(topP)))
	}
	if p := or(s.MinP, 0); p > 0 {
		stages = append(stages, ember.MinP(float32(p)))
	}
	return stages, nil
}

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"ember.example/ember"
)

// input is a text of a request and its tokens.
type input struct {
	text     string
	tokens   []ember.Token
	asTokens bool // the request has tokens
}

// inputs reads a field that is a text, an array of texts, an array of tokens, or an array of these. Texts get the special tokens
// that the model's texts begin and end with.
func (m *served) inputs(name string, value json.RawMessage, most int, flags ember.TextFlags) ([]input, error) {
	if absent(value) {
		return nil, invalid(name, "%s is missing.", name)
	}
	var tokens []ember.Token
	if text := strings.TrimSpace(string(value)); text != "[]" && json.Unmarshal(value, &tokens) == nil {
		one, err := m.tokensInput(name, tokens)
		return []input{one}, err
	}
	isArray := value[0] == '['
	var elements []json.RawMessage
	if !isArray {
		elements = []json.RawMessage{value}
	} else {
		if err := json.Unmarshal(value, &elements); err != nil {
			return nil, badJSON(err, name+".")
		}
		if len(elements) == 0 || len(elements) > most {
			return nil, invalid(name, "%s has %d elements; it must have 1 to %d.", name, len(elements), most)
		}
	}
	all := make([]input, len(elements))
	for i, element := range elements {
		where := name
		if isArray {
			where = fmt.Sprintf("%s[%d]", name, i)
		}
		var text string
		var err error
		switch {
		case string(element) == "null":
			return nil, invalid(where, "%s must be a string or an array of tokens.", where)
		case json.Unmarshal(element, &text) == nil:
			all[i], err = m.textInput(where, text, flags)
		case json.Unmarshal(element, &tokens) == nil:
			all[i], err = m.tokensInput(where, tokens)
			tokens = nil
		default:
			return nil, invalid(where, "%s must be a string or an array of tokens.", where)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (m *served) textInput(where, text string, flags ember.TextFlags) (input, error) {
	tokens, err := m.model.Tokenize(text, ember.AddSpecial|flags)
	if err == nil && len(tokens) == 0 {
		err = invalid(where, "%s is empty.", where)
	}
	return input{text: text, tokens: tokens}, err
}

func (m *served) tokensInput(where string, tokens []ember.Token) (input, error) {
	if len(tokens) == 0 {
		return input{}, invalid(where, "%s is empty.", where)
	}
	for _, token := range tokens {
		if int(token) >= m.info.VocabSize {
			return input{}, invalid(where, "%s has %d, which is no token of the model: its tokens are 0 to %d.", where, token, m.info.VocabSize-1)
		}
	}
	bytes, err := m.model.Detokenize(tokens, 0)
	return input{text: strings.ToValidUTF8(string(bytes), "\uFFFD"), tokens: tokens, asTokens: true}, err
}

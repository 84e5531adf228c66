package ember

/*
#include <ember.h>
*/
import "C"

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// Message is a part of a conversation.
type Message struct {
	Role             string          `json:"role"` // "system", "user", "assistant", "tool"
	Content          string          `json:"content"`
	Name             string          `json:"name,omitempty"`
	ReasoningContent string          `json:"reasoning_content,omitempty"`
	ToolCalls        json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID       string          `json:"tool_call_id,omitempty"`
}

// check refuses texts of message i that are not UTF-8, which encoding/json would change.
func (m *Message) check(i int) error {
	for _, field := range []struct{ name, text string }{
		{"Role", m.Role}, {"Content", m.Content}, {"Name", m.Name},
		{"ReasoningContent", m.ReasoningContent}, {"ToolCallID", m.ToolCallID},
	} {
		if !utf8.ValidString(field.text) {
			return &Error{Status: ErrUTF8, Message: fmt.Sprintf("%s of message %d is not UTF-8", field.name, i)}
		}
	}
	return nil
}

// ChatOption is an option of [Model.ApplyChatTemplate].
type ChatOption struct {
	apply func(*C.ember_chat_options) error
}

// chatText is an option whose value is a text.
func chatText(value string, set func(*C.ember_chat_options, *C.char, C.size_t, **C.ember_error) C.ember_status) ChatOption {
	return ChatOption{func(o *C.ember_chat_options) error {
		var cerr *C.ember_error
		text, n := chars(value)
		return check(set(o, text, n, &cerr), &cerr)
	}}
}

// chatJSON is an option whose value is JSON.
func chatJSON(what string, value any, set func(*C.ember_chat_options, *C.char, C.size_t, **C.ember_error) C.ember_status) ChatOption {
	text, err := json.Marshal(value)
	if err != nil {
		return ChatOption{func(*C.ember_chat_options) error { return invalid(what + ": " + err.Error()) }}
	}
	return chatText(string(text), set)
}

// WithTools tells the tools that the model may call: a slice, as a rule of objects with "type" and "function", that
// encoding/json can write.
func WithTools(tools any) ChatOption {
	return chatJSON("the tools", tools, func(o *C.ember_chat_options, text *C.char, n C.size_t, err **C.ember_error) C.ember_status {
		return C.ember_chat_options_set_tools(o, text, n, err)
	})
}

// WithVariables gives the template more variables, for example "enable_thinking"; which matter is the template's to say.
func WithVariables(variables map[string]any) ChatOption {
	if variables == nil {
		variables = map[string]any{}
	}
	return chatJSON("the variables", variables, func(o *C.ember_chat_options, text *C.char, n C.size_t, err **C.ember_error) C.ember_status {
		return C.ember_chat_options_set_variables(o, text, n, err)
	})
}

// WithTemplate uses this text, in the Jinja language, instead of the model's template.
func WithTemplate(template string) ChatOption {
	return chatText(template, func(o *C.ember_chat_options, text *C.char, n C.size_t, err **C.ember_error) C.ember_status {
		return C.ember_chat_options_set_template(o, text, n, err)
	})
}

// WithTemplateName chooses among the model's templates. By default it is "tool_use" when there are tools and the model has
// one of that name, and else "default".
func WithTemplateName(name string) ChatOption {
	return chatText(name, func(o *C.ember_chat_options, text *C.char, n C.size_t, err **C.ember_error) C.ember_status {
		return C.ember_chat_options_set_template_name(o, text, n, err)
	})
}

// WithGenerationPrompt says whether the text ends with what comes before an answer of the assistant; by default true.
func WithGenerationPrompt(add bool) ChatOption {
	return ChatOption{func(o *C.ember_chat_options) error {
		var cerr *C.ember_error
		return check(C.ember_chat_options_set_add_generation_prompt(o, C.bool(add), &cerr), &cerr)
	}}
}

// WithNow says what time it is for templates that write the date; by default it is the system's universal time.
func WithNow(now time.Time) ChatOption {
	return ChatOption{func(o *C.ember_chat_options) error {
		var cerr *C.ember_error
		_, offset := now.Zone()
		return check(C.ember_chat_options_set_now(o, C.int64_t(now.Unix()+int64(offset)), &cerr), &cerr)
	}}
}

// ApplyChatTemplate gives the text of a conversation as the model was trained on it. It spells control tokens, and BOS where
// the template says so: tokenize it with [ParseSpecial] alone. Texts of users that spell control tokens become these tokens then;
// [Model.TokenizeChat] keeps them apart. A model without a template gives [ErrUnsupported], and a message with a text that
// is not UTF-8 [ErrUTF8].
func (m *Model) ApplyChatTemplate(messages []Message, options ...ChatOption) (string, error) {
	text, err := messagesJSON(messages)
	if err != nil {
		return "", err
	}
	return m.ApplyChatTemplateJSON(text, options...)
}

// TokenizeChat gives the tokens of what [Model.ApplyChatTemplate] writes. No text of a message or tool can spell a control token.
func (m *Model) TokenizeChat(messages []Message, options ...ChatOption) ([]Token, error) {
	text, err := messagesJSON(messages)
	if err != nil {
		return nil, err
	}
	var tokens []Token
	err = m.withChat(options, func(p *C.ember_model, o *C.ember_chat_options) error {
		var cerr *C.ember_error
		tokens, err = fill(len(text)/2+256, func(buffer []Token, needed *C.size_t) error {
			return check(C.ember_chat_tokenize(p, elements[C.char](text), C.size_t(len(text)), o,
				elements[C.uint32_t](buffer), C.size_t(len(buffer)), needed, &cerr), &cerr)
		})
		return err
	})
	return tokens, err
}

func messagesJSON(messages []Message) ([]byte, error) {
	if messages == nil {
		messages = []Message{}
	}
	for i := range messages {
		if err := messages[i].check(i); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(messages)
	if err != nil {
		return nil, invalid("the messages: " + err.Error())
	}
	return text, nil
}

// withChat lends the library's model and an options object to f.
func (m *Model) withChat(options []ChatOption, f func(*C.ember_model, *C.ember_chat_options) error) error {
	p, err := m.h.use()
	if err != nil {
		return err
	}
	defer m.h.done()
	var cerr *C.ember_error
	var o *C.ember_chat_options
	if err := check(C.ember_chat_options_new(&o, &cerr), &cerr); err != nil {
		return err
	}
	defer C.ember_chat_options_free(o)
	for _, option := range options {
		if err := applied(option.apply, o); err != nil {
			return err
		}
	}
	return f(p, o)
}

// ApplyChatTemplateJSON is ApplyChatTemplate for messages that are a JSON array already, perhaps with what [Message] lacks.
func (m *Model) ApplyChatTemplateJSON(messages []byte, options ...ChatOption) (string, error) {
	var text []byte
	err := m.withChat(options, func(p *C.ember_model, o *C.ember_chat_options) (err error) {
		var cerr *C.ember_error
		text, err = fill(2*len(messages)+256, func(buffer []byte, needed *C.size_t) error {
			return check(C.ember_chat_apply_template(p, elements[C.char](messages), C.size_t(len(messages)), o,
				elements[C.uint8_t](buffer), C.size_t(len(buffer)), needed, &cerr), &cerr)
		})
		return err
	})
	return string(text), err
}

// ChatTemplate gives the text of the model's chat template of this name; "" is the default one's.
func (m *Model) ChatTemplate(name string) (string, error) {
	p, err := m.h.use()
	if err != nil {
		return "", err
	}
	defer m.h.done()
	text, err := fill(4096, func(buffer []byte, needed *C.size_t) error {
		var cerr *C.ember_error
		start, n := chars(name)
		return check(C.ember_model_chat_template(p, start, n, elements[C.uint8_t](buffer), C.size_t(len(buffer)), needed, &cerr), &cerr)
	})
	return string(text), err
}

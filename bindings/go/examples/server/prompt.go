package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ember.example/ember"
)

// message is an element of a chat request's messages.
type message struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	Name             string          `json:"name"`
	ReasoningContent string          `json:"reasoning_content"`
	ToolCalls        json.RawMessage `json:"tool_calls"`
	ToolCallID       string          `json:"tool_call_id"`
}

// chatPrompt is what a conversation is for the model.
type chatPrompt struct {
	text          string
	tokens        []ember.Token
	options       []ember.ChatOption // that it was made with
	parsed        bool               // the reply may have thoughts or calls
	calls         *ember.Constraint  // what calls follow; nil: nothing
	offered       bool               // whether there are tools to call
	thinkingClose string             // the mark after the thought that the prompt ends in, if it does
}

var messageRules = messageToolRules.with(rules{
	"annotations": ignored, // clients send answers back as they came
	"refusal":     refused("this server's models refuse in plain text", `""`),
	"audio":       refused("this server reads text"),
})

// chatPrompt makes the tokens that the model goes on from.
func (m *served) chatPrompt(r *chatRequest) (*chatPrompt, error) {
	if !m.canChat {
		return nil, invalid("model", "The model %s has no chat template; use /v1/completions, or start the server with -chat-template.", m.name)
	}
	if len(r.Messages) == 0 {
		return nil, invalid("messages", "messages must have at least one message.")
	}
	messages := make([]ember.Message, len(r.Messages))
	for i, text := range r.Messages {
		path := fmt.Sprintf("messages[%d].", i)
		var from message
		if err := decode(text, &from, messageRules, path); err != nil {
			return nil, err
		}
		role, err := roleOf(from.Role, path)
		if err != nil {
			return nil, err
		}
		calls, err := m.calls(from.ToolCalls, path)
		if err != nil {
			return nil, err
		}
		content := ""
		if calls == nil || !absent(from.Content) {
			if content, err = contentOf(from.Content, path); err != nil {
				return nil, err
			}
		}
		messages[i] = ember.Message{Role: role, Content: content, Name: from.Name, ReasoningContent: from.ReasoningContent,
			ToolCalls: calls, ToolCallID: from.ToolCallID}
	}
	if err := m.checkSaidIn(r.TemplateVariables, "chat_template_kwargs"); err != nil {
		return nil, err
	}
	options, offered, err := m.toolOptions(&r.toolRequest)
	if err != nil {
		return nil, err
	}
	if len(r.TemplateVariables) > 0 {
		options = append(options, ember.WithVariables(r.TemplateVariables))
	}
	if m.template != "" {
		options = append(options, ember.WithTemplate(m.template))
	}
	text, err := m.model.ApplyChatTemplate(messages, options...)
	if errors.Is(err, ember.ErrInvalidArgument) { // the template refuses the conversation
		return nil, invalid("messages", "The model's chat template refuses these messages: %s", err)
	}
	if err != nil {
		return nil, err
	}
	// A user's text can spell no control token here.
	tokens, err := m.model.TokenizeChat(messages, options...)
	if err != nil {
		return nil, err
	}
	prompt := &chatPrompt{text: text, tokens: tokens, options: options, parsed: true}
	reply, err := m.newReply(prompt)
	if err != nil {
		return nil, err
	}
	defer reply.close()
	format, err := reply.parser.Format()
	if err != nil {
		return nil, err
	}
	if offered && format.Calls == "" {
		return nil, unsupported("tools", "How the model %s writes calls is not known from its chat template.", m.name)
	}
	prompt.parsed, prompt.offered = offered || format.ThinkingOpen != "", offered
	if offered {
		prompt.calls, err = m.model.ChatConstraint(text, options...)
		if errors.Is(err, ember.ErrUnsupported) || errors.Is(err, ember.ErrInvalidArgument) {
			return nil, unsupported("tools", "Calls cannot be held to these tools: %s", err)
		}
		if err != nil {
			return nil, err
		}
		if prompt.calls == nil && r.mustHold() {
			return nil, unsupported("tools", "The model %s writes calls in a form that this server cannot hold it to: leave strict and tool_choice away.", m.name)
		}
	}
	thinks, err := reply.parser.IsThinking()
	if thinks {
		prompt.thinkingClose = format.ThinkingClose
	}
	return prompt, err
}

// roleOf gives the role as models know it: what OpenAI calls "developer" is "system" to them.
func roleOf(role, path string) (string, error) {
	switch role {
	case "developer":
		return "system", nil
	case "system", "user", "assistant", "tool":
		return role, nil
	}
	return "", invalid(path+"role", "%srole is %q; it must be \"system\", \"developer\", \"user\", \"assistant\" or \"tool\".", path, role)
}

// contentOf reads a content, which is a text or an array of parts.
func contentOf(content json.RawMessage, path string) (string, error) {
	if absent(content) {
		return "", invalid(path+"content", "%scontent is missing.", path)
	}
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(content, &parts) != nil {
		return "", invalid(path+"content", "%scontent must be a string or an array of parts.", path)
	}
	texts := make([]string, len(parts))
	for i, part := range parts {
		path := fmt.Sprintf("%scontent[%d].", path, i)
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(part, &kind) != nil || kind.Type != "text" {
			return "", unsupported(path+"type", "%stype is %q; this server reads parts of the type \"text\" only.", path, kind.Type)
		}
		var from struct {
			Type string  `json:"type"`
			Text *string `json:"text"`
		}
		if err := decode(part, &from, rules{}, path); err != nil {
			return "", err
		}
		if from.Text == nil {
			return "", invalid(path+"text", "%stext is missing.", path)
		}
		texts[i] = *from.Text
	}
	return strings.Join(texts, "\n"), nil
}

// checkSaid refuses a text that spells a control token: the template's text would have it for one, so that it could end its
// message and go on as somebody else's.
func (m *served) checkSaid(text, path string) error {
	plain, err := m.model.Tokenize(text, 0)
	if err != nil {
		return err
	}
	special, err := m.model.Tokenize(text, ember.ParseSpecial)
	if err != nil {
		return err
	}
	if !slices.Equal(plain, special) {
		where := strings.TrimSuffix(path, ".")
		return invalid(where, "%s spells a control token of the model, which only its chat template may do.", where)
	}
	return nil
}

// checkSaidIn is checkSaid for all texts in a JSON value.
func (m *served) checkSaidIn(value any, path string) error {
	switch value := value.(type) {
	case string:
		return m.checkSaid(value, path)
	case []any:
		for _, element := range value {
			if err := m.checkSaidIn(element, path); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if err := errors.Join(m.checkSaid(name, path), m.checkSaidIn(value[name], path)); err != nil {
				return err
			}
		}
	}
	return nil
}

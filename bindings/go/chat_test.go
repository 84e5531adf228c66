package ember

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestChat(t *testing.T) {
	m := bundled(t)
	equal(t, "chat", HasFeature("chat"), true)
	equal(t, "no such feature", HasFeature("cooking"), false)
	messages := []Message{{Role: "system", Content: "<Be> brief & \"kind\"."}, {Role: "user", Content: "Grüße 🌙"}}

	// The bundled model has no template.
	_, err := m.ApplyChatTemplate(messages)
	refusal(t, err, ErrUnsupported, "")
	_, err = m.ChatTemplate("")
	refusal(t, err, ErrUnsupported, "")

	const template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}" +
		"{% if tools %}{{ tools[0].function.name }}\n{% endif %}{{ mood }}{% if add_generation_prompt %}[assistant] {% endif %}"
	const start = "[system] <Be> brief & \"kind\".\n[user] Grüße 🌙\n"
	for want, options := range map[string][]ChatOption{
		start + "[assistant] ": {},
		start:                  {WithGenerationPrompt(false)},
		start + "merry":        {WithGenerationPrompt(false), WithVariables(map[string]any{"mood": "merry"})},
		start + "sum\n": {WithGenerationPrompt(false),
			WithTools([]any{map[string]any{"type": "function", "function": map[string]any{"name": "sum"}}})},
	} {
		got, err := m.ApplyChatTemplate(messages, append(options, WithTemplate(template))...)
		must(t, err)
		equal(t, "text", got, want)
	}
	year, err := m.ApplyChatTemplateJSON([]byte(`[]`), WithTemplate("{{ strftime_now('%d %H') }}"),
		WithNow(time.Date(2020, 5, 6, 7, 8, 9, 0, time.FixedZone("", 3*3600))))
	must(t, err)
	equal(t, "local time", year, "06 07")

	_, err = m.ApplyChatTemplateJSON([]byte("{"), WithTemplate(template))
	refusal(t, err, ErrInvalidArgument, "")
	_, err = m.ApplyChatTemplate(messages, WithTemplate("{{ raise_exception('no kings') }}"))
	refusal(t, err, ErrInvalidArgument, "no kings")
	_, err = m.ApplyChatTemplate(messages, WithTemplate("{% for %}"))
	refusal(t, err, ErrFormat, "")
	_, err = m.ApplyChatTemplate(messages, WithTemplateName("no such name"))
	if err == nil {
		t.Fatal("a template of no such name")
	}
	_, err = m.ApplyChatTemplate(messages, WithTools(func() {}))
	refusal(t, err, ErrInvalidArgument, "tools")
	_, err = m.ApplyChatTemplate([]Message{{Role: "user", ToolCalls: json.RawMessage("{")}})
	refusal(t, err, ErrInvalidArgument, "messages")
}

// Nil is none, for messages as for variables.
func TestChatOfNil(t *testing.T) {
	m := bundled(t)
	template := WithTemplate("{{ messages|length }}{{ mood }}")
	for _, messages := range [][]Message{nil, {}} {
		for _, variables := range []map[string]any{nil, {}} {
			text, err := m.ApplyChatTemplate(messages, template, WithVariables(variables))
			must(t, err)
			equal(t, "text", text, "0")
		}
	}
}

func TestChatTextsThatAreNotUTF8(t *testing.T) {
	m := bundled(t)
	for field, bad := range map[string]Message{
		"Role":             {Role: "us\xffer"},
		"Content":          {Role: "user", Content: "a\xc3"},
		"Name":             {Role: "user", Name: "\x80"},
		"ReasoningContent": {Role: "assistant", ReasoningContent: "\xed\xa0\x80"},
		"ToolCallID":       {Role: "tool", ToolCallID: "\xff"},
	} {
		_, err := m.ApplyChatTemplate([]Message{{Role: "user", Content: "Grüße \ufffd"}, bad}, WithTemplate("{{ messages|length }}"))
		refusal(t, err, ErrUTF8, field)
		if !strings.Contains(err.Error(), "message 1") {
			t.Errorf("%v does not name message 1", err)
		}
	}
	_, err := m.ApplyChatTemplate([]Message{{Role: "user", ToolCalls: json.RawMessage("[\"\xff\"]")}}, WithTemplate("x"))
	refusal(t, err, ErrUTF8, "")
}

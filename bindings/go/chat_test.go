package ember

import (
	"encoding/json"
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

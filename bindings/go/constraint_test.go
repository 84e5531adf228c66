package ember

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"testing"
)

func TestConstraints(t *testing.T) {
	m := bundled(t)
	if _, err := m.JSONObject(); is(err, ErrUnsupported) {
		t.Skip(err) // a library that was built without the feature
	}
	c := newContext(t)
	constrained := func(constraint *Constraint, err error) Completion {
		t.Helper()
		must(t, err)
		defer constraint.Close()
		must(t, c.Rewind(0, 0))
		sampler := newSampler(t, 5, Temperature(1.5))
		completion, err := c.Complete(context.Background(), "The king said", WithConstraint(constraint), WithSampler(sampler), WithMaxTokens(200))
		must(t, err)
		return completion
	}
	finished := func(completion Completion) string {
		t.Helper()
		equal(t, "finish", completion.Usage.Finish, FinishEOG)
		equal(t, "progress", completion.Usage.Progress, ProgressComplete)
		return completion.Text
	}

	var value struct{ Answer string }
	schema := `{"type": "object", "properties": {"answer": {"enum": ["yes", "no"]}}, "required": ["answer"], "additionalProperties": false}`
	must(t, json.Unmarshal([]byte(finished(constrained(m.JSONSchema([]byte(schema))))), &value))
	equal(t, "answer", slices.Contains([]string{"yes", "no"}, value.Answer), true)
	regex := finished(constrained(m.Regex("[a-c]{3}-[0-9]{1,3}0")))
	equal(t, "matches "+regex, regexp.MustCompile("^[a-c]{3}-[0-9]{1,3}0$").MatchString(regex), true)
	equal(t, "choice", slices.Contains([]string{"Grüße", "🌙"}, finished(constrained(m.Choices([]string{"Grüße", "🌙"})))), true)
	equal(t, "grammar", finished(constrained(m.Lark("start: \"ab\" \"cd\"\n"))), "abcd")

	// Cut off, and waiting for what does not come.
	object, err := m.JSONObject()
	must(t, err)
	must(t, c.Rewind(0, 0))
	cut, err := c.Complete(context.Background(), "The king said", WithConstraint(object), WithMaxTokens(1))
	must(t, err)
	equal(t, "progress", cut.Usage.Progress, ProgressUnfinished)
	object.Close()
	must(t, c.Rewind(0, 0))
	_, err = c.Complete(context.Background(), "The king said", WithConstraint(object))
	equal(t, "closed", err, error(ErrClosed))
	must(t, c.Rewind(0, 0))
	waits, err := m.JSONObject(WithTrigger("never said"), WithWhitespace(0))
	must(t, err)
	defer waits.Close()
	free, err := c.Complete(context.Background(), prompt, WithConstraint(waits), WithMaxTokens(4))
	must(t, err)
	equal(t, "progress", free.Usage.Progress, ProgressWaiting)
	equal(t, "free", free.Text, ", I was in")

	// The same in an engine.
	e, err := m.NewEngine()
	must(t, err)
	defer e.Close()
	choice, err := m.Choices([]string{"only this"})
	must(t, err)
	defer choice.Close()
	completion, err := e.Complete(context.Background(), prompt, WithConstraint(choice))
	must(t, err)
	equal(t, "text", completion.Text, "only this")
	equal(t, "forced", completion.Usage.ForcedTokens > 0, true)

	_, err = m.JSONSchema([]byte(`{"type": "object", "propertyNames": {"maxLength": 3}}`))
	refusal(t, err, ErrUnsupported, "propertyNames")
	_, err = m.JSONSchema([]byte(`{"type": "nothing"}`))
	refusal(t, err, ErrInvalidArgument, "")
	_, err = m.Choices(nil)
	refusal(t, err, ErrInvalidArgument, "")
}

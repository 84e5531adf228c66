package main

import (
	"encoding/json"
	"sync"

	"ember.example/ember"
)

// constraints holds those that requests ask for, by the trigger and the text of their response_format: making one takes time, and applications
// send the same again and again.
type constraints struct {
	mu   sync.Mutex
	made map[string]*ember.Constraint
}

// mostConstraints is how many are kept.
const mostConstraints = 64

// constraint makes what a response_format binds an answer to, after trigger, if there is one; nil: nothing.
func (m *served) constraint(format json.RawMessage, trigger string) (*ember.Constraint, error) {
	if absent(format) {
		return nil, nil
	}
	key := trigger + "\x00" + string(format)
	var options []ember.ConstraintOption
	if trigger != "" {
		options = append(options, ember.WithTrigger(trigger))
	}
	m.constraints.mu.Lock()
	c := m.constraints.made[key]
	m.constraints.mu.Unlock()
	if c != nil {
		return c, nil
	}
	var of struct {
		Type       string          `json:"type"`
		JSONSchema json.RawMessage `json:"json_schema"`
	}
	const path = "response_format."
	if err := decode(format, &of, rules{}, path); err != nil {
		return nil, err
	}
	var err error
	switch of.Type {
	case "text":
		return nil, nil
	case "json_object":
		c, err = m.model.JSONObject(options...)
	case "json_schema":
		var named struct {
			Schema json.RawMessage `json:"schema"`
		}
		// With strict or without, answers are what the schema says.
		if err := decode(of.JSONSchema, &named, rules{"name": ignored, "description": ignored, "strict": ignored}, path+"json_schema."); err != nil {
			return nil, err
		}
		if absent(named.Schema) {
			return nil, invalid(path+"json_schema.schema", "response_format.json_schema.schema is missing.")
		}
		c, err = m.model.JSONSchema(named.Schema, options...)
	default:
		return nil, invalid(path+"type", "response_format.type is %q; it must be \"text\", \"json_object\" or \"json_schema\".", of.Type)
	}
	if err != nil {
		return nil, invalid("response_format", "response_format: %s", err)
	}
	m.constraints.mu.Lock()
	defer m.constraints.mu.Unlock()
	if len(m.constraints.made) >= mostConstraints {
		m.constraints.made = nil // the collector closes them, once no request has them
	}
	if m.constraints.made == nil {
		m.constraints.made = map[string]*ember.Constraint{}
	}
	m.constraints.made[key] = c
	return c, nil
}

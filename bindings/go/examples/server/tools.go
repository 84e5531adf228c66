package main

import (
	"encoding/json"
	"fmt"

	"ember.example/ember"
)

// toolRequest holds a chat request's fields about tools.
type toolRequest struct {
	Tools         []json.RawMessage `json:"tools"`
	ToolChoice    json.RawMessage   `json:"tool_choice"`
	ParallelCalls *bool             `json:"parallel_tool_calls"`
}

// toolRules are those of fields about tools that are obsolete.
var toolRules = rules{
	"functions":     refused("it is obsolete; OpenAI's API has tools instead", "[]"),
	"function_call": refused("it is obsolete; OpenAI's API has tool_choice instead", `"none"`, `"auto"`),
}

var messageToolRules = rules{"function_call": refused("it is obsolete; OpenAI's API has tool_calls instead")}

// toolOptions makes options of the chat template and of the parser of replies; offered tells whether the model may call anything.
func (m *served) toolOptions(r *toolRequest) (options []ember.ChatOption, offered bool, err error) {
	choice := "auto"
	if !absent(r.ToolChoice) && json.Unmarshal(r.ToolChoice, &choice) != nil || choice == "required" {
		// A call that the model is not held to may not come, which would be a wrong answer without a word.
		return nil, false, unsupported("tool_choice", "tool_choice may be \"auto\" or \"none\": this server does not hold a model to calling yet.")
	}
	if choice != "auto" && choice != "none" {
		return nil, false, invalid("tool_choice", "tool_choice is %q; it must be \"auto\" or \"none\".", choice)
	}
	tools := make([]any, len(r.Tools))
	for i, text := range r.Tools {
		path := fmt.Sprintf("tools[%d].", i)
		var tool struct {
			Type     string          `json:"type"`
			Function json.RawMessage `json:"function"`
		}
		if err := decode(text, &tool, rules{}, path); err != nil {
			return nil, false, err
		}
		if tool.Type != "function" {
			return nil, false, unsupported(path+"type", "%stype is %q; this server knows tools of the type \"function\" only.", path, tool.Type)
		}
		var function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		}
		strict := rules{"strict": refused("this server does not hold calls to their schema yet", "false")}
		if err := decode(tool.Function, &function, strict, path+"function."); err != nil {
			return nil, false, err
		}
		if function.Name == "" {
			return nil, false, invalid(path+"function.name", "%sfunction.name is missing.", path)
		}
		if err := json.Unmarshal(text, &tools[i]); err != nil {
			return nil, false, badJSON(err, path)
		}
	}
	if len(tools) == 0 || choice == "none" {
		return nil, false, nil
	}
	if err := m.checkSaidIn(tools, "tools"); err != nil {
		return nil, false, err
	}
	return []ember.ChatOption{ember.WithTools(r.Tools), ember.WithParallelCalls(or(r.ParallelCalls, true))}, true, nil
}

// calls reads the tool_calls of a message, as templates take them: with arguments that are an object.
func (m *served) calls(text json.RawMessage, path string) (json.RawMessage, error) {
	if absent(text) {
		return nil, nil
	}
	path += "tool_calls"
	var calls []json.RawMessage
	if json.Unmarshal(text, &calls) != nil {
		return nil, invalid(path, "%s must be an array.", path)
	}
	type function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	type call struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	all := make([]call, len(calls))
	for i, text := range calls {
		path := fmt.Sprintf("%s[%d].", path, i)
		if err := decode(text, &all[i], rules{"index": ignored}, path); err != nil {
			return nil, err
		}
		var arguments string
		var object map[string]any
		f := &all[i].Function
		if json.Unmarshal(f.Arguments, &arguments) != nil || json.Unmarshal([]byte(arguments), &object) != nil {
			return nil, invalid(path+"function.arguments", "%sfunction.arguments must be a string with a JSON object in it.", path)
		}
		f.Arguments = json.RawMessage(arguments)
		if err := m.checkSaidIn([]any{f.Name, all[i].ID, object}, path); err != nil {
			return nil, err
		}
	}
	return json.Marshal(all)
}

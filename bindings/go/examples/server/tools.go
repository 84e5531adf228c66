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
	choice, err := toolChoice(r.ToolChoice)
	if err != nil {
		return nil, false, err
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
			Strict      *bool           `json:"strict"`
		}
		if err := decode(tool.Function, &function, rules{}, path+"function."); err != nil {
			return nil, false, err
		}
		if function.Name == "" {
			return nil, false, invalid(path+"function.name", "%sfunction.name is missing.", path)
		}
		if err := json.Unmarshal(text, &tools[i]); err != nil {
			return nil, false, badJSON(err, path)
		}
	}
	if len(tools) == 0 && choice != "auto" && choice != "none" {
		return nil, false, invalid("tool_choice", "tool_choice is %q, but there are no tools.", choice)
	}
	if len(tools) == 0 || choice == "none" {
		return nil, false, nil
	}
	return []ember.ChatOption{ember.WithTools(r.Tools), ember.WithToolChoice(choice), ember.WithParallelCalls(or(r.ParallelCalls, true))}, true, nil
}

// toolChoice gives "auto", "none", "required" or the name of a function.
func toolChoice(text json.RawMessage) (string, error) {
	if absent(text) {
		return "auto", nil
	}
	var choice string
	if json.Unmarshal(text, &choice) == nil {
		if choice != "auto" && choice != "none" && choice != "required" {
			return "", invalid("tool_choice", "tool_choice is %q; it must be \"auto\", \"none\", \"required\" or an object that names a function.", choice)
		}
		return choice, nil
	}
	var named struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := decode(text, &named, rules{}, "tool_choice."); err != nil {
		return "", err
	}
	if named.Type != "function" || named.Function.Name == "" {
		return "", invalid("tool_choice", "tool_choice must be of the type \"function\" and name one.")
	}
	return named.Function.Name, nil
}

// mustHold tells whether the request wants its calls held to something: to be made, or to the schema of a tool.
func (r *toolRequest) mustHold() bool {
	choice, _ := toolChoice(r.ToolChoice)
	for _, text := range r.Tools {
		var tool struct {
			Function struct {
				Strict bool `json:"strict"`
			} `json:"function"`
		}
		if json.Unmarshal(text, &tool) == nil && tool.Function.Strict {
			return choice != "none"
		}
	}
	return choice != "auto" && choice != "none"
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
	}
	return json.Marshal(all)
}

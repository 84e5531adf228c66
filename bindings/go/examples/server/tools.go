package main

// Tools are refused until the library reads calls out of a model's text: a tool that is offered and never called would be a
// wrong answer without a word.
const noTools = "this server does not do tool calls yet"

// toolRules are those of a chat request's fields about tools. Where no tool is offered, the others mean nothing.
var toolRules = rules{
	"tools":               refused(noTools, "[]"),
	"tool_choice":         refused(noTools, `"none"`, `"auto"`),
	"parallel_tool_calls": refused(noTools, "true", "false"),
	"functions":           refused("it is obsolete; OpenAI's API has tools instead", "[]"),
	"function_call":       refused("it is obsolete; OpenAI's API has tool_choice instead", `"none"`, `"auto"`),
}

// messageToolRules are those of a message's fields about tools.
var messageToolRules = rules{
	"tool_calls":    refused(noTools, "[]"),
	"tool_call_id":  refused(noTools),
	"function_call": refused(noTools),
}

package main

// schemaRules are those of the fields that bind an answer to a form. They are refused until the library has constraints.
var schemaRules = rules{
	"response_format": refused("this server does not bind answers to a schema yet", `{"type":"text"}`),
}

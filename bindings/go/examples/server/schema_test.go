package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
)

// Every answer is what the schema says, of many at once with several schemas, at a temperature that makes nonsense of texts.
func TestSchemas(t *testing.T) {
	s := newTestServer(t, nil)
	var group sync.WaitGroup
	for i := range 24 {
		group.Add(1)
		go func() {
			defer group.Done()
			schema := fmt.Sprintf(`{"type": "object", "properties": {"kind%d": {"enum": ["a", "b"]}, "count": {"type": "integer", "minimum": 0, "maximum": 9}},
				"required": ["kind%d", "count"], "additionalProperties": false}`, i%3, i%3)
			body := fmt.Sprintf(`{"model": "toy", "messages": [{"role": "user", "content": "Tale %d."}], "seed": %d, "temperature": 2, "max_tokens": 300,
				"response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": true, "schema": %s}}}`, i, i, schema)
			status, answer, _ := s.post(chatPath, body)
			if status != 200 {
				t.Errorf("status %d: %v", status, answer)
				return
			}
			var value map[string]any
			text := at(answer, "choices", 0, "message", "content").(string)
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				t.Errorf("%q: %v", text, err)
				return
			}
			kind, count := value[fmt.Sprintf("kind%d", i%3)], value["count"]
			if number, ok := count.(float64); len(value) != 2 || kind != "a" && kind != "b" || !ok || number != float64(int(number)) || number < 0 || number > 9 {
				t.Errorf("%q", text)
			}
			if reason := at(answer, "choices", 0, "finish_reason"); reason != "stop" {
				t.Errorf("finish_reason %v", reason)
			}
		}()
	}
	group.Wait()
	equal(t, "made once each", len(s.models[0].constraints.made), 3)
	object := s.ok(textPath, `{"model": "toy", "prompt": "a", "max_tokens": 400, "seed": 3, "response_format": {"type": "json_object"}}`)
	if at(object, "choices", 0, "finish_reason") == "stop" {
		must(t, json.Unmarshal([]byte(at(object, "choices", 0, "text").(string)), &map[string]any{}))
	}
}

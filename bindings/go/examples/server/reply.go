package main

import "ember.example/ember"

// reply reads what the model says in one choice.
type reply struct {
	parser *ember.ChatParser // nil: all of it is the answer
	calls  int               // complete ones so far
}

// piece is a part of a reply: text of the answer, of a thought before it, or a call of a tool.
type piece struct {
	content, thinking string
	call              *toolCall
}

// toolCall is a call of a tool in an answer.
type toolCall struct {
	Index    *int         `json:"index,omitempty"` // in chunks
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON
}

// newReply prepares to read a choice of an answer to prompt.
func (m *served) newReply(prompt *chatPrompt) (*reply, error) {
	if !prompt.parsed {
		return &reply{}, nil
	}
	parser, err := m.model.NewChatParser(prompt.text, prompt.options...)
	return &reply{parser: parser}, err
}

// read gives the pieces that an event completes. A call is a piece when it is complete: one that breaks off is text.
func (r *reply) read(event ember.Event) ([]piece, error) {
	if r.parser == nil {
		if event.Text == "" {
			return nil, nil
		}
		return []piece{{content: event.Text}}, nil
	}
	said, err := r.parser.Push(event.Text)
	if err == nil && event.Kind == ember.EventEnd {
		var rest []ember.ReplyEvent
		rest, err = r.parser.Finish(event.Finish)
		said = append(said, rest...)
	}
	var pieces []piece
	for _, e := range said {
		switch e.Kind {
		case ember.ReplyText, ember.ReplyCallBroken:
			pieces = append(pieces, piece{content: e.Text})
		case ember.ReplyThinking:
			pieces = append(pieces, piece{thinking: e.Text})
		case ember.ReplyCallDone:
			index := r.calls
			r.calls++
			pieces = append(pieces, piece{call: &toolCall{&index, e.ID, "function", functionCall{e.Name, e.Text}}})
		}
	}
	return pieces, err
}

// finishReason says why the reply ended.
func (r *reply) finishReason(event ember.Event) string {
	reason := finishReason(event)
	if reason == "stop" && r.calls > 0 {
		return "tool_calls"
	}
	return reason
}

func (r *reply) close() {
	if r.parser != nil {
		r.parser.Close()
	}
}

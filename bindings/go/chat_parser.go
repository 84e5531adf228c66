package ember

/*
#include <ember.h>
*/
import "C"

// ReplyKind is what a [ReplyEvent] is.
type ReplyKind int32

const (
	ReplyText          ReplyKind = 1 // more of the answer: Text
	ReplyThinking      ReplyKind = 2 // more of what the model thinks before it answers: Text
	ReplyCallBegin     ReplyKind = 3 // a call of a tool begins: Index, ID and Name
	ReplyCallArguments ReplyKind = 4 // more of the call's arguments: Index, and JSON as Text
	ReplyCallDone      ReplyKind = 5 // the call is complete: Index, ID, Name, and all arguments as Text
	// ReplyCallBroken says that what began as a call is none: Index, Reason, and as Text what the model wrote, which belongs to the
	// answer. Earlier events of this call are void.
	ReplyCallBroken ReplyKind = 6
)

// ReplyEvent is a piece of a reply.
type ReplyEvent struct {
	Kind   ReplyKind
	Text   string
	Name   string       // of the tool that is called
	ID     string       // of the call
	Reason string       // why a call is broken
	Index  int          // of the call among those of the reply
	Finish FinishReason // of ReplyEnd, else FinishNone
}

// ReplyFormat is how a model writes thoughts and calls, as its chat template says.
type ReplyFormat struct {
	Calls            string // the form of calls, "hermes" for example; "": none is known, calls come as text
	ThinkingOpen     string // the mark before a thought; "": there are none
	ThinkingClose    string // the mark after it
	ThinkingVariable string // of the template, which switches thinking; "": there is none
	ThinkingOn       string // its value in JSON with which the model thinks
	ThinkingOff      string // and with which it does not
}

// ChatParser reads one reply of a model while it streams: the answer, what is thought before it, and calls of tools. One goroutine
// at a time. Have the generation write control tokens ([WithRenderSpecial]), of which marks often are made.
type ChatParser struct {
	h *handle[*C.ember_chat_parser]
}

// WithToolChoice says for [Model.NewChatParser] whether the model calls tools: "auto", as by default, "none", "required", or a tool's
// name. With another one than "auto" what does not obey is broken.
func WithToolChoice(choice string) ChatOption {
	return chatText(choice, func(o *C.ember_chat_options, text *C.char, n C.size_t, err **C.ember_error) C.ember_status {
		return C.ember_chat_options_set_tool_choice(o, text, n, err)
	})
}

// WithParallelCalls says for [Model.NewChatParser] whether a reply may have several calls; by default true.
func WithParallelCalls(parallel bool) ChatOption {
	return ChatOption{func(o *C.ember_chat_options) error {
		var cerr *C.ember_error
		return check(C.ember_chat_options_set_parallel_calls(o, C.bool(parallel), &cerr), &cerr)
	}}
}

// NewChatParser prepares to read a reply to prompt, the text that [Model.ApplyChatTemplate] gave, with the same options.
func (m *Model) NewChatParser(prompt string, options ...ChatOption) (*ChatParser, error) {
	var parser *C.ember_chat_parser
	err := m.withChat(options, func(p *C.ember_model, o *C.ember_chat_options) error {
		var cerr *C.ember_error
		text, n := chars(prompt)
		return check(C.ember_chat_parser_new(p, o, text, n, &parser, &cerr), &cerr)
	})
	if err != nil {
		return nil, err
	}
	c := &ChatParser{newHandle(parser, func(p *C.ember_chat_parser) { C.ember_chat_parser_free(p) })}
	own(c, c.h)
	return c, nil
}

// Push takes more of the reply, the text of an [Event], and gives the pieces that are certain now.
func (c *ChatParser) Push(text string) ([]ReplyEvent, error) {
	return c.events(func(p *C.ember_chat_parser, err **C.ember_error) C.ember_status {
		start, n := chars(text)
		return C.ember_chat_parser_push(p, start, n, err)
	})
}

// Finish ends the reply and gives the pieces that waited for more.
func (c *ChatParser) Finish(reason FinishReason) ([]ReplyEvent, error) {
	return c.events(func(p *C.ember_chat_parser, err **C.ember_error) C.ember_status {
		return C.ember_chat_parser_finish(p, C.int32_t(reason), err)
	})
}

func (c *ChatParser) events(feed func(*C.ember_chat_parser, **C.ember_error) C.ember_status) (all []ReplyEvent, err error) {
	p, err := c.h.useAlone()
	if err != nil {
		return nil, err
	}
	defer c.h.done()
	var cerr *C.ember_error
	if err := check(feed(p, &cerr), &cerr); err != nil {
		return nil, err
	}
	for {
		event := C.ember_chat_event{struct_size: C.sizeof_ember_chat_event}
		if err := check(C.ember_chat_parser_next(p, &event, &cerr), &cerr); err != nil {
			return all, err
		}
		if event.kind == 0 {
			return all, nil
		}
		all = append(all, replyEvent(&event))
	}
}

// replyEvent copies an event of the library's.
func replyEvent(event *C.ember_chat_event) ReplyEvent {
	return ReplyEvent{
		Kind:   ReplyKind(event.kind),
		Text:   C.GoStringN(event.text, C.int(event.text_len)),
		Name:   C.GoStringN(event.name, C.int(event.name_len)),
		ID:     C.GoStringN(event.id, C.int(event.id_len)),
		Reason: C.GoStringN(event.reason, C.int(event.reason_len)),
		Index:  int(event.index),
		Finish: FinishReason(event.finish_reason),
	}
}

// IsThinking tells whether the reply is inside a thought now.
func (c *ChatParser) IsThinking() (bool, error) {
	p, err := c.h.useAlone()
	if err != nil {
		return false, err
	}
	defer c.h.done()
	var cerr *C.ember_error
	var out C.uint32_t
	err = check(C.ember_chat_parser_is_thinking(p, &out, &cerr), &cerr)
	return out != 0, err
}

// Format tells how the model writes replies.
func (c *ChatParser) Format() (ReplyFormat, error) {
	p, err := c.h.useAlone()
	if err != nil {
		return ReplyFormat{}, err
	}
	defer c.h.done()
	var cerr *C.ember_error
	out := C.ember_chat_format{struct_size: C.sizeof_ember_chat_format}
	if err := check(C.ember_chat_parser_format(p, &out, &cerr), &cerr); err != nil {
		return ReplyFormat{}, err
	}
	return ReplyFormat{
		Calls:            C.GoStringN(out.name, C.int(out.name_len)),
		ThinkingOpen:     C.GoStringN(out.thinking_open, C.int(out.thinking_open_len)),
		ThinkingClose:    C.GoStringN(out.thinking_close, C.int(out.thinking_close_len)),
		ThinkingVariable: C.GoStringN(out.thinking_variable, C.int(out.thinking_variable_len)),
		ThinkingOn:       C.GoStringN(out.thinking_on, C.int(out.thinking_on_len)),
		ThinkingOff:      C.GoStringN(out.thinking_off, C.int(out.thinking_off_len)),
	}, nil
}

// Close frees the parser.
func (c *ChatParser) Close() error {
	c.h.close()
	return nil
}

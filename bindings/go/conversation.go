package ember

/*
#include "callback.h"

extern uint32_t emberGoFull(uint32_t n_tokens, uint32_t n_ctx, uint32_t n_turns, void *user_data);
*/
import "C"

import (
	"context"
	"encoding/json"
	"iter"
	"math"
	"runtime"
	"time"
	"unsafe"
)

// ReplyEnd is the last event of a reply of a [Conversation]: Finish says why it ended.
const ReplyEnd ReplyKind = C.EMBER_CHAT_EVENT_END

// WhenFull is what happens where a conversation becomes longer than its sequence.
type WhenFull int32

const (
	DropOldest         WhenFull = C.EMBER_WHEN_FULL_DROP_OLDEST           // whole turns go, the oldest first; the system text and the first turn stay
	DropOldestAndFirst WhenFull = C.EMBER_WHEN_FULL_DROP_OLDEST_AND_FIRST // the first turn may go too
	RefuseWhenFull     WhenFull = C.EMBER_WHEN_FULL_REFUSE                // the reply is ErrContextFull
)

// WithThinking says whether the model thinks before it answers; by default as the template has it.
func WithThinking(thinking bool) ChatOption {
	mode := C.EMBER_THINKING_OFF
	if thinking {
		mode = C.EMBER_THINKING_ON
	}
	return ChatOption{func(o *C.ember_chat_options) error {
		var cerr *C.ember_error
		return check(C.ember_chat_options_set_thinking(o, C.int32_t(mode), &cerr), &cerr)
	}}
}

// WithStrictTools says whether a [Conversation] constrains calls to the schemas of the tools, so that they always parse; by default true.
func WithStrictTools(strict bool) ChatOption {
	return ChatOption{func(o *C.ember_chat_options) error {
		var cerr *C.ember_error
		return check(C.ember_chat_options_set_strict_tools(o, C.bool(strict), &cerr), &cerr)
	}}
}

// ConversationUsage is what a reply took.
type ConversationUsage struct {
	PromptTokens    int           // of the whole conversation, as it was when the reply began
	ReusedTokens    int           // of these, what the sequence held already: the others were run
	GeneratedTokens int           // generated, an end-of-generation token not counted
	ThinkingTokens  int           // of these, those of thoughts
	DroppedTurns    int           // that were dropped before the reply, since the context was full
	ForgottenTokens int           // that the sequence forgot with them, without running what stands after them again
	Prefill         time.Duration // spent on the prompt
	Decode          time.Duration // spent on the generated tokens
	Finish          FinishReason
}

// Conversation is a conversation with a model, in one sequence of a context. A reply runs only what the sequence does not hold.
// Text from a user can never spell a control token. One goroutine at a time.
type Conversation struct {
	h        *handle[*C.ember_conversation]
	context  *Context
	sampler  *Sampler
	switcher *tokenOwner
	full     *fullFunc
}

// tokenOwner has a token that a conversation and its forks share closed when none of them is left.
type tokenOwner struct{ token *cancelToken }

// NewConversation begins a conversation in a sequence of the context ([WithSequence]). system is the system text; "": none.
func (c *Context) NewConversation(system string, chat []ChatOption, generate ...GenerateOption) (*Conversation, error) {
	text, n := chars(system)
	return c.newConversation(chat, generate, func(p *C.ember_context, o *C.ember_chat_options, g *C.ember_generate_options, out **C.ember_conversation, err **C.ember_error) C.ember_status {
		return C.ember_conversation_new(p, text, n, o, g, out, err)
	})
}

// LoadConversation makes a conversation of what [Conversation.Save] gave, with options of its own. Where the sequence does not hold what it
// held, the next reply runs it again.
func (c *Context) LoadConversation(saved []byte, chat []ChatOption, generate ...GenerateOption) (*Conversation, error) {
	return c.newConversation(chat, generate, func(p *C.ember_context, o *C.ember_chat_options, g *C.ember_generate_options, out **C.ember_conversation, err **C.ember_error) C.ember_status {
		return C.ember_conversation_load(p, elements[C.uint8_t](saved), C.size_t(len(saved)), o, g, out, err)
	})
}

func (c *Context) newConversation(chat []ChatOption, generate []GenerateOption,
	call func(*C.ember_context, *C.ember_chat_options, *C.ember_generate_options, **C.ember_conversation, **C.ember_error) C.ember_status) (*Conversation, error) {
	config, err := newGenerateConfig(generate)
	if err != nil {
		return nil, err
	}
	defer config.free()
	var cerr *C.ember_error
	var o *C.ember_chat_options
	if err := check(C.ember_chat_options_new(&o, &cerr), &cerr); err != nil {
		return nil, err
	}
	defer C.ember_chat_options_free(o)
	for _, option := range chat {
		if err := applied(option.apply, o); err != nil {
			return nil, err
		}
	}
	token, err := newCancelToken()
	if err != nil {
		return nil, err
	}
	var p *C.ember_conversation
	err = check(C.ember_generate_options_set_cancel_token(config.options, token.pointer, &cerr), &cerr)
	if err == nil {
		err = c.with(func(context *C.ember_context) error {
			return check(call(context, o, config.options, &p, &cerr), &cerr)
		})
	}
	if err != nil {
		token.close()
		return nil, err
	}
	owner := &tokenOwner{token}
	own(owner, token)
	return c.conversation(p, config.sampler, owner), nil
}

func (c *Context) conversation(p *C.ember_conversation, sampler *Sampler, owner *tokenOwner) *Conversation {
	full := &fullFunc{}
	conversation := &Conversation{
		h: newHandle(p, func(p *C.ember_conversation) {
			C.ember_conversation_free(p)
			full.set(nil)
		}),
		context:  c,
		sampler:  sampler,
		switcher: owner,
		full:     full,
	}
	own(conversation, conversation.h)
	return conversation
}

// Add adds messages without having them answered: the results of tools, say ([Message]), or what was said elsewhere. An error is that of
// the first which is refused; those before it are added.
func (c *Conversation) Add(messages ...any) error {
	for _, message := range messages {
		data, err := json.Marshal(message)
		if err != nil {
			return invalid("message: " + err.Error())
		}
		err = c.with(func(p *C.ember_conversation) error {
			var cerr *C.ember_error
			return check(C.ember_conversation_add(p, elements[C.char](data), C.size_t(len(data)), &cerr), &cerr)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Send adds a user's message and yields the reply's events; "": it has the messages answered that were added. The last event is a
// [ReplyEnd], or an error comes. Leaving the loop early gives the reply up: it becomes no message. Ending ctx ends the reply, with an
// error that is [ErrCancelled] beside the last event.
func (c *Conversation) Send(ctx context.Context, text string) iter.Seq2[ReplyEvent, error] {
	return func(yield func(ReplyEvent, error) bool) {
		if ctx.Err() != nil {
			yield(ReplyEvent{}, cancelled(ctx))
			return
		}
		stop := watch(ctx, c.switcher.token)
		defer func() {
			stop()
			if p, closed := c.switcher.token.use(); ctx.Err() != nil && closed == nil {
				C.ember_cancel_token_reset(p)
				c.switcher.token.done()
			} else if closed == nil {
				c.switcher.token.done()
			}
		}()
		if err := c.begin(text); err != nil {
			yield(ReplyEvent{}, err)
			return
		}
		var raised C.uintptr_t // how a stage that is a Go function failed
		for {
			if ctx.Err() != nil { // the goroutine that watches may come later
				if p, closed := c.switcher.token.use(); closed == nil {
					C.ember_cancel_token_cancel(p)
					c.switcher.token.done()
				}
			}
			event, err := c.next(&raised)
			if err == nil && event.Kind == ReplyEnd && event.Finish == FinishCancelled {
				err = settled(raised, cancelled(ctx))
				raised = 0
			}
			if goOn := yield(event, err); err != nil || event.Kind == ReplyEnd || !goOn {
				_ = c.with(func(p *C.ember_conversation) error {
					var cerr *C.ember_error
					return check(C.ember_conversation_abandon(p, &cerr), &cerr)
				})
				return
			}
		}
	}
}

func (c *Conversation) begin(text string) error {
	var sampler *C.ember_sampler
	if c.sampler != nil {
		var err error
		if sampler, err = c.sampler.h.use(); err != nil {
			return err
		}
		defer c.sampler.h.done()
	}
	return c.with(func(p *C.ember_conversation) error {
		var cerr *C.ember_error
		start, n := chars(text)
		err := check(C.ember_conversation_begin(p, start, n, sampler, &cerr), &cerr)
		return c.full.settle(err)
	})
}

func (c *Conversation) next(raised *C.uintptr_t) (event ReplyEvent, err error) {
	err = c.with(func(p *C.ember_conversation) error {
		var cerr *C.ember_error
		out := C.ember_chat_event{struct_size: C.sizeof_ember_chat_event}
		var failed C.uintptr_t
		err := check(C.ember_go_reply(p, &out, &failed, &cerr), &cerr)
		if failed != 0 {
			*raised = failed
		}
		if err != nil {
			err, *raised = settled(*raised, err), 0
			return err
		}
		event = replyEvent(&out)
		return nil
	})
	return event, err
}

// with lends the library's conversation, and its context, to f.
func (c *Conversation) with(f func(*C.ember_conversation) error) error {
	p, err := c.h.useAlone()
	if err != nil {
		return err
	}
	defer c.h.done()
	if err := c.context.h.lend(); err != nil {
		return err
	}
	defer c.context.h.done()
	defer runtime.KeepAlive(c)
	return f(p)
}

// Undo forgets the last turn: the user's last message and all after it.
func (c *Conversation) Undo() error {
	return c.with(func(p *C.ember_conversation) error {
		var cerr *C.ember_error
		return check(C.ember_conversation_undo(p, &cerr), &cerr)
	})
}

// Messages gives all messages so far as a JSON array, those that were dropped included.
func (c *Conversation) Messages() ([]byte, error) {
	return c.bytes(func(p *C.ember_conversation, buffer []byte, needed *C.size_t, err **C.ember_error) C.ember_status {
		return C.ember_conversation_messages(p, elements[C.uint8_t](buffer), C.size_t(len(buffer)), needed, err)
	})
}

// Save gives the conversation as bytes: its messages, and which tokens its sequence holds. Save the sequence too where it shall not be run
// again ([Context.SaveState]).
func (c *Conversation) Save() ([]byte, error) {
	return c.bytes(func(p *C.ember_conversation, buffer []byte, needed *C.size_t, err **C.ember_error) C.ember_status {
		return C.ember_conversation_save(p, elements[C.uint8_t](buffer), C.size_t(len(buffer)), needed, err)
	})
}

func (c *Conversation) bytes(call func(*C.ember_conversation, []byte, *C.size_t, **C.ember_error) C.ember_status) (all []byte, err error) {
	err = c.with(func(p *C.ember_conversation) error {
		var cerr *C.ember_error
		all, err = fill(1024, func(buffer []byte, needed *C.size_t) error {
			return check(call(p, buffer, needed, &cerr), &cerr)
		})
		return err
	})
	return all, err
}

// Fork gives the same conversation in another sequence of the context; both go on by themselves.
func (c *Conversation) Fork(sequence uint32) (fork *Conversation, err error) {
	err = c.with(func(p *C.ember_conversation) error {
		var cerr *C.ember_error
		var out *C.ember_conversation
		if err := check(C.ember_conversation_fork(p, C.uint32_t(sequence), &out, &cerr), &cerr); err != nil {
			return err
		}
		fork = c.context.conversation(out, c.sampler, c.switcher)
		return nil
	})
	return fork, err
}

// SetThinkingBudget ends a thought after so many tokens; 0: none does, as by default.
func (c *Conversation) SetThinkingBudget(tokens uint32) error {
	return c.with(func(p *C.ember_conversation) error {
		var cerr *C.ember_error
		return check(C.ember_conversation_set_thinking_budget(p, C.uint32_t(tokens), &cerr), &cerr)
	})
}

// SetToolChoice says whether replies from now on have to call a tool: "auto", "none", "required", or a tool's name. It holds until another
// choice is set.
func (c *Conversation) SetToolChoice(choice string) error {
	return c.with(func(p *C.ember_conversation) error {
		var cerr *C.ember_error
		text, n := chars(choice)
		return check(C.ember_conversation_set_tool_choice(p, text, n, &cerr), &cerr)
	})
}

// SetWhenFull says what happens where the conversation becomes longer than its sequence, and how many tokens must be free for a
// reply. 0: as many as the reply may have, and a quarter of the sequence at most.
func (c *Conversation) SetWhenFull(when WhenFull, reserve uint32) error {
	return c.with(func(p *C.ember_conversation) error {
		var cerr *C.ember_error
		return check(C.ember_conversation_set_when_full(p, C.int32_t(when), C.uint32_t(reserve), &cerr), &cerr)
	})
}

// fullFunc is a Go function that C has, for as long as a conversation lives.
type fullFunc struct {
	f     func(needed, size, turns int) int
	ref   unsafe.Pointer // to this, for C
	ended outcome
}

// set keeps f, which may be nil, and gives what C calls it by.
func (full *fullFunc) set(f func(needed, size, turns int) int) {
	if full.ref != nil {
		freeReference(full.ref)
		full.ref = nil
	}
	if full.f = f; f != nil {
		full.ref = newReference(full)
	}
}

// settle goes on with a panic of the function.
func (full *fullFunc) settle(err error) error {
	ended := full.ended
	full.ended = outcome{}
	return ended.settle(err)
}

//export emberGoFull
func emberGoFull(tokens, size, turns C.uint32_t, user unsafe.Pointer) C.uint32_t {
	full := referenced[*fullFunc](user)
	n := 0
	if full.ended.run(func() error {
		n = full.f(int(tokens), int(size), int(turns))
		return nil
	}) {
		return 0
	}
	return C.uint32_t(min(max(n, 0), math.MaxInt32))
}

// SetOnFull sets a function that [Conversation.Send] asks where the conversation becomes too long. It gets the number of tokens
// needed, the number that a sequence holds, and the number of turns that can be dropped. It returns how many turns are dropped,
// the oldest first. 0, or less: the reply is [ErrContextFull]. nil: as few as need be. Forks do without. f must not call
// runtime.Goexit.
func (c *Conversation) SetOnFull(f func(needed, size, turns int) int) error {
	return c.with(func(p *C.ember_conversation) error {
		var cerr *C.ember_error
		if err := check(C.ember_conversation_set_on_full(p, nil, nil, &cerr), &cerr); err != nil {
			return err
		}
		c.full.set(f)
		if f == nil {
			return nil
		}
		return check(C.ember_conversation_set_on_full(p, C.ember_full_callback(unsafe.Pointer(C.emberGoFull)), c.full.ref, &cerr), &cerr)
	})
}

// Usage tells what the last reply took.
func (c *Conversation) Usage() (usage ConversationUsage, err error) {
	err = c.with(func(p *C.ember_conversation) error {
		var cerr *C.ember_error
		out := C.ember_conversation_usage{struct_size: C.sizeof_ember_conversation_usage}
		err := check(C.ember_conversation_usage_get(p, &out, &cerr), &cerr)
		usage = ConversationUsage{
			PromptTokens:    int(out.n_prompt),
			ReusedTokens:    int(out.n_reused),
			GeneratedTokens: int(out.n_generated),
			ThinkingTokens:  int(out.n_thinking),
			DroppedTurns:    int(out.n_dropped_turns),
			ForgottenTokens: int(out.n_forgotten),
			Prefill:         time.Duration(out.prefill_ns),
			Decode:          time.Duration(out.decode_ns),
			Finish:          FinishReason(out.finish_reason),
		}
		return err
	})
	return usage, err
}

// Close frees the conversation. Its sequence keeps its tokens.
func (c *Conversation) Close() error {
	c.h.close()
	return nil
}

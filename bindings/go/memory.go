package ember

/*
#include <ember.h>
*/
import "C"

import (
	"encoding/json"
	"time"
)

// Memory holds the bytes of large buffers.
type Memory struct {
	File      uint64 // the model's files, where they are mapped: the system's to keep or to drop
	Weights   uint64 // packed weights, and files that were read
	KV        uint64 // the KV cache when it is full
	Workspace uint64 // what a context computes with
}

func memory(call func(*C.ember_memory, **C.ember_error) C.ember_status) (Memory, error) {
	var cerr *C.ember_error
	out := C.ember_memory{struct_size: C.sizeof_ember_memory}
	err := check(call(&out, &cerr), &cerr)
	return Memory{uint64(out.file), uint64(out.weights), uint64(out.kv), uint64(out.workspace)}, err
}

// EstimateMemory tells what the model at path and one context over it would take with these options, without loading it.
// Limits in the options do not count.
func EstimateMemory(path string, load []LoadOption, context []ContextOption) (Memory, error) {
	config, err := newLoadConfig(load)
	if err != nil {
		return Memory{}, err
	}
	defer config.free()
	o, err := newContextOptions(context)
	if err != nil {
		return Memory{}, err
	}
	defer C.ember_context_options_free(o)
	return memory(func(out *C.ember_memory, err **C.ember_error) C.ember_status {
		name, n := chars(path)
		return C.ember_memory_estimate(name, n, config.options, o, out, err)
	})
}

// Memory tells what the model takes; nothing of contexts.
func (m *Model) Memory() (Memory, error) {
	p, err := m.h.use()
	if err != nil {
		return Memory{}, err
	}
	defer m.h.done()
	return memory(func(out *C.ember_memory, err **C.ember_error) C.ember_status {
		return C.ember_model_memory(p, out, err)
	})
}

// Memory tells what the context takes, and its model.
func (c *Context) Memory() (out Memory, err error) {
	err = c.with(func(p *C.ember_context) (err error) {
		out, err = memory(func(out *C.ember_memory, err **C.ember_error) C.ember_status {
			return C.ember_context_memory(p, out, err)
		})
		return err
	})
	return out, err
}

// Timings holds tokens that a context ran, and how long they took. Calls that ended with an error do not count.
type Timings struct {
	Load          time.Duration // loading the model
	PrefillTokens uint64        // of calls with several tokens of a sequence: prompts
	Prefill       time.Duration
	DecodeTokens  uint64 // of calls with one token of each sequence: generation
	Decode        time.Duration
	EmbedTokens   uint64 // of texts that were embedded
	Embed         time.Duration
	ReplayTokens  uint64 // run once more for the states of recurrent layers, since their sequence was shortened
	Replay        time.Duration
}

// Timings tells what the context has done since it was made, or since ResetTimings.
func (c *Context) Timings() (timings Timings, err error) {
	err = c.with(func(p *C.ember_context) error {
		var cerr *C.ember_error
		out := C.ember_timings{struct_size: C.sizeof_ember_timings}
		err := check(C.ember_context_timings_get(p, &out, &cerr), &cerr)
		timings = Timings{
			Load:          time.Duration(out.load_ns),
			PrefillTokens: uint64(out.n_prefill),
			Prefill:       time.Duration(out.prefill_ns),
			DecodeTokens:  uint64(out.n_decode),
			Decode:        time.Duration(out.decode_ns),
			EmbedTokens:   uint64(out.n_embed),
			Embed:         time.Duration(out.embed_ns),
			ReplayTokens:  uint64(out.n_replay),
			Replay:        time.Duration(out.replay_ns),
		}
		return err
	})
	return timings, err
}

// ResetTimings sets the counters to 0; Load stays.
func (c *Context) ResetTimings() error {
	return c.with(func(p *C.ember_context) error {
		var cerr *C.ember_error
		return check(C.ember_context_timings_reset(p, &cerr), &cerr)
	})
}

// Inspect gives what the header of the model at path says, as a JSON object, and whether this build would load it;
// ember_model_inspect in ember.h lists the keys. No weight is read.
func Inspect(path string) (json.RawMessage, error) {
	return fill(16384, func(buffer []byte, needed *C.size_t) error {
		var cerr *C.ember_error
		name, n := chars(path)
		return check(C.ember_model_inspect(name, n, elements[C.uint8_t](buffer), C.size_t(len(buffer)), needed, &cerr), &cerr)
	})
}

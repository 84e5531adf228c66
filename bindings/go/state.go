package ember

/*
#include "callback.h"

extern int64_t emberGoRead(uint8_t *buffer, size_t capacity, void *user_data);
*/
import "C"

import (
	"bufio"
	"fmt"
	"io"
	"unsafe"
)

// AllSequences stands in place of a sequence's number where a state is that of the whole context.
const AllSequences = -1

// sequenceOrAll checks the number of a sequence that may be AllSequences.
func sequenceOrAll(sequence int) (C.uint32_t, error) {
	if sequence == AllSequences {
		return C.EMBER_ALL_SEQUENCES, nil
	}
	s, err := number("the sequence", sequence)
	if err == nil && s == C.EMBER_ALL_SEQUENCES {
		err = invalid(fmt.Sprintf("there is no sequence %d", sequence))
	}
	return s, err
}

// CopySequence makes sequence to the first count tokens of sequence from; what to held is gone. The two share memory until they
// differ, so this costs next to nothing: for several answers to one prompt.
func (c *Context) CopySequence(from, to, count int) error {
	n, err := numbers(named{"the sequence", from}, named{"the sequence", to}, named{"the number of tokens", count})
	if err != nil {
		return err
	}
	return c.with(func(p *C.ember_context) error {
		var cerr *C.ember_error
		return check(C.ember_context_sequence_copy(p, n[0], n[1], n[2], &cerr), &cerr)
	})
}

func toKeep(n int) named   { return named{"the number of tokens to keep", n} }
func toForget(n int) named { return named{"the number of tokens to forget", n} }

// ShiftSequence forgets drop tokens of a sequence after its first keep, where a text has become too long. The tokens after them
// move forward, which takes about as long as reading them in the KV cache. The later tokens keep what was computed from the
// forgotten ones. So this is cheaper than running the rest anew, and not quite the same. [ErrUnsupported] for a model with
// learned positions (GPT-2) and for an encoder.
func (c *Context) ShiftSequence(sequence, keep, drop int) error {
	n, err := numbers(named{"the sequence", sequence}, toKeep(keep), toForget(drop))
	if err != nil {
		return err
	}
	return c.with(func(p *C.ember_context) error {
		var cerr *C.ember_error
		return check(C.ember_context_sequence_shift(p, n[0], n[1], n[2], &cerr), &cerr)
	})
}

// KeepSequence empties all sequences but this one.
func (c *Context) KeepSequence(sequence int) error {
	s, err := number("the sequence", sequence)
	if err != nil {
		return err
	}
	return c.with(func(p *C.ember_context) error {
		var cerr *C.ember_error
		return check(C.ember_context_sequence_keep(p, s, &cerr), &cerr)
	})
}

// Reuse makes a sequence as much of the beginning of tokens as the KV cache has, and returns how many tokens that is. The
// sequence may have them already. With [WithKeepPrefixes], pages that were kept of other texts may have more. Decode the rest,
// then. To leave one token at least, for its logits, give it tokens[:len(tokens)-1].
func (c *Context) Reuse(sequence int, tokens []Token) (int, error) {
	s, err := number("the sequence", sequence)
	if err != nil {
		return 0, err
	}
	var reused C.size_t
	err = c.with(func(p *C.ember_context) error {
		var cerr *C.ember_error
		n := C.size_t(len(tokens))
		return check(C.ember_context_sequence_reuse(p, s, elements[C.uint32_t](tokens), n, n, &reused, &cerr), &cerr)
	})
	return int(reused), err
}

// FreePages tells how many pages of the KV cache no sequence has at the moment.
func (c *Context) FreePages() (int, error) {
	var free int
	err := c.with(func(p *C.ember_context) error {
		info, err := contextInfo(p)
		free = int(info.n_free_pages)
		return err
	})
	return free, err
}

// SaveState gives the state of a sequence, or of the whole context for [AllSequences]: tokens, KV cache, and the logits of the last
// token where they are there. Loading it in another process with the same model goes on with the same bits.
func (c *Context) SaveState(sequence int) ([]byte, error) {
	var state []byte
	err := c.withState(sequence, func(p *C.ember_context, s C.uint32_t) (err error) {
		state, err = fill(0, func(buffer []byte, needed *C.size_t) error {
			var cerr *C.ember_error
			return check(C.ember_context_state_save(p, s, elements[C.uint8_t](buffer), C.size_t(len(buffer)), needed, &cerr), &cerr)
		})
		return err
	})
	return state, err
}

// LoadState makes a sequence what a state of one sequence says. For [AllSequences] it makes the whole context what a state of a
// context says; sequences that the state does not have become empty. On an error all is as it was: [ErrFormat] for a damaged
// state, [ErrInvalidArgument] for one that does not fit. A checksum finds damage, not malice: load states of your own.
func (c *Context) LoadState(sequence int, state []byte) error {
	return c.withState(sequence, func(p *C.ember_context, s C.uint32_t) error {
		var cerr *C.ember_error
		return check(C.ember_context_state_load(p, s, elements[C.uint8_t](state), C.size_t(len(state)), &cerr), &cerr)
	})
}

// SaveStateFile is SaveState to a file. Whatever fails, a file that was there before is as it was.
func (c *Context) SaveStateFile(sequence int, path string) error {
	return c.withState(sequence, func(p *C.ember_context, s C.uint32_t) error {
		var cerr *C.ember_error
		name, n := chars(path)
		return check(C.ember_context_state_save_file(p, s, name, n, &cerr), &cerr)
	})
}

// LoadStateFile is LoadState from a file.
func (c *Context) LoadStateFile(sequence int, path string) error {
	return c.withState(sequence, func(p *C.ember_context, s C.uint32_t) error {
		var cerr *C.ember_error
		name, n := chars(path)
		return check(C.ember_context_state_load_file(p, s, name, n, &cerr), &cerr)
	})
}

// WriteState is SaveState to w, without a copy of the whole. An error of w ends it with an [ErrCancelled] that wraps it.
func (c *Context) WriteState(sequence int, w io.Writer) error {
	t := &transfer{writer: bufio.NewWriterSize(w, 1<<16)}
	return c.transfer(sequence, t, func(p *C.ember_context, s C.uint32_t, user unsafe.Pointer) error {
		var cerr *C.ember_error
		err := check(C.ember_context_state_write(p, s, C.ember_write_callback(unsafe.Pointer(C.ember_go_write)), user, &cerr), &cerr)
		if err == nil {
			t.ended.run(t.writer.Flush)
		}
		return err
	})
}

// ReadState is LoadState from r, which is read to its end. An error of r ends it with an [ErrCancelled] that wraps it, and so
// does a reader that keeps giving nothing, with io.ErrNoProgress.
func (c *Context) ReadState(sequence int, r io.Reader) error {
	t := &transfer{reader: r}
	return c.transfer(sequence, t, func(p *C.ember_context, s C.uint32_t, user unsafe.Pointer) error {
		var cerr *C.ember_error
		return check(C.ember_context_state_read(p, s, C.ember_read_callback(unsafe.Pointer(C.emberGoRead)), user, &cerr), &cerr)
	})
}

// withState runs a call on the state of a sequence, or of all.
func (c *Context) withState(sequence int, call func(*C.ember_context, C.uint32_t) error) error {
	s, err := sequenceOrAll(sequence)
	if err != nil {
		return err
	}
	return c.with(func(p *C.ember_context) error { return call(p, s) })
}

// transfer is a state on its way from or to a stream.
type transfer struct {
	writer *bufio.Writer
	reader io.Reader
	ended  outcome
}

// transfer runs a call that moves a state, and gives its error or that of the stream.
func (c *Context) transfer(sequence int, t *transfer, call func(*C.ember_context, C.uint32_t, unsafe.Pointer) error) error {
	ref := newReference(t)
	defer freeReference(ref)
	err := c.withState(sequence, func(p *C.ember_context, s C.uint32_t) error { return call(p, s, ref) })
	return t.ended.settle(err)
}

//export emberGoWrite
func emberGoWrite(data *C.uint8_t, n C.size_t, user unsafe.Pointer) C.int32_t {
	t := referenced[*transfer](user)
	if t.ended.run(func() error {
		_, err := t.writer.Write(unsafe.Slice((*byte)(unsafe.Pointer(data)), int(n)))
		return err
	}) {
		return 1
	}
	return 0
}

//export emberGoRead
func emberGoRead(buffer *C.uint8_t, capacity C.size_t, user unsafe.Pointer) C.int64_t {
	t := referenced[*transfer](user)
	read := 0
	if t.ended.run(func() (err error) {
		read, err = readSome(t.reader, unsafe.Slice((*byte)(unsafe.Pointer(buffer)), int(capacity)))
		return err
	}) {
		return -1
	}
	return C.int64_t(read)
}

// emptyReads is how many reads in a row may give nothing, as in the package bufio.
const emptyReads = 100

// readSome reads something, or nothing at the end of r. An error that comes with bytes is left to the next read.
func readSome(r io.Reader, buffer []byte) (int, error) {
	for range emptyReads {
		n, err := r.Read(buffer)
		switch {
		case n != 0 || err == io.EOF:
			return n, nil
		case err != nil:
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}

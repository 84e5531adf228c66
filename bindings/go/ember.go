// Package ember runs language models on the CPU, inside the process, with the Ember library.
//
// A [Model] is loaded once and may be used by any number of goroutines at once. A [Context] (the tokens being processed
// over a model) is used by one goroutine at a time; a second one gets [ErrBusy], and nothing happens to the first. The same
// is true of a [Generator], and of a [Sampler] but for requests, which take copies. A server keeps one model and one
// [Engine], which runs the requests of all goroutines together.
//
// Everything that has a Close method holds memory that the garbage collector does not see, so call it; what is forgotten is
// freed when the collector finds it. Close may come twice, at any time, on any goroutine: calls under way end first, and only
// [Engine.Close] waits for them. Afterwards every method gives [ErrClosed]. What depends on each other may be closed in any order.
//
// Errors that come from the library are of type [*Error]; errors.Is tells them apart: errors.Is(err, ember.ErrContextFull).
package ember

/*
#include <ember.h>
*/
import "C"

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"
)

// Token is the number of an entry in a model's vocabulary.
type Token uint32

// NoToken stands where a model has no such token.
const NoToken Token = math.MaxUint32

// Version is that of the library at run time, for example "0.2.0".
func Version() string { return C.GoString(C.ember_version_string()) }

// BuildInfo is a line on what the library can do: version, architectures, number formats, instruction sets, target.
func BuildInfo() string { return C.GoString(C.ember_build_info()) }

// HasFeature tells whether the library has a part that can be left out of a build, for example "chat". A function whose part is
// missing gives [ErrUnsupported].
func HasFeature(name string) bool {
	text, n := chars(name)
	return C.ember_has_feature(text, n) != 0
}

// Pooling says which hidden states of a text make its vector.
type Pooling int32

const (
	PoolingAuto Pooling = C.EMBER_POOLING_AUTO // what the model says, or the mean
	PoolingNone Pooling = C.EMBER_POOLING_NONE // all of them: a vector for each token
	PoolingMean Pooling = C.EMBER_POOLING_MEAN // the mean of all tokens'
	PoolingCLS  Pooling = C.EMBER_POOLING_CLS  // the first token's
	PoolingLast Pooling = C.EMBER_POOLING_LAST // the last token's
)

// chars is the address and length of a text for the length of one call.
func chars(text string) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text))
}

// pinnedTexts gives texts as the library's arrays of pointers and of lengths, for as long as they are pinned: nil for nil.
func pinnedTexts(pinner *runtime.Pinner, texts []string) (**C.char, *C.size_t) {
	if texts == nil {
		return nil, nil
	}
	pointers := make([]*C.char, len(texts), len(texts)+1) // an address also for none
	lengths := make([]C.size_t, len(texts), len(texts)+1)
	for i, text := range texts {
		if text != "" { // the library takes NULL for an empty one
			pointers[i], lengths[i] = chars(text)
			pinner.Pin(pointers[i])
		}
	}
	return unsafe.SliceData(pointers), unsafe.SliceData(lengths)
}

// elements is the address of the first element for the length of one call; nil when there is none. C and Go must
// give the elements the same layout.
func elements[To, From any](slice []From) *To {
	if len(slice) == 0 {
		return nil
	}
	return (*To)(unsafe.Pointer(unsafe.SliceData(slice)))
}

// applied has an option change to; the zero value of an option has nothing that could.
func applied[T any](apply func(T) error, to T) error {
	if apply == nil {
		return invalid("an option that nothing in this package made")
	}
	return apply(to)
}

// number checks that value fits the library's 32 bits.
func number(name string, value int) (C.uint32_t, error) {
	if value < 0 || int64(value) > math.MaxUint32 {
		return 0, invalid(fmt.Sprintf("%s is %d, which is not between 0 and %d", name, value, uint32(math.MaxUint32)))
	}
	return C.uint32_t(value), nil
}

// named is a number for the library, and what it is called in the error when it does not fit.
type named struct {
	name  string
	value int
}

// numbers is number for several.
func numbers(all ...named) ([]C.uint32_t, error) {
	checked := make([]C.uint32_t, len(all))
	for i, one := range all {
		var err error
		if checked[i], err = number(one.name, one.value); err != nil {
			return nil, err
		}
	}
	return checked, nil
}

// fill calls the library with a buffer of capacity elements, and once more if that was too small. It returns the filled part.
func fill[T any](capacity int, call func(buffer []T, needed *C.size_t) error) ([]T, error) {
	var needed C.size_t
	buffer := make([]T, capacity)
	err := call(buffer, &needed)
	for is(err, ErrBufferTooSmall) {
		buffer = make([]T, int(needed))
		err = call(buffer, &needed)
	}
	if err != nil {
		return nil, err
	}
	return buffer[:int(needed)], nil
}

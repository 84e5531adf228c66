package ember

/*
#include <stdlib.h>
#include <ember.h>

extern int32_t emberGoProgress(float done, void *user_data);
extern void emberGoRelease(void *user_data);
*/
import "C"

import (
	"context"
	"os"
	"runtime"
	"unsafe"
)

// LoadOption is an option of [Load] and its like.
type LoadOption struct {
	apply func(*loadConfig) error
}

// loadConfig is what options change.
type loadConfig struct {
	options  *C.ember_model_options
	progress *progress
	ref      unsafe.Pointer // to progress, for C
}

func newLoadConfig(options []LoadOption) (*loadConfig, error) {
	var cerr *C.ember_error
	config := &loadConfig{}
	if err := check(C.ember_model_options_new(&config.options, &cerr), &cerr); err != nil {
		return nil, err
	}
	for _, option := range options {
		if err := applied(option.apply, config); err != nil {
			config.free()
			return nil, err
		}
	}
	return config, nil
}

func (config *loadConfig) free() {
	C.ember_model_options_free(config.options)
	if config.ref != nil {
		freeReference(config.ref)
	}
}

// loading is an option that one call of the library sets.
func loading(set func(*C.ember_model_options, **C.ember_error) C.ember_status) LoadOption {
	return LoadOption{func(config *loadConfig) error {
		var cerr *C.ember_error
		return check(set(config.options, &cerr), &cerr)
	}}
}

// WithMmap says whether the files are mapped, as by default, or read into memory. A mapped file must not be changed or
// shortened while the model lives: calls would fail, or the operating system end the process.
func WithMmap(mmap bool) LoadOption {
	return loading(func(o *C.ember_model_options, err **C.ember_error) C.ember_status {
		return C.ember_model_options_set_use_mmap(o, C.bool(mmap), err)
	})
}

// WithISA lowers the instruction-set level, for example to "scalar" or "avx2". [BuildInfo] names those of the machine.
func WithISA(isa string) LoadOption {
	return loading(func(o *C.ember_model_options, err **C.ember_error) C.ember_status {
		name, n := chars(isa)
		return C.ember_model_options_set_isa(o, name, n, err)
	})
}

// WithPack says which matrices are packed; by default [PackAuto].
func WithPack(pack Pack) LoadOption {
	return loading(func(o *C.ember_model_options, err **C.ember_error) C.ember_status {
		return C.ember_model_options_set_pack(o, C.int32_t(pack), err)
	})
}

// WithLock keeps the weights in memory, whatever else the system is short of. Systems let a process lock little as a rule
// (ulimit -l); [ErrNoMemory] says that it is not enough.
func WithLock(lock bool) LoadOption {
	return loading(func(o *C.ember_model_options, err **C.ember_error) C.ember_status {
		return C.ember_model_options_set_lock(o, C.bool(lock), err)
	})
}

// WithCheckTensors looks at every number of every tensor; one that is not finite is [ErrFormat]. It reads the whole file.
func WithCheckTensors(check bool) LoadOption {
	return loading(func(o *C.ember_model_options, err **C.ember_error) C.ember_status {
		return C.ember_model_options_set_check_tensors(o, C.bool(check), err)
	})
}

// WithMemoryLimit sets the most bytes that the large buffers of the model and of all its contexts may have together; what
// would go beyond it gives [ErrNoMemory]. 0, the default: no limit.
func WithMemoryLimit(bytes uint64) LoadOption {
	return loading(func(o *C.ember_model_options, err **C.ember_error) C.ember_status {
		return C.ember_model_options_set_memory_limit(o, C.uint64_t(bytes), err)
	})
}

// MetaValue is what [WithMeta] sets.
type MetaValue interface {
	int | int64 | float64 | bool | string
}

// WithMeta loads the model as if the file had this value for key, whether it has the key or not.
func WithMeta[T MetaValue](key string, value T) LoadOption {
	return loading(func(o *C.ember_model_options, err **C.ember_error) C.ember_status {
		name, n := chars(key)
		switch v := any(value).(type) {
		case bool:
			return C.ember_model_options_set_meta_bool(o, name, n, C.bool(v), err)
		case float64:
			return C.ember_model_options_set_meta_f64(o, name, n, C.double(v), err)
		case string:
			text, length := chars(v)
			return C.ember_model_options_set_meta_string(o, name, n, text, length, err)
		case int64:
			return C.ember_model_options_set_meta_i64(o, name, n, C.int64_t(v), err)
		default:
			return C.ember_model_options_set_meta_i64(o, name, n, C.int64_t(v.(int)), err)
		}
	})
}

// WithProgress calls f with how far the loading is, from 0 to 1, on the goroutine that loads. An error of f ends the loading,
// which then gives an [ErrCancelled] that wraps it.
func WithProgress(f func(done float32) error) LoadOption {
	return LoadOption{func(config *loadConfig) error {
		if f == nil || config.progress != nil {
			return invalid("WithProgress needs a function, and only one")
		}
		config.progress = &progress{f: f}
		config.ref = newReference(config.progress)
		var cerr *C.ember_error
		return check(C.ember_model_options_set_progress(config.options,
			C.ember_progress_callback(unsafe.Pointer(C.emberGoProgress)), config.ref, &cerr), &cerr)
	}}
}

type progress struct {
	f     func(float32) error
	ended outcome
}

//export emberGoProgress
func emberGoProgress(done C.float, user unsafe.Pointer) C.int32_t {
	p := referenced[*progress](user)
	if p.ended.run(func() error { return p.f(float32(done)) }) {
		return 1
	}
	return 0
}

// Load loads a GGUF file (one of several brings the others) or a Hugging Face folder. Ending ctx ends the loading. A path that
// does not exist gives an [ErrIO] that is fs.ErrNotExist too.
func Load(ctx context.Context, path string, options ...LoadOption) (*Model, error) {
	model, err := load(ctx, options, func(o *C.ember_model_options, model **C.ember_model, err **C.ember_error) C.ember_status {
		name, n := chars(path)
		return C.ember_model_load(name, n, o, model, err)
	})
	return model, withStat(err, path)
}

// withStat adds to an ErrIO what the system says of path, if that is an error.
func withStat(err error, path string) error {
	if is(err, ErrIO) {
		if _, cause := os.Stat(path); cause != nil {
			e := err.(*Error)
			e.causes = append(e.causes, cause)
		}
	}
	return err
}

// LoadFile loads a GGUF file that is part of an open file: length bytes from offset on, where 0 means "up to the end". For
// models inside of archives, and files without a path. The file may be closed afterwards.
func LoadFile(ctx context.Context, file *os.File, offset, length int64, options ...LoadOption) (*Model, error) {
	if offset < 0 || length < 0 {
		return nil, invalid("offset and length must not be below 0")
	}
	descriptor, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var model *Model
	var failed error
	err = descriptor.Control(func(fd uintptr) {
		model, failed = load(ctx, options, func(o *C.ember_model_options, model **C.ember_model, err **C.ember_error) C.ember_status {
			return C.ember_model_load_fd(C.int32_t(fd), C.uint64_t(offset), C.uint64_t(length), o, model, err)
		})
	})
	if err != nil {
		return nil, &os.PathError{Op: "load", Path: file.Name(), Err: os.ErrClosed}
	}
	return model, failed
}

// LoadBytes loads a GGUF file that lies in memory. The library keeps a copy of data.
func LoadBytes(ctx context.Context, data []byte, options ...LoadOption) (*Model, error) {
	return load(ctx, options, func(o *C.ember_model_options, model **C.ember_model, err **C.ember_error) C.ember_status {
		return C.ember_model_load_buffer(elements[C.uint8_t](data), C.size_t(len(data)), o, model, err)
	})
}

// LoadBorrowed is LoadBytes without a copy: for memory that is mapped ([syscall.Mmap]), or Go's own, which is pinned. The bytes
// must stay as they are until release is called, once, when the model and all its contexts are gone; any goroutine may be
// the one. With an error release is not called. release may be nil; it must not panic.
func LoadBorrowed(ctx context.Context, data []byte, release func(), options ...LoadOption) (*Model, error) {
	l := &loan{data: data, release: release}
	l.pin()
	ref := newReference(l)
	model, err := load(ctx, options, func(o *C.ember_model_options, model **C.ember_model, err **C.ember_error) C.ember_status {
		status := C.ember_model_load_borrowed(elements[C.uint8_t](data), C.size_t(len(data)),
			C.ember_release_callback(unsafe.Pointer(C.emberGoRelease)), ref, o, model, err)
		l.taken = status == C.EMBER_OK
		return status
	})
	if !l.taken {
		freeReference(ref)
		l.pinner.Unpin()
	}
	return model, err
}

// loan is memory that the library uses.
type loan struct {
	data    []byte
	release func()
	pinner  runtime.Pinner
	taken   bool
}

// pin keeps memory of Go's where it is. Other memory needs no pin, and a Pinner panics at its sight.
func (l *loan) pin() {
	defer func() { _ = recover() }()
	l.pinner.Pin(unsafe.SliceData(l.data))
}

//export emberGoRelease
func emberGoRelease(user unsafe.Pointer) {
	l := referenced[*loan](user)
	freeReference(user)
	l.pinner.Unpin()
	if l.release != nil {
		l.release()
	}
}

// load loads with options, and has ctx and the progress function end it.
func load(ctx context.Context, options []LoadOption,
	call func(*C.ember_model_options, **C.ember_model, **C.ember_error) C.ember_status) (*Model, error) {
	config, err := newLoadConfig(options)
	if err != nil {
		return nil, err
	}
	defer config.free()
	token, err := newCancelToken()
	if err != nil {
		return nil, err
	}
	defer token.close()
	var cerr *C.ember_error
	if err := check(C.ember_model_options_set_cancel_token(config.options, token.pointer, &cerr), &cerr); err != nil {
		return nil, err
	}
	var model *C.ember_model
	err = cancellable(ctx, token, func() error { return check(call(config.options, &model, &cerr), &cerr) })
	if config.progress != nil {
		err = config.progress.ended.settle(err)
	}
	return newModel(model, err)
}

package ember

/*
#include <ember.h>

extern void emberGoLog(int32_t level, char *text, size_t len, void *user_data);
*/
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// LogLevel is how much a log line matters.
type LogLevel int32

const (
	LogError LogLevel = C.EMBER_LOG_ERROR // something was refused or went wrong
	LogWarn  LogLevel = C.EMBER_LOG_WARN  // something looks like a mistake
	LogInfo  LogLevel = C.EMBER_LOG_INFO  // what is being done
	LogDebug LogLevel = C.EMBER_LOG_DEBUG // details for finding defects
)

var logger atomic.Pointer[func(LogLevel, string)]

// SetLogger sends log lines of this level and graver ones to f, on the goroutine whose call logs; nil makes the library
// silent again, as it is at the start. One function serves the whole process; it must be safe for concurrent use. Engines log on
// threads of their own too, so it must wait for none: neither for events nor with [Engine.Close].
func SetLogger(level LogLevel, f func(level LogLevel, line string)) error {
	var cerr *C.ember_error
	if f == nil {
		err := check(C.ember_log_set(nil, nil, C.int32_t(level), &cerr), &cerr)
		logger.Store(nil)
		return err
	}
	logger.Store(&f)
	return check(C.ember_log_set(C.ember_log_callback(unsafe.Pointer(C.emberGoLog)), nil, C.int32_t(level), &cerr), &cerr)
}

//export emberGoLog
func emberGoLog(level C.int32_t, text *C.char, n C.size_t, _ unsafe.Pointer) {
	if f := logger.Load(); f != nil {
		(*f)(LogLevel(level), string(unsafe.Slice((*byte)(unsafe.Pointer(text)), int(n))))
	}
}

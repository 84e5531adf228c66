//go:build ember_flags && !ember_static

package ember

// The folders come from CGO_CFLAGS (-I…) and CGO_LDFLAGS (-L…).

// #cgo LDFLAGS: -lember
import "C"

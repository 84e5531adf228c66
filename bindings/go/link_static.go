//go:build ember_static

package ember

// The folders come from CGO_CFLAGS (-I…) and CGO_LDFLAGS (-L…). Apple's linker has no -Bstatic; it takes the static library
// when there is no shared one in the folder.

// #cgo !darwin LDFLAGS: -Wl,-Bstatic -lember -Wl,-Bdynamic -lpthread -ldl -lm
// #cgo darwin LDFLAGS: -lember
import "C"

//go:build !ember_flags && !ember_static

package ember

// #cgo pkg-config: ember
import "C"

//go:build unix

package ember

import (
	"context"
	"os"
	"syscall"
	"testing"
)

func TestLoadBorrowedOfMappedMemory(t *testing.T) {
	file, err := os.Open(modelPath)
	must(t, err)
	defer file.Close()
	size, err := file.Stat()
	must(t, err)
	mapped, err := syscall.Mmap(int(file.Fd()), 0, int(size.Size()), syscall.PROT_READ, syscall.MAP_PRIVATE)
	must(t, err)
	unmapped := error(syscall.EBUSY)
	m, err := LoadBorrowed(context.Background(), mapped, func() { unmapped = syscall.Munmap(mapped) })
	must(t, err)
	equal(t, "text", textOf(t, m), ", I was")
	equal(t, "not yet unmapped", unmapped, error(syscall.EBUSY))
	must(t, m.Close())
	must(t, unmapped)
}

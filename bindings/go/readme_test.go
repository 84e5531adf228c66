package ember

import (
	"regexp"
	"strings"
	"testing"
)

// The blocks of README.md are the program hello and the bodies of the Example functions, which are compiled and run.
func TestReadmeIsCompiled(t *testing.T) {
	hello := readFile(t, "examples/hello/main.go")
	examples := readFile(t, "example_test.go")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readFile(t, "README.md"), -1)
	for i, block := range blocks {
		if i == 0 {
			equal(t, "the program", block[1], hello)
			continue
		}
		lines := strings.SplitAfter(block[1], "\n")
		for j, line := range lines {
			if strings.TrimSpace(line) != "" {
				lines[j] = "\t" + line
			}
		}
		// From the blank line after the preparations to the end of the function, or its expected output.
		body := strings.Join(lines, "")
		if !strings.Contains(examples, "\n\n"+body+"}\n") && !strings.Contains(examples, "\n\n"+body+"\t// Output:") {
			t.Errorf("this block is no example's body:\n%s", block[1])
		}
	}
	equal(t, "blocks", len(blocks), 1+strings.Count(examples, "\nfunc Example"))
}

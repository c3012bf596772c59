package footprint

import (
	"bytes"
	"os"
	"strconv"
	"testing"
)

// mapped is how much of the program is mapped, in KB: the sum of Rss of the mappings of
// /proc/self/exe.
func mapped(t *testing.T) (sum int) {
	t.Helper()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	ours := false
	for line := range bytes.Lines(content) {
		fields := bytes.Fields(line)
		switch {
		case bytes.ContainsRune(fields[0], '-'):
			ours = string(fields[len(fields)-1]) == self
		case ours && string(fields[0]) == "Rss:":
			kb, err := strconv.Atoi(string(fields[1]))
			if err != nil {
				t.Fatal(err)
			}
			sum += kb
		}
	}
	return sum
}

// The program goes on, with fewer of its pages mapped.
func TestShrink(t *testing.T) {
	before := mapped(t)
	Shrink()
	if after := mapped(t); after == 0 || after >= before {
		t.Errorf("%d KB of the program were mapped, and now %d KB", before, after)
	}
}

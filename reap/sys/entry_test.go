package sys

import (
	"strings"
	"testing"
	"unsafe"
)

// entry, which is assembler, goes by the size of a bound and the places of its fields, and
// needs paths that end with a zero byte.
func TestEntryReadsWhatIsThere(t *testing.T) {
	var b bound
	if unsafe.Sizeof(b) != 32 || unsafe.Offsetof(b.resource) != 0 || unsafe.Offsetof(b.least) != 8 || unsafe.Offsetof(b.text) != 16 || len(least) != 3 {
		t.Errorf("a bound has %d bytes, with its fields at %d, %d and %d; there are %d", unsafe.Sizeof(b), unsafe.Offsetof(b.resource), unsafe.Offsetof(b.least), unsafe.Offsetof(b.text), len(least))
	}
	for _, b := range least {
		if !strings.HasPrefix(b.text, "rlminit: cannot start: RLIMIT_") || strings.Index(b.text, "\n") != len(b.text)-1 {
			t.Errorf("limit %d: %q is no line", b.resource, b.text)
		}
	}
	if null, root := string(nullPath[:]), string(rootPath[:]); null != "/dev/null\x00" || root != "/\x00" {
		t.Errorf("the paths are %q and %q", null, root)
	}
}

package handover

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// A text is written over and over, and its supervisor killed in the middle of any write:
// a successor has the one before, or the one that was being written, whole.
func TestTextIsWholeWheneverItsWriterIsKilled(t *testing.T) {
	held, rnd := Held{}, rand.New(rand.NewPCG(1, 2))
	open := func() (*Text, []byte) {
		text, left, err := OpenText("text", held, func(key string, fd int) { held[key] = []int{fd} })
		if err != nil {
			t.Fatal(err)
		}
		held["text"] = []int{text.fd}
		return text, left
	}
	text, left := open()
	if left != nil {
		t.Fatalf("there is %q before anything was written", left)
	}
	before := []byte(nil)
	for i := range 2000 {
		length := rnd.IntN(300)
		if i%100 == 0 {
			length = 3 * largeText
		}
		next := fmt.Appendf(bytes.Repeat([]byte{byte('a' + i%26)}, length), "%d", i)
		cut := rnd.IntN(copyHeader+len(next)+1) - 1
		if i%3 > 0 {
			cut = copyHeader + len(next) // whole
		}
		text.Through(func(b []byte, at int64) (int, error) {
			if cut >= 0 {
				if _, err := unix.Pwrite(text.fd, b[:cut], at); err != nil {
					t.Fatal(err)
				}
			}
			return len(b), nil
		})
		text.Write(func(b []byte) []byte { return append(b, next...) })
		if i%3 > 0 && rnd.IntN(4) > 0 {
			before = next
			continue
		}
		text, left = open()
		switch {
		case bytes.Equal(left, next):
		case cut < copyHeader+len(next) && bytes.Equal(left, before):
		default:
			t.Fatalf("%d, cut at %d: %.20q is left of %.20q after %.20q", i, cut, left, next, before)
		}
		before = left
	}
	var st unix.Stat_t
	if err := unix.Fstat(text.fd, &st); err != nil {
		t.Fatal(err)
	}
	if st.Blocks*512 > 8*largeText {
		t.Errorf("%d KB are in use for %d bytes", st.Blocks/2, len(before))
	}
}

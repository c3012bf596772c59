package wire

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A message one past what tier 1 reads is refused where it is sent, with all that is theirs
// still the caller's.
func TestOnePastAMessage(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if err := Send(fds[0], &Hold{Key: strings.Repeat("k", largest)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a message of more than %d bytes: %v", largest, err)
	}
	most := make([]int, MaxDescriptors+1)
	for i := range most {
		most[i] = fds[1]
	}
	if err := Send(fds[0], &Hold{Key: "k"}, most...); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d descriptors: %v", len(most), err)
	}
	if err := Send(fds[0], &Hold{Key: "k"}, most[1:]...); err != nil {
		t.Errorf("%d descriptors: %v", len(most)-1, err)
	}
}

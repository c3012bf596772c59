package output

import (
	"bytes"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/kernel"
	"rlminit/wire"
)

// A supervisor that reads a pipe because splice(2) is refused may be killed between any two
// steps: its successor has each byte once.
func TestReceiveSurvivesAKillAtEachStep(t *testing.T) {
	for step := range 4 {
		t.Run(strconv.Itoa(step), func(t *testing.T) {
			var ends [2]int
			if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
				t.Fatal(err)
			}
			mem, err := wire.Memfd("test")
			if err != nil {
				t.Fatal(err)
			}
			defer wire.CloseAll([]int{ends[0], ends[1], mem})
			text := pattern(5000)
			if _, err := unix.Write(ends[1], text); err != nil {
				t.Fatal(err)
			}
			if _, err := kernel.Receive(ends[0], &received{fd: mem}, 1000); err != nil {
				t.Fatal(err)
			}
			killed := &received{fd: mem}
			if step > 0 {
				b, err := killed.Expect(1000)
				if err != nil {
					t.Fatal(err)
				}
				if step > 1 {
					if n, err := unix.Read(ends[0], b); n != len(b) {
						t.Fatal(n, err)
					}
				}
				if step > 2 {
					if err := killed.Advance(len(b)); err != nil {
						t.Fatal(err)
					}
				}
			}
			successor := &received{fd: mem}
			if err := successor.settle(); err != nil {
				t.Fatal(err)
			}
			for err = nil; err == nil; {
				_, err = kernel.Receive(ends[0], successor, 1500)
			}
			if err != unix.EAGAIN {
				t.Fatal(err)
			}
			got := make([]byte, 6000)
			n, err := unix.Pread(mem, got, 0)
			if err != nil || !bytes.Equal(got[:n], text) {
				t.Errorf("a successor has %d bytes of %d, %v", n, len(text), err)
			}
			unix.Close(ends[1])
			ends[1] = -1
			if n, err := kernel.Receive(ends[0], successor, 1); n != 0 || err != nil {
				t.Errorf("at the pipe's end: %d, %v", n, err)
			}
		})
	}
}

package reap

import (
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
)

// Where nothing is refused, each call that is tried is answered by the kernel itself, and does
// nothing: no descriptor is opened, and nobody is another session's or user's.
func TestNeededCallsDoNothing(t *testing.T) {
	session, _ := unix.Getsid(0)
	before, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(before)
	if why := refusedCall(); why != "" {
		t.Error(why)
	}
	if now, _ := unix.Getsid(0); now != session {
		t.Errorf("the session was %d, and is %d", session, now)
	}
	after, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(after)
	if after != before+1 {
		t.Errorf("after descriptor %d comes %d", before, after)
	}
	for _, p := range append(append([]sys.Probe{}, sys.Needed[:]...), needed[:]...) {
		_, errno := sys.Call(p.Number, p.A, p.B, p.C, p.D, 0, 0)
		if changes := p.Name == "setresuid" || p.Name == "setresgid"; errno == 0 && !changes {
			t.Errorf("%s succeeds", p.Name)
		}
	}
}

func BenchmarkRefusedCall(b *testing.B) {
	for b.Loop() {
		refusedCall()
	}
}

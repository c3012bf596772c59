package reap

import (
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
)

// Where nothing is refused, each call that is tried is answered by the kernel itself, with an
// error, or changes nothing: nobody is another session's or user's.
func TestNeededCallsDoNothing(t *testing.T) {
	session, _ := unix.Getsid(0)
	uid, gid := unix.Geteuid(), unix.Getegid()
	if why := refusedCall(); why != "" {
		t.Error(why)
	}
	if now, _ := unix.Getsid(0); now != session {
		t.Errorf("the session was %d, and is %d", session, now)
	}
	if unix.Geteuid() != uid || unix.Getegid() != gid {
		t.Errorf("uid and gid were %d and %d, and are %d and %d", uid, gid, unix.Geteuid(), unix.Getegid())
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

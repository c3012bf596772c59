package api

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/control"
)

// A body one past the bound of its request is refused, and one at the bound is taken.
func TestBodiesOnePastTheirBounds(t *testing.T) {
	s := everything(1000)
	for _, c := range []struct {
		path  string
		needs May
		most  int
	}{
		{"/v1/reload", MayCommand, bodyMax}, {"/v1/jobs", MayCommand, jobMax}, {"/v1/plans", MayPlan, planMax},
	} {
		for past := range 2 {
			r := httptest.NewRequest("POST", "http://rlminit"+c.path, strings.NewReader(strings.Repeat(" ", c.most+past)))
			r = r.WithContext(context.WithValue(r.Context(), peerKey{}, peer{uid: 0}))
			problem := s.admit(httptest.NewRecorder(), r, c.needs)
			if (problem != nil) != (past == 1) || past == 1 && problem.Type != "urn:rlminit:"+string(control.KindTooLarge) {
				t.Errorf("%d bytes for %s: %+v", c.most+past, c.path, problem)
			}
		}
	}
}

// Of descriptors that come along one is kept, and the rest is closed.
func TestOneDescriptorTooMany(t *testing.T) {
	var pipes [2]int
	if err := unix.Pipe2(pipes[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	var p passed
	p.keep(unix.UnixRights(pipes[:]...))
	if len(p.fds) != mostPassed {
		t.Errorf("%d are kept", len(p.fds))
	}
	if _, err := unix.FcntlInt(uintptr(pipes[1]), unix.F_GETFD, 0); err == nil {
		t.Error("the other one is open")
	}
	p.closeAll()
}

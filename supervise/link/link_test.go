package link

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/tests/unprivileged"
	"rlminit/wire"
)

// While the kernel takes no more descriptors of our user the link waits, and
// what it waits with gets through afterwards, or is given up soon.
func TestLinkOutlastsACrowd(t *testing.T) {
	if unprivileged.Alone(t) {
		return
	}
	mine, theirs := socketPair(t)
	l, err := Open(mine)
	if err != nil {
		t.Fatal(err)
	}
	failures := make(chan error, 1)
	l.Failed = func(_ wire.Message, err error) { failures <- err }
	received := make(chan wire.Message)
	go func() {
		var in wire.Receiver
		for {
			poll := []unix.PollFd{{Fd: int32(theirs), Events: unix.POLLIN}}
			if _, err := unix.Poll(poll, -1); err != nil && err != unix.EINTR {
				return
			}
			m, fds, err := in.Receive(theirs)
			if errors.Is(err, wire.ErrClosed) {
				return
			}
			if err == nil {
				wire.CloseAll(fds)
				received <- m
			}
		}
	}()

	leave := crowd(t)
	l.Send(&wire.Spawn{ID: 1}, []int{0}, nil)
	l.Send(&wire.Spawn{ID: 2}, []int{0}, nil)
	l.Send(&wire.Pong{Seq: 3}, nil, nil)
	for range 2 {
		if err := <-failures; !errors.Is(err, unix.ETOOMANYREFS) || !durable.Temporary(err) {
			t.Errorf("given up for %v", err)
		}
	}
	if m, ok := (<-received).(*wire.Pong); !ok || m.Seq != 3 {
		t.Errorf("received %+v", m)
	}
	leave()

	l.Send(&wire.Spawn{ID: 4}, []int{0}, nil)
	if m, ok := (<-received).(*wire.Spawn); !ok || m.ID != 4 {
		t.Errorf("received %+v", m)
	}
	leave = crowd(t)
	l.Send(&wire.Spawn{ID: 5}, []int{0}, nil)
	leave()
	if m, ok := (<-received).(*wire.Spawn); !ok || m.ID != 5 {
		t.Errorf("received %+v", m)
	}
}

// crowd has as many descriptors in flight as our user may, until leave is called.
func crowd(t *testing.T) (leave func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	one, other := socketPair(t)
	full := make([]int, 50)
	for {
		err := unix.Sendmsg(one, []byte{0}, unix.UnixRights(full...), nil, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.ETOOMANYREFS) {
			return func() { wire.CloseAll([]int{one, other}) }
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func socketPair(t *testing.T) (int, int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pair[0], pair[1]
}

// A descriptor on its way is the link's: whoever sends it may close its own at once,
// and the number become another file's.
func TestDescriptorsOnTheWayAreTheLinks(t *testing.T) {
	held := make(chan struct{})
	got := make(chan string)
	l := To(func(o Outgoing) {
		<-held
		b := make([]byte, 10)
		n, err := unix.Pread(o.FDs[0], b, 0)
		if err != nil {
			t.Error(err)
		}
		got <- string(b[:n])
	})
	file := func(content string) int {
		fd, err := unix.MemfdCreate("sent", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(fd, []byte(content)); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	lent, given := file("lent"), file("given")
	l.Send(&wire.Hold{Key: "lent"}, []int{lent}, nil)
	l.Send(&wire.Hold{Key: "given"}, []int{given}, []int{given})
	unix.Close(lent)
	if other := file("other"); other != lent {
		t.Errorf("the number %d is not used again, but %d: the test shows nothing", lent, other)
	}
	close(held)
	for _, want := range []string{"lent", "given"} {
		if is := <-got; is != want {
			t.Errorf("%q was sent in place of %q", is, want)
		}
	}
	l.Flush()
	l.Close()
}

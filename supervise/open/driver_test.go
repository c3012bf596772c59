package open

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/notify"
	"rlminit/wire"
)

// holding is tier 1, and the core, as a driver knows them.
type holding struct {
	mu    sync.Mutex
	held  map[string]int
	heard chan core.Input
}

func newDriver(t *testing.T) (*Driver, *holding) {
	h := &holding{held: map[string]int{}, heard: make(chan core.Input, 10)}
	dir := t.TempDir()
	return New(h.send, func(in core.Input) { h.heard <- in }, func(name string) string { return filepath.Join(dir, name) }), h
}

func (h *holding) send(m wire.Message, fds, after []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch m := m.(type) {
	case *wire.Hold:
		h.held[m.Key], _ = unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD_CLOEXEC, 3)
	case *wire.Release:
		unix.Close(h.held[m.Key])
		delete(h.held, m.Key)
	}
	wire.CloseAll(after)
}

func (h *holding) keys() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.held {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// given is what tier 1 gives back to a successor.
func (h *holding) given() handover.Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := handover.Held{}
	for key, fd := range h.held {
		held[key] = []int{fd}
	}
	clear(h.held)
	return held
}

// What a service has open tier 1 holds, a successor has it again, and it is let go when
// the service is closed.
func TestWhatIsOpenOutlivesTheDriver(t *testing.T) {
	d, h := newDriver(t)
	web := service.Default("web")
	web.Ready = &service.Probe{Notify: true}
	web.Sockets = []service.Socket{{Name: "http", Network: "unix", Address: filepath.Join(t.TempDir(), "s")}}
	s := Service{Name: "web", Definition: web, UID: uint32(os.Getuid()), Run: 1}
	o, err := d.Open(1, s, nil)
	if err != nil || len(o.Descriptors) != 1 || !slices.Contains(o.Environment, "LISTEN_FDNAMES=http") || !slices.Contains(o.Environment, "NOTIFY_SOCKET="+o.Notify) {
		t.Fatalf("%+v %v", o, err)
	}
	say := func(text string, fds ...int) {
		t.Helper()
		conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: o.Notify, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		raw, err := conn.File()
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		if err := unix.Sendmsg(int(raw.Fd()), []byte(text), unix.UnixRights(fds...), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	memory, err := unix.MemfdCreate("state", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	say("FDSTORE=1\nFDNAME=state\nSTATUS=stored", memory)
	if in := <-h.heard; in.Kind != core.Notified || in.Node != 1 || len(in.Events) != 1 || in.Events[0].Kind != machine.StatusText {
		t.Errorf("heard %+v", in)
	}
	if keys := h.keys(); len(keys) != 3 {
		t.Errorf("%v are held", keys)
	}

	// The driver of a successor.
	next := New(h.send, d.Hear, d.Path)
	held := h.given()
	if err := next.Adopt(1, s, held, true); err != nil {
		t.Fatal(err)
	}
	if is := next.Stored(1); is == nil || is.Count != 1 || len(held) != 0 {
		t.Errorf("%+v are stored; left is %v", is, held)
	}
	if node, is := next.Occupies(web.Sockets[0]); !is || node != 1 {
		t.Errorf("%d has the address, %v", node, is)
	}
	if o, err = next.Open(1, s, nil); err != nil || len(o.Descriptors) != 2 {
		t.Errorf("%+v %v", o, err)
	}
	next.Close(1)
	for _, key := range h.keys() {
		t.Errorf("%s is held, and nothing is open", key)
	}
}

// Of a service that has what others have not, what they say counts nothing.
func TestWhoseAMessageIs(t *testing.T) {
	for _, c := range []struct {
		of   Service
		uid  uint32
		pid  int
		want bool
	}{
		{Service{UID: 1000, Apart: true}, 0, 1, true},
		{Service{UID: 1000, Apart: true}, 1000, 1, true},
		{Service{UID: 1000, Apart: true}, 1001, 1, false},
		{Service{UID: 1000}, 1001, 1, true},
		{Service{UID: 1000, Apart: true, Alike: true, Tag: 60123}, 1000, os.Getpid(), false},
		{Service{UID: 1000, Apart: true, Alike: true}, 1000, os.Getpid(), true},
	} {
		if is := c.of.isOwn(&notify.Message{UID: c.uid, PID: c.pid}); is != c.want {
			t.Errorf("%+v, from uid %d: %v", c.of, c.uid, is)
		}
	}
}

// All that a message says is told, each once, and in an order in which what ends a run
// comes last.
func TestEventsOfAMessage(t *testing.T) {
	m := notify.Parse([]byte("READY=1\nSTATUS=up\nMAINPID=7\nRELOADING=1\nMONOTONIC_USEC=1\nSTOPPING=1\nWATCHDOG=trigger\nERRNO=5\nEXTEND_TIMEOUT_USEC=9\nWATCHDOG_USEC=8"))
	var kinds []string
	for _, e := range events(&m) {
		kinds = append(kinds, string(e.Kind))
	}
	want := []machine.EventKind{machine.Trouble, machine.WatchdogSet, machine.ExtendTimeout, machine.StatusText, machine.MainPID, machine.Reloading, machine.Ready, machine.StoppingItself, machine.WatchdogTrigger}
	var names []string
	for _, kind := range want {
		names = append(names, string(kind))
	}
	if !slices.Equal(kinds, names) {
		t.Errorf("%s, want %s", strings.Join(kinds, " "), strings.Join(names, " "))
	}
}

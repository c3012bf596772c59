package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/coder"
	"rlminit/internal/coder/fill"
	"rlminit/tests/unprivileged"
)

// every returns one message of each kind, with all fields set at random.
func every(r *rand.Rand) []Message {
	var all []Message
	for k := range 256 {
		m := blank(Kind(k))
		if m == nil {
			continue
		}
		random(r, m)
		all = append(all, m)
	}
	return all
}

// random fills a message or a policy.
func random(r *rand.Rand, p any) {
	fill.Random(r, p, func(v reflect.Value) bool {
		switch p := v.Addr().Interface().(type) {
		case *Scope: // not every number is one
			*p = Scope(r.Intn(3))
		case *Part: // nor every message
			*p = Part{Message: &Pong{Seq: r.Uint64()}}
		default:
			return false
		}
		return true
	})
}

func pair(t *testing.T) (int, int) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { CloseAll(p[:]) })
	return p[0], p[1]
}

func TestEveryMessageArrivesAsItWasSent(t *testing.T) {
	a, b := pair(t)
	var in Receiver
	for seed := range int64(50) {
		for _, m := range every(rand.New(rand.NewSource(seed))) {
			if err := Send(a, m); err != nil {
				t.Fatalf("seed %d: send %T: %v", seed, m, err)
			}
			got, fds, err := in.Receive(b)
			if err != nil || len(fds) != 0 {
				t.Fatalf("seed %d: receive %T: %v, descriptors %v", seed, m, err, fds)
			}
			if !reflect.DeepEqual(got, m) {
				t.Fatalf("seed %d: sent %+v, got %+v", seed, m, got)
			}
		}
	}
}

func TestLargeMessageAndDescriptors(t *testing.T) {
	a, b := pair(t)
	before := openDescriptors(t)
	file, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	sent := &Spawn{ID: 7, Name: "big", Env: []string{"A=" + strings.Repeat("x", 2<<20)}, Targets: []int32{0, 1}}
	if err := Send(a, sent, int(file.Fd()), int(file.Fd())); err != nil {
		t.Fatal(err)
	}
	file.Close()
	var in Receiver
	got, fds, err := in.Receive(b)
	if err != nil || len(fds) != 2 {
		t.Fatalf("receive: %v, descriptors %v", err, fds)
	}
	if !reflect.DeepEqual(got, Message(sent)) {
		t.Fatal("the message changed on its way")
	}
	for _, fd := range fds {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Fatalf("descriptor %d is not close-on-exec: %v", fd, err)
		}
	}
	CloseAll(fds)
	if after := openDescriptors(t); after != before {
		t.Fatalf("%d descriptors before, %d after", before, after)
	}
}

func TestHostileBytesAreRefusedAndLeakNothing(t *testing.T) {
	a, b := pair(t)
	unsealed, err := unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(unsealed)
	nested, err := Sealed("nested", []byte{byte(kindLarge)})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(nested)
	before := openDescriptors(t)
	for name, c := range map[string]struct {
		body []byte
		fds  []int
	}{
		"unknown kind":       {[]byte{200}, nil},
		"cut short":          {[]byte{byte(KindSpawn), 1, 2, 3}, []int{unsealed}},
		"something left":     {append(coder.Encode([]byte{byte(KindPong)}, (&Pong{Seq: 1}).fields), 0), nil},
		"false count":        {append(coder.Encode([]byte{byte(KindHold)}, (&Hold{}).fields)[:1], 0xff, 0xff, 0xff, 0xff), nil},
		"large, no memfd":    {[]byte{byte(kindLarge)}, nil},
		"large, not sealed":  {[]byte{byte(kindLarge)}, []int{unsealed}},
		"large inside large": {[]byte{byte(kindLarge)}, []int{nested}},
		"scope":              {append(coder.Encode([]byte{byte(KindSignal)}, (&Signal{}).fields)[:13], 9, 0, 0, 0), nil},
		"descriptors galore": {coder.Encode([]byte{byte(KindPong)}, (&Pong{}).fields), make([]int, 200)},
	} {
		var oob []byte
		if len(c.fds) > 0 {
			oob = unix.UnixRights(c.fds...)
		}
		if err := unix.Sendmsg(a, c.body, oob, nil, 0); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var in Receiver
		if m, _, err := in.Receive(b); err == nil {
			t.Errorf("%s: taken for %+v", name, m)
		} else if errors.Is(err, ErrClosed) || errors.Is(err, ErrEmpty) {
			t.Errorf("%s: %v", name, err)
		}
		if after := openDescriptors(t); after != before {
			t.Fatalf("%s: %d descriptors before, %d after", name, before, after)
		}
	}
	if err := Send(a, &Pong{Seq: 9}); err != nil {
		t.Fatal(err)
	}
	var in Receiver
	if m, _, err := in.Receive(b); err != nil || m.(*Pong).Seq != 9 {
		t.Fatalf("after the hostile ones: %v, %v", m, err)
	}
}

func TestSendNeverBlocks(t *testing.T) {
	a, b := pair(t)
	sent := 0
	for ; ; sent++ {
		if err := Send(a, &Ping{Seq: uint64(sent)}); errors.Is(err, ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var in Receiver
	for i := range sent {
		if m, _, err := in.Receive(b); err != nil || m.(*Ping).Seq != uint64(i) {
			t.Fatalf("message %d: %v, %v", i, m, err)
		}
	}
	if _, _, err := in.Receive(b); !errors.Is(err, ErrEmpty) {
		t.Fatalf("an empty socket: %v", err)
	}
	unix.Shutdown(a, unix.SHUT_RDWR)
	if _, _, err := in.Receive(b); !errors.Is(err, ErrClosed) {
		t.Fatalf("a closed socket: %v", err)
	}
	if err := Send(b, &Pong{}); !errors.Is(err, ErrClosed) {
		t.Fatalf("send to a closed socket: %v", err)
	}
}

func TestPolicyRoundTrip(t *testing.T) {
	for seed := range int64(200) {
		var p Policy
		random(rand.New(rand.NewSource(seed)), &p)
		p.Version = Version
		if seed%2 == 0 {
			p.Main = nil
		}
		got, err := DecodePolicy(EncodePolicy(&p))
		if err != nil || !reflect.DeepEqual(*got, p) {
			t.Fatalf("seed %d: %v\n%+v\n%+v", seed, err, p, got)
		}
	}
}

func TestSealedContentIsFinal(t *testing.T) {
	fd, err := Sealed("x", []byte("final"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Pwrite(fd, []byte("X"), 0); err == nil {
		t.Error("a sealed memfd was written to")
	}
	if got, err := ReadSealed(fd, 5); err != nil || string(got) != "final" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ReadSealed(fd, 4); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
}

// FuzzDecode holds the decoder against any bytes: no panic, and what it takes
// for a message is laid out again in the same bytes.
func FuzzDecode(f *testing.F) {
	for _, m := range every(rand.New(rand.NewSource(1))) {
		f.Add(coder.Encode([]byte{byte(m.Kind())}, m.fields))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, _, err := assemble(body, nil, false)
		if err != nil {
			return
		}
		if again := coder.Encode([]byte{byte(m.Kind())}, m.fields); !bytes.Equal(again, body) {
			t.Fatalf("%x became %x", body, again)
		}
	})
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// The kernel refuses descriptors while the socket has room for them: that is
// not ErrFull, whose end the socket would tell, and it passes.
func TestTooManyDescriptorsInFlight(t *testing.T) {
	if unprivileged.Alone(t) {
		return
	}
	limit := unix.Rlimit{Cur: 64, Max: 64}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	one, other := pair(t)
	full := make([]int, 50)
	for i := range full {
		full[i] = one
	}
	for {
		err := unix.Sendmsg(one, []byte{0}, unix.UnixRights(full...), nil, unix.MSG_DONTWAIT)
		if err == unix.ETOOMANYREFS {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b := pair(t)
	if err := Send(a, &Held{Key: "k"}, a); !errors.Is(err, unix.ETOOMANYREFS) || errors.Is(err, ErrFull) {
		t.Errorf("with too many descriptors in flight: %v", err)
	}
	if err := Send(a, &Ping{}); err != nil {
		t.Errorf("without a descriptor: %v", err)
	}
	CloseAll([]int{one, other})
	for {
		err := Send(a, &Held{Key: "k"}, a)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.ETOOMANYREFS) {
			t.Fatal(err)
		}
	}
	var in Receiver
	if _, _, err := in.Receive(b); err != nil {
		t.Fatal(err)
	}
	if m, fds, err := in.Receive(b); err != nil || len(fds) != 1 {
		t.Errorf("%+v, %v, %v", m, fds, err)
	}
}

// Many messages arrive as they were, each with its own descriptors, and a sum of those
// that is not right is no message.
func TestMany(t *testing.T) {
	a, b := pair(t)
	fd := func() int {
		fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	sent := &Many{Parts: []Part{{&Hold{Key: "log/a"}, 2}, {&Pong{Seq: 7}, 0}, {&Spawn{ID: 16, Name: "a", Targets: []int32{1}}, 1}}}
	if err := Send(a, sent, fd(), fd(), fd()); err != nil {
		t.Fatal(err)
	}
	var in Receiver
	m, fds, err := in.Receive(b)
	if err != nil {
		t.Fatal(err)
	}
	defer CloseAll(fds)
	var got []string
	Each(m, fds, func(m Message, fds []int) { got = append(got, fmt.Sprintf("%T %d", m, len(fds))) })
	if want := []string{"*wire.Hold 2", "*wire.Pong 0", "*wire.Spawn 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	Each(&Pong{Seq: 8}, nil, func(m Message, _ []int) { got = append(got, "alone") })
	if len(got) != 4 {
		t.Errorf("got %q of a message that is alone", got)
	}
	for _, wrong := range []*Many{
		{Parts: []Part{{&Pong{}, 1}}},
		{Parts: []Part{{&Many{}, 0}}},
	} {
		if err := Send(a, wrong); err != nil {
			t.Fatal(err)
		}
		if m, _, err := in.Receive(b); err == nil {
			t.Errorf("%+v is a message", m)
		}
	}
}

package rights

import (
	"math/rand"
	"os"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/coder/fill"
	"rlminit/internal/durable"
)

// Nothing of a call or an answer is lost on its way, as a packet or in a memfd.
func TestEveryFieldArrives(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	from, err := newLink(pair[0])
	if err != nil {
		t.Fatal(err)
	}
	to, err := newLink(pair[1])
	if err != nil {
		t.Fatal(err)
	}
	for seed := range int64(100) {
		r := rand.New(rand.NewSource(seed))
		var data []byte
		if seed%10 == 9 {
			data = make([]byte, 2*inline)
		}
		depth := 0
		request := func(v reflect.Value) bool {
			if v.Type() != reflect.TypeFor[durable.Steps]() {
				return false
			}
			depth++
			return depth > 1 // a step has none of its own
		}
		sent, got := &call{}, &call{}
		fill.Random(r, sent, request)
		sent.File.Data = append(sent.File.Data, data...)
		exchange(t, from, to, sent, got)

		told, heard := &answer{}, &answer{}
		fill.Random(r, told, nil)
		told.File.Data = append(told.File.Data, data...)
		exchange(t, to, from, told, heard)
	}
	exchange(t, from, to, &call{}, &call{ID: 1})
	exchange(t, to, from, &answer{}, &answer{})
}

func exchange(t *testing.T, from, to *link, sent, got message) {
	t.Helper()
	if err := from.send(sent, int(os.Stdin.Fd())); err != nil {
		t.Fatal(err)
	}
	fds, err := to.receive(got)
	closeAll(fds)
	if err != nil || len(fds) != 1 || !reflect.DeepEqual(got, sent) {
		t.Fatalf("%v, descriptors %v: sent %+v, got %+v", err, fds, sent, got)
	}
}

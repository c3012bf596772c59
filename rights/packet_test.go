package rights

import (
	"math/rand"
	"os"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/coder"
	"rlminit/internal/coder/fill"
	"rlminit/internal/durable"
	"rlminit/wire"
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
	wire.CloseAll(fds)
	if err != nil || len(fds) != 1 || !reflect.DeepEqual(got, sent) {
		t.Fatalf("%v, descriptors %v: sent %+v, got %+v", err, fds, sent, got)
	}
}

// FuzzDecode holds what either end decodes against any bytes: no panic, no more
// memory than the bytes can fill, and what is taken is the same when it is sent on.
func FuzzDecode(f *testing.F) {
	for seed := range int64(8) {
		r := rand.New(rand.NewSource(seed))
		sent, told := &call{}, &answer{}
		fill.Random(r, sent, func(v reflect.Value) bool { return v.Type() == reflect.TypeFor[durable.Steps]() })
		fill.Random(r, told, nil)
		f.Add(coder.Encode(nil, sent.fields))
		f.Add(coder.Encode(nil, told.fields))
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		for _, pair := range [][2]message{{&call{}, &call{}}, {&answer{}, &answer{}}} {
			if coder.Decode(packet, pair[0].fields) != nil {
				continue
			}
			if err := coder.Decode(coder.Encode(nil, pair[0].fields), pair[1].fields); err != nil || !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("%v: taken %+v, sent on %+v", err, pair[0], pair[1])
			}
		}
	})
}

package loop

import (
	"testing"

	"rlminit/supervise/machine"
)

// awaited is a log that counts who wants to know whether all of it is written.
type awaited struct {
	silent
	times int
	done  []func(bool)
}

func (a *awaited) AwaitWritten(done func(bool)) { a.times, a.done = a.times+1, append(a.done, done) }

// The log of a service that rests stays open for those who write into it besides, until the
// last of them is done.
func TestLogIsOpenForEachCopy(t *testing.T) {
	l := &Loop{mailbox: newMailbox()}
	l.logging.loop = &l.mailbox
	slot := &awaited{}
	u := &unit{name: "tick", state: &machine.State{Phase: machine.Stopped}, output: output{slot: slot}}
	l.fleet.units = map[string]*unit{"tick": u}
	go l.letters.Run()
	defer l.letters.Close()
	rests := func() (times int) {
		l.ask(func() { times = slot.times })
		return times
	}
	_, first, err := l.Pipes("tick")
	if err != nil {
		t.Fatal(err)
	}
	_, second, err := l.Pipes("tick")
	if err != nil {
		t.Fatal(err)
	}
	l.ask(func() { l.logging.rest(u) })
	if first(); rests() != 0 {
		t.Error("it is closed under the second")
	}
	if second(); rests() != 1 {
		t.Error("it stays open")
	}
	_, third, err := l.Pipes("tick")
	if err != nil {
		t.Fatal(err)
	}
	slot.done[0](true) // all is written, and a third has come meanwhile
	open := false
	if l.ask(func() { open = u.output.slot != nil }); !open {
		t.Error("it is closed under the third")
	}
	if third(); rests() != 2 {
		t.Error("it stays open after the third")
	}
	if _, _, err := l.Pipes("none"); err == nil {
		t.Error("there is a log of none")
	}
}

package remember

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rlminit/control"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
)

// full is a file that takes nothing in for some time.
type full struct {
	handover.File
	is *atomic.Bool
}

func (f full) WriteAt(b []byte, at int64) (int, error) {
	if f.is.Load() {
		return 0, errors.New("no room")
	}
	return f.File.WriteAt(b, at)
}

// What could not be written is written when it can be, the newest of each, and what
// waits for it is told.
func TestWhatCouldNotBeWrittenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, err := handover.OpenTable(handover.Held{}, func(string, int) {})
		if err != nil {
			t.Fatal(err)
		}
		is := &atomic.Bool{}
		table.Through(func(f handover.File) handover.File { return full{f, is} })
		answered := make(chan core.Input, 10)
		d := New(table, func(in core.Input) { answered <- in })
		d.Operation(control.Operation{ID: 1, Verb: "start", State: "running"})
		life := &core.Life{}
		is.Store(true)
		d.Operation(control.Operation{ID: 1, Verb: "start", State: "done"})
		d.Operation(control.Operation{ID: 2, Verb: "stop", State: "running"})
		d.ForgetOperation(2)
		for version := range uint64(3) {
			if d.Service("web", Service{Machine: machine.State{LastID: version}}, core.Row{Life: life, Version: version}) {
				t.Error("it is said to be written")
			}
		}
		time.Sleep(3 * again / 2)
		if all := d.Operations(); len(all) != 1 || all[0].State != "running" || !d.Unsaved("web") {
			t.Errorf("a successor would find %+v, unsaved %v", all, d.Unsaved("web"))
		}
		is.Store(false)
		time.Sleep(again)
		synctest.Wait()
		if all := d.Operations(); len(all) != 1 || all[0].State != "done" || d.Unsaved("web") {
			t.Errorf("a successor finds %+v, unsaved %v", all, d.Unsaved("web"))
		}
		if in := <-answered; len(answered) != 0 || len(in.Rows) != 1 || in.Rows[0].Version != 2 {
			t.Errorf("%d more than %+v are remembered", len(answered), in)
		}
		d.Forget("web")
		if len(d.Under(ServicesUnder)) != 0 {
			t.Error("a service that is gone is remembered")
		}
	})
}

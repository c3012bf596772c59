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

// failing is a file whose writes fail while on is true.
type failing struct {
	handover.File
	on *atomic.Bool
}

func (f failing) WriteAt(b []byte, at int64) (int, error) {
	if f.on.Load() {
		return 0, errors.New("no room")
	}
	return f.File.WriteAt(b, at)
}

// A row that could not be written is tried again until it is: of several of one key the
// newest, and the core is told of it once, by a driver that holds no lock.
func TestWhatCouldNotBeWrittenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, err := handover.OpenTable(handover.Held{}, func(string, int) {})
		if err != nil {
			t.Fatal(err)
		}
		on := &atomic.Bool{}
		table.Through(func(f handover.File) handover.File { return failing{f, on} })
		answered := make(chan core.Input, 10)
		var d *Driver
		d = New(table, func(in core.Input) {
			d.Unsaved("web") // whoever is told may ask
			answered <- in
		})
		d.Operation(control.Operation{ID: 1, Verb: "start", State: "running"})
		life := &core.Life{}
		on.Store(true)
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
		on.Store(false)
		time.Sleep(again)
		synctest.Wait()
		if all := d.Operations(); len(all) != 1 || all[0].State != "done" || d.Unsaved("web") {
			t.Errorf("a successor finds %+v, unsaved %v", all, d.Unsaved("web"))
		}
		if in := <-answered; len(answered) != 0 || len(in.Rows) != 1 || in.Rows[0].Version != 2 {
			t.Errorf("%d more than %+v are remembered", len(answered), in)
		}
		// Of a service that is gone the end waits for its row, or for whatever replaces it.
		next := &core.Life{}
		for _, replace := range []func() bool{
			func() bool { d.Forget("web"); return true },
			func() bool { return d.Service("web", Service{}, core.Row{Life: next, Version: 1}) },
		} {
			on.Store(true)
			d.Service("web", Service{}, core.Row{Life: life, Version: 7})
			on.Store(false)
			if !replace() {
				t.Error("it is not written")
			}
			synctest.Wait()
			if len(answered) != 1 {
				t.Fatalf("%d are answered", len(answered))
			}
			if in := <-answered; len(in.Rows) != 1 || in.Rows[0] != (core.Row{Life: life, Version: 7}) {
				t.Errorf("%+v is answered", in)
			}
		}
		on.Store(true)
		d.Service("web", Service{}, core.Row{Life: life, Version: 8})
		d.Service("web", Service{}, core.Row{Life: next, Version: 2})
		on.Store(false)
		time.Sleep(again)
		synctest.Wait()
		if in := <-answered; len(in.Rows) != 2 {
			t.Errorf("%+v is answered", in)
		}
		d.Forget("web")
		if len(d.Under(ServicesUnder)) != 0 {
			t.Error("a service that is gone is remembered")
		}
	})
}

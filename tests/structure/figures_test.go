package structure

import (
	"testing"

	"rlminit/tests/box"
	"rlminit/tests/figures"
)

// Bounds of the product's code, in lines that are neither blank nor comment, as
// `make figures` prints them.
const (
	// 70388 and 453804 before kinds, profile set for many, schedules, thresholds, log.redact and log.forward.
	totalMost    = 77240  // with levels of control, the service page, plans that wait for approval, and deadlines
	nodesMost    = 500446 // of the syntax tree: shorter lines count for nothing; with the section fleet, and what lies behind a service that does not run
	besideMost   = 14080  // lines of the programs beside rlminit
	fleetMost    = 5685   // lines of the module below fleet/, without its tests; with the end of lost members' leases, a watch that is deaf, the progress of a restore, --without-data, and one save or restore of a directory at a time
	packageMost  = 3500
	functionMost = 60 // lines in all, so that one fits on a screen
)

// ownBounds are the packages above the bound, as large as they may be, and those that are
// to have less. A number may only become smaller: it stands for work that is to be done.
var ownBounds = map[string]int{
	"supervise": 334, // it wires the drivers, and boots
}

// longFunctions is how many functions are above functionMost. It may only become smaller.
const longFunctions = 2

func TestCodeStaysSmall(t *testing.T) {
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	f, err := figures.Measure(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("figure: the product has %d lines of code", f.Total.Lines)
	if f.Total.Lines == 0 || f.Total.Lines > totalMost {
		t.Errorf("the product has %d lines of code; the bound is %d: remove a mechanism before you add one", f.Total.Lines, totalMost)
	}
	t.Logf("figure: the product has %d nodes of the syntax tree", f.Total.Nodes)
	if f.Total.Nodes > nodesMost {
		t.Errorf("the product has %d nodes of the syntax tree; the bound is %d: remove a mechanism before you add one", f.Total.Nodes, nodesMost)
	}
	t.Logf("figure: the programs beside rlminit have %d lines of code", f.Beside.Lines)
	if f.Beside.Lines > besideMost {
		t.Errorf("the programs beside rlminit have %d lines of code; the bound is %d", f.Beside.Lines, besideMost)
	}
	t.Logf("figure: the fleet has %d lines of code", f.Fleet.Lines)
	if f.Fleet.Lines == 0 || f.Fleet.Lines > fleetMost {
		t.Errorf("the fleet has %d lines of code; the bound is %d", f.Fleet.Lines, fleetMost)
	}
	for name, is := range f.Packages {
		most, listed := ownBounds[name]
		switch {
		case name == "cmd/rlminit": // a file for each verb
		case !listed && is.Lines > packageMost:
			t.Errorf("%s has %d lines of code; the bound is %d: find the wall in it", name, is.Lines, packageMost)
		case listed && is.Lines > most:
			t.Errorf("%s has %d lines of code; it may have %d, and shrink", name, is.Lines, most)
		case listed && most > packageMost && is.Lines <= packageMost:
			t.Errorf("%s is within the bound with %d lines of code: take it out of the table", name, is.Lines)
		}
	}
	for name := range ownBounds {
		if _, there := f.Packages[name]; !there {
			t.Errorf("%s is gone: take it out of the table", name)
		}
	}
	long := 0
	for _, fn := range f.Functions {
		if fn.Size > functionMost {
			long++
			t.Logf("%s has %d lines", fn.Name, fn.Size)
		}
	}
	if long > longFunctions {
		t.Errorf("%d functions have more than %d lines where %d had: cut the new one", long, functionMost, longFunctions)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// machine is where something was measured.
type machine struct {
	Kernel      string `json:"kernel"`
	Processors  int    `json:"processors"`
	Descriptors int    `json:"descriptors"` // that a process may have at most
}

func thisMachine() machine {
	var name unix.Utsname
	_ = unix.Uname(&name)
	return machine{Kernel: unix.ByteSliceToString(name.Release[:]), Processors: runtime.NumCPU(), Descriptors: limitsHere().descriptors}
}

// report is what -json writes.
type report struct {
	Machine  machine    `json:"machine"`
	Services int        `json:"services"`
	Rounds   int        `json:"rounds"`
	Measures []reported `json:"measures"`
}

// reported is a measure in a report.
type reported struct {
	Name    string        `json:"name"`
	Promise string        `json:"promise,omitempty"`
	Rows    []reportedRow `json:"rows"` // none: not to be had here
}

type reportedRow struct {
	Peer   string    `json:"peer"`
	Unit   string    `json:"unit"`
	Median float64   `json:"median"`
	Values []float64 `json:"values"`
	Ratio  *ratio    `json:"ratio,omitempty"` // null: the first row, or another unit
}

// ratio is rlminit's median as a multiple of a peer's, and that of each round: the
// least and the most of them.
type ratio struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// reportOf is a measure with its ratios.
func reportOf(m measure, rows []row) reported {
	r := reported{Name: m.name, Promise: m.promise, Rows: []reportedRow{}}
	for _, one := range rows {
		if len(one.values) == 0 {
			continue
		}
		more := reportedRow{Peer: one.peer, Unit: one.unit, Median: median(one.values), Values: one.values}
		if len(r.Rows) > 0 && one.unit == r.Rows[0].Unit {
			more.Ratio = ratioOf(r.Rows[0].Values, one.values)
		}
		r.Rows = append(r.Rows, more)
	}
	return r
}

// ratioOf sets values against those that a peer had in the same round. Where a round
// has several, its median counts. It is nil where the peer's are nothing.
func ratioOf(ours, theirs []float64) *ratio {
	if median(theirs) <= 0 {
		return nil
	}
	all := ratio{Median: median(ours) / median(theirs)}
	a, b := byRound(ours), byRound(theirs)
	var each []float64
	for i := range min(len(a), len(b)) {
		if b[i] > 0 {
			each = append(each, a[i]/b[i])
		}
	}
	if len(each) > 0 {
		all.Least, all.Most = slices.Min(each), slices.Max(each)
	}
	return &all
}

// byRound has one value for each round: the median of those that follow each other.
func byRound(values []float64) []float64 {
	each := max(1, len(values) / *rounds)
	var all []float64
	for some := range slices.Chunk(values, each) {
		all = append(all, median(some))
	}
	return all
}

// show prints a measure: each peer's median, and rlminit's as a multiple of it.
func show(m measure, r reported) {
	promise := ""
	if m.promise != "" {
		promise = " (promised: " + m.promise + ")"
	}
	fmt.Printf("%s%s\n", m.name, promise)
	if len(r.Rows) == 0 {
		fmt.Print("    not to be had here\n\n")
		return
	}
	for _, one := range r.Rows {
		fmt.Printf("    %-14s %10.2f %-9s", one.Peer, one.Median, one.Unit)
		if one.Ratio != nil {
			fmt.Printf(" rlminit takes %.2f of it (%.2f..%.2f)", one.Ratio.Median, one.Ratio.Least, one.Ratio.Most)
			if m.differences {
				fmt.Printf(", %.3f %s more", r.Rows[0].Median-one.Median, one.Unit)
			}
		}
		fmt.Println()
	}
	fmt.Println()
}

// Numbers in an array, each on a line of its own.
var numbers = regexp.MustCompile(`\[\s+([-+.e0-9]+(?:,\s+[-+.e0-9]+)*)\s+\]`)

// writeJSON writes a file that a person can read too.
func writeJSON(file string, what any) error {
	content, err := json.MarshalIndent(what, "", "  ")
	if err != nil {
		return err
	}
	content = numbers.ReplaceAllFunc(content, func(array []byte) []byte { return bytes.Join(bytes.Fields(array), nil) })
	return os.WriteFile(file, append(content, '\n'), 0o644)
}

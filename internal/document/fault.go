package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	File    string // as the reader knows it: rlminit.yaml, services.d/web.yaml
	Line    int    // counted from 1; 0 where the fault is in no file
	Field   string // services.web.command; "" for the file itself
	Text    string // what is wrong; what to write instead
	Service string // the service that it is about, or ""
}

// Error is the fault in one line: "rlminit.yaml:7: services.web.command: …".
func (f Fault) Error() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
		}
		b.WriteString(": ")
	}
	if f.Field != "" {
		b.WriteString(f.Field)
		b.WriteString(": ")
	}
	b.WriteString(f.Text)
	return b.String()
}

// Faults are all the faults that were found, in the order of the file.
type Faults []Fault

// Error has one line for each fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Err is nil where there is no fault, so that an empty Faults never becomes a
// non-nil error.
func (fs Faults) Err() error {
	if len(fs) == 0 {
		return nil
	}
	return fs
}

// Sort puts faults in the order of file and line.
func (fs Faults) Sort() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

// with adds a fault, unless there are so many that nobody reads them.
func (fs Faults) with(f Fault) Faults {
	switch {
	case len(fs) > maxFaults:
		return fs
	case len(fs) == maxFaults:
		f.Field, f.Text = "", fmt.Sprintf("more faults follow; these are the first %d", maxFaults)
	}
	return append(fs, f)
}

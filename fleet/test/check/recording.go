package check

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Beat is how often a gateway says that it runs: how exactly its end is known.
const Beat = 50 * time.Millisecond

// Run is one process of a gateway, as it recorded itself. Times are nanoseconds of
// CLOCK_BOOTTIME.
type Run struct {
	Profile, Member string
	Fence           string  // RLMINIT_FENCE; a number if it is right
	Revision        string  // which of the declared revisions it had
	Start           int64   // its first record
	Last            int64   // its last one: it ran at least until then
	Term            int64   // when it was asked to end; 0 if it was not
	Found           State   // what was in its directory when it began
	Kept            []int64 // when it wrote its state, in the order of time
}

// Now is CLOCK_BOOTTIME. It counts on while a machine sleeps, and nobody can set it.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // there is no Linux without it
	}
	return ts.Nano()
}

// Header is the first line of a recording.
func Header(at int64, r Run) string {
	return fmt.Sprintf("%d start profile=%s member=%s fence=%s revision=%s found=%d/%d", at, r.Profile, r.Member, r.Fence, r.Revision, r.Found.Fence, r.Found.At)
}

// Write writes one line at once.
func Write(w io.Writer, line string) error {
	if _, err := io.WriteString(w, line+"\n"); err != nil {
		return fmt.Errorf("cannot record: %w", err)
	}
	return nil
}

// Read reads all recordings of a directory. A last line that was cut off counts for
// nothing; anything else that is not as a gateway writes it is an error, and so is
// a recording without a first line unless it is empty: its gateway was killed
// before it wrote.
func Read(dir string) ([]Run, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the recordings: %w", err)
	}
	var runs []Run
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, fmt.Errorf("cannot read the recordings: %w", err)
		}
		whole := string(content[:strings.LastIndexByte(string(content), '\n')+1])
		if whole == "" {
			continue
		}
		run, err := parse(strings.Split(strings.TrimSuffix(whole, "\n"), "\n"))
		if err != nil {
			return nil, fmt.Errorf("cannot read the recording %s: %w", f.Name(), err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// parse reads the lines of one recording.
func parse(lines []string) (Run, error) {
	var r Run
	for i, line := range lines {
		stamp, rest, _ := strings.Cut(line, " ")
		at, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil {
			return Run{}, fmt.Errorf("line %d: %w", i+1, err)
		}
		if at < r.Last {
			return Run{}, fmt.Errorf("line %d: the clock went backwards", i+1)
		}
		r.Last = at
		what, of, _ := strings.Cut(rest, " ")
		switch {
		case i == 0 && what == "start":
			r.Start = at
			if err := r.identify(strings.Fields(of)); err != nil {
				return Run{}, err
			}
		case i > 0 && what == "term":
			if r.Term == 0 {
				r.Term = at
			}
		case i > 0 && what == "kept":
			r.Kept = append(r.Kept, at)
		case i > 0 && (what == "beat" || what == "end"):
		default:
			return Run{}, fmt.Errorf("line %d: %q is no record", i+1, line)
		}
	}
	return r, nil
}

// identify reads the first line's KEY=VALUE.
func (r *Run) identify(fields []string) error {
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "profile":
			r.Profile = value
		case "member":
			r.Member = value
		case "fence":
			r.Fence = value
		case "revision":
			r.Revision = value
		case "found":
			if _, err := fmt.Sscanf(value, "%d/%d", &r.Found.Fence, &r.Found.At); err != nil {
				return fmt.Errorf("%q is no state", value)
			}
		default:
			return fmt.Errorf("%q is no field of a recording", field)
		}
	}
	if r.Profile == "" || r.Member == "" {
		return errors.New("the recording does not say of which profile and member it is")
	}
	return nil
}

package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// Offline is a journal that is only read: of a killed supervisor, of another
// container, or of a volume that was copied. Nothing of it is changed.
type Offline struct {
	dir    *durable.Dir
	volume string
	// Refused is why a boot would not use the journal whatever its segments say;
	// nil: nothing keeps it from that.
	Refused error
}

// OpenOffline opens the journal at path: a volume's directory, its .rlminit, or
// the directory of the segments.
func OpenOffline(path string) (*Offline, error) {
	volume := path
	switch base := filepath.Base(filepath.Clean(path)); {
	case base == Home:
		volume = filepath.Dir(filepath.Clean(path))
	case base == filepath.Base(Dir):
		volume = filepath.Dir(filepath.Dir(filepath.Clean(path)))
	}
	home, err := durable.Open(volume)
	if err != nil {
		return nil, err
	}
	defer home.Close()
	o := &Offline{}
	if o.dir, err = home.OpenDir(Dir); err == nil {
		f, err := readFormat(home)
		o.volume, o.Refused = f.volume, err
		return o, nil
	}
	if !errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	// Segments that were copied somewhere without the volume around them.
	dir, openErr := durable.Open(path)
	if openErr != nil {
		return nil, openErr
	}
	if all, listErr := list(directory{dir, ".", true}); listErr != nil || len(all) == 0 {
		dir.Close()
		if _, statErr := os.Stat(filepath.Join(path, Home)); statErr != nil {
			return nil, fmt.Errorf("cannot find a journal in %s: there is no %s, and no segment", path, Dir)
		}
		return nil, err
	}
	o.dir = dir
	return o, nil
}

// Close gives the directory back.
func (o *Offline) Close() { o.dir.Close() }

// Path is where the segments are.
func (o *Offline) Path() string { return o.dir.Path(".") }

// Read is Journal's Read. A reader that follows looks for more a few times a second.
func (o *Offline) Read(ctx context.Context, q Query, each func(Record) error) error {
	r := reader{disk: directory{o.dir, ".", true}, query: q, each: each}
	r.until = func(string) (int64, <-chan struct{}) {
		if !q.Follow {
			return -1, nil
		}
		pause := make(chan struct{})
		time.AfterFunc(offlinePause, func() { close(pause) })
		return -1, pause
	}
	return r.run(ctx)
}

// Verdict is what Verify found of one segment.
type Verdict struct {
	Name    string   `json:"name"`
	Records int      `json:"records"`
	First   uint64   `json:"first,omitempty"` // the numbers of its records
	Last    uint64   `json:"last,omitempty"`
	Faults  []string `json:"faults,omitempty"` // none: it is sound
}

// Verify looks at each segment to its end. summary has the actions of a boot;
// Refused, or the error, is why it would refuse.
func (o *Offline) Verify() (verdicts []Verdict, summary string, err error) {
	d := directory{o.dir, ".", true}
	all, err := list(d)
	if err != nil {
		return nil, "", err
	}
	volume := o.volume
	if volume == "" {
		volume = newestVolume(all)
	}
	lookAtEnds(d, all)
	p, refused := planFor(all, volume)
	if refused == nil {
		p.missedNewest(newestBegun(d))
	}
	for i, s := range all {
		v := Verdict{Name: s.name}
		if why, ok := p.aside[i]; ok {
			v.Faults = append(v.Faults, why)
		}
		if s.fault == nil {
			if err := v.look(d, s); err != nil {
				return verdicts, "", err
			}
		}
		verdicts = append(verdicts, v)
	}
	for _, g := range p.missing {
		i := slices.IndexFunc(verdicts, func(v Verdict) bool { return v.Name == g.name })
		if i < 0 {
			i, verdicts = len(verdicts), append(verdicts, Verdict{Name: g.name})
		}
		verdicts[i].Faults = append(verdicts[i].Faults, g.what)
	}
	switch {
	case o.Refused != nil || refused != nil:
		return verdicts, "", errors.Join(o.Refused, refused)
	case len(all) == 0:
		summary = "there is no segment: a boot begins a journal"
	case p.base < 0:
		summary = "there is no whole snapshot: a boot knows what the single records say"
	default:
		summary = fmt.Sprintf("a boot reads the snapshot of %s and what follows it", all[p.base].name)
	}
	for _, line := range p.said {
		summary += "; " + line
	}
	return verdicts, summary, nil
}

// look reads a segment to its end.
func (v *Verdict) look(d disk, s segment) error {
	f, err := d.open(s.name, false)
	if err != nil {
		return err
	}
	defer f.Close()
	found, err := scan(f, 0, -1, func(r Record, at int64) error {
		if v.First == 0 {
			v.First = r.Seq
		} else if r.Seq != v.Last+1 && len(v.Faults) < maxBad {
			v.Faults = append(v.Faults, fmt.Sprintf("record %d at byte %d follows record %d", r.Seq, at, v.Last))
		}
		v.Last = r.Seq
		return nil
	})
	if err != nil {
		return err
	}
	v.Records = found.records
	for _, b := range found.bad {
		v.Faults = append(v.Faults, fmt.Sprintf("damaged at byte %d, %d bytes long", b.at, b.length))
	}
	if found.torn > 0 {
		v.Faults = append(v.Faults, fmt.Sprintf("torn end: its last %d bytes are no whole record", found.torn))
	}
	if s.head == nil {
		v.Faults = append(v.Faults, "it does not begin with a whole snapshot")
	}
	return nil
}

package journal

import (
	"cmp"
	"fmt"
	"slices"
)

// TypeLost says how many notes were dropped before it, as "count".
const TypeLost = "notes_lost"

// takeOver reads the segments, hands them to the folds, and begins a segment, or
// goes on with that of an earlier supervisor of this boot.
func (w *writer) takeOver() error {
	all, err := list(w.disk)
	if err != nil {
		return err
	}
	if w.volume == "" {
		w.volume = cmp.Or(newestVolume(all), newID())
	}
	lookAtEnds(w.disk, all)
	p, err := planFor(all, w.volume)
	if err != nil {
		return err
	}
	p.missedNewest(newestBegun(w.disk))
	w.fresh, w.next = len(all) == 0, p.next
	for _, line := range p.said {
		w.say("the journal: " + line)
	}
	for _, g := range p.missing {
		w.say("the journal's " + g.name + ": " + g.what)
	}
	for i, why := range p.aside {
		w.aside = append(w.aside, takenAside{all[i].name, why})
	}
	slices.SortFunc(w.aside, func(a, b takenAside) int { return cmp.Compare(a.name, b.name) })
	w.journal.folds.restore(nil, w.say)
	if p.base < 0 && !w.fresh {
		w.say("the journal has no whole snapshot: of what was recorded only what its single records say is known")
	}
	for _, i := range p.read() {
		w.needed = min(cmp.Or(w.needed, all[i].number), all[i].number)
		s, err := w.read(all[i], i == p.base)
		if err != nil {
			return err
		}
		switch {
		case len(s.bad) > 0:
			w.aside = append(w.aside, takenAside{all[i].name, damage(s)})
		case i == p.base && len(p.after) == 0 && len(w.aside) == 0 && all[i].isOf(w.boot):
			return w.goOn(all[i], s)
		default:
			if w.cut(all[i], s); s.records > 0 {
				w.prev, w.prevSeq = all[i].order(), w.seq
			}
		}
	}
	if !w.held() {
		return ErrLost
	}
	_ = w.begin() // said; Append tries again
	return nil
}

// isOf tells whether a supervisor of this boot began the segment, so that
// another may go on with it.
func (s segment) isOf(boot string) bool {
	return s.head != nil && s.head.boot == boot && s.head.Segment == s.number
}

// damage is the fault of a segment, for people.
func damage(s scanned) string {
	return fmt.Sprintf("it is damaged at byte %d, and at %d places in all, with good records after; all good ones count", s.bad[0].at, len(s.bad))
}

// read hands a segment to the folds. Its records count once: one whose number
// does not follow is a repetition.
func (w *writer) read(s segment, base bool) (scanned, error) {
	f, err := w.disk.open(s.name, false)
	if err != nil {
		return scanned{}, err
	}
	defer f.Close()
	if base {
		sections, err := sectionsOf(f)
		if err != nil {
			return scanned{}, err
		}
		w.journal.folds.restore(sections, w.say)
		w.seq = s.head.seq
	}
	repeated := 0
	found, err := scan(f, 0, -1, func(r Record, at int64) error {
		switch {
		case base && at == 0:
			w.open.snapshot = int64(len(r.Line)) + 1
		case r.Seq <= w.seq:
			repeated++
		default:
			w.journal.folds.apply(r)
			w.seq = r.Seq
		}
		return nil
	})
	if repeated > 0 {
		w.say(fmt.Sprintf("the journal's %s has %d records a second time; they count once", s.name, repeated))
	}
	return found, err
}

// cut cuts the torn end of a segment off, and gives back the blocks allocated
// beyond. The rest is durable before another segment follows: no boot looks at
// the end of this one again. One that holds nothing is removed.
func (w *writer) cut(s segment, found scanned) {
	if found.torn > 0 {
		w.sayTorn(s, found)
	}
	if found.records == 0 {
		_ = w.disk.remove(s.name) // or it is found again, which does no harm
		return
	}
	f, err := w.disk.open(s.name, true)
	if err == nil {
		if err = f.truncate(found.good); err == nil {
			err = f.sync()
		}
		f.Close()
	}
	if err != nil && found.torn > 0 {
		w.say(fmt.Sprintf("the torn end of the journal's %s stays: %v", s.name, err))
	}
}

func (w *writer) sayTorn(s segment, found scanned) {
	w.say(fmt.Sprintf("the journal's %s has a torn end: its last %d bytes are no whole record, and are cut off", s.name, found.torn))
}

// goOn continues a segment of this boot.
func (w *writer) goOn(s segment, found scanned) error {
	if found.torn > 0 {
		w.sayTorn(s, found)
	}
	f, err := w.disk.open(s.name, true)
	if err == nil {
		err = f.truncate(found.good)
	}
	if err == nil && found.open {
		_, err = f.WriteAt([]byte("\n"), found.good)
		found.good++
	}
	if err == nil {
		err = f.sync()
	}
	if err != nil {
		if f != nil {
			f.Close()
		}
		_ = w.begin() // said; Append tries again
		return nil
	}
	w.open.file, w.open.name, w.open.number, w.prev, w.prevSeq, w.open.pos = f, s.name, s.number, s.number, w.seq, found.good
	w.open.traced = w.disk.named(s.name, f)
	w.journal.shown(w.open.name, w.open.pos)
	return nil
}

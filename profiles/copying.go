package profiles

import (
	"errors"

	"rlminit/internal/durable"
	"rlminit/service"
)

// reason is why a state file is written.
type reason int

const (
	ofSeen   reason = iota // what is seen of the service has changed
	ofIntent               // what is wanted of it was recorded: the copy of that
	durably                // the same, and the file itself is to be durable
)

// saying is what a state file says, beside what is recorded.
type saying int

const (
	agrees   saying = iota // it says what is recorded, or nothing of it
	differs                // it says that something else is wanted
	unusable               // nobody can tell what it says
	missing
)

// verdict is what becomes of the file.
type verdict int

const (
	writeOver verdict = iota
	leaveAlone
	setAside // what is there, and write
)

// verdicts is the table of COPIES.md. What somebody has written into the file, to
// be adopted, is not written over by what is merely seen.
var verdicts = [...][missing + 1]verdict{
	ofSeen:   {agrees: writeOver, differs: leaveAlone, unusable: leaveAlone, missing: writeOver},
	ofIntent: {agrees: writeOver, differs: writeOver, unusable: setAside, missing: writeOver},
	durably:  {agrees: writeOver, differs: writeOver, unusable: setAside, missing: writeOver},
}

// weigh is what becomes of a file that says was, where known is what counts.
// Without a journal the file is the record, and nothing in it waits for anybody.
func (rec *Records) weigh(why reason, was, known service.Record) verdict {
	is := agrees
	switch {
	case was.Origin == service.Missing:
		is = missing
	case was.Origin == service.Corrupt:
		is = unusable
	case known.Said != service.IntentNone:
		is = differs
	}
	if rec.ledger.Load() == nil {
		why = max(why, ofIntent)
	}
	return verdicts[why][is]
}

// together is how many state files are written in one errand.
const together = 32

// updateEach is update of many, in at most so many errands at once, and returns an
// error for each. change is told which of them it is about.
func (rec *Records) updateEach(of []Subject, why reason, most int, change func(int, *stateFile)) []error {
	failures := make([]error, len(of))
	parts := (len(of) + together - 1) / together
	share(parts, min(most, parts), func(part int) {
		first := part * together
		last := min(first+together, len(of))
		rec.updateTogether(of[first:last], why, func(i int, f *stateFile) { change(first+i, f) }, failures[first:last])
	})
	return failures
}

// updateTogether is update of some. Those whose files are remembered are written in one
// errand; the others, those that somebody has changed meanwhile, and those with which
// somebody else is busy, one after the other, and none is kept from anybody meanwhile.
func (rec *Records) updateTogether(of []Subject, why reason, change func(int, *stateFile), failures []error) {
	var (
		steps   durable.Steps
		written []*rewriting // by those steps
		at      []int        // which of them these are
		alone   []int
		unlocks []func()
	)
	for i, one := range of {
		unlock, ok := rec.tree.names.tryLock(one.key())
		if !ok {
			alone = append(alone, i)
			continue
		}
		unlocks = append(unlocks, unlock)
		if w := rec.over(one, why, func(f *stateFile) { change(i, f) }); w == nil {
			alone = append(alone, i)
		} else if w.data != nil {
			steps.WriteFile(w.file, w.data, w.how)
			written, at = append(written, w), append(at, i)
		}
	}
	if len(steps) > 0 {
		for k, err := range steps.WriteFiles(rec.tree.home) {
			if errors.Is(err, durable.ErrApart) {
				rec.keep(written[k].of, written[k].was, why)
			}
			if rec.wrote(written[k], err) != nil {
				alone = append(alone, at[k])
			}
		}
	}
	for _, unlock := range unlocks {
		unlock()
	}
	for _, i := range alone {
		unlock := rec.tree.names.lock(of[i].key())
		failures[i] = rec.update(of[i], why, func(f *stateFile) { change(i, f) })
		unlock()
	}
}

// over is what a file that is remembered is to have; nil: it takes a look.
func (rec *Records) over(of Subject, why reason, change func(*stateFile)) *rewriting {
	settings := rec.tree.settings.Load()
	text, ok := rec.recall(of, why)
	if !ok || of.Service == "" && settings.Marker == "" {
		return nil
	}
	w := &rewriting{of: of, file: of.file(settings), why: why, was: text, recalled: true}
	f, err := understood(text, nil)
	if err == nil {
		err = rec.prepare(w, f, change)
	}
	if err != nil {
		return nil
	}
	return w
}

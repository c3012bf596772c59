package profiles

import (
	"io/fs"
	"path"
	"slices"
	"sync"

	"rlminit/internal/durable"
)

// largeCopy is the size of the largest state file that is looked at together with
// others, in bytes.
const largeCopy = 4 << 10

// together does update for many, in two errands for all that are as they should be:
// one looks, the other writes. It returns those that it left as they are, or about
// which nobody knows, for update: what is unusual, what somebody else is about to
// change, and all of them where there is no journal, for then each file is to be
// durable.
//
// A file is replaced only where it still says what was looked at, whatever the
// reason: many are a longer time from the look to the write than one is.
func (rec *Records) together(of []Subject, why reason, change func(Subject, *stateFile)) (left []Subject) {
	if len(of) < 2 || rec.ledger.Load() == nil {
		return of
	}
	chunks := slices.Collect(slices.Chunk(of, atOnce))
	var mu sync.Mutex
	share(len(chunks), len(chunks), func(i int) {
		some := rec.chunk(chunks[i], why, change)
		mu.Lock()
		defer mu.Unlock()
		left = append(left, some...)
	})
	return left
}

// chunk is together of as many as one errand is for.
func (rec *Records) chunk(of []Subject, why reason, change func(Subject, *stateFile)) (left []Subject) {
	settings := rec.tree.settings.Load()
	var locked []Subject
	for _, one := range of {
		unlock := rec.tree.names.tryLock(one.key())
		if unlock == nil {
			left = append(left, one)
			continue
		}
		defer unlock()
		locked = append(locked, one)
	}
	seen := rec.look(locked, settings)
	copies := durable.Copies{Mode: stateMode}
	by := map[string]Subject{}
	for _, one := range locked {
		was, ok := seen[one]
		var text []byte
		if ok {
			text, ok = rec.copyOf(one, was, why, change)
		}
		switch {
		case !ok:
			left = append(left, one)
		case text != nil:
			file := one.file(settings)
			copies.Files, copies.Texts, copies.Was = append(copies.Files, file), append(copies.Texts, text), append(copies.Was, was.Data)
			by[file] = one
		}
	}
	if len(copies.Files) > 0 {
		for _, file := range copies.WriteBelow(rec.tree.home) {
			left = append(left, by[file])
		}
	}
	return left
}

// look is what the state files of those have that are as they should be.
func (rec *Records) look(of []Subject, settings *Settings) map[Subject]durable.GlanceFile {
	seen := map[Subject]durable.GlanceFile{}
	var own, static []Subject
	var dirs, files []string
	for _, one := range of {
		switch {
		case one.Service != "":
			static, files = append(static, one), append(files, path.Base(one.file(settings)))
		case one.Profile != Default && settings.Marker != "":
			own, dirs = append(own, one), append(dirs, dirOf(one.Profile))
		}
	}
	if len(dirs) > 0 {
		glances, err := rec.tree.home.Glances(dirs, settings.Marker, []string{settings.StateFile}, largeCopy)
		for i, g := range glances {
			if err == nil && !g.Odd && g.Marked && len(g.Files) == 1 {
				seen[own[i]] = g.Files[0]
			}
		}
	}
	if len(files) > 0 { // of one directory: if any is odd, all are left
		glances, err := rec.tree.home.Glances([]string{servicesDir}, "", files, largeCopy)
		if err == nil && len(glances) == 1 && len(glances[0].Files) == len(static) {
			for i, file := range glances[0].Files {
				seen[static[i]] = file
			}
		}
	}
	return seen
}

// copyOf is what is to be written over what was seen; nil: nothing. It is not ok
// where more than that is to be done, or nobody can tell.
func (rec *Records) copyOf(of Subject, seen durable.GlanceFile, why reason, change func(Subject, *stateFile)) (text []byte, ok bool) {
	err := error(fs.ErrNotExist)
	if seen.There {
		err = nil
	}
	f, err := understood(seen.Data, err)
	if err != nil {
		return nil, false
	}
	was := f.Record
	f.Record = rec.remember(of, was)
	if rec.weigh(why, was, f.Record) != writeOver {
		return nil, false
	}
	if !rec.renew(of, &f, was, func(f *stateFile) { change(of, f) }) {
		return nil, true
	}
	return f.encode(), true
}

package places_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"rlminit/job/table"
	"rlminit/journal/places"
	"rlminit/plan/apply"
)

// world is directories, each with a number, and what follows them.
type world struct {
	at   map[places.Place]int // which directory is there
	had  map[string]int       // which had a name last
	next int                  // the number of the next one
	gone map[int]bool         // removed or moved away by means that nobody has recorded

	jobs      *table.Table // has a write into each of the first three
	revisions apply.Fold   // is about the profiles a and b
	say       []string
}

func (w *world) clone() *world {
	n := *w
	n.at, n.had, n.gone = maps.Clone(w.at), maps.Clone(w.had), maps.Clone(w.gone)
	n.revisions.Gone = maps.Clone(w.revisions.Gone)
	n.jobs = table.New()
	for id, e := range w.jobs.Jobs {
		copied := *e
		n.jobs.Jobs[id] = &copied
	}
	n.say = append([]string(nil), w.say...)
	return &n
}

// record has a record folded by all.
func (w *world) record(kind string, body map[string]string) {
	w.say = append(w.say, fmt.Sprint(kind, " ", body))
	line, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	for _, m := range places.Moves(kind, func(v any) error { return json.Unmarshal(line, v) }) {
		w.jobs.Moved(m)
		w.revisions.Moved(m)
	}
}

// move has a directory in another place; Gone and Nowhere hold none.
func (w *world) move(from, to places.Place) {
	dir := w.at[from]
	delete(w.at, from)
	if to != places.Gone && to != places.Nowhere {
		w.at[to] = dir
	}
	if name, is := to.Profile(); is {
		w.had[name] = dir
	}
}

// where is the place of a directory.
func (w *world) where(dir int) places.Place {
	for at, other := range w.at {
		if other == dir {
			return at
		}
	}
	return places.Gone
}

// holds makes sure that what is said of each directory is so. One that went unseen is
// where it was until something else comes there.
func (w *world) holds(t *testing.T) {
	said := map[places.Place]string{}
	for id, e := range w.jobs.Jobs {
		dir := int(id[0] - '0')
		is, at := w.where(dir), e.Place()
		if _, taken := w.at[at]; at != is && !(w.gone[dir] && !taken) {
			t.Fatalf("%v: the directory of job %s is in %s, and is said to be in %s", w.say, id, is, at)
		}
		if other, twice := said[at]; twice && at != places.Gone {
			t.Fatalf("%v: jobs %s and %s are both said to be in %s", w.say, id, other, at)
		}
		said[at] = id
	}
	for _, name := range []string{"a", "b"} {
		_, there := w.at[places.InProfile(name)]
		at, told := w.revisions.Gone[name]
		dir := w.had[name]
		switch is := w.where(dir); {
		case w.gone[dir]:
		case there == told:
			t.Fatalf("%v: the profile %s is there: %v, and is said to be in %q", w.say, name, there, at)
		case told && at != is:
			t.Fatalf("%v: the profile %s is in %s, and is said to be in %s", w.say, name, is, at)
		}
	}
	if _, told := w.revisions.Gone["x"]; told {
		t.Fatalf("%v: no revision is about x", w.say)
	}
}

// after are the worlds that one more thing leads to.
func (w *world) after() (all []*world) {
	names := []string{"a", "b", "x"}
	add := func(do func(n *world)) {
		n := w.clone()
		do(n)
		all = append(all, n)
	}
	for _, name := range names {
		in := places.InProfile(name)
		_, there := w.at[in]
		if !there {
			add(func(n *world) {
				n.next++
				n.at[in], n.had[name] = n.next, n.next
				n.record(places.TypeCreated, map[string]string{"profile": name})
			})
			for at := range w.at {
				if entry, is := at.Trashed(); is {
					add(func(n *world) {
						n.move(at, in)
						n.record(places.TypeCreated, map[string]string{"profile": name, "restored": entry})
					})
				}
			}
			continue
		}
		add(func(n *world) { // unseen
			n.say = append(n.say, name+" is removed")
			n.gone[n.at[in]] = true
			n.move(in, places.Gone)
		})
		add(func(n *world) {
			n.move(in, places.Gone)
			n.record(places.TypeDeleted, map[string]string{"profile": name})
		})
		add(func(n *world) {
			entry := fmt.Sprint(name, "-", len(n.say))
			n.move(in, places.InTrash(entry))
			n.record(places.TypeDeleted, map[string]string{"profile": name, "trash": entry})
		})
		for _, other := range names {
			if _, taken := w.at[places.InProfile(other)]; !taken {
				add(func(n *world) {
					n.move(in, places.InProfile(other))
					n.record(places.TypeRenamed, map[string]string{"profile": name, "to": other})
				})
			}
		}
	}
	for at := range w.at {
		if entry, is := at.Trashed(); is {
			add(func(n *world) {
				n.move(at, places.Gone)
				n.record(places.TypePurged, map[string]string{"profile": "a", "trash": entry})
			})
		}
	}
	return all
}

// Whatever is done to three profiles, with records and without: each directory that a job
// has written into, and each profile that a revision is about, is where it is said to be.
func TestDirectoriesAreFollowed(t *testing.T) {
	const most = 5
	w := &world{at: map[places.Place]int{}, had: map[string]int{}, gone: map[int]bool{}, jobs: table.New(), next: 3}
	for i, name := range []string{"a", "b", "x"} {
		w.at[places.InProfile(name)], w.had[name] = i+1, i+1
		w.jobs.Apply(table.Record{Type: table.TypeSubmitted, Line: fmt.Appendf(nil, `{"job":"%d","kind":"write","profile":%q,"path":"f"}`, i+1, name)})
	}
	w.revisions.Begin(apply.RecordedBegun{Revision: 1, Steps: []apply.Planned{{Name: "a"}, {Name: "b"}}}, "t0", "b0")
	walked := 0
	var walk func(w *world, left int)
	walk = func(w *world, left int) {
		walked++
		w.holds(t)
		if left == 0 {
			return
		}
		for _, n := range w.after() {
			walk(n, left-1)
		}
	}
	walk(w, most)
	t.Logf("figure: %d histories of three profiles' directories", walked)
	if walked < 50_000 {
		t.Error("too few: something does not happen")
	}
}

// Records that say nothing of directories, or that nobody can read, move none.
func TestOtherRecords(t *testing.T) {
	for _, kind := range []string{"operation", "profile_adopted", "profile_changed"} {
		if m := places.Moves(kind, func(any) error { t.Errorf("%s is read", kind); return nil }); m != nil {
			t.Errorf("%s moves %v", kind, m)
		}
	}
	if m := places.Moves(places.TypeCreated, func(any) error { return fmt.Errorf("torn") }); m != nil {
		t.Errorf("a torn one moves %v", m)
	}
}

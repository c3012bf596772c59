package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"rlminit/internal/durable"
	"rlminit/logs"
)

// cursor is how far a log was sent.
type cursor struct {
	Place logs.Position `json:"place"`
	Seq   uint64        `json:"seq"` // of the line after it
	Run   uint64        `json:"run"` // of the service, that the line before it is of
	Dir   string        `json:"dir,omitempty"`

	none uint64 // numbers up to Seq that no line has, in this process
}

// store is the cursors of all logs, as they are, and as the volume has them.
//
// begun are, of each log, the file of its cursor and those after it with lines that were sent,
// each with the number of its first line. Where rotation has removed the place of a cursor, one
// of them goes on. Such a file is added to numbersName before the first line of it is sent.
// That is not made durable, so it outlives this process and no power cut.
type store struct {
	begun   map[string][]cursor
	dir     func() string // where they are kept; "": nowhere
	cursors map[string]cursor
	loaded  bool // what the volume has is among them
	dirty   bool // it has not all of them
	failed  bool // the last time they could not be written
}

// kept is the file in the store's directory.
type kept struct {
	Version int               `json:"version"`
	Logs    map[string]cursor `json:"logs"`
	// Begun is store.begun.
	Begun map[string][]cursor `json:"begun,omitempty"`
}

// entered is a line of the file of numbers.
type entered struct {
	Log    string `json:"log"`
	Cursor cursor `json:"cursor"`
}

// mostBegun is how many files of a log are remembered.
const mostBegun = 256

// remember adds a file to those that were begun, and forgets those before the place that
// the receiver has.
func remember(begun []cursor, c cursor, done uint64) []cursor {
	begun = append(forget(begun, done), c)
	return begun[max(0, len(begun)-mostBegun):]
}

// forget drops the files before that of a number.
func forget(begun []cursor, done uint64) []cursor {
	for len(begun) > 1 && begun[1].Seq <= done {
		begun = begun[1:]
	}
	return begun
}

const (
	keptName    = "cursors.json"
	numbersName = "numbers"
	numbersMost = 1 << 20 // bytes, until the one before is let go
	keptMost    = 64 << 20
	keptVersion = 1
)

// load reads what there is, once there is a volume.
func (s *store) load() {
	dir := s.dir()
	if s.loaded || dir == "" {
		return
	}
	s.loaded = true
	in, err := durable.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var text []byte
	if err == nil {
		defer in.Close()
		_ = in.CleanTemps("") // of one that was killed
		text, err = in.ReadFile(keptName, keptMost)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err != nil || k.Version != keptVersion {
		slog.Warn("how far logs were sent on is not known; they are sent from their beginning", "err", err)
		return
	}
	for name, c := range k.Logs {
		if _, err := os.Lstat(filepath.Join(dir, "..", "..", c.Dir)); errors.Is(err, fs.ErrNotExist) {
			continue // a service, or a profile, that is gone with its log
		}
		if c.Place.Inode == 0 { // it is not known what follows; it may be what this process has in memory
			c.Place = logs.Position{}
			c.jump()
		}
		if now, is := s.cursors[name]; is {
			c.Seq = max(c.Seq, now.Seq)
		}
		s.cursors[name] = c
		s.begun[name] = append(forget(k.Begun[name], c.Seq), s.begun[name]...)
	}
	for _, name := range []string{numbersName + ".1", numbersName} {
		text, _ := in.ReadFile(name, 2*numbersMost)
		for line := range bytes.Lines(text) {
			var e entered
			_ = json.Unmarshal(line, &e) // one that was cut is of no log
			if c, is := s.cursors[e.Log]; is && c.Dir == e.Cursor.Dir {
				s.begun[e.Log] = remember(s.begun[e.Log], e.Cursor, c.Seq)
			}
		}
	}
}

// of is the cursor of a log; of one that was never looked at, or was elsewhere, it is before
// all that there is.
func (s *store) of(name, dir string) cursor {
	s.load()
	c, is := s.cursors[name]
	if !is || c.Dir != dir {
		c.Place, c.Dir = logs.Position{}, dir
		c.jump()
		delete(s.begun, name)
	}
	return c
}

// put notes how far a log was sent.
func (s *store) put(name string, c cursor) {
	s.cursors[name] = c
	if begun, are := s.begun[name]; are {
		s.begun[name] = forget(begun, c.Seq)
	}
	s.dirty = true
}

// enter notes the files whose first lines are about to be sent.
func (s *store) enter(all []entered) {
	var text []byte
	for _, e := range all {
		s.begun[e.Log] = remember(s.begun[e.Log], e.Cursor, s.cursors[e.Log].Seq)
		line, _ := json.Marshal(e) // of strings and numbers
		text = append(append(text, line...), '\n')
	}
	dir := s.dir()
	if dir == "" {
		return
	}
	in, err := durable.Open(dir)
	if err != nil {
		return // nothing was saved yet, so the first save has them
	}
	defer in.Close()
	if err := in.Append(numbersName, text, 0o600, numbersMost); err != nil && !s.failed {
		slog.Warn("cannot write which numbers lines have that are sent on; after a kill they may come again with others", "err", err)
		s.failed = true
	}
}

// save writes them, if the volume has not all of them. It waits for the disk.
func (s *store) save() {
	dir := s.dir()
	if !s.dirty || dir == "" {
		return
	}
	s.load()
	text, err := json.Marshal(kept{keptVersion, s.cursors, s.begun}) // of strings and numbers
	if err == nil {
		if err = os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err == nil {
		err = write(dir, text)
	}
	s.dirty = err != nil
	if err != nil && !s.failed {
		slog.Warn("cannot write how far logs were sent on; more of them will be sent again", "err", err)
	}
	s.failed = err != nil
}

func write(dir string, text []byte) error {
	in, err := durable.Open(dir)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := in.WriteFile(keptName, text, durable.Write{Mode: 0o600, Max: keptMost}); err != nil {
		return err
	}
	for _, name := range []string{numbersName, numbersName + ".1"} { // those are in it
		_ = in.RemoveAll(name)
	}
	return nil
}

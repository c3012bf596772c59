package forward

import (
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
type store struct {
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
}

const (
	keptName    = "cursors.json"
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
	}
	return c
}

// put notes how far a log was sent.
func (s *store) put(name string, c cursor) {
	s.cursors[name] = c
	s.dirty = true
}

// save writes them, if the volume has not all of them. It waits for the disk.
func (s *store) save() {
	dir := s.dir()
	if !s.dirty || dir == "" {
		return
	}
	s.load()
	text, err := json.Marshal(kept{keptVersion, s.cursors}) // of strings and numbers
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
	return in.WriteFile(keptName, text, durable.Write{Mode: 0o600, Max: keptMost})
}

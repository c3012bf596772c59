package journal

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// Options say how a journal is opened.
type Options struct {
	// Boot is the id of this start of the container, the same for each supervisor
	// of it, and another after a restart.
	Boot string
	// Folds are the domains, by the names of their sections in the snapshot.
	Folds map[string]Fold
	// Held tells whether the volume is still ours. Once it says no, nothing is
	// appended ever again. nil: it is.
	Held func() bool
	// Say gets news of the volume for people, in one line each. It
	// must not call the journal. nil: nobody is.
	Say func(line string)
	// Gone is called when somebody has removed the segment, and may make the
	// directory again; it may wait. nil: nobody is.
	Gone func()
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Fault is a test's: it is asked before each change of the disk ("write") and
	// each fsync ("sync"), which fail with its error. nil: the disk works.
	Fault func(step string) error
}

// Errors of Append, besides the system's: unix.ENOSPC, unix.EROFS, unix.EIO.
var (
	// ErrLost: another has the volume. Nothing was recorded.
	ErrLost = errors.New("the volume's lock was lost")
	// ErrClosed: the journal was closed. Nothing was recorded.
	ErrClosed = errors.New("the journal is closed")
	// ErrInDoubt: the disk refused the record, and then also to take back the part it
	// may have of it; or nobody waited for the disk's answer. A later boot may find
	// the record.
	ErrInDoubt = errors.New("it may be found recorded after a restart")
)

// Journal is an open journal. Its methods may be called by many at once.
type Journal struct {
	writer writer
	queue  queue
	ended  chan struct{} // closed when the writer has ended

	mu     sync.Mutex // what follows
	folds  folds
	tail   tail
	stats  Stats
	change chan struct{} // closed when tail changes
}

// tail is up to where a segment is shown to readers: nothing of what may yet be
// taken back.
type tail struct {
	name string
	end  int64
}

// Open takes the journal of the volume home over, or begins it, which needs the
// volume's lock. It returns an error where the present content must not be used or
// cannot be read: the volume is left as it is. Where it can only not be written
// to (a full or failing disk, a read-only volume) there is a journal: its folds
// have what was recorded, and Append says why it cannot, and tries again.
func Open(home *durable.Dir, o Options) (*Journal, error) {
	format, err := readFormat(home)
	if err != nil {
		return nil, err
	}
	if err := trusted(home); err != nil {
		return nil, err
	}
	var d disk = directory{dir: home, rel: Dir}
	if o.Fault != nil {
		d = faulty{d, o.Fault}
	}
	j, err := open(d, format.volume, o)
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", home.Path(Dir), err)
	}
	if format.volume != j.writer.volume {
		if err := writeFormat(home, j.writer.volume); err != nil && !errors.Is(err, unix.EROFS) {
			j.writer.say(err.Error())
		}
	}
	j.writer.restore = func() error {
		if o.Gone != nil {
			o.Gone()
		}
		if err := home.MkdirAll(Home, 0o700); err != nil {
			return err
		}
		// Somebody else may have made it; once it is ours nobody can exchange it.
		if err := trusted(home); err != nil {
			return err
		}
		return writeFormat(home, j.writer.volume)
	}
	go j.write()
	return j, nil
}

// open is Open on any disk; the writer does not run yet.
func open(d disk, volume string, o Options) (*Journal, error) {
	j := &Journal{ended: make(chan struct{}), change: make(chan struct{})}
	j.queue.wake = make(chan struct{}, 1)
	j.folds.by = o.Folds
	w := &j.writer
	*w = writer{journal: j, disk: d, boot: o.Boot, held: o.Held, say: o.Say, now: o.Now, volume: volume, limit: segmentLimit}
	if w.held == nil {
		w.held = func() bool { return true }
	}
	if w.say == nil {
		w.say = func(string) {}
	}
	if w.now == nil {
		w.now = time.Now
	}
	if err := w.takeOver(); err != nil {
		return nil, err
	}
	return j, nil
}

// View calls f while no fold changes. f must return at once and not call the
// journal.
func (j *Journal) View(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
}

// Volume is the id of the volume, the same for as long as there is a journal.
func (j *Journal) Volume() string { return j.writer.volume }

// Close waits for records under way, and ends the journal.
func (j *Journal) Close() {
	j.queue.close()
	<-j.ended
}

// shown moves the end of what readers see, with the lock held.
func (j *Journal) shown(name string, end int64) {
	j.tail = tail{name, end}
	close(j.change)
	j.change = make(chan struct{})
}

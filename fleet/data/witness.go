package data

import (
	"archive/tar"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// Names in an archive of `rlminit profile export`, as package archive says.
const (
	firstEntry  = "rlminit-profile.json"
	lastEntry   = "rlminit-end.json"
	profilePart = "profile/"
	logPart     = "log/"
)

// witness looks at an archive on its way into the bucket. It knows whether it is whole,
// and what was read of each file.
type witness struct {
	seed    maphash.Seed
	entries int
	files   map[uint64]content // by the hash of the name: names may be long
}

// content is what was read of a file.
type content struct {
	size int64
	sum  uint64
}

func newWitness() *witness { return &witness{seed: maphash.MakeSeed(), files: map[uint64]content{}} }

// read reads an archive to its end.
func (w *witness) read(from io.Reader) error {
	archive, last := tar.NewReader(from), ""
	buf := make([]byte, 256<<10)
	for {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return cutShort(err)
		}
		if w.entries == 0 && h.Name != firstEntry {
			return errors.New("it is no archive of a profile")
		}
		if strings.HasPrefix(h.Name, logPart) {
			return errors.New("the archive has the profile's log, which is not saved: write it with --no-log")
		}
		w.entries++
		last = h.Name
		var sum maphash.Hash
		sum.SetSeed(w.seed)
		if _, err := io.CopyBuffer(&sum, struct{ io.Reader }{archive}, buf); err != nil {
			return cutShort(err)
		}
		if name, ok := strings.CutPrefix(h.Name, profilePart); ok && h.Typeflag == tar.TypeReg {
			w.files[maphash.String(w.seed, name)] = content{h.Size, sum.Sum64()}
		}
	}
	if last != lastEntry {
		return errors.New("the archive is cut short: who wrote it ended before it was complete")
	}
	// What pads the archive belongs to its digest, too.
	_, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{from}, buf)
	return err
}

func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the archive is cut short: who wrote it ended before it was complete")
	}
	return err
}

// Bounds of the walk, those of the archive's.
const (
	maxDepth   = 64
	maxEntries = 1 << 20
)

// overwritten names the files of which a mixture of two moments was read. A file that
// has not changed since the save began is none, by the kernel's word: nobody can set a
// file's change time. Of the others what was read must be there still, at the beginning,
// or another file must have got the name: what was read of the old one was whole.
func (w *witness) overwritten(d *durable.Dir, began time.Time) ([]string, error) {
	o := overwriting{witness: w, began: began, buf: make([]byte, 256<<10)}
	err := o.directory(d, "", 0)
	return o.found, err
}

// clockStep is by how much the time of a file may lag behind that of the process: file
// systems take the time of the last tick, and some know seconds alone.
const clockStep = 2 * time.Second

func timeOf(t unix.StatxTimestamp) time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

type overwriting struct {
	*witness
	began time.Time
	buf   []byte
	found []string
}

func (o *overwriting) directory(d *durable.Dir, name string, depth int) error {
	if depth > maxDepth {
		return nil // which was said
	}
	entries, err := d.ReadDir(".", maxEntries)
	for _, e := range entries {
		if err != nil {
			break
		}
		below := path.Join(name, e.Name)
		switch e.Type {
		case fs.ModeDir:
			var sub *durable.Dir
			if sub, err = d.OpenDir(e.Name); err == nil {
				err = o.directory(sub, below, depth+1)
				sub.Close()
			}
		case 0:
			err = o.file(d, e.Name, below)
		}
		err = unlessExchanged(err)
	}
	return unlessExchanged(err)
}

func (o *overwriting) file(d *durable.Dir, name, below string) error {
	was, read := o.files[maphash.String(o.seed, below)]
	if !read {
		return nil // it is newer than the save
	}
	f, err := d.OpenRegular(name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Statx_t
	err = unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_CTIME|unix.STATX_BTIME, &st)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) { // the place refuses the call: nothing tells its birth
		var known unix.Stat_t
		err = unix.Fstat(int(f.Fd()), &known)
		st.Ctime = unix.StatxTimestamp{Sec: known.Ctim.Sec, Nsec: uint32(known.Ctim.Nsec)}
	}
	if err != nil {
		return fmt.Errorf("cannot look at %s: %w", d.Path(name), err)
	}
	changed := !timeOf(st.Ctime).Before(o.began.Add(-clockStep))
	born := st.Mask&unix.STATX_BTIME != 0 && !timeOf(st.Btime).Before(o.began)
	if !changed || born {
		return nil
	}
	var sum maphash.Hash
	sum.SetSeed(o.seed)
	if n, err := io.CopyBuffer(&sum, io.NewSectionReader(f, 0, was.size), o.buf); err != nil {
		return err
	} else if n != was.size || sum.Sum64() != was.sum {
		o.found = append(o.found, below)
	}
	return nil
}

// unlessExchanged is an error but for that of a name that has vanished, or become
// something else: what was read of it was whole.
func unlessExchanged(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrNotRegular) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

package data

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"rlminit/internal/durable"
	"rlminit/profiles/archive"
)

// saveAttempts is how often a directory is saved in which a file is overwritten
// meanwhile, until the mixture is kept and said.
const saveAttempts = 3

// Save saves a directory, and returns what a restore needs. Each file is as it was at
// one moment, or at the end of those that only grow, such as a log; files are not all of
// the same moment unless the service is stopped. Those that were overwritten during
// each attempt are named as Changed.
//
// The caller must be able to read all of the directory. at must be of a claim that the
// caller holds, with a Seq that no save of that fence has had. After an error the bucket
// may have an object that no manifest names; Collect drops it.
func (s *Store) Save(ctx context.Context, dir string, at Ref) (Manifest, error) {
	if err := at.check(); err != nil {
		return Manifest{}, cannot("save", clip(at.Name), err)
	}
	d, err := durable.Open(dir)
	if err != nil {
		return Manifest{}, cannot("save", at.Name, err)
	}
	defer d.Close()
	for attempt := 1; ; attempt++ {
		began := s.now()
		var left []string
		count := 0
		w, m, err := s.store(ctx, at, func(to io.Writer) error {
			return write(to, d, at.Name, func(line string) { left, count = appendClipped(left, line), count+1 })
		})
		if err != nil {
			return Manifest{}, cannot("save", at.Name, err)
		}
		m.LeftOut, m.LeftOutCount = left, count
		changed, err := w.overwritten(d, began)
		if err != nil {
			err = errors.Join(err, s.bucket.remove(ctx, m.Object))
			return Manifest{}, cannot("save", at.Name, err)
		}
		if len(changed) > 0 && attempt < saveAttempts {
			if err := s.bucket.remove(ctx, m.Object); err != nil {
				return Manifest{}, cannot("save", at.Name, err)
			}
			continue
		}
		for _, name := range changed {
			m.Changed = appendClipped(m.Changed, name)
		}
		m.ChangedCount = len(changed)
		return s.finish(ctx, m)
	}
}

// write writes the archive of a directory. note is told, a line each, what is left out. What
// the archive says of files that changed is not passed on: it counts those that only grew.
func write(to io.Writer, d *durable.Dir, name string, note func(string)) error {
	m := archive.Manifest{Profile: name, Desired: "stopped"} // whether it runs is the claim's to say
	return archive.Write(to, m, d, nil, func(line string) {
		if strings.Contains(line, " is left out: ") {
			note(line)
		}
	})
}

// store writes an object of what produce writes, and looks at it on the way.
func (s *Store) store(ctx context.Context, at Ref, produce func(io.Writer) error) (*witness, Manifest, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // an object that is not closed by then never comes to be
	m := Manifest{Format: Format, Name: at.Name, Cluster: at.Cluster, Fence: at.Fence, Seq: at.Seq, Object: newObject(at), At: s.now().UTC()}
	object, err := s.bucket.create(ctx, m.Object)
	if err != nil {
		return nil, m, err
	}
	abandon := func(err error) (*witness, Manifest, error) {
		cancel()
		object.Close() // fails: it is cancelled
		return nil, m, err
	}
	pack, err := newPacking(object, s.read)
	if err != nil {
		return abandon(err)
	}
	from, to := io.Pipe()
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		to.CloseWithError(produce(to))
	}()
	w := newWitness()
	err = w.read(io.TeeReader(&interruptible{ctx, from}, pack))
	from.CloseWithError(errors.Join(err, errNobodyReads))
	<-produced
	if err == nil {
		err = pack.zstd.Close()
	}
	if err != nil {
		return abandon(err)
	}
	if err := object.Close(); err != nil {
		return nil, m, err
	}
	m.Stored, m.Size, m.SHA256, m.Entries = pack.stored, pack.size, hex.EncodeToString(pack.sum.Sum(nil)), w.entries
	return w, m, s.holds(ctx, m.Object, m.Stored)
}

var errNobodyReads = errors.New("the save has ended")

// finish writes the manifest, when all that it names is there.
func (s *Store) finish(ctx context.Context, m Manifest) (Manifest, error) {
	text, err := m.Encode()
	if err != nil {
		return Manifest{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	key := manifestKey(m.Object)
	o, err := s.bucket.create(ctx, key)
	if err == nil {
		if _, err = o.Write(text); err != nil {
			cancel()
		}
		err = errors.Join(err, o.Close())
	}
	if err == nil {
		err = s.holds(ctx, key, int64(len(text)))
	}
	if err != nil {
		return Manifest{}, cannot("save", m.Name, err)
	}
	return ParseManifest(text) // as everybody else will have it
}

// holds looks whether the bucket has all of an object.
func (s *Store) holds(ctx context.Context, key string, size int64) error {
	got, err := s.bucket.size(ctx, key)
	if err == nil && got != size {
		err = fmt.Errorf("the bucket has %d bytes of %s, and %d were written", got, key, size)
	}
	return err
}

// packing compresses an archive, and knows its digest.
type packing struct {
	read   func(int64)
	size   int64
	sum    hash.Hash
	zstd   *zstd.Encoder
	to     io.Writer
	stored int64
}

func newPacking(to io.Writer, read func(int64)) (*packing, error) {
	pack := &packing{read: read, sum: sha256.New(), to: to}
	var err error
	pack.zstd, err = zstd.NewWriter(stored{pack}, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	return pack, err
}

// window bounds the memory of both directions.
const window = 4 << 20

func (p *packing) Write(b []byte) (int, error) {
	n, err := p.zstd.Write(b)
	p.sum.Write(b[:n])
	p.size += int64(n)
	p.read(p.size)
	return n, err
}

// stored counts what comes out of the compression.
type stored struct{ *packing }

func (s stored) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	s.stored += int64(n)
	return n, err
}

// interruptible is a reader that fails when ctx has ended.
type interruptible struct {
	ctx  context.Context
	from io.Reader
}

func (i *interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.from.Read(p)
}

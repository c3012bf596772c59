package data

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"rlminit/profiles/archive"
)

// ErrDamaged is wrapped by the error of a restore whose object is not what the manifest
// says. Another attempt will not help; an older save may.
var ErrDamaged = errors.New("the object in the bucket is not what its manifest says")

// Restore makes a directory what a manifest says, whole or not at all: it is written
// beside it, onto the disk, and then exchanged for it by one rename. Until that is
// durable the old one is kept. A kill at any moment leaves the old or the new one; what
// else it leaves, the next restore of the directory or the next boot removes.
//
// dir is the directory of a profile, or where one will be; its parent must exist. The
// caller must own both. Nobody may use the directory meanwhile, so the gateway must be
// stopped. A supervisor that runs must be told (reload) if the profile.yaml is another.
//
// read, if it is not nil, is told how many bytes of m.Stored have been read so far, and must
// not take long.
func (s *Store) Restore(ctx context.Context, m Manifest, dir string, read func(bytes int64)) error {
	if err := m.check(); err != nil {
		return err
	}
	e, err := s.beside(dir)
	if err != nil {
		return cannot("restore", m.Name, err)
	}
	defer e.close()
	if err := e.begin(); err != nil {
		return cannot("restore", m.Name, err)
	}
	err = s.unpack(ctx, m, e, read)
	if err == nil {
		err = e.exchange()
	}
	if err == nil {
		return nil
	}
	return cannot("restore", m.Name, errors.Join(err, e.undo()))
}

// unpack writes an archive into the directory beside.
func (s *Store) unpack(ctx context.Context, m Manifest, e *exchange, read func(int64)) error {
	from, to := io.Pipe()
	streamed := make(chan error, 1)
	go func() {
		err := s.stream(ctx, m, to, read)
		to.CloseWithError(err)
		streamed <- err
	}()
	err := e.fill(m.Name, from)
	from.CloseWithError(errNobodyReads)
	// Where the stream broke off, that is why the archive could not be read.
	if broken := <-streamed; broken != nil && !errors.Is(broken, errNobodyReads) {
		return broken
	}
	return err
}

// fill unpacks an archive and reads it to its end.
func (e *exchange) fill(profile string, from io.Reader) error {
	a, err := archive.Open(from)
	if err != nil {
		return err
	}
	if a.Profile != profile {
		return fmt.Errorf("%w: it is of the profile %s", ErrDamaged, clip(a.Profile))
	}
	place := archive.Place{Dir: e.parent, Rel: e.new}
	if err := a.Unpack(place, place); err != nil { // no save has files of a log
		return err
	}
	_, err = io.Copy(io.Discard, from)
	return err
}

// stream writes the archive that a manifest says. Its end is written when its digest is known
// to be right: an archive without its end is refused.
func (s *Store) stream(ctx context.Context, m Manifest, to io.Writer, read func(int64)) error {
	from := &resumed{ctx: ctx, from: s.bucket, key: m.Object, total: m.Stored, pause: s.pause, told: read}
	defer from.Close()
	// Of one frame after the other: a bound on their sum is Size, below.
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer z.Close()
	h := &holding{to: to, sum: sha256.New()}
	buf := make([]byte, 256<<10)
	n, err := io.CopyBuffer(h, struct{ io.Reader }{io.LimitReader(z, m.Size+1)}, buf)
	switch {
	case h.failed != nil:
		return h.failed
	case from.broken != nil:
		return from.broken
	case err != nil:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case n > m.Size:
		return fmt.Errorf("%w: it is longer than %d bytes", ErrDamaged, m.Size)
	case n < m.Size || hex.EncodeToString(h.sum.Sum(nil)) != m.SHA256:
		return fmt.Errorf("%w: its digest is another", ErrDamaged)
	}
	return h.release()
}

// holding writes on what it is given, but for the end, which it holds back.
type holding struct {
	to     io.Writer
	sum    hash.Hash
	end    []byte // at most twice held
	failed error  // what to said
}

// held is more than the last entry of an archive and the padding behind it.
const held = 64 << 10

func (h *holding) Write(p []byte) (int, error) {
	h.sum.Write(p)
	h.end = append(h.end, p...)
	if over := len(h.end) - held; over > 0 {
		if _, h.failed = h.to.Write(h.end[:over]); h.failed != nil {
			return 0, h.failed
		}
		h.end = append(h.end[:0], h.end[over:]...)
	}
	return len(p), nil
}

func (h *holding) release() error {
	_, err := h.to.Write(h.end)
	return err
}

// beside begins a restore of a directory.
func (s *Store) beside(dir string) (*exchange, error) {
	e := &exchange{step: s.step}
	if err := e.open(dir); err != nil {
		return nil, err
	}
	return e, nil
}

package data

import (
	"context"
	"io"

	"rlminit/internal/durable"
)

// SaveStream saves an archive that is read from somewhere. One that ends before its end is an error. Nothing is known of files
// that changed while it was made.
func (s *Store) SaveStream(ctx context.Context, at Ref, from io.Reader) (Manifest, error) {
	if err := at.check(); err != nil {
		return Manifest{}, cannot("save", clip(at.Name), err)
	}
	_, m, err := s.store(ctx, at, func(to io.Writer) error {
		_, err := io.Copy(to, from)
		return err
	})
	if err != nil {
		return Manifest{}, cannot("save", at.Name, err)
	}
	return s.finish(ctx, m)
}

// Pack writes the archive of a directory. note is told, a line each, what is left out.
func Pack(to io.Writer, dir, name string, note func(string)) error {
	d, err := durable.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return write(to, d, name, note)
}

// RestoreStream writes the archive that a manifest says.
func (s *Store) RestoreStream(ctx context.Context, m Manifest, to io.Writer) error {
	if err := m.check(); err != nil {
		return err
	}
	if err := s.stream(ctx, m, to, nil); err != nil {
		return cannot("restore", m.Name, err)
	}
	return nil
}

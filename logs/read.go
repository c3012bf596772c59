package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// Source is a log to be read: of an open slot, or of a service that has none
// any more.
type Source struct {
	Name string // as in Open
	Dir  string // as in Config
}

// Query says what is to be read.
type Query struct {
	Sources []Source
	N       int       // the newest lines of each at most; negative: all
	Since   time.Time // not older than this; zero: any
	Follow  bool      // go on with what is written from here on, until the context ends
	Prefix  bool      // NAME | before each line
}

// Read writes the lines that a query asks for to w.
func (c *Collector) Read(ctx context.Context, w io.Writer, q Query) error {
	for _, source := range q.Sources {
		lines, err := c.tail(source, q.N)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// Tail returns the last n lines of a slot's log, as they stand there.
func (s *Slot) Tail(n int) ([]string, error) {
	lines, err := s.c.tail(Source{Name: s.name, Dir: s.cfg.Dir}, n)
	var all []string
	for _, line := range lines {
		all = append(all, string(bytes.TrimSuffix(line, []byte{'\n'})))
	}
	return all, err
}

func (c *Collector) tail(source Source, n int) ([][]byte, error) {
	f := file{home: c.home, dir: source.Dir, fd: -1}
	dir, err := f.openDir(false)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", source.Dir, err)
	}
	defer unix.Close(dir)
	names, err := rotated(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list %s: %w", source.Dir, err)
	}
	names = append(names, current)
	var lines [][]byte
	for i := len(names) - 1; i >= 0 && (n < 0 || len(lines) < n); i-- {
		data, err := readWhole(dir, names[i])
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %s/%s: %w", source.Dir, names[i], err)
		}
		these := bytes.SplitAfter(data, []byte{'\n'})
		if len(these[len(these)-1]) == 0 {
			these = these[:len(these)-1]
		}
		lines = append(these, lines...)
	}
	if n >= 0 && len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return lines, nil
}

func readWhole(dir int, name string) ([]byte, error) {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: noFollow})
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var all []byte
	for {
		all = append(all, make([]byte, 64<<10)...)
		n, err := unix.Pread(fd, all[len(all)-64<<10:], int64(len(all)-64<<10))
		all = all[:len(all)-64<<10+max(n, 0)]
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return all, nil
		}
	}
}

package durable

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestGlob(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d, path := open(t)
		outside := t.TempDir()
		mustCreate(t, filepath.Join(outside, "x.pid"))
		for _, dir := range []string{"run", "run2", ".hidden", "deep/a/b"} {
			must(t, os.MkdirAll(filepath.Join(path, dir), 0o700))
		}
		for _, file := range []string{"a.pid", "b.pid", ".c.pid", "run3", "run/x.pid", "run2/y.lock", "run2/not \xff UTF-8.pid", "deep/a/b/z", "*"} {
			mustCreate(t, filepath.Join(path, file))
		}
		must(t, os.Symlink(outside, filepath.Join(path, "run-link")))
		must(t, os.Symlink("nowhere", filepath.Join(path, "d.pid")))
		for pattern, want := range map[string][]string{
			"a.pid":       {"a.pid"},
			"absent/x":    {"absent/x"},
			"*.pid":       {"a.pid", "b.pid", "d.pid"},
			".*.pid":      {".c.pid"},
			"?.pid":       {"a.pid", "b.pid", "d.pid"},
			"[ab].pid":    {"a.pid", "b.pid"},
			`\*`:          {"*"},
			"run*/*.pid":  {"run/x.pid", "run2/not \xff UTF-8.pid"},
			"run*":        {"run", "run-link", "run2", "run3"},
			"deep/*/b/?":  {"deep/a/b/z"},
			"absent/*":    nil,
			"absent*/x":   nil,
			"run*/y.lock": {"run/y.lock", "run2/y.lock"},
		} {
			got, err := d.Glob(pattern)
			slices.Sort(got)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%q: %q, %v; want %q", pattern, got, err, want)
			}
		}
		if got, err := d.Glob("run-link/*"); len(got) != 0 || !errors.Is(err, unix.ELOOP) {
			t.Errorf("a link that is named: %q, %v", got, err)
		}
	})
}

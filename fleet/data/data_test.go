package data

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/profiles/archive"
)

// tree is what lies at and below a directory, a line each.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var all []string
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		line := fmt.Sprintf("%q %v", rel, info.Mode())
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %q", info.ModTime().Unix(), content)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + target
		}
		all = append(all, line)
		return nil
	}))
	return strings.Join(all, "\n")
}

// aProfile is a directory with what a profile's may have, each of them with word in it.
func aProfile(t testing.TB, dir, word string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(dir, "state/deep"), 0o750))
	for name, content := range map[string]string{
		"profile.yaml": "environment: {A: " + word + "}\n", "state/deep/file": strings.Repeat(word, 30_000), "state/empty": "", "odd \"ü": word,
		"only-" + word: "",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640))
		must(t, os.Chtimes(filepath.Join(dir, name), time.Unix(1e9, 0), time.Unix(1e9, 0)))
	}
	must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(word), 0o600))
	must(t, os.Chtimes(filepath.Join(dir, "secret"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
	must(t, os.Symlink("deep/file", filepath.Join(dir, "state/link")))
	must(t, os.Chmod(filepath.Join(dir, "state"), 0o700))
	must(t, os.Chmod(dir, 0o751))
}

func aStore(t testing.TB) (s *Store, root string) {
	t.Helper()
	root = t.TempDir()
	s, err := Open(t.Context(), "file://"+root)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s, root
}

func ref(fence int64, seq int) Ref {
	return Ref{Name: "alice", Cluster: "c1", Fence: fence, Seq: seq}
}

func TestThereAndBack(t *testing.T) {
	s, root := aStore(t)
	dir := filepath.Join(t.TempDir(), "alice")
	aProfile(t, dir, "one")
	want := tree(t, dir)
	must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	m, err := s.Save(t.Context(), dir, ref(17, 1))
	must(t, err)
	if m.LeftOutCount != 2 || !strings.Contains(m.LeftOut[0], "out is left out") || !strings.Contains(m.LeftOut[1], "pipe is left out") || m.ChangedCount != 0 {
		t.Errorf("%+v", m)
	}
	inBucket, err := os.ReadFile(filepath.Join(root, manifestKey(m.Object)))
	must(t, err)
	if got, err := ParseManifest(inBucket); err != nil || got.SHA256 != m.SHA256 {
		t.Errorf("%+v, %v", got, err)
	}
	info, err := os.Stat(filepath.Join(root, m.Object))
	must(t, err)
	if info.Mode() != 0o600 || info.Size() != m.Stored {
		t.Errorf("the object has mode %v and %d bytes", info.Mode(), info.Size())
	}

	// Where no directory is, it has the mode of a profile's; over one, that one's.
	fresh := filepath.Join(t.TempDir(), "alice")
	must(t, s.Restore(t.Context(), m, fresh, nil))
	if got := tree(t, fresh); got != strings.Replace(want, "drwxr-x--x", "drwxr-x---", 1) {
		t.Errorf("got\n%.2000s\nwant\n%.2000s", got, want)
	}
	over := filepath.Join(t.TempDir(), "alice")
	aProfile(t, over, "two")
	must(t, s.Restore(t.Context(), m, over, nil))
	if got := tree(t, over); got != want {
		t.Errorf("got\n%.2000s\nwant\n%.2000s", got, want)
	}
	if beside, err := os.ReadDir(filepath.Dir(over)); err != nil || len(beside) != 1 {
		t.Errorf("%v, %v", beside, err)
	}
}

// The archive goes through a pipe to whoever has the rights, and through Pack back.
func TestStreams(t *testing.T) {
	s, _ := aStore(t)
	dir := filepath.Join(t.TempDir(), "alice")
	aProfile(t, dir, "one")
	var packed, got bytes.Buffer
	must(t, Pack(&packed, dir, "alice", func(line string) { t.Error(line) }))
	m, err := s.SaveStream(t.Context(), ref(17, 1), bytes.NewReader(packed.Bytes()))
	must(t, err)
	must(t, s.RestoreStream(t.Context(), m, &got))
	if !bytes.Equal(got.Bytes(), packed.Bytes()) || m.Size != int64(packed.Len()) {
		t.Errorf("%d bytes came back of %d", got.Len(), packed.Len())
	}
	a, err := archive.Open(&got)
	must(t, err)
	if a.Profile != "alice" || a.Desired != "stopped" {
		t.Errorf("%+v", a.Manifest)
	}
	for _, n := range []int{0, 100, 512, packed.Len() / 2, packed.Len() - 2048, packed.Len() - 1530} {
		if m, err := s.SaveStream(t.Context(), ref(17, 2), bytes.NewReader(packed.Bytes()[:n])); err == nil {
			t.Errorf("%d of %d bytes were saved: %+v", n, packed.Len(), m)
		}
	}
	var other bytes.Buffer
	w := tar.NewWriter(&other)
	must(t, w.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg}))
	must(t, w.Close())
	if _, err := s.SaveStream(t.Context(), ref(17, 2), &other); err == nil || !strings.Contains(err.Error(), "no archive of a profile") {
		t.Error(err)
	}
}

// Whatever happens to an object, a restore changes nothing and says so, and a stream is
// not given its end. The one exception: some bits of zstd's format mean nothing, so that an
// object with such a bit flipped still has the archive that was saved.
func TestDamagedObjects(t *testing.T) {
	s, root := aStore(t)
	dir := filepath.Join(t.TempDir(), "alice")
	aProfile(t, dir, "one")
	m, err := s.Save(t.Context(), dir, ref(17, 1))
	must(t, err)
	aProfile(t, dir+"2", "two")
	other, err := s.Save(t.Context(), dir+"2", ref(17, 2))
	must(t, err)
	object := filepath.Join(root, m.Object)
	whole, err := os.ReadFile(object)
	must(t, err)
	swapped, err := os.ReadFile(filepath.Join(root, other.Object))
	must(t, err)
	s.pause = func(context.Context, time.Duration) error { return nil }
	before := tree(t, dir)
	var saved bytes.Buffer
	must(t, s.RestoreStream(t.Context(), m, &saved))
	same := func(m Manifest) bool {
		var out bytes.Buffer
		return s.RestoreStream(t.Context(), m, &out) == nil && bytes.Equal(out.Bytes(), saved.Bytes())
	}
	try := func(what string, content []byte, m Manifest) {
		must(t, os.WriteFile(object, content, 0o600))
		if err := s.Restore(t.Context(), m, dir, nil); !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
		if tree(t, dir) != before {
			t.Fatalf("%s: the directory has changed", what)
		}
		var out bytes.Buffer
		if err := s.RestoreStream(t.Context(), m, &out); err == nil || bytes.Contains(out.Bytes(), []byte(lastEntry)) {
			t.Errorf("%s: %v, and %d bytes", what, err, out.Len())
		}
	}
	flips, harmless := 0, 0
	for i := 0; i < len(whole); i += 1 + len(whole)/50 {
		flipped := slices.Clone(whole)
		flipped[i] ^= 0x10
		must(t, os.WriteFile(object, flipped, 0o600))
		if flips++; same(m) {
			harmless++
		} else {
			try(fmt.Sprintf("bit flipped at %d", i), flipped, m)
		}
		try(fmt.Sprintf("cut at %d", i), whole[:i], m)
	}
	if harmless*2 > flips {
		t.Errorf("%d of %d flipped bits changed nothing", harmless, flips)
	}
	m2 := m
	m2.Stored = other.Stored
	try("another save", swapped, m2)
	must(t, os.WriteFile(object, append(slices.Clone(whole), "more"...), 0o600))
	must(t, s.Restore(t.Context(), m, dir, nil)) // what the manifest speaks of is right
	must(t, os.Remove(object))
	if err := s.Restore(t.Context(), m, dir, nil); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
}

// hostile is an object whose digest is right and whose archive is an attack.
func hostile(t *testing.T, s *Store, entries ...tar.Header) Manifest {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	all := slices.Concat([]tar.Header{{Name: firstEntry, Typeflag: tar.TypeReg, Linkname: `{"format":1,"profile":"alice"}`}}, entries,
		[]tar.Header{{Name: lastEntry, Typeflag: tar.TypeReg, Linkname: fmt.Sprintf(`{"entries":%d}`, len(entries)+1)}})
	for _, h := range all {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = h.Linkname, ""
			h.Size = int64(len(content))
		}
		h.Mode = 0o4777
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, content)
		must(t, err)
	}
	must(t, w.Close())
	m, err := s.SaveStream(t.Context(), ref(17, 1), &out)
	must(t, err)
	return m
}

func TestHostileArchives(t *testing.T) {
	s, _ := aStore(t)
	link := func(to string) tar.Header {
		return tar.Header{Name: "profile/l", Typeflag: tar.TypeSymlink, Linkname: to}
	}
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Linkname: "x"} }
	for what, entries := range map[string][]tar.Header{
		"above":           {file("profile/../../x")},
		"absolute":        {file("/etc/rlminit-x")},
		"link out":        {link("../../x")},
		"absolute link":   {link("/etc")},
		"through a link":  {{Name: "profile/d/", Typeflag: tar.TypeDir}, link("d"), file("profile/l/x")},
		"device":          {{Name: "profile/d", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
		"pipe":            {{Name: "profile/p", Typeflag: tar.TypeFifo}},
		"second name":     {file("profile/a"), {Name: "profile/b", Typeflag: tar.TypeLink, Linkname: "profile/a"}},
		"twice":           {file("profile/a"), file("profile/a")},
		"profile.yaml":    {{Name: "profile/profile.yaml", Typeflag: tar.TypeSymlink, Linkname: "x"}},
		"other directory": {file("etc/x")},
	} {
		home := t.TempDir()
		dir := filepath.Join(home, "alice")
		aProfile(t, dir, "one")
		before := tree(t, home)
		err := s.Restore(t.Context(), hostile(t, s, entries...), dir, nil)
		if !errors.Is(err, archive.ErrFault) || tree(t, home) != before {
			t.Errorf("%s: %v", what, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "alice")
	must(t, s.Restore(t.Context(), hostile(t, s, file("profile/setuid")), dir, nil))
	if info, err := os.Stat(filepath.Join(dir, "setuid")); err != nil || info.Mode() != 0o777 {
		t.Errorf("%v, %v", info, err)
	}
	var log bytes.Buffer
	w := tar.NewWriter(&log)
	must(t, w.WriteHeader(&tar.Header{Name: firstEntry, Typeflag: tar.TypeReg}))
	must(t, w.WriteHeader(&tar.Header{Name: "log/current", Typeflag: tar.TypeReg}))
	must(t, w.Close())
	if _, err := s.SaveStream(t.Context(), ref(1, 1), &log); err == nil || !strings.Contains(err.Error(), "--no-log") {
		t.Error(err)
	}
}

// Who is not the directory's user is told what to do.
func TestRestoreOfAnothersDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	s, _ := aStore(t)
	dir := filepath.Join(t.TempDir(), "alice")
	aProfile(t, dir, "one")
	m, err := s.Save(t.Context(), dir, ref(17, 1))
	must(t, err)
	must(t, os.Chown(dir, 4711, 4711))
	before := tree(t, dir)
	if err := s.Restore(t.Context(), m, dir, nil); err == nil || !strings.Contains(err.Error(), "belongs to uid 4711, and this is uid 0") {
		t.Error(err)
	}
	if tree(t, dir) != before {
		t.Error("the directory has changed")
	}
}

// What a file may do while it is read.
func TestFilesThatChange(t *testing.T) {
	size := 4 << 20
	for what, c := range map[string]struct {
		change  func(path string, times int) error
		changed int
		saves   int
	}{
		"grows": {func(path string, _ int) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			must(t, err)
			defer f.Close()
			_, err = f.Write(make([]byte, 100_000))
			return err
		}, 0, 1},
		"is replaced": {func(path string, _ int) error {
			must(t, os.WriteFile(path+".new", []byte("new"), 0o600))
			return os.Rename(path+".new", path)
		}, 0, 1},
		"is overwritten once": {func(path string, times int) error {
			if times > 0 {
				return nil
			}
			return overwrite(path)
		}, 0, 2},
		"is overwritten each time": {func(path string, _ int) error { return overwrite(path) }, 1, saveAttempts},
	} {
		t.Run(what, func(t *testing.T) {
			s, _ := aStore(t)
			b := &counting{bucket: s.bucket}
			s.bucket = b
			dir := filepath.Join(t.TempDir(), "alice")
			aProfile(t, dir, "one")
			path := filepath.Join(dir, "state/large")
			content := make([]byte, size)
			for i := range content {
				content[i] = byte(i*i>>3 ^ i>>11)
			}
			must(t, os.WriteFile(path, content, 0o600))
			times, last := 0, int64(0)
			s.read = func(done int64) {
				if done < last {
					last = 0 // another attempt
				}
				if last < int64(size)*3/4 && done >= int64(size)*3/4 {
					if err := c.change(path, times); err != nil {
						t.Error(err)
					}
					times++
				}
				last = done
			}
			m, err := s.Save(t.Context(), dir, ref(17, 1))
			must(t, err)
			if m.ChangedCount != c.changed || b.created != c.saves+1 || times != c.saves {
				t.Errorf("%d changed: %q; %d objects, %d attempts", m.ChangedCount, m.Changed, b.created, times)
			}
			to := filepath.Join(t.TempDir(), "alice")
			must(t, s.Restore(t.Context(), m, to, nil))
			got, err := os.ReadFile(filepath.Join(to, "state/large"))
			must(t, err)
			if want, err := os.ReadFile(path); len(got) != size || what == "grows" && (err != nil || !bytes.HasPrefix(want, got)) || what == "is replaced" && !bytes.Equal(got, content) {
				t.Errorf("%d bytes were restored, %v", len(got), err)
			}
		})
	}
}

// overwrite writes at the beginning of a file and at its end.
func overwrite(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var b [1]byte
	for _, at := range []int64{0, 4<<20 - 1} {
		if _, err := f.ReadAt(b[:], at); err != nil {
			return err
		}
		b[0]++
		if _, err := f.WriteAt(b[:], at); err != nil {
			return err
		}
	}
	return nil
}

// counting counts the objects that are begun.
type counting struct {
	bucket
	created int
}

func (c *counting) create(ctx context.Context, key string) (io.WriteCloser, error) {
	c.created++
	return c.bucket.create(ctx, key)
}

func keys(t *testing.T, s *Store) (all []string) {
	t.Helper()
	must(t, s.bucket.list(t.Context(), "", func(key string) error { all = append(all, key); return nil }))
	return all
}

func TestCollect(t *testing.T) {
	s, root := aStore(t)
	dir := filepath.Join(t.TempDir(), "alice")
	aProfile(t, dir, "one")
	saved := map[Ref]Manifest{}
	for _, r := range []Ref{ref(9, 1), ref(9, 2), ref(17, 1), ref(17, 2), ref(17, 3), ref(20, 1), {"alice", "c2", 3, 1}, {"alice2", "c1", 3, 1}} {
		m, err := s.Save(t.Context(), dir, r)
		must(t, err)
		saved[r] = m
	}
	// What kills have left: an object without its manifest, a part of one, and what no save makes.
	must(t, os.WriteFile(filepath.Join(root, newObject(ref(9, 3))), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(root, newObject(ref(9, 4))+".18abc.tmp"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(root, newObject(ref(20, 2))), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(root, "alice/c1/notes"), nil, 0o600))
	must(t, s.Collect(t.Context(), "alice", saved[ref(17, 2)]))
	left := strings.Join(keys(t, s), "\n")
	for r, m := range saved {
		gone := r == ref(9, 1) || r == ref(9, 2) || r == ref(17, 1)
		if strings.Contains(left, m.Object) == gone || strings.Contains(left, manifestKey(m.Object)) == gone {
			t.Errorf("%+v: left are\n%s", r, left)
		}
	}
	if strings.Contains(left, "0000000009/") || !strings.Contains(left, "notes") || !strings.Contains(left, ref(20, 2).stem()) {
		t.Errorf("left are\n%s", left)
	}
	if err := s.Collect(t.Context(), "bob", saved[ref(17, 2)]); err == nil {
		t.Error("another profile's manifest was taken")
	}
}

func TestBucketsThatCannotBe(t *testing.T) {
	for url, why := range map[string]string{
		"file://relative/x":       "an absolute path",
		"file:///nowhere/at/all":  "make the directory",
		"file:///tmp?x=1":         "nothing behind it",
		"gs://bucket":             "write file:///DIRECTORY or s3://BUCKET",
		"s3://key:secret@bucket/": "credentials do not belong into its URL",
		"%":                       "cannot be read",
	} {
		_, err := Open(t.Context(), url)
		if err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), ":secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestRefs(t *testing.T) {
	s, root := aStore(t)
	for _, r := range []Ref{{"", "c", 1, 1}, {"a/b", "c", 1, 1}, {"a", "", 1, 1}, {"a", "c", 0, 1}, {"a", "c", 1, -1}, {"..", "c", 1, 1}} {
		if _, err := s.Save(t.Context(), root, r); err == nil {
			t.Errorf("%+v was saved", r)
		}
		if _, err := s.SaveStream(t.Context(), r, strings.NewReader("")); err == nil {
			t.Errorf("%+v was saved", r)
		}
	}
	if all := keys(t, s); len(all) != 0 {
		t.Errorf("%q", all)
	}
}

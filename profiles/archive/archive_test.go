package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

func open(t *testing.T, path string) *durable.Dir {
	t.Helper()
	d, err := durable.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree is what lies below a directory, a line each.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	must(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		line := fmt.Sprintf("%s %v", rel, info.Mode())
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %q", info.ModTime().Unix(), content)
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + target
		}
		all = append(all, line)
		return nil
	}))
	return all
}

// sample is a profile with most of what a directory can hold, its log, and the
// archive of both with what was noted.
func sample(t *testing.T) (profile, log string, archive []byte, notes string) {
	t.Helper()
	profile, log = t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(profile, "a/b"), 0o750))
	must(t, os.Mkdir(filepath.Join(profile, "locked"), 0o700))
	long := strings.Repeat("long", 60)
	for name, content := range map[string]string{
		"profile.yaml": "{}\n", "a/b/file": strings.Repeat("x", 3000), "a/empty": "", long: "l", "a/ü \"\n": "odd", "locked/in": "1",
	} {
		must(t, os.WriteFile(filepath.Join(profile, name), []byte(content), 0o640))
	}
	must(t, os.Chtimes(filepath.Join(profile, "profile.yaml"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
	must(t, os.Symlink("../profile.yaml", filepath.Join(profile, "a/up")))
	must(t, os.Symlink("a/b", filepath.Join(profile, "in")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(profile, "out")))
	must(t, os.Symlink("../..", filepath.Join(profile, "a/above")))
	must(t, unix.Mkfifo(filepath.Join(profile, "pipe"), 0o600))
	must(t, os.Chmod(filepath.Join(profile, "locked"), 0o500))
	for name, content := range map[string]string{
		"current": "now\n", "20260524T180533.000000Z.log": "old\n", "20260523T180533.000000Z.log.gz": "older", "notes": "a service's",
	} {
		must(t, os.WriteFile(filepath.Join(log, name), []byte(content), 0o640))
	}
	var out bytes.Buffer
	var said []string
	m := Manifest{Profile: "alice", Desired: "running", Port: 9471, At: time.Unix(1e9, 0).UTC(), Version: "1.2"}
	must(t, Write(&out, m, open(t, profile), open(t, log), func(line string) { said = append(said, strings.ReplaceAll(line, profile, "P")) }))
	return profile, log, out.Bytes(), strings.Join(said, "\n")
}

// unpack reads an archive into two directories of a fresh home.
func unpack(t *testing.T, archive []byte) (home string, m Manifest, err error) {
	t.Helper()
	home = t.TempDir()
	must(t, os.Mkdir(filepath.Join(home, "p"), 0o750))
	must(t, os.Mkdir(filepath.Join(home, "l"), 0o750))
	a, err := Open(bytes.NewReader(archive))
	if err != nil {
		return home, m, err
	}
	d := open(t, home)
	return home, a.Manifest, a.Unpack(Place{d, "p"}, Place{d, "l"}, "skipped")
}

func TestThereAndBack(t *testing.T) {
	profile, log, archive, notes := sample(t)
	want := "P/a/above is left out: it is a link out of the profile, to \"../..\"\n" +
		"P/out is left out: it is a link to an absolute path, \"/etc/passwd\"\n" +
		"P/pipe is left out: it is neither a file nor a directory nor a link"
	if notes != want {
		t.Errorf("noted\n%s\nwant\n%s", notes, want)
	}
	home, m, err := unpack(t, archive)
	must(t, err)
	if m.Profile != "alice" || m.Desired != "running" || m.Port != 9471 || m.Version != "1.2" || !m.At.Equal(time.Unix(1e9, 0)) {
		t.Errorf("%+v", m)
	}
	left := slices.DeleteFunc(tree(t, profile), func(line string) bool {
		return strings.HasPrefix(line, "out ") || strings.HasPrefix(line, "pipe ") || strings.HasPrefix(line, "a/above ")
	})
	for i, line := range left { // its owner can always reach into it
		left[i] = strings.Replace(line, "locked dr-x------", "locked drwx------", 1)
	}
	if got := tree(t, filepath.Join(home, "p")); !slices.Equal(got, left) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(left, "\n"))
	}
	logs := slices.DeleteFunc(tree(t, log), func(line string) bool { return strings.HasPrefix(line, "notes ") })
	if got := tree(t, filepath.Join(home, "l")); !slices.Equal(got, logs) {
		t.Errorf("got %q, want %q", got, logs)
	}
}

// An archive that was cut short anywhere is refused, and called so.
func TestCutShortAnywhere(t *testing.T) {
	_, _, archive, _ := sample(t)
	whole := len(bytes.TrimRight(archive, "\x00")) // behind it are zeros, and nothing is said of those
	for n := 0; n < whole; n += 251 {
		_, _, err := unpack(t, archive[:n])
		switch {
		case !errors.Is(err, ErrFault):
			t.Fatalf("%d of %d bytes: %v", n, whole, err)
		case n > 0 && !strings.Contains(err.Error(), "it is cut short; export the profile again"):
			t.Errorf("%d of %d bytes: %v", n, whole, err)
		}
	}
}

// entries makes an archive of what a person, or an enemy, has put together.
func entries(t *testing.T, list ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	all := append([]tar.Header{{Name: manifestName, Typeflag: tar.TypeReg, Linkname: manifestOfAlice}}, list...)
	all = append(all, tar.Header{Name: endName, Typeflag: tar.TypeReg, Linkname: fmt.Sprintf(`{"entries":%d}`, len(all))})
	for _, h := range all {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = h.Linkname, "" // where the tables have it
			h.Size = int64(len(content))
		}
		if h.Mode == 0 {
			h.Mode = 0o600
		}
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, content)
		must(t, err)
	}
	must(t, w.Close())
	return out.Bytes()
}

const manifestOfAlice = `{"format":1,"profile":"alice"}`

// described is an archive whose manifest is another, no longer one.
func described(t *testing.T, manifest string) []byte {
	t.Helper()
	padded := fmt.Sprintf("%-*s", len(manifestOfAlice), manifest)
	return bytes.Replace(entries(t), []byte(manifestOfAlice), []byte(padded), 1)
}

// largeHeader is an archive with a pax header of 3 MB.
func largeHeader(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	must(t, w.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: 3 << 20, Format: tar.FormatUSTAR}))
	header := bytes.Clone(out.Bytes()[:512])
	const kind, sum = 156, 148
	header[kind] = 'x'
	copy(header[sum:], "        ")
	total := 0
	for _, b := range header {
		total += int(b)
	}
	copy(header[sum:], fmt.Sprintf("%06o\x00 ", total))
	first, _, _ := bytes.Cut(entries(t), []byte(endName))
	return slices.Concat(first, header, make([]byte, 3<<20+1024))
}

// What is exchanged while it is read, a file for a link and that for a directory, and what
// is written all the time, fails no export, and what is written can be read back.
func TestWriteOfWhatChanges(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Mkdir(at("d"), 0o700))
	for i := range 50 {
		must(t, os.WriteFile(at(fmt.Sprintf("d/%d", i)), []byte("deep"), 0o600))
	}
	must(t, os.WriteFile(at("f"), []byte("file"), 0o600))
	must(t, os.Symlink("f", at("l")))
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-end:
				ended <- nil
				return
			default:
			}
			pair := [][2]string{{"f", "l"}, {"l", "d"}, {"d", "f"}}[i%3]
			err := unix.Renameat2(unix.AT_FDCWD, at(pair[0]), unix.AT_FDCWD, at(pair[1]), unix.RENAME_EXCHANGE)
			if err == nil {
				err = os.WriteFile(at("written"), bytes.Repeat([]byte("w"), i%5000), 0o600)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	for i := range 300 {
		var out bytes.Buffer
		err := Write(&out, Manifest{Profile: "alice"}, open(t, dir), nil, func(line string) {
			if !strings.Contains(line, " is left out: ") && !strings.Contains(line, " changed while it was read") {
				t.Errorf("noted %q", line)
			}
		})
		if err == nil && i%50 == 0 {
			_, _, err = unpack(t, out.Bytes())
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	close(end)
	must(t, <-ended)
}

func TestWhatIsRefused(t *testing.T) {
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Linkname: "x"} }
	dir := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir} }
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	var gz bytes.Buffer
	gz.Write([]byte{0x1f, 0x8b, 8, 0})
	for why, c := range map[string][]byte{
		`there is nothing in it`: {},
		`it is no tar archive`:   []byte(strings.Repeat("no tar at all ", 100)),
		`it is compressed; write: gunzip -c FILE | rlminit profile import -`:                                          gz.Bytes(),
		`its entry "/etc/passwd" has an absolute name`:                                                                entries(t, file("/etc/passwd")),
		`its entry "profile/../../x" climbs out of the archive`:                                                       entries(t, file("profile/../../x")),
		`its entry "../x" climbs out of the archive`:                                                                  entries(t, file("../x")),
		`its entry "profile/a//b" has a name that no export gives`:                                                    entries(t, file("profile/a//b")),
		`its entry "profile/./a" has a name that no export gives`:                                                     entries(t, file("profile/./a")),
		`its entry "etc/x" is no part of a profile`:                                                                   entries(t, file("etc/x")),
		`its entry "profile" is no part of a profile`:                                                                 entries(t, file("profile")),
		`its entry "log/notes" is no file of a log`:                                                                   entries(t, file("log/notes")),
		`its entry "log/current" is no file of a log`:                                                                 entries(t, link("log/current", "x")),
		`its entry "log/a/current" is no file of a log`:                                                               entries(t, file("log/a/current")),
		`its entry "profile/x" is a link to an absolute path, "/etc"`:                                                 entries(t, link("profile/x", "/etc")),
		`its entry "profile/x" is a link out of the profile, to "../x"`:                                               entries(t, link("profile/x", "../x")),
		`its entry "profile/d/x" is a link out of the profile, to "../../profile/y"`:                                  entries(t, dir("profile/d/"), link("profile/d/x", "../../profile/y")),
		`its entry "profile/x" is a link that climbs behind a name, to "a/../../../etc"`:                              entries(t, link("profile/x", "a/../../../etc")),
		`its entry "profile/x/y" lies behind a link`:                                                                  entries(t, dir("profile/d/"), link("profile/x", "d"), file("profile/x/y")),
		`its entry "profile/x" is there twice`:                                                                        entries(t, file("profile/x"), file("profile/x")),
		`its entry "profile/x/y" lies below a file`:                                                                   entries(t, file("profile/x"), file("profile/x/y")),
		`its entry "profile/x/y" comes before its directory`:                                                          entries(t, file("profile/x/y")),
		`its entry "profile/x" is a second name of "profile/y"; only rlminit profile export writes what is read here`: entries(t, file("profile/y"), tar.Header{Name: "profile/x", Typeflag: tar.TypeLink, Linkname: "profile/y"}),
		`behind entry 1 is one whose header is larger than any export has`:                                            largeHeader(t),
		`its entry "profile/` + strings.Repeat("n", 52) + `…" has a name of more than 255 bytes`:                      entries(t, file("profile/"+strings.Repeat("n", 256))),
		`its entry "profile/profile.yaml" is no file; write one in its place and export the profile again`:            entries(t, link("profile/profile.yaml", "other")),
		`its entry "profile/x" is a device or a pipe`:                                                                 entries(t, tar.Header{Name: "profile/x", Typeflag: tar.TypeBlock, Devmajor: 8}),
		`its entry "profile/y" is a device or a pipe`:                                                                 entries(t, tar.Header{Name: "profile/y", Typeflag: tar.TypeFifo}),
		`it is no export of a profile, which begins with rlminit-profile.json`: func() []byte {
			var out bytes.Buffer
			w := tar.NewWriter(&out)
			must(t, w.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg}))
			must(t, w.Close())
			return out.Bytes()
		}(),
		`its rlminit-profile.json has desired "up"; only running and stopped can be desired`:                    described(t, `{"format":1,"desired":"up"}`),
		`its rlminit-profile.json has port -1; a port is 1 to 65535`:                                            described(t, `{"format":1,"port":-1}`),
		`it has format 2, and this rlminit ("9.0" wrote it) reads 1; import it with one of the other's version`: described(t, `{"format":2,"rlminit":"9.0"}`),
		`it has 2 entries and says that there are 7`:                                                            bytes.Replace(entries(t, file("profile/x")), []byte(`{"entries":2}`), []byte(`{"entries":7}`), 1),
	} {
		t.Run(why, func(t *testing.T) {
			home, _, err := unpack(t, c)
			if !errors.Is(err, ErrFault) || err.Error() != ErrFault.Error()+": "+why {
				t.Errorf("%v", err)
			}
			if outside, err := os.ReadDir(home); err != nil || len(outside) != 2 {
				t.Errorf("%v, %v", outside, err)
			}
		})
	}
	home, _, err := unpack(t, entries(t, dir("profile/"), file("profile/skipped"), file("profile/kept"),
		dir("profile/.rlminit-undo/"), file("profile/.rlminit-undo/9"), dir("profile/.rlminit-sessions/"), file("profile/.rlminit-sessions/7")))
	must(t, err)
	if got := tree(t, filepath.Join(home, "p")); len(got) != 1 || !strings.HasPrefix(got[0], "kept ") {
		t.Errorf("%q", got)
	}
}

// Whatever comes, nothing lies outside of the two places.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte("x"))
	f.Add(make([]byte, 1024))
	f.Fuzz(func(t *testing.T, archive []byte) {
		home, _, _ := unpack(t, archive)
		all, err := os.ReadDir(home)
		if err != nil || len(all) != 2 {
			t.Errorf("%v, %v", all, err)
		}
		for _, line := range tree(t, home) {
			if strings.Contains(line, " -> /") {
				t.Errorf("%s", line)
			}
		}
	})
}

package profiles

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/job"
	"rlminit/profiles/archive"
)

// exported is an archive of a profile that a volume has, with a log.
func exported(t *testing.T, v *volume, name string) []byte {
	t.Helper()
	v.write("logs/gateways/"+name+"/current", "one line\n")
	dir, err := v.Ours().OpenDir("profiles/" + name)
	must(t, err)
	defer dir.Close()
	log, err := v.Ours().OpenDir("logs/gateways/" + name)
	must(t, err)
	defer log.Close()
	var out bytes.Buffer
	must(t, archive.Write(&out, archive.Manifest{Profile: name, Desired: "stopped", Port: 9300, At: time.Now()}, dir, log, func(line string) { t.Error(line) }))
	return out.Bytes()
}

// imported creates a profile of an archive.
func (v *volume) imported(name string, content []byte) (Profile, error) {
	v.t.Helper()
	a, err := archive.Open(bytes.NewReader(content))
	must(v.t, err)
	p, _, err := v.Create(name, Creation{Import: a})
	return p, err
}

// lying is what the volume has, by path.
func (v *volume) lying() string {
	var all []string
	must(v.t, filepath.WalkDir(v.home, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(v.home, path)
		all = append(all, rel)
		return err
	}))
	return strings.Join(all, "\n")
}

func TestImportIsWhatWasExported(t *testing.T) {
	v := newVolume(t, func(s *Settings) { s.RemoveAtBoot = []string{"*.pid"} })
	v.create("alice", Creation{Environment: map[string]string{"A": "b"}, Port: 9300})
	v.write("profiles/alice/x.pid", "7")
	v.write("profiles/alice/deep/file", "deep")
	v.write("profiles/alice/"+job.SessionsDir+"/7/secret", "another's")
	v.write("profiles/alice/"+job.UndoDir+"/9", "a secret of before")
	content := exported(t, v, "alice")
	if bytes.Contains(content, []byte("another's")) || bytes.Contains(content, []byte("of before")) {
		t.Error("what jobs keep there is in the archive")
	}
	if _, err := v.imported("alice", content); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("over one that is there: %v", err)
	}
	p, err := v.imported("bob", content)
	must(t, err)
	if p.Port == 9300 || p.Record.Desired != "stopped" || p.Environment()["A"] != "b" || p.Record.Profile != "bob" {
		t.Errorf("%+v", p)
	}
	for file, want := range map[string]string{"profiles/bob/deep/file": "deep", "logs/gateways/bob/current": "one line\n"} {
		if got, err := os.ReadFile(v.path(file)); string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	if _, err := os.Stat(v.path("profiles/bob/x.pid")); err == nil {
		t.Error("what is removed at boot came along")
	}
	_, err = v.Delete("alice", true, nil)
	must(t, err)
	again, err := v.imported("alice", content)
	must(t, err)
	if again.Port != 9300 {
		t.Errorf("its port is %d", again.Port)
	}
	if found, _ := filepath.Glob(v.path("logs/gateways/alice.before-*")); len(found) != 1 {
		t.Errorf("the log of the one before is at %q", found)
	}
}

// A disk that fails at any step leaves no profile, and nothing that the next boot
// does not remove; nor does an archive that is cut short.
func TestImportIsWholeOrNotAtAll(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{})
	v.write("profiles/alice/deep/file", "deep")
	content := exported(t, v, "alice")
	before := v.lying()
	check := func(what string, err error) {
		t.Helper()
		if _, e := os.Stat(v.path("profiles/bob")); err == nil || e == nil {
			t.Errorf("%s: %v; and of the profile: %v", what, err, e)
		}
		v.PrepareBoot(nil)
		if after := v.lying(); after != before {
			t.Errorf("%s: there was\n%s\nand is\n%s", what, before, after)
		}
	}
	for n := 512; n < len(bytes.TrimRight(content, "\x00")); n += 512 {
		_, err := archive.Open(bytes.NewReader(content[:n]))
		if err == nil {
			_, err = v.imported("bob", content[:n])
		}
		check(fmt.Sprintf("%d bytes", n), err)
	}
	for fails := 1; ; fails++ {
		steps := 0
		v.Ours().Fail(func(step string) error {
			if steps++; steps == fails {
				return unix.EIO
			}
			return nil
		})
		_, err := v.imported("bob", content)
		v.Ours().Fail(nil)
		if err == nil {
			if fails < 4 {
				t.Errorf("only %d steps could fail", fails-1)
			}
			break
		}
		check(fmt.Sprintf("failing at step %d", fails), err)
	}
}

// What a killed supervisor was making is gone soon after, and what its successor
// makes is not.
func TestSweepUnfinished(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{})
	left := []string{"profiles/" + durable.TempName(), "logs/gateways/" + durable.TempName()}
	for _, dir := range left {
		v.write(dir+"/deep/file", "x")
	}
	v.SweepUnfinished()
	fresh := "profiles/" + durable.TempName()
	v.write(fresh+"/file", "x")
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		_, one := os.Stat(v.path(left[0]))
		_, two := os.Stat(v.path(left[1]))
		if one != nil && two != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is still there")
		}
	}
	for _, stays := range []string{fresh, "profiles/alice"} {
		if _, err := os.Stat(v.path(stays)); err != nil {
			t.Error(err)
		}
	}
}

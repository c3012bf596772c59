package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Only what root has approved is put in place, whole, with the mode of before; and
// what was there can come back.
func TestPlace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "rlminit.yaml")
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want string) {
		t.Helper()
		got, err := os.ReadFile(path)
		info, err2 := os.Stat(path)
		if err != nil || err2 != nil || string(got) != want || info.Mode().Perm() != 0o640 {
			t.Errorf("it is %q, %v, not %q: %v %v", got, info.Mode(), want, err, err2)
		}
	}
	const before, after = "version: 1\n", "version: 1\nservices: {}\n"
	write(path, before, 0o640)
	if err := Place(path, TextDigest([]byte(after))); err == nil {
		t.Error("nothing was approved, and it is in place")
	}
	if err := Approve(path, []byte(after)); err != nil {
		t.Fatal(err)
	}
	if err := Place(path, TextDigest([]byte("another"))); err == nil || !strings.Contains(err.Error(), "root has approved no configuration with that digest") {
		t.Errorf("another: %v", err)
	}
	is(before)
	for range 2 { // done twice, it is done
		if err := Place(path, TextDigest([]byte(after))); err != nil {
			t.Fatal(err)
		}
		is(after)
	}
	if err := Place(path, TextDigest([]byte(before))); err != nil {
		t.Fatal(err)
	}
	is(before)

	kept := filepath.Join(approvedDir(path), TextDigest([]byte(after)))
	write(kept, "tampered", 0o600)
	if err := Place(path, TextDigest([]byte(after))); err == nil || !strings.Contains(err.Error(), "was changed since") {
		t.Errorf("tampered: %v", err)
	}
	write(kept, after, 0o600)
	if err := os.Chown(kept, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if err := Place(path, TextDigest([]byte(after))); err == nil || !strings.Contains(err.Error(), "cannot trust") {
		t.Errorf("somebody else's: %v", err)
	}
	is(before)
	left, err := filepath.Glob(filepath.Join(dir, ".*.new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}

	link := filepath.Join(dir, "link.yaml")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := Replaceable(link); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a link: %v", err)
	}
}

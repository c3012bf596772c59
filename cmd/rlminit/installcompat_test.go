package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func TestInstallCompat(t *testing.T) {
	dir := t.TempDir()
	tini := filepath.Join(dir, "tini")
	os.WriteFile(tini, []byte("another"), 0o755)
	if r := (*box)(nil).rlminit(t, "install-compat", dir); r.code != 1 {
		t.Errorf("what is there was replaced: exit code %d", r.code)
	}
	if content, _ := os.ReadFile(tini); string(content) != "another" {
		t.Error("what was there is gone")
	}
	for range 2 { // the second time there is nothing to do
		if r := (*box)(nil).rlminit(t, "install-compat", "--force", dir); r.code != 0 {
			t.Errorf("exit code %d: %s", r.code, r.err)
		}
		for _, name := range []string{"tini", "tini-static", "docker-init", "podman-init", "dumb-init", "catatonit"} {
			if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || !filepath.IsAbs(target) {
				t.Errorf("%s points to %q: %v", name, target, err)
			}
		}
	}
	var links []compatLink
	r := (*box)(nil).rlminit(t, "install-compat", "--json", dir)
	if err := json.Unmarshal([]byte(r.out), &links); err != nil || len(links) != 6 || links[0].Link != tini || !filepath.IsAbs(links[0].Target) {
		t.Errorf("%v: %q", err, r.out)
	}
	if r := (*box)(nil).rlminit(t, "install-compat", filepath.Join(dir, "nowhere")); r.code != 1 {
		t.Errorf("exit code %d", r.code)
	}
	if r := (*box)(nil).rlminit(t, "install-compat"); r.code != 2 {
		t.Errorf("exit code %d", r.code)
	}
}

// TestInstallCompatOfS6: the names of s6 are linked where rlminit-s6 lies beside the binary, and
// a shim is refused where rlminit-shim does not.
func TestInstallCompatOfS6(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	self, s6 := filepath.Join(bin, "rlminit"), filepath.Join(bin, "rlminit-s6")
	links, err := makeLinks(self, dir, false)
	if err != nil || len(links) != 6 {
		t.Fatalf("without rlminit-s6: %v, %v", links, err)
	}
	if err := os.WriteFile(s6, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if links, err = makeLinks(self, dir, false); err != nil || len(links) != 6+len(s6Names) {
		t.Fatalf("with rlminit-s6: %v, %v", links, err)
	}
	for _, name := range s6Names {
		if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || target != s6 {
			t.Errorf("%s points to %q: %v", name, target, err)
		}
	}
	if target, _ := os.Readlink(filepath.Join(dir, "tini")); target != self {
		t.Errorf("tini points to %q", target)
	}
	if err := runShim(self, []string{"agent=/bin/true"}, dir, false); err == nil {
		t.Error("a shim was made without rlminit-shim")
	}
}

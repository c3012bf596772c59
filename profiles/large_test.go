package profiles

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Hundreds of large profile.yaml, as a gateway can make them, are not all read;
// a profile of an ordinary size is, wherever its name comes.
func TestLargeProfilesAreBoundedTogether(t *testing.T) {
	v := newVolume(t, nil)
	put := func(name string, size int) {
		dir := filepath.Join(v.home, profilesDir, name)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, overridesFile), []byte("# "+strings.Repeat("x", size)), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	const crowd = 2 * maxLarge / (maxOverrides - 10)
	for i := range crowd {
		put(fmt.Sprintf("large%02d", i), maxOverrides-10)
	}
	put("alice", smallOverrides-10)
	put("zoe", smallOverrides-10)
	list, err := v.List()
	if err != nil {
		t.Fatal(err)
	}
	bytes, refused := 0, 0
	for _, p := range list {
		bytes += len(p.overrides)
		if p.Fault != nil && strings.Contains(p.Fault.Error(), "together") {
			refused++
		}
		if (p.Name == "alice" || p.Name == "zoe") && (p.Fault != nil || p.overrides == nil) {
			t.Errorf("%s: %v", p.Name, p.Fault)
		}
	}
	if len(list) != crowd+2 || refused < crowd/2-1 || bytes > maxLarge+2*smallOverrides {
		t.Errorf("%d profiles, %d refused, %d bytes read", len(list), refused, bytes)
	}
}

// However much lies beside the profiles, they are found, and it is said in a line.
func TestManyForeignEntries(t *testing.T) {
	const many = maxProfiles + 10
	v := newVolume(t, nil)
	v.create("alice", Creation{})
	dir, err := os.OpenRoot(v.path("profiles"))
	must(t, err)
	defer dir.Close()
	for i := range many {
		if i%50_000 == 0 { // a file has at most 65,000 names on ext4
			must(t, dir.WriteFile(fmt.Sprintf("file-%d", i), nil, 0o644))
			continue
		}
		must(t, dir.Link(fmt.Sprintf("file-%d", i-i%50_000), fmt.Sprintf("file-%d", i)))
	}
	v.create("zoe", Creation{})
	for range 2 {
		if list := v.list(); len(list) != 2 || list["alice"].Fault != nil || list["zoe"].Fault != nil {
			t.Fatalf("found %d", len(list))
		}
	}
	if len(v.told) != 1 || !strings.HasPrefix(v.told[0], fmt.Sprintf("%d entries of %s are skipped, such as ", many, v.path("profiles"))) {
		t.Errorf("said %d lines, %.300q", len(v.told), v.told)
	}
}

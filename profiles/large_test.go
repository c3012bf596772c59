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

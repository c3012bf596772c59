package structure

import (
	"os/exec"
	"path/filepath"
	"testing"

	"rlminit/tests/box"
)

// Each fault of tests/laws/mutants can be put into the tree: or it would be looked for no
// more, and nobody would know.
func TestProductMutantsFit(t *testing.T) {
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	patches, err := filepath.Glob(filepath.Join(root, "tests/laws/mutants/*.patch"))
	if err != nil || len(patches) < 7 {
		t.Fatalf("%d patches: %v", len(patches), err)
	}
	for _, patch := range patches {
		check := exec.Command("git", "apply", "--check", patch)
		check.Dir = root
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s does not fit any more; write it anew: %s", filepath.Base(patch), out)
		}
	}
}

package structure

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// largestFile is the size in bytes above which a file does not belong into git.
const largestFile = 1 << 20

// ofAMachine finds an absolute path below the home or working directory of a developer's
// machine. /root and /home alone are places of containers too.
var ofAMachine = regexp.MustCompile(`(?:^|[^\w.$}/-])/(?:Users/\w+|home/(?:runner|\w+/(?:go|src|git|work|dev))|root/(?:go|src|git|work)|work/\w+|go/pkg|private/tmp)/`)

// TestTreeHasNoAccidents: git tracks no link that leads out of the tree, no path of one
// machine and no file above 1 MiB.
func TestTreeHasNoAccidents(t *testing.T) {
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skip("git does not tell which files are tracked: ", err) // an unpacked archive
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(names) < 100 {
		t.Fatalf("git tracks %d files", len(names))
	}
	for _, name := range names {
		if why := accident(root, name); why != "" {
			t.Errorf("%s %s", name, why)
		}
	}
}

// accident says why a file must not be tracked; "": it may be.
func accident(root, name string) string {
	file := filepath.Join(root, name)
	info, err := os.Lstat(file)
	if err != nil {
		return "" // removed, and not yet committed
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(file)
		within := filepath.Join(filepath.Dir(name), target)
		if err != nil || filepath.IsAbs(target) || !filepath.IsLocal(within) {
			return "is a link that leads out of the tree: " + target
		}
		return ""
	}
	if info.Size() > largestFile {
		return "is larger than 1 MiB"
	}
	text, err := os.ReadFile(file)
	if err != nil || bytes.IndexByte(text, 0) >= 0 {
		return ""
	}
	if found := ofAMachine.Find(text); found != nil && name != "tests/structure/tree_test.go" {
		return "has a path of one machine: " + string(found)
	}
	return ""
}

// TestAccidentsAreFound: the check above finds each kind.
func TestAccidentsAreFound(t *testing.T) {
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(root, "sub"), 0o755))
	must(os.Symlink("/tmp/w/path/", filepath.Join(root, "absolute")))
	must(os.Symlink("../../x", filepath.Join(root, "sub/out")))
	must(os.Symlink("../path", filepath.Join(root, "sub/in")))
	must(os.WriteFile(filepath.Join(root, "path"), []byte("see /home/"+"anne/src/x"), 0o644))
	must(os.WriteFile(filepath.Join(root, "large"), make([]byte, largestFile+1), 0o644))
	must(os.WriteFile(filepath.Join(root, "good"), []byte("/home/app/data https://x.example/work/a"), 0o644))
	for name, want := range map[string]bool{"absolute": true, "sub/out": true, "sub/in": false, "path": true, "large": true, "good": false} {
		if why := accident(root, name); (why != "") != want {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// Package dist looks at what `make dist` has made, as somebody does who downloads it:
// checksums, licences, packages, and the arm64 binaries under an emulator. It builds
// nothing, and changes nothing in dist/.
package dist

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// archs are those of a release.
var archs = []string{"amd64", "arm64"}

// made is the directory with the release.
func made(t *testing.T) string {
	t.Helper()
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "dist")
	if _, err := os.Stat(filepath.Join(dir, "SHA256SUMS")); err != nil {
		t.Fatalf("there is no release to look at: run make dist: %v", err)
	}
	return dir
}

// only is the one file of the pattern.
func only(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(made(t), pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files are %s, where one should be: %v", len(files), pattern, err)
	}
	return files[0]
}

// output is what a command prints on stdout, which must succeed.
func output(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%s: %v\n%s%s", strings.Join(argv, " "), err, out, exit.Stderr)
		}
		t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
	return string(out)
}

// packages are those of a release, with the programs in each: rlminit with those that are
// beside it in the source, and the fleet's.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	mains, err := filepath.Glob(filepath.Join(made(t), "../cmd/rlminit*/main.go"))
	if err != nil || len(mains) == 0 {
		t.Fatalf("there is no program to release: %v", err)
	}
	var names []string
	for _, main := range mains {
		names = append(names, filepath.Base(filepath.Dir(main)))
	}
	return map[string][]string{"rlminit": names, "rlminit-fleet": {"rlminit-fleet"}}
}

// programs are the names of all binaries that are released.
func programs(t *testing.T) []string {
	t.Helper()
	return slices.Sorted(func(yield func(string) bool) {
		for _, names := range packages(t) {
			for _, name := range names {
				if !yield(name) {
					return
				}
			}
		}
	})
}

// built is the path of a program in dist/.
func built(t *testing.T, arch, name string) string {
	dir := filepath.Join(made(t), "linux-"+arch)
	switch name {
	case "rlminit":
		return filepath.Join(dir, name)
	case "rlminit-fleet":
		return filepath.Join(dir, "fleet", name)
	}
	return filepath.Join(dir, "beside", name)
}

func TestSums(t *testing.T) {
	dir := made(t)
	content, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
		sum, name, _ := strings.Cut(line, "  ")
		file, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if is := sha256.Sum256(file); hex.EncodeToString(is[:]) != sum {
			t.Errorf("%s has another checksum than SHA256SUMS says", name)
		}
		names = append(names, name)
	}
	for _, want := range []string{
		`^rlminit-linux-amd64$`, `^rlminit-linux-arm64$`,
		`^P\.LICENSES$`, `^P\.cdx\.json$`, `^P-linux-amd64\.tar\.gz$`, `^P-linux-arm64\.tar\.gz$`,
		`^P_\d[0-9A-Za-z.-]*_amd64\.deb$`, `^P_\d[0-9A-Za-z.-]*_arm64\.deb$`,
		`^P_\d[0-9A-Za-z.-]*_amd64\.apk$`, `^P_\d[0-9A-Za-z.-]*_arm64\.apk$`,
	} {
		for name := range packages(t) {
			pattern := strings.ReplaceAll(want, "P", regexp.QuoteMeta(name))
			if !slices.ContainsFunc(names, regexp.MustCompile(pattern).MatchString) {
				t.Errorf("SHA256SUMS has no file %s: %q", pattern, names)
			}
		}
	}
}

// What runs in any image must not look for a loader or a library there.
func TestBinariesAreStatic(t *testing.T) {
	for _, arch := range archs {
		for _, name := range programs(t) {
			if kind := output(t, "file", "-b", built(t, arch, name)); !strings.Contains(kind, "statically linked") {
				t.Errorf("%s for %s is not static: %s", name, arch, kind)
			}
		}
	}
}

// The bill and the licences are held against the binaries, by what Go's toolchain says
// of them.
func TestBillNamesAllThatIsLinked(t *testing.T) {
	for name, programs := range packages(t) {
		listed, licences := bill(t, name)
		for _, arch := range archs {
			for _, program := range programs {
				info, err := buildinfo.ReadFile(built(t, arch, program))
				if err != nil {
					t.Fatal(err)
				}
				for _, dep := range info.Deps {
					module := dep.Path + " " + dep.Version
					if dep.Path == "rlminit" { // the project itself, in the fleet's module
						continue
					}
					if !listed[module] {
						t.Errorf("%s for %s links %s, and the bill has it not, or without a licence", program, arch, module)
					}
					if !strings.Contains(licences, "\n"+module+" (") {
						t.Errorf("%s.LICENSES has no licence of %s", name, module)
					}
				}
			}
		}
	}
}

// bill reads which modules the bill of a package has, with a licence, and the licences.
func bill(t *testing.T, name string) (listed map[string]bool, licences string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(made(t), name+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct {
			Name, Version string
			Evidence      struct{ Licenses []any }
		}
	}
	if err := json.Unmarshal(content, &bill); err != nil || bill.BOMFormat != "CycloneDX" {
		t.Fatalf("the bill is none of CycloneDX's, but %q: %v", bill.BOMFormat, err)
	}
	listed = map[string]bool{}
	for _, c := range bill.Components {
		if len(c.Evidence.Licenses) > 0 {
			listed[c.Name+" "+c.Version] = true
		}
	}
	texts, err := os.ReadFile(filepath.Join(made(t), name+".LICENSES"))
	if err != nil {
		t.Fatal(err)
	}
	return listed, string(texts)
}

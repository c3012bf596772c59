package dist

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"rlminit/tests/docker"
)

// packaged is what a package installs besides the programs and the pages of rlminit.
var packaged = map[string][]string{
	"rlminit": {
		"usr/share/doc/rlminit/copyright", "usr/share/doc/rlminit/LICENSES", "usr/share/doc/rlminit/changelog.gz",
		"usr/share/doc/rlminit/examples/rlminit.yaml", "usr/share/bash-completion/completions/rlminit",
		"usr/share/fish/vendor_completions.d/rlminit.fish",
	},
	"rlminit-fleet": {
		"usr/share/doc/rlminit-fleet/copyright", "usr/share/doc/rlminit-fleet/LICENSES", "usr/share/doc/rlminit-fleet/changelog.gz",
		"usr/share/doc/rlminit-fleet/fleet.md", "usr/share/doc/rlminit-fleet/examples/rlminit.yaml",
	},
}

// contents complains about what a package has not, has too much, or has with odd rights.
func contents(t *testing.T, pkg string, archive io.Reader) {
	t.Helper()
	found := map[string]bool{}
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := path.Clean(strings.TrimPrefix(header.Name, "./"))
		found[name] = true
		if header.Uid != 0 || header.Gid != 0 || header.Mode&0o7022 != 0 {
			t.Errorf("%s belongs to %d:%d, with mode %o", name, header.Uid, header.Gid, header.Mode)
		}
		if header.Typeflag == tar.TypeReg && !strings.HasPrefix(name, "usr/") {
			t.Errorf("%s is outside of /usr", name)
		}
	}
	wanted := packaged[pkg]
	for _, program := range packages(t)[pkg] {
		wanted = append(wanted, "usr/bin/"+program)
	}
	if pkg == "rlminit" {
		wanted = append(wanted, manPages(t)...)
	}
	for _, name := range wanted {
		if !found[name] {
			t.Errorf("the package %s has no %s", pkg, name)
		}
	}
}

// manPages are those of the source, as a package has them.
func manPages(t *testing.T) (names []string) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(made(t), "../docs/man/*.1"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("there are no man pages: %v", err)
	}
	for _, page := range pages {
		names = append(names, "usr/share/man/man1/"+filepath.Base(page)+".gz")
	}
	return names
}

func TestDeb(t *testing.T) {
	for _, arch := range archs {
		for name := range packages(t) {
			deb := only(t, name+"_*_"+arch+".deb")
			if is := strings.TrimSpace(output(t, "dpkg-deb", "-f", deb, "Architecture")); is != arch {
				t.Errorf("%s is for %q", deb, is)
			}
			contents(t, name, strings.NewReader(output(t, "dpkg-deb", "--fsys-tarfile", deb)))
		}
	}
}

// installed is what a person types who has the package, in a Debian of its own.
const installed = `
set -eu
dpkg -i /rlminit.deb /rlminit-fleet.deb
dpkg --verify rlminit
dpkg --verify rlminit-fleet
rlminit version
ls /usr/share/doc/rlminit/copyright
(. /usr/share/bash-completion/completions/rlminit; complete -p rlminit)
for program in /usr/bin/rlminit-*; do
	[ ! -e "$program" ] || rlminit "${program#/usr/bin/rlminit-}" --help >/dev/null
done
status=0; rlminit init -- sh -c 'exit 7' || status=$?
echo "the command ended with $status"
useradd --uid 1000 app
rlminit check /usr/share/doc/rlminit/examples/rlminit.yaml
dpkg --purge rlminit-fleet rlminit
if ls -d /usr/bin/rlminit* /usr/share/doc/rlminit* /etc/rlminit 2>/dev/null; then exit 9; fi
echo 'it is gone'
`

func TestDebInstalls(t *testing.T) {
	if _, err := os.Stat("/var/run/docker.sock"); err != nil {
		t.Fatalf("cannot install the package in a Debian: no Docker engine is there: %v", err)
	}
	base, err := docker.DebianBase()
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{"docker", "run", "--rm"}
	for name := range packages(t) {
		argv = append(argv, "--volume", only(t, name+"_*_"+runtime.GOARCH+".deb")+":/"+name+".deb:ro")
	}
	out := output(t, append(argv, base, "bash", "-c", installed)...)
	for _, want := range []string{"linux/" + runtime.GOARCH, "complete ", "the command ended with 7", "valid", "it is gone"} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing says %q:\n%s", want, out)
		}
	}
}

// An apk is two gzip streams one after the other, each a tar: what it is, with the
// checksum of the second, and what it installs. Versions: apk-package(5).
func TestApk(t *testing.T) {
	for arch, machine := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		for name := range packages(t) {
			file, err := os.ReadFile(only(t, name+"_*_"+arch+".apk"))
			if err != nil {
				t.Fatal(err)
			}
			rest := bytes.NewReader(file) // a byte reader, of which gzip takes no more than its stream
			info := "\n" + packageInfo(t, rest)
			sum := sha256.Sum256(file[len(file)-rest.Len():])
			for _, want := range []string{"pkgname = " + name, "arch = " + machine, "license = Apache-2.0", "datahash = " + hex.EncodeToString(sum[:])} {
				if !strings.Contains(info, "\n"+want+"\n") {
					t.Errorf(".PKGINFO for %s has no line %q:\n%s", arch, want, info)
				}
			}
			if !apkVersion.MatchString(info) {
				t.Errorf("apk takes no such version:\n%s", info)
			}
			data, err := gzip.NewReader(rest)
			if err != nil {
				t.Fatal(err)
			}
			contents(t, name, data)
		}
	}
}

var apkVersion = regexp.MustCompile(`\npkgver = \d+(\.\d+)*(_(alpha|beta|pre|rc|cvs|svn|git|hg|p)\d*)*-r\d+\n`)

// packageInfo reads the first of the two streams of an apk.
func packageInfo(t *testing.T, file *bytes.Reader) string {
	t.Helper()
	stream, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	stream.Multistream(false)
	control, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	reader := tar.NewReader(bytes.NewReader(control))
	if header, err := reader.Next(); err != nil || header.Name != ".PKGINFO" {
		t.Fatalf("the package begins without .PKGINFO: %v", err)
	}
	raw, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

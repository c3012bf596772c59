package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"rlminit/tests/box"
)

// runName marks what this run makes and starts, so that it removes that alone.
var runName = strconv.Itoa(os.Getpid())

// imagePrefix begins the names of a run's images, which is followed by the run's.
const imagePrefix = "rlminit-test-"

// imageName is the name of a run's images: another checkout, or another run, has
// others at the same time.
func imageName(run string) string { return imagePrefix + run }

// images are what the tests run.
type images struct {
	base  string // what stands for debian:bookworm-slim
	bare  string // rlminit alone, as other images copy it: FROM scratch
	demo  string // the demo as `make image` makes it: FROM scratch
	based string // rlminit, the gateway and the tests' programs on Debian
	pure  string // the same without a configuration
}

// debian is the recipe of the base: its content decides the image's tag, so a
// change of it makes a new one.
var debian = []string{"--variant=essential", "--include=procps,passwd,redis-server", "--format=tar", "bookworm"}

// buildImages makes the images that are not there yet.
func buildImages() (images, error) {
	root, err := box.Repository()
	if err != nil {
		return images{}, err
	}
	base, err := DebianBase()
	if err != nil {
		return images{}, err
	}
	name := imageName(runName)
	if err := run(root, "make", "-s", "image-based", "IMAGE="+name, "BASE="+base); err != nil {
		return images{}, err
	}
	programs, err := box.Build()
	if err != nil {
		return images{}, err
	}
	defer os.RemoveAll(programs)
	for file, content := range map[string]string{
		"Dockerfile":    "FROM " + name + ":based\nCOPY nasty deadfuse hostile /usr/local/bin/\n",
		"pure":          "FROM " + name + ":nasty\nRUN rm -r /etc/rlminit\n",
		".dockerignore": "rlminit\ngateway\n",
	} {
		if err := os.WriteFile(filepath.Join(programs, file), []byte(content), 0o644); err != nil {
			return images{}, fmt.Errorf("cannot build images: %w", err)
		}
	}
	if err := run(programs, "docker", "build", "-q", "-t", name+":nasty", "."); err != nil {
		return images{}, err
	}
	if err := run(programs, "docker", "build", "-q", "-f", "pure", "-t", name+":pure", "."); err != nil {
		return images{}, err
	}
	return images{base: base, bare: name + ":latest", demo: name + ":demo", based: name + ":nasty", pure: name + ":pure"}, nil
}

// run runs a command in a directory, and complains with its output.
func run(dir string, argv ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return nil
}

// DebianBase is an image of Debian with bash: one made before by this recipe,
// one that mmdebstrap makes now (15 s), or one that a registry has.
func DebianBase() (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(debian, " ")))
	tag := "rlminit-test-base:" + hex.EncodeToString(sum[:6])
	if r, err := docker(nil, "image", "inspect", tag); err != nil || r.Code == 0 {
		return tag, err
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		const public = "debian:bookworm-slim"
		if _, pullErr := must(nil, "pull", "-q", public); pullErr != nil {
			return "", fmt.Errorf("cannot make a Debian base: mmdebstrap is not installed, and %w", pullErr)
		}
		return public, nil
	}
	return tag, importDebian(tag)
}

// importDebian pipes mmdebstrap into docker import.
func importDebian(tag string) error {
	make := exec.Command("mmdebstrap", debian...)
	var complaint strings.Builder
	make.Stderr = &complaint
	archive, err := make.StdoutPipe()
	if err != nil {
		return fmt.Errorf("cannot make a Debian base: %w", err)
	}
	if err := make.Start(); err != nil {
		return fmt.Errorf("cannot make a Debian base: %w", err)
	}
	// Within docker's patience: mmdebstrap takes a quarter of a minute, and some minutes on a
	// busy machine.
	_, importErr := must(archive, "import", "-", tag+"-unfinished")
	_, _ = io.Copy(io.Discard, archive) // so that mmdebstrap can end
	if err := make.Wait(); err != nil {
		return fmt.Errorf("cannot make a Debian base: mmdebstrap: %w\n%s", err, complaint.String())
	}
	if importErr != nil {
		return importErr
	}
	// Under its own name only now, for an import of half an archive succeeds.
	if _, err := must(nil, "tag", tag+"-unfinished", tag); err != nil {
		return err
	}
	_, err = must(nil, "rmi", tag+"-unfinished")
	return err
}

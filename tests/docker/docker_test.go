package docker

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
)

// built are the images of this run.
var built images

// answerTimeout is how long a container may take to boot on a busy machine.
const answerTimeout = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	if _, err := must(nil, "version", "--format", "{{.Server.Version}}"); err != nil {
		fmt.Println("the Docker tests were not run: no Docker engine answers")
		if os.Getenv("CI") == "true" {
			return 1
		}
		return 0
	}
	err := sweepDead()
	if err == nil {
		built, err = buildImages()
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, sweep(runName)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// sweepDead removes what earlier runs left that were killed or timed out.
func sweepDead() error {
	runs, err := must(nil, "ps", "-a", "--filter", "label="+label, "--format", `{{.Label "`+label+`"}}`)
	if err != nil {
		return err
	}
	images, err := must(nil, "image", "ls", "--filter", "reference="+imageName("*"), "--format", "{{.Repository}}")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(runs + "\n" + strings.ReplaceAll(images, imagePrefix, "")) {
		if pid, err := strconv.Atoi(name); err != nil || unix.Kill(pid, 0) == nil {
			continue
		}
		if err := sweep(name); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes what tests of a run left, after a panic for one.
func sweep(name string) error {
	filter := "label=" + label + "=" + name
	if err := sweepList([]string{"rm", "-f", "-v"}, "ps", "-aq", "--filter", filter); err != nil {
		return err
	}
	if err := sweepList([]string{"volume", "rm"}, "volume", "ls", "-q", "--filter", filter); err != nil {
		return err
	}
	return sweepList([]string{"rmi"}, "image", "ls", "--filter", "reference="+imageName(name), "--format", "{{.Repository}}:{{.Tag}}")
}

// sweepList removes what a command lists, if it lists anything.
func sweepList(remove []string, list ...string) error {
	found, err := must(nil, list...)
	if err != nil || found == "" {
		return err
	}
	_, err = must(nil, append(remove, strings.Fields(found)...)...)
	return err
}

// startImage starts a container of an image for a test, and removes it with
// the test. What it printed is shown if the test fails.
func startImage(t testing.TB, image string, spec box.Spec) *box.Box {
	t.Helper()
	p, err := New(spec, image, runName)
	if p != nil {
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("docker logs:\n%s", box.Tail(p.Printed()))
			}
			if err := p.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return &box.Box{TB: t, Place: p}
}

// start is contract.New for containers.
func start(t testing.TB, spec box.Spec) *box.Box {
	t.Helper()
	if spec.Config == "" {
		return startImage(t, built.pure, spec)
	}
	b := startImage(t, built.based, spec)
	awaitAnswer(b)
	return b
}

// awaitAnswer waits until a container's rlminit answers or has ended.
func awaitAnswer(b *box.Box) {
	b.Helper()
	p := b.Place.(*Place)
	box.Eventually(b, answerTimeout, "rlminit answers or ends", func() (bool, any) {
		if status, err := p.inspect("{{.State.Status}}"); err != nil || status != "running" {
			return err == nil && status == "exited", fmt.Sprint(status, err)
		}
		r, err := p.Exec(box.Service, nil, []string{"rlminit", "health"})
		return err == nil && r.Code == 0, fmt.Sprint(r, err)
	})
}

// volume makes a volume that is removed with the test.
func volume(t testing.TB) string {
	t.Helper()
	name, err := must(nil, "volume", "create", "--label", label+"="+runName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := must(nil, "volume", "rm", name); err != nil {
			t.Error(err)
		}
	})
	return name
}

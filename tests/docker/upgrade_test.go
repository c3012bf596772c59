package docker

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// TestUpgradeIsChecked: the line of README.md that looks at a volume before an upgrade, letter
// by letter but for the names of volume and image, says what the new image would refuse and
// restart while the old container runs, on a read-only mount, and changes nothing. So with
// profiles that have users of their own, in the trash too.
func TestUpgradeIsChecked(t *testing.T) {
	t.Parallel()
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	data := volume(t)
	lines := []string{}
	for _, page := range []string{"README.md", "docs/plan.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^    docker (run .*) rlminit check --volume /data$`).FindStringSubmatch(string(text))
		if line == nil {
			t.Fatalf("%s has no such line", page)
		}
		lines = append(lines, line[1])
	}
	if lines[0] != lines[1] {
		t.Errorf("README.md and docs/plan.md say different things: %q", lines)
	}
	recipe := strings.Fields(strings.NewReplacer("box-data", data, "NEWIMAGE", built.demo).Replace(lines[0]))
	check := func(more ...string) box.Result {
		t.Helper()
		args := append(append(append([]string{}, recipe[:1]...), more...), recipe[1:]...)
		r, err := docker(nil, append(args, "rlminit", "check", "--volume", "/data")...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := check(); r.Code != 0 || !strings.Contains(r.Out, "rlminit has never run with /data") {
		t.Errorf("a volume that nobody has used: %s", r)
	}
	b := start(t, box.Spec{Docker: []string{"--volume", data + ":/data"}, Config: `version: 1
user: "1000:1000"
gateway: {user: auto, command: [sleep, infinity]}
gateways: {worker: {command: [sleep, infinity]}}
`})
	b.Must("profile", "create", "alice")
	b.Must("profile", "create", "bob", "--kind", "worker")
	b.Must("profile", "create", "dora", "--kind", "worker")
	b.Must("profile", "delete", "dora")
	b.Await("gateway-alice", "running")
	b.Await("gateway-bob", "running")
	box.Eventually(b, answerTimeout, "the state files say what was started", func() (bool, any) {
		n := b.Shell(box.Root, "cd "+b.Home()+"/profiles; grep -l started_with */gateway_state.json | wc -l")
		return strings.TrimSpace(n) == "2", n
	})
	hash := func() string {
		return b.Shell(box.Root, "find "+b.Home()+" -path '*/.rlminit/history*' -prune -o -path '*/.rlminit/journal*' -prune -o -printf '%p %i %U %G %m %T@ %C@\n' | sort | sha256sum")
	}
	before := hash()
	r := check()
	for _, want := range []string{"refused  bob  ", `no kind "worker"`, "restarts alice  ", "trash    dora-", "/data: 1 of 2 profiles would be refused, and 1 restarted, by /etc/rlminit/rlminit.yaml\n"} {
		if r.Code != 14 || !strings.Contains(r.Out, want) {
			t.Errorf("%s\nhas not %q", r, want)
		}
	}
	if after := hash(); after != before {
		t.Errorf("the volume has changed: %s, %s", before, after)
	}
	for _, as := range [][]string{{"--user", "1000:1000"}, {"--cap-drop", "ALL"}} {
		if r := check(as...); r.Code != 1 || !strings.Contains(r.Out+r.Err, "run it as root, with the capabilities that root has in a container") || strings.Contains(r.Out+r.Err, "chown") {
			t.Errorf("with %q: %s", as, r)
		}
	}
}

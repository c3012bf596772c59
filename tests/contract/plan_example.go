package contract

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// PlanExample: the example's set can be planned and applied, and its script
// writes a comment that names what it does and the approved hash.
func PlanExample(t *testing.T, start New) {
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, "examples/plan", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	b := start(t, box.Spec{Config: Config()})
	dir := b.Home()
	b.Write(box.Service, dir+"/agents.yaml", read("agents.yaml"))
	b.Write(box.Service, dir+"/comment", read("comment"))
	r := b.As(box.Service, "sh", dir+"/comment", dir+"/agents.yaml", dir+"/plan.json")
	hash := readPlan(b, dir+"/plan.json").Hash
	for _, want := range []string{
		"### rlminit: 3 to create; restarts none\n", "```diff\n+ archivist: created", "\n+   environment.MODEL: large\n", "--approve " + hash + "`",
	} {
		if r.Code != 14 || !strings.Contains(r.Out, want) {
			t.Fatalf("no %q in %s", want, r)
		}
	}
	exits(b, 9, "apply", dir+"/plan.json", "--approve", hash, "--steady", "0")
	if r := b.As(box.Service, "sh", dir+"/comment", dir+"/agents.yaml", dir+"/plan.json"); r.Code != 0 || r.Out != "### rlminit: nothing to change\n" {
		t.Errorf("the second time: %s", r)
	}
}

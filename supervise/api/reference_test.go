package api

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"rlminit/control"
)

// The page on the control socket names every request there is, and no other.
func TestControlReference(t *testing.T) {
	const page = "../../docs/control.md"
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	request := regexp.MustCompile(`(?m)(GET|POST|PATCH|DELETE) /v1/[a-z{}/]+`)
	served, described := map[string]bool{}, map[string]bool{}
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, r := range regexp.MustCompile(`\.(?:Handle|Stream|Upload)\("([^"]*)"`).FindAllSubmatch(source, -1) {
			served[string(r[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(string(content)) {
		if strings.HasPrefix(row, "| `") {
			if r := request.FindString(row); r != "" {
				described[r] = true
			}
		}
	}
	if len(served) < 15 {
		t.Fatalf("only %d requests were found", len(served))
	}
	for r := range served {
		if !described[r] {
			t.Errorf("%s does not describe %s", page, r)
		}
	}
	for r := range described {
		if !served[r] {
			t.Errorf("%s describes %s, which is not served", page, r)
		}
	}

	problems := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (\\d+) \\| (\\d+) \\|$").FindAllStringSubmatch(string(content), -1)
	for _, row := range problems {
		status, _ := strconv.Atoi(row[2])
		exit, _ := strconv.Atoi(row[3])
		p := control.NewProblem(row[1], "")
		if p.Status != status || p.ExitCode != exit || p.Title == "Failed" && row[1] != control.KindFailed {
			t.Errorf("%s: %v, but it is %s", page, row[1:], fmt.Sprint(p.Title, " ", p.Status, " ", p.ExitCode))
		}
	}
	if len(problems) != 20 {
		t.Errorf("%s has %d kinds of problem, not 20", page, len(problems))
	}
}

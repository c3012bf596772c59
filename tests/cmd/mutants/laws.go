package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// laws are the product mutants: each patch is a fault that once was there, which the
// random verbs of tests/laws must find.
const laws = "tests/laws/mutants"

// seek tries so many searches for each product mutant whose name fits, and returns how many
// found nothing.
func seek(pattern *regexp.Regexp, searches int, minutes float64) (missed int) {
	patches, err := filepath.Glob(filepath.Join(laws, "*.patch"))
	if err == nil && len(patches) == 0 {
		err = fmt.Errorf("no patch is in %s; run it at the root of the repository", laws)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		return 1
	}
	for _, patch := range patches {
		if name := strings.TrimSuffix(filepath.Base(patch), ".patch"); pattern.MatchString(name) {
			for range searches {
				verdict, found := "found    ", ""
				if found, err = search(patch, minutes); err != nil {
					verdict, found = "error    ", err.Error()
				} else if found == "" {
					verdict = "NOT FOUND"
				}
				if verdict != "found    " {
					missed++
				}
				fmt.Printf("%s %s: %s\n", verdict, name, found)
			}
		}
	}
	return missed
}

// first is the line of TestLaws that says when it met the fault.
var first = regexp.MustCompile(`the first fault after .*`)

// search runs TestLaws over a tree that is patched by an overlay, and tells what it says of
// the fault; "": it found none.
func search(patch string, minutes float64) (found string, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := patched(dir, patch)
	if err != nil {
		return "", err
	}
	test := exec.Command("go", "test", "-count=1", "-vet=off", "-timeout", "1h", "-v", "./tests/laws", "-run", "^TestLaws$",
		"-minutes", strconv.FormatFloat(minutes, 'f', -1, 64), "-rapid.shrinktime", "1s")
	test.Env = append(os.Environ(), "GOFLAGS=-overlay="+overlay) // the box is built by the test
	out, err := test.CombinedOutput()
	if err == nil {
		return "", nil
	}
	if found = first.FindString(string(out)); found == "" {
		return "", fmt.Errorf("TestLaws did not run: %s", out)
	}
	return found, nil
}

// patched writes the files that a patch changes, as it has them, below a directory, and an
// overlay (go help build) that puts these into their places.
func patched(dir, patch string) (overlay string, err error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(patch)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`).FindAllStringSubmatch(string(text), -1) {
		from, to := filepath.Join(root, m[1]), filepath.Join(dir, m[1])
		was, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o700)
		}
		if err == nil {
			err = os.WriteFile(to, was, 0o600)
		}
		if err != nil {
			return "", err
		}
		replace[from] = to
	}
	apply := exec.Command("git", "apply", filepath.Join(root, patch))
	apply.Dir = dir
	if out, err := apply.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not fit the tree any more; write it anew: %s", patch, out)
	}
	overlay = filepath.Join(dir, "overlay.json")
	said, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(overlay, said, 0o600)
	}
	return overlay, err
}

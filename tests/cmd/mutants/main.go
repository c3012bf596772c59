// Mutants breaks the core in one place after the other, and tells which of these faults
// the exploration of small sets does not find. Each is given to the compiler by an overlay
// (go help build): nothing of the tree is changed. A fault whose line is not there any
// more is an error: it is to be written again, or taken out with what it was about.
//
//	go run ./tests/cmd/mutants [-walks 8] [PATTERN]
//
// With -laws it puts the faults of tests/laws/mutants into the whole product, and tells which
// of these the random verbs of tests/laws do not find.
//
//	go run ./tests/cmd/mutants -laws [-searches 1] [-minutes 5] [PATTERN]
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	walks := flag.Int("walks", 8, "lives of each graph of services")
	product := flag.Bool("laws", false, "the product mutants, which tests/laws must find")
	searches := flag.Int("searches", 1, "with -laws: searches for each")
	minutes := flag.Float64("minutes", 5, "with -laws: how long a search takes at most")
	flag.Parse()
	pattern, err := regexp.Compile(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if *product {
		if seek(pattern, *searches, *minutes) > 0 {
			os.Exit(1)
		}
		return
	}
	missed := 0
	for _, m := range mutants {
		if !pattern.MatchString(m.fault) {
			continue
		}
		found, err := m.try(*walks)
		switch {
		case err != nil:
			fmt.Printf("error     %s: %v\n", m.fault, err)
			missed++
		case found == "":
			fmt.Printf("NOT FOUND %s\n", m.fault)
			missed++
		default:
			fmt.Printf("found     %s: %s\n", m.fault, found)
		}
	}
	if missed > 0 {
		os.Exit(1)
	}
}

// try tells what the exploration says of a fault; "": nothing.
func (m mutant) try(walks int) (found string, err error) {
	path, err := filepath.Abs(filepath.Join("supervise/core", m.file))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%s has %d of %q", m.file, n, m.old)
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	broken, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
	if err != nil {
		return "", err
	}
	for file, b := range map[string][]byte{broken: []byte(strings.Replace(string(text), m.old, m.new, 1)), overlay: replaced} {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			return "", err
		}
	}
	out, err := exec.Command("go", "test", "-vet=off", "-overlay", overlay, "-timeout", "5m", "./supervise/core",
		"-run", "EverySmallSet", "-walks", strconv.Itoa(walks)).CombinedOutput()
	if err == nil {
		return "", nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, line := range lines {
		switch {
		case strings.Contains(line, "build failed"):
			return "", fmt.Errorf("it does not compile: %s", out)
		case strings.HasPrefix(line, "panic: test timed out"):
			return "it never ends", nil
		case line == "FAIL" && i > 0:
			found := strings.TrimSpace(lines[i-1])
			return found[:min(len(found), 120)], nil
		}
	}
	return lines[0], nil
}

package structure

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rlminit/tests/box"
)

var lower = flag.Bool("words", false, "write testdata/words.tsv anew, where a rate is lower now")

// clause is a habit of clauses where the field has a noun, and how often it may occur in
// 10,000 words of comments.
type clause struct {
	name string
	is   *regexp.Regexp
	most float64
}

var clauses = []clause{
	{"who", regexp.MustCompile(`\b(who|whom|whoever|whomever)\b`), 5},
	{"what", regexp.MustCompile(`\bwhat (is|has|was|are|they|it|a|the|this|these|those)\b`), 20},
	{"which", regexp.MustCompile(`\b(of|by|for|to|with|from|in) (which|whom)\b`), 8},
}

var (
	word    = regexp.MustCompile(`[a-z']+`)
	comment = regexp.MustCompile(`(?:^|\s)//(.*)`)
)

const ratesFile = "testdata/words.tsv"

// TestPlainWords: no package of the product, and no document, has more of each clause than
// it may, or than testdata/words.tsv says that it had, and a tenth. One is always allowed.
func TestPlainWords(t *testing.T) {
	rates, counts := wordRates(t)
	before := readRates(t)
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		for i, c := range clauses {
			bound := max(c.most, 1.1*before[name][i])
			if rates[name][i] > bound && counts[name][i] > 1 {
				t.Errorf("%s has %d times %s, %.1f in 10,000 words; at most %.1f: write a noun in its place", name, counts[name][i], c.is, rates[name][i], bound)
			}
		}
	}
	if *lower {
		writeRates(t, rates, before)
	}
}

// wordRates are the rates of the clauses, in the order of clauses, and how many there are.
func wordRates(t *testing.T) (rates map[string][3]float64, counts map[string][3]int) {
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]*strings.Builder{}
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, file)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "tests", "tools", "examples"}, name)):
			return fs.SkipDir
		case d.IsDir() || !product(name):
			return nil
		}
		of := name
		if path.Ext(name) == ".go" {
			of = path.Dir(name)
		}
		data, err := os.ReadFile(file)
		if texts[of] == nil {
			texts[of] = &strings.Builder{}
		}
		texts[of].WriteString(prose(name, string(data)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rates, counts = map[string][3]float64{}, map[string][3]int{}
	for name, text := range texts {
		lowered := strings.ToLower(text.String())
		words := max(len(word.FindAllString(lowered, -1)), 1)
		var rate [3]float64
		var count [3]int
		for i, c := range clauses {
			count[i] = len(c.is.FindAllString(lowered, -1))
			rate[i] = 10000 * float64(count[i]) / float64(words)
		}
		rates[name], counts[name] = rate, count
	}
	return rates, counts
}

// product tells whether a file is a source of the product, or a document.
func product(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") || slices.Contains([]string{"README.md", "DESIGN.md", "HACKING.md"}, name) ||
		path.Dir(name) == "docs" && path.Ext(name) == ".md"
}

// prose is the comments of a source file, or a whole document.
func prose(name, text string) string {
	if path.Ext(name) != ".go" {
		return text
	}
	var said strings.Builder
	for line := range strings.Lines(text) {
		if m := comment.FindStringSubmatch(line); m != nil && !strings.HasPrefix(m[1], "go:") {
			said.WriteString(" " + m[1])
		}
	}
	return said.String()
}

func readRates(t *testing.T) map[string][3]float64 {
	data, err := os.ReadFile(ratesFile)
	if err != nil {
		t.Fatal(err)
	}
	before := map[string][3]float64{}
	for line := range strings.Lines(string(data)) {
		columns := strings.Fields(line)
		if len(columns) != 4 {
			t.Fatalf("%s: a line has a name and three rates, not %q", ratesFile, line)
		}
		var rates [3]float64
		for i := range rates {
			if rates[i], err = strconv.ParseFloat(columns[i+1], 64); err != nil {
				t.Fatalf("%s: %v", ratesFile, err)
			}
		}
		before[columns[0]] = rates
	}
	return before
}

// writeRates keeps the rates of the packages and documents that are above a bound, each no
// higher than before.
func writeRates(t *testing.T, rates, before map[string][3]float64) {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		now, above := rates[name], false
		for i, c := range clauses {
			if was, ok := before[name]; ok {
				now[i] = min(now[i], was[i])
			}
			above = above || now[i] > c.most
		}
		if above {
			fmt.Fprintf(&out, "%s\t%.1f\t%.1f\t%.1f\n", name, now[0], now[1], now[2])
		}
	}
	if err := os.WriteFile(ratesFile, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

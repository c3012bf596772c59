package document

import (
	"strings"
	"testing"
	"time"
)

// TestHostileFilesEndQuickly: the parser is linear, or gives up, on what is
// meant to keep it busy. A profile's file is read by the supervisor's own
// process.
func TestHostileFilesEndQuickly(t *testing.T) {
	fill := func(s string) string { return strings.Repeat(s, MaxSize/4/len(s)) }
	for _, s := range []string{
		"[", "{", "- ", "? ", "? - ", "a: ", "'", "\"", "\"\\", "\n", "#\n", "# x\na: 1\n", "- a\n", "a: [\n", "&a ", "*a ", "- *a\n", "!", "!x ", "|\n",
		"---\n", "a: 1\n---\n", "...\n", ">", "\r", "\t", " ", ", ", "{a: ", "[a, ", "]", "}", "${A:-", "$", "a: ${A}\n", "%a\n", "a\n", "a:\n ", "\u2028", "é",
		"- - - a\n", "{? a,", "<<: ", "a:\n- b\n", "[#\n",
	} {
		start := time.Now()
		d, _ := Parse("f.yaml", []byte(fill(s)))
		n, r := d.Read(nil)
		n.Each(func(_, v Node) {
			if v.IsScalar() {
				v.Text()
			}
		})
		r.Faults()
		took := time.Since(start)
		t.Logf("%-8q %v", s, took)
		if took > 10*time.Second {
			t.Errorf("%q repeated takes %v", s, took)
		}
	}
}

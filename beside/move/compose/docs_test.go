package compose

import (
	"os"
	"strings"
	"testing"
)

// Each key that import knows is in docs/import.md, and none is both taken and named.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/import.md")
	if err != nil {
		t.Fatal(err)
	}
	for key := range setters {
		if outside[key] != "" {
			t.Errorf("%s is taken, and named", key)
		}
		if !strings.Contains(string(page), "`"+key+"`") && key != "deploy" {
			t.Errorf("docs/import.md does not have %s", key)
		}
	}
	for key := range outside {
		if !strings.Contains(string(page), "`"+key+"`") {
			t.Errorf("docs/import.md does not have %s", key)
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "$$": "$$", "$A b": "${A:-} b", "${A}": "${A:-}", "${A:-b}": "${A:-b}", "${A-b}": "${A:-b}", "${A:-${B:-c}}": "${A:-${B:-c}}", "5$": "5$$", "${A:?no}": "${A:-}", "${A:+x}": "${A:-}", "${": "$${", "${A": "",
	} {
		if got, _ := text(in, 0); got != want {
			t.Errorf("%s: %s; want %s", in, got, want)
		}
	}
}

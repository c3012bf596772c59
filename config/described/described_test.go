package described_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rlminit/config"
	"rlminit/config/described"
	"rlminit/plan"
	"rlminit/tests/box"
)

var write = flag.Bool("write", false, "write keys.tsv")

// sections are the sections of the tables of docs/configuration.md, by their first key.
var sections = map[string][]string{
	"version": {"container"}, "remap": {"container"}, "listen": {"page"}, "at_once": {"jobs"}, "name": {"hooks"}, "args": {"routes"},
	"user": {"gateway"}, "kind": {"profile"}, "cron": {"schedule"}, "policy": {"restart"}, "notify": {"ready"}, "file": {"log"},
	"level": {"isolation"}, "to": {"forward"},
}

// sectionOf is the section of a table. Three tables begin with command.
func sectionOf(keys []string, heading string) []string {
	if keys[0] != "command" {
		return sections[keys[0]]
	}
	return map[string][]string{"The main command": {"main"}, "Kinds": {"gateways"}, "Services": {"service"}}[heading]
}

var (
	link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	code = regexp.MustCompile("`([a-z_]+)[^`]*`")
)

// TestKeysAreTheDocuments: keys.tsv is what the tables say.
func TestKeysAreTheDocuments(t *testing.T) {
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	heading, in := "", []string(nil)
	begins := false
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		switch {
		case strings.HasPrefix(line, "#"):
			heading, in = strings.TrimLeft(line, "# "), nil
		case strings.HasPrefix(line, "| key") && !strings.Contains(line, "boot"):
			begins, in = true, nil
		case !strings.HasPrefix(line, "|"):
			begins, in = false, nil
		case strings.HasPrefix(line, "|---") || len(cells) < 2:
		default:
			var keys []string
			for _, m := range code.FindAllStringSubmatch(cells[0], -1) {
				keys = append(keys, m[1])
			}
			if begins && len(keys) > 0 {
				begins, in = false, sectionOf(keys, heading)
			}
			for _, section := range in {
				for _, key := range keys {
					if text := sentence(cells); text != "" {
						fmt.Fprintf(&out, "%s.%s\t%s\n", section, key, text)
					}
				}
			}
		}
	}
	if *write {
		err = os.WriteFile("keys.tsv", []byte(out.String()), 0o644)
	}
	if is, _ := os.ReadFile("keys.tsv"); err != nil || string(is) != out.String() {
		t.Errorf("keys.tsv is not as docs/configuration.md says (%v): make docs", err)
	}
}

// sentence is the description in a row, without markup, and its default.
func sentence(cells []string) string {
	text, standard := strings.TrimSpace(cells[len(cells)-1]), ""
	if len(cells) > 2 {
		standard = strings.TrimSpace(cells[1])
	}
	text = strings.NewReplacer("`", "", ", below", "").Replace(link.ReplaceAllString(text, "$1"))
	for len(text) > 400 {
		at := strings.LastIndex(text[:400], ". ")
		if at < 0 {
			break
		}
		text = text[:at+1]
	}
	standard = strings.ReplaceAll(link.ReplaceAllString(standard, "$1"), "`", "")
	switch {
	case strings.HasPrefix(standard, "required"):
		text = strings.ToUpper(standard[:1]) + standard[1:] + ". " + text
	case standard != "" && standard != "none" && standard != "below":
		text = strings.TrimSuffix(text, ".") + ". Default: " + standard
	}
	return strings.TrimPrefix(text, ". ")
}

// TestEveryKeyIsDescribed: an editor says something of each key.
func TestEveryKeyIsDescribed(t *testing.T) {
	schemas := config.Schemas()
	schemas[plan.SetFile] = config.SchemaOf(plan.SetFile, plan.Describe())
	seen := 0
	for kind, schema := range schemas {
		described.Each(schema, func(path []string, property map[string]any) {
			if seen++; property["description"] == nil {
				t.Errorf("%s.%s has no description", kind, strings.Join(path, "."))
			}
		})
	}
	if seen < 500 {
		t.Errorf("only %d keys were looked at", seen)
	}
}

package systemd

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Each key that import knows is in docs/import.md, and none is both taken and named.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/import.md")
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Collect(maps.Keys(noted))
	for _, keys := range taken {
		for _, key := range keys {
			if noted[key] != "" {
				t.Errorf("%s is taken, and named", key)
			}
		}
		known = append(known, keys...)
	}
	slices.Sort(known)
	for _, key := range known {
		if !strings.Contains(string(page), "`"+key+"`") {
			t.Errorf("docs/import.md does not have %s", key)
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]string{"5": "5s", "5min 20s": "5m20s", "1h30m": "1h30m0s", "100ms": "100ms", "infinity": "", "": "", "5 parsecs": "", "9999999999h": ""} {
		d, ok := duration(text)
		if got := d.String(); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, ok, want)
		}
	}
}

func TestCron(t *testing.T) {
	for text, want := range map[string]string{
		"daily": "0 0 * * *", "*-*-* 03:05:00": "5 3 * * *", "Mon..Fri *-*-* 9:30": "30 9 * * MON-FRI", "*-*-01 00:00": "0 0 1 * *", "*-*-* *:0/15": "*/15 * * * *", "*-*-* 2/4:00": "0 2-23/4 * * *", "06:00": "0 6 * * *",
		"Sat": "0 0 * * SAT", "2026-01-01": "", "*-*-* 03:05:30": "", "noon": "",
	} {
		if got, ok := cron(text); got != want || ok != (want != "") {
			t.Errorf("%s: %s, %v; want %s", text, got, ok, want)
		}
	}
}

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		`a "b c" 'd e'`: {"a", "b c", "d e"}, `a\x20b c\tt`: {"a b", "c\tt"}, `"$A" ${B}`: {"$A", "${B}"}, ``: nil,
	} {
		if got, err := split(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
	if _, err := split(`"a`); err == nil {
		t.Error("no error for a quotation without an end")
	}
}

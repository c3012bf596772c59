package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rlminit/internal/durable"
	"rlminit/journal"
)

// journalOf makes a volume with a journal of one segment: alice is stopped, and
// that bob runs.
func journalOf(t *testing.T) (home, segment string) {
	t.Helper()
	home = t.TempDir()
	d, err := durable.Open(home)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	j, err := journal.Open(d, journal.Options{Boot: "0123abcd"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	stop := map[string]any{"verb": "stop", "services": []string{"alice"}}
	if _, err := j.Append(context.Background(), journal.Entry{Type: "operation", Body: stop}); err != nil {
		t.Fatal(err)
	}
	j.Note(journal.Entry{Type: journal.TypeTransition, Body: map[string]string{"service": "bob", "to": "running"}})
	return home, filepath.Join(home, journal.Dir, "00000001.jsonl")
}

func TestJournalVerify(t *testing.T) {
	home, segment := journalOf(t)
	b := newBox(t, nil)
	for _, dir := range []string{home, filepath.Join(home, ".rlminit"), filepath.Join(home, journal.Dir)} {
		r := b.rlminit(t, "journal", "verify", dir)
		if r.code != 0 || r.out != "00000001.jsonl: 3 records, sound\na boot reads the snapshot of 00000001.jsonl and what follows it\n" {
			t.Errorf("%s: exit code %d, %q, %q", dir, r.code, r.out, r.err)
		}
	}
	data, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	data[strings.Index(string(data), "alice")] = 'A'
	if err := os.WriteFile(segment, append(data, "torn"...), 0o600); err != nil {
		t.Fatal(err)
	}
	r := b.rlminit(t, "journal", "verify", home)
	if r.code != 1 || !strings.Contains(r.err, "00000001.jsonl: damaged at byte") || !strings.Contains(r.err, "torn end: its last 4 bytes") {
		t.Errorf("exit code %d, %q", r.code, r.err)
	}
	r = b.rlminit(t, "journal", "verify", "--json", home)
	var found verified
	err = json.Unmarshal([]byte(r.out), &found)
	if r.code != 1 || err != nil || found.Sound || len(found.Segments) != 1 || found.Segments[0].Name != "00000001.jsonl" || found.Segments[0].Records != 2 {
		t.Errorf("exit code %d, %q", r.code, r.out)
	}
	after, err := os.ReadFile(segment)
	if err != nil || len(after) != len(data)+4 {
		t.Errorf("it was changed, to %d bytes, %v", len(after), err)
	}
}

func TestJournalThatIsNone(t *testing.T) {
	home, _ := journalOf(t)
	b := newBox(t, nil)
	linked, empty := t.TempDir(), t.TempDir()
	if err := os.Symlink(filepath.Join(home, ".rlminit"), filepath.Join(linked, ".rlminit")); err != nil {
		t.Fatal(err)
	}
	format := filepath.Join(home, ".rlminit/format")
	if err := os.WriteFile(format, []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, says := range map[string]string{
		linked: "symbolic link", empty: "cannot find a journal in " + empty, "/nowhere": "no such file",
		home: "newer rlminit: its format is 99, and this one knows 1",
	} {
		r := b.rlminit(t, "journal", "verify", dir)
		if r.code != 1 || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, says) {
			t.Errorf("%s: exit code %d, %q", dir, r.code, r.err)
		}
	}
}

func TestJournalExport(t *testing.T) {
	home, _ := journalOf(t)
	b := newBox(t, nil)
	r := b.rlminit(t, "journal", "export", home)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if r.code != 0 || len(lines) != 2 || !strings.HasPrefix(lines[0], `{"seq":2,`) || !strings.Contains(lines[1], `"type":"transition","service":"bob","to":"running","sum":"`) {
		t.Errorf("exit code %d, %q, %q", r.code, r.out, r.err)
	}
	for args, want := range map[string]int{"--type transition": 1, "--type snapshot --type operation": 2, "--until 1h": 0, "--since 1h": 2} {
		r := b.rlminit(t, append([]string{"journal", "export", home}, strings.Fields(args)...)...)
		if got := strings.Count(r.out, "\n"); r.code != 0 || got != want {
			t.Errorf("%s: exit code %d, %d lines, want %d", args, r.code, got, want)
		}
	}
	if r := b.rlminit(t, "journal", "export", home, "--since", "tomorrow"); r.code != 2 || !strings.Contains(r.err, `"tomorrow" is no time for --since`) {
		t.Errorf("exit code %d, %q", r.code, r.err)
	}
}

package ns

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// onceBroke are the calls whose refusal has stopped services, or lost output, before.
var onceBroke = []string{"splice", "statx", "fallocate", "prlimit64", "renameat2", "fsync", "fdatasync", "eventfd2", "getrandom"}

// probed are some of the calls that have no other way, and are tried at the start.
var probed = []string{"write", "wait4", "accept4", "tgkill", "memfd_create", "unlinkat"}

// refusedWithin is how long an end, or the failure of a verb, may take on a busy machine.
const refusedWithin = 30 * time.Second

// TestRefused: where the place refuses a system call, all works, or the container ends, or
// the verb fails, with a line of ours that names the call: a trace of Go's runtime is none, and
// a job whose output is lost never ends well.
func TestRefused(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: a filter without no_new_privs")
	}
	calls := append(append([]string{}, onceBroke...), probed...)
	switch chosen := os.Getenv("RLMINIT_TEST_REFUSED"); chosen {
	case "":
	case "all":
		calls = used(t)
		t.Log(calls)
	default:
		calls = strings.Split(chosen, ",")
	}
	for _, call := range calls {
		for _, errno := range []string{"EPERM", "ENOSYS"} {
			t.Run(call+"/"+errno, func(t *testing.T) {
				t.Parallel()
				refuse(t, call, errno)
			})
		}
	}
}

// used are the calls that both tiers, the file helper and a pure init make, as strace sees
// them.
func used(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	strace := func(name string) []string {
		return []string{"strace", "-D", "-f", "-qq", "-o", filepath.Join(dir, name)}
	}
	b := Start(t, box.Spec{Config: contract.Config(), Under: strace("supervised")})
	if r := tryAll(b); r != nil {
		t.Fatal("under strace: ", r)
	}
	p := Start(t, box.Spec{Main: []string{"true"}, Under: strace("pure")})
	if code, err := p.Ended(refusedWithin); code != 0 || err != nil {
		t.Fatal("under strace: ", code, err)
	}
	names := map[string]bool{}
	for _, name := range []string{"supervised", "pure"} {
		lines, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(lines) {
			_, rest, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
			call, _, is := strings.Cut(strings.TrimSpace(rest), "(")
			if is && !strings.ContainsAny(call, " <+-") {
				names[call] = true
			}
		}
	}
	return slices.Sorted(func(yield func(string) bool) {
		for name := range names {
			if !yield(name) {
				return
			}
		}
	})
}

// refuse runs a supervised box and a pure init in which a call is refused.
func refuse(t *testing.T, call, errno string) {
	under := []string{"refuse", call + "=" + errno}
	named := func(text string) bool { return namedByUs(text, call) }
	pure := Start(t, box.Spec{Main: []string{"echo", "hello"}, Under: under})
	code, err := pure.Ended(refusedWithin)
	if err != nil || code != 0 && !named(pure.Printed()) || code == 0 && pure.Printed() != "hello\n" {
		t.Errorf("pure init: code %d, %v; it printed %q", code, err, pure.Printed())
	}
	b := Start(t, box.Spec{Config: contract.Config(), Under: under})
	if code, err := b.Ended(0); err == nil {
		if code == 0 || !named(b.Printed()) {
			t.Errorf("the container ended with %d", code)
		}
		return
	}
	for _, err := range tryAll(b) {
		if strings.Contains(err.Error(), "rlminit run ") && strings.Contains(err.Error(), "exit code 0,") || !named(err.Error()) && !named(b.Printed()) {
			t.Error(err)
		}
	}
	if err := b.Signal(15); err != nil && !named(b.Printed()) {
		t.Error(err)
	}
	if code, err := b.Ended(refusedWithin); err != nil || code != 0 && !named(b.Printed()) {
		t.Errorf("stop: code %d, %v", code, err)
	}
}

// namedByUs tells whether a line of rlminit's has the name of a call, or of the gateway that is
// refused it itself.
func namedByUs(text, call string) bool {
	for line := range strings.Lines(text) {
		if strings.Contains(line, call) && (strings.Contains(line, "rlminit: ") || strings.Contains(line, "exit code") || strings.Contains(line, "alice | ")) {
			return true
		}
	}
	return false
}

// tryAll creates a profile, reads its log, runs a job, writes a file, restarts and stops. It
// returns what the verbs that fail have said.
func tryAll(b *box.Box) (failed []error) {
	for _, verb := range []struct{ line, want string }{
		{"profile create alice", ""},
		{"wait --timeout 20s alice", ""},
		{"logs alice", "listens on"},
		{"run -- seq 1 5", "1\n2\n3\n4\n5\n"},
		{"file write --profile alice note", ""},
		{"file read --profile alice note", "text"},
		{"restart alice", ""},
		{"status alice", "running"},
		{"stop alice", ""},
	} {
		args := append([]string{"timeout", "--foreground", "-s", "KILL", "60", "rlminit"}, strings.Fields(verb.line)...)
		r, err := b.Exec(box.Service, strings.NewReader("text"), args)
		if err != nil || r.Code != 0 || !strings.Contains(r.Out, verb.want) {
			failed = append(failed, fmt.Errorf("rlminit %s: %v %s", verb.line, err, r))
		}
	}
	return failed
}

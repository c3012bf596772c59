package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unicode"

	"rlminit/control"
)

// printing are commands that print, against the box of printers.
var printing = [][]string{
	{"status"},
	{"status", "--json"},
	{"status", "-w"},
	{"profile", "list"},
	{"profile", "show", "alice"},
	{"stop", "alice"},
	{"wait", "alice"},
	{"reload"},
	{"events"},
	{"events", "--json"},
	{"events", "-f"},
	{"logs", "alice"},
	{"logs", "alice", "bob"},
	{"health"},
	{"version"},
	{"help"},
	{"completion", "bash"},
}

// printers is a box with something to print for each of them, and streams that
// never end.
func printers(t *testing.T) *box {
	t.Helper()
	profile := control.Profile{Name: "alice", Service: "gateway-alice", Desired: "running", State: "running"}
	return newBox(t, map[string]any{
		"GET /v1/services":             []control.Service{alice()},
		"GET /v1/profiles":             []control.Profile{profile},
		"GET /v1/profiles/alice":       profile,
		"POST /v1/services/alice/stop": []control.Outcome{{Service: alice()}},
		"POST /v1/services/alice/wait": alice(),
		"POST /v1/reload":              control.Reloaded{},
		"GET /v1/health":               control.Health{OK: true},
		"GET /v1/logs/alice":           text(aliceLog),
		"GET /v1/logs/bob":             text(bobLog),
		"GET /v1/events": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, starting)
			w.(http.Flusher).Flush()
			if r.URL.Query().Get("follow") == "true" {
				<-r.Context().Done()
			}
		},
	})
}

// What cannot be written is an error, for whoever saves it to a file that is
// full has nothing.
func TestOutputIsLost(t *testing.T) {
	b := printers(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range printing {
		r, _ := writingTo(t, b, full, args)
		if want := "rlminit: cannot write to standard output: no space left on device\n"; r.code != 1 || r.err != want {
			t.Errorf("%q: exit code %d, stderr %q", args, r.code, r.err)
		}
	}
	if r, _ := writingTo(t, b, full, []string{"status", "-q", "alcie"}); r.code != 4 {
		t.Errorf("what prints nothing: exit code %d, stderr %q", r.code, r.err)
	}
}

// A reader that has seen enough is no reason to complain.
func TestReaderIsGone(t *testing.T) {
	b := printers(t)
	read, closed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	read.Close()
	for _, args := range printing {
		r, status := writingTo(t, b, closed, args)
		if r.err != "" || !status.Signaled() || status.Signal() != syscall.SIGPIPE {
			t.Errorf("%q: exit code %d, signal %v, stderr %q", args, r.code, status.Signal(), r.err)
		}
	}
}

// released is a shell for scripts whose $0 is rlminit as it is released: it
// knows which descriptors were closed, for it begins before Go's runtime opens
// /dev/null there.
func released(t *testing.T, b *box) (sh func(script string, args ...string) result) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "rlminit")
	build := exec.Command("go", "build", "-tags", "nethttpomithttp2", "-trimpath", "-ldflags", "-E rlminit/reap/sys.entry", "-o", binary, ".") // as make build, whose cache it takes
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build: %v\n%s", err, out)
	}
	return func(script string, args ...string) result {
		cmd := b.command()
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", script, binary}, args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Run() // its exit status is in ProcessState
		return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	}
}

func TestOutputIsClosed(t *testing.T) {
	sh := released(t, printers(t))
	for _, args := range printing {
		r := sh(`exec "$0" "$@" >&-`, args...)
		if want := "rlminit: cannot write to standard output: bad file descriptor\n"; r.code != 1 || r.err != want {
			t.Errorf("%q: exit code %d, stderr %q", args, r.code, r.err)
		}
	}
	if r := sh(`exec "$0" status -q alcie >&-`); r.code != 4 {
		t.Errorf("what prints nothing: exit code %d, stderr %q", r.code, r.err)
	}
	if r := sh(`exec "$0" version <&- 2>&-`); r.code != 0 || r.out == "" {
		t.Errorf("the other two are closed: %+v", r)
	}
}

// writingTo runs a command with a standard output.
func writingTo(t *testing.T, b *box, out *os.File, args []string) (result, syscall.WaitStatus) {
	t.Helper()
	cmd := b.command(args...)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer stuck.Stop()
	cmd.Wait() // its exit status is in ProcessState
	return result{"", stderr.String(), cmd.ProcessState.ExitCode()}, cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// What a service wrote does nothing to a terminal, and can still be read.
func TestLogsOnATerminalAreHarmless(t *testing.T) {
	const stamp = "2026-05-24T18:05:33.000001Z out "
	for text, want := range map[string]string{
		"plain\tand ünïcode 漢字 🙂":                            "plain\tand ünïcode 漢字 🙂",
		"\x1b[31mred\x1b[0m":                                 "^[[31mred^[[0m",
		"\x1b]0;title\x07\x1b]52;c;cm0=\x1b\\":               "^[]0;title^G^[]52;c;cm0=^[\\",
		"back\b\b\b over\rwritten":                           "back^H^H^H over^Mwritten",
		"c1 \u009b31m, as bytes \x9b31m, del \x7f":           "c1 \\u009b31m, as bytes \\x9b31m, del ^?",
		"turned \u202e round, joined \u200b, tag \U000e0041": "turned \\u202e round, joined \\u200b, tag \\ue0041",
		"nul \x00, windows\r":                                "nul ^@, windows",
		"\uFFFD itself":                                      "\uFFFD itself",
	} {
		line := []byte(stamp + text + "\n")
		asJSON := false
		show := func(o logAsk, tty bool) string {
			var out bytes.Buffer
			p := newPrinter(&terminal{out: &output{to: &out}, isTTY: tty, json: asJSON}, []string{"alice"}, o)
			p.sources = []logSource{{Service: "alice"}}
			if err := p.print(logLine{text: line}); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		if got := show(logAsk{}, true); got != stamp+want+"\n" {
			t.Errorf("%q is shown as %q", text, got)
		}
		if got := show(logAsk{raw: true}, true); got != string(line) {
			t.Errorf("%q is raw as %q", text, got)
		}
		if got := show(logAsk{}, false); got != string(line) {
			t.Errorf("%q is %q in a pipe", text, got)
		}
		asJSON = true
		var shown, piped logJSON
		if err := json.Unmarshal([]byte(show(logAsk{}, true)), &shown); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if err := json.Unmarshal([]byte(show(logAsk{}, false)), &piped); err != nil || piped.Text != shown.Text {
			t.Errorf("%q is JSON of %q on a terminal, %q in a pipe, %v", text, shown.Text, piped.Text, err)
		}
		for _, r := range show(logAsk{}, true) {
			if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
				t.Errorf("%q as JSON has %q", text, r)
			}
		}
	}
}

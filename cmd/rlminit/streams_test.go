package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rlminit/control"
)

// text answers with a body as it is.
func text(body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
}

const (
	aliceLog = `2026-05-24T18:05:33.000001Z out one
2026-05-24T18:05:33.000003Z out three
`
	bobLog = `2026-05-24T18:05:33.000002Z err two
2026-05-24T18:05:33.000004Z err four, no newline`
)

func TestLogs(t *testing.T) {
	tell(t, map[string]any{
		"GET /v1/services":   []control.Service{alice(), bob()},
		"GET /v1/logs/alice": text(aliceLog),
		"GET /v1/logs/bob":   text(bobLog),
	}, []story{
		{args: []string{"logs", "alice"}, out: aliceLog, asks: []string{"GET /v1/logs/alice"}},
		{args: []string{"logs", "bob"}, out: bobLog + "\n"},
		{args: []string{"logs", "alice", "-n", "7"}, out: aliceLog, asks: []string{"GET /v1/logs/alice?n=7"}},
		{name: "since", args: []string{"logs", "alice", "--since", "2026-05-24T18:05:33Z"}, out: aliceLog, asks: []string{"GET /v1/logs/alice?since=2026-05-24T18%3A05%3A33Z"}},
		{
			name: "merged by time", args: []string{"logs", "alice", "bob"}, out: `alice | 2026-05-24T18:05:33.000001Z out one
bob   | 2026-05-24T18:05:33.000002Z err two
alice | 2026-05-24T18:05:33.000003Z out three
bob   | 2026-05-24T18:05:33.000004Z err four, no newline
`, asks: []string{"GET /v1/logs/alice?n=100", "GET /v1/logs/bob?n=100"},
		},
		{name: "all", args: []string{"logs", "--all", "-n", "all"}, out: `alice | 2026-05-24T18:05:33.000001Z out one
bob   | 2026-05-24T18:05:33.000002Z err two
alice | 2026-05-24T18:05:33.000003Z out three
bob   | 2026-05-24T18:05:33.000004Z err four, no newline
`, asks: []string{"GET /v1/logs/alice", "GET /v1/logs/bob", "GET /v1/services"}},
		{name: "one of two is unknown", args: []string{"logs", "alice", "alcie"}, code: 4, out: "alice | 2026-05-24T18:05:33.000001Z out one\nalice | 2026-05-24T18:05:33.000003Z out three\n", err: "rlminit: no profile or service \"alcie\"; did you mean \"alice\"?\n"},
		{args: []string{"logs", "alcie"}, code: 4, err: "rlminit: no profile or service \"alcie\"; did you mean \"alice\"?\n"},
		{args: []string{"logs", "all"}, code: 4, err: "rlminit: no profile or service \"all\"; did you mean --all?\n", asks: []string{}},
		{args: []string{"logs"}, code: 2, err: "rlminit: NAME or --all is missing; see rlminit help logs\n"},
		{args: []string{"logs", "alice", "-n", ""}, code: 2, err: "rlminit: -n takes a number of lines, or all, not \"\"; see rlminit help logs\n"},
		{args: []string{"logs", "alice", "--since", ""}, code: 2, err: "rlminit: --since takes a time such as 10m, 2026-05-24T18:05:33Z, or 2026-05-24 18:05, not \"\"; see rlminit help logs\n"},
		{args: []string{"logs", "alice", "-n", "-1"}, code: 2, err: "rlminit: -n takes a number of lines, or all, not \"-1\"; see rlminit help logs\n"},
		{args: []string{"logs", "alice", "--since", "yesterday"}, code: 2, err: "rlminit: --since takes a time such as 10m, 2026-05-24T18:05:33Z, or 2026-05-24 18:05, not \"yesterday\"; see rlminit help logs\n"},
	})
}

// webLog is a log as services write them: JSON, logfmt, words, a stack trace.
const webLog = `2026-05-24T18:05:31.000000Z out {"level":"info","msg":"up"}
2026-05-24T18:05:32.000000Z err [warn] slow disk
2026-05-24T18:05:33.000000Z err Traceback ERROR in handler
2026-05-24T18:05:33.000001Z err   File "x.py", line 3
2026-05-24T18:05:34.000000Z out said error without meaning it
2026-05-24T18:05:35.000000Z --- exited with status 1
`

func TestLogsAreFiltered(t *testing.T) {
	lines := strings.SplitAfter(webLog, "\n")
	show := func(which ...int) string {
		out := ""
		for _, i := range which {
			out += lines[i]
		}
		return out
	}
	tell(t, map[string]any{"GET /v1/logs/web": text(webLog), "GET /v1/logs/alice": text(aliceLog), "GET /v1/logs/bob": text(bobLog)}, []story{
		{args: []string{"logs", "web", "--level", "warn"}, out: show(1, 2, 3), asks: []string{"GET /v1/logs/web"}},
		{args: []string{"logs", "web", "--level", "error"}, out: show(2, 3)},
		{args: []string{"logs", "web", "--level", "loud"}, code: 2, err: "rlminit: --level takes one of trace, debug, info, warn, error, fatal, not \"loud\"; see rlminit help logs\n", asks: []string{}},
		{args: []string{"logs", "web", "--grep", "^said|slow$"}, out: show(4)},
		{args: []string{"logs", "web", "--grep", "(?i)error"}, out: show(2, 4)},
		{args: []string{"logs", "web", "--grep", "18:05"}, out: ""},
		{args: []string{"logs", "web", "--grep", "a(b"}, code: 2, err: "rlminit: --grep \"a(b\" is no regular expression: missing closing ); see rlminit help logs\n", asks: []string{}},
		{args: []string{"logs", "web", "--grep", "[a-z]", "-n", "2"}, out: show(4, 5), asks: []string{"GET /v1/logs/web"}},
		{args: []string{"logs", "web", "--grep", "[a-z]", "-n", "0"}, out: ""},
		{args: []string{"logs", "web", "--until", "2026-05-24T18:05:32Z"}, out: show(0, 1)},
		{args: []string{"logs", "web", "--until", "2026-05-24 18:05:33", "-n", "2"}, out: show(1, 2)},
		{args: []string{"logs", "web", "--until", "soon"}, code: 2, err: "rlminit: --until takes a time such as 10m, 2026-05-24T18:05:33Z, or 2026-05-24 18:05, not \"soon\"; see rlminit help logs\n", asks: []string{}},
		{args: []string{"logs", "web", "-f", "--until", "10m"}, code: 2, err: "rlminit: --until says where the log ends and -f that it goes on: give one of them; see rlminit help logs\n"},
		{args: []string{"logs", "alice", "bob", "--no-prefix"}, out: "2026-05-24T18:05:33.000001Z out one\n2026-05-24T18:05:33.000002Z err two\n2026-05-24T18:05:33.000003Z out three\n2026-05-24T18:05:33.000004Z err four, no newline\n"},
		{args: []string{"logs", "alice", "bob", "--grep", "t", "--json"}, asks: []string{"GET /v1/logs/alice", "GET /v1/logs/bob", "GET /v1/services"}, out: `{"service":"bob","profile":null,"at":"2026-05-24T18:05:33.000002Z","stream":"err","level":null,"text":"two"}
{"service":"alice","profile":null,"at":"2026-05-24T18:05:33.000003Z","stream":"out","level":null,"text":"three"}
`},
	})
}

func TestLogsAsJSON(t *testing.T) {
	odd := "2026-05-24T18:05:33.000001Z err+ <3>half a line\n2026-05-24T18:05:33.000001Z out \xff\nno time at all\n2026-05-24T18:05:33Z \n"
	tell(t, map[string]any{"GET /v1/logs/web": text(odd)}, []story{{
		args: []string{"logs", "web", "--json"}, out: `{"service":"web","profile":null,"at":"2026-05-24T18:05:33.000001Z","stream":"err","level":"error","cut":true,"text":"<3>half a line"}
{"service":"web","profile":null,"at":"2026-05-24T18:05:33.000001Z","stream":"out","level":null,"text":"","text_base64":"/w=="}
{"service":"web","profile":null,"at":null,"stream":null,"level":null,"text":"no time at all"}
{"service":"web","profile":null,"at":null,"stream":null,"level":null,"text":"2026-05-24T18:05:33Z "}
`,
	}})
}

func TestLevels(t *testing.T) {
	for text, want := range map[string]int{
		"<7>fine": levelDebug, "<0>on fire": levelFatal, `{"severity":"WARNING"}`: levelWarn, `{"level":30}`: levelInfo, `{"level":50}`: levelError,
		"I0524 18:05:33.1 1 main.go:1] up": levelInfo, "E0524 18:05:33.1 x": levelError, `time=x level=warn msg="y"`: levelWarn,
		"2026/05/24 18:05:33 [error] 7#7: no": levelError, "2026-05-24 18:05:33,123 - app - CRITICAL - no": levelFatal, "error: no": levelError,
		"12:1:M 24 May 18:05:33 # Warning: no": levelWarn, "no error at all": -1, "": -1, "{": -1, "INFORMATIVE": -1,
		strings.Repeat("x", 200) + " ERROR": -1,
	} {
		level, known := levelOf([]byte(text))
		if !known {
			level = -1
		}
		if level != want {
			t.Errorf("%q: %d, want %d", text, level, want)
		}
	}
}

// With -f the filter lets through what is to come, too.
func TestFollowFiltered(t *testing.T) {
	b := newBox(t, map[string]any{"GET /v1/logs/web": func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, webLog)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}})
	lines := strings.Split(webLog, "\n")
	follow(t, b, []string{"logs", "-f", "web", "--level", "warn"}, lines[1:4])
}

// cutAfter is a log that is followed while the supervisor is replaced: the
// first answer is cut in the midst of a line, the second tells the end of what
// was told already, and then goes on.
func cutAfter(first, second string) func(http.ResponseWriter, *http.Request) {
	var asked atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			io.WriteString(w, first)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, second)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// follow starts a command, waits for the lines that it is to write, interrupts
// it, and returns what else it wrote.
func follow(t *testing.T, b *box, args []string, want []string) {
	t.Helper()
	cmd := b.command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer stuck.Stop()
	lines := bufio.NewScanner(out)
	for _, line := range want {
		if !lines.Scan() {
			t.Fatalf("output ended before %q; stderr %q", line, stderr.String())
		}
		if lines.Text() != line {
			t.Errorf("wrote %q, want %q", lines.Text(), line)
		}
	}
	cmd.Process.Signal(syscall.SIGINT)
	for lines.Scan() {
		t.Errorf("wrote %q, which it had not to", lines.Text())
	}
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("ended with %v, stderr %q", err, stderr.String())
	}
}

func TestFollowedLogSurvivesTheSupervisor(t *testing.T) {
	b := newBox(t, map[string]any{"GET /v1/logs/alice": cutAfter(
		aliceLog+"2026-05-24T18:05:33.0000",
		"2026-05-24T18:05:33.000003Z out three\n2026-05-24T18:05:33.000003Z out four, same time\n",
	)})
	follow(t, b, []string{"logs", "-f", "alice"}, []string{
		"2026-05-24T18:05:33.000001Z out one",
		"2026-05-24T18:05:33.000003Z out three",
		"2026-05-24T18:05:33.000003Z out four, same time",
	})
	want := "GET /v1/logs/alice?follow=true&since=2026-05-24T18%3A05%3A33.000003Z"
	if asked := b.requests(); len(asked) != 2 || asked[1] != want {
		t.Errorf("asked %q, want the second to be %q", asked, want)
	}
}

// One who follows from the last event goes on where that was, and is not shown the last
// of what there is by then.
func TestLastEventsAreFollowedOn(t *testing.T) {
	event := func(seq int) string {
		return fmt.Sprintf(`{"seq":%d,"at":"2026-05-24T18:05:33.00000%dZ","type":"transition","service":"web","from":"starting","to":"running"}`, seq, seq)
	}
	b := newBox(t, map[string]any{"GET /v1/events": cutAfter(event(7)+"\n"+event(8)[:40], event(7)+"\n"+event(8)+"\n"+event(9)+"\n")})
	follow(t, b, []string{"events", "-f", "-n", "1", "--json"}, []string{event(7), event(8), event(9)})
	want := []string{"GET /v1/events?follow=true&n=1", "GET /v1/events?follow=true&since=2026-05-24T18%3A05%3A33.000007Z"}
	if asked := b.requests(); !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

func TestFollowSeveral(t *testing.T) {
	hold := func(body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, body)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}
	b := newBox(t, map[string]any{"GET /v1/logs/alice": hold(aliceLog), "GET /v1/logs/bob": hold(strings.Replace(bobLog, ", no newline", "\n", 1))})
	follow(t, b, []string{"logs", "-f", "alice", "bob"}, []string{
		"alice | 2026-05-24T18:05:33.000001Z out one",
		"bob   | 2026-05-24T18:05:33.000002Z err two",
		"alice | 2026-05-24T18:05:33.000003Z out three",
		"bob   | 2026-05-24T18:05:33.000004Z err four",
	})
}

const (
	starting = `{"seq":1,"at":"2026-05-24T18:05:33.1Z","service":"gateway-alice","from":"stopped","to":"starting","cause":"started","actor":1000,"pid":42}` + "\n"
	running  = `{"seq":2,"at":"2026-05-24T18:05:34Z","service":"gateway-alice","from":"starting","to":"running","cause":"ready","actor":null,"pid":42}` + "\n"
)

func TestEvents(t *testing.T) {
	tell(t, map[string]any{"GET /v1/events": text(starting + running)}, []story{
		{args: []string{"events"}, out: `2026-05-24T18:05:33.100Z alice: stopped → starting: started (pid 42, by uid 1000)
2026-05-24T18:05:34.000Z alice: starting → running: ready (pid 42)
`, asks: []string{"GET /v1/events"}},
		{args: []string{"events", "--json"}, out: starting + running},
	})
	const stop = `{"seq":3,"at":"2026-05-24T18:05:35Z","boot":"6f0c","type":"operation","verb":"stop","services":["gateway-alice","web"],"actor":{"uid":1000},"sum":"00000000"}` + "\n"
	tell(t, map[string]any{"GET /v1/events": text(stop + running)}, []story{
		{args: []string{"events"}, out: `2026-05-24T18:05:35.000Z stop alice, web (by uid 1000)
2026-05-24T18:05:34.000Z alice: starting → running: ready (pid 42)
`},
		{args: []string{"events", "--json"}, out: stop + running},
	})
}

func TestFollowedEventsSurviveTheSupervisor(t *testing.T) {
	b := newBox(t, map[string]any{"GET /v1/events": cutAfter(starting, starting+running)})
	follow(t, b, []string{"events", "-f", "--json"}, []string{strings.TrimSpace(strings.Replace(starting, ".1Z", ".1Z", 1)), strings.TrimSpace(running)})
}

func TestWatch(t *testing.T) {
	var asked atomic.Int32
	more := make(chan struct{})
	b := newBox(t, map[string]any{
		"GET /v1/services/alice": func(w http.ResponseWriter, _ *http.Request) {
			state := `{"name":"gateway-alice","profile":"alice","state":"starting"}`
			if asked.Add(1) > 1 {
				state = strings.Replace(state, "starting", "running", 1)
			} else {
				close(more)
			}
			io.WriteString(w, state)
		},
		"GET /v1/events": func(w http.ResponseWriter, r *http.Request) {
			<-more
			io.WriteString(w, starting)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	})
	follow(t, b, []string{"status", "--watch", "alice"}, []string{
		"NAME   STATE     PID  UPTIME  RESTARTS  PORT  REASON", "alice  starting  -    -       0         -", "",
		"NAME   STATE    PID  UPTIME  RESTARTS  PORT  REASON", "alice  running  -    -       0         -", "",
	})
}

// Who may read the status but no events sees what changes all the same.
func TestWatchWithoutEvents(t *testing.T) {
	var asked atomic.Int32
	b := newBox(t, map[string]any{
		"GET /v1/services/alice": func(w http.ResponseWriter, _ *http.Request) {
			n := asked.Add(1)
			state := "starting"
			if n > 2 {
				state = "running"
			}
			fmt.Fprintf(w, `{"name":"gateway-alice","profile":"alice","state":%q,"uptime_s":0.%d}`, state, n)
		},
		"GET /v1/events": control.WrongUser(4444, 1000),
	})
	follow(t, b, []string{"status", "--watch", "alice"}, []string{
		"NAME   STATE     PID  UPTIME  RESTARTS  PORT  REASON", "alice  starting  -    0s      0         -", "",
		"NAME   STATE    PID  UPTIME  RESTARTS  PORT  REASON", "alice  running  -    0s      0         -", "",
	})
}

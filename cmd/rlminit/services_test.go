package main

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/control"
)

// A box with one service in each state.
func alice() control.Service {
	return control.Service{
		Name: "gateway-alice", Profile: ptr("alice"), Type: "daemon", State: "running", Desired: "running",
		PID: ptr(42), UptimeS: ptr(3725.4), Restarts: 2, Port: ptr(9471), Since: ptr(time.Unix(1779645933, 0).UTC()),
	}
}

func bob() control.Service {
	return control.Service{
		Name: "gateway-bob", Profile: ptr("bob"), Type: "daemon", State: "failed", Desired: "running", Restarts: 8,
		Port: ptr(9300), Reason: ptr(`8 starts in 26s, last exit 1, "KeyError: TOKEN"`),
		LastExit:  &control.Exit{Code: ptr(1), At: time.Unix(1779645933, 0).UTC()},
		LastLines: []string{"Traceback", "\x1b[31mKeyError: TOKEN\x1b[0m"},
	}
}

func web() control.Service {
	return control.Service{Name: "web", Type: "daemon", State: "stopped", Desired: "stopped", LastExit: &control.Exit{Signal: ptr("TERM")}}
}

func seed() control.Service {
	return control.Service{Name: "seed", Type: "oneshot", State: "exited", Desired: "running", LastExit: &control.Exit{Code: ptr(0)}}
}

var everyService = map[string]any{
	"GET /v1/services":       []control.Service{alice(), bob(), seed(), web()},
	"GET /v1/services/alice": alice(),
	"GET /v1/services/bob":   bob(),
	"GET /v1/services/web":   web(),
	"GET /v1/services/seed":  seed(),
	"GET /v1/health":         control.Health{Reasons: []string{"bob: failed"}},
}

// With --wide each service has what its processes use: here this test's.
func TestStatusWide(t *testing.T) {
	me := alice()
	me.PID = ptr(os.Getpid())
	b := newBox(t, map[string]any{"GET /v1/services/alice": me, "GET /v1/services/bob": bob()})
	r := b.rlminit(t, "status", "--wide", "--json", "alice", "bob")
	var services []control.Service
	if err := json.Unmarshal([]byte(r.out), &services); err != nil || len(services) != 2 {
		t.Fatalf("%v in %s%s", err, r.out, r.err)
	}
	if u := services[0].Usage; u == nil || u.MemoryBytes < 1<<20 || u.Processes < 2 || u.Threads < 3 || services[1].Usage != nil {
		t.Errorf("%s", r.out) // this test, and the command that it runs
	}
	lines := strings.Split(b.rlminit(t, "status", "--wide", "alice", "bob").out, "\n")
	if got := strings.Join(strings.Fields(lines[0]), " "); got != "NAME STATE PID UPTIME MEMORY CPU PROCS RESTARTS PORT UID REASON" {
		t.Errorf("%q", got)
	}
	if got := strings.Fields(lines[2]); len(got) < 7 || got[4] != "-" || got[5] != "-" || got[6] != "-" {
		t.Errorf("%q", got)
	}
}

func TestUsageTexts(t *testing.T) {
	for n, want := range map[int64]string{0: "0.0K", 1024: "1.0K", 10 << 10: "10K", 999 << 10: "999K", 1000 << 10: "1.0M", 5 << 30: "5.0G"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
	for s, want := range map[float64]string{0: "0.00s", 59.99: "59.99s", 61: "1m01s", 7322: "2h02m"} {
		if got := cpuText(&control.Usage{CPUS: s}); got != want {
			t.Errorf("%v s: %s, want %s", s, got, want)
		}
	}
}

func TestStatus(t *testing.T) {
	tell(t, everyService, []story{
		{args: []string{"status"}, out: `NAME   STATE    PID  UPTIME  RESTARTS  PORT  REASON
alice  running  42   1h02m   2         9471
bob    failed   -    -       8         9300  8 starts in 26s, last exit 1, "KeyError: TOKEN"
seed   exited   -    -       0         -     exit 0
web    stopped  -    -       0         -     killed by TERM
`, asks: []string{"GET /v1/health?level=alive", "GET /v1/services"}},
		{args: []string{"status", "bob"}, out: `NAME  STATE   PID  UPTIME  RESTARTS  PORT  REASON
bob   failed  -    -       8         9300  8 starts in 26s, last exit 1, "KeyError: TOKEN"

last lines of bob; see rlminit logs bob:
  Traceback
  ` + "\uFFFD[31mKeyError: TOKEN\uFFFD[0m\n"},
		{
			args: []string{"status", "alcie"}, code: 4,
			err: "rlminit: no profile or service \"alcie\"; did you mean \"alice\"?\n",
		},
		{args: []string{"status", "web", "nobody", "web"}, code: 4, out: `NAME  STATE    PID  UPTIME  RESTARTS  PORT  REASON
web   stopped  -    -       0         -     killed by TERM
`, err: "rlminit: no profile or service \"nobody\"\n"},
		{args: []string{"status", "-q", "alice"}},
		{args: []string{"status", "-q", "alice", "web"}, code: 3},
		{args: []string{"status", "-q"}, code: 3},
		{name: "-q unknown", args: []string{"status", "-q", "nobody"}, code: 4, err: "rlminit: no profile or service \"nobody\"\n"},
		{
			args: []string{"status", "-q", "--json"}, code: 2,
			err: "rlminit: -q prints nothing, so it cannot be combined with --json or --watch; see rlminit help status\n",
		},
		{args: []string{"status", "web", "--json"}, out: `[
  {
    "name": "web",
    "profile": null,
    "kind": null,
    "type": "daemon",
    "state": "stopped",
    "desired": "stopped",
    "pid": null,
    "ready": null,
    "healthy": null,
    "since": null,
    "uptime_s": null,
    "restarts": 0,
    "last_exit": {
      "code": null,
      "signal": "TERM",
      "at": "0001-01-01T00:00:00Z"
    },
    "reason": null,
    "port": null,
    "uid": null,
    "outdated": false,
    "verdict": "",
    "reason_code": "",
    "flapping": false
  }
]
`},
	})
}

func TestStatusOfNothing(t *testing.T) {
	const nothing = "no profile and no service yet; rlminit profile create NAME makes a profile\n"
	tell(t, map[string]any{"GET /v1/services": []control.Service(nil), "GET /v1/health": control.Health{OK: true}}, []story{
		{args: []string{"status"}, out: nothing},
		{args: []string{"status", "--json"}, out: "[]\n"},
		{args: []string{"status", "-q"}},
	})
	const why = "no profile is here: the volume is another's"
	tell(t, map[string]any{"GET /v1/services": []control.Service(nil), "GET /v1/health": control.Health{Reasons: []string{why}, Missing: why}}, []story{
		{args: []string{"status"}, out: nothing, err: "rlminit: " + why + "\n"},
		{name: "-q", args: []string{"status", "-q"}, code: 3},
	})
}

func outcome(s control.Service, changed bool) []control.Outcome {
	return []control.Outcome{{Service: s, Changed: changed}}
}

// Status has a word for what waits for its schedule, which JSON has not: there it is stopped.
func TestStatusOfSchedules(t *testing.T) {
	nightly := control.Service{Name: "nightly", Type: "oneshot", State: "stopped", Desired: "stopped", Schedule: &control.Schedule{Next: ptr(time.Unix(1779645933, 0).UTC())}}
	off := control.Service{Name: "off", Type: "oneshot", State: "stopped", Desired: "stopped", Schedule: &control.Schedule{NotRun: "enabled is false"}}
	by := &control.Supervisor{Name: "rlminit", Version: "1.2.3", PID: 9, InitPID: 7}
	next := time.Unix(1779645933, 0).UTC().Format(time.DateTime) + " UTC"
	answers := map[string]any{"GET /v1/services": []control.Service{nightly, off}, "GET /v1/health": control.Health{OK: true, Supervisor: by}}
	tell(t, answers, []story{{args: []string{"status"}, out: `NAME     STATE      PID  UPTIME  RESTARTS  PORT  REASON
nightly  scheduled  -    -       0         -     next at ` + next + `
off      stopped    -    -       0         -     its schedule is not run: enabled is false
`}})
}

// On a terminal the last lines of status name who supervises, and count the services by their
// verdicts. Neither is in a pipe.
func TestStatusEndsWithCounts(t *testing.T) {
	all := []control.Service{{Name: "rlminit", Type: "tier", State: "running"}}
	for verdict, states := range map[string][]string{"ill": {"failed", "backoff", "failed"}, "ok": {"running", "exited"}, "pending": {"starting"}, "off": {"stopped"}} {
		for _, state := range states {
			all = append(all, control.Service{Name: "s", State: state, Verdict: verdict})
		}
	}
	for services, want := range map[*[]control.Service]string{
		&all: "7 services: 3 ill (2 failed, 1 backoff), 1 pending, 2 ok, 1 off",
		{{Name: "a", State: "running", Verdict: "ok"}}: "1 service: 1 ok",
	} {
		if got := countedServices(*services); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	b := newBox(t, map[string]any{
		"GET /v1/services": []control.Service{{Name: "web", State: "running", Verdict: "ok"}},
		"GET /v1/health":   control.Health{OK: true, Supervisor: &control.Supervisor{Name: "rlminit", Version: "1.2.3", PID: 9, InitPID: 7}},
	})
	cmd := b.command("status")
	_, seen, wait := onScreen(t, cmd, nil)
	wait()
	if out, want := seen.wrote(), "supervised by rlminit 1.2.3, pid 7 and 9\r\n1 service: 1 ok\r\n"; !strings.HasSuffix(out, want) {
		t.Errorf("on a terminal:\n%s", out)
	}
}

// For programs commands write what became of each, and exit as they do for people.
func TestOutcomesAsJSON(t *testing.T) {
	failed := append(outcome(alice(), false), outcome(bob(), true)...)
	failed[1].Problem = control.Failed("bob failed")
	member := []control.OperationMember{{Name: "alice", State: "done"}}
	done := control.Operation{ID: 12, State: "done", Members: member}
	gated := control.Operation{ID: 13, State: "failed", Reason: "stopped at alice: it is failed", Members: member}
	trash := "/data/trash/alice-20260524T180533Z"
	binned := control.Trashed{Entry: "bob-1", Profile: "bob", Revision: 3}
	job := control.JobResult{Job: "7", State: "cancelled", LeftBehind: []control.LeftBehind{}, Tried: []control.IsolationTried{}}
	session := control.Session{Session: "3", State: "open"}
	undone := control.Revision{Revision: 4, State: control.RevisionRolledBack, Reason: "web died", ExitCode: 8, Steps: []control.RevisionStep{}}
	unchanged := control.Revision{State: control.RevisionUnchanged}
	b := newBox(t, map[string]any{
		"POST /v1/services/alice/start":  outcome(alice(), true),
		"POST /v1/services/all/restart":  failed,
		"POST /v1/services/all/stop":     []control.Outcome{},
		"POST /v1/profiles":              outcome(alice(), true)[0],
		"PATCH /v1/profiles/alice":       aliceProfile(),
		"DELETE /v1/profiles/alice":      control.Deleted{Trash: trash},
		"DELETE /v1/profiles/bob":        control.Deleted{Left: []string{"/data/trash/bob"}},
		"GET /v1/trash":                  []control.Trashed{binned},
		"DELETE /v1/trash/bob-1":         control.Purged{Left: []string{"/data/profiles/.x"}},
		"POST /v1/services/alice/signal": alice(),
		"POST /v1/services/web/signal":   control.NotRunning("web"),
		"POST /v1/services/alice/wait":   alice(),
		"POST /v1/services/slow/wait":    control.TimedOut("slow", "starting", time.Second, "status slow"),
		"POST /v1/operations":            done,
		"GET /v1/operations/12":          done,
		"GET /v1/operations/13":          gated,
		"POST /v1/operations/12/cancel":  done,
		"POST /v1/operations/13/cancel":  control.Conflict("operation 13 is over: failed"),
		"POST /v1/reload":                control.Reloaded{Changes: []control.Change{}, Notes: []string{}, Operation: 13},
		"POST /v1/jobs/7/cancel":         job,
		"POST /v1/jobs/7/undo":           job,
		"POST /v1/files":                 job,
		"POST /v1/sessions/3/extend":     session,
		"DELETE /v1/sessions/3":          session,
		"POST /v1/rollback":              undone,
	})
	for _, c := range []struct {
		args []string
		code int
		want []any // one after the other
		err  string
	}{
		{[]string{"start", "alice"}, 0, []any{outcome(alice(), true)}, ""},
		{[]string{"restart", "alice", "bob"}, 1, []any{failed}, ""},
		{[]string{"stop", "--all"}, 0, []any{[]control.Outcome{}}, ""},
		{[]string{"restart", "--all", "--no-wait"}, 0, []any{done}, ""},
		{[]string{"restart", "--all", "--rolling"}, 0, []any{done}, ""},
		{[]string{"profile", "create", "alice"}, 0, []any{outcome(alice(), true)[0]}, ""},
		{[]string{"profile", "set", "alice", "A=1"}, 0, []any{control.ProfileSet{Profile: aliceProfile()}}, ""},
		{
			[]string{"profile", "delete", "alice", "alcie", "bob"},
			4,
			[]any{deletedProfile{"alice", control.Deleted{Trash: trash}}, deletedProfile{"bob", control.Deleted{Left: []string{"/data/trash/bob"}}}},
			"rlminit: no profile or service \"alcie\"; did you mean \"alice\"?\n",
		},
		{[]string{"profile", "purge", "bob"}, 0, []any{purgedEntry{binned, control.Purged{Left: []string{"/data/profiles/.x"}}}}, ""},
		{[]string{"profile", "purge", "bob", "--dry-run"}, 0, []any{purgedEntry{Trashed: binned}}, ""},
		{[]string{"signal", "HUP", "web", "alice"}, 3, []any{alice()}, "rlminit: web is not running\n"},
		{[]string{"wait", "alice"}, 0, []any{alice()}, ""},
		{[]string{"wait", "slow"}, 7, nil, "rlminit: slow: still starting after 1s; see rlminit status slow\n"},
		{[]string{"wait", "--operation", "12"}, 0, []any{done}, ""},
		{[]string{"wait", "--operation", "13"}, 8, []any{gated}, "rlminit: stopped at alice: it is failed\n"},
		{[]string{"cancel", "12"}, 0, []any{done}, ""},
		{[]string{"cancel", "13"}, 17, nil, "rlminit: operation 13 is over: failed\n"},
		{[]string{"reload", "--wait"}, 8, []any{control.Reloaded{Changes: []control.Change{}, Notes: []string{}, Operation: 13}}, "rlminit: stopped at alice: it is failed\n"},
		{[]string{"job", "cancel", "7", "8"}, 4, []any{job}, "rlminit: no profile or service \"cancel\"\n"},
		{[]string{"job", "undo", "7"}, 0, []any{job}, ""},
		{[]string{"file", "write", "a"}, 0, []any{job}, ""},
		{[]string{"session", "extend", "3"}, 0, []any{session}, ""},
		{[]string{"session", "end", "3"}, 0, []any{session}, ""},
		{[]string{"rollback"}, 8, []any{undone}, "rlminit: revision 4 was rolled back, and all is as it was before: web died\n"},
	} {
		want := ""
		for _, v := range c.want {
			text, err := json.MarshalIndent(v, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			want += string(text) + "\n"
		}
		if r := b.rlminit(t, append(c.args, "--json")...); r.out != want || r.err != c.err || r.code != c.code {
			t.Errorf("%q: exit %d\n%s%swant %d\n%s%s", c.args, r.code, r.out, r.err, c.code, want, c.err)
		}
	}
	b = newBox(t, map[string]any{"POST /v1/rollback": unchanged})
	if r := b.rlminit(t, "rollback", "--json"); r.code != 0 || !json.Valid([]byte(r.out)) || strings.Contains(r.out, `"at"`) || r.err != "" {
		t.Errorf("%d %q %q", r.code, r.out, r.err)
	}
}

// A time that runs out is the client's to keep where an operation is followed.
func TestOperationThatTakesTooLong(t *testing.T) {
	running := control.Operation{ID: 12, State: "running"}
	b := newBox(t, map[string]any{
		"POST /v1/operations": running,
		"GET /v1/operations/12": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("wait") {
				<-r.Context().Done()
			}
			json.NewEncoder(w).Encode(running)
		},
	})
	late := regexp.MustCompile(`^rlminit: operation 12: still running after \d+(ms|s); see rlminit operations 12\n$`)
	for _, args := range [][]string{{"restart", "--all", "--rolling"}, {"wait", "--operation", "12"}} {
		for _, form := range [][]string{nil, {"--json"}} {
			r := b.rlminit(t, slices.Concat(args, []string{"--timeout", "900ms"}, form)...)
			if r.code != 7 || r.out != "" || !late.MatchString(r.err) {
				t.Errorf("%q %q: %+v", args, form, r)
			}
		}
	}
}

func TestStartStopRestart(t *testing.T) {
	stopped := alice()
	stopped.State, stopped.PID = "stopped", nil
	failed := outcome(bob(), true)
	failed[0].Problem = control.Failed(`bob failed: 8 starts in 26s, last exit 1, "KeyError: TOKEN"; see rlminit logs bob, then rlminit start bob`)
	slow := outcome(alice(), true)
	slow[0].Problem = control.TimedOut("slow", "starting", 2*time.Second, "status slow")
	tell(t, map[string]any{
		"POST /v1/services/alice/start":   outcome(alice(), true),
		"POST /v1/services/up/start":      outcome(alice(), false),
		"POST /v1/services/bob/start":     failed,
		"POST /v1/services/slow/start":    slow,
		"POST /v1/operations":             control.Operation{ID: 12, State: "running"},
		"POST /v1/services/seed/start":    outcome(seed(), true),
		"POST /v1/services/alice/stop":    outcome(stopped, true),
		"POST /v1/services/down/stop":     outcome(stopped, false),
		"POST /v1/services/alice/restart": outcome(alice(), true),
		"POST /v1/services/all/start":     append(outcome(alice(), false), failed...),
		"POST /v1/services/all/stop":      []control.Outcome{},
		"POST /v1/services/main/restart":  control.Conflict("main is not supervised"),
	}, []story{
		{
			args: []string{"start", "alice"}, out: "alice: running (pid 42, 0.0s)\n",
			asks: []string{`POST /v1/services/alice/start {"wait":{}}`},
		},
		{args: []string{"start", "up"}, out: "up: already running (pid 42)\n"},
		{
			args: []string{"start", "bob"}, code: 1,
			err: `rlminit: bob failed: 8 starts in 26s, last exit 1, "KeyError: TOKEN"; see rlminit logs bob, then rlminit start bob` + "\n",
		},
		{
			args: []string{"start", "--timeout", "2s", "slow"}, code: 7,
			err:  "rlminit: slow: still starting after 2s; see rlminit status slow\n",
			asks: []string{`POST /v1/services/slow/start {"wait":{"timeout_ms":2000}}`},
		},
		{
			args: []string{"start", "--no-wait", "soon"}, out: "12\n",
			asks: []string{`POST /v1/operations {"verb":"start","names":["soon"]}`},
		},
		{args: []string{"start", "seed"}, out: "seed: exited (exit 0, 0.0s)\n"},
		{
			args: []string{"start", "--all"}, code: 1, out: "alice: already running (pid 42)\n",
			err:  `rlminit: bob failed: 8 starts in 26s, last exit 1, "KeyError: TOKEN"; see rlminit logs bob, then rlminit start bob` + "\n",
			asks: []string{`POST /v1/services/all/start {"wait":{}}`},
		},
		{
			args: []string{"start", "--failed"}, code: 1, out: "alice: already running (pid 42)\n",
			err:  `rlminit: bob failed: 8 starts in 26s, last exit 1, "KeyError: TOKEN"; see rlminit logs bob, then rlminit start bob` + "\n",
			asks: []string{`POST /v1/services/all/start {"wait":{},"failed":true}`},
		},
		{args: []string{"stop", "alice"}, out: "alice: stopped (0.0s)\n"},
		{args: []string{"stop", "down"}, out: "down: already stopped\n"},
		{
			args: []string{"stop", "--runtime", "alice"}, out: "alice: stopped (0.0s)\n",
			asks: []string{`POST /v1/services/alice/stop {"wait":{},"runtime":true}`},
		},
		{
			name: "a name in both forms", args: []string{"stop", "alice", "gateway-alice"}, out: "alice: stopped (0.0s)\n",
			asks: []string{`POST /v1/services/alice/stop {"wait":{}}`},
		},
		{
			name: "a time so short that it could be taken for no limit", args: []string{"stop", "alice", "--timeout", "1us"}, out: "alice: stopped (0.0s)\n",
			asks: []string{`POST /v1/services/alice/stop {"wait":{"timeout_ms":1}}`},
		},
		{args: []string{"stop", "--all"}, out: "nothing to stop\n"},
		{args: []string{"start", "all"}, code: 4, err: "rlminit: no profile or service \"all\"; did you mean --all?\n", asks: []string{}},
		{args: []string{"restart", "all"}, code: 4, err: "rlminit: no profile or service \"all\"; did you mean --all?\n", asks: []string{}},
		{
			args: []string{"stop", "alice", "all"}, code: 4, out: "alice: stopped (0.0s)\n",
			err: "rlminit: no profile or service \"all\"; did you mean --all?\n", asks: []string{`POST /v1/services/alice/stop {"wait":{}}`},
		},
		{args: []string{"restart", "alice"}, out: "alice: running (pid 42, 0.0s)\n"},
		{args: []string{"restart", "main"}, code: 17, err: "rlminit: main is not supervised\n"},
		{args: []string{"start"}, code: 2, err: "rlminit: NAME or --all is missing; see rlminit help start\n", asks: []string{}},
		{args: []string{"stop", "--all", "x"}, code: 2, err: "rlminit: --all cannot be combined with names such as \"x\"; see rlminit help stop\n"},
		{args: []string{"start", "--failed", "x"}, code: 2, err: "rlminit: --failed cannot be combined with names such as \"x\"; see rlminit help start\n"},
		{
			name: "a name with a dash", args: []string{"start", "--", "-x"}, code: 4,
			err: "rlminit: no profile or service \"start\"\n", asks: []string{`POST /v1/services/-x/start {"wait":{}}`},
		},
	})
}

// Several names are one set, in one request, and the highest exit code counts.
func TestSeveralAreOneSet(t *testing.T) {
	failed := outcome(bob(), true)
	failed[0].Problem = control.Failed("bob failed: exit 1")
	nobody := []control.Outcome{{Service: control.Service{Name: "nobody"}, Problem: control.NoSuchName("nobody", nil)}}
	along := outcome(alice(), true)
	along[0].Along = []string{"web", "app"}
	tell(t, map[string]any{
		"POST /v1/services/all/start":   slices.Concat(outcome(alice(), true), failed, nobody),
		"POST /v1/services/all/stop":    outcome(alice(), false),
		"POST /v1/services/all/restart": along,
	}, []story{
		{
			args: []string{"start", "alice", "bob", "nobody", "alice"}, code: 4,
			out:  "alice: running (pid 42, 0.0s)\n",
			err:  "rlminit: bob failed: exit 1\nrlminit: no profile or service \"nobody\"\n",
			asks: []string{`POST /v1/services/all/start {"wait":{},"names":["alice","bob","nobody"]}`},
		},
		{
			args: []string{"stop", "--state", "failed"}, out: "alice: already running (pid 42)\n",
			asks: []string{`POST /v1/services/all/stop {"wait":{},"state":"failed"}`},
		},
		{
			args: []string{"restart", "gateway-*"}, out: "alice: running (pid 42, 0.0s); restarted along with it: web, app\n",
			asks: []string{`POST /v1/services/all/restart {"wait":{},"names":["gateway-*"]}`},
		},
	})
}

// A rolling restart is followed to its end, with a line for each member, and one
// that stopped at its gate ends with 8.
func TestOperations(t *testing.T) {
	member := func(state, reason string) []control.OperationMember {
		return []control.OperationMember{{Name: "alice", State: state, Reason: reason, PID: 43, OldPID: 42}}
	}
	done := control.Operation{ID: 7, Verb: "restart", State: "done", Members: member("done", "")}
	gated := control.Operation{ID: 8, Verb: "restart", State: "failed", Reason: "stopped at alice: it is failed; new: alice; old: bob", Members: member("failed", "it is failed")}
	tell(t, map[string]any{
		"POST /v1/operations":          control.Operation{ID: 7, Verb: "restart", State: "running"},
		"GET /v1/operations/7":         done,
		"GET /v1/operations/8":         gated,
		"GET /v1/operations/9":         control.Operation{ID: 9, State: "superseded", Reason: "by operation 10"},
		"GET /v1/operations":           []control.Operation{done},
		"POST /v1/operations/7/cancel": control.Conflict("operation 7 is over: done"),
	}, []story{
		{
			args: []string{"restart", "--all", "--rolling=4", "--steady", "1s"}, out: "alice: done (pid 43, was 42)\n",
			asks: []string{"GET /v1/operations/7?wait=true", `POST /v1/operations {"verb":"restart","rolling":4,"steady_ms":1000}`},
		},
		{
			args: []string{"restart", "--all", "--rolling", "4"}, code: 2, asks: []string{},
			err: "rlminit: --all cannot be combined with names such as \"4\"; see rlminit help restart; if it is how many at a time, write --rolling=4\n",
		},
		{args: []string{"restart", "alice", "--steady", "1s"}, code: 2, err: "rlminit: --steady needs --rolling; see rlminit help restart\n", asks: []string{}},
		{
			args: []string{"wait", "--operation", "8"}, code: 8, out: "alice: failed (pid 43, was 42): it is failed\n",
			err: "rlminit: stopped at alice: it is failed; new: alice; old: bob\n",
		},
		{args: []string{"wait", "--operation", "9"}, code: 17, err: "rlminit: operation 9 is superseded: by operation 10\n"},
		{args: []string{"wait", "--operation", "9", "x"}, code: 2, err: "rlminit: --operation cannot be combined with names such as \"x\"; see rlminit help wait\n"},
		{args: []string{"wait", "--operation", "x"}, code: 2, err: "rlminit: \"x\" is no id of an operation; write its number; see rlminit help wait\n", asks: []string{}},
		{args: []string{"wait", "--operation", "9", "--for", "running"}, code: 2, err: "rlminit: --for goes with NAME, not with --operation; see rlminit help wait\n", asks: []string{}},
		{args: []string{"cancel", "7"}, code: 17, err: "rlminit: operation 7 is over: done\n"},
		{args: []string{"cancel", "x"}, code: 2, err: "rlminit: \"x\" is no id of an operation; write its number; see rlminit help cancel\n", asks: []string{}},
		{args: []string{"operations"}, out: "7 restart: done, 1 of 1 done: alice (uid 0, 0001-01-01T00:00:00Z)\n"},
	})
}

func TestNobodyAnswersIsSaidOnce(t *testing.T) {
	r := (&box{dir: t.TempDir()}).rlminit(t, "stop", "alice", "bob", "carol")
	if r.code != 6 || r.out != "" || len(r.err) == 0 || countLines(r.err) != 1 {
		t.Errorf("exit %d, stdout %q, stderr %q; want 6 and one line", r.code, r.out, r.err)
	}
}

func countLines(s string) (n int) {
	for _, c := range s {
		if c == '\n' {
			n++
		}
	}
	return n
}

func TestSignal(t *testing.T) {
	tell(t, map[string]any{
		"POST /v1/services/alice/signal": nil,
		"POST /v1/services/web/signal":   control.NotRunning("web"),
		"POST /v1/services/bad/signal":   control.BadRequest(`no signal "FOO"; write HUP, SIGHUP or 1`),
	}, []story{
		{args: []string{"signal", "HUP", "alice"}, asks: []string{`POST /v1/services/alice/signal?show=true {"signal":"HUP"}`}},
		{args: []string{"signal", "HUP", "web", "alice"}, code: 3, err: "rlminit: web is not running\n"},
		{args: []string{"signal", "FOO", "bad"}, code: 2, err: "rlminit: no signal \"FOO\"; write HUP, SIGHUP or 1\n"},
		{args: []string{"signal"}, code: 2, err: "rlminit: SIG is missing; see rlminit help signal\n"},
		{args: []string{"signal", "HUP"}, code: 2, err: "rlminit: NAME is missing; see rlminit help signal\n"},
	})
}

func TestWait(t *testing.T) {
	tell(t, map[string]any{
		"POST /v1/services/alice/wait": alice(),
		"POST /v1/services/slow/wait":  control.TimedOut("slow", "starting", time.Second, "status slow"),
	}, []story{
		{
			args: []string{"wait", "alice", "--for", "running"}, out: "alice: running (pid 42)\n",
			asks: []string{`POST /v1/services/alice/wait {"for":"running"}`},
		},
		{args: []string{"wait", "slow", "--for", "stopped", "--timeout", "1s"}, code: 7, err: "rlminit: slow: still starting after 1s; see rlminit status slow\n"},
		{args: []string{"wait", "alice", "--for", "ever"}, code: 2, err: "rlminit: --for takes running or stopped, not \"ever\"; see rlminit help wait\n"},
		{args: []string{"wait"}, code: 2, err: "rlminit: NAME is missing; see rlminit help wait\n"},
		{args: []string{"wait", "a", "b"}, code: 2, err: "rlminit: unexpected argument \"b\"; see rlminit help wait\n"},
	})
}

func TestHealth(t *testing.T) {
	tell(t, map[string]any{"GET /v1/health": control.Health{OK: true}}, []story{
		{args: []string{"health"}, out: "alive\n", asks: []string{"GET /v1/health?level=alive"}},
		{args: []string{"health", "--level", "ready", "a", "b"}, out: "ready\n", asks: []string{"GET /v1/health?level=ready&name=a&name=b"}},
		{args: []string{"health", "--level", "x"}, code: 2, err: "rlminit: --level takes alive, well or ready, not \"x\"; see rlminit help health\n"},
	})
	tell(t, map[string]any{"GET /v1/health": control.Health{Reasons: []string{"bob: failed", "web: waits"}}}, []story{
		{args: []string{"health", "--level=ready"}, code: 1, err: "rlminit: bob: failed\nrlminit: web: waits\n"},
		{args: []string{"health", "--json"}, code: 1, out: "{\n  \"ok\": false,\n  \"reasons\": [\n    \"bob: failed\",\n    \"web: waits\"\n  ]\n}\n"},
	})
	// Docker knows 0 and 1 only.
	tell(t, map[string]any{"GET /v1/health": control.WrongUser(10000, 1000)}, []story{
		{name: "refused", args: []string{"health"}, code: 1, err: "rlminit: permission denied: you are uid 10000, services run as 1000; use docker exec without -u, or with -u 1000\n"},
	})
	if r := (&box{dir: t.TempDir()}).rlminit(t, "health"); r.code != 1 {
		t.Errorf("nobody there: exit code %d, want 1", r.code)
	}
}

func TestReload(t *testing.T) {
	tell(t, map[string]any{"POST /v1/reload": control.Reloaded{
		Changes: []control.Change{{Service: "alice", Action: "restart", Why: "environment changed"}, {Service: "web", Action: "add"}},
		Notes:   []string{"user: needs a new container"},
	}}, []story{
		{
			args: []string{"reload", "--dry-run"}, out: "alice: restart: environment changed\nweb: add\nnote: user: needs a new container\n",
			asks: []string{`POST /v1/reload {"dry_run":true}`},
		},
		{name: "one", args: []string{"reload", "alice"}, out: "alice: restart: environment changed\nweb: add\nnote: user: needs a new container\n", asks: []string{`POST /v1/reload {"names":["alice"]}`}},
	})
	refused := control.Reloaded{Changes: []control.Change{{Service: "bob", Action: "refuse", Why: "user: a profile may not set it"}}}
	tell(t, map[string]any{"POST /v1/reload": refused}, []story{
		{args: []string{"reload"}, code: 1, out: "bob: refuse: user: a profile may not set it\n"},
	})
	tell(t, map[string]any{"POST /v1/reload": control.Failed("a.yaml:1: one\na.yaml:2: two")}, []story{
		{name: "faults", args: []string{"reload"}, code: 1, err: "rlminit: a.yaml:1: one\nrlminit: a.yaml:2: two\n"},
	})
	tell(t, map[string]any{"POST /v1/reload": control.Reloaded{}}, []story{
		{args: []string{"reload"}, out: "nothing has changed\n", asks: []string{"GET /v1/services", `POST /v1/reload {}`}},
	})
	page := control.Service{Name: "page", State: "failed", Desired: "running"}
	web := control.Service{Name: "gateway-web", Profile: ptr("web"), State: "failed", Desired: "running"}
	off := control.Service{Name: "off", State: "failed", Desired: "stopped"}
	tell(t, map[string]any{"POST /v1/reload": control.Reloaded{}, "GET /v1/services": []control.Service{page, web, off}}, []story{
		{args: []string{"reload"}, out: "nothing has changed\n2 failed before, and are still so: web, page; rlminit start --failed\n"},
		{args: []string{"reload", "page"}, out: "nothing has changed\npage failed before, and is still so; rlminit start page\n"},
		{args: []string{"reload", "--json"}, out: "{\n  \"changes\": null,\n  \"notes\": null\n}\n"},
	})
}

func TestShutdown(t *testing.T) {
	tell(t, map[string]any{"POST /v1/shutdown": nil}, []story{
		{args: []string{"shutdown"}, asks: []string{"POST /v1/shutdown"}},
		{args: []string{"shutdown", "now"}, code: 2, err: "rlminit: unexpected argument \"now\"; see rlminit help shutdown\n"},
	})
}

// A verb that waits for an answer has a --timeout, in all, however many it asks for: with
// 7 it says that none came in time.
func TestTimeoutOfAnswers(t *testing.T) {
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	answers := map[string]any{
		"POST /v1/reload": silent, "POST /v1/files": silent, "POST /v1/files/read": silent, "POST /v1/jobs/1/undo": silent,
		"DELETE /v1/profiles/alice": silent, "DELETE /v1/profiles/bob": silent, "POST /v1/profiles/alice/repair": silent,
		"GET /v1/trash": silent, "GET /v1/profiles/alice/text": silent, "POST /v1/profiles/alice/adopt": silent,
	}
	for _, verb := range [][]string{
		{"reload"},
		{"reload", "--wait"},
		{"file", "read", "notes"},
		{"file", "write", "notes"},
		{"job", "undo", "1"},
		{"profile", "delete", "alice", "bob"},
		{"profile", "repair", "alice"},
		{"profile", "purge", "alice"},
		{"profile", "export", "alice", "-o", "-"},
	} {
		t.Run(strings.Join(verb, " "), func(t *testing.T) {
			t.Parallel()
			r := newBox(t, answers).rlminit(t, append(verb, "--timeout", "50ms")...)
			if r.code != control.ExitTimedOut || !strings.Contains(r.err, " in time") {
				t.Errorf("exit code %d, stderr %q", r.code, r.err)
			}
		})
	}
}

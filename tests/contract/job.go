package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
)

// ran is `rlminit run --json`: its result, and its exit code.
func ran(b *box.Box, args ...string) (control.JobResult, int) {
	b.Helper()
	r := b.Run(append([]string{"run", "--json"}, args...)...)
	var result control.JobResult
	if err := json.Unmarshal([]byte(r.Out), &result); err != nil {
		b.Fatalf("rlminit run %q: %v: %s", args, err, r)
	}
	return result, r.Code
}

// RunEnds: what a job's end looks like, in the exit code and in the result.
func RunEnds(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Must("profile", "create", "alice")
	for _, c := range []struct {
		args  []string
		code  int
		state string
		out   string
	}{
		{[]string{"--", "true"}, 0, "succeeded", ""},
		{[]string{"--", "bash", "-c", "echo out; echo err >&2; exit 7"}, 7, "failed", "out\n"},
		{[]string{"--", "bash", "-c", "kill -9 $$"}, 137, "failed", ""},
		{[]string{"--", "sh", "-c", "echo out >/dev/stdout && echo err >/dev/stderr"}, 0, "succeeded", "out\n"},
		{[]string{"--", "no-such-program"}, 127, "failed", ""},
		{[]string{"--", "/etc/passwd"}, 126, "failed", ""},
		{[]string{"--dir", "/nowhere", "--", "true"}, 125, "failed", ""},
		{[]string{"--profile", "alice", "--env", "X=a b", "--", "bash", "-c", `echo "$PROFILE $X"`}, 0, "succeeded", "alice a b\n"},
		{[]string{"--isolation", "strict", "--limit", "nonsense=1", "--", "true"}, 10, "refused", ""},
	} {
		got, code := ran(b, c.args...)
		if code != c.code || got.State != c.state || got.Stdout != c.out {
			t.Errorf("%q: exit code %d, %+v", c.args, code, got)
		}
	}
	if got, _ := ran(b, "--", "printf", `\377x`); string(got.StdoutBase64) != "\xffx" || got.Stdout != "" {
		t.Errorf("what is no text: %+v", got)
	}
	b.Fails(4, "bob", "run", "--profile", "bob", "--", "true")
	// Typed in the box: an engine's API hands on text alone.
	if r := b.As(box.Service, "bash", "-c", `rlminit run -- echo $'a\xff'`); r.Code != 2 || !strings.Contains(r.Err, "argument 2 is not UTF-8") {
		t.Errorf("an argument that is no text: %s", r)
	}
	b.Fails(2, "above 0", "run", "--timeout", "0", "--", "true")
	b.Fails(2, "--timeout", "run", "--timeout", "-1s", "--", "true")
	b.Fails(2, "service", "run", "--timeout", "9000h", "--", "true")
	if out := b.Must("run", "--dry-run", "--profile", "alice", "--", "ls"); !strings.Contains(out, "profiles/alice") {
		t.Errorf("dry-run: %s", out)
	}
	// Nothing of a job that is over is open, whoever left before the end of what it wrote.
	_, before := openFiles(b)
	b.Shell(box.Service, `for i in 1 2 3 4 5; do
	id=$(rlminit run --detach --max-output 1000 -- seq 100000) && rlminit job wait $id >/dev/null
	rlminit job logs $id | head -c 1 >/dev/null
done`)
	box.Eventually(b, long, "no file of a job is open", func() (bool, any) {
		_, after := openFiles(b)
		return after <= before, fmt.Sprintf("%d are open, and %d were", after, before)
	})
}

// ArgumentsAreMasked: a secret among the arguments of a job reaches the job, and nothing
// that is shown or recorded of it.
func ArgumentsAreMasked(t *testing.T, start New) {
	const secret = "hunter2-hunter2"
	b := start(t, box.Spec{Config: Config(`hooks: [{on: [running], command: [bash, -c, "exit 3", hook, --token, ` + secret + `]}]
services:
  tick: {command: [sleep, infinity]}
`)})
	got, code := ran(b, "--", "bash", "-c", "echo ${#2}; setsid sleep 1000 & exec true", "sh", "--token", secret)
	if code != 0 || got.Stdout != fmt.Sprintf("%d\n", len(secret)) {
		t.Errorf("exit code %d, %+v", code, got)
	}
	ran(b, "--", "bash", "-c", "(exec -a --password="+secret+" setsid sleep 1000) & true")
	detached := strings.TrimSpace(b.Must("run", "--detach", "--", "bash", "-c", "exec sleep 1000", "--api-key="+secret))
	b.Fails(2, "an argument is a secret", "run", "--retry", "--", "true", "--password="+secret)
	for _, args := range [][]string{
		{"job", "list"},
		{"job", "list", "--json"},
		{"job", "show", got.Job},
		{"job", "show", got.Job, "--json"},
		{"events", "--json"},
		{"events"},
		{"run", "--dry-run", "--json", "--", "true", "--token", secret},
		{"operations", "--json"},
		{"job", "show", detached},
	} {
		if r := b.Run(args...); strings.Contains(r.Out+r.Err, secret) {
			t.Errorf("%q: %s", args, r)
		}
	}
	if r := b.As(box.Root, "bash", "-c", "grep -r -l "+secret+" "+b.Home()+"/.rlminit "+b.Home()+"/logs"); r.Out != "" {
		t.Errorf("it is on the volume: %s", r)
	}
	if strings.Contains(b.Printed(), secret) {
		t.Errorf("it is printed: %s", b.Printed())
	}
	b.Must("job", "cancel", detached)
}

// ToolsGetWhatTheyExpect: a job's result has the number of its record, also when it is asked
// for later, a revision the file that has what it changed, and what rlminit does not have is
// answered with what to do instead.
func ToolsGetWhatTheyExpect(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	got, _ := ran(b, "--profile", "alice", "--", "true")
	var recorded control.Event
	lines := strings.Split(strings.TrimSpace(b.Must("events", "--json", "--type", "job_completed")), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &recorded); err != nil {
		t.Fatal(err)
	}
	if got.Record == nil || *got.Record != recorded.Seq {
		t.Errorf("the result says %+v, the journal %d", got, recorded.Seq)
	}
	var later control.Job
	if err := json.Unmarshal([]byte(b.Must("job", "show", got.Job, "--json")), &later); err != nil || later.Result == nil || later.Result.Record == nil || *later.Result.Record != recorded.Seq {
		t.Errorf("later it is %v, %+v", err, later)
	}
	b.Must("profile", "create", "bob")
	b.Must("profile", "set", "*", "COLOUR=green")
	if r := revisions(b); len(r) != 1 || r[0].StatePath == "" || !strings.Contains(b.Shell(box.Root, "cat "+r[0].StatePath), `"revision":1`) {
		t.Errorf("revisions: %+v", r)
	}
	if r := b.As(box.Service, "nasty", "requests", "/run/rlminit/control.sock", "-", "POST /v1/sessions/1/snapshot"); !strings.Contains(r.Out, "snapshot 409 ") {
		t.Errorf("a snapshot is answered with %s", r)
	}
	b.Fails(2, "rlminit is a part of the image", "uninstall")
}

// GuardsAreSettable: a threshold that the configuration names is in force, is told with
// its figure and its key, and a reload changes it.
func GuardsAreSettable(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config(`services:
  litter: {command: [bash, -c, "sleep 0.5 & exec sleep 1000"]}
jobs: {guards: {zombies: 0}}
`)})
	b.Await("litter", "running")
	box.Eventually(b, long, "a job is refused", func() (bool, any) {
		got, code := ran(b, "--profile", "litter", "--", "true")
		return code == 10 && got.State == "refused" && got.Refused != nil && strings.Contains(*got.Refused, "has 1 zombies whose parents do not collect them, more than 0; see ps -eo pid,ppid,stat,args, and jobs.guards"), got
	})
	b.Must("profile", "create", "alice")
	for _, of := range [][]string{{"--"}, {"--profile", "alice", "--"}} { // who have none
		if got, code := ran(b, append(of, "true")...); code != 0 {
			t.Errorf("%v: a job is refused for zombies of another: %+v", of, got)
		}
	}
	b.Must("run", "--detach", "--profile", "alice", "--", "bash", "-c", "sleep 0.1 & exec sleep 300")
	box.Eventually(b, long, "a zombie of another job of its own", func() (bool, any) {
		got, code := ran(b, "--profile", "alice", "--", "true")
		return code == 10, got
	})
	path := strings.TrimSpace(b.Shell(box.Root, `echo "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`))
	b.Write(box.Root, path, Config("jobs: {guards: {zombies: 5}}\n"))
	b.Must("reload", "--wait")
	if got, code := ran(b, "--profile", "alice", "--", "true"); code != 0 {
		t.Errorf("with the threshold raised: exit code %d, %+v", code, got)
	}
}

// NeighboursOfAHog: however many jobs of one profile run and wait, that of another is run at
// once.
func NeighboursOfAHog(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Must("profile", "create", "hog")
	b.Must("profile", "create", "bob")
	for range 20 {
		b.Must("run", "--detach", "--timeout", "1h", "--profile", "hog", "--", "sleep", "3000")
	}
	if got, code := ran(b, "--profile", "bob", "--", "true"); code != 0 {
		t.Errorf("bob's job: %d, %+v", code, got)
	}
	if got, code := ran(b, "--", "true"); code != 0 {
		t.Errorf("nobody's job: %d, %+v", code, got)
	}
	running := 0
	var list []control.Job
	if err := json.Unmarshal([]byte(b.Must("job", "list", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, j := range list {
		if j.State == "running" {
			running++
		}
	}
	if running != 8 { // at_once
		t.Errorf("%d of the hog's jobs run", running)
	}
}

// LimitsWithoutACgroup: whatever a place allows of limits, capabilities, doctor, check and
// show say the same, and a job's memory is limited in each.
func LimitsWithoutACgroup(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(`web: {limits: {memory: 256MiB}, command: [sleep, infinity]}`) + "jobs: {guards: {cpu_pressure: 1}}\n"})
	b.Await("web", "running")
	var can control.Capabilities
	if err := json.Unmarshal([]byte(b.Must("capabilities", "--json")), &can); err != nil {
		t.Fatal(err)
	}
	held := can.ServiceLimits["memory"].Enforced
	if out := b.Must("show", "web"); strings.Contains(out, "not in force") == held {
		t.Errorf("in force: %v, and show says %s", held, out)
	}
	config := strings.TrimSpace(b.Shell(box.Root, `echo "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`))
	check := b.As(box.Root, "rlminit", "check", config).Out
	for said, lacks := range map[string]bool{"limits of memory": !held, "jobs.guards.cpu_pressure is not in force": !can.Guards["cpu_pressure"].Enforced} {
		if strings.Contains(check, said) != lacks || strings.Contains(b.Printed(), said) != lacks {
			t.Errorf("%q: lacks %v; check says %s, the boot %s", said, lacks, check, b.Printed())
		}
	}
	for of, want := range map[string]string{"web": "262144\n", "": "524288\n"} {
		if held {
			want = "unlimited\n" // its cgroup has it
		}
		args := []string{"--", "bash", "-c", "ulimit -d"}
		if of != "" {
			args = append([]string{"--profile", of}, args...)
		}
		if got, code := ran(b, args...); code != 0 || got.Stdout != want {
			t.Errorf("a job of %q has %q, not %q", of, got.Stdout, want)
		}
	}
	if why := can.Limits["memory"].Why; !can.Limits["memory"].Enforced || (why == "") != held {
		t.Errorf("of jobs: %+v", can.Limits["memory"])
	}
}

// DeadlineEndsAll: whatever a job does to get away, at its deadline all of it ends,
// and what it has written is told.
func DeadlineEndsAll(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	before := len(b.Processes())
	got, code := ran(b, "--timeout", "500ms", "--", "bash", "-c", `
		trap "" TERM
		setsid env -i bash -c 'trap "" TERM; exec sleep 1000' &
		setsid env -i bash -c '(setsid bash -c "trap \"\" TERM; exec >&- 2>&- ; while :; do sleep 1; done" &)'
		echo written; while :; do sleep 1; done`)
	if code != 124 || got.State != "timed_out" || !got.TimedOut || got.Stdout != "written\n" {
		t.Errorf("exit code %d, %+v", code, got)
	}
	if got.ExecutionTimeMS < 500 {
		t.Errorf("it took %d ms", got.ExecutionTimeMS)
	}
	told := fmt.Sprint(got.LeftBehind)
	if len(got.LeftBehind) < 2 || got.Spawned <= len(got.LeftBehind) || strings.Contains(told, "{0 ") || !strings.Contains(told, "sleep 1000}") {
		t.Errorf("of what withstood its end is told: %s, of %d", told, got.Spawned)
	}
	if after := b.Processes(); len(after) != before {
		t.Errorf("%d processes became %v", before, after)
	}
}

// LeftBehindIsEnded: what a job leaves when it ends by itself is told and ended, and
// nobody waits for the pipe that it holds.
func LeftBehindIsEnded(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	before := len(b.Processes())
	got, code := ran(b, "--", "bash", "-c", "setsid sleep 1000 & echo done")
	if code != 0 || got.Stdout != "done\n" || len(got.LeftBehind) != 1 || got.LeftBehind[0].PID == 0 || got.LeftBehind[0].Command == "" || got.Spawned != 2 {
		t.Errorf("exit code %d, %+v", code, got)
	}
	if after := b.Processes(); len(after) != before {
		t.Errorf("%d processes became %v", before, after)
	}
}

// RunSurvivesItsSupervisor: the supervisor is killed again and again while a job
// writes; not a byte is lost or doubled, and it ends as it would have.
func RunSurvivesItsSupervisor(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Shell(box.Service, strings.ReplaceAll(`(code=0; rlminit run --timeout 60s -- bash -c \
		'for i in $(seq 3000); do echo $i; [ $((i % 15)) != 0 ] || sleep 0.01; done; exit 9' >HOME/out 2>HOME/err || code=$?; echo $code >HOME/code) >/dev/null 2>&1 &`, "HOME", b.Home()))
	box.Eventually(b, long, "the job writes", func() (bool, any) {
		r := b.As(box.Service, "bash", "-c", "wc -l <"+b.Home()+"/out")
		return strings.TrimSpace(r.Out) != "0", r
	})
	for range 3 {
		old := b.Supervisor().PID
		kill(b, "KILL", old)
		replaced(b, old)
	}
	box.Eventually(b, long, "the job is over", func() (bool, any) {
		r := b.As(box.Service, "cat", b.Home()+"/code")
		return r.Code == 0 && r.Out != "", r
	})
	code, out := b.Shell(box.Service, "cat "+b.Home()+"/code"), b.Shell(box.Service, "cat "+b.Home()+"/out")
	want := strings.Builder{}
	for i := range 3000 {
		fmt.Fprintln(&want, i+1)
	}
	if code != "9\n" || out != want.String() {
		t.Errorf("exit code %s, %d bytes of %d; %s", code, len(out), want.Len(), b.Shell(box.Service, "cat "+b.Home()+"/err"))
	}
}

// JobsAreCancelled: by name, and when their client is gone.
func JobsAreCancelled(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	before := len(b.Processes())
	id := strings.TrimSpace(b.Must("run", "--detach", "--timeout", "1h", "--", "bash", "-c", "setsid sleep 1000 & sleep 1000"))
	b.Must("job", "cancel", id)
	b.Fails(17, "is over", "job", "cancel", id)
	if r := b.Run("job", "wait", id); r.Code != 143 {
		t.Errorf("wait: %s", r)
	}
	b.Shell(box.Service, "rlminit run --timeout 1h -- sleep 1001 & sleep 0.5; kill -9 $!; wait || true")
	box.Eventually(b, long, "the job without a client is cancelled", func() (bool, any) {
		var jobs []control.Job
		json.Unmarshal([]byte(b.Must("job", "list", "--json")), &jobs)
		last := jobs[len(jobs)-1]
		return last.State == "cancelled" && strings.Contains(strings.Join(last.Command, " "), "1001"), last
	})
	if after := b.Processes(); len(after) != before {
		t.Errorf("%d processes became %v", before, after)
	}
}

// FilesAreWrittenAndUndone, beneath the profile's directory and nowhere else.
func FilesAreWrittenAndUndone(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Must("profile", "create", "alice")
	dir := b.Home() + "/profiles/alice"
	write := func(path, content string) string {
		return b.Shell(box.Service, fmt.Sprintf("printf %%s %q | rlminit file write --profile alice %q", content, path))
	}
	write("conf", "one")
	b.Shell(box.Service, "chmod 0604 "+dir+"/conf")
	two := strings.TrimSpace(write("conf", "two"))
	if got := b.Shell(box.Service, "cat "+dir+"/conf; stat -c %a "+dir+"/conf"); got != "two604\n" {
		t.Errorf("written: %q", got)
	}
	b.Must("job", "undo", two)
	b.Fails(1, "new/deep/note", "file", "write", "--profile", "alice", "new/deep/note")
	b.Must("file", "write", "--parents", "--profile", "alice", "new/deep/note")
	b.Fails(10, "..", "file", "write", "--parents", "--profile", "alice", "../beside/note")
	if got := b.Must("file", "read", "--profile", "alice", "new/deep/note"); got != "" {
		t.Errorf("below new directories: %q", got)
	}
	if got := b.Must("file", "read", "--profile", "alice", "conf"); got != "one" {
		t.Errorf("undone: %q", got)
	}
	b.Fails(17, "undone already", "job", "undo", two)
	three := strings.TrimSpace(write("conf", "three"))
	b.Shell(box.Service, "echo more >>"+dir+"/conf")
	b.Fails(10, "has changed", "job", "undo", three)
	fresh := strings.TrimSpace(write("fresh", "x"))
	b.Must("job", "undo", fresh)
	b.Shell(box.Service, "cd "+dir+"; [ ! -e fresh ]; ln -s /etc/passwd link; ln -s / root; mkfifo fifo; mkdir dir")
	for path, what := range map[string]string{
		"link": "is a link", "root/etc/passwd": "leads out", "fifo": "FIFO", "dir": "directory", "../x": "not below", "/etc/passwd": "absolute",
	} {
		r := b.As(box.Service, "bash", "-c", "echo x | rlminit file write --profile alice "+path)
		if r.Code != 10 || !strings.Contains(r.Err, what) {
			t.Errorf("write %s: %s", path, r)
		}
		b.Fails(10, what, "file", "read", "--profile", "alice", path)
	}
}

// UndoFollowsItsProfile: what was written can be undone when the profile has another name,
// or was deleted and restored; nothing of another profile with that name is touched.
func UndoFollowsItsProfile(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Must("profile", "create", "alice")
	write := func(profile, path, content string) string {
		return strings.TrimSpace(b.Shell(box.Service, fmt.Sprintf("printf %%s %q | rlminit file write --profile %s %q", content, profile, path)))
	}
	has := func(profile, path, want string) {
		t.Helper()
		if got := b.Must("file", "read", "--profile", profile, path); got != want {
			t.Errorf("%s of %s holds %q, not %q", path, profile, got, want)
		}
	}
	write("alice", "f", "one")
	two, made, third := write("alice", "f", "two"), write("alice", "new", "x"), write("alice", "later", "x")
	b.Must("profile", "rename", "alice", "bob")
	b.Must("profile", "clone", "bob", "alice")
	b.Must("job", "undo", two)
	has("bob", "f", "one")
	has("alice", "f", "two")
	if err := b.Signal(9); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Await("gateway-bob", "running")
	b.Must("job", "undo", made)
	has("alice", "new", "x")
	b.Shell(box.Service, "[ ! -e "+b.Home()+"/profiles/bob/new ]")
	b.Must("profile", "delete", "bob")
	b.Must("profile", "create", "bob")
	b.Fails(17, `profile "alice", into which job `+third+` has written, is bob-`, "job", "undo", third)
	b.Must("profile", "delete", "--purge", "bob")
	b.Must("profile", "restore", "bob", "--as", "carol")
	b.Must("job", "undo", third)
	b.Shell(box.Service, "[ ! -e "+b.Home()+"/profiles/carol/later ]")
	last := write("carol", "f", "last")
	b.Must("profile", "delete", "--purge", "carol")
	b.Fails(17, `profile "carol", into which job `+last+` has written, is no more`, "job", "undo", last)
}

// Sessions: many who ask for one get the same, and its end is the end of all in it.
func Sessions(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Must("profile", "create", "alice")
	out := b.Shell(box.Service, "for i in $(seq 8); do rlminit session ensure k --profile alice --jobs 3 & done; wait")
	id := strings.Fields(out)[0]
	if strings.Count(out, id+"\n") != 8 {
		t.Fatalf("ensure: %q", out)
	}
	dir := strings.TrimSpace(b.Must("run", "--session", id, "--", "bash", "-c", "touch x; pwd"))
	b.Must("run", "--session", id, "--detach", "--timeout", "1h", "--", "sleep", "1000")
	b.Must("run", "--session", id, "--", "test", "-e", "x")
	b.Fails(10, "budget", "run", "--session", id, "--", "true")
	for range 3 {
		b.Must("session", "extend", id)
	}
	b.Fails(10, "extended 3 times", "session", "extend", id)
	for _, line := range []string{"state      open", "key        k", "profile    alice", "directory  " + dir, "may be extended 0 times", "jobs       3 of 3"} {
		if shown := b.Must("session", "show", id); !strings.Contains(shown, line) {
			t.Errorf("no %q in\n%s", line, shown)
		}
	}
	if list := strings.Fields(b.Must("session", "list")); !slices.Contains(list, id) || !slices.Contains(list, dir) {
		t.Errorf("listed: %q", list)
	}
	b.Shell(box.Service, "ln -s "+b.Home()+" "+dir+"/home; touch "+b.Home()+"/stays")
	b.Must("session", "end", id)
	b.Shell(box.Service, "[ ! -e "+dir+" ] && [ -e "+b.Home()+"/stays ]")
	b.Fails(17, "over", "run", "--session", id, "--", "true")
	b.Fails(17, "over", "session", "end", id)
	b.Fails(4, "no session", "run", "--session", "99", "--", "true")
	b.Fails(4, "no session", "session", "show", "99")

	// A supervisor that is killed between the record of one and its directory.
	id2 := strings.TrimSpace(b.Must("session", "ensure", "half", "--profile", "alice"))
	b.Shell(box.Root, "rmdir "+strings.TrimSpace(b.Must("run", "--session", id2, "--", "pwd")))
	old := b.Supervisor()
	b.Shell(box.Root, fmt.Sprintf("kill -9 %d", old.PID))
	replaced(b, old.PID)
	if again := strings.TrimSpace(b.Must("session", "ensure", "half", "--profile", "alice")); again != id2 {
		t.Errorf("session %s became %s", id2, again)
	}
	b.Must("run", "--session", id2, "--", "touch", "x")
	if shown := b.Must("session", "show", id); !strings.Contains(shown, "state      ended") || !strings.Contains(shown, "ended      by rlminit session end") || strings.Contains(shown, "extended") {
		t.Errorf("ended, and shown as\n%s", shown)
	}
}

// SessionsNeedTheVolume: without a volume of this container's own no session is opened,
// which says why, and nothing of it is made anywhere. Jobs run all the same.
func SessionsNeedTheVolume(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config(), Env: []string{"RLMINIT_PROFILES=off"}})
	lies := func() string {
		return b.Shell(box.Root, "find "+b.Home()+" $(getent passwd 1000 | cut -d: -f6) | sort; ls -d /tmp/rlminit-session* || :")
	}
	before := lies()
	b.Fails(17, "profiles are off, by RLMINIT_PROFILES", "session", "create")
	b.Fails(17, "no session can be opened", "session", "ensure", "k")
	b.Fails(4, "no session", "run", "--session", "m1", "--", "true")
	b.Must("run", "--", "true")
	if list := strings.TrimSpace(b.Must("session", "list", "--json")); list != "[]" {
		t.Errorf("listed: %s", list)
	}
	if after := lies(); after != before {
		t.Errorf("there was\n%s\nand is\n%s", before, after)
	}
}

// Hooks: what happens to a service is told to a command, as one line of JSON;
// one that hangs is ended at its time.
func Hooks(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`web: {type: oneshot, enabled: false, restart: {policy: "no"}, `+bash(`exit 3`)+`}`,
	) + `hooks:
  - {on: [failed], services: [web], command: [cat], timeout: 5s}
  - {on: [failed], command: [sleep, "1000"], timeout: 300ms}
`})
	b.Run("start", "web")
	var told string
	box.Eventually(b, long, "both hooks are over", func() (bool, any) {
		var jobs []control.Job
		json.Unmarshal([]byte(b.Must("job", "list", "--json")), &jobs)
		states := map[string]string{}
		for _, j := range jobs {
			states[j.Kind+" "+j.State] = j.Job
		}
		told = states["hook succeeded"]
		return told != "" && states["hook timed_out"] != "", jobs
	})
	// Nobody waits for a hook, so that it failed is said, counted and found.
	for where, text := range map[string][2]string{
		"docker logs": {b.Printed(), "the job of a hook failed"},
		"its reason":  {b.Printed(), "it had not ended by its deadline"},
		"metrics":     {b.Must("metrics"), `rlminit_jobs_total{kind="hook",state="timed_out"} 1`},
		"doctor":      {b.Run("doctor").Out, "the latest job of hook sleep 1000 has failed: it had not ended by its deadline"},
	} {
		if !strings.Contains(text[0], text[1]) {
			t.Errorf("%s does not say %q:\n%s", where, text[1], text[0])
		}
	}
	line := b.Must("job", "logs", told)
	var e control.Event
	if err := json.Unmarshal([]byte(line), &e); err != nil || strings.Count(line, "\n") != 1 || e.Service != "web" || e.To != "failed" {
		t.Errorf("the hook was told %q", line)
	}
	if all := b.Must("events", "--json", "--type", "transition", "web"); !strings.Contains("\n"+all, "\n"+line) {
		t.Errorf("the hook was told %q, and events has\n%s", line, all)
	}
}

// HooksOnHealth: what the health probe of a service comes to say is told to hooks, once
// each time that it changes, and is among the events; also where the service is stopped
// for it.
func HooksOnHealth(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`web: {`+bash(`exec sleep infinity`)+`, health: {exec: [test, "!", -e, "${RLMINIT_HOME}/ill"], interval: 50ms, timeout: 10s, retries: 2, action: none}}`,
		`api: {`+bash(`exec sleep infinity`)+`, health: {exec: [test, "!", -e, "${RLMINIT_HOME}/sick"], interval: 50ms, timeout: 10s, retries: 1}}`,
	) + `hooks:
  - {on: [unhealthy, healthy], services: [web], command: [sh, -c, "cat >>$RLMINIT_HOME/told"]}
  - {on: [unhealthy], services: [api], command: [sh, -c, "cat >>$RLMINIT_HOME/api; rm -f $RLMINIT_HOME/sick"]}
`})
	told := func(file string) (all []control.Event, text string) {
		text = b.Shell(box.Service, `cat "`+b.Home()+`/`+file+`" 2>/dev/null || true`)
		for line := range strings.Lines(text) {
			var e control.Event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("a hook was told %q: %v", line, err)
			}
			all = append(all, e)
		}
		return all, text
	}
	awaitTold := func(want ...string) {
		t.Helper()
		box.Eventually(b, long, "web's hook is told "+strings.Join(want, ", "), func() (bool, any) {
			all, text := told("told")
			got := []string{}
			for _, e := range all {
				got = append(got, e.To)
			}
			return slices.Equal(got, want), text
		})
	}
	awaitTold("healthy")
	b.Shell(box.Service, `touch "`+b.Home()+`/sick"`)
	box.Eventually(b, long, "api was stopped for it, and its hook told", func() (bool, any) {
		all, text := told("api")
		return len(all) > 0 && all[0].To == "unhealthy" && strings.HasPrefix(all[0].Cause, "unhealthy: "), text
	})
	b.Shell(box.Service, `touch "`+b.Home()+`/ill"`)
	awaitTold("healthy", "unhealthy")
	b.Shell(box.Service, `rm "`+b.Home()+`/ill"`)
	awaitTold("healthy", "unhealthy", "healthy")
	_, lines := told("told")
	events := b.Must("events", "--json", "--type", "transition", "web")
	for line := range strings.Lines(lines) {
		if !strings.Contains("\n"+events, "\n"+line) {
			t.Errorf("the hook was told %q, and events has\n%s", line, events)
		}
	}
}

func listed(b *box.Box) (jobs []control.Job) {
	b.Helper()
	if err := json.Unmarshal([]byte(b.Must("job", "list", "--json")), &jobs); err != nil {
		b.Fatal(err)
	}
	return jobs
}

// JobsAreBounded: limits are the profile's and lower ones; what cannot be enforced
// is refused, or said; and what is refused is recorded.
func JobsAreBounded(t *testing.T, start New) {
	b := start(t, box.Spec{Config: strings.Replace(Config("jobs: {at_once: 1, queue: 1}\n"), "gateway:\n", "gateway:\n  limits: {nofile: 99}\n", 1)})
	b.Must("profile", "create", "alice")
	for _, c := range []struct {
		args []string
		code int
		out  string
		why  string
	}{
		{[]string{"--profile", "alice", "--", "bash", "-c", "ulimit -n"}, 0, "99\n", ""},
		{[]string{"--profile", "alice", "--limit", "nofile=42", "--", "bash", "-c", "ulimit -n"}, 0, "42\n", ""},
		{[]string{"--profile", "alice", "--limit", "nofile=100", "--", "true"}, 10, "", "above what is allowed"},
		{[]string{"--limit", "memory=64MiB", "--", "bash", "-c", "ulimit -d"}, 0, "65536\n", ""},
		{[]string{"--limit", "memory=64MiB", "--", "bash", "-c", `x=$(printf %200000000s); echo fits`}, 2, "", ""},
		{[]string{"--limit", "memory=9000TiB", "--", "true"}, 10, "", "above what is allowed"},
		{[]string{"--limit", "pids=5", "--", "true"}, 10, "", "--isolation-fallback"},
		{[]string{"--limit", "pids=5", "--isolation-fallback", "--", "echo", "less"}, 0, "less\n", ""},
		{[]string{"--limit", "nonsense=5", "--", "true"}, 10, "", `no such limit as "nonsense"`},
	} {
		got, code := ran(b, c.args...)
		if code != c.code || got.Stdout != c.out || c.why != "" && (got.Refused == nil || !strings.Contains(*got.Refused, c.why)) {
			t.Errorf("%.100q: exit code %d, %+v", c.args, code, got)
		}
		if c.code != 10 {
			continue
		}
		var job control.Job
		if err := json.Unmarshal([]byte(b.Must("job", "show", got.Job, "--json")), &job); err != nil || job.State != "refused" || job.Result.Refused == nil || *job.Result.Refused != *got.Refused {
			t.Errorf("%q is recorded as %+v", c.args, job)
		}
	}
	if got, _ := ran(b, "--limit", "pids=5", "--isolation-fallback", "--", "true"); len(got.Tried) != 1 || got.Tried[0].Limit != "pids" {
		t.Errorf("tried: %+v", got.Tried)
	}
	if r := b.Run("run", "--limit", "memory=64MiB", "--", "true"); !strings.Contains(r.Err, "limit memory: it holds for each process by itself") {
		t.Errorf("not said: %s", r)
	}
	b.Fails(2, "write memory=512MiB", "run", "--limit", "memory=much", "--", "true")
	b.Must("run", "--detach", "--timeout", "1h", "--", "sleep", "1000")
	b.Must("run", "--detach", "--timeout", "1h", "--", "sleep", "1000")
	before := len(listed(b))
	b.Fails(10, "1 jobs wait already", "run", "--", "true")
	if now := listed(b); len(now) != before+1 || now[before].State != "refused" {
		t.Errorf("what the queue refuses is recorded as %+v", now[before:])
	}
	for _, j := range listed(b) {
		if j.State != "refused" && j.Ended == nil {
			b.Must("job", "cancel", j.Job)
		}
	}
	out := b.Shell(box.Service, "for i in $(seq 12); do rlminit run --detach -- sleep 1000 2>&1 >/dev/null & done; wait")
	if n := strings.Count(out, " jobs wait already"); n != 10 {
		t.Errorf("of 12 at once %d were refused: %s", n, out)
	}
}

// StdinThatMayBeSilent: what a job reads of a file system that might never answer comes
// to it through a pipe, and PID 1 holds no file of there.
func StdinThatMayBeSilent(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	want := b.Shell(box.Root, "cat /proc/version")
	for _, from := range []string{"--stdin /proc/version", "--stdin - </proc/version"} {
		what, redirection, _ := strings.Cut(from, " <")
		line := "rlminit run " + what + " -- bash -c 'readlink /proc/self/fd/0; cat'"
		if redirection != "" {
			line += " <" + redirection
		}
		if out := b.Shell(box.Root, line); !strings.HasPrefix(out, "pipe:") || !strings.HasSuffix(out, want) {
			t.Errorf("%s: %q", line, out)
		}
	}
	if b.As(box.Root, "unshare", "-m", "true").Code != 0 {
		return // no client has mounts of its own here
	}
	line := "unshare -m bash -c 'mount -t tmpfs none /mnt && echo of its own >/mnt/file && rlminit run --stdin /mnt/file -- cat'"
	if out := b.Shell(box.Root, line); out != "of its own\n" {
		t.Errorf("%s: %q", line, out)
	}
}

// JobsInCrowds: many at once, of jobs, of writers of a file, and of bytes on stdin;
// and clients that are killed at any moment.
func JobsInCrowds(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config("jobs: {at_once: 8, per_profile: 8, queue: 1024}\n")})
	b.Must("profile", "create", "alice")
	before := len(b.Processes())
	if out := b.Shell(box.Service, "nasty jobs 1000"); out != "map[succeeded:1000] under 1000 numbers, 8 at once\n" {
		t.Errorf("1000 jobs: %s", out)
	}
	b.Shell(box.Service, "nasty writers alice shared")
	if out := b.Shell(box.Service, "cd "+b.Home()+"/profiles/alice; ls; wc -c <shared; fold -w 1 shared | sort -u | wc -l"); out != "gateway_state.json\nprofile.yaml\nshared\n100000\n1\n" {
		t.Errorf("100 writers leave %s", out)
	}
	b.Shell(box.Service, "truncate -s 1G "+b.Home()+"/gigabyte")
	for _, script := range []string{
		"rlminit run --stdin gigabyte -- wc -c", "cat gigabyte | rlminit run --stdin - -- wc -c", "cat gigabyte | rlminit run --stdin - -- bash -c 'exec <&-; echo 1073741824'",
	} {
		if out := b.Shell(box.Service, "cd "+b.Home()+"; "+script); out != "1073741824\n" {
			t.Errorf("%s: %s", script, out)
		}
	}
	b.Shell(box.Service, `for i in $(seq 20); do rlminit run --timeout 1h -- sleep 1000 & sleep 0.00$((i % 10))$i; kill -9 $!; done; wait || true`)
	box.Eventually(b, long, "jobs whose client was killed are over, and nothing is left of them", func() (bool, any) {
		over := true
		for _, j := range listed(b) {
			over = over && (j.State == "succeeded" || j.State == "cancelled")
		}
		return over && len(b.Processes()) == before, b.Processes()
	})
}

// ProfileGoesWithItsJobs: to delete a profile ends its jobs and sessions; to rename
// one does not, and is refused as long as there are any.
func ProfileGoesWithItsJobs(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Must("profile", "create", "alice")
	before := len(b.Processes())
	session := strings.TrimSpace(b.Must("session", "create", "--profile", "alice"))
	dir := strings.TrimSpace(b.Must("run", "--session", session, "--", "pwd"))
	id := strings.TrimSpace(b.Must("run", "--profile", "gateway-alice", "--detach", "--timeout", "1h", "--", "bash", "-c", "setsid sleep 1000 & sleep 1000"))
	b.Fails(17, "job "+id+" and session "+session, "profile", "rename", "alice", "bob")
	b.Must("profile", "delete", "alice")
	if r := b.Run("job", "wait", id); r.Code != 143 || !strings.Contains(r.Err, "its profile was deleted") {
		t.Errorf("the job of a deleted profile: %s", r)
	}
	if out := b.Must("session", "list", "--json"); !strings.Contains(out, `"cause": "its profile was deleted"`) {
		t.Errorf("the session of a deleted profile: %s", out)
	}
	b.Shell(box.Service, "[ ! -e "+dir+" ]")
	if after := b.Processes(); len(after) >= before {
		t.Errorf("%d processes became %v", before, after)
	}
	b.Fails(4, "alice", "run", "--profile", "alice", "--", "true")
	b.Must("profile", "create", "alice")
	b.Must("run", "--profile", "alice", "--", "true")
	b.Must("profile", "rename", "alice", "bob")
	b.Must("run", "--profile", "bob", "--", "true")
}

// JobsAreRetried: the container is killed, or stopped, while jobs run. One with --retry
// is run again, each time; another is interrupted.
func JobsAreRetried(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Must("profile", "create", "alice")
	ran := b.Home() + "/profiles/alice/ran"
	again := strings.TrimSpace(b.Must("run", "--profile", "alice", "--detach", "--retry", "--timeout", "1h", "--env", "WORD=again", "--", "bash", "-c",
		`echo $WORD >>ran; [ $(wc -l <ran) = 3 ] || exec sleep 1000; sleep 2; echo whole`))
	once := strings.TrimSpace(b.Must("run", "--profile", "alice", "--detach", "--timeout", "1h", "--", "bash", "-c", "echo once >>once; exec sleep 1000"))
	box.Eventually(b, long, "both run", func() (bool, any) {
		r := b.As(box.Service, "bash", "-c", "cat "+ran+" "+b.Home()+"/profiles/alice/once")
		return r.Out == "again\nonce\n", r
	})
	for i, signal := range []int{15, 9} {
		if err := b.Signal(signal); err != nil {
			t.Fatal(err)
		}
		b.Again()
		box.Eventually(b, long, "the job runs again", func() (bool, any) {
			r := b.As(box.Service, "cat", ran)
			return strings.Count(r.Out, "again") == i+2, r
		})
	}
	old := b.Supervisor().PID
	kill(b, "KILL", old)
	replaced(b, old)
	if r := b.Run("job", "wait", again); r.Code != 0 {
		t.Errorf("with --retry: %s", r)
	}
	if out := b.Must("job", "logs", again); out != "whole\n" { // whoever held it meanwhile
		t.Errorf("it wrote %q", out)
	}
	if r := b.Run("job", "wait", once); r.Code != 128+15 || !strings.Contains(r.Err, "interrupted") {
		t.Errorf("without: %s", r)
	}
	if out := b.Shell(box.Service, "cat "+ran+" "+b.Home()+"/profiles/alice/once"); out != "again\nagain\nagain\nonce\n" {
		t.Errorf("what ran is %q", out)
	}
	b.Fails(2, "retry goes with no stdin", "run", "--retry", "--stdin", "/etc/passwd", "--", "true")
	b.Fails(2, "API_TOKEN is a secret", "run", "--retry", "--env", "API_TOKEN=x", "--", "true")
}

// Schedules: what recurs is run at its time as a job: a service's, and a profile's
// with its environment and in its directory. A stop ends what runs of it; a start runs
// it once, and no boot does.
func Schedules(t *testing.T, start New) {
	b := start(t, box.Spec{Config: strings.Replace(Services(
		`tick: {type: oneshot, schedule: {cron: "* * * * *"}, `+bash(`echo tick`)+`}`,
		`long: {type: oneshot, schedule: {cron: "* * * * *"}, command: [sleep, "86400"]}`,
		`never: {type: oneshot, schedule: {cron: "0 0 29 2 *"}, `+bash(`echo never`)+`}`,
	), "  command: [gateway, --profile, \"${PROFILE}\", --port, \"${PORT}\"]\n  ready: {notify: true, timeout: 20s}\n",
		"  type: oneshot\n  schedule: {cron: \"* * * * *\"}\n  command: [bash, -c, \"echo $PROFILE $COLOUR $PWD\"]\n", 1)})
	b.Must("profile", "create", "carol", "--env", "COLOUR=blue")
	b.Must("profile", "rename", "carol", "alice")
	if told := b.Must("events", "--type", "transition", "-n", "all"); strings.Contains(told, "starting: ") {
		t.Errorf("out of its time:\n%s", told)
	}
	var found map[string]string
	box.Eventually(b, 80*time.Second, "both have run", func() (bool, any) {
		found = map[string]string{}
		for _, j := range listed(b) {
			if j.Kind != "schedule" || j.State != "succeeded" {
				continue
			}
			if j.Service != nil && j.Profile == nil {
				found["service "+*j.Service] = j.Job
			} else {
				found[*j.Profile] = j.Job
			}
		}
		return found["service tick"] != "" && found["alice"] != "", listed(b)
	})
	if out := b.Must("job", "logs", found["service tick"]); out != "tick\n" {
		t.Errorf("the service has printed %q", out)
	}
	if out := b.Must("job", "logs", found["alice"]); out != "alice blue "+b.Home()+"/profiles/alice\n" {
		t.Errorf("the profile has printed %q", out)
	}
	if list, told := b.Must("job", "list"), b.Must("events", "--type", "job_submitted"); !strings.Contains(list, "service tick") || !strings.Contains(told, "(service tick)") || !strings.Contains(told, "(profile alice)") {
		t.Errorf("listed:\n%s\nand told:\n%s", list, told)
	}
	if found["service never"] != "" {
		t.Error("what is not due has run")
	}
	s := b.Status()["tick"].Schedule
	if s == nil || s.Next == nil || s.Last == nil || *s.LastJob != found["service tick"] && s.LastState != nil && *s.LastState != "succeeded" {
		t.Errorf("status says %+v", s)
	}
	stopsOccurrence(b)
	startsOnce(b)
}

// SchedulesAreLogged: what the run of a schedule writes is in its service's log and on the
// container's stdout, each line marked with the job, masked as that log is, whole also if the
// supervisor is killed meanwhile; what a job of run writes is not.
func SchedulesAreLogged(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`tick: {type: oneshot, schedule: {cron: "* * * * *"}, log: {redact: [secrets]}, ` + bash(`for i in $(seq 500); do echo "line $i password=h1dden"; echo "fault $i" >&2; sleep 0.01; done; printf end`) + `}`)})
	job := ""
	box.Eventually(b, 80*time.Second, "it runs", func() (bool, any) {
		for _, j := range listed(b) {
			if j.Kind == "schedule" && j.State == "running" {
				job = j.Job
			}
		}
		return job != "", listed(b)
	})
	logged(b, "tick", "job "+job+": line 20 ")
	old := b.Supervisor().PID
	kill(b, "KILL", old)
	replaced(b, old)
	b.Run("job", "wait", job)
	if got, code := ran(b, "--profile", "tick", "--", "echo", "by hand"); code != 0 {
		t.Errorf("by hand: %+v", got)
	}
	out := b.Must("logs", "tick", "-n", "5000")
	twice := 0
	for i := 1; i <= 500; i++ {
		for _, line := range []string{fmt.Sprintf("job %s: line %d password=***\n", job, i), fmt.Sprintf("job %s: fault %d\n", job, i)} {
			switch n := strings.Count(out, line); {
			case n == 0:
				t.Fatalf("the log has not %q: %s", line, out)
			case n > 1:
				twice++
			}
		}
	}
	if twice > 40 { // what was written at the moment of the kill
		t.Errorf("%d lines are there twice", twice)
	}
	if !strings.Contains(out, "job "+job+": end\n") || strings.Contains(out, "by hand") || strings.Contains(out, "h1dden") {
		t.Errorf("the log is %s", out)
	}
	if said := b.Printed(); !strings.Contains(said, "tick | job "+job+": line 500 password=***") {
		t.Errorf("stdout has %s", said)
	}
}

// stopsOccurrence stops a service whose schedule has begun something.
func stopsOccurrence(b *box.Box) {
	running := func() []string {
		var ids []string
		for _, j := range listed(b) {
			if j.Service != nil && *j.Service == "long" && j.State == "running" {
				ids = append(ids, j.Job)
			}
		}
		return ids
	}
	box.Eventually(b, 80*time.Second, "the long one runs", func() (bool, any) { return len(running()) == 1, listed(b) })
	id := running()[0]
	if out := b.Must("stop", "long"); !strings.HasPrefix(out, "long: stopped") || !strings.Contains(out, "its schedule goes on") {
		b.Errorf("stop says %q", out)
	}
	if out := b.Must("job", "show", id); !strings.Contains(out, "cancelled") {
		b.Errorf("what ran when it was stopped: %s", out)
	}
	if s := b.Status()["long"].Schedule; s == nil || s.Next == nil {
		b.Errorf("its schedule is %+v", s)
	}
}

// startsOnce starts a service that has a schedule, and then the container again.
func startsOnce(b *box.Box) {
	if out := b.Must("start", "never"); !strings.HasPrefix(out, "never: exited (exit 0") {
		b.Errorf("start says %q", out)
	}
	if out := b.Must("status", "never"); !strings.Contains(out, "exit 0; next at ") {
		b.Errorf("after it has run status says\n%s", out)
	}
	if err := b.Stop(); err != nil {
		b.Fatal(err)
	}
	if err := b.Start(); err != nil {
		b.Fatal(err)
	}
	b.AwaitReady()
	if s := b.Status()["never"]; s.State != "stopped" || s.Desired != "stopped" || s.LastExit != nil {
		b.Errorf("after a restart of the container: %s", box.Describe(s))
	}
	if s := b.Status()["gateway-alice"]; s.State != "stopped" || s.LastExit != nil {
		b.Errorf("a profile whose gateway has a schedule, after a restart of the container: %s", box.Describe(s))
	}
	if out := b.Must("logs", "never"); strings.Count(out, " never\n") != 1 {
		b.Errorf("its log is %q", out)
	}
}

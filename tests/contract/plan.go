package contract

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/tests/box"
)

// planned writes a declared set into the box, plans it, and returns the path of
// the plan and its hash.
func planned(b *box.Box, text string, more ...string) (path, hash string) {
	b.Helper()
	file := b.Home() + "/agents.yaml"
	b.Write(box.Service, file, text)
	path = b.Home() + "/plan.json"
	b.Must(append([]string{"plan", "-f", file, "--out", path}, more...)...)
	return path, readPlan(b, path).Hash
}

func readPlan(b *box.Box, path string) *plan.Plan {
	b.Helper()
	p, err := plan.Read([]byte(b.Shell(box.Service, "cat "+path)))
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// exits runs rlminit as the service user, and fails the test unless it ends
// with this code.
func exits(b *box.Box, code int, args ...string) box.Result {
	b.Helper()
	r := b.Run(args...)
	if r.Code != code {
		b.Fatalf("rlminit %s: %s; want exit code %d", strings.Join(args, " "), r, code)
	}
	return r
}

func revisions(b *box.Box) (list []control.Revision) {
	b.Helper()
	if err := json.Unmarshal([]byte(b.Must("revisions", "--json")), &list); err != nil {
		b.Fatal(err)
	}
	return list
}

const planOfTwo = `version: 1
profiles:
  alice: {environment: {COLOUR: blue, API_TOKEN: hunter2}}
  bob: {state: stopped}
`

// PlanAndApply: what was approved is carried out, what is not is refused with a
// code of its own, and nothing is touched then.
func PlanAndApply(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	b.Must("profile", "create", "zed")
	file := b.Home() + "/agents.yaml"
	path, hash := planned(b, planOfTwo)
	exits(b, 14, "plan", "-f", file, "--detailed-exitcode")
	if out := b.Must("plan", "-f", file); strings.Contains(out, "hunter2") || !strings.Contains(out, "+ environment.API_TOKEN: ***") || !strings.Contains(out, "restarts 1 of 2, which keeps its port") {
		t.Errorf("people read\n%s", out)
	}

	apply := func(more ...string) []string {
		return append([]string{"apply", path, "--steady", "200ms", "--by", "a reviewer"}, more...)
	}
	b.Fails(11, "its hash is missing", apply("--allow-delete")...)
	b.Fails(11, "is of another plan", apply("--allow-delete", "--approve", "sha256:"+strings.Repeat("0", 64))...)
	b.Fails(13, "deletes zed", apply("--approve", hash)...)
	b.Shell(box.Service, "sed s/blue/grey/ "+path+" >"+path+".edited; head -c 300 "+path+" >"+path+".cut")
	b.Fails(11, "rlminit plan", "apply", path+".edited", "--approve", hash, "--allow-delete")
	b.Fails(11, "rlminit plan", "apply", path+".cut", "--approve", hash, "--allow-delete")
	old := readPlan(b, path)
	old.Expires = time.Now().Add(-time.Minute)
	text, err := old.Encode()
	if err != nil {
		t.Fatal(err)
	}
	b.Write(box.Service, path+".old", string(text))
	b.Fails(16, "too old", "apply", path+".old", "--approve", old.Hash, "--allow-delete")
	if now := b.Status()["gateway-alice"]; *now.PID != *s.PID || len(revisions(b)) != 0 {
		t.Error("something was touched")
	}

	exits(b, 9, apply("--approve", hash, "--allow-delete")...)
	now := b.Status()
	if _, there := now["gateway-zed"]; there || now["gateway-bob"].State != "stopped" || *now["gateway-alice"].PID == *s.PID {
		t.Errorf("applied: %v", now)
	}
	if self := b.Call(*s.Port, "/self"); !strings.Contains(self, "API_TOKEN=hunter2") || !strings.Contains(self, "COLOUR=blue") {
		t.Errorf("alice has %s", self)
	}
	b.Fails(17, "does not fit what there is", apply("--approve", hash, "--allow-delete")...)
	exits(b, 0, "drift")
	path, hash = planned(b, planOfTwo, "--detailed-exitcode")
	b.Fails(11, "its hash is missing", apply()...)
	exits(b, 0, apply("--approve", hash)...)
	r := revisions(b)
	if len(r) != 1 || r[0].State != "applied" || r[0].By != "a reviewer" || r[0].UID != 1000 || r[0].ExitCode != 9 {
		t.Errorf("%+v", r)
	}

	b.Must("start", "bob")
	if out := exits(b, 14, "drift").Out; !strings.Contains(out, "~ state: running -> stopped") {
		t.Errorf("drift says\n%s", out)
	}
	b.Fails(17, "profiles were changed since", func() []string {
		path, hash = planned(b, "version: 1\nprofiles: {alice: {}, bob: {}}\n")
		b.Must("profile", "set", "bob", "A=b", "--restart")
		return apply("--approve", hash)
	}()...)
	b.Must("stop", "bob")
	if r := exits(b, 0, "rollback", "--dry-run"); !strings.Contains(r.Out, "- bob: deleted (moved into the trash)") || !strings.Contains(r.Out, "+ zed: created") ||
		!strings.Contains(r.Out, "environment.API_TOKEN: ***") || !strings.Contains(r.Out, "it deletes 1 profile: rlminit rollback needs --allow-delete") {
		t.Errorf("what it would do is\n%s", r)
	}
	if p, err := plan.Read([]byte(b.Must("rollback", "--dry-run", "--json"))); err != nil || len(p.Changes) != 3 {
		t.Errorf("its plan: %+v, %v", p, err)
	}
	refusedAt := len(revisions(b))
	b.Fails(13, "nothing was touched: the rollback deletes bob; write --allow-delete", "rollback", "--steady", "0")
	if now := b.Status()["gateway-bob"]; now.State == "" || len(revisions(b)) != refusedAt {
		t.Errorf("it was refused, and bob is %s", box.Describe(now))
	}
	exits(b, 0, "rollback", "--allow-delete", "--steady", "0", "--exit-zero")
	now = b.Status()
	if _, there := now["gateway-bob"]; there || now["gateway-zed"].State != "running" || now["gateway-alice"].State != "running" {
		t.Errorf("rolled back: %v", now)
	}
	if self := b.Call(*s.Port, "/self"); strings.Contains(self, "API_TOKEN") {
		t.Errorf("alice still has %s", self)
	}
	exits(b, 9, "rollback", "1", "--allow-delete", "--steady", "0")
	if now := b.Status()["gateway-alice"]; now.State != "running" || !strings.Contains(b.Call(*now.Port, "/self"), "COLOUR=blue") {
		t.Errorf("rolled back to 1: %s", box.Describe(now))
	}
}

// RollbackIsRolledBack: what a rollback had taken out of the trash goes back to where it
// was, so that the next one finds it; and of what is no longer there nothing empty is made.
func RollbackIsRolledBack(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	b.Must("profile", "create", "zed")
	port := *b.Await("gateway-zed", "running").Port
	b.Write(box.Service, b.Home()+"/profiles/zed/notes", "precious")
	path, hash := planned(b, "version: 1\nprofiles: {alice: {}}\n")
	if r := exits(b, 9, "apply", path, "--approve", hash, "--allow-delete", "--steady", "0"); !strings.Contains(r.Out, "zed: deleted, in the trash as zed-revision-1") {
		t.Errorf("it says %s", r)
	}
	for what, halt := range map[string]func(){
		"cancelled": func() {
			var all []control.Operation
			if err := json.Unmarshal([]byte(b.Must("operations", "--json")), &all); err != nil {
				t.Fatal(err)
			}
			b.Must("cancel", strconv.FormatUint(all[len(all)-1].ID, 10))
		},
		"killed": func() {
			if err := b.Signal(int(unix.SIGKILL)); err != nil {
				t.Fatal(err)
			}
			b.Again()
		},
	} {
		done := make(chan box.Result, 1)
		go func() {
			r, _ := b.Exec(box.Service, nil, []string{"rlminit", "rollback", "0", "--steady", "60s"})
			done <- r
		}()
		b.Await("gateway-zed", "running")
		halt()
		box.Eventually(b, 20*time.Second, "the rollback is rolled back", func() (bool, any) {
			all := revisions(b)
			return all[len(all)-1].State == "rolled-back", all
		})
		if r := <-done; what == "cancelled" && r.Code != 8 {
			t.Errorf("cancelled: %s", r)
		}
		if _, there := b.Status()["gateway-zed"]; there || b.Shell(box.Service, "cat "+b.Home()+"/trash/zed-revision-1/notes") != "precious" {
			t.Errorf("%s: zed is not where it was", what)
		}
	}
	b.Fails(17, "was rolled back already; write the revision to go back to: 1, and 0 for before the first", "rollback", "--steady", "0")
	if r := exits(b, 9, "rollback", "0", "--steady", "0"); !strings.Contains(r.Out, "zed: created, out of the trash, where it was zed-revision-1") {
		t.Errorf("it says %s", r)
	}
	if s := b.Await("gateway-zed", "running"); *s.Port != port || b.Shell(box.Service, "cat "+b.Home()+"/profiles/zed/notes") != "precious" {
		t.Errorf("rolled back: %s", box.Describe(s))
	}

	deletes := func() {
		path, hash := planned(b, "version: 1\nprofiles: {alice: {}}\n")
		exits(b, 9, "apply", path, "--approve", hash, "--allow-delete", "--steady", "0")
	}
	deletes()
	if out := b.Must("profile", "list", "--trash"); !strings.Contains(out, "zed-revision-5  a rollback of revision 5") {
		t.Errorf("the trash is\n%s", out)
	}
	b.Must("profile", "restore", "zed")
	if s := b.Await("gateway-zed", "running"); *s.Port != port || b.Shell(box.Service, "cat "+b.Home()+"/profiles/zed/notes") != "precious" {
		t.Errorf("restored by hand: %s", box.Describe(s))
	}
	b.Must("profile", "set", "zed", "A=b", "--restart")
	if r := exits(b, 9, "rollback", "--steady", "0"); !strings.Contains(r.Out, "zed: changed, in the directory that is there, for what revision 5 deleted is no longer in the trash") {
		t.Errorf("it says %s", r)
	}

	deletes()
	b.Shell(box.Service, "rm -r "+b.Home()+"/trash/*")
	b.Fails(17, "the directory of zed, which revision 8 deleted, is no longer in the trash as zed-revision-8", "rollback", "--steady", "0")
	if _, there := b.Status()["gateway-zed"]; there || len(revisions(b)) != 8 {
		t.Error("something was touched")
	}
}

// ApplyGivesWayToRenames: a profile that is renamed or deleted by hand while a revision
// is under way, or since, is left as it is and named, and nothing is claimed that is not so;
// and none is made that has the name of a service.
func ApplyGivesWayToRenames(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	path := strings.TrimSpace(b.Shell(box.Root, `echo "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`))
	b.Must("profile", "create", "carl")
	b.Await("gateway-carl", "running")
	during := func(set, service string, meddle ...string) box.Result {
		t.Helper()
		plan, hash := planned(b, "version: 1\nprofiles: {"+set+"}\n")
		done := make(chan box.Result, 1)
		number := len(revisions(b)) + 1
		go func() {
			r, _ := b.Exec(box.Service, nil, []string{"rlminit", "apply", plan, "--approve", hash, "--allow-delete", "--steady", "3s"})
			done <- r
		}()
		box.Eventually(b, 20*time.Second, "the revision begins", func() (bool, any) { all := revisions(b); return len(all) == number, all })
		b.Await(service, "running")
		b.Must(meddle...)
		return <-done
	}
	r := during("alice: {}, dora: {}", "gateway-dora", "profile", "rename", "carl", "dirk")
	if r.Code != 8 || !strings.Contains(r.Err, "carl: cannot delete it: somebody has changed it since: it was renamed to dirk") {
		t.Errorf("to be deleted, and renamed: %s", r)
	}
	for _, set := range []string{"alice: {}, dirk: {}, dora: {}", "alice: {environment: {A: b}}, dirk: {}, dora: {}"} {
		r = during(set, "gateway-dora", "profile", "rename", "dora", "emil")
		if r.Code != 12 || !strings.Contains(r.Err, "not put back: dora: it was renamed to emil, which is left as it is") {
			t.Errorf("created, and renamed: %s", r)
		}
		b.Await("gateway-emil", "running")
		b.Must("profile", "delete", "emil", "--purge")
	}
	if r = during("alice: {}, dirk: {}, dora: {}", "gateway-dora", "profile", "delete", "dora"); r.Code != 8 {
		t.Errorf("created, and deleted: %s", r)
	}

	plan, hash := planned(b, "version: 1\nprofiles: {alice: {}, dirk: {}, fred: {}}\n")
	exits(b, 9, "apply", plan, "--approve", hash, "--steady", "0")
	b.Must("profile", "rename", "fred", "gert")
	if r := exits(b, 9, "rollback", "--steady", "0"); !strings.Contains(r.Out, "fred: renamed to gert by hand, which is left as it is") {
		t.Errorf("rolled back: %s", r)
	}
	exits(b, 0, "drift")
	b.Await("gateway-gert", "running")

	plan, hash = planned(b, "version: 1\nprofiles: {alice: {}, gert: {}}\n")
	exits(b, 9, "apply", plan, "--approve", hash, "--allow-delete", "--steady", "0")
	plan, hash = planned(b, "version: 1\nprofiles: {alice: {}, gert: {}, web: {}}\n")
	b.Write(box.Root, path, Services(`dirk: {command: [sleep, infinity]}`, `web: {command: [sleep, infinity]}`))
	b.Must("reload")
	before := len(revisions(b))
	b.Fails(17, "there can be no profile web, for the configuration has a service web", "apply", plan, "--approve", hash)
	b.Fails(17, "nothing was touched: there can be no profile dirk, for the configuration has a service dirk", "rollback", "--steady", "0")
	if len(revisions(b)) != before {
		t.Errorf("something was begun: %+v", revisions(b))
	}
	b.Write(box.Root, path, Config())
	b.Must("reload")
	exits(b, 9, "rollback", "--steady", "0")
	b.Await("gateway-dirk", "running")
}

// PlanRefuses: a declared set, a scope or a source with which there is no plan.
func PlanRefuses(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	file := b.Home() + "/agents.yaml"
	b.Write(box.Service, file, "version: 1\nprofiles:\n  alice: {stat: running, restart: {limit: x}, user: root}\n  Bob: {}\n")
	r := exits(b, 2, "plan", "-f", file)
	for _, want := range []string{
		`agents.yaml:4: profiles.Bob: the name "Bob" is refused`,
	} {
		if !strings.Contains(r.Err, want) {
			t.Errorf("no %q in %s", want, r.Err)
		}
	}
	b.Write(box.Service, file, "version: 1\nprofiles:\n  alice: {stat: running, restart: {limit: x}, user: root}\n  carol: {command: x}\n")
	r = exits(b, 2, "plan", "-f", file)
	for _, want := range []string{
		`agents.yaml:3: profiles.alice: unknown key "stat"; did you mean "state"?`, `agents.yaml:3: profiles.alice.restart.limit: "x" is refused`,
		"agents.yaml:3: profiles.alice.user: a profile may not set it", "agents.yaml:4: profiles.carol.command:",
	} {
		if !strings.Contains(r.Err, want) {
			t.Errorf("no %q in %s", want, r.Err)
		}
	}
	b.Write(box.Service, file, "version: 1\nprofiles: {alice: {}, bob: {}}\n")
	b.Fails(10, "bob, which the set declares, is not within the scope profile/alice", "plan", "-f", file, "--scope", "profile/alice")
	b.Fails(10, "fits nothing", func() []string {
		b.Write(box.Service, file+".none", "version: 1\nprofiles: {}\n")
		return []string{"plan", "-f", file + ".none", "--scope", "profile/nobody"}
	}()...)
	b.Fails(2, "is no scope", "plan", "-f", file, "--scope", "everything")
	b.Fails(15, "v1-dirty says so", "plan", "-f", file, "--source", "v1-dirty", "--require-clean")
	b.Fails(15, "the source is not clean", "plan", "-f", file, "--require-clean")
	b.Must("plan", "-f", file, "--source", "v1", "--require-clean")
	b.FailsAs(box.Stranger, 5, "permission denied", "plan", "-f", file)
	var codes []string
	for line := range strings.Lines(b.Must("events", "--json", "--type", "plan_refused")) {
		var e struct {
			ExitCode int    `json:"exit_code"`
			Reason   string `json:"reason"`
			UID      int    `json:"uid"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Reason == "" || e.UID != 1000 {
			t.Errorf("recorded: %s", line)
		}
		codes = append(codes, strconv.Itoa(e.ExitCode))
	}
	if got := strings.Join(codes, " "); got != "2 2 10 10 15 15" {
		t.Errorf("refusals are recorded as %s", got)
	}
	if len(b.Status()) != 0 {
		t.Error("a plan has touched something")
	}
}

// ApplyIsRolledBack: a service that does not hold is put back with all others,
// and what could not be put back is said loudest.
func ApplyIsRolledBack(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	const set = `version: 1
profiles:
  alice: {environment: {A: b}}
  new: {}
  bob: {command: %s}
`
	command := func(script string) string {
		return strings.Replace(set, "%s", `[bash, -c, "`+script+`"], ready: {exec: [test, -e, "/tmp/never"]}, restart: {limit: 2, delay: 10ms}`, 1)
	}
	same := func() {
		t.Helper()
		now := b.Status()
		if len(now) != 1 || now["gateway-alice"].State != "running" || strings.Contains(b.Call(*s.Port, "/self"), `"A=b"`) {
			t.Errorf("not as before: %v", now)
		}
	}
	path, hash := planned(b, command("echo no good >&2; exit 3"))
	r := exits(b, 8, "apply", path, "--approve", hash, "--steady", "1s", "--timeout", "15s")
	if !strings.Contains(r.Err, "bob") || !strings.Contains(r.Err, "all is as it was before") {
		t.Errorf("it says %s", r.Err)
	}
	same()
	path, hash = planned(b, command("exec sleep infinity"))
	exits(b, 7, "apply", path, "--approve", hash, "--steady", "1s", "--timeout", "2s")
	same()

	path, hash = planned(b, "version: 1\nprofiles: {alice: {environment: {A: b}}}\n")
	before := *b.Await("gateway-alice", "running").PID
	done := make(chan box.Result, 1)
	go func() {
		r, _ := b.Exec(box.Service, nil, []string{"rlminit", "apply", path, "--approve", hash, "--steady", "60s"})
		done <- r
	}()
	restarted(b, "gateway-alice", before)
	b.Must("profile", "set", "alice", "BY=hand", "--restart")
	r = <-done
	if r.Code != 12 || !strings.Contains(r.Err, "A PERSON IS NEEDED") || !strings.Contains(r.Err, "alice: somebody has changed it since") || !strings.Contains(r.Err, "rolled back because of alice: somebody has changed it meanwhile") {
		t.Errorf("commanded meanwhile: %s", r)
	}
	states := []string{}
	for _, r := range revisions(b) {
		states = append(states, r.State)
	}
	if got := strings.Join(states, " "); got != "rolled-back rolled-back partly" {
		t.Errorf("revisions are %s", got)
	}
}

// ApplyGivesWay: each change is an operation, which can be cancelled, and which
// gives way to a later command; then all is as it was.
func ApplyGivesWay(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	var path, hash string
	begin := func() (done chan box.Result, o control.Operation) {
		done = make(chan box.Result, 1)
		pid := *b.Status()["gateway-alice"].PID
		go func() {
			r, _ := b.Exec(box.Service, nil, []string{"rlminit", "apply", path, "--approve", hash, "--steady", "60s"})
			done <- r
		}()
		restarted(b, "gateway-alice", pid)
		var all []control.Operation
		if err := json.Unmarshal([]byte(b.Must("operations", "--json")), &all); err != nil {
			t.Fatal(err)
		}
		if o = all[len(all)-1]; o.Verb != "update" || o.State != "running" || len(o.Members) != 1 || o.Members[0].Name != "alice" || o.Actor.UID != 1000 {
			t.Fatalf("the change is shown as %+v", o)
		}
		return done, o
	}
	for what, halt := range map[string]func(control.Operation){
		`operation \d+ was cancelled`:                           func(o control.Operation) { b.Must("cancel", strconv.FormatUint(o.ID, 10)) },
		`somebody has commanded it meanwhile, by operation \d+`: func(control.Operation) { b.Must("restart", "alice") },
	} {
		path, hash = planned(b, "version: 1\nprofiles: {alice: {environment: {A: b}}}\n")
		done, o := begin()
		halt(o)
		if r := <-done; r.Code != 8 || !regexp.MustCompile(what).MatchString(r.Err) || !strings.Contains(r.Err, "all is as it was before") {
			t.Errorf("%s: %s", what, r)
		}
		if now := b.Status(); len(now) != 1 || now["gateway-alice"].State != "running" || strings.Contains(b.Call(*s.Port, "/self"), `"A=b"`) {
			t.Errorf("%s: not as before: %v", what, now)
		}
		state := b.Must("operations", strconv.FormatUint(o.ID, 10), "--json")
		if !strings.Contains(state, `"cancelled"`) && !strings.Contains(state, `"superseded"`) {
			t.Errorf("%s: the operation is %s", what, state)
		}
	}
}

// ApplySurvives: a killed supervisor's successor goes on with an apply; after
// the end of the container it is put back before anything starts.
func ApplySurvives(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	b.Must("profile", "create", "zed")
	set := "version: 1\nprofiles: {alice: {environment: {A: b}}, new: {}}\n"
	path, hash := planned(b, set)
	run := func(steady string) (<-chan box.Result, control.Service) {
		done := make(chan box.Result, 1)
		pid := *b.Status()["gateway-alice"].PID
		go func() {
			r, _ := b.Exec(box.Service, nil, []string{"rlminit", "apply", path, "--approve", hash, "--steady", steady, "--allow-delete"})
			done <- r
		}()
		return done, restarted(b, "gateway-alice", pid)
	}
	done, _ := run("2s")
	old := b.Supervisor()
	kill(b, "9", old.PID)
	if r := <-done; r.Code != 9 || !strings.Contains(r.Out, "applied") {
		t.Fatalf("its supervisor was killed: %s", r)
	}
	if now := b.Status(); len(now) != 2 || now["gateway-new"].State != "running" || !strings.Contains(b.Call(*s.Port, "/self"), "A=b") {
		t.Fatalf("applied: %v", now)
	}
	exits(b, 0, "drift")

	path, hash = planned(b, "version: 1\nprofiles: {alice: {environment: {A: c}}}\n")
	_, _ = run("60s")
	if err := b.Signal(int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Await("gateway-new", "running")
	b.Await("gateway-alice", "running")
	if self := b.Call(*s.Port, "/self"); !strings.Contains(self, "A=b") || strings.Contains(self, "A=c") {
		t.Errorf("alice has %s", self)
	}
	r := revisions(b)
	if len(r) != 2 || r[0].State != "applied" || r[1].State != "rolled-back" || !strings.Contains(r[1].Reason, "the container ended") {
		t.Errorf("%+v", r)
	}
	exits(b, 0, "drift")
}

// ApplyIsKilled: supervisor or container are killed at any moment of an apply of
// two profiles, again and again: both are as declared, or both as before, and
// revisions says which.
func ApplyIsKilled(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	b.Must("profile", "create", "bob")
	values := func() string {
		return b.Shell(box.Service, "cd "+b.Home()+"/profiles; for p in alice bob; do sed -n 's/.*ROUND: *//p' $p/profile.yaml; done | tr -d '\"' | tr '\n' ' '")
	}
	ends := map[string]int{}
	for round := range 16 {
		before := values()
		is := fmt.Sprintf("r%d", round)
		path, hash := planned(b, strings.ReplaceAll("version: 1\nprofiles: {alice: {environment: {ROUND: IS}}, bob: {environment: {ROUND: IS}}}\n", "IS", is))
		done := make(chan box.Result, 1)
		go func() {
			r, _ := b.Exec(box.Service, nil, []string{"rlminit", "apply", path, "--approve", hash, "--steady", "50ms"})
			done <- r
		}()
		box.Eventually(b, long, "the apply has begun", func() (bool, any) {
			list := revisions(b)
			return len(list) == round+1, list
		})
		b.Shell(box.Root, fmt.Sprintf("sleep 0.%02d", round*7%40)) // any moment is the right one
		if round%4 == 3 {
			if err := b.Signal(int(unix.SIGKILL)); err != nil {
				t.Fatal(err)
			}
			<-done
			b.Again()
		} else {
			kill(b, "KILL", b.Supervisor().PID)
			<-done
			b.AwaitReady()
		}
		box.Eventually(b, long, "the revision is over", func() (bool, any) {
			list := revisions(b)
			return list[round].Over(), list[round]
		})
		state, now := revisions(b)[round].State, values()
		if want := map[string]string{"applied": is + " " + is + " ", "rolled-back": before}[state]; now != want {
			t.Errorf("round %d is %s, and the profiles have %q; before %q", round, state, now, before)
		}
		ends[state]++
	}
	t.Logf("figure: ends %v", ends)
}

// ApplyIsAllowed: root's configuration says who may apply what.
func ApplyIsAllowed(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config("apply: {allow: [{uid: 1000, scope: profile/team-*}, {uid: 10000, scope: profiles}]}\n")})
	path, hash := planned(b, "version: 1\nprofiles: {alice: {}}\n")
	b.Fails(10, "no rule of apply.allow covers", "apply", path, "--approve", hash)
	if r := b.As(box.Stranger, "rlminit", "apply", path, "--approve", hash, "--steady", "0"); r.Code != 9 {
		t.Errorf("who is allowed: %s", r)
	}
	b.FailsAs(box.Stranger, 5, "permission denied", "stop", "alice")
	path, hash = planned(b, "version: 1\nprofiles: {team-a: {}}\n", "--scope", "profile/team-a")
	exits(b, 9, "apply", path, "--approve", hash, "--steady", "0")
}

// SecretsAreExact: a service has each byte of its secret, whichever way it came, and a
// newline at its end is said. --exist-ok says what has changed, and who has the old one.
func SecretsAreExact(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	file := b.Home() + "/token"
	b.Write(box.Service, file, "precious\n")
	create := func(args string) box.Result {
		b.Helper()
		r := b.As(box.Service, "bash", "-c", "rlminit profile create "+args)
		if r.Code != 0 {
			t.Fatalf("create %s: %s", args, r)
		}
		return r
	}
	noted := func(r box.Result, name string) {
		b.Helper()
		if want := "note: the secret " + name + " ends in a newline"; !strings.Contains(r.Err, want) {
			t.Errorf("without %q: %s", want, r)
		}
	}
	noted(create("alice --secret TOKEN=- <"+file), "TOKEN")
	noted(create("bob --secret TOKEN=@"+file), "TOKEN")
	set := b.Home() + "/agents.yaml"
	b.Write(box.Service, set, "version: 1\nprofiles: {carol: {secrets: {TOKEN: {file: token}}}}\n")
	r := b.As(box.Service, "bash", "-c", "rlminit plan --scope profile/carol -f "+set+" --out "+b.Home()+"/plan.json")
	noted(r, "carol.secrets.TOKEN")
	exits(b, 9, "apply", b.Home()+"/plan.json", "--approve", readPlan(b, b.Home()+"/plan.json").Hash, "--steady", "0")
	for _, name := range []string{"alice", "bob", "carol"} {
		b.Await("gateway-"+name, "running")
		if r := b.As(box.Root, "cat", "/run/rlminit/services/gateway-"+name+"/credentials/TOKEN"); r.Out != "precious\n" {
			t.Errorf("%s was given %s", name, r)
		}
	}

	pid := *b.Status()["gateway-alice"].PID
	if r := create("alice --exist-ok --secret TOKEN=@" + file); strings.Contains(r.Out, "changed") {
		t.Errorf("nothing changed: %s", r)
	}
	b.Write(box.Service, file, "other")
	if r, want := create("alice --exist-ok --secret TOKEN=@"+file), fmt.Sprintf("the gateway, pid %d, has the old value until rlminit restart alice", pid); !strings.Contains(r.Out, "changed: TOKEN; "+want) || r.Err != "" {
		t.Errorf("a secret changed: %s", r)
	}
	b.Must("stop", "bob")
	if r := create("bob --exist-ok --secret TOKEN=@" + file); !strings.Contains(r.Out, "changed: TOKEN\n") {
		t.Errorf("a secret changed of one that is stopped: %s", r)
	}
}

// DeclaredSecrets: a secret goes from its file to the service, past the plan,
// and is the one that was approved.
func DeclaredSecrets(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Write(box.Service, b.Home()+"/cert.pem", "first-secret\n")
	const set = `version: 1
profiles:
  alice:
    command: [bash, -c, "echo secret $(cat $CREDENTIALS_DIRECTORY/CERT); echo leaked $(env | grep -c first-s[e]cret); exec sleep infinity"]
    ready: {exec: ["true"]}
    secrets: {CERT: {file: cert.pem}}
`
	path, hash := planned(b, set)
	if text := b.Shell(box.Service, "cat "+path); strings.Contains(text, "first-secret") {
		t.Errorf("the plan holds the secret: %s", text)
	}
	b.Write(box.Service, b.Home()+"/cert.pem", "other-secret\n")
	b.Fails(11, "has another value than the one that was approved", "apply", path, "--approve", hash)
	b.Write(box.Service, b.Home()+"/cert.pem", "first-secret\n")
	exits(b, 9, "apply", path, "--approve", hash, "--steady", "0")
	logged(b, "alice", "secret first-secret")
	logged(b, "alice", "leaked 0")
	exits(b, 0, "drift")

	b.Write(box.Service, b.Home()+"/cert.pem", "second-secret\n")
	path, hash = planned(b, set)
	if out := b.Must("plan", "-f", b.Home()+"/agents.yaml"); !strings.Contains(out, "~ secrets.CERT: *** -> ***") || !strings.Contains(out, "restarts 1 of 1") {
		t.Errorf("people read\n%s", out)
	}
	exits(b, 9, "apply", path, "--approve", hash, "--steady", "0")
	logged(b, "alice", "secret second-secret")
	b.Must("revisions", "--json")
	exits(b, 9, "rollback", "--steady", "0")
	box.Eventually(b, long, "alice has the first secret again", func() (bool, any) {
		out := b.Must("logs", "alice", "-n", "2")
		return strings.Contains(out, "secret first-secret"), out
	})
	exits(b, 0, "drift")
}

package contract

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
)

// rootPlans are plans of root's that declare the configuration.
type rootPlans struct {
	*box.Box
	path string // of the configuration
	file string // of the one that is declared
}

func plansOfRoot(b *box.Box) rootPlans {
	b.Helper()
	dir := strings.TrimSpace(b.Shell(box.Root, "mktemp -dp /var/tmp"))
	b.Cleanup(func() { b.Shell(box.Root, "rm -r "+dir) })
	b.Shell(box.Root, "chmod 755 "+dir)
	path := strings.TrimSpace(b.Shell(box.Root, `echo "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`))
	return rootPlans{b, path, dir + "/rlminit.yaml"}
}

// declare writes a configuration, and the set that declares it.
func (b rootPlans) declare(configuration, more string) {
	b.Helper()
	b.Write(box.Root, b.file, configuration)
	b.Write(box.Root, b.file+".set", "version: 1\nconfiguration: rlminit.yaml\n"+more)
}

func (b rootPlans) exits(code int, args ...string) box.Result {
	b.Helper()
	r := b.As(box.Root, append([]string{"rlminit"}, args...)...)
	if r.Code != code {
		b.Fatalf("rlminit %s as root: %s; want exit code %d", strings.Join(args, " "), r, code)
	}
	return r
}

// plan returns the arguments of the apply of what is declared.
func (b rootPlans) plan(configuration, steady string, more ...string) []string {
	b.Helper()
	b.declare(configuration, "")
	b.exits(0, append([]string{"plan", "-f", b.file + ".set", "--out", b.file + ".plan"}, more...)...)
	return []string{"apply", b.file + ".plan", "--approve", readPlan(b.Box, b.file+".plan").Hash, "--steady", steady}
}

func (b rootPlans) now() string {
	b.Helper()
	return b.Shell(box.Root, "cat "+b.path)
}

// ApplyConfiguration: the configuration is a part of a plan: shown, approved, put in
// place, gated by what it touches, and put back, file and processes, when that does
// not hold; and it is root's alone.
func ApplyConfiguration(t *testing.T, start New) {
	web := func(script string) string {
		return Services(`db: {command: [sleep, infinity]}`, `web: {restart: {limit: 2, delay: 10ms}, `+bash(script)+`}`)
	}
	old := web("echo old; exec sleep infinity")
	b := plansOfRoot(start(t, box.Spec{Config: old}))
	db, was := b.Await("db", "running"), b.Await("web", "running")
	same := func(what string) {
		t.Helper()
		if b.now() != old || *b.Status()["db"].PID != *db.PID {
			t.Errorf("%s: something was touched:\n%s", what, b.now())
		}
	}

	next := web("echo new; exec sleep infinity")
	b.declare(next, "")
	set := b.file + ".set"
	b.Fails(10, "the set declares the configuration, which is root's: uid 1000 may not", "plan", "-f", set)
	b.exits(14, "plan", "-f", set, "--detailed-exitcode", "--scope", "service/web")
	for scope, why := range map[string]string{"service/db": "services.web", "profiles": "is not within the scope", "all": "declares no profiles"} {
		if r := b.exits(10, "plan", "-f", set, "--scope", scope); !strings.Contains(r.Err, why) {
			t.Errorf("scope %s: %s", scope, r)
		}
	}
	b.declare("version: 1\nservices: {web: {comand: x}}\n", "")
	if r := b.exits(2, "plan", "-f", set); !strings.Contains(r.Err, b.file+`:2: services.web: unknown key "comand"; did you mean "command"?`) {
		t.Errorf("a faulty one: %s", r)
	}
	b.declare(strings.Replace(next, "stop_timeout: 8s", "stop_timeout: 9s", 1), "")
	if r := b.exits(10, "plan", "-f", set); !strings.Contains(r.Err, "stop_timeout changed: that needs a new container") {
		t.Errorf("one that needs a new container: %s", r)
	}
	b.declare(next, "")
	out := b.exits(0, "plan", "-f", set).Out
	for _, want := range []string{"~ " + b.path + ": changed, and restarts", "~ services.web.command: ", "restarts web: command changed", "scope configuration"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in what people read:\n%s", want, out)
		}
	}
	same("planned")

	apply := b.plan(next, "100ms")
	b.Write(box.Root, b.file, next+"# more\n")
	b.exits(11, apply...)
	b.Fails(10, "the configuration is root's", apply...)
	same("not approved")
	b.Write(box.Root, b.file, next)
	b.exits(9, apply...)
	s := b.Status()["web"]
	if b.now() != next || *s.PID == *was.PID || *b.Status()["db"].PID != *db.PID {
		t.Fatalf("applied: %s\n%s", box.Describe(s), b.now())
	}
	logged(b.Box, "web", "new")
	if mode := b.Shell(box.Root, "stat -c '%a %u %g' "+b.path); strings.TrimSpace(mode) != "644 0 0" {
		t.Errorf("its mode and owner are %s", mode)
	}
	b.exits(17, apply...)
	b.exits(0, "drift")
	if out := b.exits(0, "plan", "-f", set, "--detailed-exitcode").Out; !strings.Contains(out, "nothing to change") {
		t.Errorf("the second plan: %s", out)
	}
	if out := b.Must("operations", "1"); !strings.Contains(out, b.path) || !strings.Contains(out, "web") {
		t.Errorf("operations shows no change of the configuration: %s", out)
	}

	r := b.exits(8, b.plan(web("echo no good >&2; exit 3"), "1s")...)
	if !strings.Contains(r.Err, "no good") || !strings.Contains(r.Err, "all is as it was before") {
		t.Errorf("one that does not hold: %s", r)
	}
	if b.now() != next || b.Await("web", "running").PID == nil || *b.Status()["db"].PID != *db.PID {
		t.Errorf("rolled back: %s", b.now())
	}
	b.Shell(box.Root, "echo '# by hand' >>"+b.path)
	if out := b.exits(14, "drift").Out; !strings.Contains(out, b.path) {
		t.Errorf("drift: %s", out)
	}
	b.exits(9, "rollback", "0", "--steady", "0")
	same("rolled back to 0")
}

// ConfigurationSurvives: a killed supervisor's successor goes on with the apply of a
// configuration; after the end of the container the one from before is put back, and
// counts, before anything starts.
func ConfigurationSurvives(t *testing.T, start New) {
	web := func(word string) string {
		return Services(`web: {` + bash("echo is "+word+"; exec sleep infinity") + `}`)
	}
	b := plansOfRoot(start(t, box.Spec{Config: web("a")}))
	run := func(configuration, steady string) <-chan box.Result {
		pid := *b.Await("web", "running").PID
		apply := b.plan(configuration, steady)
		done := make(chan box.Result, 1)
		go func() { done <- b.As(box.Root, append([]string{"rlminit"}, apply...)...) }()
		restarted(b.Box, "web", pid)
		return done
	}
	done := run(web("b"), "2s")
	kill(b.Box, "9", b.Supervisor().PID)
	if r := <-done; r.Code != 9 || b.now() != web("b") {
		t.Fatalf("its supervisor was killed: %s\n%s", r, b.now())
	}
	done = run(web("c"), "60s")
	if err := b.Signal(int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	<-done
	b.Again()
	b.Await("web", "running")
	if b.now() != web("b") {
		t.Errorf("after the container's end it is\n%s", b.now())
	}
	logged(b.Box, "web", "is b")
	if out := b.Must("logs", "web", "-n", "1"); !strings.Contains(out, "is b") {
		t.Errorf("the last that ran says %s", out)
	}
	list := revisions(b.Box)
	if len(list) != 2 || list[0].State != "applied" || list[1].State != "rolled-back" {
		t.Errorf("%+v", list)
	}
	b.exits(0, "drift")
}

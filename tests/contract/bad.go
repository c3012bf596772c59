package contract

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
)

// BadNames: names that would leave the directory, or that no profile may have,
// are refused, and nothing is made of them.
func BadNames(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	before := b.Shell(box.Service, `ls -A "`+b.Home()+`/profiles"`)
	for _, name := range []string{
		"../x", "a/b", "/etc", ".", "..", "", "A", "alicE", "-x", "_x", "x.y", "x y", "é", "x\n",
		strings.Repeat("x", 65), "default", "main", "all",
	} {
		r := b.Run("profile", "create", "--", name)
		line := strings.TrimSuffix(r.Err, "\n")
		if r.Code != 2 && r.Code != 17 || !strings.HasPrefix(line, "rlminit: ") || strings.Contains(line, "\n") {
			t.Errorf("%q: %s", name, r)
		}
	}
	if after := b.Shell(box.Service, `ls -A "`+b.Home()+`/profiles"`); after != before {
		t.Errorf("the directory held %q, holds %q", before, after)
	}
	if n := len(b.Status()); n != 1 {
		t.Errorf("%d services", n)
	}
	b.Must("profile", "create", strings.Repeat("x", 64), "--stopped")
}

// BrokenConfiguration: rlminit ends at once with code 78 and a line for each
// fault that names file, line, field and what would be right.
func BrokenConfiguration(t *testing.T, start New) {
	for _, c := range []struct {
		name, config string
		want         []string
	}{
		{"unknown key", Services(`web: {command: [sleep, "1"], enviroment: {}}`), []string{"rlminit.yaml:10", "enviroment", `did you mean "environment"`}},
		{"string for argv", Services(`web: {command: "agent serve"}`), []string{"rlminit.yaml:10", "services.web.command", "[agent, serve]"}},
		{"two faults", Services(`web: {command: 5}`, `api: {command: [x], restart: perhaps}`), []string{"rlminit.yaml:10", "rlminit.yaml:11", "perhaps"}},
		{"two documents", Config("---\nversion: 1\n"), []string{"rlminit.yaml"}},
		{"no YAML", "version: [1\n", []string{"rlminit.yaml"}},
		{"bad duration", "version: 1\nuser: \"1000:1000\"\nstop_timeout: soon\n", []string{"rlminit.yaml:3", "soon"}},
		{"a cycle", Services(`a: {command: [x], requires: [b]}`, `b: {command: [x], requires: [a]}`), []string{"a", "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, box.Spec{Config: c.config, Main: []string{"echo", "main-ran"}})
			if code := exitCode(b); code != 78 {
				t.Errorf("exit code %d, want 78", code)
			}
			out := b.Printed()
			for line := range strings.Lines(out) {
				if !strings.HasPrefix(line, "rlminit: ") {
					t.Errorf("a line that is not ours: %q", line)
				}
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in %q", want, out)
				}
			}
			if strings.Contains(out, "main-ran") {
				t.Error("the main command ran")
			}
		})
	}
}

// VerbInPlace: a verb of rlminit that needs no supervisor, as the container's command, is
// carried out in place of everything else: nothing is prepared, no service is started.
// What init refuses, check refuses.
func VerbInPlace(t *testing.T, start New) {
	web := `web: {command: [sh, -c, "echo web-ran; exec sleep infinity"], log: {tee: true}}`
	for _, c := range []struct {
		name, config string
		main         []string
		code         int
		want         string
	}{
		{"check", Services(web), []string{"rlminit", "check"}, 0, ": valid"},
		{"check of a faulty one", Services(`web: {command: agent}`), []string{"rlminit", "check"}, 1, "services.web.command"},
		{"version", Services(web), []string{"rlminit", "version"}, 0, "rlminit "},
		{"help", Services(web), []string{"rlminit", "help", "check"}, 0, "rlminit check"},
		{"root's group", Services(`web: {command: [x], groups: [root]}`), []string{"rlminit", "check"}, 1, "services.web.groups[0]: group \"root\" is root's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, box.Spec{Config: c.config + "boot: [{command: [sh, -c, 'echo booted']}]\n", Main: c.main})
			code, out := exitCode(b), b.Printed()
			if code != c.code || !strings.Contains(out, c.want) || strings.Contains(out, "web-ran") || strings.Contains(out, "booted") {
				t.Errorf("exit code %d, want %d and %q; printed\n%s", code, c.code, c.want, out)
			}
		})
	}
}

// NoUser: a configuration without a user is refused where PID 1 is root, by init and by
// check.
func NoUser(t *testing.T, start New) {
	for want, main := range map[int][]string{78: {"true"}, 1: {"rlminit", "check"}} {
		b := start(t, box.Spec{Config: "version: 1\n", Main: main})
		if code := exitCode(b); code != want || !strings.Contains(b.Printed(), "running as root and no user is set") {
			t.Errorf("%v: exit code %d, printed %q", main, code, b.Printed())
		}
	}
}

// OpenConfiguration: a configuration that others than root could exchange is not
// read, for it says what runs with which rights.
func OpenConfiguration(t *testing.T, start New) {
	for _, below := range []string{"", "/services.d"} {
		b := start(t, box.Spec{Config: Config()})
		open := strings.TrimSpace(b.Shell(box.Root, `dirname "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`)) + below
		b.Shell(box.Root, `mkdir -p `+open+`; chmod 0777 `+open)
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		if code := exitCode(b); code != 78 || !strings.Contains(b.Printed(), "rlminit: cannot trust "+open+": its mode 0777 lets others than root write it") {
			t.Errorf("exit code %d, printed %q", code, b.Printed())
		}
	}
}

// BrokenProfile: it fails with the reason, the others run.
func BrokenProfile(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	b.Must("profile", "create", "bob", "--stopped")
	for _, content := range []string{"enviroment: {}\n", "command: one string\n", "user: root\n", "\x00\x01", "[", "limits: {nofile: 1e99}\n"} {
		b.Write(box.Service, b.Home()+"/profiles/bob/profile.yaml", content)
		b.Run("reload", "bob")
		r := b.Run("start", "bob")
		if r.Code == 0 {
			t.Errorf("%q started", content)
			b.Must("stop", "bob")
		}
		if line := strings.TrimSuffix(r.Err, "\n"); !strings.HasPrefix(line, "rlminit: ") || strings.Contains(line, "\n") || !strings.Contains(line, "profile.yaml") {
			t.Errorf("%q: %s", content, r)
		}
	}
	b.Must("start", "alice")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Await("gateway-alice", "running")
	if bob := b.Await("gateway-bob", "failed"); bob.Reason == nil || !strings.Contains(*bob.Reason, "profile.yaml") {
		t.Errorf("bob: %s", box.Describe(bob))
	}
	box.Eventually(b, long, "bob is recorded as failed", func() (bool, any) {
		state := b.Shell(box.Service, `cat "`+b.Home()+`/profiles/bob/gateway_state.json"`)
		return strings.Contains(state, `"gateway_state":"startup_failed","pid":0,`), state
	})
	b.Write(box.Service, b.Home()+"/profiles/bob/profile.yaml", "environment: {}\n")
	b.Must("reload")
	b.Must("start", "bob")

	// One that runs goes on as it was, and whoever restarts it is told why.
	s := b.Await("gateway-bob", "running")
	b.Write(box.Service, b.Home()+"/profiles/bob/profile.yaml", "user: root\n")
	b.Run("reload")
	b.Fails(1, "bob is not restarted: ", "restart", "bob")
	if now := b.Status()["gateway-bob"]; now.State != "running" || *now.PID != *s.PID {
		t.Errorf("bob had pid %d, and is %s", *s.PID, box.Describe(now))
	}
}

// BrokenState: a state file that says nothing is kept aside, and its profile is as
// the journal has it.
func BrokenState(t *testing.T, start New) {
	b := threeIntents(t, start)
	// Nothing can be written while the box is down, so the last moment of this
	// boot is taken: PID 1 is killed, and with it all that would write again.
	b.Shell(box.Root, `cd "`+b.Home()+`/profiles/runs" && printf '{"version":1,"desired_' >.broken && chown --reference=. .broken && mv .broken gateway_state.json`)
	if err := b.Signal(int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	b.Again()
	asIntended(t, b)
	if files := b.Shell(box.Service, `grep -l '"desired_$' "`+b.Home()+`/profiles/runs"/* || true`); strings.TrimSpace(files) == "" {
		t.Error("the broken file was not kept")
	}
}

// LinkInPlaceOfProfile: a link on the volume is not followed.
func LinkInPlaceOfProfile(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	b.Shell(box.Service, `mkdir -p /tmp/elsewhere-$$ && echo 'environment: {}' >/tmp/elsewhere-$$/profile.yaml && ln -s /tmp/elsewhere-$$ "`+b.Home()+`/profiles/link"; ln -s alice "`+b.Home()+`/profiles/twin"`)
	b.Must("profile", "create", "bob")
	b.Await("gateway-bob", "running")
	for name, s := range b.Status() {
		if (name == "gateway-link" || name == "gateway-twin") && s.State == "running" {
			t.Errorf("%s: %s", name, box.Describe(s))
		}
	}
	if r := b.Run("start", "link"); r.Code == 0 {
		t.Errorf("start of a link: %s", r)
	}
}

// BrokenServiceDirectory: what is half-written, foreign or not to be read in
// the service directory harms nothing else.
func BrokenServiceDirectory(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	slots := strings.TrimSpace(b.Shell(box.Service, `ls -d "${RLMINIT_RUNTIME_DIR:-/run/rlminit}/services"`))
	b.Shell(box.Supervisor, `cd `+slots+`
		mkdir half garbage Bad..Name loop
		printf 'command: [sle' >half/service.yaml
		head -c 100000 /dev/urandom >garbage/service.yaml
		echo 'command: [sleep, infinity]' >Bad..Name/service.yaml
		ln -s service.yaml loop/service.yaml
		ln -s /etc linked
		mkfifo fifo; mkdir pipe; mkfifo pipe/service.yaml
		mkdir rooted; echo '{command: [id], user: root}' >rooted/service.yaml
		mkdir .false; echo '{command: [sleep, infinity], profile: alice}' >.false/service.yaml; mv .false false`)
	b.Must("profile", "create", "bob")
	b.Await("gateway-bob", "running")
	status := b.Status()
	if now := status["gateway-alice"]; now.State != "running" || *now.PID != *s.PID {
		t.Errorf("alice: %s", box.Describe(now))
	}
	for name, s := range status {
		if !strings.HasPrefix(name, "gateway-") && s.State == "running" {
			t.Errorf("%s runs: %s", name, box.Describe(s))
		}
	}
	if s := b.Await("false", "failed"); s.Reason == nil || !strings.Contains(*s.Reason, "whose service is gateway-alice") {
		t.Errorf("one that claims to be alice's: %s", box.Describe(s))
	}
	// One that is written where it stands is picked up too, whole or not at first.
	b.Shell(box.Supervisor, `cd `+slots+` && mkdir slow && sleep 0.05 && printf 'command: [sle' >slow/service.yaml && sleep 0.05 && printf 'ep, infinity]\n' >>slow/service.yaml`)
	b.Await("slow", "running")
	// A good one is picked up, and stopped when it is taken away.
	b.Shell(box.Supervisor, `cd `+slots+` && mkdir .good && echo 'command: [sleep, infinity]' >.good/service.yaml && mv .good good`)
	b.Await("good", "running")
	b.Shell(box.Supervisor, `cd `+slots+` && mv good .gone && rm -r .gone`)
	box.Eventually(b, long, "good is gone", func() (bool, any) {
		s, there := b.Status()["good"]
		return !there, box.Describe(s)
	})
}

// HugeRequest: 100 MB to the control socket are refused, and cost nothing.
func HugeRequest(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	r := b.As(box.Service, "nasty", "flood", "/run/rlminit/control.sock", "100")
	if r.Code != 0 || !strings.Contains(r.Out, "refused") {
		t.Errorf("flood: %s", r)
	}
	if now := b.Status()["gateway-alice"]; now.State != "running" || *now.PID != *s.PID {
		t.Errorf("alice: %s", box.Describe(now))
	}
}

package contract

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// rewrite puts another configuration in the place of a box's.
func rewrite(b *box.Box, text string) {
	path := strings.TrimSpace(b.Shell(box.Root, `echo "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`))
	b.Write(box.Root, path, text)
}

// RepairedConfiguration: gateways that a broken configuration has down come up with
// the repaired one, however it is reloaded, and whatever became of them meanwhile.
func RepairedConfiguration(t *testing.T, start New) {
	config := func(command, more string) string {
		return strings.Replace(Config(more), "command: [gateway,", "command: ["+command+",", 1)
	}
	good := config("gateway", "")
	broken := map[string]string{
		"is not there":          config("no-such-gateway", ""),
		"ends at once":          config("nasty, exit, \"1\"", ""),
		"ends at once for good": config("nasty, exit, \"78\"", ""),
		"is never ready":        strings.Replace(config("nasty, sleep", ""), "timeout: 20s", "timeout: 300ms", 1),
		"ends, and is left so":  strings.Replace(config("nasty, exit, \"3\"", ""), "restart: {", "restart: {policy: no, ", 1),
	}
	b := start(t, box.Spec{Config: good})
	names := []string{"alice", "bob", "carol"}
	b.Must(append([]string{"profile", "create"}, names...)...)
	b.Must("profile", "create", "idle")
	b.Must("stop", "idle")
	for what, text := range broken {
		for _, how := range [][]string{{"--wait"}, {"--rolling", "--steady", "100ms"}, nil} {
			t.Logf("%s, reload %v", what, how)
			rewrite(b, text)
			if r := b.Run("reload", "--wait"); r.Code != 1 {
				t.Errorf("reload --wait with one that %s: %s", what, r)
			}
			for _, name := range names {
				b.AwaitThat("gateway-"+name, "is down", func(s control.Service) bool { return s.State != "running" })
			}
			rewrite(b, good)
			if out := b.Must("reload", "--dry-run"); strings.Count(out, ": start: ")+strings.Count(out, ": restart: ") != len(names) {
				t.Errorf("reload --dry-run after one that %s: %q", what, out)
			}
			b.Must(append([]string{"reload"}, how...)...)
			for _, name := range names {
				if s := b.Status()["gateway-"+name]; how != nil && s.State != "running" {
					t.Errorf("after one that %s, reload %v: %s", what, how, box.Describe(s))
				}
				b.Await("gateway-"+name, "running")
			}
		}
	}
	if s := b.Status()["gateway-idle"]; s.State != "stopped" {
		t.Errorf("a reload has started what is stopped: %s", box.Describe(s))
	}
}

// RepairedLifecycle: a change that takes no restart starts what has failed, or waits for
// its next start, and with a count of its own.
func RepairedLifecycle(t *testing.T, start New) {
	services := func(fatal, delay string) string {
		return Services(
			`fatal: {`+bash(`sleep 0.3; exit 78`)+`, exits: {fatal: [`+fatal+`]}}`, // up before it ends, or the answer names it too
			`waits: {`+bash(`exit 3`)+`, ready: {exec: ["false"]}, restart: {delay: `+delay+`, max_delay: 1h, limit: 0}}`,
			`behind: {command: [nasty, sleep], requires: [waits]}`,
		)
	}
	b := start(t, box.Spec{Config: services("78", "1h")})
	b.Await("fatal", "failed")
	waits := b.Await("waits", "backoff")
	rewrite(b, services("79", "30m"))
	b.Fails(1, "waits is not up: exit 3; it is tried again in ", "reload", "--wait")
	b.AwaitThat("waits", "was started out of its back-off", func(s control.Service) bool {
		return s.State == "backoff" && s.LastExit != nil && s.LastExit.At.After(waits.LastExit.At)
	})
	b.AwaitThat("fatal", "is tried again", func(s control.Service) bool {
		return s.LastExit != nil && s.LastExit.At.After(waits.LastExit.At) || s.State == "backoff"
	})
	b.Await("behind", "waiting")
}

// RepairedProfile: a profile.yaml that is faulty and then repaired: what is wanted of the
// gateway is what was last asked for, also while it could not be run.
func RepairedProfile(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	path := b.Home() + "/profiles/alice/profile.yaml"
	good := b.Shell(box.Service, "cat "+path)
	// It goes on running, and dies with it: then it is as it was.
	b.Write(box.Service, path, "command: 7\n")
	refused := func() {
		t.Helper()
		if r := b.Run("reload", "--wait"); r.Code != 1 || !strings.Contains(r.Out, "alice: refuse: ") {
			t.Errorf("reload --wait with a faulty profile.yaml: %s", r)
		}
	}
	refused()
	refused() // as long as it is so
	kill(b, "KILL", *s.PID)
	b.Write(box.Service, path, good+"environment: {MOOD: good}\n")
	b.Must("reload", "--wait")
	if now := b.Status()["gateway-alice"]; now.State != "running" {
		t.Errorf("mended: %s", box.Describe(now))
	}
	// Started while it cannot be run, also under another supervisor.
	for _, replace := range []bool{false, true} {
		b.Must("stop", "alice")
		b.Write(box.Service, path, "command: 7\n")
		refused()
		b.Fails(1, "alice failed: ", "start", "alice")
		if replace {
			old := b.Supervisor()
			kill(b, "KILL", old.PID)
			replaced(b, old.PID)
		}
		b.Write(box.Service, path, good)
		b.Must("reload", "--wait")
		if now := b.Status()["gateway-alice"]; now.State != "running" || now.Desired != "running" {
			t.Errorf("started while it could not be run (another supervisor: %v), then mended: %s", replace, box.Describe(now))
		}
	}
	// Broken before the container starts.
	b.Write(box.Service, path, "command: 7\n")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Await("gateway-alice", "failed")
	b.Write(box.Service, path, good)
	b.Must("reload", "--wait")
	if now := b.Status()["gateway-alice"]; now.State != "running" || now.Desired != "running" {
		t.Errorf("faulty at boot, then mended: %s", box.Describe(now))
	}
	old := b.Supervisor()
	kill(b, "KILL", old.PID)
	replaced(b, old.PID)
	if now := b.Await("gateway-alice", "running"); now.Desired != "running" {
		t.Errorf("by another supervisor: %s", box.Describe(now))
	}
}

// RepairedBetweenSupervisors: a supervisor that is killed at any moment of a reload
// leaves none behind that the repaired configuration could have up.
func RepairedBetweenSupervisors(t *testing.T, start New) {
	config := func(exit string) string {
		var all []string
		for i := range 12 {
			all = append(all, fmt.Sprintf(`web-%02d: {command: [%s], restart: {delay: 10m, max_delay: 10m}}`, i, exit))
		}
		return Services(all...)
	}
	const broken, good = `nasty, exit, "78"`, `nasty, sleep`
	b := start(t, box.Spec{Config: config(good)})
	for round := range 8 {
		rewrite(b, config(broken))
		b.Run("reload", "--wait")
		for i := range 12 {
			b.Await(fmt.Sprintf("web-%02d", i), "failed")
		}
		rewrite(b, config(good))
		old := b.Supervisor()
		// The reload begins, and its supervisor is killed when so many are up.
		done := make(chan box.Result, 1)
		go func() { done <- b.Run("reload", "--wait") }()
		box.Eventually(b, long, "the reload is under way", func() (bool, any) {
			up := 0
			for _, s := range b.Status() {
				if s.State != "failed" {
					up++
				}
			}
			return up >= round, up
		})
		kill(b, "KILL", old.PID)
		<-done
		replaced(b, old.PID)
		b.Must("reload", "--wait") // it may not even have begun
		for i := range 12 {
			b.Await(fmt.Sprintf("web-%02d", i), "running")
		}
	}
}

// NeverReady: whoever waits for one that is never ready is answered when its first
// attempt has failed, and it is given up after so many attempts in a row, though they
// are too far apart for the window.
func NeverReady(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`never: {command: [nasty, sleep], enabled: false, ready: {exec: ["false"], timeout: 300ms}, restart: {delay: 300ms, max_delay: 300ms, limit: 3, window: 500ms}}`,
		`later: {command: [nasty, sleep], enabled: false, ready: {exec: ["false"], timeout: 300ms}, restart: {delay: 10m}}`,
		`ends: {`+bash(`echo no key; exit 3`)+`, enabled: false, ready: {exec: ["false"]}, restart: {delay: 0, limit: 5, window: 1m}}`)})
	b.Fails(1, "later is not up: not ready within 300ms: exited with code 1; it is tried again in ", "start", "later")
	b.Fails(1, "it is tried again in ", "restart", "later")
	b.Fails(1, "see rlminit logs later", "start", "later")
	b.Fails(1, `exit 3, "no key"`, "start", "ends")
	if r := b.Run("start", "later", "--json"); r.Code != 1 || !strings.Contains(strings.ReplaceAll(r.Out, " ", ""), `"retryable":true`) {
		t.Errorf("for programs: %s", r)
	}
	b.Fails(1, "never is not up: not ready within ", "start", "never")
	s := b.Await("never", "failed")
	if s.Reason == nil || !strings.Contains(*s.Reason, "3 starts in a row were never ready, last not ready within ") {
		t.Errorf("%s", box.Describe(s))
	}
}

// RestoredWithoutOwners: all profiles of a volume are root's, as after a backup was unpacked
// without its owners. One line says so; the container is alive and not ready; doctor names
// one command, which mends it. Several are repaired at once, and what is no profile is left.
func RestoredWithoutOwners(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	names := []string{"p1", "p2", "p3", "p4"}
	b.Must(append([]string{"profile", "create"}, names...)...)
	for _, name := range names {
		b.Await("gateway-"+name, "running")
	}
	dir := b.Home() + "/profiles"
	b.Shell(box.Root, "chown -R 0:0 "+dir+"; chmod -R go+rX "+dir+"; chmod 600 "+dir+"/*/profile.yaml")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	before := len(b.Printed())
	b.Again()
	b.Await("gateway-p1", "failed")
	if said := b.Printed()[before:]; strings.Count(said, "services cannot be run") != 1 || strings.Contains(said, "a service cannot be run") || !strings.Contains(said, "services=4 such_as=gateway-p1") {
		t.Errorf("of four profiles it is said: %s", said)
	}
	b.Must("health")
	if r := b.Run("health", "--level", "ready"); r.Code != 1 {
		t.Errorf("health --level ready: %s", r)
	}
	const remedy = "rlminit profile repair --all"
	if out := b.As(box.Root, "rlminit", "doctor").Out; strings.Count(out, remedy) != 1 {
		t.Errorf("doctor: %s", out)
	}
	b.Fails(5, "only root may", "profile", "repair", "--all")
	for _, nobody := range []string{"gateway-", "p1*", "p9"} {
		if r := b.As(box.Root, "rlminit", "profile", "repair", nobody); r.Code == 0 || !strings.Contains(r.Err, "no profile") {
			t.Errorf("repair %s: %s", nobody, r)
		}
	}
	if owner := b.Shell(box.Root, "stat -c %u "+dir+"/p1"); strings.TrimSpace(owner) != "0" {
		t.Errorf("a name that is no profile's gave p1 to uid %s", owner)
	}
	b.Shell(box.Root, "rlminit profile repair p1")
	b.Await("gateway-p1", "running")
	b.Shell(box.Root, "rlminit profile repair p2 p3 p4 && mkdir "+dir+"/lost+found")
	b.Await("gateway-p2", "running")
	b.Shell(box.Root, "chown -R 0:0 "+dir+"/p3 "+dir+"/p4; "+remedy)
	for _, name := range names {
		b.Await("gateway-"+name, "running")
	}
	if out := b.Shell(box.Root, "stat -c %u "+dir+"/lost+found"); out != "0\n" {
		t.Errorf("what is no profile belongs to %s", out)
	}
	if said := b.Printed()[before:]; strings.Contains(said, "cannot start the process") {
		t.Errorf("repairs at once: %s", said)
	}
	b.Must("health", "--level", "ready")
}

// StraySecretsAreNamed: the secrets of a profile whose directory somebody has removed stay,
// over a boot too. doctor names them, without a value, and the command that removes them.
func StraySecretsAreNamed(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Write(box.Service, "/tmp/value", "hush")
	b.Must("profile", "create", "gone", "stays", "--secret", "TOKEN=/tmp/value")
	b.Await("gateway-gone", "running")
	const stray = "secrets of gone are kept"
	doctor := func() string { return b.As(box.Root, "rlminit", "doctor").Out }
	if out := doctor(); strings.Contains(out, "are kept") || !strings.Contains(out, "every secret on the volume is a profile's") {
		t.Errorf("doctor while both are there: %s", out)
	}
	b.Shell(box.Root, "rm -rf "+b.Home()+"/profiles/gone")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Await("gateway-stays", "running")
	box.Eventually(b, long, "doctor names them, once nobody can be making that profile", func() (bool, any) {
		out := doctor()
		return strings.Contains(out, stray), out
	})
	if out := doctor(); strings.Count(out, stray) != 1 || strings.Count(out, "are kept") != 1 || !strings.Contains(out, "rlminit profile secret forget gone TOKEN") || strings.Contains(out, "hush") {
		t.Errorf("doctor after a boot: %s", out)
	}
	b.Must("profile", "secret", "forget", "gone", "TOKEN")
	if out := doctor(); strings.Contains(out, stray) {
		t.Errorf("doctor, of what was forgotten: %s", out)
	}
}

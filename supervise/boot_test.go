package supervise

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/config"
	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/serve"
	"rlminit/wire"
)

const routed = `version: 1
user: app
gateway:
  command: [agent]
  remove_at_boot: [gateway.pid]
services:
  web: {command: [web], enabled: false}
main:
  command: [agent]
  routes: [{args: [web], start: web, then: wait}]
`

// bootAll is a whole boot.
func (p *place) bootAll() {
	p.now.boot(p.control(), func() {})
}

// control is a listening socket, as PID 1 would give it.
func (p *place) control() int {
	p.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(p.TempDir(), "control.sock")})
	if err != nil {
		p.Fatal(err)
	}
	defer listener.Close()
	listener.SetUnlinkOnClose(false)
	file, err := listener.File()
	if err != nil {
		p.Fatal(err)
	}
	defer file.Close()
	return duplicates(p.T, []int{int(file.Fd())})[0]
}

// A supervisor that is killed during the boot, wherever, has a successor that
// finishes what is left of it and does nothing twice.
func TestBootIsFinishedByTheSuccessor(t *testing.T) {
	stages := []struct {
		name string
		do   func(*place)
	}{
		{"nothing was done", func(p *place) {}},
		{"the profiles were prepared", func(p *place) {
			p.now.Registry.Clean()
		}},
		{"the boot was told", func(p *place) {
			if err := p.now.Registry.Tell(); err != nil {
				p.Fatal(err)
			}
		}},
		{"all was registered", func(p *place) { p.now.Registry.TakeUp() }},
		{"what it is for was started", func(p *place) {
			if _, err := p.now.startFor("web"); err != nil {
				p.Fatal(err)
			}
			p.await("web", "running")
		}},
		{"what it is for has ended", func(p *place) {
			p.exit("web")
			p.await("web", "exited")
			p.now.Tier1.Link.Flush()
			p.mu.Lock()
			defer p.mu.Unlock()
			p.ended = nil // and PID 1 has not been told
		}},
		{"all was done", func(p *place) { p.now.fulfil() }},
	}
	for i, last := range stages {
		t.Run(last.name, func(t *testing.T) {
			p := newPlace(t, routed, "web")
			for _, name := range []string{"alice", "bob"} {
				p.write("profiles/"+name+"/profile.yaml", "")
				p.write("profiles/"+name+"/gateway.pid", "of another life")
			}
			p.write("profiles/alice/gateway_state.json", `{"desired_state":"running"}`)
			p.write("logs/container-boot.log", "2026-05-24T18:05:33+0000 profile=alice prior_state=running action=started\n")
			p.open()
			for _, stage := range stages[:i+1] {
				stage.do(p)
			}
			p.copied(1e9)
			if i >= 3 {
				p.await("gateway-alice", "running")
				p.write("profiles/alice/gateway.pid", "of this life")
			}
			p.kill()
			p.supervise("web")
			p.bootAll()

			p.await("gateway-alice", "running")
			p.await("gateway-bob", "stopped")
			if i < 5 {
				p.await("web", "running")
			}
			log := p.read("logs/container-boot.log")
			for _, line := range []string{`profile=alice prior_state=\S+ action=started`, `profile=bob prior_state=none action=registered`} {
				want := 1
				if strings.Contains(line, "alice") {
					want = 2 // with the boot before
				}
				if n := len(regexp.MustCompile(line).FindAllString(log, -1)); n != want {
					t.Errorf("%d lines %s, want %d, in\n%s", n, line, want, log)
				}
			}
			if _, err := os.Lstat(p.home + "/profiles/bob/gateway.pid"); err == nil {
				t.Error("bob's gateway.pid was not removed")
			}
			if p.spawned("gateway-alice") != 1 || p.spawned("web") != 1 {
				t.Errorf("alice was started %d times, web %d times", p.spawned("gateway-alice"), p.spawned("web"))
			}
			if text, err := os.ReadFile(p.home + "/profiles/alice/gateway.pid"); i >= 3 && string(text) != "of this life" {
				t.Errorf("the pid file of a gateway that ran holds %q: %v", text, err)
			}
			if state, _ := p.state("web"); (state == "exited") != (i >= 5) {
				t.Errorf("web is %s", state)
			}
			p.eventually("the end is told, if it is one", func() (bool, any) {
				p.mu.Lock()
				defer p.mu.Unlock()
				return (len(p.ended) == 1) == (i >= 5), p.ended
			})
		})
	}
}

// What the container's arguments have started is not stopped by a successor for
// what is recorded of it.
func TestSuccessorKeepsWhatTheContainerIsFor(t *testing.T) {
	p := newPlace(t, routed, "web")
	p.open()
	if err := p.now.Volume.Store().Records.TakeOver(map[string]service.Intent{"web": service.Stopped}, nil); err != nil {
		t.Fatal(err)
	}
	p.now.Registry.TakeUp()
	p.now.fulfil()
	p.await("web", "running")
	p.copied(1e9)
	p.kill()
	p.supervise("web")
	p.bootAll()
	if state, _ := p.state("web"); state != "running" || p.spawned("web") != 1 {
		t.Errorf("web is %s, started %d times", state, p.spawned("web"))
	}
}

// A slot of which the watcher tells before a successor has taken over is taken
// over, not started a second time.
func TestSlotIsNoticedBeforeItIsRestored(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\n")
	p.open()
	d := service.Default("web")
	d.Command = []string{"web"}
	if _, err := p.now.slots.Publish("web", service.Encode(d)); err != nil {
		t.Fatal(err)
	}
	p.now.Registry.Notice("web")
	p.await("web", "running")
	p.copied(1e9)
	p.kill()
	p.supervise()
	noticed := make(chan struct{})
	go func() {
		p.now.Registry.Notice("web")
		close(noticed)
	}()
	p.now.boot(p.control(), func() {})
	<-noticed
	p.await("web", "running")
	if n := p.spawned("web"); n != 1 {
		t.Errorf("it was started %d times", n)
	}
}

// A child that no unit answers for is ended, though its spawn was still pending
// when it was found, and so is what it leaves behind.
func TestDismissedChildEnds(t *testing.T) {
	for _, name := range []string{"ghost", config.MainService} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, "version: 1\nuser: app\n")
			p.now.Tier1.Children[name] = []wire.Child{{ID: 7, Name: name, State: wire.ChildPending}}
			p.open()
			sent := func(n int, want string) {
				t.Helper()
				p.eventually("signal "+want, func() (bool, any) {
					p.mu.Lock()
					defer p.mu.Unlock()
					return len(p.sent) == n && p.sent[n-1] == want, p.sent
				})
			}
			sent(1, "9 to 7, scope 1")
			p.now.loop.Hear(&wire.Spawned{ID: 7, PID: 107}, nil)
			sent(2, "9 to 7, scope 1")
			p.now.loop.Hear(&wire.Exited{ID: 7, Exit: wire.Exit{Signal: 9, Leftovers: 1}}, nil)
			sent(3, "9 to 7, scope 2")
			p.now.loop.Hear(&wire.Spawned{ID: 8, PID: 108}, nil) // nobody's, but not ours to end
			p.now.loop.Services.Withdraw(nil)                    // after that
			p.now.Tier1.Link.Flush()
			sent(3, "9 to 7, scope 2")
		})
	}
}

// A successor that cannot list the service directory adopts what runs all the
// same, and hears of its end.
func TestServiceDirectoryCannotBeListed(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\nservices: {web: {command: [web]}}\n")
	p.bootAll()
	p.await("web", "running")
	p.copied(10 * time.Second)
	p.kill()
	p.supervise()
	readable := p.now.slots.Path
	p.now.slots.Path = readable + "/web/service.yaml" // no directory
	p.open()
	p.now.slots.Path = readable
	p.await("web", "running")
	p.exit("web")
	p.eventually("its end is heard", func() (bool, any) {
		state, _ := p.state("web")
		return state != "running" && p.spawned("web") == 1, state
	})
}

// What a reload cannot bring to what runs, it names.
func TestReloadNamesWhatCountsLater(t *testing.T) {
	p := newPlace(t, gateways+"env_file: []\nservices: {web: {command: [web], enabled: no}}\n")
	p.open()
	p.now.Registry.TakeUp()
	p.configure(p.home, gateways+`environment: {A: b}
inherit_env: [PATH]
strict: true
dirs: [cache]
services: {web: {command: [web]}}
`)
	want := []string{
		"strict changed: that needs a new container (docker restart)",
		"dirs changed: that needs a new container (docker restart)",
		"environment changed: each service has it from its next start on (rlminit restart --all)",
		"inherit_env changed: each service has it from its next start on (rlminit restart --all)",
	}
	done, err := p.now.Registry.Reload(control.Reload{DryRun: true})
	if err != nil || !slices.Equal(done.Notes, want) || len(done.Changes) != 1 || !strings.HasPrefix(done.Changes[0].Why, "enabled changed") {
		t.Errorf("%+v %v, want the notes %q", done, err, want)
	}
}

// topKeys are the keys of rlminit.yaml.
func topKeys(t *testing.T) map[string]any {
	t.Helper()
	for _, shape := range config.Schemas()[config.ConfigurationFile]["anyOf"].([]any) {
		if keys, ok := shape.(map[string]any)["properties"].(map[string]any); ok {
			return keys
		}
	}
	t.Fatal("the schema has no keys")
	return nil
}

// Whatever changes at the top of a configuration, a reload and its dry run say when it
// counts. Each key that there is has a change here.
func TestReloadNamesEveryKey(t *testing.T) {
	const base = "version: 1\ngateway: {command: [agent]}\nservices: {web: {command: [web], enabled: no}}\n"
	restart, once, later := ": that needs a new container", ": that counts at once", " from its next start on"
	changes := map[string]struct{ line, says string }{
		"user":            {"user: other", restart},
		"supervisor_user": {"supervisor_user: 4711:4711", restart},
		"stop_timeout":    {"stop_timeout: 5s", restart},
		"strict":          {"strict: true", restart},
		"parent_death":    {"parent_death: TERM", restart},
		"warn_on_reap":    {"warn_on_reap: true", restart},
		"verbose":         {"verbose: 2", restart},
		"tags":            {"tags: 50000-50999", restart},
		"profile_users":   {"profile_users: 41000-44999", restart},
		"groups_of":       {"groups_of: [/var/run/docker.sock]", restart},
		"metrics":         {`metrics: {listen: "tcp:127.0.0.1:9100"}`, restart},
		"page":            {`page: {listen: "unix:/p", user: 4711}`, restart},
		"main":            {"main: {command: [main]}", restart},
		"remap":           {`remap: {uid: ["4711"]}`, restart},
		"own":             {"own: [cache]", restart},
		"dirs":            {"dirs: [cache]", restart},
		"seed":            {"seed: [{from: /usr/share, to: share}]", restart},
		"boot":            {"boot: [{command: [true]}]", restart},
		"access":          {"access: {read: all}", once},
		"apply":           {"apply: {allow: []}", once},
		"jobs":            {"jobs: {at_once: 1}", once},
		"hooks":           {"hooks: [{on: [failed], command: [notify]}]", once},
		"environment":     {"environment: {A: b}", later},
		"env_file":        {`env_file: ["?/etc/environment"]`, later},
		"inherit_env":     {"inherit_env: [PATH]", later},
		"gateway":         {"", once},
		"gateways":        {"gateways: {web: {command: [web]}}", once},
		"fleet":           {"", ""}, // what changes is its service
		"services":        {"", ""},
		"version":         {"", ""}, // which has one value
		"home":            {"", ""}, // TestReloadKeepsWhatNeedsANewContainer
	}
	for key := range topKeys(t) {
		if _, there := changes[key]; !there {
			t.Errorf("nobody has looked at what a reload says of %s", key)
		}
	}
	p := newPlace(t, "user: app\n"+base)
	p.open()
	p.now.Registry.TakeUp()
	notes := func(text string) []string {
		t.Helper()
		p.configure(p.home, text)
		done, err := p.now.Registry.Reload(control.Reload{DryRun: true})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			return nil
		}
		return done.Notes
	}
	for key, change := range changes {
		if change.line == "" {
			continue
		}
		text := "user: app\n" + base + change.line + "\n"
		if key == "user" {
			text = base + change.line + "\n"
		}
		if got := notes(text); len(got) != 1 || !strings.HasPrefix(strings.Replace(got[0], "page.user", "page", 1), key+" changed") || !strings.Contains(got[0], change.says) {
			t.Errorf("of %s it says %q", key, got)
		}
	}
	for _, section := range []string{"command: [other]", "command: [agent], ports: 9000-9100", "command: [agent], default: {limits: {core: 0}}"} {
		text := strings.Replace("user: app\n"+base, "command: [agent]", section, 1)
		if got := notes(text); len(got) != 1 || got[0] != "gateway changed"+once {
			t.Errorf("of the gateway's %s it says %q", section, got)
		}
	}
	p.configure(p.home, "user: app\n"+base+"access: {read: all}\n")
	done, err := p.now.Registry.Reload(control.Reload{})
	if err != nil || !slices.Equal(done.Notes, []string{"access changed" + once}) || !p.now.Preparer.Config().ReadAll {
		t.Errorf("%+v, %v", done, err)
	}
	if done, err = p.now.Registry.Reload(control.Reload{}); err != nil || len(done.Notes) > 0 {
		t.Errorf("again: %+v, %v", done, err)
	}
}

// What needs a new container is as the container was started with, whatever the
// file says at a reload, and for a successor too; and it is said each time.
func TestReloadKeepsWhatNeedsANewContainer(t *testing.T) {
	const before = gateways + "main: {command: [one]}\nservices: {db: {command: [db], user: postgres}, web: {command: [web]}}\n"
	const after = `version: 1
user: other
gateway: {command: [agent, "${RLMINIT_HOME}"]}
main: {command: [two], exit_on: web}
services:
  db: {command: [db, new], user: postgres}
  web: {command: [web, new], user: other}
  root: {command: [id], sandbox: {capabilities: [NET_ADMIN]}}
`
	p := newPlace(t, before)
	p.open()
	p.now.Registry.TakeUp()
	elsewhere := t.TempDir()
	p.configure(elsewhere, after)
	for range 2 {
		done, err := p.now.Registry.Reload(control.Reload{})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"user", "home", "main", "privileged services"} {
			if notes := strings.Join(done.Notes, "\n"); !strings.Contains(notes, part+" changed: that needs a new container") {
				t.Errorf("%s is not in %q", part, notes)
			}
		}
	}
	check := func() {
		t.Helper()
		created(p, "alice", `,"exist_ok":true`)
		if _, err := os.Lstat(elsewhere + "/profiles"); err == nil {
			t.Error("the profile was made on another volume")
		}
		c := p.now.Preparer.Config()
		if c.Home != p.home || c.User != "app" || c.Main.Command[0] != "one" || c.Main.ExitOn != "" || p.now.Purpose.With != "" {
			t.Errorf("home %s, user %s, main %v, exit_on %q", c.Home, c.User, c.Main.Command, c.Main.ExitOn)
		}
		p.now.loop.Commands.Read(func(now serve.Services) {
			alice, db, web := now.Named("gateway-alice"), now.Named("db"), now.Named("web")
			if got := alice.Definition.Command[1]; got != p.home {
				t.Errorf("${RLMINIT_HOME} is %s", got)
			}
			if len(db.Definition.Command) != 1 || len(web.Definition.Command) != 1 || web.Definition.User != "" {
				t.Errorf("db is %v, web %v as %q", db.Definition.Command, web.Definition.Command, web.Definition.User)
			}
			if now.Named("root") != nil {
				t.Error("a service runs without the privilege that it asks for")
			}
		})
	}
	check()
	p.copied(1e9)
	p.kill()
	p.configure(p.home, before)
	p.supervise()
	p.bootAll()
	check()
}

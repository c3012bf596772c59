package supervise

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/registry"
	"rlminit/supervise/serve"
	"rlminit/supervise/slots"
)

const gateways = `version: 1
user: app
gateway:
  command: [agent]
  stop: {timeout: 1h}
`

// What was registered last is in force, however often the watcher looks at the
// slot meanwhile.
func TestWhatWasRegisteredLastStays(t *testing.T) {
	p := newPlace(t, "version: 1\nuser: app\n")
	p.open()
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					p.now.Registry.Notice("web")
				}
			}
		})
	}
	defer all.Wait()
	defer close(stop)
	for i := range 100 {
		d := service.Default("web")
		d.Command = []string{"true", fmt.Sprint(i)}
		prop := registry.Ours(d)
		p.now.Registry.Register(prop)
		p.now.Registry.Notice("web")
		if now := p.unit("web"); now == nil || string(p.remembered("web").Definition) != prop.Fingerprint || !now.Ours {
			t.Fatalf("version %d was registered, and another is in force", i)
		}
	}
}

// created makes a profile, and waits until its gateway is as it is to be.
func created(p *place, name, body string) {
	p.Helper()
	if _, err := p.create(`{"name":"` + name + `"` + body + `}`); err != nil {
		p.Fatal(err)
	}
	p.eventually("it is registered", func() (bool, any) {
		state, _ := p.state("gateway-" + name)
		return state == "running" || state == "stopped", state
	})
}

// A profile for which no port is left is said to have none; one that is to have
// none is not.
func TestCreatedWithoutPort(t *testing.T) {
	for ports, want := range map[string]string{"9200-9200": "no port: all of gateway.ports are taken", "off": ""} {
		p := newPlace(t, "version: 1\nuser: app\ngateway: {command: [gateway], ports: "+ports+"}\n")
		p.open()
		created(p, "alice", "")
		for _, wait := range []string{"", `,"wait":{}`} {
			outcome, err := p.create(`{"name":"bob","exist_ok":true` + wait + "}")
			if err != nil || outcome.Note != want {
				t.Errorf("ports %s: %+v, %v, want the note %q", ports, outcome, err, want)
			}
		}
	}
}

// A slot that is taken out by hand and put back as it was, at once or later, is
// the service that it was before: it runs, and its record counts.
func TestSlotTakenOutAndPutBack(t *testing.T) {
	for name, deaf := range map[string]bool{"when it was gone": false, "while it was stopping": true} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, gateways)
			p.deaf["gateway-alice"] = deaf
			p.open()
			created(p, "alice", "")
			p.await("gateway-alice", "running")
			slot, aside := p.now.slots.File("gateway-alice"), p.now.slots.File(".aside")
			if err := os.Rename(slot, aside); err != nil {
				t.Fatal(err)
			}
			p.now.Registry.Notice("gateway-alice")
			if deaf {
				p.await("gateway-alice", "stopping")
			} else {
				p.await("gateway-alice", "")
				p.copied(1e9)
				if text := p.read("profiles/alice/gateway_state.json"); !strings.Contains(text, `"desired_state":"running","gateway_state":"stopped","pid":0,`) {
					t.Errorf("recorded as %s", text)
				}
			}
			if err := os.Rename(aside, slot); err != nil {
				t.Fatal(err)
			}
			p.now.Registry.Notice("gateway-alice")
			if deaf {
				p.exit("gateway-alice")
			}
			p.eventually("it is started again", func() (bool, any) {
				n := p.spawned("gateway-alice")
				return n == 2, n
			})
			p.await("gateway-alice", "running")
			p.now.loop.Commands.Read(func(now serve.Services) {
				if u := now.Named("gateway-alice"); !u.Ours || !p.remembered("gateway-alice").Recorded || u.Definition.Profile != "alice" {
					t.Errorf("ours %v, recorded %v, profile %q", u.Ours, p.remembered("gateway-alice").Recorded, u.Definition.Profile)
				}
			})
		})
	}
}

// removeByHand removes a profile's directory, in which something may be written
// at this moment.
func (p *place) removeByHand(name string) {
	p.Helper()
	p.eventually("its directory is removed", func() (bool, any) {
		err := os.RemoveAll(p.home + "/profiles/" + name)
		return err == nil, err
	})
}

// A profile that is made where one was removed by hand a moment ago gets a
// process of its own, or none.
func TestCreatedWhereOneWasRemoved(t *testing.T) {
	for body, want := range map[string]string{"": "running", `,"stopped":true`: "stopped"} {
		p := newPlace(t, gateways)
		p.open()
		created(p, "alice", "")
		p.await("gateway-alice", "running")
		p.removeByHand("alice")
		created(p, "alice", body)
		if want == "running" {
			p.eventually("it is started anew", func() (bool, any) {
				n := p.spawned("gateway-alice")
				return n == 2, n
			})
		}
		p.await("gateway-alice", want)
		p.now.loop.Commands.Read(func(now serve.Services) {
			if u := now.Named("gateway-alice"); string(u.Desired) != want {
				t.Errorf("desired is %s, want %s", u.Desired, want)
			}
		})
	}
}

// What is put into the service directory is told that it gets no privilege.
func TestSlotWithoutPrivilege(t *testing.T) {
	heard := overhear(t)
	p := newPlace(t, gateways)
	p.open()
	for name, text := range map[string]string{"plain": "command: [id]\n", "bold": "command: [id]\nuser: postgres\n"} {
		if _, err := p.now.slots.Publish(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		p.now.Registry.Notice(name)
		p.await(name, "running")
	}
	if lines := heard.about("put here by hand"); len(lines) != 1 || !strings.Contains(lines[0], "service=bold") {
		t.Errorf("said %q", lines)
	}
}

// A definition that was spoilt by hand and put right again is in force again.
func TestSlotSpoiltAndMended(t *testing.T) {
	p := newPlace(t, gateways)
	p.open()
	created(p, "alice", "")
	source, err := p.now.slots.Read("gateway-alice", slots.DefinitionFile, slots.DefinitionMax)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{[]byte("command: 5"), source} {
		if _, err := p.now.slots.Publish("gateway-alice", text); err != nil {
			t.Fatal(err)
		}
		p.now.Registry.Notice("gateway-alice")
	}
	p.now.loop.Commands.Read(func(now serve.Services) {
		if u := now.Named("gateway-alice"); u.Fault != "" || !u.Ours {
			t.Errorf("fault %q, ours %v", u.Fault, u.Ours)
		}
	})
}

// A profile whose gateway takes its time to stop keeps nobody waiting but who
// deletes it, and nobody registers it again meanwhile.
func TestSlowDeletionKeepsNobodyWaiting(t *testing.T) {
	p := newPlace(t, gateways)
	p.deaf["gateway-alice"] = true
	p.open()
	created(p, "alice", "")
	deleted := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := p.now.Registry.Profiles.Delete(t.Context(), "alice", control.Deletion{}, control.Actor{})
			deleted <- err
		}()
	}
	p.await("gateway-alice", "stopping")
	created(p, "bob", "")
	if _, err := p.now.Registry.Reload(control.Reload{}); err != nil {
		t.Fatal(err)
	}
	p.now.Registry.Look()
	if _, err := p.create(`{"name":"alice","exist_ok":true}`); err == nil || !strings.Contains(err.Error(), "is being deleted") {
		t.Errorf("created while it is deleted: %v", err)
	}
	p.exit("gateway-alice")
	first, second := <-deleted, <-deleted
	if first != nil {
		first, second = second, first // whichever was told first
	}
	if first != nil || second == nil || !strings.Contains(second.Error(), "no profile") {
		t.Errorf("deleted twice: %v; %v", first, second)
	}
	p.now.Registry.Look()
	if state, there := p.state("gateway-alice"); there {
		t.Errorf("a deleted profile is %s", state)
	}
	created(p, "alice", "")
}

// A profile that comes back while its gateway still stops is registered again
// when that is gone.
func TestProfileThatComesBackWhileItStops(t *testing.T) {
	p := newPlace(t, gateways)
	p.deaf["gateway-alice"] = true
	p.open()
	created(p, "alice", "")
	dir, aside := p.home+"/profiles/alice", p.home+"/alice"
	for _, move := range [][2]string{{dir, aside}, {aside, dir}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
		p.now.Registry.Look()
		p.await("gateway-alice", "stopping")
	}
	p.exit("gateway-alice")
	p.eventually("it is started again", func() (bool, any) {
		n := p.spawned("gateway-alice")
		return n == 2, n
	})
	p.await("gateway-alice", "running")
}

// Without a gateway section nothing is known of profiles, so nothing is written
// into them: what is called gateway_state.json there may be an application's.
func TestNoGatewayNoStateFile(t *testing.T) {
	p := newPlace(t, gateways+"  state_file: rlminit.json\n")
	p.open()
	created(p, "alice", "")
	p.write("profiles/alice/gateway_state.json", "theirs")
	p.configure(p.home, "version: 1\nuser: app\n")
	if _, err := p.now.Registry.Reload(control.Reload{}); err != nil {
		t.Fatal(err)
	}
	p.await("gateway-alice", "")
	if err := p.now.Volume.Store().Records.SaveSeen([]string{"alice"}, []profiles.Seen{{State: service.SeenRunning}}, 1)[0]; err == nil {
		t.Error("the state of a profile was recorded, and there are none")
	}
	p.copied(0)
	if text := p.read("profiles/alice/gateway_state.json"); text != "theirs" {
		t.Errorf("an application's file holds %q", text)
	}
}

// A profile.yaml that was changed by hand is taken up when somebody says so, not
// because another profile appears; by set at once.
func TestWhenAChangedProfileIsTakenUp(t *testing.T) {
	p := newPlace(t, gateways)
	p.open()
	created(p, "alice", "")
	p.write("profiles/alice/profile.yaml", "environment: {A: b}\n")
	p.write("profiles/bob/profile.yaml", "")
	p.now.Registry.Look("bob")
	p.await("gateway-bob", "stopped")
	if state, _ := p.state("gateway-alice"); state != "running" || p.spawned("gateway-alice") != 1 {
		t.Errorf("alice is %s", state)
	}
	again := func(times int) {
		t.Helper()
		p.eventually("alice is started again", func() (bool, any) {
			n := p.spawned("gateway-alice")
			return n == times, n
		})
		p.await("gateway-alice", "running")
	}
	if _, err := p.now.Registry.Reload(control.Reload{Names: []string{"alice"}}); err != nil {
		t.Fatal(err)
	}
	again(2)
	if _, err := p.now.Registry.Profiles.Edit("alice", control.ReplaceProfile{Text: "environment: {A: c}\n", Restart: true}, control.Actor{}); err != nil {
		t.Fatal(err)
	}
	again(3)
	p.removeByHand("alice")
	if _, err := p.now.Registry.Reload(control.Reload{Names: []string{"alice"}}); err != nil {
		t.Fatal(err)
	}
	p.await("gateway-alice", "")
}

// A reload that only says what it would do takes nothing from a service whose
// definition would change, and does not make one that was put in by hand its own.
func TestDryRunChangesNothing(t *testing.T) {
	const before = "version: 1\nuser: app\nservices: {web: {command: [web], control: true}}\n"
	p := newPlace(t, before)
	p.open()
	p.now.Registry.TakeUp()
	p.put("other")
	p.await("other", "running")
	p.configure(p.home, "version: 1\nuser: app\nservices: {web: {command: [new]}, other: {command: [theirs]}}\n")
	if done, err := p.now.Registry.Reload(control.Reload{DryRun: true}); err != nil || len(done.Changes) != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	p.now.loop.Commands.Read(func(now serve.Services) {
		if web := now.Named("web"); !web.Ours {
			t.Error("what root's configuration grants is taken back")
		}
		if p.remembered("other").Recorded {
			t.Error("what was put in by hand counts as configured")
		}
	})
}

// What somebody puts into the place of a gateway whose profile is being deleted
// is picked up when the profile is gone, and is nobody's gateway.
func TestSlotPutInThePlaceOfADeletedProfile(t *testing.T) {
	p := newPlace(t, gateways)
	p.deaf["gateway-alice"] = true
	p.open()
	created(p, "alice", "")
	p.await("gateway-alice", "running")
	deleted := make(chan error, 1)
	go func() {
		_, err := p.now.Registry.Profiles.Delete(t.Context(), "alice", control.Deletion{}, control.Actor{})
		deleted <- err
	}()
	p.await("gateway-alice", "stopping")
	slot := p.now.slots.File("gateway-alice")
	if err := os.Rename(slot, p.now.slots.File(".aside")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.now.slots.Publish("gateway-alice", []byte("command: [stranger]\n")); err != nil {
		t.Fatal(err)
	}
	p.now.Registry.Notice("gateway-alice")
	p.exit("gateway-alice")
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	p.eventually("the stranger's runs", func() (bool, any) {
		state, _ := p.state("gateway-alice")
		return state == "running" && p.spawned("gateway-alice") == 2, state
	})
	p.now.Registry.Look() // as a reload does
	p.now.loop.Commands.Read(func(now serve.Services) {
		u := now.Named("gateway-alice")
		if u == nil || p.remembered("gateway-alice").Recorded || u.State.Removed || u.Definition.Profile != "" {
			t.Errorf("it is taken for a profile's: %+v", u)
		}
	})
}

// After the reload of one service, or one profile, the others keep what they
// have, with a successor too, until all is reloaded.
func TestReloadOfOneIsOfOneWithASuccessorToo(t *testing.T) {
	text := func(version string) string {
		return "version: 1\nuser: app\nenvironment: {ALL: " + version + "}\ngateway: {command: [gateway, " + version + "]}\n" +
			"services: {one: {command: [one, " + version + "]}, two: {command: [two, " + version + "]}}\n"
	}
	p := newPlace(t, text("old"))
	p.bootAll()
	created(p, "alice", "")
	created(p, "bob", "")
	all := []string{"one", "two", "gateway-alice", "gateway-bob"}
	check := func(when string, renewed ...string) {
		t.Helper()
		for _, name := range all {
			p.await(name, "running")
			want, spawns := "old", 1
			if slices.Contains(renewed, name) {
				want, spawns = "new", 2
			}
			p.now.loop.Commands.Read(func(now serve.Services) {
				d := now.Named(name).Definition
				env, err := p.now.Preparer.Environment(d, 0)
				if err != nil || d.Command[1] != want || !slices.Contains(env, "ALL="+want) {
					t.Errorf("%s: %s runs %q, %v, not the %s one", when, name, d.Command, err, want)
				}
			})
			if n := p.spawned(name); n != spawns {
				t.Errorf("%s: %s was started %d times, want %d", when, name, n, spawns)
			}
		}
	}
	check("at first")
	p.configure(p.home, text("new"))
	for i, name := range []string{"one", "alice"} {
		done, err := p.now.Registry.Reload(control.Reload{Names: []string{name}})
		of := []string{"one", "gateway-alice"}[i]
		if want := []string{"environment changed: " + of + " has it from its next start on (rlminit restart " + of + ")"}; err != nil || !slices.Equal(done.Notes, want) {
			t.Fatalf("%+v %v, want the notes %q", done, err, want)
		}
		p.eventually(name+" is new", func() (bool, any) {
			n := p.spawned(of)
			return n == 2, n
		})
	}
	check("after the reload of some", "one", "gateway-alice")
	p.copied(10 * time.Second)
	p.now.Tier1.Link.Flush()
	p.kill()
	p.supervise()
	p.bootAll()
	check("with the successor", "one", "gateway-alice")
	if _, err := p.now.Registry.Reload(control.Reload{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		p.eventually(name+" is new", func() (bool, any) {
			n := p.spawned(name)
			return n == 2, n
		})
	}
	check("after the reload of all", all...)
}

// A profile that is reloaded by name from a configuration that has no gateways
// any more has no definition there.
func TestReloadOfOneWithoutGateways(t *testing.T) {
	p := newPlace(t, gateways)
	p.bootAll()
	created(p, "alice", "")
	created(p, "bob", "")
	p.configure(p.home, "version: 1\nuser: app\n")
	done, err := p.now.Registry.Reload(control.Reload{Names: []string{"alice"}})
	if err != nil || len(done.Changes) != 1 || done.Changes[0].Service != "gateway-alice" || done.Changes[0].Action != "remove" {
		t.Fatalf("%+v %v, want alice's gateway removed", done, err)
	}
	p.await("gateway-alice", "")
	p.await("gateway-bob", "running")
	p.now.Registry.Look()
	if state, there := p.state("gateway-alice"); there {
		t.Errorf("alice's gateway is back, %s", state)
	}
	if _, err := p.now.Registry.Profiles.Edit("alice", control.ReplaceProfile{Text: "environment: {A: b}\n"}, control.Actor{}); err == nil || !strings.Contains(err.Error(), "the configuration that was reloaded for alice has no gateway section") {
		t.Errorf("its environment is set: %v", err)
	}
}

// A definition that was refused goes with its profile.
func TestSlotSpoiltAndDeleted(t *testing.T) {
	p := newPlace(t, gateways)
	p.open()
	created(p, "alice", "")
	if _, err := p.now.slots.Publish("gateway-alice", []byte("command: 5")); err != nil {
		t.Fatal(err)
	}
	p.now.Registry.Notice("gateway-alice")
	if _, err := p.now.Registry.Profiles.Delete(t.Context(), "alice", control.Deletion{}, control.Actor{}); err != nil {
		t.Fatal(err)
	}
	p.eventually("its slot is gone", func() (bool, any) {
		names, err := p.now.slots.List()
		return err == nil && len(names) == 0, names
	})
	p.await("gateway-alice", "")
}

// Of many who change a profile at once, what is on the volume in the end is in force.
func TestWhatManySetIsInForce(t *testing.T) {
	p := newPlace(t, gateways)
	p.bootAll()
	if _, err := p.create(`{"name": "alice"}`); err != nil {
		t.Fatal(err)
	}
	for round := range 20 {
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				value := fmt.Sprint(round, "-", i)
				if _, err := p.now.Registry.Profiles.Edit("alice", control.ReplaceProfile{Text: "environment: {A: " + value + "}\n"}, control.Actor{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		kept, err := p.now.Volume.Store().Load("alice")
		if err != nil {
			t.Fatal(err)
		}
		inForce := ""
		p.now.loop.Commands.Read(func(now serve.Services) { inForce = fmt.Sprint(now.Named("gateway-alice").Definition.Environment) })
		if value := kept.Environment()["A"]; !strings.Contains(inForce, value) {
			t.Fatalf("on the volume is %s, and in force %s", value, inForce)
		}
	}
}

package loop

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rlminit/config"
	"rlminit/control"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/registry"
	"rlminit/supervise/slots"
	"rlminit/wire"
)

// A simulation with profiles on its volume, that are made, deleted, had back, renamed and
// removed from the trash by the product's own registry, as the control socket asks it, while all else goes on.
// Each bears an id in its environment, by which it is known wherever it lies. What a
// watcher would hear of the volume is told after each step.

// TestSimulationOfProfiles is TestSimulation with the commands on profiles among its own.
func TestSimulationOfProfiles(t *testing.T) {
	runs := *simRuns
	if runs == shortRuns {
		runs = 8 // each takes longer
	}
	total := simulate(t, runs, (*simulation).moveIn)
	often := []string{"create done", "delete done", "rename done", "rename killed", "booted anew", "replaced", "rolling", "disk broken"}
	if runs >= 100 {
		often = append(often, "purge done", "empty done", "restore done", "set done", "create refused", "delete refused", "purge refused", "rename refused", "restore refused",
			"create killed", "delete killed", "purge killed", "empty killed", "restore killed", "delete when rolling", "purge when rolling", "rename when rolling")
	}
	for _, what := range often {
		if !fewRuns() && *simSeed == 0 && runs >= 8 && total[what] == 0 {
			t.Errorf("in %d runs nothing was %s", runs, what)
		}
	}
}

// homes are the profiles of a simulation. The test's goroutine has them, but for path and
// gone, which are under the lock.
type homes struct {
	sim     *simulation
	config  *config.Config
	bundle  config.Bundle // that config was made of
	runtime string
	names   []string
	all     map[string]*home  // by id
	errands []*errand         // under way
	seen    map[string]string // id by name, as the watcher has it
	made    int               // the number of the latest id
	lagging map[string]bool   // names of which the journal may have what is not there any more
	touched map[string]int    // how often a service was commanded
	out     map[string]bool   // names whose slot was taken out by hand, until they are registered again

	mu   sync.Mutex
	path int             // the number of the service directory of the moment
	gone map[string]bool // by id: its deletion was acknowledged
}

// home is one profile, whatever its name.
type home struct {
	id     string
	binned bool           // it has been in the trash, where none has secrets
	gone   bool           // its deletion was acknowledged, and nobody has had it back since
	intent service.Intent // as acknowledged; IntentNone: not sure
}

func (h *homes) has(name string) bool {
	return h != nil && strings.HasPrefix(name, service.GatewayPrefix)
}

func profileOf(name string) string { return strings.TrimPrefix(name, service.GatewayPrefix) }

// moveIn has a simulation have profiles, and services that require one and are required.
func (s *simulation) moveIn() {
	h := &homes{
		sim: s, runtime: s.TempDir(), names: []string{"ann", "bob", "cid", "dot"}, all: map[string]*home{}, seen: map[string]string{},
		lagging: map[string]bool{}, touched: map[string]int{}, out: map[string]bool{}, gone: map[string]bool{},
	}
	s.homes = h
	h.slotsAre(1)
	restart := "{policy: always, delay: 100ms, max_delay: 2s, reset_after: 5s, limit: 0}"
	text := "version: 1\nuser: app\nhome: " + s.home + "\n" +
		"gateway:\n  command: [/bin/true]\n  requires: [base]\n  stop: {timeout: 1s}\n  restart: " + restart + "\n" +
		"services:\n"
	for _, of := range [][2]string{{"base"}, {"top", "requires: [gateway-ann], wants: [gateway-bob], "}, {"lone", "after: [gateway-cid], "}} {
		text += "  " + of[0] + ": {command: [/bin/true], " + of[1] + "stop: {timeout: 1s}, restart: " + restart + "}\n"
	}
	file := filepath.Join(h.runtime, "rlminit.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
	bundle, err := config.ReadUntrusted(file)
	if err != nil {
		s.Fatal(err)
	}
	c, faults := config.Parse(bundle, nil)
	if len(faults) > 0 {
		s.Fatal(faults.Err())
	}
	h.config, s.defs, s.shared = c, map[string]*service.Definition{}, map[*service.Definition]string{}
	maps.Copy(s.defs, c.Services)
	for _, name := range h.names {
		d, faults := c.GatewayDefinition(config.Profile{Name: name, Dir: filepath.Join(s.home, "profiles", name)})
		if len(faults) > 0 {
			s.Fatal(faults.Err())
		}
		s.defs[d.Name] = d
		if err := os.MkdirAll(filepath.Join(h.runtime, "services", d.Name), 0o755); err != nil { // for its secrets
			s.Fatal(err)
		}
	}
	s.world.inhabits = h.inhabits
}

// slotsAre makes the nth service directory.
func (h *homes) slotsAre(n int) {
	h.path = n
	if err := os.MkdirAll(h.slot(n), 0o755); err != nil {
		h.sim.Fatal(err)
	}
}

func (h *homes) slot(n int) string { return filepath.Join(h.runtime, fmt.Sprint("services-", n)) }

// slotsNow is the service directory as a supervisor finds it that begins.
func (h *homes) slotsNow() slots.Dir {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slots.Dir{Path: h.slot(h.path)}
}

// away has the service directory be elsewhere when a supervisor is killed, who can do
// nothing there any more.
func (h *homes) away(kill func()) func() {
	var once sync.Once
	return func() {
		kill()
		once.Do(func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.path++
			if err := os.Rename(h.slot(h.path-1), h.slot(h.path)); err != nil {
				h.sim.Error(err)
			}
		})
	}
}

// service is the name of a service that an operation calls by its profile's.
func (h *homes) service(name string) string {
	if h != nil && slices.Contains(h.names, name) {
		return profiles.GatewayName(name)
	}
	return name
}

// policed has the world know what is in force of a service.
func (s *simulation) policed(p registry.Proposal) {
	if s.homes == nil || p.Value == nil {
		return
	}
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.world.policies[p.Name] = machine.PolicyOf(p.Value)
}

// inhabits holds the spawn of a gateway against the directory that it is for. The world
// is locked.
func (h *homes) inhabits(m *wire.Spawn) {
	w := h.sim.world
	if !h.has(m.Name) {
		return
	}
	id := ""
	for _, v := range m.Env {
		if value, is := strings.CutPrefix(v, "HOME_ID="); is {
			id = value
		}
	}
	w.table[m.ID].home = id
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone[id] {
		w.fault("%s is spawned for %s, whose deletion was acknowledged", m.Name, id)
	}
	if is := h.idAt("profiles/" + profileOf(m.Name)); is != id {
		w.fault("%s is spawned for %s, and its directory is that of %q", m.Name, id, is)
	}
	for _, other := range w.table {
		if other.id != m.ID && other.asking == nil && other.home == id && (other.state == wire.ChildPending || other.state == wire.ChildAlive || other.leftovers > 0) {
			w.fault("%s is spawned for %s as %d, and %d of %s still has %d leftovers in state %d", m.Name, id, m.ID, other.id, other.name, other.leftovers, other.state)
		}
	}
}

var homeID = regexp.MustCompile(`HOME_ID: "?(\w+)`)

// idAt is the id of the profile in a directory of the volume; "": there is none.
func (h *homes) idAt(rel string) string {
	text, err := os.ReadFile(filepath.Join(h.sim.home, rel, "profile.yaml"))
	if m := homeID.FindSubmatch(text); err == nil && m != nil {
		return string(m[1])
	}
	return ""
}

// lie is where each profile is, by id: below profiles by its name, and those in the trash.
func (h *homes) lie() (names map[string]string, trash map[string]string) {
	names, trash = map[string]string{}, map[string]string{}
	for dir, found := range map[string]map[string]string{"profiles": names, "trash": trash} {
		entries, _ := os.ReadDir(filepath.Join(h.sim.home, dir))
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				continue // half made, or on its way out
			}
			id := h.idAt(dir + "/" + e.Name())
			if other := found[id]; other != "" || id == "" {
				h.sim.world.wrongly("%s/%s is the profile %q, and so is %q", dir, e.Name(), id, other)
			}
			found[id] = e.Name()
		}
	}
	for id, name := range names {
		if entry := trash[id]; entry != "" {
			h.sim.world.wrongly("%s is the profile %s, and in the trash as %s", id, name, entry)
		}
	}
	h.givenTheirs(names, trash)
	return names, trash
}

// givenTheirs sees that each profile has the secret that it was made with, which is its
// id, whatever its name is by now; or none, if it has been in the trash.
func (h *homes) givenTheirs(names, trash map[string]string) {
	for id := range trash {
		if of := h.all[id]; of != nil {
			of.binned = true
		}
	}
	for id, name := range names {
		of, secret := h.all[id], h.secretOf(name)
		if of != nil && secret != id && (secret != "" || !of.binned) {
			h.sim.world.wrongly("%s is the profile %s, and has the secret %q", name, id, secret)
		}
	}
}

// secretOf is the secret that a process of a profile would be given; "": none.
func (h *homes) secretOf(name string) string {
	kept := filepath.Join(h.sim.home, ".rlminit/secrets", name)
	entries, _ := os.ReadDir(kept)
	latest := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			latest = max(latest, n)
		}
	}
	secret, _ := os.ReadFile(filepath.Join(kept, strconv.Itoa(latest), "ID"))
	return string(secret)
}

// look is what the watcher of the volume does, and takes note of the errands that are over.
func (s *simulation) look() {
	h := s.homes
	if h == nil || s.dead() {
		return
	}
	names, _ := h.lie()
	now := map[string]string{}
	for id, name := range names {
		now[name] = id
	}
	var changed []string
	for _, name := range h.names {
		if now[name] != h.seen[name] {
			changed = append(changed, name)
		}
	}
	h.seen = now
	if len(changed) > 0 {
		s.now.Registry.Look(changed...)
		synctest.Wait()
	}
	h.errands = slices.DeleteFunc(h.errands, func(e *errand) bool {
		select {
		case <-e.over:
			h.finished(e)
			return true
		default:
			return false
		}
	})
}

// forsake ends what is under way in a dead supervisor for profiles.
func (s *simulation) forsake(dead *supervisor) {
	h := s.homes
	if h == nil {
		return
	}
	for range 3 {
		for _, name := range h.names {
			dead.Registry.Gone(profiles.GatewayName(name), nil)
		}
		for _, e := range h.errands {
			e.cancel()
		}
		time.Sleep(time.Second)
		synctest.Wait()
	}
	for _, e := range h.errands {
		select {
		case <-e.over:
		default:
			s.world.wrongly("%s of %s never ends", e.verb, e.of.id)
		}
	}
}

// reboot ends the container, and begins another with the same volume.
func (s *simulation) reboot(everything context.Context) {
	h, w := s.homes, s.world
	w.endAfter(0)
	w.killAfter(0)
	w.mu.Lock()
	w.boots++
	w.note("the container ends")
	clear(w.table)
	clear(w.ordered)
	w.outbox, w.disk, w.mute = nil, disk{}, false
	w.mu.Unlock()
	s.hold()
	s.orders.reboot = true
	s.succeed(everything)
	clear(h.lagging)
}

// settleIn makes sure that there is a service of a profile's name.
func (s *simulation) settleIn(name string) {
	h := s.homes
	if h.idAt("profiles/"+profileOf(name)) == "" {
		h.made++
		of := &home{id: fmt.Sprint("id", h.made)}
		h.all[of.id] = of
		if _, err := s.now.Registry.Profiles.Create(context.Background(), control.CreateProfile{Name: profileOf(name), Environment: map[string]string{"HOME_ID": of.id}, Secrets: map[string]string{"ID": of.id}}, control.Actor{}); err != nil {
			s.world.wrongly("in peace, %s cannot be created: %v", name, err)
		}
	} else {
		s.now.Registry.Look(profileOf(name)) // its slot may have been taken out
		s.now.Registry.AtRest.WakeNamed(name)
	}
	synctest.Wait()
}

// ids are those of the profiles among services, by name.
func (h *homes) ids(names ...[]string) map[string]string {
	ids := map[string]string{}
	for _, name := range slices.Concat(names...) {
		if h.has(name) {
			ids[name] = h.idAt("profiles/" + profileOf(name))
		}
	}
	return ids
}

// touch notes that services are commanded otherwise.
func (h *homes) touch(names ...[]string) {
	if h != nil {
		for _, name := range slices.Concat(names...) {
			h.touched[name]++
		}
	}
}

//go:build vm

package vm

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// patience is for what an emulated machine does.
const patience = 2 * time.Minute

const leaves = "/sys/fs/cgroup/services/"

// TestCgroups: what is told of cgroups in cgroup/CGROUPS.md, in a machine that has
// what a container has that may write its own. One machine, for it takes a while.
func TestCgroups(t *testing.T) {
	m := machine(t, crowd())
	ready(m)
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			b := &box.Box{TB: t, Place: m.Place}
			part.test(b)
			everybodyIsAtHome(b)
		})
	}
}

// crowd is a configuration of services that are bounded, and of some that are not.
func crowd(more ...string) string {
	return contract.Services(append(more,
		`born: {command: [nasty, read, /proc/self/cgroup], type: oneshot}`,
		`calm: {command: [nasty, sleep]}`,
		`hog: {command: [nasty, hog, memory], limits: {memory: 32MiB, pids: 10}, enabled: false, restart: no}`,
		`bomb: {command: [nasty, hog, forks], limits: {memory: 32MiB, pids: 10}, enabled: false, stop: {timeout: 1s}}`,
		`spin: {command: [nasty, hog, cpu], limits: {cpu: 0.2}, enabled: false, stop: {timeout: 1s}}`,
		`stray: {command: [nasty, stray], enabled: false}`,
		`swarm: {command: [nasty, hog, forks], enabled: false, stop: {timeout: 1s}}`,
		`own: {command: [nasty, sleep], user: "2000", limits: {pids: 30, nofile: 77}}`,
	)...) + "main: {command: [nasty, sleep], limits: {pids: 40}}\n"
}

// parts are what is tried in one place, for it takes a while to have it.
var parts = []struct {
	name string
	test func(*box.Box)
}{
	{"Born", born},
	{"OutOfMemory", outOfMemory},
	{"ForkBomb", forkBomb},
	{"CPU", processorTime},
	{"Jobs", jobs},
	{"Told", told},
	{"OutOfReach", outOfReach},
	{"NotToBeHad", notToBeHad},
	{"Swarm", swarm},
	{"SupervisorKilled", supervisorKilled},
}

// leafOf is the directory of a service's cgroup.
func leafOf(b *box.Box, name string) string {
	b.Helper()
	pid := b.Await(name, "running").PID
	own := strings.TrimSpace(read(b, fmt.Sprintf("/proc/%d/cgroup", *pid)))
	leaf, ok := strings.CutPrefix(own, "0::/services/")
	if !ok {
		b.Fatalf("%s is in %s", name, own)
	}
	return leaves + leaf
}

func read(b *box.Box, path string) string {
	b.Helper()
	r := b.As(box.Root, "nasty", "read", path)
	if r.Code != 0 {
		b.Fatalf("read %s: %s", path, r)
	}
	return r.Out
}

// gone waits until there is no such leaf.
func gone(b *box.Box, leaf string) {
	b.Helper()
	box.Eventually(b, patience, leaf+" is removed", func() (bool, any) {
		r := b.As(box.Root, "nasty", "read", leaf+"/cgroup.procs")
		return r.Code != 0, r
	})
}

// everybodyIsAtHome: a process that bears a tag is in the leaf of that, one that
// bears none in none, and PID 1 and the supervisor beside.
func everybodyIsAtHome(b *box.Box) {
	b.Helper()
	for _, p := range b.Processes() {
		tag := 0
		for _, g := range p.Groups {
			if g >= 50000 && g <= 59999 {
				tag = g
			}
		}
		want := fmt.Sprintf("/services/%d", tag)
		switch {
		case tag == 0 && len(p.Args) == 2 && p.Args[1] == "sleep":
			want = "/services/main"
		case tag == 0:
			want = "/rlminit"
		}
		if p.Cgroup != want && !strings.HasPrefix(p.Cgroup, "/..") { // the machine's own
			b.Errorf("%v (%d) is in %q, want %q", p.Args, p.PID, p.Cgroup, want)
		}
	}
}

func born(b *box.Box) {
	box.Eventually(b, patience, "it was born in a leaf", func() (bool, any) {
		out := b.Must("logs", "born")
		return strings.Contains(out, "0::/services/5"), out
	})
	if r := b.As(box.Root, "nasty", "read", leaves+"59999/cgroup.procs"); r.Code == 0 {
		b.Errorf("a leaf of an earlier start was left: %s", r)
	}
	if got := strings.TrimSpace(read(b, leaves+"main/pids.max")); got != "40" {
		b.Errorf("the main command may have %s processes", got)
	}
	if out := b.Must("doctor"); !strings.Contains(out, "each service has a cgroup") {
		b.Errorf("doctor: %s", out)
	}
	if strings.Contains(b.Printed(), "not in force") {
		b.Errorf("limits are said not to be in force: %s", b.Printed())
	}
}

func outOfMemory(b *box.Box) {
	calm := *b.Await("calm", "running").PID
	r := b.Run("start", "hog")
	s := b.AwaitThat("hog", "has ended", func(s control.Service) bool { return s.State == "exited" })
	if said := r.Out + r.Err + box.Describe(s); !strings.Contains(said, "killed by KILL: out of memory; its limit is 32 MiB") {
		b.Errorf("hog: %s", said)
	}
	// A kill by somebody else is none for want of memory.
	b.Must("signal", "KILL", "calm")
	s = b.AwaitThat("calm", "runs again", func(s control.Service) bool { return s.State == "running" && *s.PID != calm })
	if said := box.Describe(s); strings.Contains(said, "memory") {
		b.Errorf("calm: %s", said)
	}
}

func forkBomb(b *box.Box) {
	calm := *b.Await("calm", "running").PID
	b.Must("start", "bomb")
	leaf := leafOf(b, "bomb")
	box.Eventually(b, patience, "the bomb meets its limit", func() (bool, any) {
		events := read(b, leaf+"/pids.events")
		n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(events, "max ")))
		return n > 0, events
	})
	if n := strings.TrimSpace(read(b, leaf+"/pids.current")); n != "10" {
		b.Errorf("the bomb has %s processes and threads", n)
	}
	b.Must("stop", "bomb")
	gone(b, leaf)
	// What leaves its session and its parent is in the leaf all the same.
	b.Must("start", "stray")
	leaf = leafOf(b, "stray")
	box.Eventually(b, patience, "the stray is there", func() (bool, any) {
		procs := read(b, leaf+"/cgroup.procs")
		return strings.Count(procs, "\n") == 2, procs
	})
	b.Must("stop", "stray")
	gone(b, leaf)
	if now := b.Await("calm", "running"); *now.PID != calm {
		b.Errorf("calm was ended: %s", box.Describe(now))
	}
}

func processorTime(b *box.Box) {
	b.Must("start", "spin")
	leaf := leafOf(b, "spin")
	if got := strings.TrimSpace(read(b, leaf+"/cpu.max")); got != "20000 100000" {
		b.Errorf("cpu.max: %s", got)
	}
	box.Eventually(b, patience, "it is throttled", func() (bool, any) {
		stat := read(b, leaf+"/cpu.stat")
		_, rest, _ := strings.Cut(stat, "nr_throttled ")
		return rest != "" && !strings.HasPrefix(rest, "0"), stat
	})
	b.Must("stop", "spin")
	gone(b, leaf)
}

func jobs(b *box.Box) {
	job := func(args ...string) (r control.JobResult) {
		b.Helper()
		ran := b.Run(append([]string{"run", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(ran.Out), &r); err != nil {
			b.Fatalf("%q: %v: %s", args, err, ran)
		}
		return r
	}
	r := job("--", "nasty", "read", "/proc/self/cgroup")
	leaf, ok := strings.CutPrefix(strings.TrimSpace(r.Stdout), "0::/services/")
	if !ok {
		b.Fatalf("a job was born in %q", r.Stdout)
	}
	gone(b, leaves+leaf)
	for file, want := range map[string]string{"pids.max": "256", "memory.max": "536870912"} {
		if r = job("--", "nasty", "bound", file); strings.TrimSpace(r.Stdout) != want {
			b.Errorf("%s of a job that names no limit: %+v", file, r)
		}
	}
	r = job("--limit", "memory=32MiB", "--", "nasty", "hog", "memory")
	if r.Error == nil || !strings.Contains(*r.Error, "out of memory; its limit is 32 MiB") || len(r.Tried) > 0 {
		b.Errorf("a job above its limit of memory: %+v", r)
	}
	r = job("--limit", "pids=12", "--timeout", "3s", "--", "nasty", "hog", "forks")
	if !r.TimedOut {
		b.Errorf("a job that is a bomb: %+v", r)
	}
	for _, p := range b.Processes() {
		if strings.Contains(strings.Join(p.Args, " "), "hog forks") {
			b.Errorf("what is left of a job that was a bomb: %+v", p)
		}
	}
	if out := b.Must("capabilities", "--json"); !strings.Contains(strings.Join(strings.Fields(out), ""), `"pids":{"enforced":true`) {
		b.Errorf("capabilities: %s", out)
	}
}

func told(b *box.Box) {
	var services []control.Service
	if err := json.Unmarshal([]byte(b.Must("status", "--wide", "--json")), &services); err != nil {
		b.Fatal(err)
	}
	b.Must("start", "bomb")
	if err := json.Unmarshal([]byte(b.Must("status", "bomb", "--wide", "--json")), &services); err != nil {
		b.Fatal(err)
	}
	if len(services) == 0 || services[0].Usage == nil || services[0].Usage.Cgroup == nil {
		b.Fatalf("bomb: %+v", services)
	}
	if u := services[0].Usage; u.Cgroup.MemoryMax == nil || *u.Cgroup.MemoryMax != 32<<20 || u.MemoryBytes <= 0 || u.Cgroup.Pressure.CPU < 0 {
		b.Errorf("bomb uses %+v, %+v", u, u.Cgroup)
	}
	if out := b.Must("status", "--wide"); !strings.Contains(out, "PRESSURE") {
		b.Errorf("status --wide: %s", out)
	}
	b.Must("stop", "bomb")
}

// outOfReach: neither the services' user nor another can write anything there.
func outOfReach(b *box.Box) {
	leaf, other := leafOf(b, "own"), leafOf(b, "calm")
	for _, user := range []box.User{box.Service, {UID: 2000, GID: 2000}, {UID: 49999, GID: 49999}} {
		for path, text := range map[string]string{
			leaf + "/pids.max":                   "max",
			leaf + "/cgroup.kill":                "1",
			other + "/cgroup.procs":              "0",
			leaves + "cgroup.procs":              "0",
			leaves + "cgroup.subtree_control":    "-pids",
			"/sys/fs/cgroup/cgroup.procs":        "0",
			"/sys/fs/cgroup/rlminit/cgroup.kill": "1",
		} {
			if r := b.As(user, "nasty", "write", path, text); r.Code == 0 {
				b.Errorf("uid %d wrote %s", user.UID, path)
			}
		}
	}
	if got := strings.TrimSpace(read(b, leaf+"/pids.max")); got != "30" {
		b.Errorf("pids.max of a service of another user: %s", got)
	}
}

// notToBeHad: a service whose leaf cannot be made says so, and is tried again.
func notToBeHad(b *box.Box) {
	most := leaves + "cgroup.max.descendants"
	b.As(box.Root, "nasty", "write", most, "0")
	b.Must("start", "--no-wait", "stray")
	s := b.AwaitThat("stray", "waits for a cgroup", func(s control.Service) bool { return s.State == "backoff" })
	if s.Reason == nil || !strings.Contains(*s.Reason, "cannot have a cgroup: cannot make it: ") {
		b.Errorf("stray: %s", box.Describe(s))
	}
	b.As(box.Root, "nasty", "write", most, "max")
	leaf := leafOf(b, "stray")
	b.Must("stop", "stray")
	gone(b, leaf)
}

// swarm: a service that has no limit takes what the container has, but for the room
// that the two tiers need to be commanded, and to be replaced.
func swarm(b *box.Box) {
	if got := strings.TrimSpace(read(b, leaves+"pids.max")); got != "192" {
		b.Errorf("of the container's 256 processes services may have %s", got)
	}
	b.Must("start", "swarm")
	box.Eventually(b, patience, "it has all that there is", func() (bool, any) {
		current := strings.TrimSpace(read(b, leaves+"pids.current"))
		return current == "192", current
	})
	b.As(box.Root, "nasty", "kill", "9", strconv.Itoa(supervisor(b)))
	ready(b)
	if strings.Contains(b.Printed(), "leaves no room") {
		b.Errorf("PID 1 had to make room: %s", box.Tail(b.Printed()))
	}
	b.Must("stop", "swarm")
	b.Await("swarm", "stopped")
}

// supervisor is the pid of tier 2, found without a look at all that every process
// has open, which takes long where there are many.
func supervisor(b *box.Box) int {
	b.Helper()
	var services []control.Service
	if err := json.Unmarshal([]byte(b.Must("status", "--wide", "--json")), &services); err != nil {
		b.Fatal(err)
	}
	for _, s := range services {
		if s.Name == "rlminit-supervise" && s.PID != nil {
			return *s.PID
		}
	}
	b.Fatalf("there is no supervisor: %+v", services)
	return 0
}

// supervisorKilled: all of it goes on over the end of the supervisor, and an end
// for want of memory that nobody heard of is known to the next.
func supervisorKilled(b *box.Box) {
	leaf := leafOf(b, "calm")
	kill := func(signal int) {
		b.As(box.Root, "nasty", "kill", strconv.Itoa(signal), strconv.Itoa(supervisor(b)))
	}
	b.Must("start", "--no-wait", "hog")
	s := b.AwaitThat("hog", "runs", func(s control.Service) bool { return s.PID != nil || s.State == "exited" })
	if s.PID != nil {
		kill(19) // STOP: PID 1 alone sees the end
		box.Eventually(b, patience, "the hog has ended", func() (bool, any) {
			r := b.As(box.Root, "nasty", "read", fmt.Sprintf("/proc/%d/cgroup", *s.PID))
			return r.Code != 0, r
		})
	}
	kill(9)
	ready(b)
	s = b.AwaitThat("hog", "has ended", func(s control.Service) bool { return s.State == "exited" })
	if said := box.Describe(s); !strings.Contains(said, "out of memory; its limit is 32 MiB") {
		b.Errorf("hog: %s", said)
	}
	if now := leafOf(b, "calm"); now != leaf {
		b.Errorf("calm was in %s, and is in %s", leaf, now)
	}
	b.Must("stop", "calm")
	gone(b, leaf)
	b.Must("start", "calm")
}

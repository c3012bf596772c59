package contract

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/examples/gateway/process"
	"rlminit/tests/box"
)

// tags are the groups that mark services, by default.
const firstTag, lastTag = 50000, 59999

// EveryProcessIsConfined: everything but PID 1 is the service user with its
// groups and its tag alone, without any capability, unable to gain privileges,
// with default signals, in its own session, with no descriptor that was not
// meant for it, and a likelier victim of the kernel's memory killer than PID 1.
func EveryProcessIsConfined(t *testing.T, start New) {
	b := start(t, box.Spec{
		Config: Services(`c-program: {command: [sleep, infinity]}`, `second: {command: [sleep, infinity]}`),
		Main:   []string{"sleep", "99999"},
	})
	b.Must("profile", "create", "alice")
	b.Await("gateway-alice", "running")
	b.Await("c-program", "running")
	b.Await("second", "running")

	all := b.Processes()
	init := all[slices.IndexFunc(all, func(p process.Info) bool { return p.PID == 1 })]
	seen := map[int]string{}
	services := 0
	for _, p := range all {
		// What a test runs in the box has no parent there.
		if p.PID == 1 || p.Parent == 0 {
			continue
		}
		name := strings.Join(p.Args, " ")
		supervisor := len(p.Args) > 1 && p.Args[1] == "supervise"
		files := len(p.Args) > 1 && p.Args[1] == "rights"
		uid, gid := [4]int{1000, 1000, 1000, 1000}, [4]int{1000, 1000, 1000, 1000}
		if keeper := b.Supervisor().UID[0]; supervisor || files {
			uid = [4]int{keeper, keeper, keeper, keeper}
			gid = uid
			if keeper == 1000 {
				gid = [4]int{1000, 1000, 1000, 1000}
			}
		}
		if p.UID != uid || p.GID != gid {
			t.Errorf("%s: uid %v gid %v", name, p.UID, p.GID)
		}
		for set, bits := range p.Capabilities {
			may := uint64(0)
			if files && set == "CapPrm" { // in force for the time of a call alone, and filtered
				may = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
			}
			if bits != may {
				t.Errorf("%s: %s is %x", name, set, bits)
			}
		}
		if !p.NoNewPrivs {
			t.Errorf("%s could gain privileges", name)
		}
		main := strings.HasSuffix(name, "99999")
		if p.Session != p.PID && !main { // main keeps the terminal, if there is one
			t.Errorf("%s: session %d, want its own, %d", name, p.Session, p.PID)
		}
		if supervisor || files {
			continue
		}
		services++
		if p.OOMScoreAdj <= init.OOMScoreAdj {
			t.Errorf("%s: oom_score_adj %d, PID 1's is %d", name, p.OOMScoreAdj, init.OOMScoreAdj)
		}
		// A Go program blocks signals for a moment whenever it starts a thread.
		if p.Blocked != 0 && p.Name == "sleep" {
			t.Errorf("%s: signals %x are blocked", name, p.Blocked)
		}
		if p.Ignored != 0 {
			t.Errorf("%s: signals %x are ignored", name, p.Ignored)
		}
		tags := slices.DeleteFunc(slices.Clone(p.Groups), func(g int) bool { return g < firstTag || g > lastTag })
		others := slices.DeleteFunc(slices.Clone(p.Groups), func(g int) bool { return g >= firstTag && g <= lastTag || g == 1000 })
		if len(others) > 0 {
			t.Errorf("%s: groups %v", name, p.Groups)
		}
		if !main {
			if len(tags) != 1 {
				t.Errorf("%s: tags %v, want one", name, tags)
			} else if other, taken := seen[tags[0]]; taken {
				t.Errorf("%s bears the tag %d of %s", name, tags[0], other)
			} else {
				seen[tags[0]] = name
			}
		}
		inherited(t, name, p)
	}
	if services != 4 || len(seen) != 3 {
		t.Errorf("%d services and main, %d tags, in %d processes", services, len(seen), len(all))
	}
}

// inherited checks that a process has descriptors 0 to 2, and beyond them only
// what a Go program opens for itself.
func inherited(t *testing.T, name string, p process.Info) {
	t.Helper()
	for fd, link := range p.Descriptors {
		own := strings.HasPrefix(link, "anon_inode:[event") || strings.HasPrefix(link, "/sys/fs/cgroup/") ||
			strings.HasPrefix(link, "pipe:") || strings.HasPrefix(link, "socket:")
		if fd > 2 && (p.Name == "sleep" || !own) {
			t.Errorf("%s has descriptor %d, %s", name, fd, link)
		}
	}
	for fd := range 3 {
		if p.Descriptors[fd] == "" {
			t.Errorf("%s: descriptor %d is closed", name, fd)
		}
	}
}

// LimitsAreInForce: rlimits hold from a service's first instruction.
func LimitsAreInForce(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`limited: {type: oneshot, command: [nasty, self], limits: {nofile: 77, core: 0}, umask: "027"}`)})
	b.Await("limited", "exited")
	var p process.Info
	out := b.Must("logs", "limited")
	if i, end := strings.IndexByte(out, '{'), strings.LastIndexByte(out, '}'); i < 0 {
		t.Fatalf("logged %q", out)
	} else if err := json.Unmarshal([]byte(out[i:end+1]), &p); err != nil {
		t.Fatal(err)
	}
	if got := p.Limits["Max open files"]; got != [2]string{"77", "77"} {
		t.Errorf("nofile %v", got)
	}
	if got := p.Limits["Max core file size"]; got != [2]string{"0", "0"} {
		t.Errorf("core %v", got)
	}
	if p.Umask != "0027" {
		t.Errorf("umask %s", p.Umask)
	}
}

// StdoutCanBeOpened: a program may open /dev/stdout by name, as many do for
// their logs: the main command and services alike.
func StdoutCanBeOpened(t *testing.T, start New) {
	b := start(t, box.Spec{
		Config: Services(
			`writer: {type: oneshot, command: [nasty, write, /dev/stdout, from the service]}`,
			`other: {type: oneshot, command: [nasty, write, /dev/stderr, from stderr]}`),
		Main: []string{"bash", "-c", "nasty write /dev/stdout 'from the main command'; exec sleep infinity"},
	})
	b.Await("writer", "exited")
	b.Await("other", "exited")
	printed(b, "from the main command")
	for name, want := range map[string]string{"writer": "from the service", "other": "from stderr"} {
		logged(b, name, want)
	}
}

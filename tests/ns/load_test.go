package ns

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"rlminit/tests/box"
	"rlminit/tests/contract"
	"rlminit/tests/load"
)

func TestLoad(t *testing.T) {
	t.Run("Storm", func(t *testing.T) { load.Storm(t, Start, 200, 3, 20) })
	t.Run("Boot", func(t *testing.T) { load.Boot(t, Start, 100) })
	t.Run("Cycles", cycles)
	services, kills := 60, 600
	if os.Getenv("RLMINIT_TEST_LOAD") == "full" { // make test-load
		services, kills = 1000, 10_000
	}
	t.Run("Massacre", func(t *testing.T) { load.Massacre(t, Start, services, kills) })
	t.Run("Order", func(t *testing.T) { load.Order(t, Start, services, 10) })
	t.Run("Kinds", func(t *testing.T) { load.Kinds(t, Start, services, max(services/20, 1)) })
}

// footprint is what a process holds.
type footprint struct{ descriptors, threads int }

// footprints are those of both tiers, by pids outside of the box.
func footprints(t *testing.T, b *box.Box) (tier1, tier2 footprint) {
	t.Helper()
	pid := b.Place.(*Place).PID()
	for _, child := range children(t, pid) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		if err == nil && strings.Contains(string(line), "\x00supervise") {
			return footprintOf(t, pid), footprintOf(t, child)
		}
	}
	t.Fatal("there is no supervisor")
	return tier1, tier2
}

// children are the pids of a process's children, whichever thread forked them.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range strings.Fields(string(b)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, child)
		}
	}
	return pids
}

func footprintOf(t *testing.T, pid int) footprint {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	return footprint{len(fds), len(threads)}
}

// cycles: starting and stopping services 1,000 times leaves no descriptor and
// no thread behind, and tier 1 has as many threads as after boot.
func cycles(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: tier 2's descriptors are nobody else's to see")
	}
	const services, rounds = 10, 100
	var lines, names []string
	for i := range services {
		name := fmt.Sprintf("s%d", i)
		names = append(names, name)
		lines = append(lines, name+`: {command: [sleep, infinity], stop: {timeout: 1s}}`)
	}
	b := Start(t, box.Spec{Config: contract.Services(lines...)})
	all := strings.Join(names, " ")
	round := func(n int) {
		b.Shell(box.Service, fmt.Sprintf(`for i in $(seq %d); do rlminit stop %s; rlminit start %s; done`, n, all, all))
	}
	boot1, _ := footprints(t, b)
	round(3)
	before1, before2 := footprints(t, b)
	round(rounds)
	after1, after2 := footprints(t, b)
	t.Logf("figure: %d cycles: tier 1 %v at boot, %v before, %v after; tier 2 %v before, %v after",
		services*rounds, boot1, before1, after1, before2, after2)
	if after1.threads > boot1.threads {
		t.Errorf("tier 1 started threads after boot: %d, now %d", boot1.threads, after1.threads)
	}
	if after1.descriptors > before1.descriptors {
		t.Errorf("tier 1 leaks descriptors: %d, now %d", before1.descriptors, after1.descriptors)
	}
	// The runtime of Go may keep a few more threads or connections at one
	// moment than at another; a leak would be hundreds.
	if after2.descriptors > before2.descriptors+10 {
		t.Errorf("tier 2 leaks descriptors: %d, now %d", before2.descriptors, after2.descriptors)
	}
	if after2.threads > before2.threads+10 {
		t.Errorf("tier 2 leaks threads: %d, now %d", before2.threads, after2.threads)
	}
}

package contract

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// attempts is a line of tests/cmd/hostile.
type attempts struct {
	Kind     string   `json:"kind"`
	Needs    string   `json:"needs"`
	Attempts int      `json:"attempts"`
	Held     int      `json:"held"`
	Broke    []string `json:"broke"`
}

// uidOf is the real user id of a process.
func uidOf(b *box.Box, pid int) string {
	b.Helper()
	return strings.TrimSpace(b.Shell(box.Root, fmt.Sprintf("awk '/^Uid:/ {print $2}' /proc/%d/status", pid)))
}

// HostileService: a service that has turned against the others gets at neither PID
// 1 nor the supervisor, nor at what these go by, nor at another service. What is
// refused only to who has a user of its own is expected where there is one: what
// the supervisor's own does, and what another service's.
func HostileService(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(`hostile: {type: oneshot, enabled: false, restart: no, command: [sh, -c, "until test -e $RLMINIT_HOME/attack; do sleep 0.05; done; . $RLMINIT_HOME/attack"]}`)})
	b.Must("profile", "create", "victim")
	victim := *b.Await("gateway-victim", "running").PID
	supervisor := b.Supervisor().PID
	b.Must("start", "--no-wait", "hostile")
	attacker := *b.AwaitThat("hostile", "runs", func(s control.Service) bool { return s.PID != nil }).PID
	own := map[string]bool{
		"always":          true,
		"supervisor_user": uidOf(b, supervisor) != uidOf(b, attacker),
		"user: auto":      uidOf(b, victim) != uidOf(b, attacker),
	}
	b.Shell(box.Service, fmt.Sprintf(`cd %s && echo 'exec hostile %d %d gateway-victim' >.attack && mv .attack attack`, b.Home(), supervisor, victim))
	box.Eventually(b, long, "the attack is over", func() (bool, any) {
		s := b.Status()["hostile"]
		return s.State == "exited" || s.State == "failed", box.Describe(s)
	})
	out := b.Must("logs", "hostile", "-n", "all")
	if judge(t, out, func(needs string) bool { return own[needs] }) < 10 {
		t.Fatalf("the attack did not come off: %s", out)
	}
	if now := b.Supervisor().PID; now != supervisor {
		t.Errorf("the supervisor was pid %d, and is %d", supervisor, now)
	}
	unharmed(b, map[string]int{"gateway-victim": victim})
	if r := b.Run("profile", "show", "hostile"); r.Code == 0 {
		t.Errorf("a service made a profile: %s", r)
	}
}

// judge complains of every attempt that succeeded though what it takes to be held is
// there, and returns how many kinds of them there are in what the attacker said.
func judge(t *testing.T, said string, there func(needs string) bool) (kinds int) {
	t.Helper()
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(root, "docs", "isolation.md"))
	if err != nil {
		t.Fatal(err)
	}
	made, held := 0, 0
	for line := range strings.Lines(said) {
		var a attempts
		if i := strings.IndexByte(line, '{'); i < 0 || json.Unmarshal([]byte(line[i:]), &a) != nil || a.Kind == "" {
			continue
		}
		kinds++
		if !strings.Contains(string(table), "| "+a.Kind+" | ") {
			t.Errorf("docs/isolation.md does not tell of %q", a.Kind)
		}
		made, held = made+a.Attempts, held+a.Held
		if there(a.Needs) && len(a.Broke) > 0 {
			t.Errorf("%s: %d of %d attempts succeeded: %q", a.Kind, a.Attempts-a.Held, a.Attempts, a.Broke)
		}
		t.Logf("figure: hostile: %s: %d attempts, %d held (needs %s: %v)", a.Kind, a.Attempts, a.Held, a.Needs, there(a.Needs))
	}
	t.Logf("figure: hostile: %d attempts, %d held, in all", made, held)
	return kinds
}

package reap

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var stateNames = [states]string{"gone", "pending", "alive", "exited", "failed"}

var eventNames = [events]string{
	"accepted", "refused", "started", "fell", "stuck", "ended", "signalled", "acknowledged",
	"due",
}

var effectNames = map[effect]string{
	nothing: "–", impossible: "impossible", dropMessage: "drop", begin: "begin", oweFailed: "owe SpawnFailed",
	oweSpawned: "owe Spawned", killStuck: "kill, owe SpawnStuck", oweExited: "owe Exited",
	deliver: "deliver", deliverLeftover: "deliver to leftovers", answerNone: "answer ESRCH",
	answerLater: "answer EAGAIN", forget: "forget",
	endStarted: "end once started", endAll: "end all of it", endLeftover: "end its leftovers",
}

// The document and the code say the same of every pair.
func TestTableIsTheDocument(t *testing.T) {
	document, err := os.ReadFile("../wire/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, line := range regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(string(document), -1) {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == int(states)+1 {
			rows[cells[0]] = cells[1:]
		}
	}
	for e := range events {
		row := rows[eventNames[e]]
		if row == nil {
			t.Errorf("PROTOCOL.md has no row for %q", eventNames[e])
			continue
		}
		for s := range states {
			to := table[s][e]
			want := effectNames[to.effect]
			if to.next != s {
				want = "→ " + stateNames[to.next] + ", " + want
			}
			if row[s] != want {
				t.Errorf("%s in state %s: document says %q, code %q", eventNames[e], stateNames[s], row[s], want)
			}
		}
	}
}

// Whatever happens in whatever order: every spawn is answered once, every exit
// is owed until it is acknowledged, nothing is forgotten before, and nothing is
// stuck in a state that it cannot leave.
func TestTableExplored(t *testing.T) {
	type told struct {
		state           state
		answered, exits int
		acked           bool
	}
	seen := map[told]bool{}
	var explore func(now told, depth int)
	explore = func(now told, depth int) {
		if depth == 0 || seen[now] {
			return
		}
		seen[now] = true
		leaves := now.state == gone
		for e := range events {
			to := table[now.state][e]
			if to.effect == impossible {
				if to.next != now.state {
					t.Errorf("an impossible event changes %s", stateNames[now.state])
				}
				continue
			}
			next := now
			next.state = to.next
			switch to.effect {
			case begin:
				next = told{state: pending}
			case oweSpawned, oweFailed:
				next.answered++
				if now.state == gone {
					next = told{state: failed, answered: 1}
				}
			case oweExited:
				next.exits++
			case forget:
				next.acked = true
			}
			if to.next != now.state {
				leaves = true
			}
			if next.answered > 1 {
				t.Fatalf("%s in %s answers a spawn twice", eventNames[e], stateNames[now.state])
			}
			if next.exits > 1 {
				t.Fatalf("%s in %s reports an end twice", eventNames[e], stateNames[now.state])
			}
			if to.next == gone && now.state != gone && e != acknowledged {
				t.Fatalf("%s in %s forgets what was not acknowledged", eventNames[e], stateNames[now.state])
			}
			if to.next == exited && next.answered != 1 {
				t.Fatalf("%s in %s: an end without a spawn that was answered", eventNames[e], stateNames[now.state])
			}
			if to.next == gone {
				next = told{state: gone}
			}
			explore(next, depth-1)
		}
		if !leaves {
			t.Errorf("nothing leads out of %s", stateNames[now.state])
		}
	}
	explore(told{state: gone}, 64)
	if len(seen) < int(states) {
		t.Errorf("only %d situations were reached", len(seen))
	}
}

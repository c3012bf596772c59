package registry

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// ends tells whether the service of the name is on its way out.
func (l Life) ends() bool {
	return l == Leaving || l == TakenOut || l == Returning || l == Deleting
}

// Every pair is decided, and a name that is gone for good keeps nothing.
func TestEveryPairIsDecided(t *testing.T) {
	for l := range lives {
		for e := range events {
			next, do := Next(Life(l), Event(e))
			if next == Absent && Life(l) != Absent && Life(l) != Resting && !slices.Contains([]Action{Withdraw, Clear, Renew, Ask}, do) {
				t.Errorf("%v, %v: absent, and its slot is left: %v", Life(l), Event(e), do)
			}
			if do == Remove != (Life(l) == Supervised && next.ends()) {
				t.Errorf("%v, %v: %v by %v", Life(l), Event(e), next, do)
			}
		}
	}
}

// The table in NAMES.md is the one in the code.
func TestTableIsWritten(t *testing.T) {
	var b strings.Builder
	b.WriteString("| |")
	for e := range events {
		fmt.Fprintf(&b, " %v |", Event(e))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", events) + "\n")
	for l := range lives {
		fmt.Fprintf(&b, "| **%v** |", Life(l))
		for e := range events {
			next, do := Next(Life(l), Event(e))
			switch {
			case do == Nothing && next == Life(l):
				b.WriteString(" – |")
			case do == Nothing:
				fmt.Fprintf(&b, " %v |", next)
			default:
				fmt.Fprintf(&b, " %v; %v |", next, do)
			}
		}
		b.WriteString("\n")
	}
	page, err := os.ReadFile("NAMES.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), b.String()) {
		t.Errorf("NAMES.md does not have this table:\n%s", b.String())
	}
}

// model is a name, and all that it lies between: the volume, the slot, the
// service, and who asks for what. It stands for the registry's actions with the
// few lines that they are.
type model struct {
	life    Life
	volume  bool // has the profile
	slot    byte // what is in its slot: 0, o(urs), s(tranger's)
	had     byte // what the registry knows to be in it
	service byte // 0, r(unning), e(nding)
	by      byte // whose definition it runs
	deletes bool // somebody waits for a deletion
}

func (m *model) befall(e Event) {
	next, do := Next(m.life, e)
	m.life = next
	switch do {
	case Publish:
		m.slot, m.had = 'o', 'o'
		m.define('o')
	case Take:
		m.had = m.slot
		m.define(m.slot)
	case Remove:
		m.service = 'e'
	case Withdraw, Renew:
		if m.slot == m.had || m.slot != 0 && m.had == 0 {
			m.slot = 0
		}
		m.had = 0
		m.notice()
		if do == Renew {
			m.look()
		}
	case Clear:
		m.had = 0
		m.notice()
	case Ask:
		m.look()
		m.notice()
	}
}

func (m *model) define(by byte) {
	if m.service == 0 {
		m.service = 'r'
	}
	m.by = by
}

// notice is what the watcher does, look what a reload does.
func (m *model) notice() {
	switch {
	case m.life == Absent && m.slot == 0, m.life != Absent && (m.life != Supervised || m.slot == m.had):
	case m.slot == 0:
		m.befall(Vanished)
	default:
		m.befall(Put)
	}
}

func (m *model) look() {
	switch {
	case m.life == Deleting || m.life == Deleted:
	case m.volume:
		m.befall(Defined)
	case m.life == Supervised && m.by == 'o', m.life.ends():
		m.befall(Dropped)
	}
}

// modelSteps are what may befall it, each where it can.
var modelSteps = []struct {
	name string
	do   func(*model) bool
}{
	{"made", func(m *model) bool {
		if m.volume {
			return false
		}
		m.volume = true
		m.look()
		return true
	}},
	{"removed by hand", func(m *model) bool {
		if !m.volume {
			return false
		}
		m.volume = false
		return true
	}},
	{"look", func(m *model) bool { m.look(); return true }},
	{"slot put", func(m *model) bool { m.slot = 's'; return true }},
	{"slot put back", func(m *model) bool { m.slot = 'o'; return true }},
	{"slot taken", func(m *model) bool { m.slot = 0; return true }},
	{"notice", func(m *model) bool { m.notice(); return true }},
	{"ended", func(m *model) bool {
		if m.service != 'e' {
			return false
		}
		m.service, m.by = 0, 0
		m.befall(Gone)
		return true
	}},
	{"delete", func(m *model) bool {
		if m.deletes || !m.volume {
			return false
		}
		m.deletes = true
		m.befall(Delete)
		return true
	}},
	{"directory gone", func(m *model) bool {
		if !m.deletes || m.life != Deleted || !m.volume {
			return false
		}
		m.volume = false
		return true
	}},
	{"over", func(m *model) bool { // it has succeeded, or failed
		if !m.deletes || m.life != Deleted {
			return false
		}
		m.deletes = false
		m.befall(Over)
		return true
	}},
}

// TestLifeOfAName visits every state that can be reached by any steps in any
// order, and holds each against what must be true at any time, and against what
// must be true once everything that is under way has come to its end.
func TestLifeOfAName(t *testing.T) {
	from := map[model]string{{}: ""}
	for queue := []model{{}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, s := range modelSteps {
			next := at
			if !s.do(&next) {
				continue
			}
			if _, seen := from[next]; !seen {
				from[next] = from[at] + ", " + s.name
				queue = append(queue, next)
			}
		}
		for _, fault := range faults(at) {
			t.Errorf("%s: %+v, after%s", fault, at, from[at])
		}
	}
	if len(from) < 50 {
		t.Errorf("only %d states were visited", len(from))
	}
}

func faults(m model) (all []string) {
	must := func(is bool, what string) {
		if !is {
			all = append(all, what)
		}
	}
	must((m.service == 'e') == m.life.ends(), "a service ends exactly while its name is on its way out")
	must((m.service == 'r') == (m.life == Supervised), "a service runs exactly while its name is supervised")
	must(!m.deletes || m.life == Deleting || m.life == Deleted, "a deletion is under way, and nobody knows")
	// Let all come to its end: a deletion, then all is looked at.
	for range 4 {
		for _, last := range []string{"ended", "over", "notice", "look"} {
			for _, s := range modelSteps {
				if s.name == last {
					s.do(&m)
				}
			}
		}
	}
	switch {
	case m.volume:
		must(m.life == Supervised && m.service == 'r', "the volume has it, and it is not supervised")
	case m.slot == 's':
		must(m.life == Supervised && m.by == 's', "a stranger put it there, and it is not taken up")
	case m.slot == 0:
		must(m.life == Absent && m.service == 0, "nobody has it, and something is left")
	}
	return all
}

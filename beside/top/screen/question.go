package screen

import (
	"slices"
	"strings"

	"rlminit/beside/top/table"
	"rlminit/beside/top/text"
	"rlminit/control"
)

// question is what is asked before anything is done.
type question struct {
	number int
	verb   string
	names  []string // of services; none: it is about an operation
	text   string   // `stop alice?`
	says   string   // what it will do besides; "": nothing
	known  bool     // what it will do is known: only then it can be answered with yes
	cancel uint64   // the operation that yes cancels; 0: none
	orders bool     // it can be done one after the other
}

// keys of the commands, and their verbs.
var verbs = map[string]string{"u": "start", "d": "stop", "r": "restart"}

// command asks whether services are to be started, stopped or restarted.
func (m *Model) command(key string, rows []*table.Row) []Effect {
	verb, ok := verbs[key]
	if !ok || len(rows) == 0 {
		return nil
	}
	q := &question{verb: verb, orders: len(rows) > 1 && verb != "stop"}
	var people []string
	for _, r := range rows {
		q.names = append(q.names, r.Service.Name)
		people = append(people, r.Name)
	}
	q.text = verb + " " + people[0] + "?"
	if len(people) > 1 {
		q.text = verb + " " + text.Count(len(people), "service") + "?"
		q.says = text.Names(people, 4) + ". "
	}
	m.asked++
	q.number = m.asked
	m.question = q
	return []Effect{AskDepends{Of: q.number}}
}

// depends adds to a question what else it concerns.
func (m *Model) depends(in Depends) {
	q := m.question
	if q == nil || q.number != in.Of || q.known {
		return
	}
	if in.Refused {
		m.question = nil
		m.complain("cannot " + strings.TrimSuffix(q.text, "?") + ": " + in.Why)
		return
	}
	q.known = true
	along := along(q.verb, q.names, in.All)
	besides := text.Names(along, 4)
	switch {
	case in.Why != "":
		q.says += "What depends on it cannot be told: " + text.Line(in.Why)
	case q.verb == "start" && len(along) > 0:
		q.says += "What it requires is started first: " + besides + "."
	case q.verb == "start":
		q.says += "It is meant to run from then on, also after a restart of the container."
	case q.verb == "stop" && len(along) > 0:
		q.says += "What requires it is stopped first: " + besides + "."
	case q.verb == "stop":
		q.says += "It stays stopped, also after a restart of the container."
	case len(along) > 0:
		q.says += "What requires it is stopped too, and started again: " + besides + "."
	default:
		q.says += "It is out of service until it is up again."
	}
	if len(q.names) > 1 {
		q.says = strings.NewReplacer("What it requires", "What they require", "requires it", "requires them", "on it ", "on them ",
			"It is ", "They are ", "It stays", "They stay", "it is up", "they are up").Replace(q.says)
	}
}

// resting are the states in which a service has nothing to be stopped.
var resting = []string{"stopped", "failed", "exited"}

// along are the services that a command concerns besides those named: for a start what
// they require and what does not run, else what requires them and runs, by name.
func along(verb string, names []string, all []control.Dependencies) []string {
	chosen := map[string]bool{}
	for _, name := range names {
		chosen[name] = true
	}
	of := map[string]control.Dependencies{}
	for _, d := range all {
		of[d.Service] = d
	}
	concerned := func(d control.Dependencies) []string { // the services that d has be concerned
		if chosen[d.Service] && verb == "start" {
			return slices.DeleteFunc(slices.Clone(d.Requires), func(name string) bool { return of[name].State == "running" })
		}
		requires := slices.ContainsFunc(d.Requires, func(name string) bool { return chosen[name] })
		if verb != "start" && requires && !slices.Contains(resting, d.State) {
			return []string{d.Service}
		}
		return nil
	}
	var along []string
	for grows := true; grows; {
		grows = false
		for _, d := range all {
			for _, name := range concerned(d) {
				if !chosen[name] {
					chosen[name], grows = true, true
					along = append(along, text.Line(name))
				}
			}
		}
	}
	slices.Sort(along)
	return along
}

// askCancel asks whether the operation is to be cancelled that the cursor is on, or else
// the one that was begun here.
func (m *Model) askCancel() {
	o, ok := m.doing.operation, m.doing.on
	if m.page == operationsPage {
		o, ok = m.operations.cursor()
	}
	if !ok || o.ID == 0 || o.Over() {
		m.tell("there is no operation to cancel")
		return
	}
	m.asked++
	m.question = &question{
		number: m.asked, cancel: o.ID, known: true,
		text: "cancel " + title(o) + "?", says: "What has begun goes on to its end; nothing further begins.",
	}
}

// reply takes in a key that answers a question. Anything but a yes is a no.
func (m *Model) reply(k Key) []Effect {
	q := m.question
	switch yes := k.Name == "y" || k.Name == "Y"; {
	case !q.known && (yes || q.orders && k.Name == "o"):
		return nil // until it says what it will do
	case yes && q.cancel > 0:
		m.question = nil
		return []Effect{CancelOperation{q.cancel}}
	case yes:
		return m.begin(control.BeginOperation{Verb: q.verb, Names: q.names})
	case q.orders && k.Name == "o":
		return m.begin(control.BeginOperation{Verb: q.verb, Names: q.names, Rolling: 1, SteadyMS: steadyMS})
	}
	m.question = nil
	m.tell("nothing was done")
	return nil
}

// steadyMS is for how long one service must have been ready before the next has its turn.
const steadyMS = 2000

func (m *Model) begin(o control.BeginOperation) []Effect {
	m.doing = doing{on: true, number: m.question.number, begun: o}
	m.question = nil
	m.note = note{}
	m.table.Unmark()
	return []Effect{Begin{Of: m.doing.number, What: o}}
}

package screen

import (
	"cmp"
	"fmt"
	"strings"

	"rlminit/beside/top/text"
	"rlminit/control"
	"rlminit/service"
)

// doing is the operation that was begun here last.
type doing struct {
	on        bool // it is not over
	number    int  // under which it was begun
	begun     control.BeginOperation
	operation control.Operation // ID 0: it is not known yet
}

// operated takes in how an operation is that was begun or cancelled here.
func (m *Model) operated(in Operated) {
	o, ours := in.Operation, in.Of == m.doing.number && m.doing.on
	switch {
	case in.Why != "":
		m.doing.on = m.doing.on && !ours // a cancellation that failed ends nothing
		m.complain(in.Why)
		return
	case ours:
		m.doing.operation = o
		m.doing.on = !o.Over()
	}
	if !o.Over() || in.Of == 0 && o.ID == m.doing.operation.ID {
		return // or it is told once more
	}
	switch o.State {
	case "done":
		m.tell(title(o) + ": done" + standing(o))
	case "failed":
		m.complain("cannot " + subject(o) + ": " + failure(o))
	default:
		m.complain(title(o) + " is " + strings.TrimSuffix(o.State+": "+members(o), ": "))
	}
}

// Unfinished is the number of the operation that was begun here and is not over; 0: there
// is none.
func (m *Model) Unfinished() uint64 {
	if !m.doing.on {
		return 0
	}
	return m.doing.operation.ID
}

// failure is why an operation failed. Of one service the name is told already.
func failure(o control.Operation) string {
	if len(o.Members) != 1 {
		return o.Reason
	}
	return strings.TrimPrefix(cmp.Or(o.Members[0].Reason, o.Reason), shortName(o.Members[0].Name)+": ")
}

// standing is what to know of an operation that had nothing to do.
func standing(o control.Operation) string {
	if len(o.Members) == 0 {
		return ", there was nothing to " + o.Verb
	}
	return ""
}

// subject is `stop alice`, or `stop 12 services`.
func subject(o control.Operation) string {
	verb := text.Line(o.Verb)
	if n := len(o.Members) + o.Omitted; n != 1 {
		return verb + " " + text.Count(n, "service")
	}
	return verb + " " + shortName(o.Members[0].Name)
}

// title is `stop of alice`, with the number of the operation if it has one.
func title(o control.Operation) string {
	verb, whom, _ := strings.Cut(subject(o), " ")
	if o.ID == 0 {
		return verb + " of " + whom
	}
	return fmt.Sprintf("%s of %s (operation %d)", verb, whom, o.ID)
}

// shortName is the name that people use: only services of profiles begin with the prefix.
func shortName(name string) string {
	return text.Line(strings.TrimPrefix(name, service.GatewayPrefix))
}

// progress is how far an operation is.
func progress(o control.Operation) string {
	counts := map[string]int{}
	for _, m := range o.Members {
		counts[m.State]++
	}
	line := text.Number(counts["done"]) + " of " + text.Number(len(o.Members)) + " done"
	for _, state := range []string{"running", "failed"} {
		if n := counts[state]; n > 0 {
			line += ", " + text.Number(n) + " " + state
		}
	}
	return line
}

// awaited is what the first of the members waits for that are under way.
func awaited(o control.Operation) string {
	for _, m := range o.Members {
		if m.State == "running" && m.Reason != "" {
			return "; " + shortName(m.Name) + " " + text.Line(m.Reason)
		}
	}
	return ""
}

// line is the line at the foot on the operation that is under way.
func (d doing) line() string {
	if d.operation.ID == 0 {
		return text.Line(d.begun.Verb) + ": asking the supervisor"
	}
	verb, whom, _ := strings.Cut(subject(d.operation), " ")
	return verb + " of " + whom + ": " + progress(d.operation) + " (c cancels)" + awaited(d.operation)
}

// operations is the page of operations.
type operations struct {
	all   []control.Operation // the latest first
	why   string              // why they are not known; "": they are
	asked bool                // there was an answer
	id    uint64              // of the one that the cursor is on
	index int
	first int // the first that is drawn
}

func (p *operations) set(in Operations) {
	p.asked, p.why = true, text.Line(in.Why)
	if in.Why != "" {
		return
	}
	p.all = p.all[:0]
	for i := len(in.All) - 1; i >= 0; i-- {
		p.all = append(p.all, in.All[i])
	}
	for i, o := range p.all {
		if o.ID == p.id {
			p.index = i
		}
	}
	p.move(0)
}

func (p *operations) move(by int) {
	if p.index = max(0, min(p.index+by, len(p.all)-1)); len(p.all) > 0 {
		p.id = p.all[p.index].ID
	}
}

// cursor is the operation that the cursor is on.
func (p *operations) cursor() (control.Operation, bool) {
	if len(p.all) == 0 {
		return control.Operation{}, false
	}
	return p.all[p.index], true
}

// pressOperations does what a key stands for on the page of operations.
func (m *Model) pressOperations(k Key) []Effect {
	if by, ok := movement(k.Name, m.rows()); ok {
		m.operations.move(by)
		return nil
	}
	if k.Name == "esc" || k.Name == "o" {
		m.page = listPage
	}
	return nil
}

// members says what became of those members that did not go well. Of one service the name
// is told already.
func members(o control.Operation) string {
	if len(o.Members) == 1 {
		return text.Line(cmp.Or(o.Members[0].Reason, o.Reason))
	}
	var failed []string
	done := 0
	for _, m := range o.Members {
		switch m.State {
		case "done":
			done++
		case "failed":
			failed = append(failed, strings.TrimSuffix(shortName(m.Name)+": "+m.Reason, ": "))
		}
	}
	switch {
	case len(failed) > 0:
		return text.Line(text.Names(failed, 3))
	case o.Omitted == 0: // else those that are done may be among the members that are not kept
		return fmt.Sprintf("%s of %s done", text.Number(done), text.Number(len(o.Members)))
	}
	return text.Line(o.Reason)
}

package screen

import (
	"fmt"
	"strings"

	"rlminit/beside/top/table"
	"rlminit/beside/top/text"
)

// one is the page of a single service.
type one struct {
	service string // its name
	opened  int    // the number under which its log was opened
	log     logPane
	row     table.Row // how it was last, also when it is gone
}

// open opens the page of the service that the cursor is on.
func (m *Model) open() []Effect {
	r, _ := m.table.Cursor()
	if r == nil {
		return nil
	}
	m.table.Move(0) // it stays on that one
	m.page = onePage
	m.one = one{service: r.Service.Name, opened: m.one.opened + 1, row: *r, log: logPane{found: -1}}
	return []Effect{OpenLog{Of: m.one.opened, Service: r.Service.Name}}
}

// logged takes in lines of a log, if it is the one that is open.
func (o *one) logged(in Logged) {
	if in.Of != o.opened {
		return
	}
	o.log.trouble = text.Line(in.Why)
	o.log.add(in.Lines)
}

// sidewise is by how many columns a key moves a log.
const sidewise = 16

// pressOne does what a key stands for on the page of a service.
func (m *Model) pressOne(k Key) []Effect {
	log := &m.one.log
	if by, ok := movement(k.Name, log.height); ok {
		log.scroll(by)
		return nil
	}
	switch k.Name {
	case "esc", "backspace":
		switch {
		case m.note.bad:
			m.note = note{}
			return nil
		case log.sought != "":
			log.sought, log.found = "", -1
			return nil
		}
		m.page = listPage
		return []Effect{CloseLog{}}
	case "left", "h":
		log.column = max(0, log.column-sidewise)
	case "right", "l":
		log.column = min(log.column+sidewise, 8<<10)
	case "/":
		m.typing = &typing{what: searching}
	case "n":
		log.next(-1)
	case "N":
		log.next(1)
	case "space":
		log.scroll(max(1, log.height-1))
	case "o":
		m.page = operationsPage
		return []Effect{CloseLog{}, AskOperations{}}
	default:
		if r := m.table.Row(m.one.service); r != nil {
			return m.command(k.Name, []*table.Row{r})
		}
	}
	return nil
}

// facts are the lines on the service, of which a small terminal shows the first.
func (m *Model) facts() []string {
	o := &m.one
	gone := ""
	if r := m.table.Row(o.service); r != nil {
		o.row = *r
	} else {
		gone = ", and is gone now"
	}
	r := &o.row
	s := r.Service
	head := fmt.Sprintf("%s  %s for %s%s", style(heading, r.Name), styleState(r.State), r.Since(m.table.At), gone)
	if name := text.Line(s.Name); name != r.Name {
		head += "  " + name
	}
	for _, n := range []struct {
		name string
		of   *int
	}{{"pid", s.PID}, {"port", s.Port}} {
		if n.of != nil && *n.of > 0 {
			head += fmt.Sprintf("  %s %d", n.name, *n.of)
		}
	}
	lines := []string{head}
	if r.Why != "" {
		lines = append(lines, r.Why)
	}
	return append(lines, uses(r), history(r))
}

// uses says what a service uses.
func uses(r *table.Row) string {
	parts := []string{"memory " + text.Left(text.Size(r.Memory), 4) + " " + sparkMemory(r, 12)}
	parts = append(parts, "CPU "+text.Left(text.Percent(r.CPU)+"%", 5)+" "+spark(r.CPUs, leastCPU, 12))
	if u := r.Service.Usage; u != nil {
		parts = append(parts, text.Count(u.Processes, "process"))
		if u.Cgroup != nil && u.Cgroup.MemoryMax != nil {
			parts = append(parts, "may have "+text.Size(*u.Cgroup.MemoryMax))
		}
	}
	return strings.ReplaceAll(strings.Join(parts, "  "), "processs", "processes")
}

// history says what has become of a service.
func history(r *table.Row) string {
	parts := []string{text.Count(r.Service.Restarts, "restart") + " since rlminit started"}
	if e := r.Service.LastExit; e != nil {
		parts = append(parts, "last ended at "+e.At.Local().Format("2006-01-02 15:04:05 MST")+": "+table.Exit(*e))
	}
	if r.Service.Desired != "" {
		parts = append(parts, "meant to be "+text.Line(r.Service.Desired))
	}
	if k := r.Service.Kind; k != nil && *k != "default" {
		parts = append(parts, "kind "+text.Line(*k))
	}
	return strings.Join(parts, "; ")
}

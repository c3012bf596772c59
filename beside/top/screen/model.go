package screen

import (
	"time"

	"rlminit/beside/top/table"
	"rlminit/beside/top/text"
)

// page is what the terminal shows.
type page int

const (
	listPage page = iota
	onePage
	operationsPage
	helpPage
)

// Model is all that top knows. The zero Model is empty, and ready for Step.
type Model struct {
	size   Size
	table  table.Table
	latest table.Snapshot // for what is no service's

	page   page
	below  page // the page that help goes back to
	helped int  // the first line of help that is drawn

	first      int  // the first row of the list that is drawn
	memories   bool // the sparklines are of memory, and not of CPU
	one        one
	operations operations

	typing   *typing   // what is being typed at the foot; nil: nothing
	filter   string    // that the list has
	question *question // that waits for an answer; nil: none
	asked    int       // how many questions were asked: their number
	doing    doing

	silent string // why the supervisor does not answer; "": it does
	note   note
}

// note is a line at the foot that tells what became of something.
type note struct {
	text  string
	until time.Time // when it goes away; zero: when there is another, or a person wants it
	bad   bool
}

// noteFor is how long a note of what went well stays.
const noteFor = 6 * time.Second

// tell shows a note for a while.
func (m *Model) tell(what string) {
	m.note = note{text: text.Line(what), until: m.table.At.Add(noteFor)}
}

// complain shows a note until there is another, or Esc is pressed.
func (m *Model) complain(what string) { m.note = note{text: text.Line(what), bad: true} }

// Step takes in what has come, and returns what is to be done.
func (m *Model) Step(in Input) []Effect {
	switch in := in.(type) {
	case Size:
		m.size = in
	case Key:
		return m.press(in)
	case Pasted:
		m.paste(in.Text)
	case Fresh:
		return m.fresh(in.Snapshot)
	case Silent:
		m.silent = "the supervisor does not answer; trying again"
		if in.Why != "" {
			m.silent += ": " + text.Line(in.Why)
		}
	case Logged:
		m.one.logged(in)
	case Depends:
		m.depends(in)
	case Operated:
		m.operated(in)
	case Operations:
		m.operations.set(in)
	}
	return nil
}

// fresh takes in how all services are.
func (m *Model) fresh(s table.Snapshot) []Effect {
	m.silent = ""
	m.latest = s
	m.table.Set(s)
	if !m.note.until.IsZero() && s.At.After(m.note.until) {
		m.note = note{}
	}
	if m.page == operationsPage {
		return []Effect{AskOperations{}}
	}
	return nil
}

// press does what a key stands for.
func (m *Model) press(k Key) []Effect {
	switch k.Name {
	case "ctrl+c":
		return []Effect{Quit{}}
	case "ctrl+z":
		return []Effect{Suspend{}}
	case "ctrl+l":
		return []Effect{Redraw{}}
	}
	switch {
	case m.question != nil:
		return m.reply(k)
	case m.typing != nil:
		return m.typed(k)
	}
	if m.page == helpPage {
		if by, ok := movement(k.Name, m.helpRoom()); ok {
			m.helped = max(0, min(m.helped+by, len(help)-m.helpRoom()))
		} else {
			m.page = m.below
		}
		return nil
	}
	switch k.Name {
	case "q":
		return []Effect{Quit{}}
	case "?", "f1":
		m.below, m.page, m.helped = m.page, helpPage, 0
		return nil
	case "c":
		m.askCancel()
		return nil
	}
	switch m.page {
	case onePage:
		return m.pressOne(k)
	case operationsPage:
		return m.pressOperations(k)
	}
	return m.pressList(k)
}

// pressList does what a key stands for in the list.
func (m *Model) pressList(k Key) []Effect {
	if by, ok := movement(k.Name, m.rows()); ok {
		m.table.Move(by)
		return nil
	}
	switch k.Name {
	case "esc":
		return m.leaveList()
	case "enter":
		return m.open()
	case "/":
		m.typing = &typing{what: filtering, text: m.filter}
	case "s":
		m.table.Sort()
	case "S":
		m.table.Turn()
	case "m":
		m.memories = !m.memories
	case "space":
		m.table.Mark()
		m.table.Move(1)
	case "a":
		m.table.MarkShown()
	case "o":
		m.page = operationsPage
		return []Effect{AskOperations{}}
	default:
		return m.command(k.Name, m.table.Chosen())
	}
	return nil
}

// leaveList takes away, one after the other, what a person has put on the list.
func (m *Model) leaveList() []Effect {
	switch {
	case m.note.bad:
		m.note = note{}
	case m.table.Marks() > 0:
		m.table.Unmark()
	case m.filter != "":
		m.filter = ""
		m.table.Filter("")
	}
	return nil
}

// far is further than any list or log is long.
const far = 1 << 30

// movement is by how many rows a key moves, where a page has so many.
func movement(key string, rows int) (by int, ok bool) {
	switch key {
	case "up", "k", "ctrl+p":
		return -1, true
	case "down", "j", "ctrl+n":
		return 1, true
	case "pgup", "ctrl+b":
		return -max(1, rows-1), true
	case "pgdown", "ctrl+f":
		return max(1, rows-1), true
	case "home", "g":
		return -far, true
	case "end", "G":
		return far, true
	}
	return 0, false
}

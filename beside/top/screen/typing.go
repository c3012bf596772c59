package screen

import (
	"unicode"
	"unicode/utf8"
)

// typing is a line that is being typed at the foot.
type typing struct {
	what purpose
	text string
}

// purpose is what a typed line is for.
type purpose int

const (
	filtering purpose = iota // of the list, at each letter
	searching                // in the log, when it is ended
)

// typedMost is how many bytes a typed line may have.
const typedMost = 200

// typed takes in a key of a line that is typed.
func (m *Model) typed(k Key) []Effect {
	line := m.typing
	switch k.Name {
	case "esc":
		m.typing = nil
		if line.what == filtering {
			m.setFilter("")
		}
		return nil
	case "enter":
		m.typing = nil
		if line.what == searching {
			m.one.log.search(line.text)
		}
		return nil
	case "backspace", "ctrl+h":
		_, size := utf8.DecodeLastRuneInString(line.text)
		line.text = line.text[:len(line.text)-size]
	case "ctrl+u":
		line.text = ""
	case "up", "down", "pgup", "pgdown":
		if by, ok := movement(k.Name, m.rows()); ok && line.what == filtering {
			m.table.Move(by)
		}
		return nil
	default:
		line.add(k.Text)
	}
	if line.what == filtering {
		m.setFilter(line.text)
	}
	return nil
}

// paste puts pasted text where a line is typed, and else nowhere.
func (m *Model) paste(pasted string) {
	if m.typing == nil || m.question != nil {
		return
	}
	if m.typing.add(pasted); m.typing.what == filtering {
		m.setFilter(m.typing.text)
	}
}

// add adds what can be seen of a text.
func (l *typing) add(more string) {
	for _, r := range more {
		if unicode.IsPrint(r) && len(l.text)+utf8.RuneLen(r) <= typedMost {
			l.text += string(r)
		}
	}
}

func (m *Model) setFilter(words string) {
	m.filter = words
	m.table.Filter(words)
}

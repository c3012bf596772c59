package screen

import (
	"strings"

	"charm.land/lipgloss/v2"

	"rlminit/beside/top/table"
	"rlminit/beside/top/text"
	"rlminit/control"
)

// The styles. None says anything that a word or a character does not say too.
var (
	heading = lipgloss.NewStyle().Bold(true)
	chosen  = lipgloss.NewStyle().Reverse(true)
	faint   = lipgloss.NewStyle().Faint(true)
	ill     = lipgloss.NewStyle().Foreground(lipgloss.Red)
	moving  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	well    = lipgloss.NewStyle().Foreground(lipgloss.Green)
)

// style draws a text, which is one harmless line.
func style(s lipgloss.Style, line string) string {
	if line == "" {
		return ""
	}
	return s.Inline(true).Render(line)
}

// styleState draws the word for a state, with blanks around it perhaps.
func styleState(word string) string {
	switch state := strings.TrimSpace(word); state {
	case "running":
		return style(well, word)
	case "failed", control.Unhealthy:
		return style(ill, word)
	case "stopped", "exited", control.Scheduled:
		return style(faint, word)
	}
	return style(moving, word)
}

// leastCPU is the least that a full column of a sparkline of CPU stands for, in per cent:
// what is smaller is no work worth a look.
const leastCPU = 10

// spark draws the latest values, the greatest of them as a full column.
func spark(values []float32, least float32, width int) string {
	most := least
	for _, v := range values[max(0, len(values)-width):] {
		most = max(most, v)
	}
	return text.Spark(values, most, width)
}

// sparkMemory draws the latest memory of a service, so that what stays the same is below
// a full column.
func sparkMemory(r *table.Row, width int) string {
	return spark(r.Memories, float32(r.Memory)*4/3, width)
}

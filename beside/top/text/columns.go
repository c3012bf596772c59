package text

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// Width is how many columns of a terminal a text takes. Escape sequences, which only the
// styles of package screen write, take none.
func Width(s string) int { return ansi.StringWidth(s) }

// Cut is a text in no more than width columns; where it is cut it ends with an ellipsis.
func Cut(s string, width int) string {
	if width <= 0 {
		return ""
	}
	return ansi.Truncate(s, width, "…")
}

// From is a text without its first columns.
func From(s string, columns int) string {
	if columns <= 0 {
		return s
	}
	return ansi.TruncateLeft(s, columns, "")
}

// Left is a text in exactly width columns, with blanks after it.
func Left(s string, width int) string {
	s = Cut(s, width)
	return s + strings.Repeat(" ", max(0, width-Width(s)))
}

// Right is a text in exactly width columns, with blanks before it.
func Right(s string, width int) string {
	s = Cut(s, width)
	return strings.Repeat(" ", max(0, width-Width(s))) + s
}

// Size is a number of bytes in four characters at most: 12K, 3.4M, 1.0G; "-" for a
// negative one, which is not known.
func Size(n int64) string {
	if n < 0 {
		return "-"
	}
	const units = "KMGTP"
	size, unit := float64(n)/1024, 0
	for size >= 999.5 && unit < len(units)-1 {
		size, unit = size/1024, unit+1
	}
	if size < 9.95 {
		return fmt.Sprintf("%.1f%c", size, units[unit])
	}
	return fmt.Sprintf("%.0f%c", size, units[unit])
}

// Percent is a share in per cent, of one processor: 0.4 and 12 and 250; "-" for a
// negative one, which is not known.
func Percent(p float64) string {
	switch {
	case p < 0 || math.IsNaN(p):
		return "-"
	case p < 0.05:
		return "0"
	case p < 9.95:
		return fmt.Sprintf("%.1f", p)
	}
	return fmt.Sprintf("%.0f", p)
}

// Age is how long something has lasted, in its largest unit, so that what is old is
// seldom drawn again: 42s, 5m, 3h, 12d.
func Age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// Number is a count with a comma between thousands.
func Number(n int) string {
	s := fmt.Sprint(n)
	for at := len(s) - 3; at > 0 && s[at-1] != '-'; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// Count is `1 service` and `3 services`.
func Count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return Number(n) + " " + of + "s"
}

// Names lists some names, and how many there are besides.
func Names(names []string, most int) string {
	if len(names) > most+1 {
		return strings.Join(names[:most], ", ") + " and " + Number(len(names)-most) + " others"
	}
	return strings.Join(names, ", ")
}

// bars are the heights of a sparkline.
var bars = []rune("▁▂▃▄▅▆▇█")

// Spark draws the latest values, one column each; most is the value of a full column, and
// a value below 0 is not known. There are blanks where there are fewer values.
func Spark(values []float32, most float32, width int) string {
	if width <= 0 {
		return ""
	}
	values = values[max(0, len(values)-width):]
	out := []rune(strings.Repeat(" ", width-len(values)))
	for _, v := range values {
		switch {
		case v < 0:
			out = append(out, ' ')
		case most <= 0:
			out = append(out, bars[0])
		default:
			step := int(v / most * float32(len(bars)))
			out = append(out, bars[min(max(step, 0), len(bars)-1)])
		}
	}
	return string(out)
}

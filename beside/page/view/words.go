package view

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"rlminit/control"
)

// shown is a state as a page shows it: the word, a mark for those who see no colours, and
// how much it asks for attention.
type shown struct {
	Word string
	Mark string
	Rank int // 0 is the worst
	Tone string
}

// The tones of states; the style sheet has a colour for each.
const (
	ill    = "ill"
	moving = "moving"
	well   = "well"
	still  = "still"
)

var states = map[string]shown{
	"failed":          {"failed", "✖", 0, ill},
	"backoff":         {"backoff", "↻", 1, ill},
	control.Unhealthy: {"unhealthy", "▲", 2, ill},
	"waiting":         {"waiting", "…", 3, moving},
	"starting":        {"starting", "◔", 3, moving},
	"stopping":        {"stopping", "◑", 3, moving},
	control.Outdated:  {"outdated", "◇", 4, moving},
	"running":         {"running", "●", 5, well},
	control.Scheduled: {"scheduled", "◷", 6, still},
	"exited":          {"exited", "□", 7, still},
	"stopped":         {"stopped", "■", 8, still},
}

// stateOf is the state of a service as people see it.
func stateOf(s control.Service) shown {
	word := s.Seen()
	if word == "running" && s.Outdated {
		word = control.Outdated
	}
	is, ok := states[word]
	if !ok {
		is = shown{word, "?", 3, moving}
	}
	if tone, judged := tones[s.Verdict]; judged {
		is.Tone = tone
	}
	if is.Tone == well && (s.Outdated || s.Flapping || s.Refused != "") {
		is.Tone = moving
	}
	return is
}

// tones are those of verdicts, which decide; a tier has none.
var tones = map[string]string{"ill": ill, "pending": moving, "ok": well, "off": still}

// toneOf is the tone of a state of an event, an operation, a job or a revision.
func toneOf(state string) string {
	if known, ok := states[state]; ok {
		return known.Tone
	}
	switch state {
	case control.ToIll, control.ToFlapping, "timed_out", "refused", "partly", "stuck", "interrupted", "rolled-back":
		return ill
	case "done", "applied", "succeeded", "passed", "unchanged", "healthy", control.ToWell:
		return well
	case "cancelled", "superseded", "undone", "rolled_back":
		return still
	}
	return moving
}

// markOf is its mark.
func markOf(state string) string {
	if known, ok := states[state]; ok {
		return known.Mark
	}
	return map[string]string{ill: "✖", well: "✔", still: "■", moving: "…"}[toneOf(state)]
}

// label is a service as people call it: by its profile, if it is one's.
func label(s control.Service) string {
	if s.Profile != nil {
		return *s.Profile
	}
	return s.Name
}

// why is the reason of a state, or what the service says of itself.
func why(s control.Service) string {
	switch {
	case s.Reason != nil && *s.Reason != "":
		return *s.Reason
	case s.Outdated && s.OutdatedWhy != "":
		return s.OutdatedWhy
	case s.Seen() == control.Scheduled:
		return "next at " + clock(*s.Schedule.Next)
	case s.StatusText != nil:
		return *s.StatusText
	case s.State == "stopped" && s.LastExit != nil:
		return "last exit: " + endedText(s.LastExit)
	case s.State == "stopped":
		return "it has not run since the container started"
	}
	return ""
}

// endedText says how a process ended.
func endedText(e *control.Exit) string {
	switch {
	case e == nil:
		return ""
	case e.Signal != nil:
		return "killed by " + *e.Signal
	case e.Code != nil:
		return "exit code " + itoa(*e.Code)
	}
	return ""
}

// times is how often something was.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return itoa(n) + " times"
}

// textMost is how many bytes of a text are shown on one line.
const textMost = 2000

// clean makes one harmless line of a text that a service may have chosen, and cuts it.
// Colours of a terminal are taken away; other characters that cannot be seen, or that turn
// the direction of what follows, are shown as what they are. It is still to be escaped.
func clean(s string) string {
	var b strings.Builder
	b.Grow(min(len(s), textMost) + 16)
	for i := 0; i < len(s); {
		if b.Len() > textMost {
			b.WriteString("… (cut)")
			break
		}
		if n := colour(s[i:]); n > 0 {
			i += n
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\t':
			b.WriteByte(' ')
		case r < 0x20:
			b.WriteRune(0x2400 + r) // ␀ to ␟
		case r == 0x7f:
			b.WriteRune('␡')
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// colour is the length of the escape sequence for colours (ECMA-48, SGR) that s begins with; 0: it
// begins with none.
func colour(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	for i := 2; i < len(s) && i < 32; i++ {
		switch c := s[i]; {
		case c == 'm':
			return i + 1
		case (c < '0' || c > '9') && c != ';' && c != ':':
			return 0
		}
	}
	return 0
}

// sizeText is a number of bytes for people.
func sizeText(n int64) string {
	if n < 0 {
		return "–"
	}
	size, unit := float64(n), 0
	for size >= 999.5 && unit < 4 {
		size, unit = size/1024, unit+1
	}
	text := strconv.FormatFloat(size, 'f', 0, 64)
	if size < 9.95 && unit > 0 {
		text = strconv.FormatFloat(size, 'f', 1, 64)
	}
	return text + " " + []string{"B", "KB", "MB", "GB", "TB"}[unit]
}

// tookText is a duration for people.
func tookText(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// who is a uid for people.
func who(uid uint32) string {
	switch uid {
	case uint32(os.Geteuid()):
		return "this page"
	case 0:
		return "root"
	}
	return "uid " + strconv.FormatUint(uint64(uid), 10)
}

// count is a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

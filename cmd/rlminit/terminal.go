package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/reap/sys"
)

// terminal is where a verb reads and writes, and what may be done there.
type terminal struct {
	in     io.Reader
	out    *output
	err    io.Writer
	isTTY  bool // out is a terminal
	colour bool
	width  int // columns; 0: no limit
	height int // lines; 0: no limit
	now    func() time.Time

	json   bool   // the answer is for programs: --json, or -o
	format string // of -o; "": none was asked for
}

func newTerminal() *terminal {
	t := &terminal{in: os.Stdin, out: &output{to: os.Stdout}, err: os.Stderr, now: time.Now}
	if sys.Closed&(1<<1) != 0 {
		t.out.to = closed{}
	}
	if isTerminal(os.Stdout) {
		t.isTTY = true
		t.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		t.measure()
	}
	return t
}

// measure takes the size of the terminal as it is now.
func (t *terminal) measure() {
	if size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ); err == nil {
		t.width, t.height = int(size.Col), int(size.Row)
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func (t *terminal) printf(format string, args ...any) { fmt.Fprintf(t.out, format, args...) }

// output is where a verb prints. It remembers that something could not be
// written, so that each line need not be looked after.
type output struct {
	to     io.Writer
	failed error
}

func (o *output) Write(b []byte) (int, error) {
	if o.failed != nil {
		return 0, o.failed
	}
	n, err := o.to.Write(b)
	if err != nil { // never EPIPE: SIGPIPE has ended us by then, os/signal
		o.failed = control.Failed("cannot write to standard output: %v", reason(err))
	}
	return n, o.failed
}

// closed is a standard output that nobody has opened: the /dev/null that Go's
// runtime puts there would hide that nobody can read what was printed.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, unix.EBADF }

// complain writes an error's line, or its lines where it is several faults.
func (t *terminal) complain(what string) {
	for line := range strings.Lines(what) {
		fmt.Fprintf(t.err, "rlminit: %s\n", printable(line))
	}
}

// open finds the rlminit to ask, and says what an answer waits for.
func (t *terminal) open() *control.Client {
	client := control.Open()
	client.Notice = t.complain
	return client
}

// asking is the life of a verb that asks an rlminit, whatever its arguments are.
func (t *terminal) asking(f func(cmd *cobra.Command, args []string, client *control.Client) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return f(cmd, args, t.open())
	}
}

// lists makes a verb of cmd that asks for a list and shows it, as JSON too.
func lists[T any](t *terminal, cmd *cobra.Command, ask func(*control.Client, context.Context) ([]T, error), show func([]T)) *cobra.Command {
	return askingFor(t, cmd, "array", func(client *control.Client, ctx context.Context, _ []string) ([]T, error) { return ask(client, ctx) }, show)
}

// shows makes a verb of cmd that asks for what its argument names and shows it, as
// JSON too.
func shows[T any](t *terminal, cmd *cobra.Command, ask func(*control.Client, context.Context, string) (T, error), show func(*terminal, T)) *cobra.Command {
	return askingFor(t, cmd, "object", func(client *control.Client, ctx context.Context, args []string) (T, error) {
		return ask(client, ctx, args[0])
	}, func(v T) { show(t, v) })
}

// forPrograms gives a verb the flag --json.
func forPrograms(t *terminal, cmd *cobra.Command, usage string) *cobra.Command {
	cmd.Flags().BoolVar(&t.json, "json", false, usage)
	return cmd
}

// answer prints the answer to a verb: as JSON where that is wanted, else by show.
func answer(t *terminal, v any, show func()) error {
	if t.json {
		return t.printJSON(v)
	}
	show()
	return nil
}

// askingFor is both of them.
func askingFor[T any](t *terminal, cmd *cobra.Command, what string, ask func(*control.Client, context.Context, []string) (T, error), show func(T)) *cobra.Command {
	cmd.RunE = t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
		v, err := ask(client, cmd.Context(), args)
		if err != nil {
			return err
		}
		return answer(t, v, func() { show(v) })
	})
	return formatted(t, forPrograms(t, cmd, "write a JSON "+what))
}

// The colours, as SGR parameters.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	faint  = "2"
	bold   = "1"
)

// localTime is a time for people, with its zone: the container's may be another than theirs.
func localTime(at time.Time) string { return at.Local().Format("2006-01-02 15:04:05 MST") }

// paint gives a text its colour. Whoever answers may have chosen the text, an
// intruder in the supervisor too.
func (t *terminal) paint(colour, s string) string {
	s = printable(s)
	if !t.colour || colour == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// stateColour gives each state of a service its colour.
func stateColour(state string) string {
	switch state {
	case "running", control.ToWell:
		return green
	case "failed", control.ToIll:
		return red
	case "stopped", "exited":
		return faint
	}
	return yellow
}

// printable makes one harmless line of a text that a service may have chosen:
// a log's last line may hold escape sequences.
func printable(s string) string {
	return document.Printable(strings.ReplaceAll(strings.TrimRight(s, "\r\n"), "\t", " "), unicode.ReplacementChar)
}

// caret is a line of a log with whatever a terminal might obey shown instead: ^[
// for an escape, \x9b for a byte that is no UTF-8, \u009b for a character that is
// not to be seen.
func caret(line []byte) []byte {
	end := len(bytes.TrimRight(line, "\r\n"))
	out := make([]byte, 0, len(line))
	for i := 0; i < end; {
		r, size := utf8.DecodeRune(line[i:end])
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, "\\x%02x", line[i])
		case r == '\t' || unicode.IsPrint(r):
			out = append(out, line[i:i+size]...)
		case r < 0x20:
			out = append(out, '^', byte(r)+'@')
		case r == 0x7f:
			out = append(out, "^?"...)
		default:
			out = fmt.Appendf(out, "\\u%04x", r)
		}
		i += size
	}
	return append(out, bytes.TrimLeft(line[end:], "\r")...)
}

// facts prints names and values. A value that is
// absent, nil or "" is left out.
func facts(t *terminal, width int, all ...any) {
	for i := 0; i < len(all); i += 2 {
		if c := cellOf(all[i+1]); c.text != "" {
			t.printf("%-*s %s\n", width, all[i], t.paint(c.colour, c.text))
		}
	}
}

// cellOf is a value as people are shown it.
func cellOf(v any) cell {
	switch v := v.(type) {
	case cell:
		return v
	case *string:
		return cell{text: textOr(v, "")}
	case *uint32:
		if v == nil {
			return cell{}
		}
		return cell{text: fmt.Sprint(*v)}
	}
	return cell{text: fmt.Sprint(v)}
}

// table lays out rows in columns.
type table struct {
	rows [][]cell
}

type cell struct {
	text   string
	colour string
}

// row adds a row of texts and numbers, and of cells where one has a colour.
func (b *table) row(columns ...any) {
	var row []cell
	for _, c := range columns {
		in := cellOf(c)
		in.text = printable(in.text)
		row = append(row, in)
	}
	b.rows = append(b.rows, row)
}

func (b *table) header(names ...string) {
	var row []cell
	for _, name := range names {
		row = append(row, cell{name, bold})
	}
	b.rows = append(b.rows, row)
}

// writeOr is write, or says what it means that there is no row below the header.
func (b *table) writeOr(t *terminal, none string) {
	if len(b.rows) == 1 {
		t.printf("%s", none)
		return
	}
	b.write(t)
}

// write prints the table, two blanks between columns and none at the end of a
// line. On a terminal the last column is cut where the line would wrap.
func (b *table) write(t *terminal) {
	var widths []int
	for _, row := range b.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	var text bytes.Buffer // written at once: each write may wake who reads a pipe
	for _, row := range b.rows {
		begin, at := text.Len(), 0
		for i, c := range row {
			shown := c.text
			if i == len(row)-1 {
				shown = cut(shown, t.width, at)
			}
			text.WriteString(t.paint(c.colour, shown))
			for pad := utf8.RuneCountInString(shown); i < len(row)-1 && pad < widths[i]+2; pad++ {
				text.WriteByte(' ')
			}
			at += widths[i] + 2
		}
		text.Truncate(begin + len(bytes.TrimRight(text.Bytes()[begin:], " ")))
		text.WriteByte('\n')
	}
	t.out.Write(text.Bytes())
}

// cut shortens text that begins at a column so that it ends before width.
func cut(text string, width, at int) string {
	letters := []rune(text)
	room := width - at
	if width == 0 || len(letters) <= room {
		return text
	}
	if room < 2 {
		room = 2
	}
	if len(letters) <= room {
		return text
	}
	return string(letters[:room-1]) + "…"
}

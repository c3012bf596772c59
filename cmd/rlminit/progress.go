package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
)

// What takes no longer than quick is over before anybody could read how far it is.
const quick = 200 * time.Millisecond

// progress shows on standard error, where that is a terminal, how far an operation
// is for which its caller waits: some lines that are drawn again in their place, and
// removed in the end. Nil shows nothing.
type progress struct {
	to    io.Writer
	paint terminal // for its colours
	begun time.Time

	mu    sync.Mutex
	known control.Operation // ID 0: none yet
	drawn []int             // the widths of the lines that stand above the cursor
	over  bool              // nothing is drawn any more
}

// newProgress returns nil where nothing is to be shown in place.
func newProgress(t *terminal) *progress {
	if !isTerminal(os.Stderr) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &progress{to: t.err, paint: terminal{colour: os.Getenv("NO_COLOR") == ""}, begun: time.Now()}
}

// showing does what waits for an operation, and shows how far that is. ^C and TERM
// end the waiting alone, and then this process as they would have.
func showing(ctx context.Context, t *terminal, wait func(context.Context, *progress) error) error {
	p := newProgress(t)
	if p == nil {
		return wait(ctx, nil)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGCONT)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(s) { // as a shell has it for what runs in the background
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)

	err, out := t.err, t.out.to
	t.err = beside{p, err}
	if t.isTTY {
		t.out.to = beside{p, out}
	}
	ended := make(chan struct{})
	var by syscall.Signal
	go func() {
		defer close(ended)
		by = p.keep(ctx, signals)
		cancel()
	}()
	failed := wait(ctx, p)
	cancel()
	<-ended
	t.err, t.out.to = err, out
	id := p.end()
	if by == 0 || failed == nil {
		return failed
	}
	if id > 0 {
		t.complain(fmt.Sprintf("operation %d goes on; rlminit wait --operation %d waits for it again, rlminit cancel %d ends it", id, id, id))
	}
	// A shell's loop ends when ^C has ended its command, not when it exits.
	signal.Reset(by)
	_ = unix.Kill(os.Getpid(), by)
	time.Sleep(time.Second) // another thread may get it, a moment later
	return exitStatus(128 + int(by))
}

// keep draws again every second, for the time that passes, and where the terminal
// has changed. It returns the signal that ended it, 0 if the context did.
func (p *progress) keep(ctx context.Context, signals <-chan os.Signal) syscall.Signal {
	next := time.NewTimer(quick)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0
		case <-next.C:
			next.Reset(time.Second)
		case s := <-signals:
			switch s {
			case syscall.SIGCONT: // a shell has written below it
				p.mu.Lock()
				p.drawn = nil
				p.mu.Unlock()
			case syscall.SIGWINCH:
			default:
				return s.(syscall.Signal)
			}
		}
		p.draw()
	}
}

// set takes the operation as it is now.
func (p *progress) set(o control.Operation) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.known = o
	p.mu.Unlock()
	p.draw()
}

// draw puts the present state in the place of the former.
func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(p.begun)
	if p.over || p.known.ID == 0 || p.known.Over() || took < quick || !inForeground() {
		return
	}
	width, height := sizeOf(os.Stderr)
	var block strings.Builder
	block.WriteString(p.erase(width))
	block.WriteString("\x1b[?7l") // wrap no line: a letter may be two columns wide
	for _, line := range progressLines(p.known, took, width, height) {
		block.WriteString(p.paint.paint(line.colour, line.text) + "\n")
		p.drawn = append(p.drawn, len([]rune(line.text)))
	}
	block.WriteString("\x1b[?7h")
	_, _ = io.WriteString(p.to, block.String()) // there is nowhere to complain to
}

// end removes it from the terminal for good, and returns the id of an operation that
// goes on, 0 if none is known.
func (p *progress) end() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.over = true
	if p.known.Over() {
		return 0
	}
	return p.known.ID
}

// clear removes it until it is drawn again. The caller holds mu.
func (p *progress) clear() {
	if len(p.drawn) > 0 && inForeground() {
		width, _ := sizeOf(os.Stderr)
		_, _ = io.WriteString(p.to, p.erase(width))
	}
}

// erase is what removes the lines that are drawn, and forgets them. A terminal that
// has become narrower has broken them into several.
func (p *progress) erase(width int) string {
	if len(p.drawn) == 0 {
		return ""
	}
	up := 0
	for _, letters := range p.drawn {
		up += max(1, (letters+width-1)/width)
	}
	p.drawn = nil
	return fmt.Sprintf("\r\x1b[%dA\x1b[J", up)
}

// beside writes lines to the same terminal that are to stay there.
type beside struct {
	p  *progress
	to io.Writer
}

func (b beside) Write(text []byte) (int, error) {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	b.p.clear()
	return b.to.Write(text)
}

// inForeground tells whether this process may write over its terminal: one in the
// background would do it below a person's fingers.
func inForeground() bool {
	group, err := unix.IoctlGetInt(int(os.Stderr.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp() // an error: it is no shell's, and ours alone
}

// sizeOf is the size of a terminal; what it was not told it takes to be as most are.
func sizeOf(f *os.File) (width, height int) {
	if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
		width, height = int(size.Col), int(size.Row)
	}
	return cmp.Or(width, 80), cmp.Or(height, 24)
}

// progressLines says of an operation how many of its members are done, and of each
// other one how it is, the worst first, in as much room as there is above the
// cursor's line.
func progressLines(o control.Operation, took time.Duration, width, height int) []cell {
	var others []control.OperationMember
	failed := 0
	for _, m := range o.Members {
		if m.State != "done" {
			others = append(others, m)
		}
		if m.State == "failed" {
			failed++
		}
	}
	total := len(o.Members) + o.Omitted
	head := fmt.Sprintf("operation %d %s: %d of %d done", o.ID, printable(o.Verb), total-len(others), total)
	if failed > 0 {
		head += fmt.Sprintf(", %d failed", failed)
	}
	lines := []cell{{head + ", " + tookText(took), bold}}
	shown, rest := fitting(others, height-1, memberUrgency, func(m control.OperationMember) string { return m.State })
	for _, m := range shown {
		colour := ""
		if m.State == "failed" {
			colour = red
		}
		lines = append(lines, cell{"  " + memberLine(nil, m), colour})
	}
	if rest != "" {
		lines = append(lines, cell{"  " + rest, ""})
	}
	lines = lines[:min(len(lines), max(height-1, 0))]
	for i := range lines {
		lines[i].text = cut(lines[i].text, max(width, 2), 0)
	}
	return lines
}

// memberUrgency sorts members that a person should look at before the rest.
func memberUrgency(m control.OperationMember) int {
	switch m.State {
	case "failed":
		return 0
	case "running":
		return 2
	case "pending":
		return 3
	}
	return 1 // cancelled, superseded, interrupted
}

// untilOver waits until an operation is over, and hands each state of it to each, which
// may be nil.
func untilOver(ctx context.Context, t *terminal, client *control.Client, o control.Operation, each func(control.Operation)) (control.Operation, error) {
	begun := t.now()
	err := showing(ctx, t, func(ctx context.Context, p *progress) error {
		for {
			if each != nil {
				each(o)
			}
			p.set(o)
			if o.Over() {
				return nil
			}
			next, err := p.next(ctx, client, o.ID)
			if err != nil {
				return err
			}
			o = next
		}
	})
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		id := strconv.FormatUint(o.ID, 10)
		err = control.TimedOut("operation "+id, o.State, t.now().Sub(begun), "operations "+id)
	}
	return o, err
}

// next returns an operation when a member of it is over, as the server tells it, or
// in time to show again what the others do.
func (p *progress) next(ctx context.Context, client *control.Client, id uint64) (control.Operation, error) {
	if p == nil {
		return client.Operation(ctx, id, true)
	}
	pause := time.Second
	if time.Since(p.begun) < quick {
		pause = quick
	}
	soon, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	o, err := client.Operation(soon, id, true)
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		return client.Operation(ctx, id, false)
	}
	return o, err
}

// search follows the operation that this process has begun with a command whose
// answer, which has the id, comes when it is over. A supervisor that is replaced
// may begin another.
func (p *progress) search(ctx context.Context, verb string) {
	client := control.Open() // one that leaves it to the other to name its blocker
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		list, err := client.Operations(ctx)
		if err != nil {
			return // the caller may not read them, or nobody answers: the command says so
		}
		var ours control.Operation
		for _, o := range list {
			if o.ID > ours.ID && !o.Over() && o.Verb == verb && int(o.Actor.PID) == os.Getpid() && int(o.Actor.UID) == os.Geteuid() {
				ours = o
			}
		}
		for ours.ID > 0 && !ours.Over() {
			p.set(ours)
			next, err := p.next(ctx, client, ours.ID)
			if err != nil {
				return
			}
			ours = next
		}
	}
}

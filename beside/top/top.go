// Package top is `rlminit top`: services in a terminal, which a person watches and
// operates.
//
// It carries out what package screen decides, by package watch, and owns the terminal as
// long as that takes. It decides nothing about services, and keeps nothing when it ends.
package top

import (
	"context"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"rlminit/beside/top/screen"
	"rlminit/beside/top/watch"
	"rlminit/control"
)

// frames is how often a second a screen is drawn at most. Only what has changed is
// written, and nothing if nothing has.
const frames = 10

// Screen shows services on the terminal that in and out are, until a person quits or ctx is
// done. It returns the number of the operation that was begun and is not over, 0 if there
// is none. The error is of the first look at the services, or of the terminal.
func Screen(ctx context.Context, client *control.Client, every time.Duration, in io.Reader, out io.Writer) (unfinished uint64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	source := watch.New(client, every)
	first, err := source.Look(ctx)
	if err != nil {
		return 0, err
	}
	client.Notice = nil // it would be written over the screen
	p := &program{ctx: ctx, source: source}
	p.model.Step(screen.Fresh{Snapshot: first})
	ui := tea.NewProgram(p, tea.WithContext(ctx), tea.WithFPS(frames), tea.WithInput(in), tea.WithOutput(out))
	p.send = func(in screen.Input) { ui.Send(in) }
	_, err = ui.Run()
	return p.model.Unfinished(), err
}

// program is the model as the library wants it. Its methods are called by the library's
// loop alone, which owns it; what runs beside that hands its answers to send.
type program struct {
	ctx    context.Context
	source *watch.Source
	model  screen.Model
	send   func(screen.Input)
	log    context.CancelFunc // ends the log that is open; nil: none is
}

// Init begins to follow the services.
func (p *program) Init() tea.Cmd {
	go func() {
		for news := range p.source.Follow(p.ctx) {
			switch {
			case news.Err != nil:
				p.send(screen.Silent{Why: why(news.Err)})
			case news.Silent:
				p.send(screen.Silent{})
			default:
				p.send(screen.Fresh{Snapshot: news.Snapshot})
			}
		}
	}()
	return nil
}

// why is an error as the screen tells it. That nobody answers, it says itself.
func why(err error) string {
	if watch.NoAnswer(err) {
		return ""
	}
	return err.Error()
}

// Update hands on what the library tells.
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var in screen.Input
	switch msg := msg.(type) {
	case screen.Input:
		in = msg
	case tea.KeyPressMsg:
		in = screen.Key{Name: msg.String(), Text: msg.Text}
	case tea.PasteMsg:
		in = screen.Pasted{Text: msg.Content}
	case tea.WindowSizeMsg:
		in = screen.Size{Width: msg.Width, Height: msg.Height}
	default:
		return p, nil
	}
	var commands []tea.Cmd
	for _, effect := range p.model.Step(in) {
		if c := p.carryOut(effect); c != nil {
			commands = append(commands, c)
		}
	}
	return p, tea.Batch(commands...)
}

// View is the whole screen.
func (p *program) View() tea.View {
	v := tea.NewView(p.model.Draw())
	v.AltScreen = true
	v.WindowTitle = p.model.Title()
	return v
}

// carryOut does what the model wants done.
func (p *program) carryOut(effect screen.Effect) tea.Cmd {
	switch e := effect.(type) {
	case screen.Quit:
		return tea.Quit
	case screen.Suspend:
		return tea.Suspend
	case screen.Redraw:
		return func() tea.Msg { return tea.ClearScreen() }
	case screen.OpenLog:
		p.closeLog()
		ctx, cancel := context.WithCancel(p.ctx)
		p.log = cancel
		go p.follow(ctx, e)
	case screen.CloseLog:
		p.closeLog()
	case screen.Begin:
		go p.operate(e)
	case screen.CancelOperation:
		return func() tea.Msg {
			o, err := p.source.Cancel(p.ctx, e.ID)
			if err != nil {
				return screen.Operated{Why: err.Error()}
			}
			return screen.Operated{Operation: o}
		}
	case screen.AskDepends:
		return func() tea.Msg {
			all, err := p.source.Dependencies(p.ctx)
			if err != nil {
				return screen.Depends{Of: e.Of, Why: err.Error(), Refused: watch.NotPermitted(err)}
			}
			return screen.Depends{Of: e.Of, All: all}
		}
	case screen.AskOperations:
		return func() tea.Msg {
			all, err := p.source.Operations(p.ctx)
			if err != nil {
				return screen.Operations{Why: err.Error()}
			}
			return screen.Operations{All: all}
		}
	}
	return nil
}

func (p *program) closeLog() {
	if p.log != nil {
		p.log()
		p.log = nil
	}
}

// follow hands on the lines of a log until it is closed.
func (p *program) follow(ctx context.Context, e screen.OpenLog) {
	for news := range p.source.Log(ctx, e.Service) {
		in := screen.Logged{Of: e.Of, Lines: news.Lines}
		if news.Err != nil {
			in.Why = news.Err.Error()
		}
		p.send(in)
	}
}

// operate begins an operation, and tells how it is until it is over.
func (p *program) operate(e screen.Begin) {
	o, err := p.source.Begin(p.ctx, e.What)
	if err != nil {
		p.send(screen.Operated{Of: e.Of, Why: err.Error()})
		return
	}
	p.send(screen.Operated{Of: e.Of, Operation: o})
	if o.Over() {
		return
	}
	for o = range p.source.Await(p.ctx, o.ID) {
		p.send(screen.Operated{Of: e.Of, Operation: o})
	}
	if !o.Over() {
		p.send(screen.Operated{Of: e.Of, Why: "what became of the operation is not known any more; see rlminit status"})
	}
}

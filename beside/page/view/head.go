package view

import (
	"bytes"
	"context"
	"os"
	"time"

	"rlminit/beside/page/live"
	"rlminit/control"
)

// head is what the title, the icon and the top of every page say: which box this is, and how
// many of its services are ill.
type head struct {
	Box string
	Ill int
}

// hostname is the box's name; "": it has none.
var hostname, _ = os.Hostname()

func headOf(services []control.Service) *head {
	return &head{Box: clean(hostname), Ill: countAll(services).Ill}
}

// Icon is the file of the page's icon.
func (h *head) Icon() string {
	if h != nil && h.Ill > 0 {
		return "ill.svg"
	}
	return "well.svg"
}

// headTime is how long a page without that may wait for it.
const headTime = time.Second

// headNow asks how all services are, unless a tab is told that already. nil: nobody answers.
func (p *base) headNow(ctx context.Context) *head {
	if now := p.hub.Now(); now != nil && len(now.Services) > 0 {
		return headOf(now.Services)
	}
	ctx, cancel := context.WithTimeout(ctx, headTime)
	defer cancel()
	services, err := p.ask.Services(ctx)
	if err != nil {
		return nil
	}
	return headOf(services)
}

// headed is a live view with the head of its page.
type headed struct {
	live.View
	p *base
}

// Full is the view with all that it shows.
func (v headed) Full(ctx context.Context, now *live.State) ([]byte, error) {
	text, err := v.View.Full(ctx, now)
	if err != nil {
		return nil, err
	}
	return v.with(text, now)
}

// Changed is what has changed of it.
func (v headed) Changed(ctx context.Context, now *live.State, b live.Batch) ([]byte, error) {
	text, err := v.View.Changed(ctx, now, b)
	if err != nil || len(b.Touched) == 0 {
		return text, err
	}
	return v.with(text, now)
}

func (v headed) with(text []byte, now *live.State) ([]byte, error) {
	out := bytes.NewBuffer(bytes.Clone(text)) // others are sent the same text
	err := v.p.part(out, "overview", "banner", headOf(now.Services))
	return out.Bytes(), err
}

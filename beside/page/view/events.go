package view

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/beside/page/live"
	"rlminit/control"
)

// eventBody is one record of the journal as it is shown.
type eventBody struct {
	Seq     uint64
	At      time.Time
	Type    string
	To      string // of a transition
	Service string // "": of none
	Words   string
	By      string
	Tone    string
	Mark    string
}

// facts are what of any record is shown. What else is in one may hold a secret, as the
// command of a job that is to be tried again.
type facts struct {
	Profile, To, Verb, State, Cause, Reason, Job, Kind, Session, Hook, What, Name, Action, Source, By, Schedule, Trash string

	Revision  int
	Operation uint64
	Services  []string
	Actor     actor
}

// actor is who a record names: a uid, or an object that has one.
type actor struct{ UID *uint32 }

// UnmarshalJSON reads both.
func (a *actor) UnmarshalJSON(text []byte) error {
	a.UID = nil
	if bytes.HasPrefix(text, []byte("{")) {
		type object actor
		return json.Unmarshal(text, (*object)(a))
	}
	return json.Unmarshal(text, &a.UID)
}

// body is a record as it is shown, and what is known of one that is no transition.
func (a *askers) body(e control.Event) (b eventBody, f facts) {
	b = eventBody{Seq: e.Seq, At: e.At, Type: e.Type, Service: e.Service}
	f.Actor.UID = e.Actor
	if isTransition(e) {
		b.Type, b.To, b.Tone, b.Mark = "transition", e.To, toneOf(e.To), markOf(e.To)
		b.Words = e.From + " → " + e.To
		if e.Cause != "" {
			b.Words += ": " + e.Cause
		}
		if e.Actor != nil { // who that is, is said beside it
			b.Words = strings.TrimSuffix(b.Words, " by uid "+strconv.FormatUint(uint64(*e.Actor), 10))
		}
	} else {
		f = facts{}
		_ = json.Unmarshal(e.Raw, &f) // what cannot be read is not shown
		b.Words, b.Tone, b.Mark = f.words(e.Type), still, "·"
		if f.State != "" {
			b.Tone, b.Mark = toneOf(f.State), markOf(f.State)
		}
	}
	if f.Actor.UID != nil {
		b.By = a.of(f.Operation, *f.Actor.UID)
	}
	b.Words, b.By = clean(b.Words), clean(b.By)
	return b, f
}

func isTransition(e control.Event) bool { return e.Type == "" || e.Type == "transition" }

// words says what a record that is no transition tells.
func (f facts) words(kind string) string {
	words := []string{strings.ReplaceAll(kind, "_", " ")}
	add := func(label, value string) {
		if value != "" {
			words = append(words, strings.TrimSpace(label+" "+value))
		}
	}
	if f.Operation > 0 && strings.HasPrefix(kind, "operation") {
		words[0] += " " + strconv.FormatUint(f.Operation, 10)
	}
	add("", f.Verb)
	add("profile", f.Profile)
	add("to", f.To)
	if f.Operation > 0 && !strings.HasPrefix(kind, "operation") {
		add("operation", strconv.FormatUint(f.Operation, 10))
	}
	if f.Revision > 0 {
		add("revision", itoa(f.Revision))
	}
	if n := len(f.Services); n > 3 {
		add("", strings.Join(f.Services[:3], ", ")+" and "+itoa(n-3)+" more")
	} else {
		add("", strings.Join(f.Services, ", "))
	}
	add("job", f.Job)
	add("of kind", f.Kind)
	add("session", f.Session)
	add("schedule", f.Schedule)
	add("hook", f.Hook)
	add("", f.What)
	add("", f.Action)
	add("", f.Name)
	add("by", f.By)
	text := strings.Join(words, ", ")
	for _, more := range []string{f.State, f.Cause, f.Reason} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// events renders what has happened, each a fragment that goes to the top.
func (p *Pages) events(out *bytes.Buffer, all []control.Event) error {
	for _, b := range slices.Backward(p.askers.bodies(all)) {
		if err := p.part(out, "events", "event", b); err != nil {
			return err
		}
	}
	return nil
}

type eventsBody struct {
	Events []eventBody
	Types  []string
	Type   string
	Name   string
	More   bool
}

func (p *Pages) eventsPage(w http.ResponseWriter, r *http.Request) {
	b := eventsBody{Types: control.RecordTypes, Type: r.FormValue("type"), Name: strings.TrimSpace(r.FormValue("name"))}
	q := control.EventQuery{}
	if b.Type != "" {
		q.Types = []string{b.Type}
	}
	if b.Name != "" {
		q.Names = []string{b.Name}
	}
	after := p.now(r)
	const most = 300
	events, err := p.ask.Events(r.Context(), q, most)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	b.Events, b.More = p.askers.bodies(events), len(events) == most
	pg := page{Title: "Events", Nav: "events", Body: b}
	if b.Type == "" && b.Name == "" {
		pg.Live, pg.After = "view=events", after
	}
	p.show(w, r, http.StatusOK, "events", pg)
}

// eventsLive are all events as they come.
type eventsLive struct{ p *Pages }

func (eventsLive) Key() string { return "events" }

func (v eventsLive) Full(ctx context.Context, _ *live.State) ([]byte, error) {
	all, err := v.p.ask.Events(ctx, control.EventQuery{}, eventsShown)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = v.p.events(&out, all)
	return out.Bytes(), err
}

func (v eventsLive) Changed(_ context.Context, _ *live.State, b live.Batch) ([]byte, error) {
	var out bytes.Buffer
	err := v.p.events(&out, b.Events)
	return out.Bytes(), err
}

package remember

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
)

// Driver carries out Remember. Anybody may call it.
type Driver struct {
	*handover.Table
	// Answer takes an input to the core: Remembered, of what could not be at first. It is
	// called without a lock.
	Answer func(core.Input)

	mu      sync.Mutex
	unsaved map[string]unsaved // Invariant: the rows, by key, of which the table has not the latest
}

// unsaved is a row that could not be written.
type unsaved struct {
	text []byte     // nil: it is to be forgotten
	of   []core.Row // whose lives wait for it, or for a row that it replaces
}

// New is a Driver with what a predecessor has left.
func New(t *handover.Table, answer func(core.Input)) *Driver {
	return &Driver{Table: t, Answer: answer, unsaved: map[string]unsaved{}}
}

// Service is what a successor is to know of one.
type Service struct {
	Profile    string          `json:"profile,omitempty"`
	Kind       string          `json:"kind,omitempty"` // where there is no definition that has it
	Recorded   bool            `json:"recorded,omitempty"`
	Desired    service.Intent  `json:"desired,omitempty"`
	Before     service.Intent  `json:"before,omitempty"`     // what Desired was, where what follows from it is yet to begin
	Commanded  bool            `json:"commanded,omitempty"`  // what is wanted was commanded, and is recorded nowhere
	Owed       bool            `json:"owed,omitempty"`       // as in core.Wants
	Definition []byte          `json:"definition,omitempty"` // fingerprint of the one in force
	Started    service.Started `json:"started,omitzero"`
	Told       Told            `json:"told,omitzero"`
	Machine    machine.State   `json:"machine"`
}

// Told is what hooks and readers of events were told of a service's verdict.
type Told struct {
	Ill      bool `json:"ill,omitempty"`      // it was told to be ill, and not to be well since
	Flapping bool `json:"flapping,omitempty"` // likewise
}

// ServicesUnder is where services are among the rows; serviceMax is what there may be of
// one, in bytes; again is how long what could not be written waits for the next try.
const (
	ServicesUnder = "service/"
	serviceMax    = 2 << 10
	again         = 5 * time.Second
)

// Service has a service remembered, whose row is of a life as it is now. false: it could
// not be.
func (d *Driver) Service(name string, s Service, of core.Row) bool {
	return d.write(ServicesUnder+name, s.encode(), of)
}

// write tells whether a row is written; if not that is tried again until it is, or
// another one of its key. A life whose row it replaces, and which waited for that, is
// answered with it: a successor knows nothing else of its name then.
func (d *Driver) write(key string, text []byte, of ...core.Row) bool {
	d.mu.Lock()
	before, failing := d.unsaved[key]
	others := slices.DeleteFunc(before.of, func(r core.Row) bool { return len(of) > 0 && r.Life == of[0].Life })
	d.unsaved[key] = unsaved{text, append(others, of...)}
	err := d.try(key)
	d.mu.Unlock()
	switch {
	case err == nil && failing:
		d.written(key, others)
	case err != nil && !failing:
		slog.Error("cannot keep this for a supervisor that replaces this one; tried again every 5 s", "what", key, "err", err)
		time.AfterFunc(again, func() { d.retry(key) })
	}
	return err == nil
}

// try writes a row. The caller holds d.mu.
func (d *Driver) try(key string) error {
	err := d.Put(key, d.unsaved[key].text)
	if err == nil {
		delete(d.unsaved, key)
	}
	return err
}

func (d *Driver) retry(key string) {
	d.mu.Lock()
	u, failing := d.unsaved[key]
	fails := failing && d.try(key) != nil
	d.mu.Unlock()
	switch {
	case fails:
		time.AfterFunc(again, func() { d.retry(key) })
	case failing:
		d.written(key, u.of)
	}
}

// written says that a row is written which could not be, to those who wait. The caller
// does not hold d.mu.
func (d *Driver) written(key string, of []core.Row) {
	slog.Info("this is kept again for a supervisor that replaces this one", "what", key)
	if len(of) > 0 {
		d.Answer(core.Input{Kind: core.Remembered, Rows: of})
	}
}

// Unsaved tells whether a successor would not know what is true of a service.
func (d *Driver) Unsaved(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, failing := d.unsaved[ServicesUnder+name]
	return failing
}

// encode is a row of at most serviceMax bytes: what is for people to read is cut first,
// then the times of starts but for the latest.
func (s Service) encode() []byte {
	for text := serviceMax; ; text /= 2 {
		b, err := json.Marshal(s)
		if err != nil || len(b) <= serviceMax || text == 0 {
			return b
		}
		state := &s.Machine
		for _, t := range []*string{
			&state.Text, &state.Reason, &state.Cause, &state.Blocked, &state.NotReady, &state.StopReason, &state.LastWords,
		} {
			*t = cut(*t, text/8)
		}
		state.Starts = state.Starts[max(0, len(state.Starts)-text/32):]
	}
}

// cut is the beginning of s, of at most n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Services is what a predecessor had remembered, by name.
func (d *Driver) Services() map[string]Service {
	all := map[string]Service{}
	var unread error
	for name, text := range d.Under(ServicesUnder) {
		var s Service
		if err := json.Unmarshal(text, &s); err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		all[name] = s
	}
	if unread != nil {
		slog.Error("what a predecessor knew of services cannot be read; what runs is taken over as it is", "err", unread)
	}
	return all
}

// Forget lets go of a service that is gone.
func (d *Driver) Forget(name string) { d.write(ServicesUnder+name, nil) }

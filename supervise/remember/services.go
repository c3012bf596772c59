package remember

import (
	"encoding/json"
	"errors"
	"log/slog"
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
	// Answer takes an input to the core: Remembered, of what could not be at first.
	Answer func(core.Input)

	mu         sync.Mutex
	services   map[string]unsaved // Invariant: those of which the table has not the latest
	operations map[uint64][]byte  // likewise; nil: it is to be forgotten
}

// unsaved is a row of a service that could not be written.
type unsaved struct {
	text []byte
	of   core.Row
}

// New is a Driver with what a predecessor has left.
func New(t *handover.Table, answer func(core.Input)) *Driver {
	return &Driver{Table: t, Answer: answer, services: map[string]unsaved{}, operations: map[uint64][]byte{}}
}

// Service is what a successor is to know of one.
type Service struct {
	Profile    string         `json:"profile,omitempty"`
	Recorded   bool           `json:"recorded,omitempty"`
	Desired    service.Intent `json:"desired,omitempty"`
	Before     service.Intent `json:"before,omitempty"`     // what Desired was, where what follows from it is yet to begin
	Commanded  bool           `json:"commanded,omitempty"`  // what is wanted was commanded, and is recorded nowhere
	Owed       bool           `json:"owed,omitempty"`       // as in core.Wants
	Definition []byte         `json:"definition,omitempty"` // fingerprint of the one in force
	Outdated   *Outdated      `json:"outdated,omitempty"`
	Machine    machine.State  `json:"machine"`
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
	d.mu.Lock()
	defer d.mu.Unlock()
	_, failing := d.services[name]
	u := unsaved{s.encode(), of}
	err := d.Put(ServicesUnder+name, u.text)
	switch {
	case err == nil:
		d.saved(name)
		return true
	case !failing:
		slog.Error("a successor would not know of a service; tried again until it can", "service", name, "err", err)
		time.AfterFunc(again, func() { d.retry(name) })
	}
	d.services[name] = u
	return false
}

func (d *Driver) retry(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u, failing := d.services[name]
	switch {
	case !failing:
	case d.Put(ServicesUnder+name, u.text) != nil:
		time.AfterFunc(again, func() { d.retry(name) })
	default:
		d.saved(name)
		go d.Answer(core.Input{Kind: core.Remembered, Rows: []core.Row{u.of}})
	}
}

func (d *Driver) saved(name string) {
	if _, failing := d.services[name]; failing {
		slog.Info("a successor will know of a service again", "service", name)
		delete(d.services, name)
	}
}

// Unsaved tells whether a successor would not know what is true of a service.
func (d *Driver) Unsaved(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, failing := d.services[name]
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
		if s.Outdated != nil {
			s.Outdated = &Outdated{s.Outdated.Run, s.Outdated.From, cut(s.Outdated.Why, text/8)}
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
func (d *Driver) Forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.services, name)
	if err := d.Delete(ServicesUnder + name); err != nil {
		slog.Warn("a successor will look for a service that is gone", "service", name, "err", err)
	}
}

package supervise

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"

	"rlminit/control"
	"rlminit/supervise/slots"
)

// publisher writes status files: copies, for whoever wants to look without asking.
// Nothing waits for one, and nobody decides by it. One that cannot be written is
// written again until it can.
type publisher struct {
	*newest[string, published]
	slots   slots.Dir
	failing map[string]bool // whose status cannot be written, which is said once
}

// published is the content of status.json.
type published struct {
	control.Service
	MainPID int `json:"main_pid,omitempty"` // MAINPID= of sd_notify(3), for show
}

func newPublisher(s slots.Dir) *publisher {
	p := &publisher{slots: s, failing: make(map[string]bool)}
	p.newest = newNewest(0, func(batch map[string]published) map[string]published {
		failed := map[string]published{}
		for name, status := range batch {
			if !p.writeStatus(name, status) {
				failed[name] = status
			}
		}
		return failed
	})
	return p
}

// publish has the state written soon.
func (p *publisher) publish(name string, status published) {
	p.put(name, func(published) published { return status })
}

// writeStatus tells whether the file is as good as it will get: one whose slot is
// gone, or not there yet, is written when there is one.
func (p *publisher) writeStatus(name string, status published) bool {
	content, err := json.Marshal(status)
	if err == nil {
		err = p.slots.Replace(name, slots.StatusFile, append(content, '\n'), 0o644)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		if p.failing[name] {
			slog.Info("the status of a service is published again", "service", name)
		}
		delete(p.failing, name)
		return true
	}
	if !p.failing[name] {
		p.failing[name] = true
		slog.Warn("cannot publish the status of a service; tried again until it works", "service", name, "err", err)
	}
	return false
}

// publishStatus has u's status written.
func (r *records) publishStatus(u *unit) {
	r.publisher.publish(u.name, published{u.status(), u.state.MainPID})
}

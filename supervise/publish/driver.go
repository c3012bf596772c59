package publish

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/slots"
)

// Driver writes status files: copies, for whoever wants to look without asking.
// Nothing waits for one, and nobody decides by it. One that cannot be written is
// written again until it can.
type Driver struct {
	*Newest[string, Status]

	Fail func() error // asked before each write; nil outside of tests

	slots   slots.Dir
	failing map[string]bool // whose status cannot be written, which is said once
}

// Status is the content of status.json.
type Status struct {
	control.Service
	MainPID int `json:"main_pid,omitempty"` // MAINPID= of sd_notify(3), for show
}

// publishPause is how long a status waits for the next one: a service that starts comes
// through several states. Who waits for an answer does not wait for that.
const publishPause = 200 * time.Millisecond

// New is a Driver of a service directory. A status is put into it by its service's name.
func New(s slots.Dir) *Driver {
	p := &Driver{slots: s, failing: make(map[string]bool)}
	p.Newest = newNewest(publishPause, func(batch map[string]Status) map[string]Status {
		failed := map[string]Status{}
		for name, status := range batch {
			if !p.writeStatus(name, status) {
				failed[name] = status
			}
		}
		return failed
	})
	return p
}

// writeStatus tells whether the file is as good as it will get: one whose slot is
// gone, or not there yet, is written when there is one.
func (p *Driver) writeStatus(name string, status Status) bool {
	status.LastLines = nil // of its log, which not everybody may read who may read the file
	content, err := json.Marshal(status)
	if err == nil && p.Fail != nil {
		err = p.Fail()
	}
	if err == nil {
		err = p.slots.Replace(name, slots.StatusFile, append(content, '\n'), 0o644)
	}
	if err == nil {
		err = p.slots.Mark(name, slots.DownFile, status.Desired == string(service.Stopped))
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

package supervise

import (
	"log/slog"
	"sync/atomic"

	"rlminit/journal"
	"rlminit/profiles"
)

// volume is the store of the volume, as far as it is ours. Anybody may ask.
type volume struct {
	store    atomic.Pointer[profiles.Store] // nil: there is none, or it is another container's
	prior    atomic.Value                   // string: how the boot before ended
	absent   atomic.Value                   // string: why there is no store
	readOnly atomic.Bool                    // it cannot be written to: configuration and volume alone decide what runs
}

// Store is nil where there is no volume, or it is another container's.
func (v *volume) Store() *profiles.Store { return v.store.Load() }

// Absent says why there is no store.
func (v *volume) Absent() string {
	why, _ := v.absent.Load().(string)
	return why
}

// PriorExit is how the boot before ended, as container-boot.log says it.
func (v *volume) PriorExit() string {
	if prior, ok := v.prior.Load().(string); ok {
		return prior
	}
	return string(journal.ExitUnknown)
}

// Log is where a profile's log lies.
func (v *volume) Log(profile string) string { return logDir("", profile) }

// Secrets is where the secrets lie that a profile was declared with; "": it has
// none.
func (v *volume) Secrets(profile string) string {
	if store := v.Store(); store != nil {
		return store.Secrets.Dir(profile)
	}
	return ""
}

// canRecord tells whether the volume can be written to. One that could not be
// when it was opened is tried again: somebody may have given it to us meanwhile.
func (v *volume) canRecord() bool {
	store := v.Store()
	if store == nil {
		return false
	}
	if !v.readOnly.Load() {
		return true
	}
	if store.CheckWritable() != nil {
		return false
	}
	v.readOnly.Store(false)
	slog.Info("the volume can be written to now; what is asked for is recorded from here on")
	return true
}

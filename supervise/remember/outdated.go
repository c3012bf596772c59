package remember

// Outdated is what of a run is older than the definition in force, which it has
// not got because nobody has restarted it yet: a rolling reload has not come to it,
// or was cancelled or interrupted. It is a part of what a successor is told.
// OUTDATED.md has the table.
type Outdated struct {
	Run  uint64 `json:"run,omitempty"`  // whose it is; another run has the definition in force
	From []byte `json:"from,omitempty"` // fingerprint of the definition that it was begun with, or one as good
	Why  string `json:"why,omitempty"`  // what has changed since that takes a restart
}

// Redefined is what follows when the definition in force becomes another while a
// run goes on; why is "" where that needs no restart.
func (o Outdated) Redefined(run uint64, from, to, why string) Outdated {
	if o.Run != run { // it has what was in force until now
		if why == "" {
			return Outdated{}
		}
		return Outdated{run, []byte(from), why}
	}
	switch {
	case string(o.From) == to:
		return Outdated{}
	case why != "":
		o.Why = why
	}
	return o
}

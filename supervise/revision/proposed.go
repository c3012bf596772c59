package revision

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/plan/apply"
)

// Bounds of the plans that wait for approval.
const (
	proposedMost  = 50
	proposedBytes = 64 << 20 // all of them, with their secrets
	// proposedFor is how long one can be approved.
	proposedFor = 24 * time.Hour
)

// proposals are the plans that wait for approval. The file of one is on the volume, whole
// or not at all, and lists need but this. It is read when somebody asks.
type proposals struct {
	archive Archive

	mu   sync.Mutex
	read bool
	all  []waiting // the oldest first
}

// Proposals is what can be asked of plans that wait for approval.
type Proposals struct{ *Revisions }

// waiting is a plan that waits.
type waiting struct {
	control.ProposedPlan // without its text
	scope                plan.Scope
	salt                 string
	base                 plan.Base
	size                 int
}

// proposal is the content of one's file.
type proposal struct {
	At      time.Time                    `json:"at"`
	UID     uint32                       `json:"uid"`
	By      string                       `json:"by"`
	Plan    string                       `json:"plan"`
	Secrets map[string]map[string]string `json:"secrets"` // by profile and place, as an apply has them
}

// Propose keeps a plan, with the secrets that its apply needs, until somebody approves or
// withdraws it.
func (r Proposals) Propose(ask control.ProposeRequest, actor uint32) (none control.ProposedPlan, err error) {
	p, err := plan.Read([]byte(ask.Plan))
	if err != nil {
		return none, problemOf(err)
	}
	if err := proposable(p, ask.Secrets); err != nil {
		return none, problemOf(err)
	}
	of := proposal{At: r.now().UTC().Truncate(time.Second), UID: actor, By: ask.By, Plan: ask.Plan, Secrets: ask.Secrets}
	text, err := json.Marshal(of)
	if err != nil {
		return none, control.Failed("cannot keep the plan: %v", err)
	}
	w := of.waiting(p, len(text))
	if w.Why = r.outdated(w); w.Why != "" {
		return none, control.NewProblem(control.KindMoved, w.Why)
	}
	w.Current = true
	r.proposed.mu.Lock()
	defer r.proposed.mu.Unlock()
	if _, err := r.proposed.list(); err != nil {
		return none, err
	}
	if known, err := r.proposed.find(p.Hash); err == nil { // the request came twice
		known.Current = true
		return known.ProposedPlan, nil
	}
	if err := r.proposed.makeRoom(len(text), r.now(), r.outdated); err != nil {
		return none, err
	}
	if err := r.archive.SavePlan(p.Hash, text); err != nil {
		return none, control.Failed("cannot keep the plan: %v", err)
	}
	if err := r.journal.Record(apply.TypeProposed, apply.RecordedProposal{Hash: p.Hash, UID: actor, By: ask.By}); err != nil {
		return none, errors.Join(control.Failed("cannot keep the plan: %v", err), r.archive.RemovePlan(p.Hash))
	}
	r.proposed.all = append(r.proposed.all, w)
	return w.ProposedPlan, nil
}

// proposable says why a plan cannot wait.
func proposable(p *plan.Plan, secrets map[string]map[string]string) error {
	switch {
	case p.Empty():
		return control.BadRequest("the plan changes nothing, and so there is nothing to approve")
	case p.Configures():
		return refused("the plan changes the configuration, which root alone may: have root apply it with rlminit apply")
	}
	for _, c := range p.Changes {
		if c.After == nil || c.Action == plan.Start || c.Action == plan.Stop {
			continue
		}
		if _, err := unsealed(c, p.Salt, secrets[c.Name], nil); err != nil {
			return err
		}
	}
	return nil
}

// waiting is its entry in a list.
func (of proposal) waiting(p *plan.Plan, size int) waiting {
	return waiting{
		ProposedPlan: control.ProposedPlan{
			Hash: p.Hash, At: of.At, Expires: p.Expires, UID: of.UID, By: of.By, Source: cmp.Or(p.Source.Revision, p.Source.File), Scope: string(p.Scope),
			Summary: p.Summary, Deletes: append([]string{}, p.Deletes()...),
		},
		scope: p.Scope, salt: p.Salt, base: p.Base, size: size,
	}
}

// outdated says why a plan cannot be applied now; "": it can.
func (r Proposals) outdated(w waiting) string {
	if r.now().After(w.Expires) {
		return fmt.Sprintf("the plan is too old: it was good until %s; make it again with rlminit plan", w.Expires.Format(time.RFC3339))
	}
	err := r.idle()
	if err == nil {
		var s survey
		if s, err = r.survey(w.scope, w.salt, false); err == nil {
			if base := r.base(s); base != w.base {
				err = moved(base, w.base)
			}
		}
	}
	if err != nil {
		return problemOf(err).Detail
	}
	return ""
}

// Waiting reads the plans that wait on a volume, in no order, without the values of their
// secrets; err is why one cannot be read.
func (f Files) Waiting(each func(hash string, p *plan.Plan, err error)) error {
	return f.LoadPlans(func(hash string, text []byte) {
		var of struct {
			Plan string `json:"plan"`
		}
		p, err := understood(hash, text, &of, &of.Plan)
		each(hash, p, err)
	})
}

// understood decodes a plan's file into a value whose field has the plan.
func understood(hash string, text []byte, of any, field *string) (*plan.Plan, error) {
	if err := json.Unmarshal(text, of); err != nil {
		return nil, err
	}
	p, err := plan.Read([]byte(*field))
	if err == nil && p.Hash != hash {
		err = errors.New("it has another hash")
	}
	return p, err
}

// list are the plans that wait. The caller holds the lock.
func (l *proposals) list() ([]waiting, error) {
	if l.read {
		return l.all, nil
	}
	l.all = nil
	err := l.archive.LoadPlans(func(hash string, text []byte) {
		var of proposal
		p, err := understood(hash, text, &of, &of.Plan)
		if err != nil {
			slog.Warn("a plan that waits for approval cannot be read", "hash", hash, "err", err)
			return
		}
		l.all = append(l.all, of.waiting(p, len(text)))
	})
	if err != nil {
		return nil, control.Failed("cannot read the plans that wait for approval: %v", err)
	}
	slices.SortStableFunc(l.all, func(a, b waiting) int { return a.At.Compare(b.At) })
	l.read = true
	return l.all, nil
}

// makeRoom lets go of plans whose time is over, and if there are too many of all that cannot
// be applied any more; or says that there are too many. The caller holds the lock.
func (l *proposals) makeRoom(size int, now time.Time, outdated func(waiting) string) error {
	for _, old := range slices.Clone(l.all) {
		if now.After(old.Expires) || !l.fits(size) && outdated(old) != "" {
			if err := l.forget(old.Hash); err != nil {
				return err
			}
		}
	}
	if !l.fits(size) {
		return control.Conflict("cannot keep the plan: %d plans wait for approval already, and %d or %d MB are the most; apply some, or take them back with rlminit plan withdraw HASH",
			len(l.all), proposedMost, proposedBytes>>20)
	}
	return nil
}

func (l *proposals) fits(size int) bool {
	for _, w := range l.all {
		size += w.size
	}
	return len(l.all) < proposedMost && size <= proposedBytes
}

// forget takes a plan off the list. The caller holds the lock.
func (l *proposals) forget(hash string) error {
	if err := l.archive.RemovePlan(hash); err != nil {
		return control.Failed("cannot remove the plan: %v", err)
	}
	l.all = slices.DeleteFunc(l.all, func(w waiting) bool { return w.Hash == hash })
	return nil
}

// List are the plans that wait, the oldest first.
func (r Proposals) List() ([]control.ProposedPlan, error) {
	r.proposed.mu.Lock()
	waits, err := r.proposed.list()
	waits = slices.Clone(waits)
	r.proposed.mu.Unlock()
	all := []control.ProposedPlan{}
	for _, w := range waits { // which reads the volume, and is nobody else's to wait for
		w.Why = r.outdated(w)
		w.Current = w.Why == ""
		all = append(all, w.ProposedPlan)
	}
	return all, err
}

// Get is one of them, with its text.
func (r Proposals) Get(hash string) (control.ProposedPlan, error) {
	w, of, err := r.proposed.load(hash)
	if err != nil {
		return w.ProposedPlan, err
	}
	w.Why, w.Plan = r.outdated(w), of.Plan
	w.Current = w.Why == ""
	return w.ProposedPlan, nil
}

// find is one of them. The caller holds the lock.
func (l *proposals) find(hash string) (waiting, error) {
	all, err := l.list()
	i := slices.IndexFunc(all, func(w waiting) bool { // the hash may be written without its prefix
		return hash == w.Hash || "sha256:"+strings.ToLower(hash) == w.Hash
	})
	switch {
	case err != nil:
		return waiting{}, err
	case i < 0:
		return waiting{}, control.NewProblem(control.KindNoSuchName, fmt.Sprintf("no plan waits under %q; see rlminit plan proposed", hash))
	}
	return all[i], nil
}

// load reads one of them, whole.
func (l *proposals) load(hash string) (w waiting, of proposal, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, err = l.find(hash); err != nil {
		return w, of, err
	}
	read := func(_ string, text []byte) { err = json.Unmarshal(text, &of) }
	if failed := l.archive.LoadPlans(read, w.Hash); err != nil || failed != nil || of.Plan == "" {
		return w, of, control.Failed("cannot read the plan: %v", cmp.Or(failed, err, fs.ErrNotExist))
	}
	return w, of, nil
}

// Withdraw takes a plan off the list.
func (r Proposals) Withdraw(hash string, actor uint32, by string) error {
	r.proposed.mu.Lock()
	defer r.proposed.mu.Unlock()
	w, err := r.proposed.find(hash)
	if err == nil {
		err = r.proposed.forget(w.Hash)
	}
	if err != nil {
		return err
	}
	if err := r.journal.Record(apply.TypeWithdrawn, apply.RecordedProposal{Hash: w.Hash, UID: actor, By: by}); err != nil {
		slog.Warn("cannot record that a plan was withdrawn", "err", err)
	}
	return nil
}

// complete fills in the plan and the secrets of an apply that names a plan that waits.
func (r Proposals) complete(ask *control.ApplyRequest) error {
	if ask.Plan != "" {
		return nil
	}
	_, of, err := r.proposed.load(ask.Approve)
	ask.Plan, ask.Secrets = of.Plan, of.Secrets
	return err
}

// drop takes a plan off the list that is carried out.
func (l *proposals) drop(hash string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, err := l.find(hash); err == nil {
		if err := l.forget(w.Hash); err != nil {
			slog.Warn("a plan that is applied stays among those that wait for approval", "err", err)
		}
	}
}

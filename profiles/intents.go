package profiles

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"rlminit/journal"
	"rlminit/journal/places"
	"rlminit/profiles/statefile"
	"rlminit/service"
)

// The types of records that change intents.
const (
	// TypeOperation is a command: a Command.
	TypeOperation = "operation"
	// TypeFound is what was taken over from state files of which the journal knew
	// nothing: "services", by name what is wanted of them.
	TypeFound = "found"
	// TypeCreated, TypeDeleted, TypeRenamed, TypeAdopted and TypeChanged are of one
	// "profile"; all but the second and the last have what is "desired" of it. So is
	// TypePurged, of what was in the trash as "trash".
	TypeCreated = places.TypeCreated
	TypeDeleted = places.TypeDeleted
	TypeRenamed = places.TypeRenamed
	TypeAdopted = "profile_adopted"
	TypeChanged = "profile_changed"
	TypePurged  = places.TypePurged
	// TypeGone are "services" that the volume and the configuration no longer have.
	TypeGone = "gone"
)

// Actor is the requester of a command, as the kernel told.
type Actor struct {
	UID uint32 `json:"uid"`
	PID int32  `json:"pid,omitempty"`
}

// Command is the body of an operation's record.
type Command struct {
	Operation uint64         `json:"operation,omitempty"`
	Verb      string         `json:"verb"`
	Intent    service.Intent `json:"intent,omitempty"` // IntentNone: it changes none
	Services  []string       `json:"services"`         // whose intent this is
	Members   []string       `json:"members,omitempty"`
	Actor     *Actor         `json:"actor,omitempty"` // nil: rlminit itself
}

// Named are the services that the command is on: Members, where these are not
// simply those whose intent it changes.
func (c Command) Named() []string {
	if len(c.Members) > 0 {
		return c.Members
	}
	return c.Services
}

// Intents is the fold of what people want of each service, by its name.
type Intents struct{ by map[string]service.Intent }

// NewIntents knows of no service.
func NewIntents() *Intents { return &Intents{by: map[string]service.Intent{}} }

// Apply is journal.Fold's.
func (i *Intents) Apply(r journal.Record) {
	switch r.Type {
	case TypeOperation:
		var c Command
		if r.Decode(&c) == nil && c.Intent != service.IntentNone {
			for _, name := range c.Services {
				i.by[name] = c.Intent
			}
		}
	case TypeFound:
		var found foundBody
		if r.Decode(&found) == nil {
			maps.Copy(i.by, found.Services)
		}
	case TypeCreated, TypeAdopted:
		var p profileBody
		if r.Decode(&p) == nil && p.Desired != service.IntentNone {
			i.by[GatewayName(p.Profile)] = p.Desired
		}
	case TypeDeleted:
		var p profileBody
		if r.Decode(&p) == nil {
			delete(i.by, GatewayName(p.Profile))
		}
	case TypeRenamed:
		var p profileBody
		if r.Decode(&p) == nil {
			if latest, ok := i.by[GatewayName(p.Profile)]; ok {
				p.Desired = latest // a command may have come after the look at it
			}
			delete(i.by, GatewayName(p.Profile))
			delete(i.by, GatewayName(p.To))
			if p.Desired != service.IntentNone {
				i.by[GatewayName(p.To)] = p.Desired
			}
		}
	case TypeGone:
		var gone goneBody
		if r.Decode(&gone) == nil {
			for _, name := range gone.Services {
				delete(i.by, name)
			}
		}
	}
}

// Snapshot is journal.Fold's.
func (i *Intents) Snapshot() any { return i.by }

// Restore is journal.Fold's.
func (i *Intents) Restore(section json.RawMessage) error {
	i.by = map[string]service.Intent{}
	return json.Unmarshal(section, &i.by)
}

type foundBody struct {
	Services map[string]service.Intent `json:"services"`
}

// profileBody is the body of the records about one profile.
type profileBody struct {
	Profile     string         `json:"profile"`
	Desired     service.Intent `json:"desired,omitempty"`
	To          string         `json:"to,omitempty"`          // its new name
	Clone       string         `json:"clone,omitempty"`       // the profile that it was made of
	Restored    string         `json:"restored,omitempty"`    // its entry in the trash
	Trash       string         `json:"trash,omitempty"`       // its entry there now, or then
	Environment []string       `json:"environment,omitempty"` // the variables that were changed
	Actor       *Actor         `json:"actor,omitempty"`       // nil: rlminit itself
}

type goneBody struct {
	Services []string `json:"services"`
}

// ledger is where a Store has its intents: a journal, and its fold.
// errNoJournal is why nothing is recorded before the journal is open.
var errNoJournal = errors.New("the journal is not open")

type ledger struct {
	journal *journal.Journal
	intents *Intents
	users   *Users
	refused error // why nothing can be recorded; journal is nil then
}

// UseJournal has the journal decide about intents and users from now on. Before the
// first List.
func (rec *Records) UseJournal(j *journal.Journal, intents *Intents, users *Users) {
	rec.ledger.Store(&ledger{journal: j, intents: intents, users: users})
}

// RefuseIntents has nothing be recorded, as is so before UseJournal: there is a journal,
// and it cannot be used. The state files have the desired states.
func (rec *Records) RefuseIntents(why error) {
	rec.ledger.Store(&ledger{intents: NewIntents(), users: NewUsers(), refused: why})
}

// view looks at the intents.
func (l *ledger) view(f func()) {
	if l.journal != nil {
		l.journal.View(f)
	}
}

// append records an entry, durably.
func (l *ledger) append(ctx context.Context, urgent bool, e journal.Entry) error {
	switch {
	case l.journal == nil:
		return l.refused
	case urgent:
		_, err := l.journal.AppendReserved(ctx, e)
		return err
	}
	_, err := l.journal.Append(ctx, e)
	return err
}

// known is the intent that the journal has of a service.
func (l *ledger) known(service string) (intent service.Intent, ok bool) {
	l.view(func() { intent, ok = l.intents.by[service] })
	return intent, ok
}

// Command records what somebody wants of services, with one record and one fsync; state
// files say it with the next SaveSeen. What is recorded already is only noted: a full
// disk keeps nobody from a restart. One that is to be possible on a full disk is urgent.
func (rec *Records) Command(ctx context.Context, c Command, urgent bool) error {
	l := rec.ledger.Load()
	changed := false
	l.view(func() {
		for _, name := range c.Services {
			intent, ok := l.intents.by[name]
			changed = changed || !ok || intent != c.Intent
		}
	})
	entry := journal.Entry{Type: TypeOperation, Body: c}
	if !changed && l.journal != nil {
		l.journal.Note(entry)
		return nil
	}
	return l.append(ctx, urgent, entry)
}

// Note records a command that changes no intent, where there is a journal,
// without waiting.
func (rec *Records) Note(c Command) { rec.note(journal.Entry{Type: TypeOperation, Body: c}) }

// NoteChange records who changed a profile's profile.yaml, and of its environment
// which variables, without waiting: what it is now is in the file.
func (rec *Records) NoteChange(name string, variables []string, by Actor) {
	slices.Sort(variables)
	rec.note(journal.Entry{Type: TypeChanged, Body: profileBody{Profile: name, Environment: variables, Actor: &by}})
}

func (rec *Records) note(e journal.Entry) {
	if l := rec.ledger.Load(); l.journal != nil {
		l.journal.Note(e)
	}
}

// Unknown tells whether the journal knows nothing of a service, so that a state file
// decides.
func (rec *Records) Unknown(service string) bool {
	_, known := rec.ledger.Load().known(service)
	return !known
}

// SaveIntent records the desired state of a profile, in its state file too.
func (rec *Records) SaveIntent(profile string, intent service.Intent) error {
	return rec.TakeOver(map[string]service.Intent{GatewayName(profile): intent}, []string{profile})
}

// TakeOver records the desired states that were found of services, with one record. Then it
// completes the state files of the profiles that are incomplete.
func (rec *Records) TakeOver(found map[string]service.Intent, incomplete []string) error {
	l := rec.ledger.Load()
	news := foundBody{map[string]service.Intent{}}
	l.view(func() {
		for name, intent := range found {
			if intent != service.IntentNone && l.intents.by[name] != intent {
				news.Services[name] = intent
			}
		}
	})
	if len(news.Services) > 0 {
		if err := l.append(context.Background(), false, journal.Entry{Type: TypeFound, Body: news}); err != nil {
			return err
		}
	}
	rec.restated(incomplete)
	return nil
}

// Forget has the journal forget services that are not there: what the state file of a
// profile says counts if it comes back.
func (rec *Records) Forget(there map[string]bool) {
	l := rec.ledger.Load()
	var gone goneBody
	l.view(func() {
		for name := range l.intents.by {
			if !there[name] {
				gone.Services = append(gone.Services, name)
			}
		}
	})
	if len(gone.Services) == 0 {
		return
	}
	slices.Sort(gone.Services)
	rec.tree.told.failure(l.append(context.Background(), false, journal.Entry{Type: TypeGone, Body: gone}))
}

// beginAnew has the journal forget the desired state of a name that no profile has: the
// profile that had it was taken away, and the supervisor was killed before it had recorded
// that. It is called before another has the name, which would get the intent of the old one
// if it were cut off in its turn.
func (rec *Records) beginAnew(profile string) error {
	l := rec.ledger.Load()
	if _, stale := l.known(GatewayName(profile)); !stale {
		return nil
	}
	if _, err := rec.tree.home.Lstat(dirOf(profile)); !errors.Is(err, fs.ErrNotExist) {
		return nil // it is no new one, or what follows fails
	}
	return l.append(context.Background(), false, journal.Entry{Type: TypeGone, Body: goneBody{[]string{GatewayName(profile)}}})
}

// Adopt takes the state in a profile's file for its desired state, where
// the journal has something else.
func (s *Store) Adopt(ctx context.Context, name string, actor Actor) (Profile, error) {
	return s.list.change(name, func(Profile) error {
		f, err := statefile.Read(s.tree.home, s.tree.stateFileOf(name))
		switch {
		case err != nil:
			return err
		case f.Origin == service.Corrupt:
			return refuse(ErrBroken, "the state file of %s cannot be adopted: %s", name, f.Fault)
		case f.Origin != service.Recorded || f.Desired == service.IntentNone:
			return refuse(ErrBroken, "%s has no state file that says what is wanted of it", name)
		}
		body := profileBody{Profile: name, Desired: f.Desired, Actor: &actor}
		return s.Records.ledger.Load().append(ctx, false, journal.Entry{Type: TypeAdopted, Body: body})
	})
}

// created records a new profile.
func (rec *Records) created(p profileBody) error {
	return rec.ledger.Load().append(context.Background(), false, journal.Entry{Type: TypeCreated, Body: p})
}

// renamed records a new name.
func (rec *Records) renamed(p profileBody) error {
	return rec.ledger.Load().append(context.Background(), true, journal.Entry{Type: TypeRenamed, Body: p})
}

// deleted records that a profile is gone.
func (rec *Records) deleted(p profileBody) { rec.end(TypeDeleted, p) }

// purged records that an entry of the trash is gone.
func (rec *Records) purged(p profileBody) { rec.end(TypePurged, p) }

// end records an end. That of the directory is what counts: a journal that cannot be
// written to is put right at the next boot.
func (rec *Records) end(kind string, p profileBody) {
	rec.tree.told.failure(rec.ledger.Load().append(context.Background(), true, journal.Entry{Type: kind, Body: p}))
}

package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/journal/places"
	"rlminit/plan"
	"rlminit/plan/apply"
)

// Section is the name of this package's part of the journal's snapshots.
const Section = "revisions"

// Records is the journal's fold of revisions.
type Records struct{ fold apply.Fold }

// Apply takes a record of the journal.
func (r *Records) Apply(record journal.Record) {
	at := record.At.Format(time.RFC3339Nano)
	switch record.Type {
	case apply.TypeBegun:
		with(record, func(body apply.RecordedBegun) {
			r.fold.Begin(body, at, record.Boot)
			for _, p := range body.Steps {
				if p.Action == plan.Create { // what had the name before is another
					r.fold.Appear(p.Name)
				}
			}
		})
	case apply.TypeStep:
		with(record, func(body apply.RecordedStep) { r.fold.Move(body, record.Boot) })
	case apply.TypeTurned:
		with(record, func(body apply.RecordedTurn) { r.fold.Turn(body, record.Boot) })
	case apply.TypeResumed:
		with(record, func(body apply.RecordedResume) { r.fold.Resume(body, record.Boot) })
	case apply.TypeEnded:
		with(record, func(body apply.RecordedEnd) { r.fold.End(body, at, record.Boot) })
	}
	for _, m := range places.Moves(record.Type, record.Decode) {
		r.fold.Moved(m)
	}
}

func with[T any](record journal.Record, f func(T)) {
	var body T
	if record.Decode(&body) == nil {
		f(body)
	}
}

// Snapshot is all that must not be forgotten.
func (r *Records) Snapshot() any { return r.fold }

// Restore takes what Snapshot returned.
func (r *Records) Restore(section json.RawMessage) error {
	var f apply.Fold
	var before struct { // as it was written at first
		Gone map[string]struct{ To, Trash string } `json:"gone"`
	}
	if err := errors.Join(json.Unmarshal(section, &f), json.Unmarshal(section, &before)); err != nil {
		return err
	}
	for name, was := range before.Gone {
		at := places.Gone
		if was.To != "" {
			at = places.InProfile(was.To)
		} else if was.Trash != "" {
			at = places.InTrash(was.Trash)
		}
		f.Left(name, at)
	}
	for _, k := range f.Revisions {
		if len(k.State.Steps) != len(k.Begun.Steps) {
			return fmt.Errorf("revision %d has %d steps, and %d states", k.Begun.Revision, len(k.Begun.Steps), len(k.State.Steps))
		}
	}
	r.fold = f
	return nil
}

// Journal is a Recorder over the journal that has the fold.
type Journal struct {
	Journal *journal.Journal
	Records *Records
	BootID  string
}

// Record appends a record.
func (j Journal) Record(kind string, body any) error {
	_, err := j.Journal.Append(context.Background(), journal.Entry{Type: kind, Body: body})
	return err
}

// View shows the fold.
func (j Journal) View(f func(*apply.Fold)) { j.Journal.View(func() { f(&j.Records.fold) }) }

// Boot is the id of this start of the container.
func (j Journal) Boot() string { return j.BootID }

// Volume is the id of the volume.
func (j Journal) Volume() string { return j.Journal.Volume() }

// Files is an Archive in a directory of the volume that is the supervisor's.
type Files struct{ Home *durable.Dir }

const (
	archiveDir = journal.Home + "/revisions"
	// kept is how many revisions can be rolled back, or compared with what there
	// is, and how many single ones besides. The records of older ones stay.
	kept       = 200
	maxArchive = 256 << 20
)

func archived(number int) string { return archiveDir + "/" + strconv.Itoa(number) + ".json" }

// Save writes the file of a revision, durably. It holds secrets, as each profile's own
// files do.
func (f Files) Save(number int, data []byte) error {
	for _, dir := range []string{journal.Home, archiveDir} {
		if err := f.Home.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return f.Home.WriteFile(archived(number), data, durable.Write{Mode: 0o600, Max: maxArchive, Names: true})
}

// Keep is Archive's. A file that stays only takes room until the next revision.
func (f Files) Keep(those map[int]bool) {
	entries, err := f.Home.ReadDir(archiveDir, mostArchived)
	if err != nil && !errors.Is(err, durable.ErrTooBig) {
		return
	}
	for _, e := range entries {
		digits, is := strings.CutSuffix(e.Name, ".json")
		if number, err := strconv.Atoi(digits); is && err == nil && !those[number] {
			_ = f.Home.RemoveAll(archived(number))
		}
	}
}

// mostArchived is how many files of revisions are looked at.
const mostArchived = 4096

// Path is Archive's.
func (f Files) Path(number int) string { return f.Home.Path(archived(number)) }

// roomFor is the room that Room asks for, in bytes: about that of a step.
const roomFor = 64 << 10

// Room tells whether the volume can be written to.
func (f Files) Room() error {
	const probe = archiveDir + "/room"
	err := f.Home.WriteFile(probe, make([]byte, roomFor), durable.Write{Mode: 0o600})
	_ = f.Home.RemoveAll(probe) // the next one writes over it
	return err
}

// Load reads the file of a revision.
func (f Files) Load(number int) ([]byte, error) {
	b, err := f.Home.ReadFile(archived(number), maxArchive)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("its contents are kept no longer: %w", err)
	}
	return b, err
}

// proposedDir has the plans that wait for approval, each under the digits of its hash.
const proposedDir = journal.Home + "/plans"

func proposedFile(hash string) string {
	return proposedDir + "/" + strings.TrimPrefix(hash, "sha256:") + ".json"
}

// SavePlan is Archive's.
func (f Files) SavePlan(hash string, data []byte) error {
	if err := f.Home.MkdirAll(proposedDir, 0o700); err != nil {
		return err
	}
	return f.Home.WriteFile(proposedFile(hash), data, durable.Write{Mode: 0o600, Max: proposedBytes, Names: true})
}

// LoadPlans is Archive's.
func (f Files) LoadPlans(each func(hash string, data []byte), only ...string) error {
	if len(only) == 0 {
		entries, err := f.Home.ReadDir(proposedDir, 4*proposedMost)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if digits, is := strings.CutSuffix(e.Name, ".json"); is {
				only = append(only, "sha256:"+digits)
			}
		}
	}
	for _, hash := range only {
		data, err := f.Home.ReadFile(proposedFile(hash), proposedBytes)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			each(hash, data)
		}
	}
	return nil
}

// RemovePlan is Archive's.
func (f Files) RemovePlan(hash string) error { return f.Home.RemoveAll(proposedFile(hash)) }

package jobs

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"rlminit/job/table"
	"rlminit/journal"
	"rlminit/journal/places"
)

// FoldName is the section of jobs in the journal's snapshots.
const FoldName = "jobs"

// Fold is the table of jobs and sessions as a fold of the journal.
type Fold struct{ table *table.Table }

// NewFold is one that knows of nothing yet.
func NewFold() *Fold { return &Fold{table.New()} }

// Apply takes a record. Those of profiles tell where their directories are.
func (f *Fold) Apply(r journal.Record) {
	f.table.Apply(table.Record{Seq: r.Seq, Type: r.Type, At: r.At, Boot: r.Boot, Line: r.Line})
	for _, m := range places.Moves(r.Type, r.Decode) {
		f.table.Moved(m)
	}
}

// Snapshot is all of it.
func (f *Fold) Snapshot() any { return f.table }

// Restore takes a snapshot.
func (f *Fold) Restore(section json.RawMessage) error { return f.table.Restore(section) }

// Recorded are records in a journal of which fold is a fold.
func Recorded(j *journal.Journal, fold *Fold, boot string) Journal {
	return &recorded{j, fold, boot}
}

type recorded struct {
	journal *journal.Journal
	fold    *Fold
	boot    string
}

func (r *recorded) Append(kind string, body any) error {
	_, err := r.journal.Append(context.Background(), journal.Entry{Type: kind, Body: body})
	return err
}

func (r *recorded) Note(kind string, body any) { r.journal.Note(journal.Entry{Type: kind, Body: body}) }

func (r *recorded) Flush(ctx context.Context) { r.journal.Flush(ctx) }

func (r *recorded) View(f func(*table.Table)) {
	r.journal.View(func() { f(r.fold.table) })
}

func (r *recorded) Boot() string { return r.boot }

// Unrecorded are records in memory alone, for where there is no volume.
func Unrecorded() Journal { return &unrecorded{table: table.New()} }

type unrecorded struct {
	mu    sync.Mutex
	seq   uint64
	table *table.Table
}

func (u *unrecorded) Append(kind string, body any) error {
	line, err := json.Marshal(body)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seq++
	at := time.Now().UTC()
	if _, whole := body.(json.RawMessage); !whole { // as the journal would have it
		head, _ := json.Marshal(recordHead{Seq: u.seq, At: at, Type: kind}) // of strings and numbers
		line = append(append(head[:len(head)-1], ','), line[1:]...)
	}
	u.table.Apply(table.Record{Seq: u.seq, Type: kind, At: at, Line: line})
	return nil
}

// recordHead is what a record has that nobody gives it.
type recordHead struct {
	Seq  uint64    `json:"seq"`
	At   time.Time `json:"at"`
	Type string    `json:"type"`
}

func (u *unrecorded) Note(kind string, body any) { _ = u.Append(kind, body) } // of plain values

func (u *unrecorded) Flush(context.Context) {}

func (u *unrecorded) View(f func(*table.Table)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f(u.table)
}

func (u *unrecorded) Boot() string { return "" }

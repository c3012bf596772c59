// Package journal is the supervisor's memory on the volume: one append-only log
// of what people asked for and what became of it. Intents, operations, jobs,
// revisions, uids and schedules are folds over it; events are read from it.
//
// A record is one line of JSON. Append returns when its records are on the disk,
// and callers at the same time share one fsync. Note adds what may be lost with
// the machine's power. Open reads the newest whole snapshot and what is good
// after it, hands that to the folds, and begins a segment of this boot's own.
// The content of a volume, and its state after a crash anywhere, is specified
// in JOURNAL.md.
//
// One goroutine, the writer, owns the segment that is written. Folds are touched
// under the journal's lock alone: by the writer, and by callers inside View.
//
// A domain keeps its state here in three steps. It writes a Fold, which is pure:
// its state follows from the records. It gives it to Open under a name, and it
// appends entries of its own types:
//
//	seq, err := j.Append(ctx, journal.Entry{Type: "uid", Body: assigned{Profile: "alice", UID: 40001}})
//
// When Append has returned without an error, the fold has the record, and so
// will every later boot.
//
// The package never starts or stops anything, takes no lock of the volume, and
// writes nowhere but below the directory that it was given.
package journal

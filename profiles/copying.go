package profiles

import "rlminit/service"

// reason is why a state file is written.
type reason int

const (
	ofSeen   reason = iota // what is seen of the service has changed
	ofIntent               // what is wanted of it was recorded: the copy of that
	durably                // the same, and the file itself is to be durable
)

// saying is what a state file says, beside what is recorded.
type saying int

const (
	agrees   saying = iota // it says what is recorded, or nothing of it
	differs                // it says that something else is wanted
	unusable               // nobody can tell what it says
	missing
)

// verdict is what becomes of the file.
type verdict int

const (
	writeOver verdict = iota
	leaveAlone
	setAside // what is there, and write
)

// verdicts is the table of COPIES.md. What somebody has written into the file, to
// be adopted, is not written over by what is merely seen.
var verdicts = [...][missing + 1]verdict{
	ofSeen:   {agrees: writeOver, differs: leaveAlone, unusable: leaveAlone, missing: writeOver},
	ofIntent: {agrees: writeOver, differs: writeOver, unusable: setAside, missing: writeOver},
	durably:  {agrees: writeOver, differs: writeOver, unusable: setAside, missing: writeOver},
}

// weigh is what becomes of a file that says was, where known is what counts.
// Without a journal the file is the record, and nothing in it waits for anybody.
func (rec *Records) weigh(why reason, was, known service.Record) verdict {
	is := agrees
	switch {
	case was.Origin == service.Missing:
		is = missing
	case was.Origin == service.Corrupt:
		is = unusable
	case known.Said != service.IntentNone:
		is = differs
	}
	if rec.ledger.Load() == nil {
		why = max(why, ofIntent)
	}
	return verdicts[why][is]
}

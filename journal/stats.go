package journal

import "time"

// Stats is what an open journal has done since it was opened; a supervisor that
// takes it over begins at nothing.
type Stats struct {
	Records  uint64 // appended; the snapshot that begins a segment is one
	Bytes    uint64 // of these
	Syncs    uint64 // fsyncs that records waited for, also such as failed
	SyncTime time.Duration
	Refused  uint64 // records that could not be appended, as the requester was told
	Dropped  uint64 // notes that could not, which nobody was told
	Segments uint64 // begun
	Segment  int64  // bytes in the one that is written; 0: there is none yet
}

// Stats returns the counters. It waits for no disk.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	s := j.stats
	s.Segment = j.tail.end
	j.mu.Unlock()
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	s.Dropped = j.queue.missed
	return s
}

func (j *Journal) count(change func(*Stats)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&j.stats)
}

// sync waits for the disk, and counts that.
func (w *writer) sync(f file) error {
	began := time.Now()
	err := f.sync()
	took := time.Since(began)
	w.journal.count(func(s *Stats) {
		s.Syncs++
		s.SyncTime += took
	})
	return err
}

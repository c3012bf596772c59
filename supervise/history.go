package supervise

import (
	"context"
	"slices"

	"rlminit/control"
	"rlminit/journal"
	"rlminit/service"
)

// ReadEvents hands what happened to each: all that the journal has, of earlier
// boots too, or where there is none the transitions that we remember.
func (s *backend) ReadEvents(ctx context.Context, q control.EventQuery, each func(line []byte) error, caughtUp func()) error {
	q.Names = spelt(q.Names)
	j := s.records.volume.Journal.Open.Load()
	if j == nil {
		return s.records.events.Read(ctx, q, each, caughtUp)
	}
	j.Flush(ctx)
	wanted := journal.Query{Since: q.Since, Until: q.Until, Types: q.Types, Names: q.Names, Last: q.Last, Follow: q.Follow, CaughtUp: caughtUp}
	return j.Read(ctx, wanted, func(r journal.Record) error { return each(r.Line) })
}

// spelt adds to names how records may spell them: a gateway by its profile or by
// its service.
func spelt(names []string) []string {
	all := slices.Clone(names)
	for _, name := range names {
		all = append(all, service.GatewayPrefix+name)
	}
	return all
}

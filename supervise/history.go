package supervise

import (
	"context"
	"encoding/json"
	"slices"

	"rlminit/control"
	"rlminit/journal"
	"rlminit/service"
)

// ReadEvents hands what happened to each: all that the journal has, of earlier
// boots too, or where there is none the transitions that we remember.
func (s *desk) ReadEvents(ctx context.Context, q control.EventQuery, each func(line []byte) error, caughtUp func()) error {
	q.Names = spelt(q.Names)
	j := s.records.chronicle.journal.Load()
	if j == nil {
		return s.records.events.read(ctx, q, each, caughtUp)
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

// read is ReadEvents where there is no journal.
func (e *events) read(ctx context.Context, q control.EventQuery, each func(line []byte) error, caughtUp func()) error {
	past, next, cancel := e.Subscribe()
	defer cancel()
	unwanted := func(event control.Event) bool {
		return !q.Since.IsZero() && event.At.Before(q.Since) || !q.Until.IsZero() && event.At.After(q.Until) ||
			len(q.Types) > 0 && !slices.Contains(q.Types, journal.TypeTransition) ||
			len(q.Names) > 0 && !slices.Contains(q.Names, event.Service)
	}
	give := func(event control.Event) error {
		event.Type = journal.TypeTransition
		line, err := json.Marshal(event)
		if err != nil {
			return err
		}
		return each(line)
	}
	past = slices.DeleteFunc(past, unwanted)
	if q.Last != nil {
		past = past[max(0, len(past)-*q.Last):]
	}
	for _, event := range past {
		if err := give(event); err != nil {
			return err
		}
	}
	for caughtUp(); q.Follow; {
		select {
		case event, ok := <-next:
			if !ok {
				return nil // too far behind
			}
			if unwanted(event) {
				continue
			}
			if err := give(event); err != nil {
				return err
			}
			caughtUp()
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

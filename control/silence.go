package control

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

const (
	// silenceRound is after how long a client that has no answer yet asks whether a
	// supervisor is there at all, and how long that may take each time.
	silenceRound = 10 * time.Second

	// silenceRounds without an answer end a request. Rounds are counted, and not the time:
	// after a pause of the whole container the supervisor gets its chance.
	silenceRounds = 3
)

// errSilent is why a request is given up when no supervisor answers.
var errSilent = errors.New("no supervisor answers")

// silence is how many rounds have gone by since a supervisor has answered.
type silence struct{ rounds atomic.Int32 }

// broken notes that a supervisor has answered.
func (s *silence) broken() { s.rounds.Store(0) }

// listen asks now and then whether a supervisor is there, while a request waits for its
// answer, and gives the request up when there is none. It ends with ctx. A boot step that
// runs is the supervisor's too: it comes up after it.
func (l *line) listen(ctx context.Context, s *silence, giveUp context.CancelCauseFunc) {
	ticks := l.ticks
	if ticks == nil {
		round := time.NewTicker(l.round)
		defer round.Stop()
		ticks = round.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		switch {
		case l.bootStep() != "":
			s.broken()
		case s.rounds.Add(1) == silenceRounds:
			giveUp(errSilent)
			return
		case l.answers(ctx):
			s.broken()
		}
	}
}

// answers tells whether a supervisor answers anything at all within a round.
func (l *line) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, l.round)
	defer cancel()
	for {
		ask := http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "rlminit", Path: "/v1/health"}}
		response, err := l.http.Do(ask.WithContext(ctx))
		if err == nil {
			response.Body.Close()
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(l.round / 20):
		}
	}
}

// silent is said when a request is given up because no supervisor answers.
func (l *line) silent(r request) *Problem {
	within := silenceRounds * l.round
	if !r.repeat {
		return NoAnswer("no supervisor has answered on %s for %s, and it cannot be told whether %s was done; docker logs says why", l.Socket(), within, r.what)
	}
	return NoAnswer("no answer to %s on %s: no supervisor has answered for %s; docker logs says why", r.what, l.Socket(), within)
}

package top

import (
	"errors"
	"strings"
	"testing"
	"time"

	"rlminit/beside/top/table"
	"rlminit/beside/top/watch"
	"rlminit/control"
)

func TestPlainTellsWhatChanges(t *testing.T) {
	at := time.Date(2026, 5, 24, 18, 5, 33, 0, time.Local)
	reason, since, sick := "exit\x1b[2J 1", at.Add(-time.Minute), false
	services := func(all ...control.Service) watch.News {
		return watch.News{Snapshot: table.Snapshot{At: at, Services: all}}
	}
	db, api := control.Service{Name: "db", State: "running", Since: &since}, control.Service{Name: "api", State: "failed", Reason: &reason}
	var out strings.Builder
	p := plain{out: &out}
	tells := func(want string) {
		t.Helper()
		if is := out.String(); is != want {
			t.Errorf("it tells\n%s, not\n%s", is, want)
		}
		out.Reset()
	}
	p.list(services(db, api).Snapshot)
	tells("2 services: 1 failed, 1 running\napi: failed: exit\ufffd[2J 1\ndb: running, for 1m\nwhat changes from here on:\n")
	p.news(services(db, api))
	tells("")
	db.Healthy, db.Outdated, db.OutdatedWhy = &sick, true, "environment changed"
	p.news(services(db, control.Service{Name: "web", State: "starting"}))
	tells("18:05:33 db: unhealthy and outdated: outdated: environment changed; restart it\n18:05:33 new: web: starting\n18:05:33 api: gone\n")
	p.news(watch.News{Silent: true})
	p.news(watch.News{Err: control.NoAnswer("no rlminit answers")})
	tells("the supervisor does not answer; trying again\n")
	p.news(services(db))
	tells("the supervisor answers again\n18:05:33 web: gone\n")
	p.news(watch.News{Err: errors.New("cannot\nbe")})
	tells("the supervisor does not answer; trying again: cannot be\n")
}

// TestPlainEndsWhenNobodyReads: what cannot be written is an error, told once.
func TestPlainEndsWhenNobodyReads(t *testing.T) {
	p := plain{out: broken{}}
	p.list(table.Snapshot{})
	if p.failed == nil || !strings.HasPrefix(p.failed.Error(), "cannot write to standard output: ") {
		t.Errorf("it says %v", p.failed)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rlminit/control"
)

// A request one past a bound is refused with a sentence that has it; one at the bound is not.
func TestRequestsOnePastTheirBounds(t *testing.T) {
	for name, c := range map[string]struct {
		request func(past int) control.RunJob
		says    string
	}{
		"timeout": {func(past int) control.RunJob {
			return control.RunJob{Command: []string{"a"}, TimeoutMS: control.MostJobTimeout.Milliseconds() + int64(past)}
		}, "7 days at most"},
		"output": {func(past int) control.RunJob {
			return control.RunJob{Command: []string{"a"}, MaxOutput: control.MostJobOutput + int64(past)}
		}, "1 to 16777216 bytes"},
		"arguments": {func(past int) control.RunJob {
			return control.RunJob{Command: []string{strings.Repeat("a", control.MostJobArguments-1+past)}}
		}, "above 1048576"},
		"key": {func(past int) control.RunJob {
			return control.RunJob{Command: []string{"a"}, Key: strings.Repeat("k", 256+past)}
		}, "at most 256 bytes"},
	} {
		at, past := c.request(0), c.request(1)
		if err := check(&at); err != nil {
			t.Errorf("%s at its bound: %v", name, err)
		}
		if err := check(&past); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s one past its bound: %v; want %q", name, err, c.says)
		}
	}
	var ss sessions
	if _, err := ss.create(control.CreateSession{TTLMS: (control.MostSessionTTL + time.Millisecond).Milliseconds()}, 0); err == nil || !strings.Contains(err.Error(), "up to 24h0m0s") {
		t.Errorf("a session of more than a day: %v", err)
	}
}

// A lane remembers the last turns of so many that have nothing, and forgets all of them with
// one more: memory has an end, whoever asks.
func TestTurnsOnePastWhatIsRemembered(t *testing.T) {
	q := newQueue(func() Settings { return Settings{AtOnce: 1, PerProfile: 1, Queue: 1} })
	l := &q.lanes[0]
	l.line = append(l.line, nil) // somebody waits
	for i := range mostHad + 1 {
		who := OwnerOf("", fmt.Sprint("s", i))
		l.of(who).turn = uint64(i + 1)
		if l.settle(who); i < mostHad && len(l.had) != i+1 {
			t.Fatalf("after %d are remembered %d", i+1, len(l.had))
		}
	}
	if len(l.had) != 1 {
		t.Errorf("with one more are remembered %d", len(l.had))
	}
}

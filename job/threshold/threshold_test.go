package threshold

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// world is a threshold with the supervisor that measures it, and what outlives that.
type world struct {
	state    State
	at       time.Duration
	recorded []string // what was told, by definition: crossed, back
	high     []bool   // what was measured since this supervisor began, or time was lost
}

// told is what was told last.
func (w *world) told() bool { return len(w.recorded) > 0 && w.recorded[len(w.recorded)-1] == "crossed" }

// successor is another supervisor: it knows what is recorded.
func (w *world) successor() { w.state, w.high = State{Crossed: w.told()}, nil }

// due tells by all that was measured whether the opposite of what was told is to be told:
// it was so for long enough, without a break.
func (w *world) due(long int) bool {
	n := len(w.high)
	return n > long && !slices.Contains(w.high[n-1-long:], w.told())
}

// steps is what may happen: a measurement above or below the threshold, and what becomes of
// it if something is to be told; time that nobody measures; another supervisor; a reload
// that leaves the threshold as it is, or changes it.
var steps = strings.Fields("high low high:unrecorded low:unrecorded high:killed-before low:killed-before high:killed-after low:killed-after pause kill reload change")

// TestEverySequence goes through all short sequences of what may happen: crossed and back
// are told by turns, each as soon as it was so for long enough, and no sooner.
func TestEverySequence(t *testing.T) {
	const every, long = time.Second, 2
	seen := map[string]bool{}
	for _, rule := range []Rule{{Most: 80, For: 0, Every: every}, {Most: 80, For: long * every, Every: every}} {
		wait := int(rule.For / every)
		var explore func(w world, path []string)
		explore = func(w world, path []string) {
			if len(path) == 6 {
				return
			}
			for _, step := range steps {
				next := w
				next.recorded, next.high = slices.Clone(w.recorded), slices.Clone(w.high)
				path := append(path[:len(path):len(path)], step)
				next.take(t, rule, wait, step, path)
				for i, told := range next.recorded {
					if (told == "crossed") != (i%2 == 0) {
						t.Fatalf("%v: it is told %v", path, next.recorded)
					}
				}
				seen[strings.Join(next.recorded, " ")] = true
				explore(next, path)
			}
		}
		explore(world{}, nil)
	}
	if !seen["crossed back crossed"] || !seen[""] {
		t.Errorf("only these were told: %v", seen)
	}
}

// take has one step befall the world.
func (w *world) take(t *testing.T, rule Rule, wait int, step string, path []string) {
	what, fate, _ := strings.Cut(step, ":")
	switch what {
	case "pause":
		w.at += 10 * rule.Every
		w.high = nil
		return
	case "kill":
		w.successor()
		return
	case "reload":
		return
	case "change":
		w.recorded, w.state, w.high = nil, State{}, nil
		return
	}
	w.at += rule.Every
	percent := map[string]float64{"high": 80, "low": 79.9}[what]
	w.high = append(w.high, what == "high")
	next, tell := rule.Step(w.state, w.at, percent)
	if due := w.due(wait); tell != due {
		t.Fatalf("%v: to be told is %v, and should be %v", path, tell, due)
	}
	w.state = next
	if !tell || fate == "unrecorded" {
		return
	}
	if fate != "killed-before" {
		w.recorded = append(w.recorded, map[bool]string{true: "back", false: "crossed"}[w.told()])
	}
	if strings.HasPrefix(fate, "killed") {
		w.successor()
		return
	}
	if w.state = w.state.Told(); w.state.Crossed != w.told() {
		t.Fatalf("%v: it is crossed in memory: %v, and as recorded: %v", path, w.state.Crossed, w.told())
	}
}

// How often it is measured.
func TestInterval(t *testing.T) {
	for of, want := range map[time.Duration]time.Duration{0: time.Second, time.Second: time.Second, 20 * time.Second: 5 * time.Second, time.Hour: 15 * time.Second} {
		if got := Interval(of); got != want {
			t.Errorf("of %v each %v, want %v", of, got, want)
		}
	}
}

package hooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"rlminit/config"
	"rlminit/control"
	"rlminit/job/table"
)

// world is what outlives supervisors: the journal, where there is one, and PID 1's memory.
type world struct {
	*testing.T
	hooks   []config.Hook
	durable bool

	table  *table.Table // of the journal, or of the supervisor's own memory
	seq    uint64
	memory []byte
	told   []string // by the hook's job: crossed, back
	at     time.Duration
	left   int // how many steps the supervisor has left; below 0: no end
	now    *telling
}

// killed is how a supervisor ends in the midst of something.
type killed struct{}

// step is one that a kill comes before, or does not.
func (w *world) step() {
	if w.left == 0 {
		panic(killed{})
	}
	w.left--
}

func (w *world) Append(kind string, body any) error {
	w.step()
	w.seq++
	line, err := json.Marshal(body)
	w.table.Apply(table.Record{Seq: w.seq, Type: kind, Boot: w.Boot(), Line: []byte(`{"type":"` + kind + `",` + string(line[1:]))})
	return err
}

func (w *world) Note(kind string, body any) { _ = w.Append(kind, body) }

func (w *world) View(f func(*table.Table)) { f(w.table) }

func (w *world) Boot() string { return "here" }

func (w *world) Records() (Records, bool) { return w, w.durable }

func (w *world) Told(uint64) []string { return nil }

// Tell is a job that is recorded, and tells its line at once.
func (w *world) Tell(hook *config.Hook, event uint64, _, line string) error {
	_ = w.Append(table.TypeSubmitted, table.Submitted{Job: fmt.Sprint(w.seq + 1), Kind: table.KindHook, Hook: hook.Name, Event: event})
	var t table.Threshold
	if err := json.Unmarshal([]byte(line), &t); err != nil {
		w.Fatal(err)
	}
	w.told = append(w.told, t.State)
	return nil
}

func (w *world) Get(string) []byte { return w.memory }

func (w *world) Put(_ string, value []byte) error {
	w.step()
	w.memory = value
	return nil
}

// successor is another supervisor, which has come as far as Run's loop.
func (w *world) successor() {
	snapshot, err := json.Marshal(w.table)
	if w.table = table.New(); w.durable && err == nil {
		err = w.table.Restore(snapshot)
	}
	if err != nil {
		w.Fatal(err)
	}
	h := New(w, Given{List: func() []config.Hook { return w.hooks }, Memory: w, Publish: func(e control.Event) control.Event { return e }})
	w.now = &telling{Hooks: h, watches: newWatches(), measuring: true}
	w.now.takeOver()
	w.now.tell()
	w.turn()
}

// turn is once through Run's loop.
func (w *world) turn() {
	w.now.follow()
	w.now.tell()
}

// change makes the hook another.
func (w *world) change() {
	w.hooks = []config.Hook{w.hooks[0]}
	w.hooks[0].Timeout++
}

// does has a step done by the supervisor, and tells whether that was killed in its midst.
func (w *world) does(what string) (dead bool) {
	defer func() {
		if r := recover(); r != nil {
			if r != (killed{}) {
				panic(r)
			}
			dead = true
			if w.left = -1; strings.HasSuffix(what, "c") {
				w.change()
			}
			w.successor()
		}
	}()
	act, when, _ := strings.Cut(what, ":")
	if w.left = -1; when != "" {
		w.left = int(when[0] - '0')
	}
	switch act {
	case "kill":
		w.successor()
	case "reload":
		w.hooks = append([]config.Hook{}, w.hooks...)
	case "change":
		w.change()
	default:
		w.at += time.Second
		of := table.Threshold{Hook: "h", What: "memory", Limit: 80, For: "0s"}
		w.now.judge(readings{w.now.plan.number, w.at, []reading{{of: of, percent: map[string]float64{"high": 80, "low": 79}[act]}}})
	}
	w.turn()
	w.left = -1
	return false
}

// What a hook is told of a threshold, over all short sequences of what is measured, kills
// between any two steps of that, and reloads: by turns, and the last of it is what was
// measured last. Without a journal what is told may be lost with the supervisor, and is not
// told twice.
func TestThresholdsOverKills(t *testing.T) {
	// The number is after how many steps of it the supervisor is killed; c: and the hook is
	// another by the time that there is a successor.
	steps := strings.Fields("high low high:0 high:1 high:2 high:1c low:0 low:1 low:2 kill reload change change:0 change:1")
	on := []config.Occasion{{Threshold: config.Threshold{Memory: 80}}}
	for _, durable := range []bool{true, false} {
		lengths, most := map[int]int{}, 0
		var explore func(path []string)
		explore = func(path []string) {
			w := &world{T: t, durable: durable, table: table.New(), left: -1, hooks: []config.Hook{{Name: "h", On: on, Command: []string{"true"}, Timeout: time.Second}}}
			w.successor()
			last := "back" // that was told
			for _, step := range append(path, "low", "high", "low") {
				before := len(w.told)
				dead := w.does(step)
				switch act, _, _ := strings.Cut(step, ":"); {
				case act == "change" || dead && strings.HasSuffix(step, "c") && len(w.told) == before:
					last = "back"
				case dead && !durable:
					last = "" // the other may be lost
				case len(w.told) > before+1 || len(w.told) > before && w.told[before] == last:
					t.Fatalf("durable %v, %v: at %s it is told %v", durable, path, step, w.told[before:])
				case len(w.told) > before:
					last = w.told[before]
				}
			}
			if end := w.told[max(0, len(w.told)-2):]; durable && fmt.Sprint(end) != "[crossed back]" {
				t.Fatalf("%v: in the end it is told %v", path, w.told)
			}
			lengths[len(w.told)]++
			if len(path) == most {
				return
			}
			for _, step := range steps {
				explore(append(path[:len(path):len(path)], step))
			}
		}
		for _, begin := range []string{"", "high", "high low"} {
			most = len(strings.Fields(begin)) + 3
			explore(strings.Fields(begin))
		}
		if len(lengths) < 4 {
			t.Errorf("durable %v: it is told so often: %v", durable, lengths)
		}
	}
}

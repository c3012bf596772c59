package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/job/table"
	"rlminit/supervise/jobs/hooks"
	"rlminit/wire"
)

// container is what outlives supervisors that are killed: a journal, and what tier 1 has.
type container struct {
	hooks []config.Hook

	mu       sync.Mutex
	table    *table.Table
	seq      uint64
	due      map[string]bool // hook and record, of what is to be told
	told     map[string]int  // likewise, how often it was
	held     map[string][]int
	children map[string]wire.Child
	dir      string
}

// life is one supervisor, with so many steps to live: what it does after them is not done.
// It is its journal, and its tier 1.
type life struct {
	*container
	*tier1
	left   int // below 0: no end
	dead   bool
	runner *Runner
	wake   func()
}

var errKilled = errors.New("the supervisor was killed")

// step tells whether the next one is done. The caller holds the lock.
func (l *life) step() bool {
	l.dead = l.dead || l.left == 0
	l.left--
	return !l.dead
}

func (l *life) Append(kind string, body any) error {
	l.mu().Lock()
	defer l.mu().Unlock()
	if !l.step() {
		return errKilled
	}
	l.seq++
	line, err := json.Marshal(body)
	l.table.Apply(table.Record{Seq: l.seq, Type: kind, At: time.Now(), Boot: l.Boot(), Line: line})
	if e, is := body.(control.Event); is {
		for _, hook := range l.hooks {
			if slices.ContainsFunc(hook.On, func(o config.Occasion) bool { return o.Word == e.To }) {
				l.due[fmt.Sprint(hook.Name, " ", l.seq)] = true
			}
		}
		l.wake()
	}
	return err
}

func (l *life) mu() *sync.Mutex { return &l.container.mu }

func (l *life) Note(kind string, body any) { _ = l.Append(kind, body) }

func (l *life) Flush(context.Context) {}

func (l *life) View(f func(*table.Table)) {
	l.mu().Lock()
	defer l.mu().Unlock()
	f(l.table)
}

func (l *life) Boot() string { return "here" }

// Send plays tier 1, whose children end at once.
func (l *life) Send(m wire.Message, fds, after []int) {
	defer wire.CloseAll(after)
	l.mu().Lock()
	defer l.mu().Unlock()
	if !l.step() {
		return
	}
	switch m := m.(type) {
	case *wire.Hold:
		wire.CloseAll(l.held[m.Key])
		l.held[m.Key] = duplicates(fds)
	case *wire.Release:
		wire.CloseAll(l.held[m.Key])
		delete(l.held, m.Key)
	case *wire.Spawn:
		var s spec
		content, err := wire.ReadSealed(l.held[m.Name][0], mostSpec)
		if err == nil {
			err = json.Unmarshal(content, &s)
		}
		if err != nil {
			panic(err)
		}
		l.told[fmt.Sprint(s.Hook, " ", s.Event)]++
		l.children[m.Name] = wire.Child{ID: m.ID, Name: m.Name, State: wire.ChildExited, Exit: wire.Exit{At: 1}}
		l.runner.Hear(&wire.Spawned{ID: m.ID, PID: 1 << 30})
		l.runner.Hear(&wire.Exited{ID: m.ID, Exit: wire.Exit{At: 1}})
	case *wire.Acknowledge:
		maps.DeleteFunc(l.children, func(_ string, c wire.Child) bool { return c.ID == m.ID })
	}
}

func duplicates(fds []int) (all []int) {
	for _, fd := range fds {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			panic(err)
		}
		all = append(all, own)
	}
	return all
}

// supervise begins another supervisor.
func (c *container) supervise(steps int) *life {
	host := &tier1{spawned: map[string]uint64{}, profiles: map[string]bool{}, services: map[string]bool{}, dir: c.dir, last: uint64(time.Now().UnixNano())}
	l := &life{container: c, tier1: host, left: steps, wake: func() {}}
	l.runner = New(l, func() Settings { return Settings{AtOnce: 4, PerProfile: 4, Queue: 100, Guards: unguarded} })
	held := map[string][]int{}
	c.mu.Lock()
	for key, fds := range c.held {
		held[key] = duplicates(fds)
	}
	children := slices.Collect(maps.Values(c.children))
	snapshot, err := json.Marshal(c.table)
	if err == nil {
		err = c.table.Restore(snapshot)
	}
	if err != nil {
		panic(err)
	}
	c.mu.Unlock()
	for _, child := range children {
		l.runner.Takes(child)
	}
	h := HooksOf(hooks.Given{List: func() []config.Hook { return c.hooks }}, l.runner)
	l.wake = h.Wake
	h.Begin(l)
	l.runner.Start(l, held, false)
	go h.Run()
	l.runner.Open()
	return l
}

// settled tells whether a supervisor is dead, or has nothing left to do.
func (l *life) settled() bool {
	l.mu().Lock()
	defer l.mu().Unlock()
	return l.dead || len(l.told) >= len(l.due) && len(l.children) == 0 && len(l.held) == 0 && len(l.table.Unfinished()) == 0
}

// A supervisor that is killed before any step, and its successor too: each hook is told
// once of what is recorded.
func TestHooksAreToldOnce(t *testing.T) {
	on := func(word string) []config.Occasion { return []config.Occasion{{Word: word}} }
	all := []config.Hook{
		{Name: "a", On: on("failed"), Command: []string{"true"}, Timeout: time.Hour},
		{Name: "b", On: on("failed"), Command: []string{"true"}, Timeout: time.Hour},
		{Name: "c", On: on("running"), Command: []string{"true"}, Timeout: time.Hour},
	}
	most := toldOver(t, all, nil)
	if most < 40 {
		t.Errorf("it takes only %d steps", most)
	}
	for first := range most {
		for second := first % 11; second < most; second += 11 {
			toldOver(t, all, []int{first, second})
		}
	}
}

// toldOver has supervisors with so many steps to live, one after the other, and then one
// that is not killed, tell hooks what happens. It returns the steps of the last.
func toldOver(t *testing.T, all []config.Hook, lives []int) int {
	t.Helper()
	c := &container{
		hooks: all, table: table.New(), due: map[string]bool{}, told: map[string]int{},
		held: map[string][]int{}, children: map[string]wire.Child{}, dir: t.TempDir(),
	}
	happens := []string{"failed", "running", "stopped", "failed"}
	steps := 0
	for _, left := range append(lives, -1) {
		l := c.supervise(left)
		for len(happens) > 0 && l.Append(table.TypeTransition, control.Event{Service: "web", To: happens[0]}) == nil {
			happens = happens[1:]
		}
		for end := time.Now().Add(20 * time.Second); !l.settled(); time.Sleep(100 * time.Microsecond) {
			if time.Now().After(end) {
				t.Fatalf("lives of %v steps: of %v there was told %v", lives, c.due, c.told)
			}
		}
		l.mu().Lock()
		l.dead = true
		steps = -1 - l.left
		l.mu().Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.due {
		if c.told[key] != 1 {
			t.Errorf("lives of %v steps: %s was told %d times", lives, key, c.told[key])
		}
	}
	if len(c.due) != 5 || len(c.told) != 5 {
		t.Errorf("lives of %v steps: of %v there was told %v", lives, c.due, c.told)
	}
	return steps
}

package reap

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
	"rlminit/wire"
)

// In whatever order a run and a probe beside it begin, fail, end and are
// acknowledged, and the supervisor is replaced: their leaf is there as long as
// somebody may need it or is in it, and not a moment longer. That a directory
// which is not empty cannot be removed is so on every file system.
func TestLeavesExplored(t *testing.T) {
	const tag = 50001
	type world struct {
		states [2]state
		busy   bool // something in the leaf is still dying
	}
	seen := map[world]bool{}
	base := t.TempDir()
	worlds := 0

	// play begins anew and does what led here, for a reaper cannot be copied.
	play := func(moves []string) (w world, possible bool) {
		worlds++
		dir := filepath.Join(base, fmt.Sprint(worlds))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		r := newReaper()
		r.place.tags = true
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		r.leaves.Use(fd)
		leaf := filepath.Join(dir, fmt.Sprint(tag))
		dying := filepath.Join(leaf, "dying")
		for _, move := range moves {
			var what string
			var id uint64
			if fmt.Sscan(move, &what, &id); what == "busy" || what == "dead" {
				if what == "busy" {
					if os.Mkdir(dying, 0o755) != nil {
						return w, false
					}
				} else {
					if os.Remove(dying) != nil {
						return w, false
					}
					r.leaves.Tidy() // as after every end of a process
				}
				continue
			}
			c := r.children.byID[id]
			switch what {
			case "spawn":
				if c != nil {
					return w, false
				}
				c = &child{id: id, name: "web", tag: tag, pidfd: -1}
				var command sys.Command
				if no := r.leaves.Enter(&command, c.tag, wire.Bounds{}); no != nil || command.Cgroup == 0 {
					t.Fatalf("%v: %+v", moves, no)
				}
				r.leaves.Close(&command)
				r.step(c, accepted)
			case "replaced":
				r.pair.disconnect()
				r.pair.greet(wire.Welcome{})
			default:
				e := map[string]event{"started": started, "fell": fell, "ended": ended, "acknowledged": acknowledged}[what]
				if c == nil || table[c.state][e].effect == impossible || table[c.state][e].next == c.state {
					return w, false
				}
				r.step(c, e)
			}
		}
		_, err = os.Stat(dying)
		w.busy = err == nil
		for i := range w.states {
			if c := r.children.byID[firstID+uint64(i)]; c != nil {
				w.states[i] = c.state
			}
		}
		needed := w.busy || w.states != [2]state{}
		if _, err := os.Stat(leaf); (err == nil) != needed {
			t.Fatalf("after %v the leaf: %v; needed: %v", moves, err, needed)
		}
		return w, true
	}
	var moves []string
	for id := firstID; id < firstID+2; id++ {
		for _, what := range []string{"spawn", "started", "fell", "ended", "acknowledged"} {
			moves = append(moves, fmt.Sprint(what, " ", id))
		}
	}
	moves = append(moves, "replaced 0", "busy 0", "dead 0")
	for queue := [][]string{nil}; len(queue) > 0; queue = queue[1:] {
		for _, move := range moves {
			path := append(append([]string(nil), queue[0]...), move)
			if w, possible := play(path); possible && !seen[w] {
				seen[w] = true
				queue = append(queue, path)
			}
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d situations were reached", len(seen))
	}
	t.Logf("%d situations, %d ways", len(seen), worlds)
}

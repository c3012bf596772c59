package forward

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var rounds = flag.Int("rounds", 4, "lives of a log that are explored")

// life is a log whose files are rotated away, with receivers that die, and forwarders that
// are killed and find the cursors of some moment before.
type life struct {
	*bed
	luck   *rand.Rand
	at     string    // of the receiver
	r      *receiver // nil: dead
	all    []received
	kept   [][]byte // what the file of cursors was at some moments
	said   int
	killed int
	power  bool // it is cut at times: a successor finds cursors of some moment before
}

// TestNumbersInAnyOrder: whatever is killed and whatever is rotated away, no number has two
// lines, without power cuts no line has two numbers, and what is said in the end arrives.
func TestNumbersInAnyOrder(t *testing.T) {
	for seed := range *rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			l := &life{bed: newBed(t), luck: rand.New(rand.NewPCG(uint64(seed), 7)), power: seed%4 < 2}
			l.r = listen(t, "tcp", "127.0.0.1:0")
			l.at = l.r.at
			cfg := lined
			cfg.MaxSize, cfg.MaxFiles, cfg.Compress = 1000+l.luck.Int64N(2000), 2, seed%2 == 1
			s := l.open("web", "tcp:"+l.at, cfg)
			cfg.Dir = "logs/web"
			for range 40 {
				for range l.luck.IntN(60) {
					say(t, s, fmt.Sprintf("line %d of %d\n", l.said, seed))
					l.said++
				}
				l.keep()
				switch l.luck.IntN(6) {
				case 0:
					l.receiverDies()
				case 1, 2:
					l.receiverReturns()
				case 3:
					l.kill()
					cfg.Grew, _ = l.f.Set("web", l.target("web", "tcp:"+l.at))
					if err := s.Reconfigure(cfg); err != nil {
						t.Fatal(err)
					}
				}
				l.pass()
			}
			l.receiverReturns()
			say(t, s, "the end\n")
			eventually(t, "the end arrives", func() bool {
				got := l.r.got()
				return len(got) > 0 && got[len(got)-1].Message == "the end"
			})
			l.receiverDies()
			l.check(t)
		})
	}
}

// pass lets some time go by, at times enough for a cursor to be written.
func (l *life) pass() {
	d := time.Duration(l.luck.Int64N(int64(40 * time.Millisecond)))
	if l.luck.IntN(8) == 0 {
		d = keepBehind + saveEvery
	}
	time.Sleep(d)
}

func (l *life) receiverDies() {
	if l.r != nil {
		l.r.die()
		l.all = append(l.all, l.r.got()...)
		l.r = nil
	}
}

func (l *life) receiverReturns() {
	if l.r == nil {
		l.r = listen(l.t, "tcp", l.at)
	}
}

func (l *life) cursors() string { return filepath.Join(l.home, ".rlminit/forward/cursors.json") }

// keep notes the file of cursors, as it is after a power cut at this moment.
func (l *life) keep() {
	if text, err := os.ReadFile(l.cursors()); err == nil && (len(l.kept) == 0 || string(text) != string(l.kept[len(l.kept)-1])) {
		l.kept = append(l.kept, text)
	}
}

// kill ends the forwarder as a kill does, or as a power cut, after which the cursors are
// those of any moment before.
func (l *life) kill() {
	l.f.kill()
	l.keep()
	if len(l.kept) > 0 && l.power {
		text := l.kept[l.luck.IntN(len(l.kept))]
		if err := os.WriteFile(l.cursors(), text, 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
	l.killed++
	l.start()
}

// check looks at all that was received.
func (l *life) check(t *testing.T) {
	if !l.power {
		numbers(t, l.all)
	}
	messages := map[uint64]string{}
	for _, line := range l.all {
		if was, is := messages[line.Seq]; is && was != line.Message {
			t.Fatalf("number %d is %q and %q", line.Seq, was, line.Message)
		}
		messages[line.Seq] = line.Message
	}
	if len(messages) < l.said/10 {
		t.Errorf("%d of %d lines came", len(messages), l.said)
	}
}

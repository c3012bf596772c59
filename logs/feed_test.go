package logs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// readOn reads on and returns the numbers of the lines that came.
func readOn(t *testing.T, l *Lines) (got []int) {
	t.Helper()
	for {
		line, err := l.Next()
		if err != nil {
			t.Fatal(err)
		}
		if line == nil {
			return got
		}
		n, err := strconv.Atoi(string(Split(line).Text))
		if err != nil {
			t.Fatalf("%q is no line: %v", line, err)
		}
		got = append(got, n)
	}
}

// Whoever keeps its place goes on there, over rotations, compression and in another
// process; each line comes once.
func TestFeedGoesOn(t *testing.T) {
	for name, cfg := range map[string]Config{
		"lines":      {File: true, Timestamps: true, MaxSize: 400},
		"plain":      {File: true, MaxSize: 50},
		"compressed": {File: true, Timestamps: true, MaxSize: 400, Compress: true},
		"memory":     {Timestamps: true},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			c := newCollector(t, Options{})
			s := open(t, c, "a", cfg)
			feed, err := NewFeed(c)
			if err != nil {
				t.Fatal(err)
			}
			source := Source{Name: "a"}
			if cfg.File {
				source.Dir = "logs/a"
			}
			l, next, seen := feed.Lines(source, Position{}), 0, 0
			for round := range 60 {
				for range random.IntN(30) {
					say(t, s.Stdout(), fmt.Sprintf("%d\n", next))
					next++
				}
				done := make(chan struct{})
				s.AwaitWritten(func(bool) { close(done) })
				<-done
				for _, got := range readOn(t, l) {
					if got != seen || l.Gone() {
						t.Fatalf("round %d: %d came, not %d", round, got, seen)
					}
					seen++
				}
				if seen != next {
					t.Fatalf("round %d: %d of %d came", round, seen, next)
				}
				switch random.IntN(3) {
				case 0:
					l.Rest()
				case 1:
					at := l.Position()
					l.Rest()
					l = feed.Lines(source, at)
				}
			}
		})
	}
}

// What was removed before it was read is said, and what is left comes.
func TestFeedTellsWhatIsGone(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "a", Config{File: true, Timestamps: true, MaxSize: 200, MaxFiles: 2})
	feed, err := NewFeed(c)
	if err != nil {
		t.Fatal(err)
	}
	write := func(from, to int) {
		for i := from; i < to; i++ {
			say(t, s.Stdout(), fmt.Sprintf("%d\n", i))
			done := make(chan struct{})
			s.AwaitWritten(func(bool) { close(done) })
			<-done
		}
	}
	write(0, 3)
	l := feed.Lines(Source{Name: "a", Dir: "logs/a"}, Position{})
	if got := readOn(t, l); len(got) != 3 || l.Gone() {
		t.Fatalf("%d came", got)
	}
	l.Rest()
	write(3, 100)
	got := readOn(t, l)
	if len(got) == 0 || !l.Gone() || l.Gone() || got[len(got)-1] != 99 {
		t.Errorf("%d came, and it is not said that some are gone", got)
	}
	for i := 1; i < len(got); i++ {
		if got[i] != got[i-1]+1 {
			t.Errorf("%d came after %d", got[i], got[i-1])
		}
	}
	// A file of the same inode, or one that was cut, is another one.
	l.Rest()
	name := filepath.Join(c.opts.Home, "logs/a", current)
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	write(100, 101)
	if got := readOn(t, l); !l.Gone() || len(got) != 1 || got[0] != 100 {
		t.Errorf("after it was emptied %d came", got)
	}
}

package logs

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"rlminit/internal/redact"
)

// hidden is in what services write, and to be in no log.
const hidden = "s3cr3t"

// Two configurations that come one after the other: both hide what is secret, and the
// second one numbers as well.
var (
	alternating = [][]string{{redact.Secrets}, {redact.Secrets, `card ([0-9]+)`}}
	numbers     = regexp.MustCompile(`card [0-9]+`)
)

// shownOf is what a log may have of what was written, with numbers hidden or not.
func shownOf(written string) string {
	return numbers.ReplaceAllString(strings.ReplaceAll(written, hidden, redact.Sign), "card ***")
}

// secretScript is a script in which each text has secrets, and ends with none.
func secretScript(random *rand.Rand, turns, longest int) []string {
	var all []string
	for i := range turns {
		var text strings.Builder
		for n := random.IntN(longest); text.Len() <= n; {
			fmt.Fprintf(&text, "%d card %d %s token=%s password: \"%s\" %s ", i, random.IntN(1e6), strings.Repeat("x", random.IntN(40)), hidden, hidden, strings.Repeat("y", random.IntN(20)))
		}
		text.WriteString("end ")
		if random.IntN(4) > 0 {
			text.WriteString("\n")
		}
		all = append(all, text.String())
	}
	return all
}

// A collector dies at each of its steps, its successor has other patterns, and yet each
// line is there once, whole and masked.
func TestDeathAtEveryStepWhileMasking(t *testing.T) {
	for _, test := range []struct {
		name    string
		cfg     Config
		longest int
		full    bool
	}{
		{"lines", Config{File: true, Timestamps: true, MaxSize: 1000}, 300, false},
		{"plain", Config{File: true, MaxSize: 1000}, 300, false},
		{"full disk", Config{File: true, Timestamps: true, MaxSize: 1000}, 300, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			words := secretScript(rand.New(rand.NewPCG(4, 2)), 12, test.longest)
			step := 1
			for calm := false; !calm; step++ {
				b := newBox(t, test.cfg)
				b.dieAt, b.redact, b.shown = step, alternating, shownOf
				calm = perform(t, b, words, test.full)
			}
			t.Logf("died at each of %d steps", step-1)
		})
	}
}

// Lines that are too long are cut where no secret is, whoever dies meanwhile.
func TestDeathsInLongMaskedLines(t *testing.T) {
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, seed))
		b := newBox(t, Config{File: true, Timestamps: seed%3 > 0, MaxSize: 1 << 20})
		b.redact, b.shown = alternating, shownOf
		if seed%4 > 0 {
			b.often = func() int { return 1 + random.IntN(100) }
		}
		perform(t, b, secretScript(random, 12, 250<<10), false)
	}
}

// What a slot without a file keeps, its marks and what it said last are masked.
func TestMaskedWithoutAFile(t *testing.T) {
	masks, err := redact.NewLines([]string{redact.Secrets})
	if err != nil {
		t.Fatal(err)
	}
	c := newCollector(t, Options{})
	s := open(t, c, "a", Config{Timestamps: true, Redact: masks})
	s.Mark("starting with token=" + hidden)
	say(t, s.Stdout(), "password="+hidden+"\n")
	if got := exited(t, s, "exited"); got != "password=***" {
		t.Errorf("it said %q last", got)
	}
	lines, err := s.Tail(10, 20*time.Second)
	if got := strings.Join(lines, "\n"); err != nil || strings.Contains(got, hidden) || strings.Count(got, redact.Sign) != 2 {
		t.Errorf("%s, %v", got, err)
	}
}

// Other patterns hold from the moment on at which they are said.
func TestPatternsAreReconfigured(t *testing.T) {
	c := newCollector(t, Options{})
	cfg := Config{Dir: "logs/a", File: true}
	s := open(t, c, "a", cfg)
	turn := func(text string) {
		say(t, s.Stdout(), text)
		done := make(chan struct{})
		s.AwaitWritten(func(bool) { close(done) })
		<-done
	}
	turn("token=1\n")
	var err error
	if cfg.Redact, err = redact.NewLines([]string{redact.Secrets}); err != nil {
		t.Fatal(err)
	}
	if err := s.Reconfigure(cfg); err != nil {
		t.Fatal(err)
	}
	turn("token=2\nunfinished token=")
	turn("3\n")
	if got, want := content(t, c, s), "token=1\ntoken=***\nunfinished token=***\n"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

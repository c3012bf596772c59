package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// threeBoots is a disk with the segments of three boots, of five texts each: 0 to
// 4, 5 to 9, 10 to 14.
func threeBoots(t *testing.T) *model {
	t.Helper()
	m := newModel()
	for boot := range 3 {
		o := openModel(t, m, fmt.Sprintf("b%d", boot))
		for i := range 5 {
			o.add(t, fmt.Sprint(5*boot+i))
		}
		o.Close()
	}
	return m
}

func upTo(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

func (o *opened) saysOf(what string) bool {
	return slices.ContainsFunc(o.said, func(line string) bool { return strings.Contains(line, what) })
}

// reopen boots on a disk, and boots again, which must find the same.
func reopen(t *testing.T, m *model, why string) *opened {
	t.Helper()
	o := openModel(t, m, "c1")
	got := o.has()
	o.add(t, "after")
	o.Close()
	again := openModel(t, m, "c2")
	again.Close()
	// What is missing between segments that stay is said at each boot.
	again.said = slices.DeleteFunc(again.said, func(line string) bool { return o.saysOf(line) && strings.Contains(line, "missing at its end") })
	if len(again.said) > 0 || !slices.Equal(again.has(), append(slices.Clone(got), "after")) {
		t.Fatalf("%s: the boot after has %q and says %q, the first had %q", why, again.has(), again.said, got)
	}
	o.texts.all = got
	return o
}

func TestACutAtEveryByte(t *testing.T) {
	whole := threeBoots(t)
	name := segmentName(3)
	data := whole.names[name].data
	for end := 0; end <= len(data); end++ {
		for _, rest := range [][]byte{nil, {0}, make([]byte, 300), []byte("{\"seq\":7\n")} {
			m := whole.copy()
			m.names[name].data = append(slices.Clone(data[:end]), rest...)
			// A record counts when its sum is there, with or without its newline.
			lines := 0
			for _, line := range bytes.Split(data[:end], []byte("\n")) {
				if _, err := parseRecord(line); err == nil {
					lines++
				}
			}
			if len(rest) > 0 && end > 0 && data[end-1] != '\n' { // that is part of its line now
				lines = bytes.Count(data[:end], []byte("\n"))
			}
			want := upTo(10 + max(0, lines-1))
			why := fmt.Sprintf("cut at byte %d of %d, %d more", end, len(data), len(rest))
			o := reopen(t, m, why)
			if !slices.Equal(o.has(), want) {
				t.Fatalf("%s: it has %q, want %q", why, o.has(), want)
			}
			now := append(slices.Clone(data[:end]), rest...)
			_, broken := parseRecord(now[bytes.LastIndexByte(now, '\n')+1:])
			torn := len(rest) > 0 || end > 0 && data[end-1] != '\n' && broken != nil
			if torn != o.saysOf("torn end") {
				t.Fatalf("%s: it says %q", why, o.said)
			}
		}
	}
}

func TestDamageAtEveryByte(t *testing.T) {
	whole := threeBoots(t)
	name := segmentName(3)
	data := whole.names[name].data
	ends := []int{}
	for i, c := range data {
		if c == '\n' {
			ends = append(ends, i)
		}
	}
	for at := range data {
		m := whole.copy()
		m.names[name].data[at] ^= 0x15
		// A damaged newline takes the record after it along.
		hit, _ := slices.BinarySearch(ends, at)
		lost := []int{hit}
		if data[at] == '\n' && hit+1 < len(ends) {
			lost = append(lost, hit+1)
		}
		var want []string
		for i, text := range upTo(15) {
			if i < 10 || !slices.Contains(lost, i-9) { // the segment's first record is a snapshot
				want = append(want, text)
			}
		}
		why := fmt.Sprintf("byte %d of %d", at, len(data))
		o := reopen(t, m, why)
		last := at == len(data)-1 // the newline at the end
		if last {
			want = upTo(14)
		}
		if !slices.Equal(o.has(), want) {
			t.Fatalf("%s: it has %q, want %q", why, o.has(), want)
		}
		atEnd := slices.Contains(lost, len(ends)-1)
		if atEnd != o.saysOf("torn end") || !atEnd != o.saysOf("damaged at byte") {
			t.Fatalf("%s: it says %q", why, o.said)
		}
	}
}

// another is a disk of another volume, with as many segments and more records.
func another(t *testing.T) *model {
	m := newModel()
	for boot := range 4 {
		o := openModel(t, m, fmt.Sprintf("x%d", boot))
		for i := range 9 {
			o.add(t, fmt.Sprintf("foreign %d", i))
		}
		o.Close()
	}
	return m
}

func TestSegmentsThatAreNotInTheirPlace(t *testing.T) {
	one, two, three := segmentName(1), segmentName(2), segmentName(3)
	foreign := another(t)
	for what, c := range map[string]struct {
		change func(m *model)
		want   int
		says   string
	}{
		"the oldest is missing":        {func(m *model) { delete(m.names, one) }, 15, ""},
		"one between is missing":       {func(m *model) { delete(m.names, two) }, 15, "00000002.jsonl: it is missing: of what happened from "},
		"the newest is missing":        {func(m *model) { delete(m.names, three) }, 10, "00000003.jsonl: it is missing, and was the newest: of what happened since "},
		"the newest two are":           {func(m *model) { delete(m.names, three); delete(m.names, two) }, 5, "00000003.jsonl: it is missing, and was the newest: of what happened since "},
		"all are":                      {func(m *model) { delete(m.names, three); delete(m.names, two); delete(m.names, one) }, 0, "00000003.jsonl: it is missing, and was the newest: of what happened it is not known from when"},
		"the newest is emptied":        {func(m *model) { m.names[three] = &inode{} }, 10, "00000003.jsonl: it is empty"},
		"one between has lost its end": {func(m *model) { m.names[two] = &inode{data: firstLine(m.names[two].data)} }, 15, "00000002.jsonl: records 8 to "},
		"the newest is doubled":        {func(m *model) { m.names[segmentName(4)] = m.names[three] }, 15, "copy of"},
		"an older one is doubled":      {func(m *model) { m.names[segmentName(7)] = m.names[one] }, 15, "copy of"},
		"two are swapped":              {func(m *model) { m.names[two], m.names[three] = m.names[three], m.names[two] }, 15, "by what it holds"},
		"the oldest and the newest":    {func(m *model) { m.names[one], m.names[three] = m.names[three], m.names[one] }, 15, "by what it holds"},
		"another volume's between":     {func(m *model) { m.names[two] = foreign.names[two] }, 15, "another volume"},
		"another volume's after":       {func(m *model) { m.names[segmentName(4)] = foreign.names[segmentName(4)] }, 15, "another volume"},
		"an empty one after":           {func(m *model) { m.names[segmentName(4)] = &inode{} }, 15, "00000004.jsonl: it is empty"},
		"nonsense after":               {func(m *model) { m.names[segmentName(4)] = &inode{data: []byte("hello\nworld\n")} }, 15, "torn end"},
		"other files":                  {func(m *model) { m.names["notes.txt"] = &inode{data: []byte("x")} }, 15, ""},
		"an older state of the newest": {func(m *model) {
			data := m.names[three].data
			m.names[segmentName(9)] = &inode{data: slices.Clone(data[:len(data)-200])}
		}, 15, "copy of"},
	} {
		t.Run(what, func(t *testing.T) {
			m := threeBoots(t)
			volume := volumeOf(t, m)
			c.change(m)
			m = m.copy()
			texts := &texts{}
			var said []string
			j, err := open(m, volume, Options{Boot: "c", Folds: map[string]Fold{"texts": texts}, Say: func(line string) { said = append(said, line) }})
			if err != nil {
				t.Fatal(err)
			}
			go j.write()
			j.Close()
			if !slices.Equal(texts.all, upTo(c.want)) {
				t.Errorf("it has %q, want %d", texts.all, c.want)
			}
			if all := strings.Join(said, "\n"); (c.says == "") != (all == "") || !strings.Contains(all, c.says) {
				t.Errorf("it says %q, want %q", said, c.says)
			}
		})
	}
}

func firstLine(data []byte) []byte {
	return slices.Clone(data[:bytes.IndexByte(data, '\n')+1])
}

func volumeOf(t *testing.T, m *model) string {
	all, err := list(m)
	if err != nil {
		t.Fatal(err)
	}
	return newestVolume(all)
}

func TestANewerSegmentIsRefusedAndKept(t *testing.T) {
	m := threeBoots(t)
	in := m.names[segmentName(3)]
	first, rest, _ := bytes.Cut(in.data, []byte("\n"))
	first = bytes.Replace(first, []byte(`"format":1`), []byte(`"format":2`), 1)
	r, _ := parseRecord(in.data[:len(first)])
	body := bytes.TrimPrefix(first[:len(first)-sumLength], first[:bytes.Index(first, []byte(`"snapshot",`))+len(`"snapshot",`)])
	in.data = append(appendRecord(nil, r.Seq, r.At, r.Boot, r.Type, body), rest...)
	before := m.copy()
	if _, err := open(m, "", Options{Boot: "c"}); !errors.Is(err, ErrNewer) {
		t.Fatalf("opened: %v", err)
	}
	for name, in := range before.names {
		if !bytes.Equal(m.names[name].data, in.data) {
			t.Errorf("%s was changed", name)
		}
	}
	if len(m.names) != len(before.names) {
		t.Errorf("there are %d files, there were %d", len(m.names), len(before.names))
	}
}

// outcome is what callers were told while a disk failed.
type outcome struct{ done, refused []string }

// busy is a life of a journal: two boots with segments of a few records each,
// texts with numbers, every third from the reserve.
func busy(m *model) *outcome {
	o := &outcome{}
	m.outcome = o
	for boot := range 2 {
		texts := &texts{}
		j, err := open(m, "", Options{Boot: fmt.Sprintf("b%d", boot), Folds: map[string]Fold{"texts": texts}})
		if err != nil {
			continue
		}
		j.writer.limit = 900
		go j.write()
		for i := range 7 {
			text := fmt.Sprintf("%d.%d", boot, i)
			appending := j.Append
			if i%3 == 0 {
				appending = j.AppendReserved
			}
			_, err := appending(context.Background(), say("%s", text))
			switch {
			case err == nil:
				o.done = append(o.done, text)
			case !errors.Is(err, ErrInDoubt):
				o.refused = append(o.refused, text)
			}
		}
		j.Close()
	}
	return o
}

// holds checks what a boot finds against what callers were told.
func holds(t *testing.T, m *model, o *outcome, why string) {
	t.Helper()
	has := reopen(t, m, why).has()
	for _, text := range o.done {
		if !slices.Contains(has, text) {
			t.Fatalf("%s: %s was acknowledged and is lost; there is %q", why, text, has)
		}
	}
	for i, text := range has {
		if slices.Contains(o.refused, text) {
			t.Fatalf("%s: %s was refused and is there", why, text)
		}
		if i > 0 && text <= has[i-1] {
			t.Fatalf("%s: the order is %q", why, has)
		}
	}
}

func TestADiskThatFailsAtEveryCall(t *testing.T) {
	calm := newModel()
	busy(calm)
	if calm.calls < 40 || len(calm.names) < 4 {
		t.Fatalf("a life has %d calls and %d segments: that is not much", calm.calls, len(calm.names))
	}
	tried := 0
	for _, fault := range []error{unix.EIO, unix.ENOSPC} {
		for _, times := range []int{1, 2, 3, 1 << 30} {
			for n := range calm.calls {
				m := newModel()
				m.fault = func(string) error {
					if m.calls > n && m.calls <= n+times {
						return fault
					}
					return nil
				}
				o := busy(m)
				m.fault = nil
				why := fmt.Sprintf("%v at call %d, %d times", fault, n+1, times)
				holds(t, m.copy(), o, why+", then killed")
				holds(t, m.crash(nothingMore), o, why+", then a power cut")
				holds(t, m.crash(everything), o, why+", then a power cut that spared what was written")
				tried += 3
			}
		}
	}
	t.Logf("%d ends of failing disks", tried)
}

// TestADiskThatFailsNowAndThen: any mixture of calls fails, also those that take
// back what another has left, until nobody tries any more.
func TestADiskThatFailsNowAndThen(t *testing.T) {
	calm := newModel()
	busy(calm)
	for _, fault := range []error{unix.EIO, unix.ENOSPC} {
		for seed := range uint64(1500) {
			chance := rand.New(rand.NewPCG(seed, 1))
			from, odds := chance.IntN(calm.calls), 20+chance.IntN(70)
			m := newModel()
			m.fault = func(string) error {
				if m.calls > from && chance.IntN(100) < odds {
					return fault
				}
				return nil
			}
			o := busy(m)
			m.fault = nil
			why := fmt.Sprintf("%v, seed %d", fault, seed)
			holds(t, m.copy(), o, why+", then killed")
			holds(t, m.crash(nothingMore), o, why+", then a power cut")
		}
	}
}

func TestACrashAtEveryCall(t *testing.T) {
	calm := newModel()
	busy(calm)
	for n := range calm.calls {
		var dead []*model
		var told outcome
		m := newModel()
		m.fault = func(string) error {
			if m.calls == n+1 {
				told = outcome{done: slices.Clone(m.outcome.done)}
				for part := range 4 {
					dead = append(dead, m.crashed(func(in *inode) []byte {
						more := max(0, len(in.data)-len(in.durable)) // of what was not synced, some
						if more == 0 {
							return in.data
						}
						return in.data[:len(in.durable)+more*part/3]
					}))
				}
				dead = append(dead, m.crashed(nothingMore), m.killed())
			}
			return nil
		}
		busy(m)
		for i, d := range dead {
			holds(t, d, &told, fmt.Sprintf("crash before call %d, kind %d", n+1, i))
		}
	}
}

// TestEveryCrash: before any call a disk is cut off, with any number of the bytes that
// were not synced, also where another call before it failed. EXPLORE_LONG=1 has all of
// them, without it some of each kind are looked at.
func TestEveryCrash(t *testing.T) {
	stride := 41 // of bytes, and of pairs of calls
	if os.Getenv("EXPLORE_LONG") != "" {
		stride = 1
	}
	calm := newModel()
	busy(calm)
	ends, pairs := 0, 0
	for _, fault := range []error{nil, unix.EIO, unix.ENOSPC} {
		for failing := range calm.calls {
			for crashing := failing + 1; crashing < calm.calls+10; crashing++ { // what takes back makes calls of its own
				if pairs++; fault != nil && pairs%stride != 0 || fault == nil && failing > 0 {
					continue
				}
				var dead []*model
				var told outcome
				m := newModel()
				m.fault = func(string) error {
					switch {
					case fault != nil && m.calls == failing+1:
						return fault
					case m.calls == crashing+1:
						told = outcome{done: slices.Clone(m.outcome.done), refused: slices.Clone(m.outcome.refused)}
						dead = append(m.everyTail(stride), m.crashed(nothingMore), m.killed())
					}
					return nil
				}
				busy(m)
				for i, d := range dead {
					holds(t, d, &told, fmt.Sprintf("%v at call %d, crash before call %d, end %d of %d", fault, failing+1, crashing+1, i+1, len(dead)))
				}
				ends += len(dead)
			}
		}
	}
	t.Logf("%d ends", ends)
	if ends < 300 {
		t.Error("that is not much")
	}
}

// everyTail is what a power cut may leave: of the bytes that were not synced any number
// that stride divides, and all.
func (m *model) everyTail(stride int) (dead []*model) {
	most := 0
	for _, in := range m.kept {
		most = max(most, len(in.data)-len(in.durable))
	}
	for n := 0; ; n += stride {
		dead = append(dead, m.crashed(func(in *inode) []byte {
			return in.data[:min(len(in.data), len(in.durable)+min(n, most))]
		}))
		if n >= most {
			return dead
		}
	}
}

// A segment that another follows is durable to its end, notes and all: of it no boot
// cuts a torn end off any more.
func TestWhatIsFollowedIsDurable(t *testing.T) {
	m := newModel()
	first := openModel(t, m, "b1")
	first.writer.limit = 900
	noted := func(o *opened, what string) {
		o.add(t, what+" recorded")
		o.Note(say("%s noted", what))
		for !slices.Contains(o.has(), what+" noted") {
			time.Sleep(time.Millisecond)
		}
	}
	for i := range 20 {
		noted(first, fmt.Sprint(i))
	}
	// Its machine goes on, and so does what was not synced, as far as it goes.
	noted(openModel(t, m, "b2"), "b2")
	openModel(t, m, "b3").add(t, "b3")
	if len(m.names) < 4 {
		t.Fatalf("%d segments", len(m.names))
	}
	newest := slices.Max(slices.Collect(maps.Keys(m.names)))
	for name, in := range m.names {
		if name != newest && string(in.durable) != string(in.data) {
			t.Errorf("of %s %d of %d bytes are durable", name, len(in.durable), len(in.data))
		}
	}
}

// TestAHole: of what was not synced a power cut may leave the end and not the
// begin.
func TestAHole(t *testing.T) {
	m := newModel()
	o := openModel(t, m, "b1")
	o.add(t, "a")
	for range 3 {
		o.Note(say("note"))
	}
	o.Close()
	in := m.names[segmentName(1)]
	clear(in.data[len(in.durable) : len(in.durable)+40])
	after := reopen(t, m, "a hole")
	if got := after.has(); len(got) != 3 || got[0] != "a" {
		t.Errorf("it has %q", got)
	}
	if !after.saysOf("kept as " + segmentName(1) + ".aside-") {
		t.Errorf("it says %q", after.said)
	}
}

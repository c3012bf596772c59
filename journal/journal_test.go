package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

func (t *texts) Apply(r Record) {
	if r.Type != "text" {
		return
	}
	var body text
	if r.Decode(&body) == nil {
		t.all = append(t.all, body.Text)
	}
}

func (t *texts) Snapshot() any { return t.all }

func (t *texts) Restore(section json.RawMessage) error {
	t.all = nil
	return json.Unmarshal(section, &t.all)
}

// opened is a journal on a disk, with its fold and what it said.
type opened struct {
	*Journal
	texts *texts
	said  []string
}

func openModel(t *testing.T, d disk, boot string) *opened {
	t.Helper()
	o := &opened{texts: &texts{}}
	j, err := open(d, "", Options{
		Boot: boot, Folds: map[string]Fold{"texts": o.texts},
		Say: func(line string) { o.said = append(o.said, line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	o.Journal = j
	go j.write()
	return o
}

func (o *opened) has() (all []string) {
	o.View(func() { all = slices.Clone(o.texts.all) })
	return all
}

func (o *opened) add(t *testing.T, what ...string) {
	t.Helper()
	for _, one := range what {
		if _, err := o.Append(context.Background(), say("%s", one)); err != nil {
			t.Fatal(err)
		}
	}
}

func home(t *testing.T) (*durable.Dir, string) {
	t.Helper()
	path := t.TempDir()
	d, err := durable.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, path
}

func openHome(t *testing.T, d *durable.Dir, boot string) *opened {
	t.Helper()
	o := &opened{texts: &texts{}}
	j, err := Open(d, Options{
		Boot: boot, Folds: map[string]Fold{"texts": o.texts},
		Say: func(line string) { o.said = append(o.said, line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	o.Journal = j
	return o
}

func TestWhatIsAppendedIsThereAfterEachBoot(t *testing.T) {
	d, path := home(t)
	var want []string
	for boot := range 9 {
		o := openHome(t, d, fmt.Sprintf("%08x", boot))
		if got := o.has(); !slices.Equal(got, want) {
			t.Fatalf("boot %d has %q, want %q", boot, got, want)
		}
		if len(o.said) > 0 {
			t.Errorf("boot %d says %q", boot, o.said)
		}
		o.add(t, fmt.Sprintf("of boot %d", boot))
		want = append(want, fmt.Sprintf("of boot %d", boot))
		o.Close()
	}
	files, err := os.ReadDir(filepath.Join(path, Dir))
	if err != nil || len(files) != segmentsKept+1 { // and the mark of the newest
		t.Errorf("%d files are kept, %v", len(files), err)
	}
	format, err := os.ReadFile(filepath.Join(path, FormatFile))
	if err != nil || !strings.HasPrefix(string(format), "1\nvolume ") {
		t.Errorf("the format file: %q, %v", format, err)
	}
}

func TestARecordIsALineWithItsSumLast(t *testing.T) {
	d, path := home(t)
	o := openHome(t, d, "0123abcd")
	seq, err := o.Append(context.Background(), Entry{Type: "operation", Body: map[string]any{"verb": "stop", "services": []string{"gateway-alice"}}})
	if err != nil || seq != 2 {
		t.Fatalf("record %d, %v; a segment's first record is its snapshot", seq, err)
	}
	o.Close()
	data, err := os.ReadFile(filepath.Join(path, Dir, segmentName(1)))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	if len(lines) != 3 || lines[2] != "" {
		t.Fatalf("the segment is %q", data)
	}
	if !strings.HasPrefix(lines[1], `{"seq":2,"at":"`) || !strings.Contains(lines[1], `Z","boot":"0123abcd","type":"operation","services":["gateway-alice"],"verb":"stop","sum":"`) {
		t.Errorf("the record is %s", lines[1])
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(lines[1]), &keys); err != nil {
		t.Errorf("the record is no JSON: %v", err)
	}
}

func TestASupervisorsSuccessorGoesOnWithItsSegment(t *testing.T) {
	d, path := home(t)
	for i := range 12 {
		o := openHome(t, d, "0123abcd")
		o.add(t, fmt.Sprint(i))
		if got := len(o.has()); got != i+1 {
			t.Fatalf("supervisor %d has %d texts", i, got)
		}
		o.Close()
	}
	if files, err := os.ReadDir(filepath.Join(path, Dir)); err != nil || len(files) != 2 { // and the mark of the newest
		t.Errorf("one boot has %d segments, %v", len(files), err)
	}
}

func TestClientsAtOnceShareAnFsync(t *testing.T) {
	m := newModel()
	syncs, held, hold := 0, make(chan struct{}), make(chan struct{})
	o := openModel(t, m, "b1")
	m.mu.Lock()
	m.fault = func(call string) error {
		if call == "sync" {
			if syncs++; syncs == 1 { // the others queue up behind the first
				close(held)
				<-hold
			}
		}
		return nil
	}
	m.mu.Unlock()
	var clients sync.WaitGroup
	client := func() {
		if _, err := o.Append(context.Background(), say("x")); err != nil {
			t.Error(err)
		}
	}
	clients.Go(client)
	<-held
	for range 63 {
		clients.Go(client)
	}
	queued := func() int {
		o.queue.mu.Lock()
		defer o.queue.mu.Unlock()
		return len(o.queue.waiting)
	}
	for queued() < 63 {
		time.Sleep(time.Millisecond)
	}
	close(hold)
	clients.Wait()
	o.Close()
	if syncs != 2 || len(o.has()) != 64 {
		t.Errorf("%d fsyncs for %d records", syncs, len(o.has()))
	}
}

func TestNotesCostNoFsync(t *testing.T) {
	m := newModel()
	o := openModel(t, m, "b1")
	before := m.calls
	for i := range 10 {
		o.Note(say("%d", i))
	}
	o.Close()
	if got := o.has(); len(got) != 10 {
		t.Errorf("%d of 10 notes are there", len(got))
	}
	m.fault = func(call string) error {
		t.Errorf("%s, to read", call)
		return nil
	}
	if m.calls-before > 11 { // at most a write each, and the end's truncate
		t.Errorf("%d calls for ten notes", m.calls-before)
	}
}

func TestSegmentsEnd(t *testing.T) {
	m := newModel()
	o := openModel(t, m, "b1")
	big := strings.Repeat("x", 1<<20)
	type note struct {
		Big string `json:"big"`
	}
	for i := range 100 {
		if _, err := o.Append(context.Background(), Entry{Type: "big", Body: note{big}}); err != nil {
			t.Fatal(err)
		}
		o.add(t, fmt.Sprint(i))
	}
	o.Close()
	if len(m.names) != segmentsKept+1 { // and the mark of the newest
		t.Errorf("%d files", len(m.names))
	}
	for name, in := range m.names {
		if strings.HasPrefix(name, newestPrefix) {
			continue
		}
		if len(in.data) > segmentLimit {
			t.Errorf("%s has %d bytes", name, len(in.data))
		}
	}
	if got := openModel(t, m, "b2").has(); len(got) != 100 || got[99] != "99" {
		t.Errorf("%d texts are left", len(got))
	}
}

func TestTheLastRecordsAreReadFromTheEnd(t *testing.T) {
	d, path := home(t)
	o := openHome(t, d, "first")
	long := strings.Repeat("x", 3*block) // a line longer than what is read at a time
	for i := range 300 {
		service := fmt.Sprintf("s%d", i%7)
		body := map[string]string{"service": service, "text": fmt.Sprint(i)}
		if i == 150 {
			body["text"] = long
		}
		if i == 200 { // a boot begins another segment
			o.Flush(t.Context())
			o.Close()
			o = openHome(t, d, "second")
		}
		o.Note(Entry{Type: "text", Body: body})
	}
	o.Flush(t.Context())
	read := func(q Query) (lines []string) {
		err := o.Read(t.Context(), q, func(r Record) error {
			lines = append(lines, string(r.Line))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	for _, q := range []Query{{}, {Names: []string{"s3"}}, {Names: []string{"nobody"}}, {Types: []string{"text"}}, {Types: []string{TypeSnapshot}}, {Names: []string{"s1", "s2"}, Until: time.Now()}} {
		all := read(q)
		for _, n := range []int{0, 1, 2, 20, 60, 110, 400} {
			q.Last = new(n)
			if got, want := read(q), all[max(0, len(all)-n):]; !slices.Equal(got, want) {
				t.Errorf("the last %d of %v are %d, and not the %d that all end with", n, q, len(got), len(want))
			}
		}
	}
	if all := read(Query{Names: []string{"s3"}}); len(all) < 40 || !strings.Contains(strings.Join(all, ""), long) {
		t.Errorf("%d records of a service, the long one among them", len(all))
	}

	// Who goes on after a record gets the others once each, and reads no earlier segment.
	everything := read(Query{Types: []string{"text"}})
	for _, at := range []int{0, 199, 200, 298, 299} {
		var seen struct{ Seq uint64 }
		if err := json.Unmarshal([]byte(everything[at]), &seen); err != nil {
			t.Fatal(err)
		}
		if got := read(Query{Types: []string{"text"}, After: seen.Seq}); !slices.Equal(got, everything[at+1:]) {
			t.Errorf("after record %d there are %d, and should be %d", at, len(got), len(everything)-at-1)
		}
	}

	// Damage at the end and in the midst hides none of the others.
	o.Close()
	segments, _ := filepath.Glob(filepath.Join(path, Dir, "*.jsonl"))
	text, err := os.ReadFile(segments[len(segments)-1])
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), `"text":"250"`, `"text":"251"`, 1) + `{"seq":`)
	if err := os.WriteFile(segments[len(segments)-1], text, 0o600); err != nil {
		t.Fatal(err)
	}
	offline, err := OpenOffline(path)
	if err != nil {
		t.Fatal(err)
	}
	defer offline.Close()
	var texts []string
	err = offline.Read(t.Context(), Query{Types: []string{"text"}, Last: new(51)}, func(r Record) error {
		var body struct{ Text string }
		texts = append(texts, "")
		err := r.Decode(&body)
		texts[len(texts)-1] = body.Text
		return err
	})
	if err != nil || len(texts) != 51 || texts[0] != "248" || slices.Contains(texts, "250") {
		t.Errorf("read %q, err = %v", texts, err)
	}
}

// counting is a disk that counts the bytes that are read of segments, but for those
// at their begin.
type counting struct {
	disk
	read *int
}

type countedFile struct {
	file
	read *int
}

func (c counting) open(name string, write bool) (file, error) {
	f, err := c.disk.open(name, write)
	return countedFile{f, c.read}, err
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.file.ReadAt(p, off)
	if off > 0 {
		*f.read += n
	}
	return n, err
}

// However long the journal is, the last records are read of its end alone.
func TestTheLastRecordsCostTheSameHoweverManyThereAre(t *testing.T) {
	d, _ := home(t)
	o := openHome(t, d, "first")
	for i := range 5000 {
		o.Note(Entry{Type: "text", Body: map[string]string{"service": fmt.Sprintf("s%d", i%50), "text": strings.Repeat("x", 100)}})
		if i%500 == 0 {
			o.Flush(t.Context())
		}
	}
	o.Flush(t.Context())
	if o.tail.end < 12*block {
		t.Fatalf("the segment has %d bytes", o.tail.end)
	}
	for _, names := range [][]string{nil, {"s7"}} {
		read, got := 0, 0
		r := reader{disk: counting{o.writer.disk, &read}, query: Query{Names: names, Last: new(5)}, until: o.until, each: func(Record) error { got++; return nil }}
		if err := r.run(t.Context()); err != nil || got != 5 || read == 0 || read > 2*block {
			t.Errorf("%d records of %q took %d bytes of %d, err = %v", got, names, read, o.tail.end, err)
		}
	}
}

func TestWhoFollowsFromTheLastMissesNothing(t *testing.T) {
	d, _ := home(t)
	o := openHome(t, d, "first")
	o.add(t, "one", "two", "three")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	q := Query{Types: []string{"text"}, Last: new(1), Follow: true, CaughtUp: sync.OnceFunc(func() {
		o.Note(say("four"))
		o.Note(say("five"))
	})}
	err := o.Read(ctx, q, func(r Record) error {
		var body text
		if got = append(got, ""); len(got) == 3 {
			cancel()
		}
		err := r.Decode(&body)
		got[len(got)-1] = body.Text
		return err
	})
	if want := []string{"three", "four", "five"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("read %q, err = %v; want %q", got, err, want)
	}
}

func TestOnlyReservedRecordsUseTheReserve(t *testing.T) {
	for _, nofal := range []bool{false, true} {
		m := newModel()
		m.nofal = nofal
		o := openModel(t, m, "b1")
		o.add(t, "before")
		m.mu.Lock()
		m.room = 0
		m.mu.Unlock()
		refused := false
		for i := 0; i < 100_000 && !refused; i++ {
			_, err := o.Append(context.Background(), say("%0200d", i))
			refused = errors.Is(err, unix.ENOSPC)
		}
		if !refused {
			t.Fatal("an ordinary record is never refused")
		}
		for i := range 1000 {
			if _, err := o.AppendReserved(context.Background(), say("stop %d", i)); err != nil {
				t.Fatalf("the %dth stop on a full disk: %v (no allocation: %v)", i, err, nofal)
			}
		}
		n := len(o.has())
		o.Close()
		if got := openModel(t, m.crash(nothingMore), "b2").has(); len(got) != n || got[n-1] != "stop 999" {
			t.Errorf("%d of %d records are left, no allocation: %v", len(got), n, nofal)
		}
	}
}

func TestOneWhoLostTheVolumeNeverAppendsAgain(t *testing.T) {
	m := newModel()
	held := true
	texts := &texts{}
	j, err := open(m, "", Options{Boot: "b1", Folds: map[string]Fold{"texts": texts}, Held: func() bool { return held }})
	if err != nil {
		t.Fatal(err)
	}
	go j.write()
	ctx := context.Background()
	if _, err := j.Append(ctx, say("mine")); err != nil {
		t.Fatal(err)
	}
	held = false
	if _, err := j.Append(ctx, say("not mine")); !errors.Is(err, ErrLost) {
		t.Errorf("appended: %v", err)
	}
	other := openModel(t, m, "b2")
	other.add(t, "other's")
	held = true // it thinks so again
	if _, err := j.Append(ctx, say("not mine either")); !errors.Is(err, ErrLost) {
		t.Errorf("appended: %v", err)
	}
	j.Close()
	other.Close()
	if got := openModel(t, m, "b3").has(); !slices.Equal(got, []string{"mine", "other's"}) {
		t.Errorf("recorded is %q", got)
	}
}

func TestSectionsOfOthersAreHandedOn(t *testing.T) {
	m := newModel()
	o := openModel(t, m, "b1")
	o.add(t, "one")
	o.Close()
	openModel(t, m, "b2").Close()              // its snapshot has it
	j, err := open(m, "", Options{Boot: "b3"}) // a program without that domain
	if err != nil {
		t.Fatal(err)
	}
	go j.write()
	j.Close()
	if got := openModel(t, m, "b4").has(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("recorded is %q", got)
	}
}

func TestEntriesThatAreNone(t *testing.T) {
	o := openModel(t, newModel(), "b1")
	defer o.Close()
	for _, e := range []Entry{
		{Type: "", Body: nil},
		{Type: "With Blank", Body: nil},
		{Type: "x", Body: 1},
		{Type: "x", Body: []int{1}},
		{Type: "x", Body: map[string]int{"seq": 1}},
		{Type: "x", Body: map[string]int{"sum": 1}},
		{Type: "x", Body: func() {}},
		{Type: "x", Body: map[string]string{"a": strings.Repeat("x", maxRecord+1)}},
	} {
		if _, err := o.Append(context.Background(), e); err == nil || !strings.HasPrefix(err.Error(), "cannot record") {
			t.Errorf("%s: %v", e.Type, err)
		}
	}
}

package logs

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rotations are the names of a log's rotated files that end in a suffix.
func rotations(t *testing.T, dir, suffix string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// compressed is a log of so many lines, each "N", whose rotated files are all
// compressed.
func compressed(t *testing.T, lines int, cfg Config) (*Collector, *Slot, string) {
	t.Helper()
	c := newCollector(t, Options{})
	cfg.File, cfg.Timestamps, cfg.Compress, cfg.MaxSize = true, true, true, 2000
	s := open(t, c, "web", cfg)
	for i := range lines {
		say(t, s.Stdout(), fmt.Sprintf("%d\n", i))
		if i%20 == 0 {
			exited(t, s, "pause")
		}
	}
	exited(t, s, "exited")
	dir := filepath.Join(c.opts.Home, "logs/web")
	eventually(t, "all is compressed", func() bool {
		return len(rotations(t, dir, ".log")) == 0 && len(rotations(t, dir, ".log.gz")) > 1
	})
	return c, s, dir
}

// counted are the numbers in lines of stdout, of which each must be one more
// than that before.
func counted(t *testing.T, log string) (first, last int) {
	t.Helper()
	first, last = -1, -1
	for _, line := range texts(t, log) {
		var n int
		if _, err := fmt.Sscanf(line, "out %d", &n); err != nil {
			continue
		}
		if last >= 0 && n != last+1 {
			t.Fatalf("%d follows on %d", n, last)
		}
		if first < 0 {
			first = n
		}
		last = n
	}
	return first, last
}

func TestCompressedFilesAreRead(t *testing.T) {
	c, s, dir := compressed(t, 1000, Config{})
	since := func(q Query) string {
		q.Sources = []Source{{Name: "web"}}
		return read(t, c, q)
	}
	if first, last := counted(t, since(Query{N: -1})); first != 0 || last != 999 {
		t.Errorf("read %d to %d", first, last)
	}
	all := strings.SplitAfter(since(Query{N: -1}), "\n")
	all = all[:len(all)-1]
	for _, n := range []int{0, 1, 2, 30, 45, 46, 47, 500, len(all) - 1, len(all), 5000} {
		got, err := s.Tail(n, time.Minute)
		if err != nil || len(got) != min(n, len(all)) {
			t.Errorf("asked for %d lines, got %d, %v", n, len(got), err)
		}
		if want := strings.Join(all[len(all)-min(n, len(all)):], ""); strings.Join(got, "\n")+"\n" != want && n > 0 {
			t.Errorf("the last %d lines are not the last", n)
		}
	}
	at, err := time.Parse(layout, all[333][:len(layout)])
	if err != nil {
		t.Fatal(err)
	}
	if got := since(Query{N: -1, Since: at}); !strings.HasPrefix(got, all[333][:len(layout)]) || !strings.HasSuffix(got, all[len(all)-1]) {
		t.Errorf("since %v: %.100q", at, got)
	}
	// What a person's gzip makes of them.
	for _, name := range rotations(t, dir, ".gz") {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(z); err != nil || z.Name != strings.TrimSuffix(filepath.Base(name), ".gz") || len(text) < 1000 {
			t.Errorf("%s: %d bytes of %q, %v", name, len(text), z.Name, err)
		}
		if mode(t, name) != 0o640 {
			t.Errorf("%s: %o", name, mode(t, name))
		}
		file.Close()
	}
}

func TestCompressedFilesAreCounted(t *testing.T) {
	c, s, dir := compressed(t, 1000, Config{MaxFiles: 3})
	if n := len(rotations(t, dir, "*.gz")); n != 3 {
		t.Errorf("%d files are kept", n)
	}
	_ = s
	if _, last := counted(t, read(t, c, Query{Sources: []Source{{Name: "web"}}, N: -1})); last != 999 {
		t.Errorf("read up to %d", last)
	}
}

// Readers see each line once while what they read is compressed under them.
func TestReadersBesideCompression(t *testing.T) {
	const lines = 3000
	c := newCollector(t, Options{})
	s := open(t, c, "web", Config{File: true, Timestamps: true, Compress: true, MaxSize: 1000})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	go func() { w.CloseWithError(c.Read(ctx, w, Query{Sources: []Source{{Name: "web"}}, N: -1, Follow: true})) }()
	followed := make(chan error, 1)
	go func() {
		in := bufio.NewScanner(r)
		for n := 0; n < lines; n++ {
			if !in.Scan() {
				followed <- fmt.Errorf("the end after %d lines: %v", n, in.Err())
				return
			}
			if !strings.HasSuffix(in.Text(), fmt.Sprintf(" out %d", n)) {
				followed <- fmt.Errorf("%q, not %d", in.Text(), n)
				return
			}
		}
		followed <- nil
	}()
	go func() {
		for i := range lines {
			say(t, s.Stdout(), fmt.Sprintf("%d\n", i))
			if i%50 == 49 {
				time.Sleep(time.Millisecond) // so that there is more than one write
			}
		}
	}()
	for {
		select {
		case err := <-followed:
			if err != nil {
				t.Error(err)
			}
			return
		case <-time.After(30 * time.Second):
			t.Fatal("the log that is followed comes to no end")
		default:
			if first, _ := counted(t, read(t, c, Query{Sources: []Source{{Name: "web"}}, N: -1})); first > 0 {
				t.Fatalf("the first line is %d", first)
			}
		}
	}
}

// Whatever a kill in the midst of compressing leaves, each line is read once, and
// the next rotation puts it in order.
func TestKilledWhileCompressing(t *testing.T) {
	_, _, from := compressed(t, 200, Config{})
	gz := rotations(t, from, ".gz")[0]
	packed, err := os.ReadFile(gz)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSuffix(filepath.Base(gz), ".gz")
	plain := func() []byte {
		file, err := os.Open(gz)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		z, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}()
	for what, left := range map[string]map[string][]byte{
		"before":                   {name: plain},
		"the copy was begun":       {name: plain, packingName: packed[:10]},
		"the copy was whole":       {name: plain, packingName: packed},
		"the copy was renamed":     {name: plain, name + ".gz": packed},
		"renamed, and another":     {name: plain, name + ".gz": packed, packingName: {}},
		"the old file was removed": {name + ".gz": packed},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCollector(t, Options{})
			dir := filepath.Join(c.opts.Home, "logs/web")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for name, content := range left {
				if err := os.WriteFile(filepath.Join(dir, name), content, 0o640); err != nil {
					t.Fatal(err)
				}
			}
			q := Query{Sources: []Source{{Name: "web", Dir: "logs/web"}}, N: -1}
			if got := read(t, c, q); got != string(plain) {
				t.Errorf("read %d bytes, not %d", len(got), len(plain))
			}
			c.packer.pack("logs/web")
			if got := read(t, c, q); got != string(plain) {
				t.Errorf("read %d bytes after the next time, not %d", len(got), len(plain))
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Name() != name+".gz" && (e.Name() != packingName || what != "the old file was removed") {
					t.Errorf("%s is left", e.Name())
				}
			}
		})
	}
}

// A compressed file that is damaged is read as far as that goes, and what comes
// after it is read.
func TestDamagedCompressedFile(t *testing.T) {
	c, _, dir := compressed(t, 300, Config{})
	victim := rotations(t, dir, ".gz")[1]
	whole, err := os.ReadFile(victim)
	if err != nil {
		t.Fatal(err)
	}
	for _, bytes := range [][]byte{nil, whole[:5], whole[:len(whole)/2], whole[:len(whole)-3]} {
		if err := os.WriteFile(victim, bytes, 0o640); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{-1, 10_000} {
			got := read(t, c, Query{Sources: []Source{{Name: "web"}}, N: n})
			if strings.Count(got, "is damaged") != 1 || !strings.Contains(got, " out 0\n") || !strings.Contains(got, " out 299\n") {
				t.Errorf("%d bytes of it, the last %d lines: said %d times, %d bytes", len(bytes), n, strings.Count(got, "is damaged"), len(got))
			}
		}
	}
}

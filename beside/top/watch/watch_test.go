package watch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"rlminit/control"
)

func TestProcOf(t *testing.T) {
	for dir, want := range map[string]string{
		"/run/rlminit": "/proc", "/dev/shm/rlminit-0": "/proc", "/proc": "/proc", "/proc/7/root": "/proc",
		"/proc/7/root/run/rlminit": "/proc/7/root/proc", "/proc/self/root/run/rlminit": "/proc", "/proc/7/cwd/run/rlminit": "/proc",
	} {
		if is := procOf(dir); is != want {
			t.Errorf("the processes of %s are in %s, not %s", dir, is, want)
		}
	}
}

// TestLogGoesOn: after the supervisor was replaced, what is asked for begins at the last
// line, and no line comes twice, also where several have one time.
func TestLogGoesOn(t *testing.T) {
	at := func(second int, text string) []byte {
		return []byte(fmt.Sprintf("2026-05-24T18:05:%02d.000001Z out %s", second, text))
	}
	r := reader{options: control.LogOptions{Lines: linesFirst, Follow: true}}
	for _, line := range [][]byte{at(1, "a"), at(2, "b"), at(2, "c")} {
		if !r.isNew(line) {
			t.Errorf("%s is not new", line)
		}
	}
	r.resume()
	if r.options.Lines != -1 || !r.options.Since.Equal(time.Date(2026, 5, 24, 18, 5, 2, 1000, time.UTC)) {
		t.Errorf("it goes on with %+v", r.options)
	}
	var fresh []string
	for _, line := range [][]byte{at(2, "b"), at(2, "c"), at(2, "d"), at(3, "e")} {
		if r.isNew(line) {
			fresh = append(fresh, string(line[32:]))
		}
	}
	if fmt.Sprint(fresh) != "[d e]" {
		t.Errorf("new are %q", fresh)
	}

	// The last line may have been rotated away.
	r.resume()
	if !r.isNew(at(4, "f")) || !r.isNew(at(4, "g")) {
		t.Error("what is newer than a line that is gone is not new")
	}

	r = reader{options: control.LogOptions{Lines: linesFirst, Follow: true}}
	if r.resume(); r.options.Lines != linesFirst {
		t.Errorf("where nothing was read, it goes on with %+v", r.options)
	}
	r.isNew([]byte("no time"))
	if r.resume(); r.options.Lines != 0 || !r.isNew([]byte("no time")) {
		t.Errorf("a log without times goes on with %+v", r.options)
	}
}

// TestNobodyAnswers: where there is no rlminit, that is told again and again, and all
// ends with the context.
func TestNobodyAnswers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	s := New(control.At(dir), 10*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := s.Look(ctx); !NoAnswer(err) || NotPermitted(err) {
		t.Errorf("the first look says %v", err)
	}
	news := s.Follow(ctx)
	for range 2 {
		if n := <-news; !NoAnswer(n.Err) {
			t.Errorf("it tells %+v", n)
		}
	}
	log := s.Log(ctx, "db")
	for range 2 {
		if n := <-log; !NoAnswer(n.Err) {
			t.Errorf("the log tells %+v", n)
		}
	}
	if ctx.Err() != nil {
		t.Fatal("it took too long")
	}
	cancel()
	for range news {
	}
	for range log {
	}
	for range s.Await(ctx, 7) {
	}
	if NoAnswer(errors.New("else")) || NotPermitted(nil) {
		t.Error("any error is one of a missing answer, or of a missing permission")
	}
}

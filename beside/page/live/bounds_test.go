package live

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"testing"

	"rlminit/control"
)

// The log after the last that can be followed is refused; a second tab of one that is
// followed is not.
func TestOneLogTooMany(t *testing.T) {
	s := NewTails(NewSupervisor(control.Open()), func([][]byte, int) []byte { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var tabs []*LogTab
	for i := range tailsMost {
		tab, err := s.Open(ctx, strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		tabs = append(tabs, tab)
	}
	if _, err := s.Open(ctx, "another"); !errors.Is(err, ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	again, err := s.Open(ctx, "0")
	if err != nil {
		t.Errorf("a second tab: %v", err)
	}
	for _, tab := range append(tabs, again) {
		tab.Close()
	}
}

// A line is kept up to its bound, and one byte, by which it is known that there was more.
func TestOnePastALine(t *testing.T) {
	s := NewTails(nil, func([][]byte, int) []byte { return nil })
	tail := &tail{timer: true}
	s.line(tail, bytes.Repeat([]byte("x"), 2*lineMost))
	if len(tail.lines[0]) != lineMost+1 {
		t.Errorf("%d bytes are kept", len(tail.lines[0]))
	}
}

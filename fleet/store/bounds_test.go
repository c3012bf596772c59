package store

import (
	"errors"
	"fmt"
	"testing"
)

// Of keys that nothing can have so many are told, each once.
func TestOneOddKeyTooMany(t *testing.T) {
	told := 0
	s := &Store{odd: map[string]bool{}, tell: func(string) { told++ }}
	for range 2 {
		for n := range mostOdd + 1 {
			s.ignored(fmt.Sprint("k", n), errors.New("no name"))
		}
	}
	if told != mostOdd {
		t.Errorf("%d are told", told)
	}
}

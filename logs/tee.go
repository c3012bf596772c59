package logs

import "time"

type tee struct{}

func newTee(fd int, colour bool) *tee { return &tee{} }

func (t *tee) pass(s *Slot, out []byte) {}

func (t *tee) close(deadline <-chan time.Time) error { return nil }

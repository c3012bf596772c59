// Package threshold decides when a threshold is crossed, and when it is taken back: a pure
// function of what is measured. Each of the two is told once. What was told outlives the
// supervisor, for it is recorded before anybody hears of it; since when it has been
// otherwise does not, for nobody has measured in between.
//
// Its table, for a state and what was measured:
//
//	told    measured         since when it is otherwise   then
//	back    below            –                            nothing; since: never
//	back    at or above      less than For                nothing
//	back    at or above      For or more                  tell: crossed
//	crossed at or above      –                            nothing; since: never
//	crossed below            less than For                nothing
//	crossed below            For or more                  tell: back
//	either  nothing for      –                            since: now, and as above
//	        three times Every
//
// What is told counts when it is recorded, which Told says. Until then it is told again
// with each measurement that is so.
package threshold

import "time"

// Rule is a threshold.
type Rule struct {
	Most  float64       // per cent, from which on it is crossed
	For   time.Duration // how long before it is told, either way; 0: at once
	Every time.Duration // how often it is measured
}

// State is what is known of a threshold. The zero State was told nothing.
type State struct {
	Crossed   bool          // that was told, and nothing since
	Otherwise bool          // what was measured last is the opposite of what was told
	Since     time.Duration // when that began
	Last      time.Duration // when it was measured last; 0: never
}

// Lost is after how many times Every without a measurement nothing is known of the time in
// between: the container was paused, say.
const lost = 3

// Step takes a measurement in per cent, and its time on a clock that never goes back. tell:
// the opposite of what was told is to be told now.
func (r Rule) Step(s State, at time.Duration, percent float64) (next State, tell bool) {
	unseen := s.Last == 0 || at-s.Last > lost*r.Every
	otherwise := (percent >= r.Most) != s.Crossed
	if otherwise && (unseen || !s.Otherwise) {
		s.Since = at
	}
	s.Otherwise, s.Last = otherwise, at
	return s, otherwise && at-s.Since >= r.For
}

// Told is a state after what was to be told has been recorded.
func (s State) Told() State {
	s.Crossed, s.Otherwise = !s.Crossed, false
	return s
}

// The bounds of how often something is measured.
const (
	often  = time.Second
	seldom = 15 * time.Second
)

// Interval is how often a threshold is measured of which what is told must have been so
// for some time: four times within it, as far as the bounds allow.
func Interval(of time.Duration) time.Duration { return min(max(of/4, often), seldom) }

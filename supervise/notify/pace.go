package notify

import "time"

// What a service may have us do in the long run, in messages a second, and at once.
// A descriptor costs as much as some messages: it is kept here and by PID 1.
const (
	messagesEach  = 100
	messagesBurst = 1000
	fileCost      = 4
	longestPause  = 2 * time.Second
)

// Pace is what a service had us do of late, as the time at which all of it would
// be paid for. Where that lies too far ahead, its next message is to wait, and who
// sends it: a flood slows down itself. The zero value is a service that was silent.
type Pace struct{ paid time.Time }

// Pause is how long to wait after a message with so many descriptors.
func (p *Pace) Pause(now time.Time, files int) time.Duration {
	const each = time.Second / messagesEach
	const burst = messagesBurst * each
	if p.paid.Before(now) {
		p.paid = now
	}
	p.paid = p.paid.Add(time.Duration(1+fileCost*files) * each)
	if most := now.Add(burst + longestPause); p.paid.After(most) {
		p.paid = most
	}
	return max(0, p.paid.Sub(now)-burst)
}

package machine

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// String is the exit for people: "exit 1", "killed by SEGV".
func (x Exit) String() string {
	text := fmt.Sprintf("exit %d", x.Code)
	switch {
	case x.Lost:
		return "exit status lost"
	case x.Signal != 0:
		text = "killed by " + SignalName(x.Signal)
	}
	if x.Memory != "" {
		text += ": " + x.Memory
	}
	return text
}

// SignalName is the name without SIG: TERM, KILL; or the number, if it has no name.
func SignalName(sig unix.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return fmt.Sprintf("signal %d", int(sig))
}

// short writes a duration to two or three digits: 26s, 1.5s, 300ms, 2m30s.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(time.Millisecond)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func leftText(end string, n int) string {
	if n == 1 {
		return end + "; 1 process of it is left"
	}
	return fmt.Sprintf("%s; %d processes of it are left", end, n)
}

// reported introduces a service's report of its own failure.
const reported = ": it reported "

// explained is the reason with what the service itself reported, ERRNO= and
// EXIT_STATUS= of sd_notify(3), if that says more than its exit. Only the first report
// counts: a service that never stops reporting must not fill our memory.
func explained(reason string, errno int, status *int, x *Exit) string {
	var said []string
	if errno != 0 {
		text := fmt.Sprintf("errno %d", errno)
		if unix.ErrnoName(unix.Errno(errno)) != "" {
			text += " (" + unix.Errno(errno).Error() + ")"
		}
		said = append(said, text)
	}
	if status != nil && (x == nil || x.Signal != 0 || x.Lost || x.Code != *status) {
		said = append(said, fmt.Sprintf("exit status %d", *status))
	}
	if len(said) == 0 || strings.Contains(reason, reported) {
		return reason
	}
	return reason + reported + strings.Join(said, " and ")
}

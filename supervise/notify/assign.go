package notify

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"rlminit/internal/document"
)

// assign applies one KEY=VALUE.
func (m *Message) assign(key, value string) {
	switch key {
	case "READY":
		m.flag(&m.Ready, key, value)
	case "RELOADING":
		m.flag(&m.Reloading, key, value)
	case "STOPPING":
		m.flag(&m.Stopping, key, value)
	case "FDSTORE":
		m.flag(&m.FDStore, key, value)
	case "FDSTOREREMOVE":
		m.flag(&m.FDStoreRemove, key, value)
	case "BARRIER":
		m.flag(&m.Barrier, key, value)
	case "WATCHDOG":
		switch value {
		case "1":
			m.Watchdog = true
		case "trigger":
			m.WatchdogTrigger = true
		default:
			m.bad(key, value)
		}
	case "STATUS":
		m.status(value)
	case "FDNAME":
		if !validName(value) {
			m.bad(key, value)
			return
		}
		m.FDName = value
	case "MAINPID":
		m.number(key, value, 1, math.MaxInt32, func(n int64) { m.MainPID = int(n) })
	case "ERRNO":
		m.number(key, value, 0, math.MaxInt32, func(n int64) { v := int(n); m.Errno = &v })
	case "EXIT_STATUS":
		m.number(key, value, 0, 255, func(n int64) { v := int(n); m.ExitStatus = &v })
	case "WATCHDOG_USEC":
		m.usec(key, value, func(d time.Duration) { m.WatchdogInterval = d })
	case "EXTEND_TIMEOUT_USEC":
		m.usec(key, value, func(d time.Duration) { m.ExtendTimeout = d })
	}
}

func (m *Message) bad(key, value string) {
	m.fault("%s=%s is not understood", key, quote(value))
}

// flag sets what only 1 sets: 0 is no news, and anything else no value.
func (m *Message) flag(p *bool, key, value string) {
	switch value {
	case "1":
		*p = true
	case "0":
	default:
		m.bad(key, value)
	}
}

func (m *Message) number(key, value string, low, high int64, set func(int64)) {
	// ParseInt also takes a sign and, with base 0, underscores; these must be digits.
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < low || n > high || !digits(value) {
		m.bad(key, value)
		return
	}
	set(n)
}

// usec reads microseconds, 1 or more. What is too large for a duration (UINT64_MAX
// is systemd's "infinity") is the largest.
func (m *Message) usec(key, value string, set func(time.Duration)) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n == 0 || !digits(value) {
		m.bad(key, value)
		return
	}
	if n > math.MaxInt64/uint64(time.Microsecond) {
		set(math.MaxInt64)
		return
	}
	set(time.Duration(n) * time.Microsecond)
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// status keeps one line that is safe to print: a service shall not move the
// cursor of whoever reads its status.
func (m *Message) status(value string) {
	if !utf8.ValidString(value) {
		m.fault("STATUS is not UTF-8")
		return
	}
	value = strings.TrimSpace(document.Printable(value, ' '))
	if len(value) > maxStatus {
		value = strings.ToValidUTF8(value[:maxStatus], "")
	}
	m.Status = &value
}

// validName is fdname_is_valid of systemd: it is joined with colons into
// LISTEN_FDNAMES.
func validName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for _, c := range []byte(s) {
		if c < ' ' || c >= 127 || c == ':' {
			return false
		}
	}
	return true
}

// quote shows a little of what a service sent.
func quote(s string) string {
	const enough = 40
	if len(s) > enough {
		return strconv.QuoteToASCII(s[:enough]) + "…"
	}
	return strconv.QuoteToASCII(s)
}

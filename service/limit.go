package service

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
)

// rlimit is one limit of setrlimit(2).
type rlimit struct {
	number int
	bytes  bool // takes a size as well as a number
}

// rlimits by their names in configuration. RLIMIT_CPU is cpu_time (seconds), for
// cpu is the number of cores.
var rlimits = map[string]rlimit{
	"as":         {unix.RLIMIT_AS, true},
	"core":       {unix.RLIMIT_CORE, true},
	"cpu_time":   {unix.RLIMIT_CPU, false},
	"data":       {unix.RLIMIT_DATA, true},
	"fsize":      {unix.RLIMIT_FSIZE, true},
	"locks":      {unix.RLIMIT_LOCKS, false},
	"memlock":    {unix.RLIMIT_MEMLOCK, true},
	"msgqueue":   {unix.RLIMIT_MSGQUEUE, true},
	"nice":       {unix.RLIMIT_NICE, false},
	"nofile":     {unix.RLIMIT_NOFILE, false},
	"nproc":      {unix.RLIMIT_NPROC, false},
	"rss":        {unix.RLIMIT_RSS, true},
	"rtprio":     {unix.RLIMIT_RTPRIO, false},
	"rttime":     {unix.RLIMIT_RTTIME, false},
	"sigpending": {unix.RLIMIT_SIGPENDING, false},
	"stack":      {unix.RLIMIT_STACK, true},
}

// RlimitNames are the names that limits of setrlimit(2) have in configuration.
func RlimitNames() []string { return slices.Sorted(maps.Keys(rlimits)) }

// The errors of Lower, beside a value that makes no sense.
var (
	ErrNoLimit = errors.New("no such limit")
	ErrAbove   = errors.New("above what is allowed")
)

// Lower is l with limits as a person writes them, NAME=VALUE, in place of its own.
// None may be above l's.
func (l Limits) Lower(given map[string]string) (Limits, error) {
	next := l
	if next.Rlimits = maps.Clone(l.Rlimits); next.Rlimits == nil {
		next.Rlimits = map[int]Rlimit{}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if err := next.set(name, given[name]); err != nil {
			return l, err
		}
	}
	for _, whole := range []struct {
		name     string
		was, now float64
	}{
		{"memory", float64(l.Memory), float64(next.Memory)}, {"pids", float64(l.Pids), float64(next.Pids)}, {"cpu", l.CPU, next.CPU},
	} {
		if whole.was > 0 && whole.now > whole.was {
			return l, fmt.Errorf("the limit %s=%s is %w: the profile, or jobs.limits, has %s", whole.name, given[whole.name], ErrAbove, strconv.FormatFloat(whole.was, 'f', -1, 64))
		}
	}
	for number, was := range l.Rlimits {
		if now := next.Rlimits[number]; now.Hard > was.Hard || now.Soft > was.Hard {
			return l, fmt.Errorf("the limit %s=%s is %w: the profile, or jobs.limits, has %s", RlimitName(number), given[RlimitName(number)], ErrAbove, limitText(was.Hard))
		}
	}
	return next, nil
}

// Or is l with those of others that it does not name.
func (l Limits) Or(others Limits) Limits {
	l.Memory, l.Pids, l.CPU = cmp.Or(l.Memory, others.Memory), cmp.Or(l.Pids, others.Pids), cmp.Or(l.CPU, others.CPU)
	all := maps.Clone(others.Rlimits)
	if all == nil {
		return l
	}
	maps.Copy(all, l.Rlimits)
	l.Rlimits = all
	return l
}

// set takes one limit over what there is.
func (l *Limits) set(name, value string) error {
	bad := func(example string) error {
		return fmt.Errorf("the limit %s=%s makes no sense; write %s=%s", name, value, name, example)
	}
	switch known, ok := rlimits[name]; {
	case name == "memory":
		size, err := document.ParseSize(value)
		if err != nil || size < 1 {
			return bad("512MiB")
		}
		l.Memory = size
	case name == "pids":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1 || n > 1<<22 {
			return bad("100")
		}
		l.Pids = n
	case name == "cpu":
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || n < 0.001 || n > 1e6 {
			return bad("0.5")
		}
		l.CPU = n
	case !ok:
		names := append(RlimitNames(), "memory", "pids", "cpu")
		return fmt.Errorf("%w as %s here%s", ErrNoLimit, document.Quote(name), document.DidYouMean(name, names))
	default:
		first, second, pair := strings.Cut(value, ":")
		if !pair {
			second = first
		}
		soft, a := known.parse(first)
		hard, b := known.parse(second)
		if !a || !b || soft > hard {
			return bad(known.examples())
		}
		l.Rlimits[known.number] = Rlimit{Soft: soft, Hard: hard}
	}
	return nil
}

// RlimitName is the name of RLIMIT_number in configuration.
func RlimitName(number int) string {
	for name, l := range rlimits {
		if l.number == number {
			return name
		}
	}
	return strconv.Itoa(number)
}

// ReadLimits reads a mapping of limits over the present ones.
func ReadLimits(p *Limits) document.Setter {
	return func(n document.Node) {
		values := maps.Clone(p.Rlimits)
		if values == nil {
			values = map[int]Rlimit{}
		}
		fields := document.Fields{
			"memory": document.Size(&p.Memory, 1),
			"pids":   document.Int(&p.Pids, 1, 1<<22),
			"cpu":    document.Float(&p.CPU, 0.001, 1e6),
		}
		for name, l := range rlimits {
			fields[name] = func(n document.Node) {
				if v, ok := l.read(n); ok {
					values[l.number] = v
				}
			}
		}
		fields.Read(n)
		if len(values) > 0 {
			p.Rlimits = values
		}
	}
}

// read takes N, unlimited, "N:M" or {soft: N, hard: M}.
func (l rlimit) read(n document.Node) (v Rlimit, ok bool) {
	if n.IsMapping() {
		var soft, hard bool
		document.Fields{
			"soft": func(n document.Node) { v.Soft, soft = l.text(n) },
			"hard": func(n document.Node) { v.Hard, hard = l.text(n) },
		}.Read(n)
		if n.Get("soft").Absent() || n.Get("hard").Absent() {
			n.Fault("needs both; write {soft: 1024, hard: 4096}, or one number for both")
			return v, false
		}
		if !soft || !hard {
			return v, false
		}
	} else {
		s, good := n.Text()
		if !good {
			return v, false
		}
		first, second, pair := strings.Cut(s, ":")
		if !pair {
			second = first
		}
		var a, b bool
		v.Soft, a = l.parse(strings.TrimSpace(first))
		v.Hard, b = l.parse(strings.TrimSpace(second))
		if !a || !b {
			n.Fault(`%s is no limit; write %s`, document.Quote(s), l.examples())
			return v, false
		}
	}
	if v.Soft > v.Hard {
		n.Fault("soft (%s) is above hard (%s); write soft first, and not above hard", limitText(v.Soft), limitText(v.Hard))
		return v, false
	}
	return v, true
}

func (l rlimit) examples() string {
	if l.bytes {
		return `64MiB, "soft:hard" or unlimited`
	}
	return `1024, "soft:hard" or unlimited`
}

func (l rlimit) text(n document.Node) (uint64, bool) {
	s, ok := n.Text()
	if !ok {
		return 0, false
	}
	v, ok := l.parse(s)
	if !ok {
		n.Fault("%s is no limit; write a number or unlimited", document.Quote(s))
	}
	return v, ok
}

func (l rlimit) parse(s string) (uint64, bool) {
	if s == "unlimited" || s == "infinity" {
		return Unlimited, true
	}
	if v, err := strconv.ParseUint(s, 10, 64); err == nil {
		return v, true
	}
	if !l.bytes {
		return 0, false
	}
	size, err := document.ParseSize(s)
	return uint64(size), err == nil
}

func limitText(v uint64) string {
	if v == Unlimited {
		return "unlimited"
	}
	return strconv.FormatUint(v, 10)
}

// sandbox reads a mapping over the present value.
func sandbox(p *Sandbox) document.Setter {
	return document.Fields{
		"capabilities": Capabilities(&p.Capabilities),
		"no_new_privs": document.Bool(&p.NoNewPrivs),
	}.Read
}

// capabilities by their numbers, capabilities(7).
var capabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN",
	"CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE",
	"CAP_SYS_PACCT", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE", "CAP_SYS_TIME",
	"CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL", "CAP_SETFCAP",
	"CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ",
	"CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
}

// CapabilityNumber is the number of a capability of Sandbox.Capabilities.
func CapabilityNumber(name string) (uint32, bool) {
	i := slices.Index(capabilities, name)
	return uint32(max(i, 0)), i >= 0
}

// Capabilities reads a list of names, with or without CAP_, in any case, and
// sorts it.
func Capabilities(p *[]string) document.Setter {
	return func(n document.Node) {
		items, ok := n.Items()
		var list []string
		for _, item := range items {
			s, good := item.Text()
			if !good {
				ok = false
				continue
			}
			name := "CAP_" + strings.TrimPrefix(strings.ToUpper(s), "CAP_")
			if _, known := CapabilityNumber(name); !known {
				item.Fault("%s is no capability%s", document.Quote(s), document.DidYouMean(name, capabilities))
				ok = false
			} else if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
		if ok {
			slices.Sort(list)
			*p = list
		}
	}
}

func umask(p *uint32) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		mask, err := strconv.ParseUint(strings.TrimPrefix(s, "0o"), 8, 32)
		if err != nil || mask > 0o777 {
			n.Fault(`%s is no umask; write octal digits such as "022"`, document.Quote(s))
			return
		}
		*p = uint32(mask)
	}
}

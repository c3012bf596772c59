package service

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
)

// restart reads a word, or a mapping over the present value.
func restart(p *Restart) document.Setter {
	return func(n document.Node) {
		policy := document.OneOf(&p.Policy, RestartAlways, RestartOnFailure, RestartNo)
		if !n.IsMapping() {
			policy(n)
			return
		}
		document.Fields{
			"policy":       policy,
			"delay":        document.Duration(&p.Delay, 0),
			"factor":       document.Float(&p.Factor, 1, 100),
			"max_delay":    document.Duration(&p.MaxDelay, 0),
			"jitter":       document.Float(&p.Jitter, 0, 1),
			"reset_after":  document.Duration(&p.ResetAfter, 0),
			"limit":        document.Int(&p.Limit, 0, 1_000_000),
			"window":       document.Duration(&p.Window, time.Millisecond),
			"retry_failed": document.Duration(&p.RetryFailed, 0),
		}.Read(n)
		if p.MaxDelay < p.Delay {
			if n.Get("max_delay").Absent() {
				p.MaxDelay = p.Delay
			} else {
				n.Fault("max_delay (%v) is below delay (%v); write %v or more", p.MaxDelay, p.Delay, p.Delay)
			}
		}
		if p.Delay == 0 && p.Limit == 0 && p.Policy != RestartNo {
			n.Fault("without a delay or a limit the service would restart without a pause; write a delay of 100ms or so, or a limit")
		}
	}
}

// exits reads classes of exit codes. A code that is named in one class leaves
// the default of another.
func exits(p *Exits) document.Setter {
	return func(n document.Node) {
		classes := map[string]*[]int{"success": &p.Success, "fatal": &p.Fatal, "restart": &p.Restart}
		named := map[int]string{}
		given := map[string]bool{}
		fields := document.Fields{}
		for class, codes := range classes {
			fields[class] = func(n document.Node) {
				given[class] = true
				items, ok := n.Items()
				var list []int
				for _, item := range items {
					code := -1
					document.Int(&code, 0, 255)(item)
					other, twice := named[code]
					switch {
					case code < 0:
						ok = false
					case twice && other != class:
						item.Fault("%d is in %s too; leave it in one", code, other)
						ok = false
					case !twice:
						named[code] = class
						list = append(list, code)
					}
				}
				if ok {
					slices.Sort(list)
					*codes = list
				}
			}
		}
		fields.Read(n)
		for class, codes := range classes {
			if !given[class] {
				kept := slices.DeleteFunc(slices.Clone(*codes), func(c int) bool { return named[c] != "" })
				*codes = nilIfEmpty(kept)
			}
		}
	}
}

func nilIfEmpty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// stop reads a mapping over the present value.
func stop(p *Stop) document.Setter {
	return document.Fields{
		"signal":  stopSignal(&p.Signal),
		"timeout": document.Duration(&p.Timeout, time.Millisecond),
		"kill":    document.OneOf(&p.Kill, KillGroup, KillMain),
	}.Read
}

func stopSignal(p *unix.Signal) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		signal, ok := ParseSignal(s)
		switch {
		case !ok:
			n.Fault("%s is no signal; write TERM, INT, QUIT or a number from 1 to 64", document.Quote(s))
		case signal == unix.SIGSTOP || signal == unix.SIGCONT:
			n.Fault("%s ends no process; write TERM, INT or QUIT", document.Quote(s))
		default:
			*p = signal
		}
	}
}

// Real-time signals as glibc counts them: it keeps 32 and 33 for itself,
// signal(7).
const (
	firstRealTime = 34
	lastRealTime  = 64
)

// ParseSignal reads TERM, SIGTERM, 15, RTMIN+1 or RTMAX-1, in any case.
func ParseSignal(s string) (unix.Signal, bool) {
	if i, err := strconv.Atoi(s); err == nil {
		return unix.Signal(i), 1 <= i && i <= lastRealTime
	}
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG")
	if signal := unix.SignalNum(name); signal != 0 {
		return signal, true
	}
	for prefix, base := range map[string]int{"SIGRTMIN": firstRealTime, "SIGRTMAX": lastRealTime} {
		rest, found := strings.CutPrefix(name, prefix)
		if !found {
			continue
		}
		offset, err := 0, error(nil)
		if rest != "" {
			offset, err = strconv.Atoi(rest)
		}
		i := base + offset
		if err == nil && (rest == "" || rest[0] == '+' || rest[0] == '-') && firstRealTime <= i && i <= lastRealTime {
			return unix.Signal(i), true
		}
	}
	return 0, false
}

// SignalName is TERM for SIGTERM, and the number where there is no name.
func SignalName(s unix.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return strconv.Itoa(int(s))
}

// Deadline is the condition of a service's run: "" none.
type Deadline string

// DeadlineRequired is of a service that runs only under a fence and a deadline, which a
// start brings.
const DeadlineRequired Deadline = "required"

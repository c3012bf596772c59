package config

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
	"rlminit/service"
	"rlminit/wire"
)

// MostVerbose is the highest value of verbose.
const MostVerbose = 3

// parentDeath reads a signal.
func parentDeath(p *unix.Signal) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		if signal, ok := service.ParseSignal(s); ok {
			*p = signal
		} else {
			n.Fault("%s is no signal; write TERM or KILL, say", document.Quote(s))
		}
	}
}

// initOverrides puts flags and variables over the file's settings of how init
// behaves: the abilities that it has without a configuration too.
func (p *parser) initOverrides() {
	c := p.config
	if v, called, ok := p.setting("parent_death"); ok {
		if signal, ok := service.ParseSignal(v); ok {
			c.ParentDeath = signal
		} else {
			p.fault(called, "%s is no signal; write TERM or KILL, say", document.Quote(v))
		}
	}
	if v, called, ok := p.setting("verbose"); ok {
		if level, err := strconv.Atoi(v); err == nil && 0 <= level && level <= MostVerbose {
			c.Verbose = level
		} else {
			p.fault(called, "%s is refused; write a whole number from 0 to %d", document.Quote(v), MostVerbose)
		}
	}
	if v, called, ok := p.setting("success"); ok {
		codes := []int{0}
		for _, word := range strings.Split(v, ",") {
			code, err := strconv.ParseUint(word, 10, 8)
			if err != nil {
				p.fault(called, "%s is no exit code; write 0 to 255", document.Quote(word))
				return
			}
			codes = append(codes, int(code))
		}
		c.Main.succeedWith(codes)
	}
}

// succeedWith makes these the exit codes of success: none of them means anything
// else any more.
func (m *Main) succeedWith(codes []int) {
	slices.Sort(codes)
	m.Exits.Success = slices.Compact(codes)
	other := func(code int) bool { return slices.Contains(codes, code) }
	m.Exits.Fatal = slices.DeleteFunc(slices.Clone(m.Exits.Fatal), other)
	m.Exits.Restart = slices.DeleteFunc(slices.Clone(m.Exits.Restart), other)
}

// initOptions are the same in the policy. The exit codes of a main command that
// is a service are for tier 2 to judge.
func (k *compiler) initOptions(p *wire.Policy) {
	c := k.config
	p.SignalGroup = c.Main.SignalGroup
	p.ParentDeath = int32(c.ParentDeath)
	p.WarnOnReap, p.Verbosity = c.WarnOnReap, int32(c.Verbose)
	for _, code := range c.Main.Exits.Success {
		p.Success = append(p.Success, uint32(code))
	}
}

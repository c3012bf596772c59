package move

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"rlminit/config"
	"rlminit/internal/document"
)

// A plan is mended in rounds, each of which takes out at least one thing; in one, up to a
// hundred faults are found. After patience of them, whole services are taken out: nobody
// mends a source with thousands of faults by the lines about them.
const (
	maxRounds = 200
	patience  = 30
)

// Settle writes the plan as an rlminit.yaml in which `rlminit check` finds no fault. What
// would be one is taken out, and named as left out. An error means that there is nothing
// to write.
func (p *Plan) Settle() ([]byte, error) {
	if len(p.Services)+len(p.Boot) == 0 {
		return nil, fmt.Errorf("cannot import: there is no service in it%s", p.first())
	}
	for round := range maxRounds {
		text, err := p.text()
		if err != nil {
			return nil, fmt.Errorf("cannot import: cannot write the result as YAML: %w", err)
		}
		if len(text) > document.MaxSize {
			return nil, fmt.Errorf("cannot import: the result has %d bytes, and an rlminit.yaml may have %d; import the source in parts", len(text), document.MaxSize)
		}
		_, faults := config.Parse(config.Bundle{Path: "/etc/rlminit/rlminit.yaml", Files: []config.File{{Name: "rlminit.yaml", Data: text}}}, nil)
		if len(faults) == 0 {
			if len(p.Services)+len(p.Boot) == 0 {
				return nil, fmt.Errorf("cannot import: nothing of it can be taken over%s", p.first())
			}
			return text, nil
		}
		dropped := false
		p.gone = map[string]bool{}
		for _, f := range faults {
			dropped = p.dropFault(f, text, round > patience) || dropped
		}
		if !dropped {
			return nil, fmt.Errorf("cannot import: what came of it is not valid (%w); import it without that", faults[0])
		}
	}
	return nil, fmt.Errorf("cannot import: the source has more faults than import can name; import it in parts")
}

// first is the first thing that was left out, for an error that is to say why there is
// nothing else.
func (p *Plan) first() string {
	left := p.Left()
	if len(left) == 0 {
		return ""
	}
	for _, l := range left {
		if strings.Contains(l.Why, "it is left out") {
			return ": " + l.String()
		}
	}
	return ": " + left[0].String()
}

var (
	ofService = regexp.MustCompile(`^(services|gateways)\.([^.\[]+)(?:\.([^.\[]+))?(?:\.(.+))?`)
	ofBoot    = regexp.MustCompile(`^boot\[(\d+)\](?:\.([^.\[]+))?`)
)

// dropFault takes out what a fault is about, and tells whether it found that.
// With whole, that is the service.
func (p *Plan) dropFault(f config.Fault, text []byte, whole bool) bool {
	field := f.Field
	if field == "" {
		field = p.fieldAt(text, f.Line)
	}
	if m := ofService.FindStringSubmatch(field); m != nil {
		for _, s := range p.Services {
			if s.Name == m[2] && s.Kind == (m[1] == "gateways") {
				if whole {
					m[3] = ""
				}
				return p.dropOf(s, m[3], m[4], f.Text)
			}
		}
		return false
	}
	if m := ofBoot.FindStringSubmatch(field); m != nil {
		i, err := strconv.Atoi(m[1])
		return err == nil && i < len(p.Boot) && p.dropOf(p.Boot[i], m[2], "", f.Text)
	}
	key, _, _ := strings.Cut(field, ".")
	key, _, _ = strings.Cut(key, "[")
	switch {
	case key == "user" && p.User != "":
		p.Leave(At{File: p.From}, nil, Invalid, "user "+Short(p.User), f.Text)
		p.User = ""
		return true
	case p.Top.Drop(key):
		p.Leave(At{File: p.From}, nil, Invalid, key, f.Text)
		return true
	}
	return false
}

// dropOf takes a key out of a service, or, without one or without its command, the service.
func (p *Plan) dropOf(s *Service, key, below, why string) bool {
	what := fmt.Sprint(s.Name, s.Kind, key)
	if p.gone[what] { // a second fault of what this round has taken out
		return true
	}
	switch {
	case key == "" || key == "command" || key == "name":
		p.Leave(s.At, s, Invalid, s.Source, "it is left out: its "+orCommand(key)+" "+why)
		p.Remove(s)
		return true
	case key == "environment" && below != "" && s.Keys.Has(key):
		name, _, _ := strings.Cut(below, "[")
		if s.Keys.Sub(key).Drop(name) {
			p.Leave(s.At, s, Invalid, "environment "+name, why)
			return true
		}
	}
	p.gone[what] = true
	switch key {
	case "requires":
		s.Requires = nil
	case "wants":
		s.Wants = nil
	case "after":
		s.After = nil
	}
	if !s.Keys.Drop(key) && key != "requires" && key != "wants" && key != "after" {
		p.Leave(s.At, s, Invalid, s.Source, "it is left out: "+key+" "+why)
		p.Remove(s)
		return true
	}
	p.Leave(s.At, s, Invalid, key, why)
	return true
}

func orCommand(key string) string {
	if key == "" {
		return "definition"
	}
	return key
}

// fieldAt is the service on whose lines a fault stands that names no field.
func (p *Plan) fieldAt(text []byte, line int) (field string) {
	section := ""
	for i, l := range bytes.Split(text, []byte{'\n'}) {
		if i >= line {
			break
		}
		trimmed := strings.TrimSpace(string(l))
		switch indent := len(l) - len(strings.TrimLeft(string(l), " ")); {
		case indent == 0 && strings.HasSuffix(trimmed, ":"):
			section, field = strings.TrimSuffix(trimmed, ":"), ""
		case indent == 2 && strings.HasSuffix(trimmed, ":") && (section == "services" || section == "gateways"):
			field = section + "." + strings.Trim(strings.TrimSuffix(trimmed, ":"), `"'`)
		}
	}
	return field
}

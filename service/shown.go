package service

import (
	"maps"
	"slices"

	"rlminit/internal/redact"
)

// Shown is a definition as it may be shown to anybody who may look: another one, without
// passwords, tokens and the secrets of a set in commands, variables and probes.
func (d *Definition) Shown(secrets redact.Set) *Definition {
	shown := new(*d)
	shown.Command = secrets.Command(d.Command)
	shown.Log.Redact = slices.Clone(d.Log.Redact)
	for i, pattern := range shown.Log.Redact {
		shown.Log.Redact[i] = secrets.Text(redact.Pattern(pattern))
	}
	shown.Environment = maps.Clone(d.Environment)
	for name, v := range shown.Environment {
		if v.File == "" {
			v.Text = secrets.Value(name, v.Text)
			shown.Environment[name] = v
		}
	}
	shown.Schedules = maps.Clone(d.Schedules)
	for name, r := range shown.Schedules {
		r.Command = secrets.Command(r.Command)
		shown.Schedules[name] = r
	}
	if d.Ready != nil {
		shown.Ready = new(d.Ready.shown(secrets))
	}
	if d.Health != nil {
		shown.Health = new(*d.Health)
		shown.Health.Probe = d.Health.shown(secrets)
	}
	return shown
}

func (p Probe) shown(secrets redact.Set) Probe {
	p.Exec, p.HTTP = secrets.Command(p.Exec), secrets.Value("", p.HTTP)
	return p
}

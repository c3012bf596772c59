package profiles

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"rlminit/config"
	"rlminit/internal/document"
	"rlminit/service"
)

// SettingsOf are a configuration's settings for profiles. Without a gateway
// section there are none.
func SettingsOf(c *config.Config) Settings {
	services := slices.Sorted(maps.Keys(c.Services))
	g := c.Gateway
	if g == nil {
		return Settings{Services: services}
	}
	kinds := map[string]Beginning{}
	for name, k := range g.Kinds {
		r := g.PortsOf(k)
		kinds[name] = Beginning{Template: k.Template, InitialState: k.InitialState, Range: PortRange{First: r.Low, Last: r.High}}
	}
	first := Beginning{InitialState: service.Running}
	if k := g.Kinds[""]; k != nil {
		first = kinds[""]
		delete(kinds, "")
	}
	return Settings{
		Marker: g.Marker, Beginning: first, Kinds: kinds,
		StateFile: g.StateFile, ImportState: g.ImportState,
		RemoveAtBoot: g.RemoveAtBoot,
		Ports:        PortRange{First: g.Ports.Low, Last: g.Ports.High},
		Held:         held(c),
		Default:      g.HasDefault,
		Services:     services,
	}
}

// held are the ports that a configuration gives to others than profiles.
func held(c *config.Config) map[int]string {
	all := map[int]string{}
	take := func(s service.Socket, whose string) {
		if _, port, err := net.SplitHostPort(s.Address); err == nil && strings.HasPrefix(s.Network, "tcp") {
			if n, err := strconv.Atoi(port); err == nil {
				all[n] = whose
			}
		}
	}
	take(c.Metrics, "metrics.listen")
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		for _, s := range c.Services[name].Sockets {
			take(s, "service "+document.Quote(name))
		}
	}
	if c.Page != nil { // after the services: the page is one, with a socket of that address
		take(service.Socket{Network: "tcp", Address: c.Page.Listen}, "page.listen")
	}
	return all
}

// Definition is how the profile's gateway is run: the template of the
// configuration, with the changes of its profile.yaml. The error is a fault
// of this profile alone; Reason makes one line of it.
func (p Profile) Definition(c *config.Config) (*service.Definition, error) {
	return p.DefinitionAt(c, p.Dir)
}

// DefinitionAt is Definition where the profile's directory lies somewhere else when it runs
// than where it was read.
func (p Profile) DefinitionAt(c *config.Config, dir string) (*service.Definition, error) {
	if p.Fault != nil {
		return nil, p.Fault
	}
	c = c.For(p.Service())
	if c.Gateway == nil {
		return nil, fmt.Errorf("the configuration that was reloaded for %s has no gateway section", p.Name)
	}
	of := config.Profile{Name: p.Name, Dir: dir, Port: p.Port}
	d, faults := c.ProfileDefinition(of, p.overridesPath(), p.overrides)
	d.SecretsVersion = p.Secrets
	settings := SettingsOf(c)
	if r := settings.beginning(p.Kind()).Range; len(faults) > 0 && p.Port == 0 && r.Size() > 0 {
		// Is a port all that is missing?
		of.Port = r.First
		if _, others := c.ProfileDefinition(of, p.overridesPath(), p.overrides); len(others) == 0 {
			return d, errors.New(fullRange(p.Name, p.Kind(), r))
		}
	}
	return d, faults.Err()
}

// Kind is the kind that the profile's own file names; "": the default.
func (p Profile) Kind() string { return config.KindIn(p.overrides) }

func (p Profile) overridesPath() string { return p.Dir + "/" + overridesFile }

// Reason is an error as one line, for a profile that is failed because of it.
func Reason(err error) string {
	var faults document.Faults
	if errors.As(err, &faults) && len(faults) > 1 {
		return fmt.Sprintf("%v (and %d more)", faults[0], len(faults)-1)
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// Environment are the profile's own variables, for people to look at. A value
// that depends on other variables, or that comes from a file, is as written.
func (p Profile) Environment() map[string]string {
	env := map[string]string{}
	if p.Fault != nil {
		return env
	}
	doc, _ := document.Parse(p.overridesPath(), p.overrides)
	top, _ := doc.Read(nil)
	top.Get("environment").Each(func(key, value document.Node) {
		text := value.Raw()
		if file := value.Get("file"); value.IsMapping() && !file.Absent() {
			text = "{file: " + file.Raw() + "}"
		}
		if plain, depends := unescape(text); !depends {
			text = plain
		}
		env[key.Key()] = text
	})
	return env
}

// unescape undoes document.Escape, unless the text depends on variables.
func unescape(text string) (plain string, depends bool) {
	plain, err := document.Expand(text, func(string) (string, bool) {
		depends = true
		return "", false
	})
	return plain, depends || err != nil
}

package settings

import (
	"cmp"
	"fmt"
	"reflect"

	"rlminit/config"
)

// when is when a change of a part of the configuration counts.
type when int

const (
	container when = iota // in a new container: PID 1 was given it, or it is for what comes before all else
	atOnce                // with the reload
	nextStart             // of each service, from its next start on
	told                  // with the reload, which names the services that it changes
	never                 // it has one value alone
)

// part is a part of the configuration. What differs in it is told of each reload.
type part struct {
	key  string // of rlminit.yaml, at the top
	name string // what a person is told; "": the key
	when when
	of   func(*Settings, *config.Config) any // what is compared; nil: of what is told, or never
}

// parts is when a change of each key counts. Each key of rlminit.yaml is in it, and
// each field of Config is looked at by a part.
var parts = []part{
	{key: "version", when: never},
	{key: "user", when: container, of: func(_ *Settings, c *config.Config) any { return c.User }},
	{key: "supervisor_user", when: container, of: func(_ *Settings, c *config.Config) any { return c.Supervisor }},
	{key: "home", when: container, of: func(_ *Settings, c *config.Config) any { return c.Home }},
	{key: "stop_timeout", when: container, of: func(_ *Settings, c *config.Config) any { return c.StopTimeout }},
	{key: "tags", when: container, of: func(_ *Settings, c *config.Config) any { return c.Tags }},
	{key: "profile_users", when: container, of: func(_ *Settings, c *config.Config) any { return c.ProfileUsers }},
	{key: "groups_of", when: container, of: func(_ *Settings, c *config.Config) any { return list(c.GroupsOf) }},
	{key: "gateway", name: "user or groups of gateway", when: container, of: func(_ *Settings, c *config.Config) any { return gatewayUsers(c) }},
	{key: "strict", when: container, of: func(_ *Settings, c *config.Config) any { return c.Strict }},
	{key: "parent_death", when: container, of: func(_ *Settings, c *config.Config) any { return c.ParentDeath }},
	{key: "warn_on_reap", when: container, of: func(_ *Settings, c *config.Config) any { return c.WarnOnReap }},
	{key: "verbose", when: container, of: func(_ *Settings, c *config.Config) any { return c.Verbose }},
	{key: "metrics", when: container, of: func(_ *Settings, c *config.Config) any { return c.Metrics }},
	{key: "remap", when: container, of: func(_ *Settings, c *config.Config) any { return [2]uint32{c.UID, c.GID} }},
	{key: "own", when: container, of: func(_ *Settings, c *config.Config) any { return list(c.Own) }},
	{key: "dirs", when: container, of: func(_ *Settings, c *config.Config) any { return list(c.Dirs) }},
	{key: "seed", when: container, of: func(_ *Settings, c *config.Config) any { return list(c.Seed) }},
	{key: "boot", when: container, of: func(_ *Settings, c *config.Config) any { return list(c.Boot) }},
	{key: "main", when: container, of: func(_ *Settings, c *config.Config) any { return c.Main }},
	{key: "page", name: "page.user", when: container, of: func(s *Settings, c *config.Config) any { return c.Page.UID() }},
	{key: "services", name: "privileged services", when: container, of: func(s *Settings, c *config.Config) any { return s.privileges(c) }},

	{key: "access", when: atOnce, of: func(_ *Settings, c *config.Config) any { return c.ReadAll }},
	{key: "apply", when: atOnce, of: func(_ *Settings, c *config.Config) any { return c.Apply }}, // none is everybody, an empty one nobody
	{key: "jobs", when: atOnce, of: func(_ *Settings, c *config.Config) any { return c.Jobs }},
	{key: "hooks", when: atOnce, of: func(_ *Settings, c *config.Config) any { return list(c.Hooks) }},
	{key: "gateway", when: atOnce, of: func(_ *Settings, c *config.Config) any { return c.Gateway.Says(c) }},
	{key: "gateways", when: atOnce, of: func(_ *Settings, c *config.Config) any { return c.Gateway.KindsSay(c) }},

	{key: "environment", when: nextStart, of: func(_ *Settings, c *config.Config) any { return pairs(c.Environment) }},
	{key: "env_file", when: nextStart, of: func(_ *Settings, c *config.Config) any { return list(c.EnvFile) }},
	{key: "inherit_env", when: nextStart, of: func(_ *Settings, c *config.Config) any { return list(c.InheritEnv) }},

	{key: "fleet", when: told}, // of its service
	{key: "services", when: told},
}

// list is one that compares equal to every other that is empty.
func list[T any](of []T) []T {
	if len(of) == 0 {
		return nil
	}
	return of
}

// pairs is list of a mapping.
func pairs[V any](of map[string]V) map[string]V {
	if len(of) == 0 {
		return nil
	}
	return of
}

// changed names the parts that count at some time and differ.
func (s *Settings) changed(at when, old, next *config.Config, what string) []string {
	notes := []string{}
	for _, p := range parts {
		if p.when == at && p.of != nil && !reflect.DeepEqual(p.of(s, old), p.of(s, next)) {
			notes = append(notes, fmt.Sprintf("%s changed: %s", cmp.Or(p.name, p.key), what))
		}
	}
	return notes
}

// atNextStart says which changes are in force for some services, though what
// runs was started without them.
func (s *Settings) atNextStart(old, next *config.Config, whose, restart string) []string {
	return s.changed(nextStart, old, next, fmt.Sprintf("%s has it from its next start on (rlminit restart %s)", whose, restart))
}

// gatewayUsers is what a configuration says of who profiles are.
func gatewayUsers(c *config.Config) []string {
	if c.Gateway == nil || !c.Gateway.OwnUsers() {
		return nil
	}
	return append([]string{"auto"}, c.Gateway.Groups...)
}

// Package settings is the configuration: the one that the container was started
// with, the one that is in force, and what of a newer one can come into force
// here. A newer one is looked at without being in force for anybody.
package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/handover"
	"rlminit/wire"
)

// Settings is the configuration of this container. Anybody may ask for it; one
// at a time, the registrar, looks for a newer one and brings it into force.
type Settings struct {
	table   *handover.Table // what a successor is to know
	policy  *wire.Policy
	runtime string // the runtime directory

	Used func() // told that another one is in force; nil: nobody is

	current atomic.Pointer[config.Config]
	first   *config.Config // as this container was started: what no reload changes
	start   config.Bundle  // that first was made of
}

// configurationKey is that of the configuration in force in what a successor is to know,
// where it is not the one that the container was started with; bundleMax bounds one, in
// bytes.
const (
	configurationKey = "configuration"
	bundleMax        = 128 << 20
)

// Open reads the configuration that this container was started with, which the
// sealed memfd fd holds, and brings into force that one or the one that was last
// reloaded.
func Open(fd int, table *handover.Table, policy *wire.Policy, runtime string) (*Settings, error) {
	s := &Settings{table: table, policy: policy, runtime: runtime}
	raw, err := wire.ReadSealed(fd, bundleMax)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	bundle, err := readBundle(raw)
	if err != nil {
		return nil, err
	}
	first, faults := config.Parse(bundle, os.LookupEnv)
	if len(faults) > 0 {
		return nil, faults.Err()
	}
	s.first, s.start = first, bundle
	current := new(*first) // thousands of services are kept once, as long as nothing is reloaded
	current.Carry(bundle.Run)
	if newer := table.Get(configurationKey); newer != nil {
		if bundle, err = readBundle(newer); err != nil {
			return nil, err
		}
		if current, err = s.inForce(bundle); err != nil {
			return nil, err
		}
	}
	s.current.Store(current)
	return s, nil
}

// Fixed is a configuration that is in force and never another.
func Fixed(c *config.Config, policy *wire.Policy) *Settings {
	s := &Settings{policy: policy, first: c}
	s.current.Store(c)
	return s
}

func readBundle(raw []byte) (config.Bundle, error) {
	bundle, err := config.DecodeBundle(raw)
	if err != nil {
		return config.Bundle{}, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return bundle, nil
}

// Current is the configuration in force.
func (s *Settings) Current() *config.Config { return s.current.Load() }

// Started is the configuration that this container was started with, and what it
// was made of: a reload keeps its flags and arguments.
func (s *Settings) Started() (*config.Config, config.Bundle) { return s.first, s.start }

// Next is a configuration that is not in force yet.
type Next struct {
	*config.Config
	Container []string // what of it needs a new container
	AtOnce    []string // what of it counts at once, and is of no service
	Later     []string // what of it counts from a next start on

	encoded []byte // for a successor
}

// Notes are what of it is to be known beside what becomes of services.
func (n *Next) Notes() []string { return slices.Concat(n.Container, n.AtOnce, n.Later) }

// LookAt is Look where the text of another file is in the place of the
// configuration's own.
func (s *Settings) LookAt(file string, text []byte) (*Next, error) {
	return s.look(nil, func(b *config.Bundle) { b.Files[0] = config.File{Name: file, Data: text} })
}

// Look reads the configuration's files again. Of a reload of some services alone,
// all others keep what they have, with a successor too. Nothing is in force by
// this.
func (s *Settings) Look(services []string) (*Next, error) {
	return s.look(services, func(*config.Bundle) {})
}

func (s *Settings) look(services []string, change func(*config.Bundle)) (*Next, error) {
	old := s.Current()
	bundle, err := config.ReadBundle(old.Path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, control.Failed("%v; a reload reads it as the service user: make it readable for all, or start the container again", err)
	}
	if err != nil {
		return nil, control.Failed("%v", err)
	}
	change(&bundle)
	bundle.Flags, bundle.Args, bundle.Run = s.start.Flags, s.start.Args, s.start.Run
	c, notes, err := s.understand(bundle)
	if err != nil {
		return nil, control.Failed("%v", err)
	}
	if services != nil {
		c = old.With(services, c)
	}
	next := &Next{Config: c, Container: notes, encoded: c.Bundle().Encode()}
	if len(next.encoded) > bundleMax {
		return nil, control.Failed("the configurations of services that were reloaded one by one take too much memory; reload all of them")
	}
	next.AtOnce = s.changed(atOnce, old, c, "that counts at once")
	next.Later = append(next.Later, s.atNextStart(old, c, "each service", "--all")...)
	for _, name := range services {
		next.Later = append(next.Later, s.atNextStart(old.For(name), c.For(name), name, name)...)
	}
	return next, nil
}

// Use brings a configuration into force. The error says why a successor would not know.
func (s *Settings) Use(next *Next) error {
	s.current.Store(next.Config)
	if s.Used != nil {
		s.Used()
	}
	return s.table.Put(configurationKey, next.encoded)
}

// inForce is the configuration that a predecessor's bundle, with those in it that count
// for some services, brings into force.
func (s *Settings) inForce(bundle config.Bundle) (*config.Config, error) {
	c, _, err := s.understand(bundle)
	if err != nil {
		return nil, err
	}
	for _, own := range bundle.Own {
		other, _, err := s.understand(own.Bundle)
		if err != nil {
			return nil, err
		}
		c = c.With(own.Names, other)
	}
	return c, nil
}

// understand reads a bundle as it holds in this container: what needs a new one
// is as the container was started with, and named in notes where it has changed.
func (s *Settings) understand(b config.Bundle) (c *config.Config, notes []string, err error) {
	c, faults := config.Parse(b, os.LookupEnv)
	if len(faults) > 0 {
		return nil, nil, faults.Err()
	}
	first := s.first
	notes = s.changed(container, first, c, "that needs a new container (docker restart)")
	if c.Home != first.Home || c.User != first.User {
		// All that names the volume, or the user, is to name these.
		b.Flags = maps.Clone(b.Flags)
		if b.Flags == nil {
			b.Flags = map[string]string{}
		}
		b.Flags["home"] = first.Home
		if first.User != "" {
			b.Flags["user"] = first.User
		}
		if c, faults = config.Parse(b, os.LookupEnv); len(faults) > 0 {
			return nil, nil, faults.Err()
		}
	}
	c.Main, c.StopTimeout, c.Tags = first.Main, first.StopTimeout, first.Tags
	held := s.privileges(first)
	for name, d := range held {
		if _, there := c.Services[name]; there {
			c.Services[name] = d
		}
	}
	for name := range s.privileges(c) {
		if _, there := held[name]; there {
			continue
		}
		// Tier 1 would not give it what it asks for.
		if d, there := first.Services[name]; there {
			c.Services[name] = d
		} else {
			delete(c.Services, name)
		}
	}
	c.Carry(b.Run)
	return c, notes, nil
}

// Replaceable says why another file cannot take the place of the configuration's:
// that takes a PID 1 which is root, and one that is not mounted from outside.
func (s *Settings) Replaceable() error {
	var directory unix.Stat_t
	if err := unix.Stat(s.runtime, &directory); err != nil || directory.Uid != 0 {
		return errors.New("the container is not root's, and so PID 1 cannot put a configuration in place")
	}
	return config.Replaceable(s.Current().Path)
}

// Origins are the files that a definition in force was read from; none where it is not
// what they said.
func (s *Settings) Origins(d *service.Definition) []config.Origin {
	c := s.Current().For(d.Name)
	if d.Name == config.MainService || config.Privileged(d) {
		c = s.first // see understand
	}
	if read, there := c.Services[d.Name]; !there || !slices.Equal(service.Flatten(read), service.Flatten(d)) {
		return nil
	}
	return c.Bundle().Origins(d.Name)
}

// privileges are the definitions that are tier 1's to hold. One that is not root,
// as its directory shows, has no privilege to give, and runs them like any other.
func (s *Settings) privileges(c *config.Config) map[string]*service.Definition {
	held := map[string]*service.Definition{}
	var directory unix.Stat_t
	if err := unix.Stat(s.runtime, &directory); err != nil || directory.Uid != 0 {
		return held
	}
	for name, d := range c.Services {
		if config.Privileged(d) {
			held[name] = d
		}
	}
	return held
}

// Holds tells whether tier 1 holds a definition of that name.
func (s *Settings) Holds(name string) bool {
	return slices.ContainsFunc(s.policy.Privileged, func(p wire.Program) bool { return p.Name == name })
}

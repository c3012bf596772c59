package supervise

import (
	"path/filepath"
	"slices"
	"time"

	"rlminit/config"
	"rlminit/internal/redact"
	"rlminit/profiles"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/open"
	"rlminit/supervise/process"
	"rlminit/supervise/settings"
	"rlminit/supervise/slots"
	"rlminit/supervise/spawn"
	"rlminit/supervise/volume"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// preparer makes ready what processes are started with. It looks at files and at
// the volume, which may not answer, and so is called beside the loop; nothing of
// it changes but the configuration in force.
type preparer struct {
	policy    *wire.Policy
	settings  *settings.Settings
	container []string  // the container's environment
	runtime   string    // the runtime directory
	slots     slots.Dir // the service directory in it
	volume    *volume.Volume
	null      int // what a process has as stdin
	walls     func() *walls.Place
	user      *rights.User // touches the files of policy.User, and of others; nil: that is ourselves
	files     *userFiles   // starts what does; nil where user is
}

// config is the configuration in force.
func (p *preparer) config() *config.Config { return p.settings.Current() }

// filesAnswer tells whether the process that touches files lives: it is a file system
// that does not answer then, and not that.
func (p *preparer) filesAnswer() bool { return p.user.Answers(filesAnswerWithin) }

// filesAnswerWithin is how long that process may take to say that it lives.
const filesAnswerWithin = time.Second

// privileged tells whether tier 1 holds u's definition by name.
func (p *preparer) privileged(u *unit) bool { return u.recorded && p.settings.Holds(u.name) }

// starts is u as the driver of spawns knows it.
func (p *preparer) starts(u *unit) spawn.Service {
	return spawn.Service{Name: u.name, Definition: u.definition, Privileged: p.privileged(u)}
}

// opens is u as the driver of its descriptors knows it, for the run of a spawn id.
func (p *preparer) opens(u *unit, run uint64) open.Service {
	s := open.Service{Name: u.name, Definition: u.definition, Tag: u.tag, Run: run, Apart: p.user != nil}
	if !p.privileged(u) {
		s.UID = p.uidOf(u.definition)
		return s
	}
	i := slices.IndexFunc(p.policy.Privileged, func(p wire.Program) bool { return p.Name == u.name })
	s.UID, s.Apart = p.policy.Privileged[i].Identity.UID, true
	s.Alike = s.UID == p.policy.User.UID
	return s
}

// prepare does for a spawn what may take time.
func (p *preparer) prepare(s spawn.Service) process.Prepared {
	d, itself := s.Definition, s.Probe == nil
	if s.Privileged { // tier 1 holds it, from argv to directory
		built, err := p.build(d, nil, itself)
		return process.Prepared{Env: built.Environment, Walls: built, User: p.user, Err: err}
	}
	uid, user, err := p.ownUser(d)
	if err == nil && itself && d.Port != 0 {
		err = process.CheckPort(d.Port, user, p.user)
	}
	var env []string
	if err == nil {
		env, err = p.environment(d, uid)
	}
	var built walls.Walls
	if err == nil {
		built, err = p.build(d, env, itself)
	}
	if err != nil {
		return process.Prepared{Walls: built, Err: err}
	}
	argv := s.Probe
	if itself {
		argv = d.Command
	}
	ready := process.Prepare(user, process.WhereOf(d, p.identity(uid, d).Home), argv, built.Environment)
	ready.Walls, ready.UID, ready.User = built, uid, user
	return ready
}

// build makes the walls of a process of d, with its secrets where it is the
// service itself.
func (p *preparer) build(d *service.Definition, env []string, secrets bool) (walls.Walls, error) {
	if secrets {
		walls.DropSecrets(p.runtime, d.Name)
	}
	stored := ""
	if secrets && d.Profile != "" {
		stored = p.volume.Secrets(d.Profile)
	}
	if !d.Isolation.Wanted() && len(d.Secrets) == 0 && stored == "" {
		return walls.Walls{Environment: env}, nil
	}
	subject := walls.Subject{
		Name: d.Name, Isolation: d.Isolation, Port: d.Port, Environment: env,
		Named: func(name string) bool { _, named := d.Environment[name]; return named },
	}
	if d.Profile != "" {
		subject.Own = profileDir(p.config().For(d.Name), d.Profile)
	}
	subject.UID, subject.User = p.recordedUser(d)
	built, err := p.walls().Build(subject)
	if err == nil && secrets {
		err = p.walls().Secrets(&built, d.Name, d.Secrets, p.secretReader(d), stored)
	}
	return built, err
}

// secrets are the values that the texts of a process of d may have in them.
func (p *preparer) secrets(d *service.Definition) redact.Set {
	uid, _ := p.recordedUser(d)
	env, err := p.environment(d, uid)
	if err != nil {
		env = nil // and the process is one that was started before that
	}
	stored := ""
	if d.Profile != "" {
		stored = p.volume.Secrets(d.Profile)
	}
	return redact.Of(env, walls.Values(p.secretReader(d), d.Secrets, stored)...)
}

// environment is what a process of d is spawned with, less what the loop adds. uid
// is whose it is, as ownUser says.
func (p *preparer) environment(d *service.Definition, uid uint32) ([]string, error) {
	cfg := p.config().For(d.Name)
	var of config.Profile
	if d.Profile != "" {
		of = config.Profile{Name: d.Profile, Dir: profileDir(cfg, d.Profile), Port: d.Port}
	}
	return config.EnvironmentAs(p.user, p.reader(d, uid, of), cfg, p.identity(uid, d), p.container, d, of)
}

// profileDir is where a profile lies.
func profileDir(cfg *config.Config, name string) string {
	if name == profiles.Default {
		return cfg.Home
	}
	return filepath.Join(cfg.Home, "profiles", name)
}

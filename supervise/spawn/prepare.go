package spawn

import (
	"rlminit/config"
	"rlminit/internal/redact"
	"rlminit/profiles"
	"rlminit/rights"
	"rlminit/service"
	"rlminit/supervise/process"
	"rlminit/supervise/settings"
	"rlminit/supervise/walls"
	"rlminit/wire"
)

// Preparer makes ready what processes are started with. It looks at files and at
// the volume, which may not answer, and so is called beside the loop; nothing of
// it changes but the configuration in force.
type Preparer struct {
	Policy    *wire.Policy
	Settings  *settings.Settings
	Container []string // the container's environment
	Runtime   string   // the runtime directory
	Volume    interface {
		Store() *profiles.Store
		Absent() string                // why there is no store
		NotOurs() error                // why nothing may be made on it; nil: nothing is known against it
		Secrets(profile string) string // where those lie that it was declared with; "": it has none
	}
	Walls func() *walls.Place
	User  *rights.User // touches the files of Policy.User, and of others; nil: that is ourselves
	Files *Files       // starts what does; nil where User is
}

// Config is the configuration in force.
func (p *Preparer) Config() *config.Config { return p.Settings.Current() }

// Silent is the User's.
func (p *Preparer) Silent(at *rights.Progress, over <-chan struct{}) bool {
	return p.User.Silent(at, over)
}

// Immediate tells that Prepare takes no time for a service: there is no file to read for
// it, and no user, wall or port to look after. For the main command the container's own
// directory is looked at.
func (p *Preparer) Immediate(s Service) bool {
	d := s.Definition
	c := p.Config().For(d.Name)
	return s.Probe == nil && d.Profile == "" && d.Name != config.MainService && d.Port == 0 && !d.Isolation.Wanted() && len(d.Secrets) == 0 &&
		!readsFiles(c.EnvFile, c.Environment) && !readsFiles(d.EnvFile, d.Environment)
}

// readsFiles tells whether a part of an environment lies in files.
func readsFiles(files []string, values map[string]service.Value) bool {
	for _, value := range values {
		if value.File != "" {
			return true
		}
	}
	return len(files) > 0
}

// Prepare does for a spawn what may take time. at is told of each call that touches a
// user's files.
func (p *Preparer) Prepare(s Service, at *rights.Progress) process.Prepared {
	followed := *p
	followed.User = p.User.Followed(at)
	return followed.prepare(s)
}

func (p *Preparer) prepare(s Service) process.Prepared {
	d, itself := s.Definition, s.Probe == nil
	if s.Privileged { // tier 1 holds it, from argv to directory
		var err error
		if itself {
			err = process.CheckReady(d, p.sharer(s.Name), p.User)
		}
		if err != nil {
			return process.Prepared{Err: err}
		}
		built, err := p.build(d, nil, itself)
		return process.Prepared{Env: built.Environment, Walls: built, User: p.User, Err: err}
	}
	uid, user, err := p.OwnUser(d)
	if err == nil && itself && p.IsPage(d) {
		err = p.checkPage(d)
	}
	if err == nil && itself && d.Port != 0 {
		err = process.CheckPort(d.Port, user, p.User)
	}
	if err == nil && itself {
		err = process.CheckReady(d, process.Sharer{UID: p.Identity(uid, d).UID, Shares: user.Shares}, user, p.User)
	}
	var env []string
	if err == nil {
		env, err = p.Environment(d, uid)
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
	ready := process.Unchecked(process.WhereOf(d, p.Identity(uid, d).Home), argv, built.Environment)
	ready.Walls, ready.UID, ready.User = built, uid, user
	return ready
}

// sharer is who a service is that tier 1 holds: nobody can ask in the name of root.
func (p *Preparer) sharer(name string) process.Sharer {
	var as process.Sharer
	for _, held := range p.Policy.Privileged {
		if held.Name == name {
			as.UID = held.Identity.UID
		}
	}
	if as.UID == p.Policy.User.UID {
		as.Shares = p.User.Shares
	}
	return as
}

// build makes the walls of a process of d, with its secrets where it is the
// service itself.
func (p *Preparer) build(d *service.Definition, env []string, secrets bool) (walls.Walls, error) {
	if secrets {
		walls.DropSecrets(p.Runtime, d.Name)
	}
	stored := ""
	if secrets && d.Profile != "" {
		stored = p.Volume.Secrets(d.Profile)
	}
	if !d.Isolation.Wanted() && len(d.Secrets) == 0 && stored == "" {
		return walls.Walls{Environment: env}, nil
	}
	subject := walls.Subject{
		Name: d.Name, Isolation: d.Isolation, Port: d.Port, Environment: env,
		Named: func(name string) bool { _, named := d.Environment[name]; return named },
	}
	if d.Profile != "" {
		subject.Own = config.ProfileDir(p.Config().For(d.Name).Home, d.Profile)
	}
	subject.UID, subject.User = p.RecordedUser(d)
	built, err := p.Walls().Build(subject)
	if err == nil && secrets {
		err = p.Walls().Secrets(&built, d.Name, d.Secrets, p.secretReader(d), stored)
	}
	return built, err
}

// Secrets are the values that the texts of a process of d may have in them.
func (p *Preparer) Secrets(d *service.Definition) redact.Set {
	uid, _ := p.RecordedUser(d)
	env, err := p.Environment(d, uid)
	if err != nil {
		env = nil // and the process is one that was started before that
	}
	stored := ""
	if d.Profile != "" {
		stored = p.Volume.Secrets(d.Profile)
	}
	return redact.Of(env, walls.Values(p.secretReader(d), d.Secrets, stored)...)
}

// Environment is what a process of d is spawned with, less what the loop adds. uid
// is whose it is, as ownUser says.
func (p *Preparer) Environment(d *service.Definition, uid uint32) ([]string, error) {
	cfg := p.Config().For(d.Name)
	var of config.Profile
	if d.Profile != "" {
		of = config.Profile{Name: d.Profile, Dir: config.ProfileDir(cfg.Home, d.Profile), Port: d.Port}
	}
	return config.EnvironmentAs(p.User, p.reader(d, uid, of), cfg, p.Identity(uid, d), p.Container, d, of)
}

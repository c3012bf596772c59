package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
	"rlminit/service"
	"rlminit/wire"
)

// Compiled is a configuration's effect in a given place.
type Compiled struct {
	Policy wire.Policy
	Run    Run      // what becomes of the arguments
	Notes  []string // settings that the place does not allow, to be reported once
	// Cautions are likewise to be said, and no reason to refuse to start.
	Cautions []string
}

// Compile makes the policy that tier 1 holds every spawn against. args are the
// arguments of `rlminit init`. The error is the lines to print, each after "rlminit: ".
func Compile(c *Config, h Host, args []string) (Compiled, error) {
	k := compiler{config: c, host: h}
	cautions, err := h.limits()
	if err != nil {
		return Compiled{}, err
	}
	out, err := k.compile(args)
	if err == nil && c.Strict && len(k.notes) > 0 {
		err = fmt.Errorf("cannot start: %s; strict is set, so leave it out or make it possible", k.notes[0])
	}
	out.Notes, out.Cautions = k.notes, append(c.Cautions(), cautions...)
	return out, err
}

type compiler struct {
	config *Config
	host   Host
	user   wire.Identity
	groups []uint32 // that every child has

	notes   []string
	refused []string // a line each
}

func (k *compiler) note(format string, args ...any) {
	k.notes = append(k.notes, fmt.Sprintf(format, args...))
}

func (k *compiler) compile(args []string) (out Compiled, err error) {
	c := k.config
	if k.user, err = Identify(c, k.host); err != nil {
		return out, err
	}
	k.groups = k.given()
	k.user = k.with(k.user)
	if k.host.UID != 0 {
		k.noteIgnored()
	}
	out.Policy = wire.Policy{
		Version: wire.Version, User: k.user, Supervisor: k.user, Volume: c.Home, StopNanos: int64(c.StopTimeout),
		TagLow: uint32(c.Tags.Low), TagHigh: uint32(c.Tags.High),
	}
	if err := k.checkTags(k.user); err != nil {
		return out, fmt.Errorf("cannot start: %w", err)
	}
	if low, high := out.Policy.TagLow, out.Policy.TagHigh; low != 0 && !(mapped("/proc/self/gid_map", low) && mapped("/proc/self/gid_map", high)) {
		k.note("tags: the container's user namespace does not have the groups %d-%d: services are told apart by session, and have no tag; set tags to a range that it has", low, high)
		out.Policy.TagLow, out.Policy.TagHigh = 0, 0
	}
	out.Run = c.Decide(args, k.host.Lookup)
	c.Carry(out.Run)
	out.Policy.ExitOn = c.Main.ExitOn != "" && out.Run.LivesWith(c.Main.ExitOn) != "" && (!out.Run.Wait || out.Run.Start == "")
	k.initOptions(&out.Policy)
	out.Policy.Supervised = len(out.Run.Argv) > 0 && c.Main.Supervised()
	if len(out.Run.Argv) > 0 && !out.Policy.Supervised {
		main, err := k.main(out.Run.Argv)
		if err != nil {
			k.refuse("main", err)
		}
		out.Policy.Main = main
	}
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		d := c.Services[name]
		if !Privileged(d) {
			continue
		}
		program, err := k.privileged(d)
		if err != nil {
			k.refuse(fieldOf(name), err)
		}
		if program != nil {
			out.Policy.Privileged = append(out.Policy.Privileged, *program)
			out.Policy.Privileged = append(out.Policy.Privileged, probesOf(d, *program)...)
		}
	}
	if out.Policy.Supervisor, err = k.supervisor(&out.Policy); err != nil {
		return out, fmt.Errorf("cannot start: %w", err)
	}
	if err := cmp.Or(k.profiles(&out.Policy), k.page(&out.Policy)); err != nil {
		return out, fmt.Errorf("cannot start: %w", err)
	}
	k.noteUnlimited()
	k.isolation(&out.Policy)
	if len(k.refused) > 0 {
		return out, errors.New(strings.Join(k.refused, "\n"))
	}
	return out, nil
}

// noteIgnored says what of the configuration only root can do.
func (k *compiler) noteIgnored() {
	c, uid := k.config, k.host.UID
	if c.User != "" {
		k.note("user %s is ignored: rlminit was started as uid %d", c.User, uid)
	}
	if c.UID != 0 || c.GID != 0 {
		k.note("the uid and gid that were asked for are ignored: rlminit was started as uid %d", uid)
	}
	if len(c.Own) > 0 {
		k.note("own is ignored: rlminit was started as uid %d, and only root can change owners", uid)
	}
	for _, d := range c.Dirs {
		if d.Owner != "" {
			k.note("dirs: the owner of %s is ignored: rlminit was started as uid %d", d.Path, uid)
		}
	}
}

// Environments gives the programs of a policy that was compiled for an
// unprepared host their environments, now that the volume is in order. The error
// is as Compile's.
func Environments(c *Config, h Host, p *wire.Policy) error {
	k := compiler{config: c, host: h}
	fill := func(field string, d *service.Definition, program *wire.Program) {
		var err error
		if program.Env, err = k.environment(d, program.Identity); err != nil {
			k.refuse(field, err)
		}
	}
	if p.Main != nil {
		fill("main", &c.Main.Definition, p.Main)
	}
	for i := range p.Privileged {
		service := wire.ServiceOf(p.Privileged[i].Name)
		fill(fieldOf(service), c.Services[service], &p.Privileged[i])
	}
	if len(k.refused) > 0 {
		return errors.New(strings.Join(k.refused, "\n"))
	}
	return nil
}

// fieldOf is where the configuration has a service.
func fieldOf(name string) string {
	if name == MainService {
		return "main (with restart, it is a service)"
	}
	return "services." + name
}

// refuse keeps why the definition at a field cannot be had; a fault at the
// top level, and so with several of them, once.
func (k *compiler) refuse(field string, err error) {
	lines := []string{fmt.Sprintf("%s: %v", field, err)}
	var faults EnvFaults
	if errors.As(err, &faults) {
		lines = nil
		field, _, _ = strings.Cut(field, " ") // without its text
		for _, f := range faults {
			lines = append(lines, f.within(field))
		}
	}
	for _, line := range lines {
		if line = "cannot start: " + line; !slices.Contains(k.refused, line) {
			k.refused = append(k.refused, line)
		}
	}
}

// noteUnlimited says which limits and guards of the configuration are not in force here.
func (k *compiler) noteUnlimited() {
	for _, note := range k.config.Unlimited(k.host) {
		k.note("%s", note)
	}
}

// Unlimited says which limits and guards of a configuration are not in force in a place, a
// sentence each.
func (c *Config) Unlimited(host Host) (notes []string) {
	missing := host.Leaves.Missing()
	unmet := func(l service.Limits) bool {
		return slices.ContainsFunc(missing, func(limit string) bool {
			return limit == "memory" && l.Memory != 0 || limit == "pids" && l.Pids != 0 || limit == "cpu" && l.CPU != 0
		})
	}
	var names []string
	if c.Gateway != nil {
		samples := c.Gateway.Samples(c)
		for _, section := range slices.Sorted(maps.Keys(samples)) {
			if unmet(samples[section].Limits) {
				names = append(names, section)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		if unmet(c.Services[name].Limits) && (name != PageService || c.Page == nil) { // whose limit nobody asked for
			names = append(names, name)
		}
	}
	if unmet(c.Main.Limits) && !c.Main.Supervised() {
		names = append(names, MainService)
	}
	if len(names) > 0 {
		notes = append(notes, fmt.Sprintf("limits of %s are not in force for %s: %s, or limit the container",
			strings.Join(missing, ", "), strings.Join(names, ", "), host.Leaves.Why(missing[0])))
	}
	for _, guard := range c.Jobs.Guards.Named {
		if why := host.Unguarded[guard]; why != "" {
			notes = append(notes, fmt.Sprintf("jobs.guards.%s is not in force: %s", guard, why))
		}
	}
	return notes
}

// Identify is the service user, the user of every child unless root-owned
// configuration says otherwise. A container that was not started as root has but
// one user.
func Identify(c *Config, h Host) (wire.Identity, error) {
	if h.UID != 0 {
		return h.self(c.Home), nil
	}
	if c.User == "" {
		return wire.Identity{}, noUser(c)
	}
	id, err := h.Accounts.Resolve(c.User, "", nil, c.Home)
	if err != nil {
		return id, fmt.Errorf("cannot start: %w", err)
	}
	if c.UID != 0 {
		id.UID = c.UID
		if _, numeric := number(id.Name); numeric {
			id.Name = fmt.Sprint(c.UID)
		}
	}
	if c.GID != 0 {
		id.GID = c.GID
		id.Groups = supplementary(id.Groups, id.GID)
	}
	if id.UID == 0 {
		return id, fmt.Errorf("cannot start: %w", rootError(c))
	}
	return id, h.reach(c.User, id)
}

// ErrRoot is of a service user that is root.
var ErrRoot = errors.New("services never run as root")

func rootError(c *Config) error {
	return fmt.Errorf("user %s is root, and %w; name another user in %s", document.Quote(c.User), ErrRoot, c.Path)
}

// ErrNoUser is of a configuration without a user for root to become.
var ErrNoUser = errors.New("running as root and no user is set")

func noUser(c *Config) error {
	return fmt.Errorf(`cannot start: %w; add "user: app" to %s or use docker run --user`, ErrNoUser, c.Path)
}

// CheckUser names the fault of a configuration's user for a container that
// is started as root, where these are the accounts: it is ErrRoot or ErrNoUser, or the
// accounts do not have it.
func CheckUser(c *Config, accounts Accounts) error {
	if c.User == "" {
		return noUser(c)
	}
	id, err := accounts.Resolve(c.User, "", nil, c.Home)
	if err == nil && id.UID == 0 && c.UID == 0 {
		err = rootError(c)
	}
	return err
}

// reach tells whether root in this container may become somebody.
func (h Host) reach(who string, id wire.Identity) error {
	for _, need := range []struct {
		bit  uint
		name string
	}{{unix.CAP_SETUID, "SETUID"}, {unix.CAP_SETGID, "SETGID"}} {
		if h.Capabilities&(1<<need.bit) == 0 {
			return fmt.Errorf("cannot start: becoming user %s needs CAP_%s, which the container lacks; add --cap-add %s or use docker run --user %d:%d",
				who, need.name, need.name, id.UID, id.GID)
		}
	}
	if why := unmapped(id); why != "" {
		return fmt.Errorf("cannot start: user %s cannot be had: %s", who, why)
	}
	return nil
}

// self is the user that the container was given.
func (h Host) self(home string) wire.Identity {
	id := wire.Identity{UID: h.UID, GID: h.GID, Name: fmt.Sprint(h.UID), Home: home}
	if u, ok := h.Accounts.user(id.Name); ok && u.UID == h.UID {
		id.Name = u.Name
		if u.Home != "" {
			id.Home = u.Home
		}
	}
	id.Groups = supplementary(slices.Clone(h.Groups), id.GID)
	return id
}

// checkTags keeps the private groups apart from those that mean something.
func (k *compiler) checkTags(id wire.Identity) error {
	low, high := uint32(k.config.Tags.Low), uint32(k.config.Tags.High)
	for _, gid := range append([]uint32{id.GID}, id.Groups...) {
		if low != 0 && low <= gid && gid <= high {
			return fmt.Errorf("gid %d of user %s lies in tags (%d-%d), which services get one each; set tags to another range",
				gid, id.Name, low, high)
		}
	}
	return nil
}

// main is the main command as tier 1 runs it.
func (k *compiler) main(argv []string) (*wire.Program, error) {
	m := k.config.Main
	id, err := k.identity(&m.Definition, true)
	if err != nil {
		return nil, err
	}
	d := m.Definition
	d.Command = argv
	program, err := k.program(&d, id)
	if err != nil {
		return nil, err
	}
	if id.UID == 0 && len(program.Capabilities) == 0 {
		// Root without capabilities could not drop to a user, which is what an
		// entrypoint that has to be root is there for.
		for bit := range uint32(64) {
			if k.host.Capabilities&(1<<bit) != 0 {
				program.Capabilities = append(program.Capabilities, bit)
			}
		}
	}
	return program, nil
}

// privileged is a definition that tier 1 holds, or nil where the place has no
// privilege to give and it runs as any other.
func (k *compiler) privileged(d *service.Definition) (*wire.Program, error) {
	if k.host.UID != 0 {
		k.note("services.%s: its user and privileges are ignored: rlminit was started as uid %d", d.Name, k.host.UID)
		return nil, nil
	}
	id, err := k.identity(d, false)
	if err != nil {
		return nil, err
	}
	return k.program(d, id)
}

// probesOf are the probes that execute something: as the service, for whom its
// files are, and with none of its capabilities.
func probesOf(d *service.Definition, program wire.Program) (probes []wire.Program) {
	add := func(name string, argv []string) {
		if len(argv) == 0 {
			return
		}
		program.Name, program.Argv = name, argv
		program.Capabilities, program.NoNewPrivs = nil, true
		probes = append(probes, program)
	}
	if d.Ready != nil {
		add(wire.ReadyProbe(d.Name), d.Ready.Exec)
	}
	if d.Health != nil {
		add(wire.HealthProbe(d.Name), d.Health.Exec)
	}
	return probes
}

// identity is the user of a definition.
func (k *compiler) identity(d *service.Definition, root bool) (wire.Identity, error) {
	if k.host.UID != 0 || d.User == "" && d.Group == "" && len(d.Groups) == 0 {
		return k.user, nil
	}
	id := k.user
	var err error
	switch {
	case d.User != "" && d.User != k.config.User:
		id, err = k.host.Accounts.Resolve(d.User, d.Group, d.Groups, k.config.Home)
	default:
		extra, group := d.Groups, d.Group
		id.Groups = slices.Clone(id.Groups)
		if group != "" {
			id.GID, err = k.host.Accounts.group(group)
		}
		for _, g := range extra {
			gid, gerr := k.host.Accounts.group(g)
			if gerr != nil {
				err = gerr
			}
			id.Groups = append(id.Groups, gid)
		}
		id.Groups = supplementary(id.Groups, id.GID)
	}
	if err == nil {
		err = noRoot(d.Groups, k.host.Accounts)
	}
	id = k.with(id)
	switch {
	case err != nil:
		return id, err
	case id.UID == 0 && !root:
		return id, fmt.Errorf("user %s is root, and only main may run as root; name another user", document.Quote(d.User))
	}
	if why := unmapped(id); why != "" {
		return id, errors.New(why)
	}
	return id, k.checkTags(id)
}

// program fixes a definition in every detail.
func (k *compiler) program(d *service.Definition, id wire.Identity) (*wire.Program, error) {
	var env []string
	if !k.host.Unprepared {
		var err error
		if env, err = k.environment(d, id); err != nil {
			return nil, err
		}
	}
	p := &wire.Program{
		Name: d.Name, Argv: d.Command, Env: env, Dir: d.WorkingDir, Identity: id, NoNewPrivs: d.Sandbox.NoNewPrivs,
		Umask: d.Umask, StopSignal: int32(d.Stop.Signal), StopNanos: int64(d.Stop.Timeout), Rlimits: Rlimits(d.Limits),
		Bounds: Bounds(d.Limits),
	}
	for _, name := range d.Sandbox.Capabilities {
		bit, _ := service.CapabilityNumber(name)
		if k.host.Capabilities&(1<<bit) == 0 {
			if k.host.UID != 0 {
				k.note("%s: %s is not given: the container's user does not have it", d.Name, name)
				continue
			}
			return nil, fmt.Errorf("%s is not the container's to give; add --cap-add %s", name, strings.TrimPrefix(name, "CAP_"))
		}
		p.Capabilities = append(p.Capabilities, bit)
	}
	return p, nil
}

// environment reads what id may read.
func (k *compiler) environment(d *service.Definition, id wire.Identity) (env []string, err error) {
	err = k.host.as(id, func() (err error) {
		env, err = Environment(k.config, id, k.host.Environ, d, Profile{})
		return err
	})
	return env, err
}

// Rlimits are the limits of setrlimit(2), in order of their numbers.
func Rlimits(l service.Limits) []wire.Rlimit {
	var list []wire.Rlimit
	for _, n := range slices.Sorted(maps.Keys(l.Rlimits)) {
		list = append(list, wire.Rlimit{Resource: int32(n), Soft: l.Rlimits[n].Soft, Hard: l.Rlimits[n].Hard})
	}
	return list
}

// Bounds are the limits that a cgroup enforces.
func Bounds(l service.Limits) wire.Bounds {
	return wire.Bounds{Memory: l.Memory, Pids: l.Pids, CPU: int64(math.Round(l.CPU * 1000))}
}

// Privileged tells whether a definition needs what tier 2 cannot ask for by
// itself: another user or group, a capability, or to gain privilege. Tier 1 holds
// such definitions under their names.
func Privileged(d *service.Definition) bool {
	return d.User != "" || d.Group != "" || len(d.Groups) > 0 || len(d.Sandbox.Capabilities) > 0 || !d.Sandbox.NoNewPrivs
}

package config

import (
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
	"rlminit/service"
	"rlminit/wire"
)

// profileUsers are the uids of profiles where the configuration does not say.
var profileUsers = Range{40000, 44999}

// autoUser is what gateway.user says for a user of each profile's own.
const autoUser = "auto"

// sharedByProfiles is said where there is no user for each profile, and why.
const sharedByProfiles = "profiles have no user of their own, and what one of them runs can read and signal all others: %s"

// OwnUsers tells whether each profile has a user of its own.
func (g *Gateway) OwnUsers() bool { return g.User == autoUser }

// profiles are the users of profiles. Where they cannot have any of their own they
// are the services' user, and that is said.
func (k *compiler) profiles(p *wire.Policy) error {
	c := k.config
	if c.Gateway == nil {
		p.Profiles.Why = "there are no profiles here: the configuration has no gateway section"
		return nil
	}
	wanted := c.Gateway.OwnUsers()
	if why := k.inseparable(p); why != "" {
		if wanted {
			k.note(sharedByProfiles, why)
		}
		p.Profiles.Why = why
		return nil
	}
	of := wire.Profiles{Low: uint32(c.ProfileUsers.Low), High: uint32(c.ProfileUsers.High), Auto: wanted, Groups: k.groups}
	if whose := k.within(&of, p); whose != "" {
		if !wanted {
			p.Profiles.Why = "profile_users has an id of " + whose + " in it"
			return nil
		}
		return fmt.Errorf("profile_users %d-%d has an id of %s in it; name a range that nothing else is in", of.Low, of.High, whose)
	}
	for _, name := range c.Gateway.Groups {
		if _, err := k.host.Accounts.group(name); err != nil {
			return fmt.Errorf("gateway.groups: %w", err)
		}
	}
	of.Groups = append(slices.Clip(of.Groups), GatewayGroups(c, k.host)...)
	if err := noRoot(c.Gateway.Groups, k.host.Accounts); err != nil {
		return fmt.Errorf("gateway.groups: %w", err)
	}
	of.Groups = supplementary(of.Groups, 0)
	if err := k.checkTags(wire.Identity{GID: of.Low, Groups: of.Groups, Name: "gateway"}); err != nil {
		return err
	}
	if !wanted {
		of.Why = "all have the container's user: gateway.user is not auto"
	}
	p.Profiles = of
	return nil
}

// GatewayGroups are those that gateway.groups names and that there are.
func GatewayGroups(c *Config, h Host) (groups []uint32) {
	if c.Gateway == nil {
		return nil
	}
	for _, name := range c.Gateway.Groups {
		if gid, err := h.Accounts.group(name); err == nil {
			groups = append(groups, gid)
		}
	}
	return groups
}

// inseparable says why no profile can have a user of its own here; "": it can.
func (k *compiler) inseparable(p *wire.Policy) string {
	r := k.config.ProfileUsers
	low, high := uint32(r.Low), uint32(r.High)
	switch {
	case k.host.UID != 0:
		return fmt.Sprintf("rlminit was started as uid %d", k.host.UID)
	case k.host.Capabilities&(1<<unix.CAP_DAC_OVERRIDE) == 0:
		return "their directories cannot be given to them without CAP_DAC_OVERRIDE; add --cap-add DAC_OVERRIDE"
	case k.host.Capabilities&(1<<unix.CAP_CHOWN) == 0:
		return "their directories cannot be given to them without CAP_CHOWN; add --cap-add CHOWN"
	case r.Size() == 0:
		return "profile_users is off"
	case p.Supervisor.UID == p.User.UID:
		return "the supervisor has none either"
	}
	for _, ids := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		if !mapped(ids, low) || !mapped(ids, high) {
			return fmt.Sprintf("not all of %d-%d are among the ids that the container's user namespace has; name others in profile_users", low, high)
		}
	}
	return ""
}

// within says whose an id is in the range of profiles; "" for nobody's.
func (k *compiler) within(of *wire.Profiles, p *wire.Policy) string {
	others := []wire.Identity{p.User, p.Supervisor}
	if p.Main != nil {
		others = append(others, p.Main.Identity)
	}
	for _, program := range p.Privileged {
		others = append(others, program.Identity)
	}
	for _, id := range others {
		for _, number := range append([]uint32{id.UID, id.GID}, id.Groups...) {
			if of.Has(number) {
				return "user " + id.Name
			}
		}
	}
	for _, u := range k.host.Accounts.Users {
		if (of.Has(u.UID) || of.Has(u.GID)) && !k.ofProfile(u) {
			return "user " + u.Name + " of /etc/passwd"
		}
	}
	if low, high := uint32(k.config.Tags.Low), uint32(k.config.Tags.High); low != 0 && low <= of.High && of.Low <= high {
		return "tags"
	}
	return ""
}

// ofProfile tells whether a line of /etc/passwd is there to give a profile's user a
// name, as ssh and initdb want it: its home is the profile's directory. Only root
// writes such lines.
func (k *compiler) ofProfile(u User) bool {
	return u.UID == u.GID && filepath.Dir(filepath.Clean(u.Home)) == filepath.Join(k.config.Home, ProfilesDir)
}

// groups reads gateway.groups.
func (g *Gateway) groups(n document.Node) {
	d := service.Default("gateway")
	d.Fields()["groups"](n)
	g.Groups = d.Groups
}

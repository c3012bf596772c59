package config

import (
	"errors"
	"os"
	"slices"
	"syscall"

	"rlminit/internal/durable"
	"rlminit/service"
	"rlminit/wire"
)

// given are the groups that every child keeps: those of `docker run --group-add`,
// which are the groups of the container's root beyond those of /etc/group, and
// those of the files of groups_of. Never root's: many an image lets it write what
// is root's.
func (k *compiler) given() []uint32 {
	h := k.host
	if h.UID != 0 { // a container with one user has its groups anyway
		if len(k.config.GroupsOf) > 0 {
			k.note("groups_of is ignored: rlminit was started as uid %d, and only root can add groups; add them with --group-add", h.UID)
		}
		return nil
	}
	root, _ := h.Accounts.Resolve("0", "", nil, "/")
	var groups []uint32
	for _, gid := range h.Groups {
		if gid != 0 && gid != h.GID && !slices.Contains(root.Groups, gid) {
			groups = append(groups, gid)
		}
	}
	for _, path := range k.config.GroupsOf {
		info, err := os.Stat(path)
		if err != nil {
			k.note("groups_of: cannot look at %s: %v; nobody gets its group", path, durable.Bare(err))
			continue
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case !ok:
		case stat.Gid == 0:
			k.note("groups_of: %s belongs to the group root, which services do not get; chgrp it", path)
		default:
			groups = append(groups, stat.Gid)
		}
	}
	return groups
}

// with is an identity that has the given groups too.
func (k *compiler) with(id wire.Identity) wire.Identity {
	id.Groups = supplementary(slices.Concat(id.Groups, k.groups), id.GID)
	return id
}

// noRoot refuses the group root among those that a service was given by name or
// number.
func noRoot(groups []string, accounts Accounts) error {
	for _, g := range groups {
		if gid, err := accounts.group(g); err == nil && gid == 0 {
			return errors.New(service.RootsGroup(g))
		}
	}
	return nil
}

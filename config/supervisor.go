package config

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"rlminit/internal/document"
	"rlminit/wire"
)

// SupervisorUser is the supervisor's user where the configuration has none,
// and SupervisorName its name where that is a number.
const (
	SupervisorUser = "49999:49999"
	SupervisorName = "rlminit"
)

// supervisor is tier 2's user, which no other process of the container has. Where it cannot
// have one of its own it has the services', and that is said.
func (k *compiler) supervisor(p *wire.Policy) (wire.Identity, error) {
	c := k.config
	if k.host.UID != 0 {
		if k.host.Separable != nil {
			k.shared(fmt.Sprintf("rlminit was started as uid %d", k.host.UID))
		}
		return k.user, nil
	}
	named := c.Supervisor
	if named == "" {
		named = SupervisorUser
	}
	id, err := k.host.Accounts.Resolve(named, "", nil, "/")
	if err != nil {
		return id, fmt.Errorf("supervisor_user: %w", err)
	}
	if _, numeric := number(id.Name); numeric {
		id.Name = SupervisorName
	}
	id.Groups, id.Home = nil, "/"
	if why := k.taken(id, p); why != "" {
		return id, fmt.Errorf("supervisor_user %s %s; name a uid and gid that nothing else has", document.Quote(named), why)
	}
	if err := k.checkTags(id); err != nil {
		return id, fmt.Errorf("supervisor_user: %w", err)
	}
	if !mapped("/proc/self/uid_map", id.UID) || !mapped("/proc/self/gid_map", id.GID) {
		why := fmt.Sprintf("uid %d or gid %d is not among those that the container's user namespace has", id.UID, id.GID)
		if c.Supervisor != "" {
			return id, fmt.Errorf("supervisor_user %s: %s; name one that it has", document.Quote(named), why)
		}
		k.shared(why)
		return k.user, nil
	}
	if k.host.Separable == nil {
		return k.user, nil
	}
	join, why := k.host.Separable(c.Home, k.user, id)
	if why != "" {
		k.shared(why)
		return k.user, nil
	}
	if join {
		id.Groups = []uint32{k.user.GID}
	}
	return id, nil
}

// shared tells the consequences of one uid for all.
func (k *compiler) shared(why string) {
	k.note("the supervisor has the uid of the services, %d, who could stop it and forge its records: %s", k.user.UID, why)
}

// taken says whose the supervisor's ids are already; "" for nobody's.
func (k *compiler) taken(id wire.Identity, p *wire.Policy) string {
	programs := slices.Clone(p.Privileged)
	if p.Main != nil {
		programs = append(programs, *p.Main)
	}
	switch {
	case id.UID == 0 || id.GID == 0:
		return "is root's"
	case id.UID == k.user.UID:
		return "is who the services are"
	case id.GID == k.user.GID || slices.Contains(k.user.Groups, id.GID):
		return "is in a group of the services"
	}
	for _, program := range programs {
		other := program.Identity
		if id.UID == other.UID || id.GID == other.GID || slices.Contains(other.Groups, id.GID) {
			return "is that of " + wire.ServiceOf(program.Name)
		}
	}
	return ""
}

// unmapped says which of somebody's ids the container's user namespace does not have; "": it
// has all.
func unmapped(id wire.Identity) string {
	return unmappedIn("/proc/self/uid_map", "/proc/self/gid_map", id)
}

func unmappedIn(uids, gids string, id wire.Identity) string {
	what, missing, file := "uid", id.UID, uids
	if mapped(uids, id.UID) {
		what, file = "gid", gids
		at := slices.IndexFunc(append([]uint32{id.GID}, id.Groups...), func(gid uint32) bool { return !mapped(gids, gid) })
		if at < 0 {
			return ""
		}
		missing = append([]uint32{id.GID}, id.Groups...)[at]
	}
	remedy := "name another user, or give the container more ids, as engines do with /etc/subuid and /etc/subgid"
	if !mapped(file, 1) {
		remedy = "it has none but root's, as which no service runs; give the container more ids, as engines do with /etc/subuid and /etc/subgid"
	}
	return fmt.Sprintf("%s %d is not among those that the container's user namespace has; %s", what, missing, remedy)
}

// mapped tells whether an id is one of the user namespace, by its map,
// user_namespaces(7). Where that cannot be read, it is.
func mapped(file string, id uint32) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		first, e1 := strconv.ParseUint(f[0], 10, 32)
		length, e2 := strconv.ParseUint(f[2], 10, 64)
		if e1 == nil && e2 == nil && uint64(id) >= first && uint64(id)-first < length {
			return true
		}
	}
	return false
}

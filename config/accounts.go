package config

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"rlminit/internal/document"
	"rlminit/service"
	"rlminit/wire"
)

// Accounts is what /etc/passwd and /etc/group say, passwd(5) and group(5).
type Accounts struct {
	Users  []User
	Groups []Group
}

// User is a line of passwd.
type User struct {
	Name     string
	UID, GID uint32
	Home     string
}

// Group is a line of group.
type Group struct {
	Name    string
	GID     uint32
	Members []string
}

// maxAccounts bounds each of the files, in bytes.
const maxAccounts = 16 << 20

// ReadAccounts reads the files. One that is missing has no lines: a scratch image
// has neither.
func ReadAccounts(passwd, group string) (Accounts, error) {
	read := func(path string) (string, error) {
		text, err := readSmall(nil, path, maxAccounts)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("cannot read %s: %w", path, err)
		}
		return text, nil
	}
	users, err := read(passwd)
	if err != nil {
		return Accounts{}, err
	}
	groups, err := read(group)
	if err != nil {
		return Accounts{}, err
	}
	return ParseAccounts(users, groups), nil
}

// ParseAccounts reads the text of both files. Lines that are malformed are
// skipped, as the C library does.
func ParseAccounts(passwd, group string) Accounts {
	var a Accounts
	for line := range strings.Lines(passwd) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 6 || !isName(f[0]) {
			continue
		}
		uid, ok := number(f[2])
		gid, ok2 := number(f[3])
		if ok && ok2 {
			a.Users = append(a.Users, User{Name: f[0], UID: uid, GID: gid, Home: f[5]})
		}
	}
	for line := range strings.Lines(group) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 || !isName(f[0]) {
			continue
		}
		if gid, ok := number(f[2]); ok {
			a.Groups = append(a.Groups, Group{Name: f[0], GID: gid, Members: strings.Split(f[3], ",")})
		}
	}
	return a
}

// isName is false for comments and for the + and - lines of NIS.
func isName(s string) bool { return s != "" && !strings.ContainsAny(s[:1], "#+-") }

func number(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && n <= service.MaxID && !strings.HasPrefix(s, "+")
}

// user finds a name, or else a number.
func (a Accounts) user(s string) (User, bool) {
	if i := slices.IndexFunc(a.Users, func(u User) bool { return u.Name == s }); i >= 0 {
		return a.Users[i], true
	}
	n, ok := number(s)
	if !ok {
		return User{}, false
	}
	if i := slices.IndexFunc(a.Users, func(u User) bool { return u.UID == n }); i >= 0 {
		return a.Users[i], true
	}
	return User{}, false
}

func (a Accounts) group(s string) (uint32, error) {
	if i := slices.IndexFunc(a.Groups, func(g Group) bool { return g.Name == s }); i >= 0 {
		return a.Groups[i].GID, nil
	}
	if n, ok := number(s); ok {
		return n, nil
	}
	var names []string
	for _, g := range a.Groups {
		names = append(names, g.Name)
	}
	return 0, fmt.Errorf("group %s is not in /etc/group%s", document.Quote(s), orWrite(s, names, "gid"))
}

func orWrite(s string, names []string, number string) string {
	if near := document.DidYouMean(s, names); near != "" {
		return near
	}
	return "; add it there, or write a " + number
}

// Resolve is the identity of a user: name, uid or user:group. A name has to be in
// passwd; a uid need not, and is then its own group and has home as its HOME. The
// supplementary groups are those that name the user as a member, none where the
// group was written too; group replaces the primary group, and groups are added.
func (a Accounts) Resolve(user, group string, groups []string, home string) (wire.Identity, error) {
	name, pairGroup, pair := strings.Cut(user, ":")
	entry, known := a.user(name)
	if !known {
		n, ok := number(name)
		if !ok {
			var names []string
			for _, u := range a.Users {
				names = append(names, u.Name)
			}
			return wire.Identity{}, fmt.Errorf("user %s is not in /etc/passwd%s", document.Quote(name), orWrite(name, names, "uid"))
		}
		entry = User{Name: strconv.FormatUint(uint64(n), 10), UID: n, GID: n}
	}
	i := wire.Identity{UID: entry.UID, GID: entry.GID, Name: entry.Name, Home: entry.Home}
	if i.Home == "" {
		i.Home = home
	}
	if group == "" && pair {
		group = pairGroup
	}
	if group != "" {
		gid, err := a.group(group)
		if err != nil {
			return i, err
		}
		i.GID = gid
	}
	if !pair && known {
		for _, g := range a.Groups {
			if slices.Contains(g.Members, entry.Name) {
				i.Groups = append(i.Groups, g.GID)
			}
		}
	}
	for _, g := range groups {
		gid, err := a.group(g)
		if err != nil {
			return i, err
		}
		i.Groups = append(i.Groups, gid)
	}
	i.Groups = supplementary(i.Groups, i.GID)
	return i, nil
}

// supplementary sorts groups, and takes out doubles and the primary one.
func supplementary(groups []uint32, primary uint32) []uint32 {
	slices.Sort(groups)
	groups = slices.DeleteFunc(slices.Compact(groups), func(g uint32) bool { return g == primary })
	if len(groups) == 0 {
		return nil
	}
	return groups
}

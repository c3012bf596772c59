package service

import (
	"regexp"
	"strconv"
	"strings"
	"sync"

	"rlminit/internal/document"
)

// accountPattern is what useradd(8) allows, and upper case and dots, which
// people have.
var accountPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?$`) })

// MaxID is the highest uid or gid; the one above means "no change" in chown(2).
const MaxID = 1<<32 - 2

// CheckAccount names the fault of a user's or group's name or number, as
// the end of a sentence; "" if nothing is.
func CheckAccount(s string) string {
	if s != "" && strings.Trim(s, "0123456789") == "" {
		if id, err := strconv.ParseUint(s, 10, 32); err != nil || id > MaxID {
			return "is no uid or gid; write a number up to 4294967294"
		}
		return ""
	}
	if !accountPattern().MatchString(s) {
		return "is no user or group; write a name or a number"
	}
	return ""
}

// user reads a name, a uid or uid:gid. No service is ever root.
func user(p *string) document.Setter {
	return func(n document.Node) {
		var s string
		User(&s)(n)
		name, _, _ := strings.Cut(s, ":")
		if id, err := strconv.ParseUint(name, 10, 32); name == "root" || err == nil && id == 0 {
			n.Fault("%s is refused: only main may run as root; name another user", document.Quote(s))
			return
		}
		if s != "" {
			*p = s
		}
	}
}

// User reads a name, a uid, or uid:gid (names there too).
func User(p *string) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		name, group, pair := strings.Cut(s, ":")
		fault := CheckAccount(name)
		if fault == "" && pair {
			fault = CheckAccount(group)
		}
		if fault != "" {
			n.Fault("%s is no user; write a name, a uid or uid:gid", document.Quote(s))
			return
		}
		*p = s
	}
}

func account(p *string) document.Setter {
	return func(n document.Node) {
		if s, ok := n.Text(); ok {
			if fault := CheckAccount(s); fault != "" {
				n.Fault("%s %s", document.Quote(s), fault)
				return
			}
			*p = s
		}
	}
}

// RootsGroup is why no service is given a group that is root's.
func RootsGroup(group string) string {
	return "group " + document.Quote(group) + " is root's, and lets a service write what is root's; name another"
}

// accounts reads names and numbers of groups. None is root's by its name or number;
// which other name is only /etc/group knows.
func accounts(p *[]string) document.Setter {
	return document.List(p, func(item document.Node) (s string, ok bool) {
		account(&s)(item)
		if id, err := strconv.ParseUint(s, 10, 32); s == "root" || err == nil && id == 0 {
			item.Fault("%s", RootsGroup(s))
			return s, false
		}
		return s, s != ""
	})
}

package config

import (
	"path"
	"strings"

	"rlminit/internal/document"
	"rlminit/service"
)

// applying reads apply: users and the plans they may apply.
func applying(p *[]ApplyRule) document.Setter {
	return func(n document.Node) {
		rules := []ApplyRule{}
		document.Fields{"allow": func(n document.Node) {
			for _, item := range n.Elements() {
				rule, uid := ApplyRule{}, int64(-1)
				document.Fields{"uid": document.Int(&uid, 0, int64(service.MaxID)), "scope": applyScope(&rule.Scope)}.Read(item)
				item.Needs("uid", "{uid: 1000, scope: profiles}")
				item.Needs("scope", "{uid: 1000, scope: profiles}")
				rule.UID = uint32(max(uid, 0))
				rules = append(rules, rule)
			}
		}}.Read(n)
		n.Needs("allow", "allow: [{uid: 1000, scope: profiles}], or allow: [] for root alone")
		*p = rules
	}
}

// applyScope reads the scope of a rule.
func applyScope(p *string) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		kind, name, named := strings.Cut(s, "/")
		_, err := path.Match(s, "")
		switch {
		case s == "all", s == "profiles":
		case err != nil, !named, kind != "profile" && kind != "service", name == "", strings.Contains(name, "/"):
			n.Fault("%s is no scope; write all, profiles, or profile/NAME or service/NAME, where NAME may be a pattern such as *", document.Quote(s))
			return
		}
		*p = s
	}
}

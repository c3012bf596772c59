package move

import (
	"slices"
	"strings"
)

// ChooseUser sets the user of everything that names none: the one given, or else that which
// most services of the source name, of equals the first.
func (p *Plan) ChooseUser(given string) {
	defer p.dropCommonUser()
	if given != "" {
		p.User, p.UserWhy = Literal(given), "# as --user says"
		return
	}
	if p.User != "" {
		return
	}
	count := map[string]int{}
	best := ""
	for _, s := range p.Services {
		user, _ := s.Keys.Get("user").(string)
		if user == "" || strings.ContainsAny(user, "${}") || s.Keys.Has("group") {
			continue
		}
		if count[user]++; count[user] > count[best] {
			best = user
		}
	}
	p.User, p.UserWhy = best, "# the user that most services of the source have"
	if best == "" {
		p.UserWhy = "# the source names no user; --user names another. It needs no line in passwd"
	}
}

// dropCommonUser takes the user out of services that have it anyway.
func (p *Plan) dropCommonUser() {
	for _, s := range slices.Concat(p.Services, p.Boot) {
		if p.User != "" && s.Keys.Get("user") == p.User && !s.Keys.Has("group") {
			s.Keys.Drop("user")
		}
	}
	dirs, _ := p.Top.Get("dirs").([]*Map)
	for _, d := range dirs {
		if p.User != "" && d.Get("owner") == p.User {
			d.Drop("owner")
		}
	}
}

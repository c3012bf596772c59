package config

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"rlminit/internal/document"
	"rlminit/service"
	"rlminit/wire"
)

// PageService is the service that the section page makes, and PageProgram its program,
// from the directory of the running binary.
const (
	PageService = "page"
	PageProgram = "rlminit-page"
)

const (
	pageUser   = 49998     // its uid, and the gid of that number, where page.user does not say
	pageMemory = 128 << 20 // its limit, in bytes, where there are cgroups
)

// Page is the section page: what shows the services to a browser.
type Page struct {
	Listen string // address:port, or unix: and an absolute path
	Allow  service.Control
	User   int64 // its uid, and the gid of that number

	token, cert, key string // absolute paths; "": none
	behind           string // "proxy", or ""
	hosts            []string
}

// page reads the section.
func (p *parser) page(n document.Node) {
	g := &Page{Allow: service.ControlRead, User: pageUser}
	document.Fields{
		"listen": document.Address(&g.Listen, "127.0.0.1:9118, or unix:/page/page.sock"),
		"token":  document.Fields{"file": document.Path(&g.token)}.Read,
		"allow":  document.OneOf(&g.Allow, service.ControlRead, service.ControlOperate, service.ControlApprove),
		"tls":    document.Fields{"cert": document.Path(&g.cert), "key": document.Path(&g.key)}.Read,
		"behind": document.OneOf(&g.behind, "proxy"),
		"hosts":  document.Each(&g.hosts, hostName),
		"user":   document.Int(&g.User, 1, int64(service.MaxID)),
	}.Read(n)
	if n.Describes() || n.Absent() {
		return
	}
	n.Needs("listen", "listen: 127.0.0.1:9118")
	if tls := n.Get("tls"); !tls.Absent() {
		tls.Needs("cert", "tls: {cert: /etc/rlminit/page.crt, key: /etc/rlminit/page.key}")
		tls.Needs("key", "tls: {cert: /etc/rlminit/page.crt, key: /etc/rlminit/page.key}")
	}
	g.checkExposure(n)
	p.config.Page = g
	p.sections = append(p.sections, func() { p.pageService(g, n) })
}

// checkExposure refuses an address where somebody could reach the page that should
// not.
func (g *Page) checkExposure(n document.Node) {
	if g.Listen == "" || strings.HasPrefix(g.Listen, "unix:") {
		return
	}
	if n.Get("token").Get("file").Absent() {
		n.Fault("token is missing: without one, every service in the container could use the page at %s; write token: {file: /etc/rlminit/page.token}, or listen on unix:PATH", g.Listen)
	}
	at, _ := netip.ParseAddrPort(g.Listen)
	if !at.Addr().IsLoopback() && n.Get("tls").Absent() && n.Get("behind").Absent() {
		n.Get("listen").Fault("%s can be reached from elsewhere, and the token would go there in the clear; add tls: {cert: PATH, key: PATH}, or behind: proxy if one with TLS is before it", g.Listen)
	}
}

// hostName reads a name that a request may have in its Host header.
func hostName(p *string) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		odd := strings.ContainsFunc(s, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-.", unicode.ToLower(r))
		})
		if _, err := netip.ParseAddr(s); ok && !n.Describes() && err != nil && (odd || s == "" || len(s) > 253) {
			n.Fault("%s is no name of a host; write it as in a URL, without scheme, port and path, such as box.example.org", document.Quote(s))
			return
		}
		*p = strings.ToLower(s)
	}
}

// made adds the service that a section makes, which has the section's name, and runs a
// program beside rlminit; nil: another service has the name.
func (p *parser) made(section, program string, at document.Node) *service.Definition {
	if _, taken := p.declared[section]; taken {
		text := fmt.Sprintf("the name %s is taken by the section %[1]s, at line %d; give this service another one", section, at.Line())
		p.faults = append(p.faults, p.place(Fault{Service: section, Field: section, Text: text}))
		return nil
	}
	d := service.Default(section)
	self, _ := os.Executable() // without it there is no such program, and that is said
	d.Command = []string{filepath.Join(filepath.Dir(self), program)}
	d.Secrets, d.Environment = map[string]string{}, map[string]service.Value{}
	p.declared[section], p.config.Services[section] = declaration{at, ""}, d
	return d
}

// pageService sets the service that the section page makes.
func (p *parser) pageService(g *Page, at document.Node) {
	d := p.made(PageService, PageProgram, at)
	if d == nil {
		return
	}
	d.Control, d.Ready = g.Allow, &service.Probe{Notify: true, Timeout: 30 * time.Second}
	d.Limits.Memory = pageMemory
	d.Sockets = g.sockets()
	set := func(name, value string) {
		if value != "" {
			d.Environment[name] = service.Value{Text: value}
		}
	}
	for _, of := range [][3]string{{"TOKENS", "token", g.token}, {"CERT", "cert", g.cert}, {"KEY", "key", g.key}} {
		if of[2] != "" {
			d.Secrets[of[1]] = of[2]
			set("RLMINIT_PAGE_"+of[0], of[1])
		}
	}
	set("RLMINIT_PAGE_LISTEN", g.Listen)
	set("RLMINIT_PAGE_ALLOW", string(g.Allow))
	set("RLMINIT_PAGE_BEHIND", g.behind)
	set("RLMINIT_PAGE_FLEET", p.fleetAt)
	set("RLMINIT_PAGE_HOSTS", strings.Join(g.hosts, ","))
	set("GOMEMLIMIT", fmt.Sprint(pageMemory*3/4))
	runtime, _ := p.env("RLMINIT_RUNTIME_DIR")
	set("RLMINIT_RUNTIME_DIR", runtime)
	d.Check(at)
}

// sockets has the listener of the page. It is opened for it and passed, and PID 1 holds it:
// while the page is down no service can listen there, and ask people for their tokens.
// One at a path the page binds as its own user: held or not, it is as safe as its directory is.
func (g *Page) sockets() []service.Socket {
	if strings.HasPrefix(g.Listen, "unix:") {
		return nil
	}
	return []service.Socket{{Network: "tcp", Address: g.Listen, Name: PageService}}
}

// UID is the uid that the page is to have; of nil, that of the one that a reload may bring.
func (g *Page) UID() uint32 {
	if g == nil {
		return pageUser
	}
	return uint32(g.User)
}

// page is the uid of the page: nobody else's. Where it cannot have one of its own it has
// that of the services, and that is said.
func (k *compiler) page(p *wire.Policy) error {
	g, uid := k.config.Page, k.config.Page.UID()
	if why := k.alike(p, uid); why != "" {
		if g != nil {
			k.note("the page has the uid of the services, %d, and is told from them by its tag alone: %s", k.user.UID, why)
		}
		return nil
	}
	id := wire.Identity{UID: uid, GID: uid}
	whose := k.taken(id, p)
	switch {
	case uid == p.Supervisor.UID, uid == p.Supervisor.GID:
		whose = "is the supervisor's"
	case p.Profiles.Has(uid):
		whose = "is among profile_users"
	case p.TagLow != 0 && p.TagLow <= uid && uid <= p.TagHigh:
		whose = "is among tags"
	}
	if whose == "" {
		p.Profiles.Page = uid
	} else if g != nil {
		return fmt.Errorf("page.user %d %s; name a uid that nothing else has, as uid and as gid", uid, whose)
	}
	return nil
}

// alike says why nobody can have a uid beside those of the services and the supervisor;
// "": one can.
func (k *compiler) alike(p *wire.Policy, uid uint32) string {
	switch {
	case k.host.UID != 0:
		return fmt.Sprintf("rlminit was started as uid %d", k.host.UID)
	case p.Supervisor.UID == p.User.UID:
		return "the supervisor has none of its own either"
	case !mapped("/proc/self/uid_map", uid) || !mapped("/proc/self/gid_map", uid):
		return fmt.Sprintf("uid or gid %d is not among those that the container's user namespace has; name another in page.user", uid)
	}
	return ""
}

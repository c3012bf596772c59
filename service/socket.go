package service

import (
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"

	"rlminit/internal/document"
)

// Bounds of a service's sockets.
const (
	maxSockets  = 64  // what travels in one message
	maxUnixPath = 107 // sun_path less its NUL, unix(7)
)

var networks = []string{"tcp", "tcp4", "tcp6", "udp", "udp4", "udp6", "unix", "unixgram"}

// sockets reads the list anew: it replaces the present one.
func sockets(p *[]Socket) document.Setter {
	return func(n document.Node) {
		items, ok := n.Items()
		if len(items) > maxSockets {
			n.Fault("%d sockets; %d are the most", len(items), maxSockets)
			return
		}
		var list []Socket
		for _, item := range items {
			var s Socket
			document.Fields{
				"listen": listen(&s),
				"name":   socketName(&s.Name),
			}.Read(item)
			item.Needs("listen", `{listen: "tcp:127.0.0.1:8080"}`)
			if slices.ContainsFunc(list, func(o Socket) bool {
				return s.Network != "" && o.Network == s.Network && o.Address == s.Address
			}) {
				item.Fault("%s is used by two sockets; take one out", document.Quote(s.Network+":"+s.Address))
				ok = false
			}
			ok = ok && s.Network != ""
			list = append(list, s)
		}
		if ok {
			*p = list
		}
	}
}

// Listen reads NETWORK:ADDRESS of one of some networks.
func Listen(p *Socket, of ...string) document.Setter {
	return func(n document.Node) {
		var s Socket
		listenOn(&s, of)(n)
		if s.Network != "" {
			*p = s
		}
	}
}

// listen reads NETWORK:ADDRESS.
func listen(p *Socket) document.Setter { return listenOn(p, networks) }

// examples are sockets of each kind.
var examples = []struct{ network, socket string }{
	{"tcp", `"tcp:127.0.0.1:8080"`}, {"udp", `"udp:127.0.0.1:53"`}, {"unix", `"unix:/run/app.sock"`},
}

// exampleOf is a socket of each kind that there is among the networks.
func exampleOf(networks []string) string {
	var all []string
	for _, e := range examples {
		if slices.Contains(networks, e.network) {
			all = append(all, e.socket)
		}
	}
	return document.Or(all)
}

// listenOn reads NETWORK:ADDRESS of one of some networks.
func listenOn(p *Socket, networks []string) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		network, addr, found := strings.Cut(s, ":")
		switch {
		case !found || !slices.Contains(networks, network):
			n.Fault(`%s is no socket; write %s%s`, document.Quote(s), exampleOf(networks), document.DidYouMean(network, networks))
			return
		case strings.HasPrefix(network, "unix"):
			abstract := strings.HasPrefix(addr, "@") && len(addr) > 1
			if !path.IsAbs(addr) && !abstract {
				n.Fault(`%s is no absolute path; write "unix:/run/app.sock"`, document.Quote(addr))
				return
			}
			if len(addr) > maxUnixPath {
				n.Fault("the path has %d bytes; a socket's has at most %d", len(addr), maxUnixPath)
				return
			}
		default:
			host, port, err := net.SplitHostPort(addr)
			if err != nil || !validPort(port) {
				n.Fault(`%s is no address and port; write "%s:127.0.0.1:8080"`, document.Quote(addr), network)
				return
			}
			ip, err := netip.ParseAddr(host)
			switch {
			case host != "" && host != "localhost" && err != nil:
				n.Fault("%s is no IP address; write 127.0.0.1 or [::1]", document.Quote(host))
				return
			case err == nil && strings.HasSuffix(network, "4") && !ip.Is4(), err == nil && strings.HasSuffix(network, "6") && !ip.Is6():
				n.Fault("%s is no address of %s; write %s:…", document.Quote(host), network, network[:3])
				return
			}
		}
		p.Network, p.Address = network, addr
	}
}

// socketName reads a name as LISTEN_FDNAMES can carry it, sd_listen_fds(3).
func socketName(p *string) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		odd := strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' })
		if s == "" || len(s) > 255 || odd {
			n.Fault(`%s is no name; write up to 255 letters and digits, without ":"`, document.Quote(s))
			return
		}
		*p = s
	}
}

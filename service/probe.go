package service

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"rlminit/internal/document"
)

// ready reads a probe over the present one. A kind replaces the kind that was
// there.
func ready(p **Probe) document.Setter {
	return func(n document.Node) {
		probe := Probe{Timeout: 30 * time.Second}
		if *p != nil {
			probe = **p
		}
		fields := probe.fields(n)
		fields["timeout"] = document.Duration(&probe.Timeout, time.Millisecond)
		fields.Read(n)
		if probe.check(n, "notify: true, tcp: ADDR, http: URL or exec: [argv]") {
			*p = &probe
		}
	}
}

func health(p **Health) document.Setter {
	return func(n document.Node) {
		h := Health{
			Probe:    Probe{Timeout: 3 * time.Second},
			Interval: 10 * time.Second, Retries: 3, Action: HealthRestart,
		}
		if *p != nil {
			h = **p
		}
		fields := h.fields(n)
		fields["timeout"] = document.Duration(&h.Timeout, time.Millisecond)
		fields["interval"] = document.Duration(&h.Interval, time.Millisecond)
		fields["retries"] = document.Int(&h.Retries, 1, 1_000_000)
		fields["start_period"] = document.Duration(&h.StartPeriod, 0)
		fields["action"] = document.OneOf(&h.Action, HealthRestart, HealthNone)
		fields.Read(n)
		if h.Notify {
			at(n, "notify").Fault("notify is no health probe; write watchdog: 30s for a service that reports by itself")
			return
		}
		if h.check(n, "tcp: ADDR, http: URL or exec: [argv]") {
			*p = &h
		}
	}
}

// fields are the kinds of a probe. Where n names one, the old one is forgotten.
func (p *Probe) fields(n document.Node) document.Fields {
	for _, kind := range []string{"notify", "tcp", "http", "exec"} {
		if !n.Get(kind).Absent() {
			p.Notify, p.TCP, p.HTTP, p.Exec = false, "", "", nil
		}
	}
	return document.Fields{
		"notify": document.Bool(&p.Notify),
		"tcp":    address(&p.TCP),
		"http":   httpURL(&p.HTTP),
		"exec":   argv(&p.Exec),
	}
}

// check demands exactly one kind. A kind that is there but wrong has been
// reported already.
func (p *Probe) check(n document.Node, kinds string) bool {
	set, named := 0, 0
	for _, has := range []bool{p.Notify, p.TCP != "", p.HTTP != "", p.Exec != nil} {
		if has {
			set++
		}
	}
	for _, kind := range []string{"tcp", "http", "exec"} {
		if !n.Get(kind).Absent() {
			named++
		}
	}
	switch {
	case !n.IsMapping():
		return false
	case max(set, named) > 1 || p.Notify && named > 0:
		n.Fault("names more than one kind; write one of %s", kinds)
	case set == 0 && named == 0 && (n.Get("notify").Absent() || !n.Get("notify").IsScalar()):
		n.Fault("names no kind; write %s", kinds)
	case set == 0 && named == 0:
		n.Fault("notify is off and no other kind is named; write %s, or leave ready out", kinds)
	}
	return set == 1 && named <= 1
}

// address reads host:port; without a host, this one.
func address(p *string) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		if _, err := strconv.ParseUint(s, 10, 16); err == nil {
			n.Fault("%s has no host; write 127.0.0.1:%s", document.Quote(s), s)
			return
		}
		host, port, err := net.SplitHostPort(s)
		if err != nil || !validPort(port) || strings.ContainsAny(host, " /") {
			n.Fault("%s is no address; write 127.0.0.1:8080", document.Quote(s))
			return
		}
		if host == "" {
			host = "127.0.0.1"
		}
		*p = net.JoinHostPort(host, port)
	}
}

// Local is where a TCP or HTTP probe asks on this machine: a port, and the address, "" for
// any. The port is 0 where it asks elsewhere, or otherwise.
func (p *Probe) Local() (host string, port int) {
	address := p.TCP
	if u, err := url.Parse(p.HTTP); p.HTTP != "" && err == nil {
		standard := map[string]string{"http": "80", "https": "443"}[u.Scheme]
		address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), standard))
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0
	}
	port, err = strconv.Atoi(text)
	ip, notIP := netip.ParseAddr(host)
	switch {
	case err != nil:
		return "", 0
	case host == "localhost", notIP == nil && ip.IsUnspecified():
		return "", port
	case notIP == nil && ip.IsLoopback():
		return ip.String(), port
	}
	return "", 0
}

func validPort(s string) bool {
	port, err := strconv.ParseUint(s, 10, 16)
	return err == nil && port > 0
}

func httpURL(p *string) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok {
			return
		}
		u, err := url.Parse(s)
		switch {
		case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
			n.Fault("%s is no URL; write http://127.0.0.1:8080/health", document.Quote(s))
		case u.Port() != "" && !validPort(u.Port()):
			n.Fault("%s has no valid port; write http://127.0.0.1:8080/health", document.Quote(s))
		default:
			*p = s
		}
	}
}

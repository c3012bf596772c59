package main

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"

	"rlminit/beside/page/gate"
	"rlminit/beside/page/view"
)

// settings are as the environment or the flags have them.
type settings struct {
	Listen    string
	Tokens    string
	Cert, Key string
	Allow     string
	Behind    string
	Hosts     []string
	Fleet     string
}

// fromEnvironment reads what the supervisor has set. A path that is not absolute is below
// the service's directory of credentials.
func fromEnvironment(get func(string) string) *settings {
	file := func(name string) string {
		path := get(name)
		if dir := get("CREDENTIALS_DIRECTORY"); path != "" && dir != "" && !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path
	}
	s := &settings{
		Listen: cmp.Or(get("RLMINIT_PAGE_LISTEN"), "127.0.0.1:9118"), Tokens: file("RLMINIT_PAGE_TOKENS"),
		Cert: file("RLMINIT_PAGE_CERT"), Key: file("RLMINIT_PAGE_KEY"),
		Allow: cmp.Or(get("RLMINIT_PAGE_ALLOW"), "read"), Behind: get("RLMINIT_PAGE_BEHIND"), Fleet: get("RLMINIT_PAGE_FLEET"),
	}
	for host := range strings.SplitSeq(get("RLMINIT_PAGE_HOSTS"), ",") {
		if host = strings.TrimSpace(host); host != "" {
			s.Hosts = append(s.Hosts, host)
		}
	}
	return s
}

// checked are settings that were found to be safe.
type checked struct {
	gate  gate.Settings
	allow view.Allow
	unix  string // the path of the socket; "": it is TCP
	tls   *tls.Config
}

// check refuses settings that would let a stranger in, or show others what is sent.
func (s *settings) check() (c checked, err error) {
	if c.allow, err = view.ParseAllow(s.Allow); err != nil {
		return c, misused("%v", err)
	}
	if s.Behind != "" && s.Behind != "proxy" {
		return c, misused("cannot be behind %q: it is proxy, or nothing", s.Behind)
	}
	if (s.Cert == "") != (s.Key == "") {
		return c, misused("cannot speak TLS: a certificate and its key belong together; give both, or neither")
	}
	path, isUnix := strings.CutPrefix(s.Listen, "unix:")
	c.gate = gate.Settings{Listen: s.Listen, Hosts: s.Hosts, TLS: s.Cert != "", Behind: s.Behind == "proxy"}
	switch {
	case isUnix && !filepath.IsAbs(path):
		return c, misused("cannot listen on %s: the path of a socket begins with /", s.Listen)
	case isUnix:
		c.unix = path
	default:
		if err := s.checkAddress(c.gate); err != nil {
			return c, err
		}
	}
	if s.Tokens != "" {
		if c.gate.Tokens, err = gate.OpenTokens(s.Tokens); err != nil {
			return c, err
		}
	}
	if s.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return c, fmt.Errorf("cannot speak TLS: %w", err)
		}
		c.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	return c, nil
}

// checkAddress refuses a TCP address that everybody could use, or listen in on.
func (s *settings) checkAddress(g gate.Settings) error {
	host, port, err := net.SplitHostPort(s.Listen)
	if err != nil || port == "" {
		return misused("cannot listen on %q: it is ADDRESS:PORT, such as 127.0.0.1:9118, or unix:PATH", s.Listen)
	}
	address, err := netip.ParseAddr(host)
	if host != "" && host != "localhost" && err != nil {
		return misused("cannot listen on %q: %s is no address; write one such as 127.0.0.1 or [::]", s.Listen, host)
	}
	loopback := host == "localhost" || err == nil && address.IsLoopback()
	switch {
	case s.Tokens == "":
		return misused("cannot listen on %s without tokens: every service of the container can connect there; give --tokens FILE, or listen on unix:PATH", s.Listen)
	case !loopback && !g.TLS && !g.Behind:
		return misused("cannot listen on %s without TLS: tokens would cross the network in the clear; give --cert and --key, or --behind proxy if one speaks TLS in its place, or listen on 127.0.0.1", s.Listen)
	}
	return nil
}

// Package verbs is the command line of rlminit fleet.
package verbs

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"rlminit/fleet/agent"
	"rlminit/fleet/store"
	"rlminit/internal/document"
	"rlminit/service"
)

// defaultConfig is the file of which the section fleet is read.
func defaultConfig() string { return cmp.Or(os.Getenv("RLMINIT_CONFIG"), "/etc/rlminit/rlminit.yaml") }

// settings are a section fleet.
type settings struct {
	Store    store.Config
	Password string // the file of etcd.user.password
	Member   string
	Lease    time.Duration
	Weight   float64
	Capacity int
	Labels   map[string]string
	Dir      string
	Bucket   string
	Every    time.Duration
	Release  time.Duration
	Listen   string // "": nowhere
}

// readSettings reads the section fleet of a configuration. ${HOSTNAME} and other variables are those of the
// environment.
func readSettings(path string) (*settings, error) {
	s, err := readSection(path, func(*settings, document.Node) {})
	if err != nil {
		return nil, err
	}
	return s, s.readPassword()
}

// readMember is readSettings for an agent: what only an agent cannot do is a fault too.
func readMember(path string) (*settings, error) {
	return readSection(path, func(s *settings, top document.Node) {
		if user := top.Get("gateway").Get("user"); s.Bucket != "" && !user.Absent() && user.Raw() == "auto" {
			top.Get("fleet").Get("data").Fault("needs profiles that belong to the service user, whose files the agent can read, and gateway.user is auto; leave out one of them")
		}
	})
}

// readSection reads the section fleet, and has more looked at by further.
func readSection(path string, further func(*settings, document.Node)) (*settings, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the fleet's configuration: %w; name another file with --config", err)
	}
	s := &settings{Lease: 10 * time.Second, Weight: 1, Every: 5 * time.Minute, Labels: map[string]string{}}
	doc, malformed := document.Parse(path, text)
	top, reading := doc.Read(os.LookupEnv)
	section := top.Get("fleet")
	switch {
	case len(malformed) > 0:
	case section.Absent():
		top.Fault("there is no section fleet; write fleet: {name: FLEET, member: ${HOSTNAME}, etcd: {endpoints: [http://HOST:2379]}}")
	default:
		s.fields().Read(section)
		s.needs(section)
		further(s, top)
	}
	return s, reading.Faults().Err()
}

// readPassword reads the file of etcd.user.password, if there is one.
func (s *settings) readPassword() error {
	if s.Password == "" {
		return nil
	}
	secret, err := os.ReadFile(s.Password)
	if err != nil {
		return fmt.Errorf("cannot read etcd.user.password: %w", err)
	}
	s.Store.Password = strings.TrimSuffix(string(secret), "\n")
	return nil
}

// shortest is the shortest lease, which leaves the gateways at least half of it.
const shortest = 4 * time.Second

func (s *settings) fields() document.Fields {
	sub := func(fields document.Fields) document.Setter { return func(n document.Node) { fields.Read(n) } }
	return document.Fields{
		"name":     name(&s.Store.Fleet),
		"member":   name(&s.Member),
		"lease":    document.Duration(&s.Lease, shortest),
		"weight":   document.Float(&s.Weight, 0.01, 1000),
		"capacity": document.Int(&s.Capacity, 0, 1_000_000),
		"labels":   labels(s.Labels),
		"dir":      document.Path(&s.Dir),
		"release":  document.Duration(&s.Release, 0),
		"listen":   document.Address(&s.Listen, "127.0.0.1:9119, or unix:/run/fleet.sock"),
		"etcd": sub(document.Fields{
			"endpoints": document.Strings(&s.Store.Endpoints),
			"timeout":   document.Duration(&s.Store.Timeout, 100*time.Millisecond),
			"tls": sub(document.Fields{
				"ca": document.Path(&s.Store.CA), "cert": document.Path(&s.Store.Cert), "key": document.Path(&s.Store.Key),
			}),
			"user": sub(document.Fields{
				"name":     document.Word(&s.Store.User),
				"password": sub(document.Fields{"file": document.Path(&s.Password)}),
			}),
		}),
		"data": sub(document.Fields{
			"bucket": document.Word(&s.Bucket),
			"every":  document.Duration(&s.Every, time.Second),
		}),
	}
}

func (s *settings) needs(top document.Node) {
	if s.Store.Fleet == "" {
		top.Fault("name is missing; write name: FLEET, the same for all members")
	}
	if s.Member == "" {
		top.Fault("member is missing; write member: ${HOSTNAME}, or another name that no other member has")
	}
	if len(s.Store.Endpoints) == 0 {
		top.Fault("etcd.endpoints is missing; write etcd: {endpoints: [http://HOST:2379]}")
	}
	if (s.Store.Cert == "") != (s.Store.Key == "") {
		top.Fault("etcd.tls.cert and etcd.tls.key belong together; give both, or neither")
	}
	if s.Lease%time.Second != 0 {
		top.Fault("lease is %s, and etcd takes whole seconds", s.Lease)
	}
	s.Store.Lease = s.Lease
}

// name reads the name of a fleet or a member, which is part of a key.
func name(p *string) document.Setter {
	return func(n document.Node) {
		text, ok := n.Text()
		if !ok {
			return
		}
		if fault := service.CheckName(text); fault != "" {
			n.Fault("%s %s", document.Quote(text), fault)
			return
		}
		*p = text
	}
}

func labels(into map[string]string) document.Setter {
	return func(n document.Node) {
		n.Each(func(key, value document.Node) {
			text := ""
			document.String(&text)(value)
			into[key.Key()] = text
		})
	}
}

// dir is where the agent leaves its session: below the runtime directory of a service if it
// has one, else in memory.
func (s *settings) dir() string {
	switch {
	case s.Dir != "":
		return s.Dir
	case os.Getenv("RUNTIME_DIRECTORY") != "":
		return filepath.Join(os.Getenv("RUNTIME_DIRECTORY"), "fleet")
	}
	return fmt.Sprintf("/dev/shm/rlminit-fleet-%d", os.Geteuid())
}

func (s *settings) agent() agent.Config {
	c := agent.Config{Member: s.Member, TTL: int64(s.Lease)}
	if s.Bucket != "" {
		c.Every = int64(s.Every)
	}
	return c
}

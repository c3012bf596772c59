package systemd

import (
	"path/filepath"
	"slices"
	"strings"

	"rlminit/beside/move"
)

// relations says what services wait for.
func (r *reader) relations() {
	for _, name := range r.order {
		u := r.units[name]
		s := r.made[u]
		if s == nil {
			continue
		}
		for _, rel := range []struct {
			keys []string
			to   *[]string
		}{
			{[]string{"Requires", "Requisite", "BindsTo"}, &s.Requires},
			{[]string{"Wants", "Upholds"}, &s.Wants},
			{[]string{"After"}, &s.After},
		} {
			for _, n := range u.names("Unit", rel.keys...) {
				if other := r.other(u, s, n); other != nil {
					*rel.to = append(*rel.to, other.Source)
				}
			}
		}
		for _, n := range u.names("Unit", "Before") {
			if other := r.other(u, s, n); other != nil && !s.Kind {
				other.After = append(other.After, s.Source)
			}
		}
		for _, n := range u.names("Unit", "PartOf") {
			if other := r.other(u, s, n); other != nil && !slices.Contains(s.Requires, other.Source) {
				r.plan.Leave(n.by.at, s, move.Near, "PartOf", "a service is stopped with what it requires; write requires: ["+other.Name+"] if it is to be, which starts that too")
			}
		}
	}
}

// other is the service that a unit names; nil, if there is none, which is said unless it is
// nothing that a container would wait for.
func (r *reader) other(u *unitFile, s *move.Service, n named) *move.Service {
	if strings.Contains(n.unit, "%") && u.instance != "" {
		n.unit = strings.NewReplacer("%i", u.instance, "%I", u.instance, "%p", u.stem).Replace(n.unit)
	}
	ext := filepath.Ext(n.unit)
	if strings.Contains(n.unit, "%") {
		r.plan.Leave(n.by.at, s, move.NoEqual, n.by.name+" "+move.Short(n.unit), "what an instance waits for is in its profile here; write requires or after into its profile.yaml")
		return nil
	}
	for _, name := range r.order {
		other := r.units[name]
		if (name == n.unit || slices.Contains(other.aliases, n.unit)) && r.made[other] != nil && other != u && !other.template {
			return r.made[other]
		}
	}
	at := newUnit(n.unit, "")
	switch {
	case ext == ".target" || ext == ".slice" || ext == ".mount" || ext == ".automount" || ext == ".device" || ext == ".path":
		// The engine has made the container when it starts, and its network.
		if ext == ".target" && r.units[n.unit] == nil && !slices.Contains(passed, n.unit) {
			r.plan.Leave(n.by.at, s, move.Missing, n.by.name+" "+move.Short(n.unit), "rlminit has no targets; name the services that it waits for")
		}
	case ext == ".socket" && (at.stem == u.stem || r.units[n.unit] != nil):
	case n.by.name == "Before":
		// Those that are not there do not mind.
	case n.by.name == "After" && (strings.HasPrefix(n.unit, "systemd-") || slices.Contains(machine, n.unit)):
	default:
		r.plan.Leave(n.by.at, s, move.Missing, n.by.name+" "+move.Short(n.unit), "there is no such service in what was read; import it too, or it is not waited for")
	}
	return nil
}

// passed are targets that a container has reached when it starts, or that say nothing in one.
var passed = []string{
	"basic.target", "sysinit.target", "local-fs.target", "local-fs-pre.target", "remote-fs.target", "remote-fs-pre.target", "swap.target", "paths.target", "sockets.target", "timers.target",
	"network.target", "network-online.target", "network-pre.target", "nss-lookup.target", "nss-user-lookup.target", "time-sync.target", "time-set.target", "multi-user.target",
	"default.target", "graphical.target", "rescue.target", "emergency.target", "shutdown.target", "umount.target", "rpcbind.target", "getty.target", "first-boot-complete.target", "sleep.target", "suspend.target", "hibernate.target", "hybrid-sleep.target", "final.target", "reboot.target", "halt.target", "poweroff.target", "cryptsetup.target", "slices.target", "machines.target",
}

// machine are services that set up a machine, which no container has to wait for.
var machine = []string{
	"dbus.service", "syslog.service", "auditd.service", "NetworkManager.service", "networking.service", "ifupdown.service", "firewalld.service", "iptables.service",
	"ip6tables.service", "nftables.service", "ipset.service", "ntp.service", "ntpdate.service", "openntpd.service", "udev.service", "keyboard-setup.service", "console-setup.service", "apparmor.service",
}

// enable says which services start at boot: those that some target wants, and those that
// these need.
func (r *reader) enable() {
	starts := map[*move.Service]bool{}
	var add func(s *move.Service)
	add = func(s *move.Service) {
		if s == nil || starts[s] {
			return
		}
		starts[s] = true
		for _, source := range slices.Concat(s.Requires, s.Wants) {
			add(r.plan.Find(source))
		}
	}
	for _, name := range r.order {
		u := r.units[name]
		if s := r.made[u]; s != nil && (u.wanted || len(u.names("Install", "WantedBy", "RequiredBy")) > 0 || s.Keys.Has("schedule")) {
			add(s)
		}
	}
	for _, name := range r.order {
		s := r.made[r.units[name]]
		switch {
		case s == nil || s.Keys.Has("enabled") || starts[s]:
		case s.Kind:
			s.Comment = append(s.Comment, "no target wants an instance: one that is created is started all the same")
		case s.Keys.Has("sockets"):
		default:
			s.Keys.Set("enabled", false)
			s.Comment = append(s.Comment, "no target wants it, so no boot starts it")
		}
	}
}

// socket gives the sockets of a unit to its service.
func (r *reader) socket(u *unitFile) {
	name := u.stem + ".service"
	if o, there := u.last("Socket", "Service"); there {
		name = o.value
	}
	target := r.units[name]
	s := r.made[target]
	accept, _ := u.last("Socket", "Accept")
	switch {
	case u.template || u.instance != "" || s != nil && s.Kind:
		r.plan.Leave(u.at, s, move.NoEqual, move.Short(u.name), "a socket of a template is not taken over; write sockets into a service of its own")
		return
	case truth(accept.value):
		r.plan.Leave(accept.at, nil, move.NoEqual, move.Short(u.name), "no process is started for each connection here; write a service that accepts them")
		return
	case s == nil:
		r.plan.Leave(u.at, nil, move.Missing, move.Short(u.name), "there is no service "+move.Short(name)+" that it is for; import it too")
		return
	}
	called, _ := u.last("Socket", "FileDescriptorName")
	var list []*move.Map
	for _, o := range u.options {
		if o.section != "Socket" || o.value == "" {
			continue
		}
		switch o.name {
		case "ListenStream", "ListenDatagram":
			one := (&move.Map{}).Set("listen", move.Literal(address(o.name == "ListenDatagram", o.value)))
			one.Add("name", move.Literal(called.value))
			list = append(list, one)
		case "Service", "Accept", "FileDescriptorName":
		default:
			r.plan.Leave(o.at, s, move.NoEqual, o.name, "a socket here has an address and a name alone; the container's user opens it")
		}
	}
	if len(list) > 0 {
		s.Keys.Set("sockets", list)
		s.Comment = append(s.Comment, "with the sockets of "+u.name+"; it starts at boot, not at the first connection")
		if !s.Keys.Has("enabled") && len(u.names("Install", "WantedBy", "RequiredBy")) == 0 && !u.wanted {
			s.Comment = append(s.Comment, "no target wants the socket")
		}
	}
}

// address is one of ListenStream as rlminit writes it.
func address(datagram bool, value string) string {
	kind, local := "tcp", "unix"
	if datagram {
		kind, local = "udp", "unixgram"
	}
	switch {
	case strings.HasPrefix(value, "/"), strings.HasPrefix(value, "@"):
		return local + ":" + value
	case strings.Contains(value, ":"):
		return kind + ":" + value
	}
	return kind + ":0.0.0.0:" + value
}

// timer makes a schedule of a timer, for its service.
func (r *reader) timer(u *unitFile) {
	name := u.stem + ".service"
	if u.template || u.instance != "" {
		name = u.stem + "@" + u.instance + ".service"
	}
	if o, there := u.last("Timer", "Unit"); there {
		name = o.value
	}
	s := r.made[r.units[name]]
	if s == nil {
		r.plan.Leave(u.at, nil, move.Missing, move.Short(u.name), "there is no service "+move.Short(name)+" that it is for; import it too")
		return
	}
	schedule := &move.Map{}
	for _, o := range u.options {
		switch {
		case o.section != "Timer" || o.value == "" || o.name == "Unit":
		case o.name == "OnCalendar" && !schedule.Has("cron"):
			if expression, ok := cron(o.value); ok {
				schedule.Set("cron", expression)
			} else {
				r.plan.Leave(o.at, s, move.NoEqual, o.name, move.Short(o.value)+" is no time that import can write as cron; write schedule: {cron: \"0 3 * * *\"}")
			}
		case o.name == "Persistent" && truth(o.value):
			schedule.Set("catch_up", "one")
		case o.name == "RandomizedDelaySec":
			if d, ok := duration(o.value); ok {
				schedule.Set("jitter", move.Time(d))
			}
		case o.name == "AccuracySec" || o.name == "Persistent":
		default:
			r.plan.Leave(o.at, s, move.NoEqual, o.name, "a schedule here is an expression of cron; write schedule: {cron: \"0 3 * * *\"}")
		}
	}
	if !schedule.Has("cron") {
		return
	}
	k := &s.Keys
	if k.Get("type") != "oneshot" {
		k.Set("type", "oneshot")
		s.Comment = append(s.Comment, "a schedule runs it, so it is a oneshot")
	}
	k.Set("restart", "no")
	k.Set("schedule", schedule)
}

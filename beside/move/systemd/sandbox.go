package systemd

import (
	"slices"
	"strconv"
	"strings"

	"rlminit/beside/move"
	"rlminit/service"
)

// sandbox reads rights, limits of a cgroup, and what may be written.
func (c *conversion) sandbox() {
	c.capabilities()
	c.resources()
	if o, there := c.unit.last("Service", "NoNewPrivileges"); there && !truth(o.value) && c.unit.template {
		c.leave(o, move.Rights, "a gateway gains no rights here, for profiles may change what it runs; write a service of its own")
	} else if there && !truth(o.value) {
		c.to.Keys.Sub("sandbox").Set("no_new_privs", false)
	}
	c.paths()
}

// capabilities are those that the service keeps: ambient ones of a user, and those that
// bound a root's. A bounding set of what a service without rights loses anyway says nothing.
func (c *conversion) capabilities() {
	bounding := c.unit.all("Service", "CapabilityBoundingSet")
	list := c.unit.all("Service", "AmbientCapabilities")
	_, named := c.unit.last("Service", "User")
	if !named && len(list) == 0 {
		list = bounding
	}
	var caps []string
	for _, o := range list {
		if strings.HasPrefix(o.value, "~") {
			c.leave(o, move.Near, "a service here has no capabilities but those that sandbox: {capabilities: […]} names; name those which it needs")
			continue
		}
		for _, w := range strings.Fields(o.value) {
			name := strings.TrimPrefix(strings.ToUpper(w), "CAP_")
			if _, known := service.CapabilityNumber("CAP_" + name); !known {
				c.leave(o, move.Unknown, move.Short(w)+" is no capability that rlminit knows")
			} else if !slices.Contains(caps, name) {
				caps = append(caps, name)
			}
		}
	}
	if len(caps) == 0 {
		return
	}
	if c.unit.template {
		c.leave(list[0], move.Rights, "a kind gets no capabilities; write a service of its own for what needs "+strings.Join(caps, ", "))
		return
	}
	c.to.Keys.Sub("sandbox").Set("capabilities", caps)
	c.leave(list[0], move.Outside, "the container must have them too, or the service does not start: docker run --cap-add")
}

// resources are limits of the service as a whole.
func (c *conversion) resources() {
	for _, key := range []string{"MemoryLimit", "MemoryMax"} {
		if o, there := c.unit.last("Service", key); there && o.value != "infinity" {
			if strings.HasSuffix(o.value, "%") {
				c.leave(o, move.NoEqual, "a share of the machine's memory is no limit here; write limits: {memory: 512MiB}")
			} else {
				c.to.Keys.Sub("limits").Set("memory", move.Literal(limitValue(o.value)))
			}
		}
	}
	if o, there := c.unit.last("Service", "TasksMax"); there && o.value != "infinity" {
		if n, err := strconv.Atoi(o.value); err == nil && n > 0 {
			c.to.Keys.Sub("limits").Set("pids", n)
		} else {
			c.leave(o, move.NoEqual, "a share of the machine's processes is no limit here; write limits: {pids: 100}")
		}
	}
	if o, there := c.unit.last("Service", "CPUQuota"); there {
		if f, err := strconv.ParseFloat(strings.TrimSuffix(o.value, "%"), 64); err == nil && f > 0 && f < 1_000_000 {
			c.to.Keys.Sub("limits").Set("cpu", f/100)
		} else {
			c.leave(o, move.Invalid, move.Short(o.value)+" is no share of a processor; write limits: {cpu: 0.5}")
		}
	}
}

// paths make isolation of ProtectSystem=strict: nothing is written but what is listed. With
// true and full, nothing is lost: the files of the image are root's, which no service is.
func (c *conversion) paths() {
	var write, read []string
	for key, to := range map[string]*[]string{"ReadWritePaths": &write, "ReadWriteDirectories": &write, "ReadOnlyPaths": &read, "ReadOnlyDirectories": &read} {
		for _, o := range c.unit.all("Service", key) {
			list, err := split(o.value)
			if err != nil {
				c.leave(o, move.Invalid, err.Error())
			}
			for _, path := range list {
				if whole := strings.TrimRight(strings.TrimLeft(path, "-+"), "/"); whole == "" || whole == "/run" {
					c.leave(o, move.Near, move.Short(path)+" holds rlminit's own directory, which isolation hides; name what the service needs in it")
					continue
				}
				*to = append(*to, finish(c.specifiers(o, strings.TrimLeft(path, "-+"))))
			}
		}
	}
	for key, dir := range map[string]string{"RuntimeDirectory": "/run/", "StateDirectory": "/var/lib/", "CacheDirectory": "/var/cache/", "LogsDirectory": "/var/log/"} {
		if o, there := c.unit.last("Service", key); there {
			for _, name := range strings.Fields(o.value) {
				name, _, _ = strings.Cut(name, ":")
				path := finish(dir + c.specifiers(o, name))
				write = append(write, path)
				c.leave(o, move.NoEqual, "nothing makes "+move.Short(path)+" here; make it in the image, for the service's user (what is below /run, when the container starts)")
			}
		}
	}
	slices.Sort(write)
	slices.Sort(read)
	o, there := c.unit.last("Service", "ProtectSystem")
	private, tmp := c.unit.last("Service", "PrivateTmp")
	if !there || o.value != "strict" || c.to.Keys.Sub("sandbox").Get("no_new_privs") == false {
		if tmp && truth(private.value) {
			c.leave(private, move.NoEqual, "/tmp is everybody's here; isolation: {level: profile} gives it a TMPDIR of its own")
		}
		for _, o := range append(c.unit.all("Service", "ReadOnlyPaths"), c.unit.all("Service", "ReadOnlyDirectories")...) {
			c.leave(o, move.NoEqual, "what the service's user may write to, its mode says; isolation: {level: profile} restricts it to what is listed")
		}
		if len(c.to.Keys.Sub("sandbox").Keys()) == 0 {
			c.to.Keys.Drop("sandbox")
		}
		return
	}
	if len(c.to.Keys.Sub("sandbox").Keys()) == 0 {
		c.to.Keys.Drop("sandbox")
	}
	c.to.Keys.Sub("isolation").Set("level", "profile").Add("read", read).Add("write", slices.Compact(write))
	c.leave(o, move.Near, "isolation: {level: profile} allows what is listed and the image; add paths that the service misses, such as /tmp or /var, to write")
}

package compose

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/beside/move"
	definition "rlminit/service"
)

// service is one of a Compose file.
type service struct {
	r    *reader
	name string
	dir  string // of the file
	body map[string]any
	to   *move.Service // nil where it could not become one

	image *image // nil: nothing is known of it
}

// take notes the services of a project.
func (r *reader) take(model map[string]any, file string) {
	services := mapping(model["services"])
	for _, name := range sorted(services) {
		if slices.ContainsFunc(r.all, func(s *service) bool { return s.name == name }) {
			r.plan.Leave(r.at(name, ""), nil, move.Invalid, move.Short(name), "a file that includes this one has a service of that name, which is taken")
			continue
		}
		r.all = append(r.all, &service{r: r, name: name, dir: filepath.Dir(file), body: mapping(services[name])})
	}
}

func (s *service) leave(key string, reason move.Reason, what, why string) {
	s.r.plan.Leave(s.r.at(s.name, key), s.to, reason, what, why)
}

// reader of one key of a service.
type setter func(s *service, v any)

// setters are the keys that become something here.
var setters = map[string]setter{
	"entrypoint": nil, "command": nil, "image": nil, "build": nil, "extends": nil, "profiles": (*service).profiles, // by begin, or by the library
	"environment": (*service).environment, "env_file": (*service).envFile, "depends_on": (*service).dependsOn, "restart": (*service).restart,
	"healthcheck": (*service).healthcheck, "stop_signal": (*service).stopSignal, "stop_grace_period": (*service).grace, "user": (*service).user,
	"working_dir": (*service).workingDir, "deploy": (*service).deploy, "mem_limit": (*service).memory, "cpus": (*service).cpus, "pids_limit": (*service).pids,
	"ulimits": (*service).ulimits, "cap_add": (*service).capAdd, "cap_drop": (*service).capDrop, "security_opt": (*service).securityOpt,
	"logging": (*service).logging, "group_add": (*service).groupAdd, "init": ignored, "scale": (*service).scale, "umask": (*service).umask, "links": (*service).links,
	"container_name": ignored, "pull_policy": ignored, "attach": ignored, "labels": (*service).labels,
}

func ignored(*service, any) {}

// outside is what is to be done about keys that belong to the container, or to no container
// any more.
var outside = move.ByKey([][2]string{
	{"ports", "the container publishes ports: docker run -p, for all services together"},
	{"expose", "ports are open within the container anyway"},
	{"volumes", "the container has the volumes: docker run -v, at the path where the service had it"},
	{"networks", "all services are in one container, and reach each other at 127.0.0.1"},
	{"tmpfs", "the container has it: docker run --tmpfs"},
	{"hostname", "the container has one: docker run --hostname"},
	{"domainname", "the container has one: docker run --domainname"},
	{"dns", "the container has them: docker run --dns"},
	{"dns_search", "the container has them: docker run --dns-search"},
	{"dns_opt", "the container has them: docker run --dns-option"},
	{"extra_hosts", "the container has them: docker run --add-host"},
	{"sysctls", "the container has them: docker run --sysctl"},
	{"devices", "the container has them: docker run --device"},
	{"shm_size", "the container has it: docker run --shm-size"},
	{"network_mode", "the container has one: docker run --network"},
	{"privileged", "the container would have it, for all services; give only what is needed"},
	{"read_only", "the container has it: docker run --read-only"},
	{"platform", "the image has one"},
	{"runtime", "the container has one: docker run --runtime"},
	{"secrets", "give the files to the container, and name them in secrets of the service"},
	{"configs", "put the files into the image, or mount them"},
	{"tty", "services have no terminal here; the main command has (key main)"},
	{"stdin_open", "the stdin of a service is /dev/null here; the main command has one (key main)"},
	{"ipc pid uts", "all services are in one container"},
	{"userns_mode", "the container has one: docker run --userns"},
	{"gpus", "the container has them: docker run --gpus"},
	{"mac_address cgroup", "the container has one"},
	{"cgroup_parent", "the container has one: docker run --cgroup-parent"},
	{"annotations", "the container has them: docker run --annotation"},
	{"storage_opt", "the container has them: docker run --storage-opt"},
	{"volumes_from", "the container has the volumes: docker run -v"},
	{"oom_kill_disable", "the container has it"},
	{"oom_score_adj", "the container has it: docker run --oom-score-adj"},
	{"cpuset", "the container has it: docker run --cpuset-cpus"},
	{"memswap_limit", "limits.memory counts no swap"},
	{"mem_swappiness", "the container has it: docker run --memory-swappiness"},
	{"mem_reservation", "there is no soft limit here; limits: {memory: …} is the hard one"},
	{"external_links", "all services are in one container; name others by their address"},
	{"develop", "it is for docker compose watch; nothing here rebuilds"},
	{"isolation", "it is for Windows"},
})

// services makes services of all, and what they say of each other.
func (r *reader) services() {
	for _, s := range r.all {
		s.begin()
	}
	for _, s := range r.all {
		if s.to == nil {
			continue
		}
		for _, key := range sorted(s.body) {
			set, known := setters[key]
			switch why := outside[key]; {
			case known && set != nil:
				set(s, s.body[key])
			case known || strings.HasPrefix(key, "x-"):
			case why != "":
				s.leave(key, move.Outside, key, why)
			default:
				s.leave(key, move.Unknown, move.Short(key), "import knows no such key; look whether the service needs it")
			}
		}
		s.inherit()
		s.defaults()
	}
	if len(r.plan.Services) > 1 {
		r.plan.Leave(r.plan.Services[0].At, nil, move.Outside, "names", "in one container services reach each other at 127.0.0.1 and not by name; change the addresses, or give docker run --add-host NAME:127.0.0.1 for each")
	}
}

// begin makes the service, if its command is known.
func (s *service) begin() {
	if s.body == nil {
		s.leave("", move.Invalid, move.Short(s.name), "it is no mapping; it is left out")
		return
	}
	entry, command := s.argv("entrypoint"), s.argv("command")
	image := scalar(s.body["image"])
	if image == "" && s.body["build"] != nil {
		image = "the image that is built"
	}
	if s.image = s.imageOf(); s.image != nil {
		if len(entry) == 0 {
			entry = move.Literals(s.image.Config.Entrypoint)
			if len(command) == 0 {
				command = move.Literals(s.image.Config.Cmd)
			}
		}
		if s.body["healthcheck"] == nil && s.image.health() != nil {
			s.body["healthcheck"] = s.image.health()
		}
	}
	argv := append(slices.Clone(entry), command...)
	if len(argv) == 0 {
		s.leave("", move.Outside, move.Short(s.name), "it is left out: its command is in "+move.Short(image)+"; give import what docker image inspect prints of it, by --images FILE, or write command")
		return
	}
	if s.to = s.r.plan.New(s.name, s.r.at(s.name, "")); s.to == nil {
		return
	}
	if image != "" {
		s.to.Comment = append(s.to.Comment, "its image was "+image+": install what it runs")
		s.leave("image", move.Outside, orBuild(s.body), "one image has all services: install there what "+move.Short(image)+" has"+s.unread())
	}
	if len(entry) == 0 && image != "" && s.image == nil {
		s.leave("command", move.Outside, "entrypoint", "the image may have an ENTRYPOINT, which would run this command; give import what docker image inspect prints, by --images FILE, or put it before the command")
	}
	s.to.Keys.Set("command", argv)
}

// unread is what a person must take from an image of which nothing is known.
func (s *service) unread() string {
	if s.image != nil {
		return ""
	}
	return ", and write its WORKDIR, ENV and USER into working_dir, environment and user, or give import --images FILE"
}

func orBuild(body map[string]any) string {
	if body["image"] == nil {
		return "build"
	}
	return "image"
}

// defaults are what a service has under Compose if it says nothing.
func (s *service) defaults() {
	k := &s.to.Keys
	if !k.Has("restart") {
		k.Set("restart", "no")
	}
	stop := k.Sub("stop")
	if !stop.Has("timeout") {
		stop.Set("timeout", "10s")
	}
	stop.Set("kill", "main")
}

func (s *service) environment(v any) {
	values := mapping(v)
	if values == nil {
		values = map[string]any{}
		for _, pair := range list(v) {
			name, value, given := strings.Cut(pair, "=")
			if why := definition.CheckVariable(name); why != "" && !given {
				s.leave("environment", move.Invalid, "environment "+move.Short(name), why)
				continue
			}
			if values[name] = any(value); !given {
				values[name] = nil
			}
		}
	}
	env := s.to.Keys.Sub("environment")
	for _, name := range sorted(values) {
		switch v := values[name].(type) {
		case nil: // the container's, which a service has anyway
		case map[string]any, []any:
			s.leave("environment", move.Invalid, "environment "+move.Short(name), "its value is no text")
		default:
			env.Set(name, s.text("environment", scalar(v)))
		}
	}
	if len(env.Keys()) == 0 {
		s.to.Keys.Drop("environment")
	}
}

func (s *service) envFile(v any) {
	var files []string
	items, is := v.([]any)
	if !is {
		items = []any{v}
	}
	for _, item := range items {
		path, mark := scalar(item), ""
		if m := mapping(item); m != nil {
			path = scalar(m["path"])
			if m["required"] == false {
				mark = "?"
			}
		}
		if path == "" {
			continue
		}
		if !filepath.IsAbs(path) && !strings.HasPrefix(path, "$") {
			path = s.r.tree.Target(filepath.Join(s.dir, path))
		}
		files = append(files, mark+s.text("env_file", path))
		s.leave("env_file", move.Outside, "env_file", "the container must have "+move.Short(path)+", at that path; mount it, or name where it lies there")
	}
	s.to.Keys.Add("env_file", files)
}

// dependsOn says what the service waits for. What it waits to be healthy is ready by its
// health probe; what it waits to have completed is a oneshot.
func (s *service) dependsOn(v any) {
	all := mapping(v)
	if all == nil {
		all = map[string]any{}
		for _, name := range list(v) {
			all[name] = nil
		}
	}
	for _, name := range sorted(all) {
		how := mapping(all[name])
		i := slices.IndexFunc(s.r.all, func(o *service) bool { return o.name == name })
		if i < 0 || s.r.all[i].to == nil {
			s.leave("depends_on", move.Missing, "depends_on "+move.Short(name), "there is no such service in the result; write what it waits for, if it is in the container")
			continue
		}
		other := s.r.all[i]
		switch condition := scalar(how["condition"]); condition {
		case "service_healthy":
			other.readyByHealth()
		case "service_completed_successfully":
			other.to.Keys.Set("type", "oneshot")
			if restart := scalar(other.body["restart"]); restart == "always" || restart == "unless-stopped" {
				other.leave("restart", move.Near, "restart", "something waits for its end, so it is a oneshot, which is started again after a failure alone")
			}
		case "", "service_started":
		default:
			s.leave("depends_on", move.Unknown, "depends_on "+move.Short(name), "import knows no condition "+move.Short(condition)+"; it waits until the service is up")
		}
		if how["required"] == false {
			s.to.Wants = append(s.to.Wants, name)
		} else {
			s.to.Requires = append(s.to.Requires, name)
		}
	}
}

// readyByHealth makes the service's health probe the one by which it becomes ready too.
func (s *service) readyByHealth() {
	probe := s.probe()
	if probe == nil {
		s.leave("healthcheck", move.Missing, "healthcheck", "another service waits until this one is healthy, and its healthcheck is the image's, or none; write ready: {…}")
		return
	}
	h := mapping(s.body["healthcheck"])
	interval, retries := 30*time.Second, 3
	if d, ok := duration(h["interval"]); ok && d > 0 {
		interval = d
	}
	if n, err := strconv.Atoi(scalar(h["retries"])); err == nil && n > 0 && n < 10_000 {
		retries = n
	}
	start, _ := duration(h["start_period"])
	s.to.Keys.Sub("ready").Set("exec", probe).Set("timeout", move.Time(min(start+time.Duration(retries)*interval+30*time.Second, 24*time.Hour)))
}

// probe is the command of the health check; nil: there is none.
func (s *service) probe() []string {
	h := mapping(s.body["healthcheck"])
	if h == nil || h["disable"] == true {
		return nil
	}
	line, isLine := h["test"].(string)
	test := list(h["test"])
	switch {
	case isLine:
		return []string{"sh", "-c", s.text("healthcheck", line)}
	case len(test) == 2 && test[0] == "CMD-SHELL":
		return []string{"sh", "-c", s.text("healthcheck", test[1])}
	case len(test) > 1 && test[0] == "CMD":
		out := make([]string, 0, len(test))
		for _, w := range test[1:] {
			out = append(out, s.text("healthcheck", w))
		}
		return out
	}
	return nil
}

func (s *service) healthcheck(v any) {
	h := mapping(v)
	probe := s.probe()
	if probe == nil {
		if test := list(h["test"]); h["disable"] != true && (len(test) != 1 || test[0] != "NONE") {
			s.leave("healthcheck", move.Invalid, "healthcheck", "it has no test; write health: {…}")
		}
		return
	}
	health := s.to.Keys.Sub("health").Set("exec", probe)
	for _, key := range sorted(h) {
		switch d, ok := duration(h[key]); {
		case key == "test" || key == "disable":
		case key == "retries":
			if n, err := strconv.Atoi(scalar(h[key])); err == nil && n > 0 {
				health.Set(key, n)
			}
		case (key == "interval" || key == "timeout" || key == "start_period") && ok && d > 0:
			health.Set(key, move.Time(d))
		case key == "start_interval":
			s.leave("healthcheck", move.NoEqual, "start_interval", "a probe has one interval here; the one before the service is ready is short anyway")
		default:
			s.leave("healthcheck", move.Invalid, "healthcheck "+move.Short(key), move.Short(scalar(h[key]))+" is none that import knows; the default holds")
		}
	}
	for _, key := range []string{"interval", "timeout"} {
		if !health.Has(key) {
			health.Set(key, "30s")
		}
	}
	health.Set("action", "none") // Compose restarts nothing for it
}

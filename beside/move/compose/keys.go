package compose

import (
	"strconv"
	"strings"

	"rlminit/beside/move"
)

func (s *service) profiles(v any) {
	if names := list(v); len(names) > 0 {
		s.to.Keys.Set("enabled", false)
		s.to.Comment = append(s.to.Comment, "of the profile "+strings.Join(names, ", ")+": rlminit start starts it")
	}
}

// restart is Docker's: after 100 ms, twice as long after each further try up to a minute, and
// from the beginning after a run of 10 s.
func (s *service) restart(v any) {
	word, tries, _ := strings.Cut(scalar(v), ":")
	policy := map[string]string{"always": "always", "unless-stopped": "always", "on-failure": "on-failure"}[word]
	if policy == "" {
		if word != "no" && word != "false" && word != "" {
			s.leave("restart", move.Invalid, "restart", move.Short(scalar(v))+" is no policy of Compose; it is not restarted")
		}
		return
	}
	if s.to.Keys.Get("type") == "oneshot" {
		policy = "on-failure"
	}
	limit, window := 0, ""
	if n, err := strconv.Atoi(tries); err == nil && n > 0 && n < 1_000_000 {
		limit, window = n, "24h"
	}
	m := s.to.Keys.Sub("restart").Set("policy", policy).Set("max_delay", "60s").Set("limit", limit).Add("window", window)
	if limit > 0 {
		m.Set("retry_failed", "0")
	}
}

func (s *service) stopSignal(v any) {
	s.to.Keys.Sub("stop").Set("signal", s.text("stop_signal", strings.TrimPrefix(strings.ToUpper(scalar(v)), "SIG")))
}

func (s *service) grace(v any) {
	d, ok := duration(v)
	if !ok || d == 0 {
		s.leave("stop_grace_period", move.Invalid, "stop_grace_period", move.Short(scalar(v))+" is no time above 0 that import knows; 10s holds")
		return
	}
	s.to.Keys.Sub("stop").Set("timeout", move.Time(d))
}

func (s *service) user(v any) {
	name, group, both := strings.Cut(s.text("user", scalar(v)), ":")
	if name == "root" || name == "0" {
		s.leave("user", move.Rights, "user", "no service here is root: it runs as the container's user; give that user the files which it needs, or the rights (sandbox: {capabilities: […]})")
		return
	}
	if _, err := strconv.Atoi(name); both && err == nil {
		if _, err := strconv.Atoi(group); err == nil {
			name, both = name+":"+group, false
		}
	}
	s.to.Keys.Set("user", name)
	if both {
		s.to.Keys.Set("group", group)
	}
}

func (s *service) workingDir(v any) { s.to.Keys.Set("working_dir", s.text("working_dir", scalar(v))) }

func (s *service) memory(v any) { s.limit("mem_limit", "memory", v) }

func (s *service) limit(key, name string, v any) {
	text, ok := size(v)
	if !ok {
		s.leave(key, move.Invalid, key, move.Short(scalar(v))+" is no size that import knows; write limits: {"+name+": 512MiB}")
		return
	}
	if text != "0" {
		s.to.Keys.Sub("limits").Set(name, text)
	}
}

func (s *service) cpus(v any) {
	f, err := strconv.ParseFloat(scalar(v), 64)
	switch {
	case err != nil || f < 0 || f > 10_000:
		s.leave("cpus", move.Invalid, "cpus", move.Short(scalar(v))+" is no number of processors; write limits: {cpu: 0.5}")
	case f > 0:
		s.to.Keys.Sub("limits").Set("cpu", f)
	}
}

func (s *service) pids(v any) {
	n, err := strconv.Atoi(scalar(v))
	switch {
	case err != nil:
		s.leave("pids_limit", move.Invalid, "pids_limit", move.Short(scalar(v))+" is no number; write limits: {pids: 100}")
	case n > 0:
		s.to.Keys.Sub("limits").Set("pids", n)
	}
}

func (s *service) deploy(v any) {
	d := s.mapping("deploy", v)
	for _, key := range sorted(d) {
		switch key {
		case "resources":
			r := s.mapping("deploy", d[key])
			for _, of := range sorted(r) {
				s.resources(of, mapping(r[of]))
			}
		case "replicas":
			s.scale(d[key])
		case "restart_policy":
			s.restartPolicy(s.mapping("deploy", d[key]))
		case "mode", "labels", "placement", "update_config", "rollback_config", "endpoint_mode":
			s.leave("deploy", move.NoEqual, "deploy."+key, "it is for a swarm; one container has nothing of the kind")
		default:
			s.leave("deploy", move.Unknown, "deploy."+move.Short(key), "import knows no such key; look whether the service needs it")
		}
	}
}

func (s *service) resources(of string, r map[string]any) {
	if of != "limits" {
		s.leave("deploy", move.NoEqual, "deploy.resources."+move.Short(of), "nothing is kept for a service here; limits bound the others")
		return
	}
	for _, key := range sorted(r) {
		switch key {
		case "cpus":
			s.cpus(r[key])
		case "memory":
			s.memory(r[key])
		case "pids":
			s.pids(r[key])
		default:
			s.leave("deploy", move.Unknown, "deploy.resources.limits."+move.Short(key), "import knows no such limit")
		}
	}
}

// restartPolicy is a swarm's, which docker compose heeds where there is no restart.
func (s *service) restartPolicy(p map[string]any) {
	if s.body["restart"] != nil {
		return
	}
	switch condition := scalar(p["condition"]); condition {
	case "", "any":
		s.restart("always")
	case "on-failure":
		s.restart("on-failure:" + scalar(p["max_attempts"]))
	}
	if p["delay"] != nil || p["window"] != nil {
		s.leave("deploy", move.Near, "deploy.restart_policy", "its delay and window are not taken over; write restart: {delay, reset_after}")
	}
}

func (s *service) scale(v any) {
	if n := scalar(v); n != "1" && n != "" {
		s.leave("deploy", move.NoEqual, "replicas", "it runs once here and not "+move.Short(n)+" times; write the service once more under another name, or a kind (gateways) with a profile for each")
	}
}

func (s *service) ulimits(v any) {
	all := s.mapping("ulimits", v)
	for _, name := range sorted(all) {
		limits := s.to.Keys.Sub("limits")
		if m := mapping(all[name]); m != nil {
			limits.Set(strings.ToLower(name), unlimited(scalar(m["soft"]))+":"+unlimited(scalar(m["hard"])))
		} else {
			limits.Set(strings.ToLower(name), unlimited(scalar(all[name])))
		}
	}
}

func unlimited(s string) string {
	if s == "-1" {
		return "unlimited"
	}
	return move.Literal(s)
}

func (s *service) capAdd(v any) {
	var caps []string
	for _, c := range list(v) {
		c = strings.TrimPrefix(strings.ToUpper(c), "CAP_")
		if c == "ALL" {
			s.leave("cap_add", move.Rights, "cap_add", "a service here has none but those that it names; name those which it needs")
			continue
		}
		caps = append(caps, move.Literal(c))
	}
	if len(caps) > 0 {
		s.to.Keys.Sub("sandbox").Set("capabilities", caps)
		s.leave("cap_add", move.Outside, "cap_add", "the container must have them too: docker run --cap-add")
	}
}

// capDrop: a service has no capabilities but those that it names.
func (s *service) capDrop(any) {}

func (s *service) securityOpt(v any) {
	for _, opt := range list(v) {
		if strings.HasPrefix(opt, "no-new-privileges") {
			continue // so it is here
		}
		s.leave("security_opt", move.Outside, "security_opt "+move.Short(opt), "the container has it: docker run --security-opt")
	}
}

func (s *service) logging(v any) {
	l := s.mapping("logging", v)
	driver := scalar(l["driver"])
	if driver != "" && driver != "json-file" && driver != "local" {
		s.leave("logging", move.NoEqual, "logging "+move.Short(driver), "rlminit keeps the log itself; log: {forward: {to, format}} sends it on, and the container may have a driver of its own")
		return
	}
	options := mapping(l["options"])
	for _, key := range sorted(options) {
		switch text, ok := size(options[key]); {
		case key == "max-size" && ok:
			s.to.Keys.Sub("log").Set("max_size", text)
		case key == "max-file":
			if n, err := strconv.Atoi(scalar(options[key])); err == nil && n > 1 {
				s.to.Keys.Sub("log").Set("max_files", n-1)
			}
		case key == "compress":
			s.to.Keys.Sub("log").Set("compress", scalar(options[key]) == "true")
		default:
			s.leave("logging", move.NoEqual, "logging "+move.Short(key), "a log here has no such option")
		}
	}
}

func (s *service) groupAdd(v any) {
	var groups []string
	for _, g := range list(v) {
		groups = append(groups, s.text("group_add", g))
	}
	s.to.Keys.Add("groups", groups)
}

func (s *service) umask(v any) {
	if n, err := strconv.ParseUint(scalar(v), 10, 32); err == nil && n <= 0o777 {
		s.to.Keys.Set("umask", strconv.FormatUint(n, 8))
	}
}

func (s *service) links(v any) {
	for _, l := range list(v) {
		name, _, _ := strings.Cut(l, ":")
		s.to.Wants = append(s.to.Wants, name)
	}
}

func (s *service) labels(any) {
	s.leave("labels", move.NoEqual, "labels", "a service has no labels; the container may: docker run --label")
}

package compose

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rlminit/beside/move"
)

// image is what an image says of a container that is made of it: a part of what docker image
// inspect prints.
type image struct {
	RepoTags []string
	Config   struct {
		Entrypoint, Cmd, Env         []string
		WorkingDir, User, StopSignal string
		Healthcheck                  *struct {
			Test                           []string
			Interval, Timeout, StartPeriod time.Duration
			Retries                        int
		}
	}
}

// readImages reads what docker image inspect has printed into a file.
func (r *reader) readImages() error {
	if r.tree.Images == "" {
		return nil
	}
	data, err := r.tree.Read(r.tree.Images)
	if err == nil {
		err = json.Unmarshal(data, &r.images)
	}
	if err != nil {
		return fmt.Errorf("%s: it is not what docker image inspect prints: %w", r.tree.Images, err)
	}
	if len(r.images) == 0 {
		return errors.New(r.tree.Images + ": there is no image in it; write docker image inspect IMAGE… >FILE")
	}
	return nil
}

// imageOf is the image of a service, nil if nothing is known of it. One that is built has the
// name of its project and service, unless it has another.
func (s *service) imageOf() *image {
	wanted := func(tag string) bool { return tag == s.name }
	name := scalar(s.body["image"])
	switch {
	case name != "" && !strings.Contains(name, "$"):
		if at := strings.LastIndexByte(name, ':'); at < 0 || strings.Contains(name[at:], "/") {
			name += ":latest"
		}
		wanted = func(tag string) bool {
			return tag == name || strings.TrimPrefix(strings.TrimPrefix(tag, "docker.io/"), "library/") == strings.TrimPrefix(strings.TrimPrefix(name, "docker.io/"), "library/")
		}
	case s.body["build"] != nil:
		project := s.r.project
		if project == "" {
			project = filepath.Base(s.dir)
		}
		wanted = func(tag string) bool {
			tag = strings.TrimSuffix(tag, ":latest")
			return tag == strings.ToLower(project)+"-"+s.name || tag == strings.ToLower(project)+"_"+s.name
		}
	}
	for i := range s.r.images {
		if slices.ContainsFunc(s.r.images[i].RepoTags, wanted) {
			return &s.r.images[i]
		}
	}
	return nil
}

// inherit gives the service what its image says, where the file says nothing.
func (s *service) inherit() {
	i := s.image
	if i == nil {
		return
	}
	c := i.Config
	k := &s.to.Keys
	for _, pair := range c.Env {
		name, value, _ := strings.Cut(pair, "=")
		if env := k.Sub("environment"); !env.Has(name) {
			env.Set(name, move.Literal(value))
		}
	}
	if len(c.Env) == 0 && !k.Has("environment") {
		k.Drop("environment")
	}
	if c.WorkingDir != "" && !k.Has("working_dir") {
		k.Set("working_dir", move.Literal(c.WorkingDir))
	}
	if s.body["user"] == nil {
		if c.User == "" {
			c.User = "root"
		}
		s.user(strings.ReplaceAll(c.User, "$", "$$"))
	}
	if stop := k.Sub("stop"); c.StopSignal != "" && !stop.Has("signal") {
		stop.Set("signal", move.Literal(strings.TrimPrefix(c.StopSignal, "SIG")))
	}
}

// health is the image's health check as one of the file, nil for none.
func (i *image) health() map[string]any {
	h := i.Config.Healthcheck
	if h == nil || len(h.Test) == 0 {
		return nil
	}
	test := make([]any, len(h.Test))
	for n, w := range h.Test {
		test[n] = strings.ReplaceAll(w, "$", "$$")
	}
	out := map[string]any{"test": test}
	for key, d := range map[string]time.Duration{"interval": h.Interval, "timeout": h.Timeout, "start_period": h.StartPeriod} {
		if d > 0 {
			out[key] = d.String()
		}
	}
	if h.Retries > 0 {
		out["retries"] = h.Retries
	}
	return out
}

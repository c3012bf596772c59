package supervise

import (
	"net/http"

	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/service"
	"rlminit/supervise/api"
	"rlminit/supervise/open"
)

// addDescriptions adds the requests that tell what services are made of.
func (s *backend) addDescriptions(server *api.Server) {
	server.Handle("GET /v1/services/{name}/definition", api.MayCommand, api.Named("name", s.describe))
	server.Handle("GET /v1/metrics", api.MayStatus, func(*http.Request) (any, error) { return s.counts(), nil })
	server.Handle("GET /v1/dependencies", api.MayCommand, func(*http.Request) (any, error) { return s.dependencies(), nil })
}

// describe is a service's definition in force, without its secrets.
func (s *backend) describe(name string) (answer control.Definition, err error) {
	u, err := s.directory.lookUp(name)
	if err != nil {
		return answer, err
	}
	var d *service.Definition
	edges := control.NoEdges()
	s.wakeAll()
	s.loop.read(func() {
		if count, can := s.opened.Stored(u.life.Node()); can {
			answer.Stored = &control.Stored{Count: count, Most: open.MayStore(u.definition)}
		}
		d, answer.Fault = u.definition, u.fault
		for _, other := range s.fleet.all() {
			edges.Add(u.name, other.name, other.definition.Requires, other.definition.Wants, other.definition.After)
		}
	})
	answer.Service, answer.Profile, answer.Edges = d.Name, d.Profile, &edges
	answer.Fields = service.Flatten(withoutSecrets(d))
	answer.Files = []control.DefinitionFile{}
	for _, o := range s.prep.Settings.Origins(d) {
		answer.Files = append(answer.Files, control.DefinitionFile{File: o.File, Sum: o.Sum, First: int(o.Lines.First), Last: int(o.Lines.Last)})
	}
	return answer, nil
}

// wakeAll wakes every profile at rest: what refers to what, only a compiled definition tells.
func (s *backend) wakeAll() {
	s.directory.registry.AtRest.Wake(func(string, string) bool { return true })
}

// withoutSecrets is a definition as it may be shown: another one.
func withoutSecrets(of *service.Definition) *service.Definition {
	d := new(*of)
	d.Command = redact.Command(d.Command)
	shown := make(map[string]service.Value, len(d.Environment))
	for name, v := range d.Environment {
		if v.File == "" {
			v.Text = redact.Value(name, v.Text)
		}
		shown[name] = v
	}
	d.Environment = shown
	if d.Ready != nil {
		ready := *d.Ready
		ready.Exec, ready.HTTP = redact.Command(ready.Exec), redact.Value("", ready.HTTP)
		d.Ready = &ready
	}
	if d.Health != nil {
		health := *d.Health
		health.Exec, health.HTTP = redact.Command(health.Exec), redact.Value("", health.HTTP)
		d.Health = &health
	}
	return d
}

// dependencies is what each service comes after, by name.
func (s *backend) dependencies() []control.Dependencies {
	list := []control.Dependencies{}
	s.wakeAll()
	s.loop.read(func() {
		for _, u := range s.fleet.all() {
			d := u.definition
			list = append(list, control.Dependencies{
				Service: u.name, Profile: d.Profile, State: u.status().State,
				Requires: orNone(d.Requires), Wants: orNone(d.Wants), After: orNone(d.After),
			})
		}
	})
	return list
}

// orNone makes an empty list of none, as it is to be in JSON.
func orNone(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

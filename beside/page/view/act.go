package view

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"rlminit/beside/page/gate"
	"rlminit/beside/page/live"
	"rlminit/config"
	"rlminit/control"
)

// namesMost is how many services a person may name at once.
const namesMost = 1000

// deedPages ask once more what a person commands, and do it.
type deedPages struct{ *base }

// deed is a command as it is asked for, and asked once more.
type deed struct {
	Verb  string
	Names []string // of services; none: State says which
	State string

	Services []row    // that it is about
	What     []string // what it will do
	Along    []string // services that are affected too
	Nothing  bool     // there is no such service
}

// Title is what is asked.
func (d deed) Title() string {
	verb := strings.ToUpper(d.Verb[:1]) + d.Verb[1:]
	switch {
	case d.Nothing:
		return "Nothing to " + d.Verb
	case len(d.Services) == 1:
		return verb + " " + label(d.Services[0].Service) + "?"
	case d.State != "":
		return verb + " " + count(len(d.Services), "service that is ", "services that are ") + d.State + "?"
	}
	return verb + " " + count(len(d.Services), "service", "services") + "?"
}

// Label is what the button says.
func (d deed) Label() string { return strings.TrimSuffix(d.Title(), "?") }

// Back is where one goes who does not want it.
func (d deed) Back() string {
	if len(d.Names) == 1 {
		return servicePath(d.Names[0])
	}
	return "."
}

// deedOf reads a command out of a form.
func deedOf(form url.Values) (d deed, why string) {
	d = deed{Verb: form.Get("verb"), Names: form["name"], State: form.Get("state")}
	switch {
	case d.Verb != "start" && d.Verb != "stop" && d.Verb != "restart":
		return d, "there is no such command; it is start, stop or restart"
	case len(d.Names) == 0 && d.State == "":
		return d, "no service is named"
	case len(d.Names) > namesMost:
		return d, "more than " + itoa(namesMost) + " services are named"
	case slices.ContainsFunc(d.Names, func(n string) bool { return n == "" || control.IsSet(n) }):
		return d, "a service is named by its whole name here"
	case d.State != "" && control.CheckState(d.State) != nil:
		return d, "a service is never in this state"
	}
	return d, ""
}

// allowed refuses what page.allow does not permit.
func (p *base) allowed(least Allow, show http.HandlerFunc) http.HandlerFunc {
	if p.allow >= least {
		return show
	}
	word := map[Allow]string{Operate: "operate", Approve: "approve"}[least]
	return func(w http.ResponseWriter, r *http.Request) {
		p.Refused(w, r, http.StatusForbidden, "this page may not do that; root's configuration permits it with page: {allow: "+word+"}")
	}
}

// done says in the log of the page what was done, and goes on elsewhere; or it answers why
// it was not.
func (p *base) done(w http.ResponseWriter, r *http.Request, err error, what, page string) {
	if err != nil {
		p.failed(w, r, err)
		return
	}
	note(r, what)
	to(w, r, page)
}

// definition is that of a service.
func (p *base) definition(ctx context.Context, name string) (control.Definition, error) {
	return live.Ask(ctx, p.ask, func(ctx context.Context, c *control.Client) (control.Definition, error) {
		return c.Definition(ctx, name)
	})
}

// confirm shows what a command will do, and a button that gives it.
func (p *deedPages) confirm(w http.ResponseWriter, r *http.Request) {
	d, wrong := deedOf(r.URL.Query())
	if wrong != "" {
		p.Refused(w, r, http.StatusBadRequest, "cannot ask: "+wrong)
		return
	}
	services, err := p.ask.Services(r.Context())
	if err != nil {
		p.failed(w, r, err)
		return
	}
	for _, s := range services {
		one := rowOf(s)
		if slices.Contains(d.Names, s.Name) || len(d.Names) == 0 && one.Is.Word == d.State {
			d.Services = append(d.Services, one)
		}
	}
	d.Nothing = len(d.Services) == 0
	d.What = d.will()
	if len(d.Services) == 1 {
		definition, _ := p.definition(r.Context(), d.Services[0].Name) // without it what is along is not said
		if d.Along = definition.Edges.RequiredBy; d.Verb == "start" {
			d.Along = definition.Edges.Requires
		}
	}
	p.show(w, r, http.StatusOK, "confirm", page{Title: d.Title(), Nav: "overview", Body: d})
}

// will says what a command does, as far as one can know before.
func (d deed) will() (all []string) {
	running := 0
	for _, s := range d.Services {
		if s.PID != nil {
			running++
		}
	}
	processes := count(running, "process that runs", "processes that run")
	switch d.Verb {
	case "start":
		all = append(all, "It is started, and is to run from now on, also after a restart of the container.")
	case "stop":
		all = append(all, "Its process is sent its stop signal, and killed when its time is over.", "It stays stopped, also after a restart of the container, until somebody starts it.")
	case "restart":
		all = append(all, "Its process is sent its stop signal, and killed when its time is over; then it is started again.", "It is to run from now on, also after a restart of the container.")
	}
	if running > 0 && d.Verb != "start" {
		all = append(all, "This ends "+processes+" now.")
	}
	if d.Verb != "start" && slices.ContainsFunc(d.Services, func(s row) bool { return s.Name == config.PageService }) {
		all = append(all, "It is this very page, which does not answer meanwhile, and then asks for the token again. rlminit start "+config.PageService+" brings it back if it was stopped.")
	}
	return append(all, "It is an operation: its progress is shown, and it can be cancelled.")
}

// act gives a command.
func (p *deedPages) act(w http.ResponseWriter, r *http.Request) {
	d, wrong := deedOf(r.PostForm)
	if wrong != "" {
		p.Refused(w, r, http.StatusBadRequest, "cannot do this: "+wrong)
		return
	}
	o, err := ask(r, p.base, func(ctx context.Context, c *control.Client) (control.Operation, error) {
		return c.Operate(ctx, control.BeginOperation{Verb: d.Verb, Names: d.Names, State: d.State})
	})
	if err == nil {
		p.askers.note(o.ID, by(r))
	}
	id := strconv.FormatUint(o.ID, 10)
	p.done(w, r, err, "began operation "+id+": "+d.Verb+" of "+strings.Join(d.Names, " ")+d.State, "/operations/"+id)
}

// operationID is of which operation a request is; 0, of which there is none: of no number.
func operationID(r *http.Request) uint64 {
	id, _ := strconv.ParseUint(r.PathValue("id"), 10, 64)
	return id
}

// confirmCancel asks whether an operation is to go no further.
func (p *deedPages) confirmCancel(w http.ResponseWriter, r *http.Request) {
	b, err := p.askOperation(r.Context(), operationID(r))
	if err != nil {
		p.failed(w, r, err)
		return
	}
	p.show(w, r, http.StatusOK, "cancel", page{Title: "Cancel operation " + r.PathValue("id") + "?", Nav: "operations", Body: b})
}

func (p *deedPages) cancel(w http.ResponseWriter, r *http.Request) {
	_, err := ask(r, p.base, func(ctx context.Context, c *control.Client) (control.Operation, error) {
		return c.Cancel(ctx, operationID(r))
	})
	p.done(w, r, err, "cancelled operation "+r.PathValue("id"), "/operations/"+r.PathValue("id"))
}

// confirmJobCancel asks whether a job is to end now.
func (p *deedPages) confirmJobCancel(w http.ResponseWriter, r *http.Request) {
	j, err := ask(r, p.base, func(ctx context.Context, c *control.Client) (control.Job, error) {
		return c.Job(ctx, r.PathValue("id"))
	})
	if err != nil {
		p.failed(w, r, err)
		return
	}
	p.show(w, r, http.StatusOK, "canceljob", page{Title: "Cancel job " + j.Job + "?", Nav: "jobs", Body: jobOf(j)})
}

func (p *deedPages) cancelJob(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	_, err := ask(r, p.base, func(ctx context.Context, c *control.Client) (*control.JobResult, error) { return c.CancelJob(ctx, id) })
	p.done(w, r, err, "cancelled job "+id, "/jobs")
}

// note says in the log of the page who has done what: the supervisor knows the page alone.
func note(r *http.Request, what string) { fmt.Println(by(r) + " " + clean(what)) }

// by is under which name a request is recorded.
func by(r *http.Request) string {
	if s := gate.From(r.Context()); s != nil {
		return s.Token.By()
	}
	return "page"
}

package view

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"rlminit/internal/natural"
)

// What the agent of the fleet may take: anybody may listen at its address while it does not.
const (
	fleetTime  = 2 * time.Second
	fleetBytes = 8 << 20 // of an answer
	fleetMost  = 20_000  // of what is in it
	fleetShown = 2000    // profiles
)

// fleetProfile is a profile as the agent has it, the same as `rlminit fleet status --json`.
type fleetProfile struct {
	Name, State, Owner, Next, Why string

	MoveTo string `json:"move_to"`
	Fence  int64
	Failed int
}

// Is is its state as the page shows it.
func (f fleetProfile) Is() shown {
	is := cmp.Or(states[f.State], shown{f.State, "?", 3, moving})
	if f.Failed > 0 || f.State == "waiting" && f.Next == "" {
		is.Mark, is.Rank, is.Tone = "✖", 0, ill
	}
	return is
}

// Key orders profiles: the ill ones first.
func (f fleetProfile) Key() string { return fmt.Sprintf("%d %s", f.Is().Rank, natural.Key(f.Name)) }

// Find is what the filter looks at.
func (f fleetProfile) Find() string {
	return strings.ToLower(f.Name + " " + f.State + " " + f.Owner + " " + f.MoveTo)
}

// fleetMember is a member, as in `rlminit fleet members --json`.
type fleetMember struct {
	Name, State, Version string

	Profiles, Capacity int
	Weight             float64
	Labels             map[string]string
}

// Is is its state as the page shows it.
func (f fleetMember) Is() shown {
	switch {
	case f.State == "gone" && f.Profiles > 0:
		return shown{"gone", "✖", 0, ill}
	case f.State == "live":
		return shown{"live", "●", 5, well}
	}
	return shown{f.State, "■", 8, still}
}

type fleetBody struct {
	Filter  filter
	At      string
	Wrong   string // why the agent does not answer
	Trouble string // why what it says may be old
	Count   counted
	More    int
	Members []fleetMember
	Rows    []fleetProfile
}

// askFleet asks the agent. That it does not answer is something to show too.
func (p *Pages) askFleet(ctx context.Context, f filter) (b fleetBody) {
	ctx, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	b.At, b.Filter = p.fleet, f
	all, trouble, err := fleetList[fleetProfile](ctx, b.At, "/status")
	if err == nil {
		b.Members, b.Trouble, err = fleetList[fleetMember](ctx, b.At, "/members")
	}
	if err != nil {
		b.Wrong = clean(err.Error())
		return b
	}
	b.Trouble = clean(cmp.Or(trouble, b.Trouble))
	slices.SortStableFunc(b.Members, func(a, c fleetMember) int { return cmp.Compare(a.Is().Rank, c.Is().Rank) })
	slices.SortFunc(all, func(a, c fleetProfile) int { return strings.Compare(a.Key(), c.Key()) })
	for _, one := range all {
		if b.Count.add(one.Is()); f.fits(one.Is(), one.Find()) {
			b.Rows = append(b.Rows, one)
		}
	}
	b.More = max(len(b.Rows)-fleetShown, 0)
	b.Rows = b.Rows[:len(b.Rows)-b.More]
	return b
}

// fleetList asks the agent for a list.
func fleetList[T any](ctx context.Context, at, path string) (all []T, trouble string, err error) {
	network, address := "tcp", at
	if file, is := strings.CutPrefix(at, "unix:"); is {
		network, address, at = "unix", file, "localhost"
	}
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+path, nil)
	if err != nil {
		return nil, "", err
	}
	answer, err := client.Do(r)
	if of, is := errors.AsType[*url.Error](err); is {
		err = of.Err
	}
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(answer.Body, textMost)) // of no use if it cannot be read
		return nil, "", fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(why)))
	}
	d := json.NewDecoder(io.LimitReader(answer.Body, fleetBytes))
	_, err = d.Token()
	for err == nil && d.More() {
		var one T
		err = d.Decode(&one)
		if all = append(all, one); len(all) > fleetMost {
			return nil, "", fmt.Errorf("its list has more than %d entries; rlminit fleet shows all", fleetMost)
		}
	}
	if err == nil {
		_, err = d.Token() // the end, without which it was cut short
	}
	if err != nil {
		return nil, "", fmt.Errorf("its answer cannot be read: %w", err)
	}
	return all, answer.Header.Get("Rlminit-Trouble"), nil
}

// fleetPage shows members and profiles of the fleet that this container belongs to.
func (p *Pages) fleetPage(w http.ResponseWriter, r *http.Request) {
	if p.fleet == "" {
		p.Refused(w, r, http.StatusNotFound, "there is no fleet to show: the configuration has no fleet.listen")
		return
	}
	b := p.askFleet(r.Context(), filterOf(r, "fleet", "Profiles", ill, "running", "starting", "waiting", "stopped"))
	p.show(w, r, http.StatusOK, "fleet", page{Title: "Fleet", Nav: "fleet", Live: "view=fleet", Body: b})
}

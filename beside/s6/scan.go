package s6

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"rlminit/control"
	"rlminit/internal/durable"
)

// gatewayPrefix stands before the profile in the name of its gateway's service.
const gatewayPrefix = "gateway-"

// mark is a file in an entry that once was, or became, a service: if there is no such
// service any more, it was renamed or deleted, and the entry is no order for a new one.
const mark = "rlminit"

// plan is what makes a scan directory that an application keeps itself, and the supervisor's
// services, agree.
type plan struct {
	create  []registered // directories of gateways whose profiles are not there
	foreign []string     // directories with a run script that nobody runs
	stale   []string     // entries of services that are gone
	known   []string     // directories that want the mark
	link    []string     // services that have no entry
}

// registered is a directory of a gateway that becomes a profile.
type registered struct {
	control.CreateProfile
	exports []string // what its run script sets, and the gateway does not get
	logs    bool     // its log/run is not run
}

// entry is one of a scan directory.
type entry struct {
	name    string
	link    string   // where it points to; "": it is no link
	runs    bool     // it has a run script
	exports []string // variables that the script sets
	logs    bool     // it has a log/run
	down    bool
	marked  bool
}

// agree decides what is to be done, from the entries, the names of the services, and the
// directory in which the supervisor publishes them.
func agree(entries []entry, services []string, published string) plan {
	var p plan
	there := map[string]bool{}
	for _, e := range entries {
		known := slices.Contains(services, e.name)
		profile, isGateway := strings.CutPrefix(e.name, gatewayPrefix)
		there[e.name] = true
		switch {
		case strings.HasPrefix(e.name, "."): // is being made, or s6's own
		case !known && (e.marked || filepath.Dir(e.link) == published):
			p.stale = append(p.stale, e.name)
		case e.link != "" || !e.runs || e.marked:
		case known:
			p.known = append(p.known, e.name)
		case isGateway && profile != "":
			p.known = append(p.known, e.name)
			p.create = append(p.create, registered{control.CreateProfile{Name: profile, Stopped: e.down, ExistOK: true}, e.exports, e.logs})
		default:
			p.foreign = append(p.foreign, e.name)
		}
	}
	for _, name := range services {
		if !there[name] {
			p.link = append(p.link, name)
		}
	}
	return p
}

// entriesOf reads a scan directory.
func entriesOf(dir string) ([]entry, error) {
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, f := range found {
		path := filepath.Join(dir, f.Name())
		e := entry{name: f.Name()}
		e.runs, e.down, e.marked = exists(path, "run"), exists(path, "down"), exists(path, mark)
		e.logs = exists(path, "log", "run")
		if e.runs && !e.marked {
			e.exports = exportsOf(filepath.Join(path, "run"))
		}
		e.link, _ = os.Readlink(path)
		entries = append(entries, e)
	}
	return entries, nil
}

// runMost is how many bytes of a run script are looked at.
const runMost = 64 << 10

// exported is a line of a shell or of execline that sets a variable.
var exported = regexp.MustCompile(`(?m)^\s*export\s+([A-Za-z_][A-Za-z0-9_]*)`)

// exportsOf are the variables that a run script sets, in their order.
func exportsOf(path string) (names []string) {
	f, err := os.Open(path)
	if err != nil {
		return nil // it is only looked at to warn
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, runMost)) // the same
	for _, match := range exported.FindAllSubmatch(text, -1) {
		if name := string(match[1]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func exists(path ...string) bool {
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}

// scan makes a scan directory of an application's own and the supervisor's services agree.
// Of the supervisor's, which need nothing, it is not called.
func (c *call) scan(client *control.Client, dir string) error {
	entries, err := entriesOf(dir)
	if err != nil {
		return err
	}
	services, err := client.Services(c.ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, s := range services {
		names = append(names, s.Name)
	}
	published := filepath.Join(filepath.Dir(client.Socket()), "services")
	p := agree(entries, names, published)
	for _, made := range p.create {
		if err := c.register(client, dir, made); err != nil {
			return err
		}
	}
	for _, name := range p.known {
		if err := os.WriteFile(filepath.Join(dir, name, mark), nil, 0o644); err != nil {
			return fmt.Errorf("cannot mark the entry %s: %w", name, durable.Bare(err))
		}
	}
	for _, name := range p.foreign {
		fmt.Fprintf(c.to.Err, "%s: warning: nothing runs %s/run; define the service in rlminit.yaml\n", c.name, filepath.Join(dir, name))
	}
	for _, name := range p.stale {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("cannot remove the entry %s: %w", name, durable.Bare(err))
		}
	}
	for _, name := range p.link {
		if err := enter(dir, published, name); err != nil {
			return fmt.Errorf("cannot make %s: %w", filepath.Join(dir, name), err)
		}
	}
	return nil
}

// register makes a profile of a directory of a gateway. Without the file down it is to run, whatever
// initial_state says, as it would under s6.
func (c *call) register(client *control.Client, dir string, made registered) error {
	_, err := client.CreateProfile(c.ctx, made.CreateProfile)
	if err == nil && !made.Stopped {
		_, err = client.Start(c.ctx, gatewayPrefix+made.Name, control.Operate{})
	}
	if err != nil {
		return err
	}
	at := filepath.Join(dir, gatewayPrefix+made.Name)
	if len(made.exports) > 0 {
		fmt.Fprintf(c.to.Err, "%s: warning: %s/run sets %s, which the gateway of the configuration does not get; rlminit profile set %s NAME=VALUE does that\n", c.name, at, strings.Join(made.exports, ", "), made.Name)
	}
	if made.logs {
		fmt.Fprintf(c.to.Err, "%s: warning: nothing runs %s/log/run; rlminit logs %s has the log\n", c.name, at, made.Name)
	}
	return nil
}

// enter makes the entry of a service: a link to its slot, or, for a profile that was found
// stopped, which has none, a directory with the file down and the mark.
func enter(dir, published, name string) error {
	path, slot := filepath.Join(dir, name), filepath.Join(published, name)
	if exists(slot) {
		if err := os.Symlink(slot, path); err != nil && !errors.Is(err, fs.ErrExist) {
			return errors.Unwrap(err)
		}
		return nil
	}
	staged := filepath.Join(dir, "."+name+".new")
	if err := os.Mkdir(staged, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return durable.Bare(err)
	}
	for _, file := range []string{"down", mark} {
		if err := os.WriteFile(filepath.Join(staged, file), nil, 0o644); err != nil {
			return durable.Bare(err)
		}
	}
	if err := os.Rename(staged, path); err != nil {
		return errors.Unwrap(err)
	}
	return nil
}

// isOwnDir tells whether a scan directory is one that an application keeps, and not the
// supervisor's under another name.
func isOwnDir(path string) bool {
	real, _ := filepath.EvalSymlinks(path)
	info, err := os.Stat(real)
	return err == nil && info.IsDir() && !(filepath.Base(real) == "services" && isRuntime(filepath.Dir(real)))
}

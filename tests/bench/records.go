package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/journal"
)

// recordFigures is what the act records prints: times in ms, rates a second.
type recordFigures struct {
	Stop    []float64 `json:"stop"` // of all services, and the same with --runtime
	Runtime []float64 `json:"runtime"`
	Sync    []float64 `json:"sync"` // one fsync on the volume
	Create  []float64 `json:"create"`
	Needed  []float64 `json:"needed"` // what a creation writes, and its fsyncs
}

// rateFigures is what the act rates prints.
type rateFigures struct {
	One  []float64 `json:"one"`  // commands a second, of one client
	Many []float64 `json:"many"` // of 64 clients at once
	Sync []float64 `json:"sync"` // ms, of the journal's fsyncs for one client
}

// recordMeasures are those of what a command costs that is acknowledged.
func recordMeasures() []measure {
	var b strings.Builder
	b.WriteString("gateway: {command: [sleep, \"1000000\"], ports: 20000-29999}\nservices:\n")
	for i := range many {
		fmt.Fprintf(&b, "  s%05d: {command: [sleep, \"1000000\"], enabled: false, stop: {signal: KILL}}\n", i)
	}
	b.WriteString("  never: {command: [sleep, \"1000000\"], ready: {notify: true, timeout: 10h}}\n")
	for i := range clients {
		fmt.Fprintf(&b, "  w%05d: {command: [sleep, \"1\"], enabled: false, requires: [never]}\n", i)
	}
	figures := sync.OnceValues(func() (f recordFigures, err error) {
		err = container{more: b.String()}.play("records", &f)
		return f, err
	})
	rates := func(slow bool) ([]row, error) { // as root
		var f rateFigures
		err := container{root: true, more: b.String(), slow: slow}.play("rates", &f)
		return []row{{"64 clients", f.Many, "a second"}, {"one", f.One, "a second"}, {"an fsync", f.Sync, "ms"}}, err
	}
	return []measure{
		{name: "records: stop of 1,000 services, the whole process", promise: "as --runtime, and one fsync", run: func() ([]row, error) {
			f, err := figures()
			return []row{{"stop", f.Stop, "ms"}, {"--runtime", f.Runtime, "ms"}, {"an fsync", f.Sync, "ms"}}, err
		}},
		{name: "records: profile create, acknowledged", promise: "3 ms more than the writes and fsyncs that it needs", run: func() ([]row, error) {
			f, err := figures()
			return []row{{"create", f.Create, "ms"}, {"its fsyncs", f.Needed, "ms"}}, err
		}},
		{name: "records: commands of 64 clients at once, as many as the processors carry", run: func() ([]row, error) {
			return rates(false)
		}},
		{name: "records: commands of 64 clients at once, where an fsync takes 4 ms", promise: "10 times as many as of one", run: func() ([]row, error) {
			if !hasSlowDisk() {
				return nil, nil
			}
			return rates(true)
		}},
	}
}

const (
	many    = 1000 // services that are stopped
	clients = 64   // who give commands at once
)

// playRecords is the main command of that container.
func playRecords(args []string) error {
	client := control.Open()
	var f recordFigures
	rlminit := func(verb ...string) error {
		if out, err := exec.Command(args[0], verb...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(verb, " "), err, out)
		}
		return nil
	}
	took := func(values *[]float64, do func() error) error {
		began := time.Now()
		err := do()
		*values = append(*values, ms(time.Since(began)))
		return err
	}
	for range 3 {
		for values, more := range map[*[]float64][]string{&f.Stop: nil, &f.Runtime: {"--runtime"}} {
			for hundred := range many / 100 { // a machine that does something else as well has its limits
				words := []string{"start"} // by full names: a set starts no service that is disabled
				for i := range 100 {
					words = append(words, fmt.Sprintf("s%05d", 100*hundred+i))
				}
				if err := rlminit(words...); err != nil {
					return err
				}
			}
			if err := took(values, func() error { return rlminit(append([]string{"stop", "s*"}, more...)...) }); err != nil {
				return err
			}
		}
	}
	home := os.Getenv("RLMINIT_HOME")
	dir, err := durable.Open(home + "/profiles")
	if err != nil {
		return err
	}
	for i := range 30 {
		err := took(&f.Create, func() error {
			_, err := client.CreateProfile(context.Background(), control.CreateProfile{Name: fmt.Sprintf("p%d", i), Stopped: true, Environment: map[string]string{"TOKEN": "x"}})
			return err
		})
		if err == nil {
			err = took(&f.Needed, func() error { return create(dir, i) })
		}
		if err == nil {
			err = took(&f.Sync, func() error { return durableFile(dir, ".bench-sync") })
		}
		if err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

// playRates is that of one whose clients are counted.
func playRates([]string) error {
	client := control.Open()
	var f rateFigures
	for _, rate := range []struct {
		of int
		to *[]float64
	}{{1, &f.One}, {clients, &f.Many}} {
		for range 3 {
			per, fsync, err := commands(client, rate.of)
			if err != nil {
				return err
			}
			*rate.to = append(*rate.to, per)
			if rate.of == 1 {
				f.Sync = append(f.Sync, fsync)
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

// durableFile writes a file as the journal writes a record: one fsync.
func durableFile(dir *durable.Dir, name string) error {
	return dir.WriteFile(name, make([]byte, 300), durable.Write{Mode: 0o600})
}

// create does to the disk what the creation of a profile needs: a directory, made
// under another name, with two files in it, its new name, and a record.
func create(dir *durable.Dir, i int) error {
	temp, name := durable.TempName(), fmt.Sprintf(".bench-%d", i)
	how := durable.Write{Mode: 0o600}
	return errors.Join(
		dir.Mkdir(temp, 0o750),
		dir.WriteFile(temp+"/profile.yaml", []byte("environment: {TOKEN: x}\n"), how),
		dir.SyncDir(temp),
		dir.RenameNew(temp, name),
		durableFile(dir, name+"/record"),
		dir.WriteFile(name+"/gateway_state.json", make([]byte, 200), durable.Write{Mode: 0o640, Names: true}),
	)
}

// commands is how many a second so many clients give who wait for each answer, and how
// long an fsync of the journal takes meanwhile, in ms. What they command waits for what
// never comes, so that nothing is started.
func commands(client *control.Client, of int) (rate, fsync float64, err error) {
	const each = 20
	before, err := client.Counts(context.Background())
	if err != nil {
		return 0, 0, err
	}
	var all sync.WaitGroup
	failures := make(chan error, of)
	began := time.Now()
	for i := range of {
		all.Go(func() {
			for n := range each {
				verb := "start"
				if n%2 == 1 {
					verb = "stop"
				}
				if _, err := client.Operate(context.Background(), control.BeginOperation{Verb: verb, Names: []string{fmt.Sprintf("w%05d", i)}}); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-failures:
		return 0, 0, err
	default:
	}
	rate = float64(of*each) / time.Since(began).Seconds()
	after, err := client.Counts(context.Background())
	if err != nil {
		return 0, 0, err
	}
	return rate, 1000 * (after.Journal.SyncS - before.Journal.SyncS) / float64(after.Journal.Syncs-before.Journal.Syncs), nil
}

// bootFigures is what the act boot prints.
type bootFigures struct {
	Took   float64 `json:"took"`   // ms, from the supervisor's begin
	Memory float64 `json:"memory"` // MB, of the supervisor when that has settled
}

// bootMeasures are those of what a boot finds on the volume.
func bootMeasures() []measure {
	const yaml = "gateway: {command: [sleep, \"1000000\"], ports: 20000-29999, remove_at_boot: [gateway.pid]}\n"
	volumes := []struct {
		name    string
		prepare func(home string) error
	}{
		{"empty", func(string) error { return nil }},
		{"5,000 stopped", func(home string) error { return profilesOn(home, 5000) }},
		{"50 MB journal", journalOn},
	}
	figures := sync.OnceValues(func() (map[string][]bootFigures, error) {
		all := map[string][]bootFigures{}
		for range *rounds {
			for _, v := range volumes {
				var f bootFigures
				if err := (container{more: yaml, prepare: v.prepare}).play("boot", &f); err != nil {
					return nil, fmt.Errorf("%s: %w", v.name, err)
				}
				all[v.name] = append(all[v.name], f)
			}
		}
		return all, nil
	})
	of := func(unit string, value func(bootFigures) float64, names ...string) func() ([]row, error) {
		return func() ([]row, error) {
			f, err := figures()
			var rows []row
			for _, name := range names {
				var values []float64
				for _, one := range f[name] {
					values = append(values, value(one))
				}
				rows = append(rows, row{name, values, unit})
			}
			return rows, err
		}
	}
	took, memory := func(f bootFigures) float64 { return f.Took }, func(f bootFigures) float64 { return f.Memory }
	return []measure{
		{name: "boot: with 5,000 stopped profiles", promise: "1 s", run: of("ms", took, "5,000 stopped", "empty")},
		{name: "boot: memory of the supervisor beside 5,000 stopped profiles", promise: "10 MB more", run: of("MB", memory, "5,000 stopped", "empty")},
		{name: "boot: reading a journal of 50 MB", promise: "0.3 s", run: of("ms", took, "50 MB journal", "empty")},
		{name: "boot: memory of the supervisor after a long history", promise: "as after none", run: of("MB", memory, "50 MB journal", "empty")},
	}
}

// profilesOn makes stopped profiles, as a container before has left them.
func profilesOn(home string, n int) error {
	for i := range n {
		name := fmt.Sprintf("p%05d", i)
		dir := filepath.Join(home, "profiles", name)
		state := fmt.Sprintf(`{"version":1,"profile":%q,"desired_state":"stopped","gateway_state":"stopped","port":%d}`, name, 20000+i)
		err := errors.Join(os.MkdirAll(dir, 0o750),
			os.WriteFile(filepath.Join(dir, "profile.yaml"), fmt.Appendf(nil, "environment: {TOKEN: t%d}\n", i), 0o600),
			os.WriteFile(filepath.Join(dir, "gateway_state.json"), []byte(state), 0o640))
		if err != nil {
			return err
		}
	}
	return nil
}

// journalOn makes a journal as large as it gets, 50 MB, of many transitions.
func journalOn(home string) error {
	dir, err := durable.Open(home)
	if err != nil {
		return err
	}
	defer dir.Close()
	j, err := journal.Open(dir, journal.Options{Boot: "a0a0a0a0"})
	if err != nil {
		return err
	}
	defer j.Close()
	type transition struct {
		Service string `json:"service"`
		From    string `json:"from"`
		To      string `json:"to"`
		Cause   string `json:"cause"`
	}
	for written := 0; written < 49<<20; {
		for i := range 500 {
			e := transition{fmt.Sprintf("gateway-p%05d", i), "running", "backoff", "killed by KILL; started again after a while"}
			j.Note(journal.Entry{Type: journal.TypeTransition, Body: e})
		}
		if _, err := j.Append(context.Background(), journal.Entry{Type: journal.TypeTransition, Body: transition{}}); err != nil {
			return err
		}
		written = int(j.Stats().Bytes)
	}
	kept := int64(0)
	segments, err := filepath.Glob(filepath.Join(home, journal.Dir, "*.jsonl"))
	for _, segment := range segments {
		if info, err := os.Stat(segment); err == nil {
			kept += info.Size()
		}
	}
	if err == nil && kept < 45<<20 {
		err = fmt.Errorf("the journal has only %d MB", kept>>20)
	}
	return err
}

// playBoot is the main command of such a container: it says how long the boot
// took, and what the supervisor has when it has settled.
func playBoot([]string) error {
	client := control.Open()
	var f bootFigures
	query := control.EventQuery{Types: []string{control.TypeBooted}, Follow: true}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := client.Events(ctx, query, func(e control.Event) error {
		var booted struct{ Steps []struct{ MS float64 } }
		if err := json.Unmarshal(e.Raw, &booted); err != nil {
			return err
		}
		f.Took = booted.Steps[len(booted.Steps)-1].MS
		return errBooted
	})
	if !errors.Is(err, errBooted) {
		return err
	}
	time.Sleep(5 * time.Second) // until what the boot had taken is given back
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		if argv, _ := os.ReadFile(line); strings.HasPrefix(string(argv), "rlminit\x00supervise\x00") {
			f.Memory = field(filepath.Join(filepath.Dir(line), "status"), "VmRSS:") / 1024
		}
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(f)
	}
	return err
}

var errBooted = errors.New("the boot is over")

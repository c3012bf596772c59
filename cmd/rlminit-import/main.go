// rlminit-import is `rlminit import`: it writes an rlminit.yaml from what runs today under
// another supervisor. It reads files, and starts nothing.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"rlminit/beside/move"
	"rlminit/beside/move/source"
	"rlminit/control"
)

const usage = `Usage: rlminit import [--from SOURCE] [--root DIR] [--user USER] [--images FILE]
                      [-o FILE] [--force] [--json] PATH…

Writes an rlminit.yaml from what runs today under another supervisor, on stdout
or to FILE. What it could not take over it names on stderr, a line for each:
FILE:LINE: what: why, and what to do. It reads the PATHs and starts nothing.

  PATH     a file or a directory: the root of an image, service directories, unit
           files, a configuration. Files that these include are read where they
           lie below PATH's directory or --root
  SOURCE   s6, supervisord, systemd, procfile or compose. Without --from it is
           recognised by what lies at PATH

Flags:
`

const codes = `
Exit codes: 0 everything was taken over; 14 something was left out; 1 nothing
could be read; 2 the command line is wrong.

Examples:
  rlminit import /etc/supervisor/supervisord.conf >rlminit.yaml
  rlminit import --root image/ image/ -o image/etc/rlminit/rlminit.yaml
  docker image inspect $(docker compose config --images) >images.json
  rlminit import --images images.json compose.yaml -o rlminit.yaml
  rlminit import --from systemd /lib/systemd/system/{nginx,redis-server}.service

docs/import.md has what becomes of each key, docs/from/ a recipe for each source.
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// flags are those of the command line.
type flags struct {
	from, root, user, out, images string
	json, force                   bool
}

// run is the program. It returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	var f flags
	set := pflag.NewFlagSet("rlminit import", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&f.from, "from", "", "the `SOURCE`: "+strings.Join(source.Names(), ", "))
	set.StringVar(&f.root, "root", "", "the `DIR` that is the container's / (default: found by PATH, else /)")
	set.StringVar(&f.user, "user", "", "the `USER` of services that name none (default: the one that most of the source name, else 1000:1000)")
	set.StringVarP(&f.out, "output", "o", "", "write to `FILE`, as a whole or not at all, and not to stdout")
	set.BoolVar(&f.force, "force", false, "let -o overwrite a FILE that has something else in it")
	set.StringVar(&f.images, "images", "", "a `FILE` with what docker image inspect prints of a Compose file's images")
	set.BoolVar(&f.json, "json", false, "write a JSON object with source, root, services, left and, without -o, config")
	err := set.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, usage+set.FlagUsages()+codes)
		return control.ExitDone
	case err != nil:
		return fail(stderr, control.ExitUsage, fmt.Errorf("%w; see rlminit import --help", err))
	case set.NArg() == 0:
		return fail(stderr, control.ExitUsage, errors.New("PATH is missing; write rlminit import PATH, or see rlminit import --help"))
	}
	return convert(f, set.Args(), stdout, stderr)
}

func fail(stderr io.Writer, code int, err error) int {
	fmt.Fprintf(stderr, "rlminit: %s\n", move.OneLine(err.Error()))
	return code
}

// convert reads the paths and writes what comes of them.
func convert(f flags, paths []string, stdout, stderr io.Writer) int {
	tree, err := move.NewTree(f.root, paths)
	if err != nil {
		return fail(stderr, control.ExitFailed, err)
	}
	if f.images != "" {
		tree.ReadImages(f.images)
	}
	var from *source.Source
	if f.from != "" {
		if from, err = source.Named(f.from); err != nil {
			return fail(stderr, control.ExitUsage, err)
		}
	} else if from, err = source.Recognise(tree, paths); err != nil {
		return fail(stderr, control.ExitFailed, err)
	}
	plan, err := from.Read(tree, paths)
	if err != nil {
		return fail(stderr, control.ExitFailed, err)
	}
	plan.ChooseUser(f.user)
	text, err := plan.Settle()
	if err != nil {
		return fail(stderr, control.ExitFailed, err)
	}
	if err := write(f, tree, from, plan, text, stdout, stderr); err != nil {
		return fail(stderr, control.ExitFailed, err)
	}
	if len(plan.Left()) > 0 {
		return control.ExitPending
	}
	return control.ExitDone
}

// made is what --json writes.
type made struct {
	Source   string         `json:"source"`
	Root     string         `json:"root"`
	Services []service      `json:"services"`
	Left     []move.Left    `json:"left"`
	Config   string         `json:"config,omitempty"`
	Counts   map[string]int `json:"counts"` // of left, by reason
}

type service struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Kind   bool   `json:"kind,omitempty"`
}

func write(f flags, tree *move.Tree, from *source.Source, plan *move.Plan, text []byte, stdout, stderr io.Writer) error {
	left := plan.Left()
	if f.out != "" {
		if err := replace(f.out, text, f.force); err != nil {
			return err
		}
	}
	if f.json {
		m := made{Source: from.Name, Root: tree.Root, Services: []service{}, Left: left, Counts: counted(left)}
		for _, s := range plan.Services {
			m.Services = append(m.Services, service{s.Name, s.Source, s.At.File, s.At.Line, s.Kind})
		}
		if m.Left == nil {
			m.Left = []move.Left{}
		}
		if f.out == "" {
			m.Config = string(text)
		}
		e := json.NewEncoder(stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(m)
	}
	var said bytes.Buffer
	fmt.Fprintf(&said, "rlminit: %s, in the root %s: %s, %s left out%s\n", from.Name, tree.Root, several(len(plan.Services), "service"), several(len(left), "thing"), byReason(left))
	for _, l := range left {
		fmt.Fprintln(&said, l)
	}
	if _, err := stderr.Write(said.Bytes()); err != nil {
		return err
	}
	if f.out == "" {
		if _, err := stdout.Write(text); err != nil {
			return fmt.Errorf("cannot write the configuration: %w", err)
		}
	}
	return nil
}

// several is a number of things in words.
func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// byReason says of how much was left out for which reason, the most frequent first.
func byReason(left []move.Left) string {
	counts := counted(left)
	reasons := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(reasons, func(a, b string) int { return counts[b] - counts[a] })
	said := ""
	for _, r := range reasons {
		said += fmt.Sprintf(", %d %s", counts[r], r)
	}
	return strings.Replace(said, ",", ":", 1)
}

func counted(left []move.Left) map[string]int {
	counts := map[string]int{}
	for _, l := range left {
		counts[string(l.Reason)]++
	}
	return counts
}

// replace writes a file as a whole: what was there stays until the new one is complete. What
// a person may have written there is overwritten only with force. A configuration must be
// writable by its owner alone.
func replace(path string, text []byte, force bool) (err error) {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	} else if !force && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot write %s: something else is there; --force overwrites it, and -o with another name lets you compare", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".rlminit.yaml.*")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
			err = fmt.Errorf("cannot write %s: %w", path, err)
		}
	}()
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

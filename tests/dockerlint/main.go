// Command dockerlint checks Dockerfiles as hadolint does, without a Docker engine:
// BuildKit's parser reads them and has its say, the rules below look at what it read, and
// shellcheck reads each RUN. Of a Markdown page it checks the first Dockerfile that stands
// in it as an indented block.
//
// It is a module of its own, so that nothing else depends on what it needs.
//
//	dockerlint FILE…
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	code := 0
	for _, name := range os.Args[1:] {
		text, err := os.ReadFile(name)
		if strings.HasSuffix(name, ".md") {
			text = block(text)
		}
		if err == nil {
			for _, fault := range check(text) {
				fmt.Printf("%s:%s\n", name, fault)
				code = 1
			}
		}
		if err != nil || len(text) == 0 {
			fmt.Printf("%s: no Dockerfile: %v\n", name, err)
			code = 1
		}
	}
	os.Exit(code)
}

// block is the first indented block of a page that begins with FROM, at its own lines.
func block(page []byte) []byte {
	var out bytes.Buffer
	found := false
	for line := range bytes.Lines(page) {
		code, is := bytes.CutPrefix(line, []byte("    "))
		if found && !is {
			return out.Bytes()
		}
		if found = found || is && bytes.HasPrefix(code, []byte("FROM ")); found {
			out.Write(code)
		} else {
			out.WriteByte('\n')
		}
	}
	if !found {
		return nil
	}
	return out.Bytes()
}

// faults are what is wrong, each with its line.
type faults []string

func (f *faults) add(at []parser.Range, format string, args ...any) {
	line := 0
	if len(at) > 0 {
		line = at[0].Start.Line
	}
	*f = append(*f, fmt.Sprintf("%d: %s", line, fmt.Sprintf(format, args...)))
}

// check says what is wrong with a Dockerfile.
func check(text []byte) (f faults) {
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		f.add(nil, "%v", err)
		return f
	}
	for _, w := range parsed.Warnings {
		f.add([]parser.Range{*w.Location}, "%s", w.Short)
	}
	stages, args, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{
		Warn: func(rule, _, _, message string, at []parser.Range) { f.add(at, "%s: %s", rule, message) },
	}))
	if err != nil {
		f.add(nil, "%v", err)
		return f
	}
	values := map[string]string{}
	for _, a := range args {
		for _, pair := range a.Args {
			values[pair.Key] = pair.ValueString()
		}
	}
	known := map[string]bool{"scratch": true}
	for i, s := range stages {
		image := os.Expand(s.BaseName, func(name string) string { return values[name] })
		f.image(s.Location, image, known)
		if s.Name != "" && known[s.Name] {
			f.add(s.Location, "a stage is named %s already", s.Name)
		}
		for _, c := range s.Commands {
			f.command(c, known)
		}
		known[s.Name], known[fmt.Sprint(i)] = true, true
	}
	return f
}

// image wants a stage that stands above, or an image whose version is named.
func (f *faults) image(at []parser.Range, name string, known map[string]bool) {
	_, tag, tagged := strings.Cut(path.Base(name), ":")
	switch {
	case known[name] || strings.Contains(name, "@sha256:"):
	case name == "":
		f.add(at, "the image's ARG has no default")
	case !tagged:
		f.add(at, "%s is neither a stage above nor an image with a tag", name)
	case tag == "latest" && name != "rlminit:latest": // which make image makes
		f.add(at, "%s is another image tomorrow; name a version", name)
	}
}

// command looks at one instruction.
func (f *faults) command(c instructions.Command, known map[string]bool) {
	at := c.Location()
	switch c := c.(type) {
	case *instructions.CopyCommand:
		if c.From != "" {
			f.image(at, c.From, known)
		}
		if len(c.SourcePaths) > 1 && !strings.HasSuffix(c.DestPath, "/") {
			f.add(at, "several files are copied to %s: write %s/", c.DestPath, c.DestPath)
		}
	case *instructions.AddCommand:
		f.add(at, "ADD unpacks and fetches; write COPY")
	case *instructions.WorkdirCommand:
		if !path.IsAbs(c.Path) {
			f.add(at, "WORKDIR %s depends on the base image; write an absolute path", c.Path)
		}
	case *instructions.CmdCommand:
		f.exec(at, c.PrependShell, "CMD")
	case *instructions.EntrypointCommand:
		f.exec(at, c.PrependShell, "ENTRYPOINT")
	case *instructions.HealthCheckCommand:
		f.exec(at, len(c.Health.Test) > 0 && c.Health.Test[0] == "CMD-SHELL", "HEALTHCHECK CMD")
	case *instructions.UserCommand:
		if c.User == "root" || c.User == "0" {
			f.add(at, "USER root is what it is without it")
		}
	case *instructions.RunCommand:
		f.run(at, c)
	}
}

// exec wants the form in which the program is the container's own process and gets its
// signals, with no shell between.
func (f *faults) exec(at []parser.Range, shell bool, what string) {
	if shell {
		f.add(at, `%s is run by a shell, which gets the signals; write ["program", "argument"]`, what)
	}
}

// run has shellcheck read what a shell will.
func (f *faults) run(at []parser.Range, c *instructions.RunCommand) {
	script := strings.Join(c.CmdLine, " ")
	for _, file := range c.Files {
		script += "\n" + file.Data
	}
	for _, word := range strings.Fields(script) {
		if word == "sudo" {
			f.add(at, "sudo in a RUN, which is root's already")
		}
	}
	if strings.Contains(script, "apt-get install") && !strings.Contains(script, "--no-install-recommends") {
		f.add(at, "apt-get install takes along what is only recommended; write --no-install-recommends")
	}
	if !c.PrependShell {
		return
	}
	shellcheck := exec.Command("shellcheck", "-s", "sh", "-f", "gcc", "-")
	shellcheck.Stdin = strings.NewReader(script + "\n")
	out, err := shellcheck.CombinedOutput()
	if err != nil {
		f.add(at, "RUN: %s%v", out, err)
	}
}

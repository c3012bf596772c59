package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"rlminit/control"
)

// sourceOf finds out which revision a declared set is of, and whether it is just
// that. Where the set lies in a git work tree, and git is there, git is asked;
// else the caller's word counts, with the mark that git describe --dirty
// makes. With required, an unclean tree is a problem.
func sourceOf(ctx context.Context, dir, file, said string, required bool) (revision string, clean bool, err error) {
	dirty := func(format string, args ...any) (string, bool, error) {
		if !required {
			return said, false, nil
		}
		problem := control.BadRequest("the source is not clean: "+format, args...)
		problem.ExitCode = control.ExitNotClean
		return "", false, problem
	}
	if strings.HasSuffix(said, "-dirty") || strings.HasSuffix(said, "+dirty") {
		return dirty("%s says so", said)
	}
	g := git{ctx, dir}
	head, err := g.ask("rev-parse", "--verify", "HEAD^{commit}")
	if dir == "" || err != nil {
		if said == "" {
			return dirty("nobody says which revision it is, and it lies in no git work tree (that git would read); write --source REV")
		}
		return said, false, nil
	}
	if said != "" {
		commit, err := g.ask("rev-parse", "--verify", said+"^{commit}")
		if err != nil || commit != head {
			return dirty("it is said to be %s, and the work tree is at %s", said, head)
		}
	} else {
		said = head
	}
	changed, err := g.ask("status", "--porcelain", "--untracked-files=no")
	switch {
	case err != nil:
		return dirty("git cannot tell: %v", err)
	case changed != "":
		first, _, more := strings.Cut(changed, "\n")
		if more {
			first += " and more"
		}
		return dirty("git status says %s", strings.TrimSpace(first))
	}
	if _, err := g.ask("ls-files", "--error-unmatch", "--", filepath.Base(file)); err != nil {
		return dirty("%s is not in git", file)
	}
	return said, true, nil
}

// git asks git about a directory. Nothing that the work tree configures is run.
type git struct {
	ctx context.Context
	dir string
}

func (g git) ask(args ...string) (string, error) {
	cmd := exec.CommandContext(g.ctx, "git", append([]string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C", g.dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	out, err := cmd.Output()
	return strings.TrimSuffix(string(out), "\n"), err
}

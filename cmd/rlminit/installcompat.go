package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"rlminit/reap/pure"
)

// s6Names are the commands of s6 that the program rlminit-s6 has.
var s6Names = []string{"s6-notifyoncheck", "s6-setuidgid", "s6-svc", "s6-svok", "s6-svscanctl", "s6-svstat", "s6-svwait", "with-contenv"}

// compatLink is one that was made, or was there.
type compatLink struct {
	Link   string `json:"link"`
	Target string `json:"target"`
}

// installCompatVerb makes the names under which rlminit takes the place of
// another init.
func installCompatVerb(t *terminal) *cobra.Command {
	force := false
	var shims []string
	cmd := &cobra.Command{
		Use:   "install-compat [--shim NAME=/PATH…] DIR",
		Short: "make links that let rlminit act as tini, dumb-init, catatonit or s6, and shims",
		Long: `Makes symbolic links named tini, tini-static, docker-init, podman-init,
dumb-init and catatonit in DIR, which point to this binary. Called by one of
these names it takes that program's command line, variables, messages and exit
codes; the first four are tini's. A link that is right already stays; anything
else of that name is only replaced with --force.

As dumb-init it takes -c, -r, -v, -V and -h, with their long names, and
DUMB_INIT_DEBUG and DUMB_INIT_SETSID. The command gets a session of its own and
the terminal, signals go to its whole group, TSTP, TTIN and TTOU stop dumb-init
too, what is left of the group is sent TERM when the command has ended, and a
command that cannot be executed makes the exit code 2. As catatonit it takes -g,
-h, -L, -P and -V, and CATATONIT_DEBUG.

Where the program rlminit-s6 lies beside this binary, links to it are made too,
named as s6's commands are: s6-svc, s6-svstat, s6-svok, s6-svwait, s6-svscanctl,
s6-setuidgid, s6-notifyoncheck and with-contenv. They take a path such as
/run/service/NAME for the service NAME, as root and as the service user.

With --shim it makes shims instead, by the program rlminit-shim: as DIR/NAME
root runs PATH as the service user, with the environment and the directory that
rlminit exec gives a command, and any other user runs it as it is. So docker
exec BOX NAME leaves no file of root's on the volume. DIR comes before the
directory of PATH in PATH. docs/compat.md has the details of all these names.

Engines need no link: dockerd --init-path /usr/local/bin/rlminit, and podman run
--init --init-path /usr/local/bin/rlminit.`,
		Example: `  rlminit install-compat /usr/bin
  rlminit install-compat --shim agent=/opt/agent/bin/agent /usr/local/bin`,
		Args: exactly("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("cannot make links: cannot find this program: %w", err)
			}
			if len(shims) > 0 {
				return runShim(self, shims, args[0], force)
			}
			links, err := makeLinks(self, args[0], force)
			if err != nil {
				return err
			}
			return answer(t, links, func() {
				for _, l := range links {
					t.printf("%s -> %s\n", l.Link, l.Target)
				}
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace existing files")
	cmd.Flags().StringArrayVar(&shims, "shim", nil, "make `NAME=/PATH`, so that root runs PATH as the service user; can be repeated")
	return forPrograms(t, cmd, "write a JSON array")
}

// makeLinks makes all links in dir.
func makeLinks(self, dir string, force bool) (links []compatLink, err error) {
	names, of := pure.Names[:], self
	s6 := filepath.Join(filepath.Dir(self), besidePrefix+"s6")
	if isProgram(s6) {
		names = slices.Concat(names, s6Names)
	}
	for i, name := range names {
		if i == len(pure.Names) {
			of = s6
		}
		link := filepath.Join(dir, name)
		if err := makeLink(of, link, force); err != nil {
			return nil, err
		}
		links = append(links, compatLink{link, of})
	}
	return links, nil
}

// runShim has the program rlminit-shim make shims.
func runShim(self string, shims []string, dir string, force bool) error {
	path := filepath.Join(filepath.Dir(self), besidePrefix+"shim")
	if !isProgram(path) {
		return notBeside("shim")
	}
	if force {
		shims = append([]string{"--force"}, shims...)
	}
	return runBeside(path, append(shims, dir))
}

// makeLink makes link point to target. With force it replaces what is there, in
// one step, so that the name is never missing.
func makeLink(target, link string, force bool) error {
	if now, err := os.Readlink(link); err == nil && now == target {
		return nil
	}
	if !force {
		err := os.Symlink(target, link)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("cannot make %s: something else has that name; use --force to replace it", link)
		}
		if err != nil {
			return fmt.Errorf("cannot make %s: %w", link, errors.Unwrap(err))
		}
		return nil
	}
	fresh := link + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot make %s: %w", link, err)
	}
	if err := os.Symlink(target, fresh); err != nil {
		return fmt.Errorf("cannot make %s: %w", link, errors.Unwrap(err))
	}
	if err := os.Rename(fresh, link); err != nil {
		os.Remove(fresh)
		return fmt.Errorf("cannot replace %s: %w", link, errors.Unwrap(err))
	}
	return nil
}

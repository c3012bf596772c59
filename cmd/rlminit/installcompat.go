package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"rlminit/reap/pure"
)

// compatLink is one that was made, or was there.
type compatLink struct {
	Link   string `json:"link"`
	Target string `json:"target"`
}

// installCompatVerb makes the names under which rlminit takes the place of
// another init.
func installCompatVerb(t *terminal) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "install-compat DIR",
		Short: "make links that let this binary act as tini, dumb-init or catatonit",
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

Engines need no link: dockerd --init-path /usr/local/bin/rlminit, and podman run
--init --init-path /usr/local/bin/rlminit.`,
		Example: "  rlminit install-compat /usr/bin",
		Args:    exactly("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("cannot make links: cannot find this program: %w", err)
			}
			links := []compatLink{}
			for _, name := range pure.Names {
				link := filepath.Join(args[0], name)
				if err := makeLink(self, link, force); err != nil {
					return err
				}
				if links = append(links, compatLink{link, self}); !t.json {
					t.printf("%s -> %s\n", link, self)
				}
			}
			return answer(t, links, func() {})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace what is there")
	return forPrograms(t, cmd, "write a JSON array")
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

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/reap/sys"
	"rlminit/supervise/process"
)

func execVerb(t *terminal) *cobra.Command {
	var profile string
	cmd := &cobra.Command{
		Use:   "exec [--profile NAME] -- CMD [ARG…]",
		Short: "run a command as the service user",
		Long: `Meant for docker exec as root: gives up every privilege for good, becomes the
user that services run as, and runs the command in that user's home, or in / if
it cannot be entered. So nothing that the command writes to the volume belongs
to root. With --profile the command gets that profile's environment, groups and
directory. The command gets the terminal that the verb is called on: start it
with docker exec -it, and not from a shell of root, into which it could type
where the kernel allows that (the sysctl dev.tty.legacy_tiocsti). The service
user may call it too; any other user is refused. The exit code is the command's;
126 if it cannot be executed and 127 if it is not found.`,
		Example: `  docker exec -it box rlminit exec --profile alice -- bash
  docker exec box rlminit exec -- touch /data/marker`,
		Args: atLeast("CMD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if profile == "" && cmd.Flags().Changed("profile") {
				return misused(cmd, "--profile takes a profile's name, not \"\"")
			}
			err := runAs(cmd, t, profile, args)
			var notRun *notExecuted
			if errors.As(err, &notRun) {
				t.complain(err.Error())
				return exitStatus(notRun.code)
			}
			return err
		},
	}
	// What follows the command's name is its own, dashes or not.
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVarP(&profile, "profile", "p", "", "with the environment, groups and directory of profile or service `NAME`")
	return cmd
}

// notExecuted is a command that could not be run, with the exit code that a
// shell gives it.
type notExecuted struct {
	code int
	what string
}

func (e *notExecuted) Error() string { return e.what }

// runAs replaces this process by the command.
func runAs(cmd *cobra.Command, t *terminal, profile string, args []string) error {
	client := t.open()
	if err := client.Trusted(); err != nil {
		return err
	}
	if profile == "" && os.Geteuid() != 0 {
		if err := passes(client); err != nil {
			return err
		}
		here, _ := os.Getwd()
		return profileMeant(cmd.Context(), client, args[0], replace(process.Where{Home: here}, args, os.Environ()))
	}
	e, err := client.Environment(cmd.Context(), profile)
	if err != nil {
		return err
	}
	uid := os.Geteuid()
	switch {
	case uid == 0:
		if err := believe(client, t, &e); err != nil {
			return err
		}
		giveTerminal(e.UID)
		if err := drop(&e); err != nil {
			return err
		}
	case uint32(uid) != e.UID && client.ProfileUser(e.UID):
		return control.NotPermitted("cannot run as uid %d, the user of profile %s: only root can become that; rlminit run --profile %s runs a job as it", e.UID, profile, profile)
	case uint32(uid) != e.UID:
		return control.WrongUser(uint32(uid), e.UID)
	}
	err = replace(process.Where{Dir: e.Dir, Home: e.Home}, args, withTerminal(e.Environment, os.Environ()))
	if profile == "" {
		err = profileMeant(cmd.Context(), client, args[0], err)
	}
	return err
}

// notFound is the exit code of a command that is not found, as a shell gives it.
const notFound = 127

// profileMeant says of a command that was not found, and has the name of a profile, how a command is
// run for that profile.
func profileMeant(ctx context.Context, client *control.Client, word string, err error) error {
	var not *notExecuted
	if !errors.As(err, &not) || not.code != notFound || strings.Contains(word, "/") {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second) // there may be no supervisor
	defer cancel()
	client.Notice = nil
	if s, unknown := client.Service(ctx, word); unknown == nil && s.Profile != nil {
		not.what += fmt.Sprintf("; to run a command for the profile %s, write rlminit exec --profile %s -- COMMAND", *s.Profile, *s.Profile)
	}
	return not
}

// passes tells whether the caller, not root, may run a command as it is:
// the service user may, and anybody where no rlminit names that.
func passes(client *control.Client) error {
	uid := uint32(os.Geteuid())
	owner, _, err := client.ServiceOwner()
	switch {
	case err == nil && owner != uid:
		return control.WrongUser(uid, owner)
	case err == nil:
		return nil
	}
	if owner, foreign := client.Foreign(); foreign {
		return control.WrongUser(uid, owner)
	}
	return nil
}

// believe holds the supervisor's word on the service user against the one that root
// has written down, for the supervisor itself runs as that user: an intruder
// there must not get a command of root's to run as somebody else. The uid and
// gid are those that PID 1 has noted in the runtime directory, or of the range that it
// has for profiles; another group must be one that the configuration and /etc/group give that user, or a tag.
func believe(client *control.Client, t *terminal, e *control.Environment) error {
	uid, gid, err := client.ServiceOwner()
	if err != nil {
		return control.Failed("%v", err)
	}
	if own := client.ProfileUser(e.UID); own {
		uid, gid = e.UID, e.UID
	}
	if e.UID == 0 || e.UID != uid {
		return control.NotPermitted("cannot run as uid %d: %s/user names uid %d; do not trust this supervisor", e.UID, client.RuntimeDir(), uid)
	}
	if e.GID != gid {
		return control.NotPermitted("cannot run as gid %d: %s/user names gid %d; do not trust this supervisor", e.GID, client.RuntimeDir(), gid)
	}
	groups, tags := configuredGroups(uid)
	e.Groups = slices.DeleteFunc(e.Groups, func(g uint32) bool {
		isTag := int(g) >= tags.Low && int(g) <= tags.High
		mine := g == gid || isTag || slices.Contains(groups, g)
		if !mine {
			t.complain(fmt.Sprintf("group %d is left out: neither the configuration nor /etc/group gives it to uid %d", g, uid))
		}
		return !mine
	})
	return nil
}

// configuredGroups returns the supplementary groups of the service user and the
// range of tags, from files that are root's.
func configuredGroups(uid uint32) (groups []uint32, tags config.Range) {
	c, _ := config.Parse(config.Bundle{}, nil) // the defaults
	host, err := config.ThisHost()
	if err != nil {
		return nil, c.Tags
	}
	if bundle, err := config.ReadBundle(configPath()); err == nil {
		if configured, faults := config.Parse(bundle, host.Lookup); len(faults) == 0 {
			c = configured
			if id, err := config.Identify(c, host); err == nil && id.UID == uid {
				return id.Groups, c.Tags
			}
			if int(uid) >= c.ProfileUsers.Low && int(uid) <= c.ProfileUsers.High {
				return config.GatewayGroups(c, host), c.Tags
			}
		}
	}
	id, err := host.Accounts.Resolve(strconv.FormatUint(uint64(uid), 10), "", nil, "/")
	if err != nil {
		return nil, c.Tags
	}
	return id.Groups, c.Tags
}

// giveTerminal makes the terminal of a session's leader the user's that it will
// run as, as login(1) does: to open it by its name takes that.
func giveTerminal(uid uint32) {
	if sid, err := unix.Getsid(0); err != nil || sid != os.Getpid() || !term.IsTerminal(0) {
		return
	}
	// In a container that may not change owners its name cannot be opened: all
	// else works.
	_ = unix.Fchown(0, int(uid), -1)
}

// withTerminal adds to a profile's environment what belongs to the terminal
// that the command is started from, and to nobody else.
func withTerminal(environment, own []string) []string {
	for _, name := range []string{"TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR"} {
		prefix := name + "="
		isIt := func(v string) bool { return strings.HasPrefix(v, prefix) }
		if i := slices.IndexFunc(own, isIt); i >= 0 {
			environment = append(slices.DeleteFunc(slices.Clone(environment), isIt), own[i])
		}
	}
	return environment
}

// replace executes the command in place of this process, and returns only if
// that fails.
func replace(where process.Where, args, environment []string) error {
	p := process.Prepare(process.Ourselves, where, args, environment)
	switch {
	case p.Unrunnable != 0:
		return &notExecuted{int(p.Unrunnable), p.Err.Error()}
	case p.Err != nil:
		return control.Failed("%v", p.Err)
	}
	if err := os.Chdir(p.Dir); err != nil {
		return control.Failed("cannot change to %s: %v", p.Dir, reason(err))
	}
	if strings.Contains(args[0], "/") {
		p.Path = args[0] // what a script without a #! line is told as its $0
	}
	for fd := range 3 {
		if sys.Closed&(1<<fd) != 0 {
			unix.CloseOnExec(fd) // the /dev/null that Go's runtime puts there
		}
	}
	err := syscall.Exec(p.Path, args, environment)
	if errors.Is(err, syscall.ENOEXEC) {
		// As a shell does it with a script that does not name its own.
		err = syscall.Exec("/bin/sh", append([]string{"sh", p.Path}, args[1:]...), environment)
	}
	what := reason(err)
	if errors.Is(err, syscall.ENOENT) {
		return &notExecuted{126, fmt.Sprintf("cannot run %q: its interpreter is not there; look at its first line", args[0])}
	}
	return &notExecuted{126, fmt.Sprintf("cannot run %q: %v", args[0], what)}
}

// reason strips an error of the path and call that the line already names.
func reason(err error) error { return durable.Bare(err) }

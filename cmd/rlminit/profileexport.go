package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/profiles"
	"rlminit/profiles/archive"
)

func profileExportVerb(t *terminal) *cobra.Command {
	output, noLog := "-", false
	cmd := &cobra.Command{
		Use:   "export NAME [--output FILE]",
		Short: "write a profile as one file: its directory, its intent and its log",
		Long: `Writes a tar archive; rlminit profile import makes the profile from it again,
here or elsewhere. Files are read with your rights, as they are at that moment:
stop the profile if its files must fit together. A file that changes while it is
read is read again, up to five times and only up to 1 MB, and named if it still
changes. A name that is replaced by something else each time is left out and
named. Only root can read the files of a profile with its own user (user: auto).
Sockets, pipes, and links that lead out of the profile are left out and named.
Its secrets (of profile create --secret) are left out too, and named, but not
what is secret in its profile.yaml. The directories of its sessions, and what
rlminit file write keeps for job undo, are not part of the archive.`,
		Example: `  docker exec box rlminit profile export alice >alice.tar
  rlminit profile export alice --no-log | gzip >alice.tar.gz`,
		Args:              exactly("NAME"),
		ValidArgsFunction: completeProfiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "-" && isTerminal(os.Stdout) {
				return misused(cmd, "an archive cannot be written to a terminal; write it to a file: --output FILE, or >FILE")
			}
			client := t.open()
			if output == "-" {
				return exportProfile(cmd.Context(), t, client, args[0], !noLog, t.out)
			}
			return exportInto(output, func(w io.Writer) error {
				return exportProfile(cmd.Context(), t, client, args[0], !noLog, w)
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", output, "write to `FILE`, which appears when it is complete (default: the standard output)")
	f.BoolVar(&noLog, "no-log", false, "without its log")
	return limited(cmd)
}

// exportInto writes a file that is there when it is whole.
func exportInto(path string, write func(io.Writer) error) error {
	temp := path + ".part"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return control.Failed("cannot write %s: it is there, of an export that is under way or was cut off; remove it", temp)
	}
	if err != nil {
		return control.Failed("cannot write %s: %v", path, reason(err))
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
	}
	return err
}

// exportProfile writes a profile's archive. What is to be known of it goes to
// stderr.
func exportProfile(ctx context.Context, t *terminal, client *control.Client, name string, withLog bool, to io.Writer) error {
	before, err := client.ProfileText(ctx, name)
	if err != nil {
		return err
	}
	p, err := client.Profile(ctx, name)
	if err != nil {
		return err
	}
	if p.Name == profiles.Default {
		return control.Conflict("the profile %q is the home directory itself, with all the others; copy that in place of an export", p.Name)
	}
	// The volume, in which nothing that a service may have put there is followed.
	home, err := durable.Open(filepath.Dir(filepath.Dir(p.Dir)))
	if err != nil {
		return control.Failed("%v", err)
	}
	defer home.Close()
	dir, err := home.OpenDir("profiles/" + p.Name)
	if err != nil {
		return unreadable(client, home, p.Name, err)
	}
	defer dir.Close()
	var log *durable.Dir
	if withLog {
		switch log, err = home.OpenDir("logs/gateways/" + p.Name); {
		case errors.Is(err, fs.ErrNotExist):
			log = nil // nothing was logged yet
		case err != nil:
			return control.Failed("%v; --no-log leaves the log out", err)
		default:
			defer log.Close()
		}
	}
	// What is open stays what it is, whatever gets the name from here on.
	switch after, err := client.ProfileText(ctx, p.Name); {
	case err != nil:
		return err
	case after.ID != before.ID:
		return control.Conflict("%s is another profile by now: the one that was to be exported was renamed or deleted meanwhile", p.Name)
	}
	m := archive.Manifest{Profile: p.Name, Desired: p.Desired, At: time.Now().UTC(), Version: version, Secrets: before.Secrets}
	if len(m.Secrets) > 0 {
		t.complain("the secrets of " + p.Name + " are not in the archive: " + strings.Join(m.Secrets, ", "))
	}
	if p.Port != nil {
		m.Port = *p.Port
	}
	out := bufio.NewWriterSize(to, 256<<10)
	err = archive.Write(out, m, dir, log, func(line string) { t.complain(line) })
	if err == nil {
		err = out.Flush()
	}
	if err != nil && t.out.failed == nil {
		err = control.Failed("cannot export %s: %v", p.Name, err)
	}
	return err
}

// unreadable is why a profile's directory cannot be opened. That of a profile with a
// user of its own is in order, and to be given to nobody else.
func unreadable(client *control.Client, home *durable.Dir, name string, err error) error {
	info, e := home.Lstat("profiles/" + name)
	if uid := os.Geteuid(); errors.Is(err, fs.ErrPermission) && e == nil && uid != 0 && client.ProfileUser(info.UID) {
		return control.NotPermitted("cannot read %s as uid %d: it belongs to uid %d, the user of profile %s, and only root can read it; use docker exec without -u",
			home.Path("profiles/"+name), uid, info.UID, name)
	}
	return control.Failed("%v", err)
}

func profileImportVerb(t *terminal) *cobra.Command {
	o := &operation{verb: "start"}
	what := control.ImportProfile{}
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "make a profile from an archive of profile export",
		Long: `Makes a profile from an archive of rlminit profile export, whole or not at all,
and starts its gateway if it was meant to run. The profile has its log again,
and its port if that is free here. An archive that was cut short or changed is
refused: for instance one with absolute names, with links that lead out of the
profile, or with devices. Secrets are not in the archive: the answer names those
that are missing, and rlminit profile set --secret gives them. What sessions and
rlminit file write keep in a profile's directory is ignored, if somebody has put
it into the archive.`,
		Example: `  docker exec -i box rlminit profile import - <alice.tar
  gunzip -c alice.tar.gz | rlminit profile import - --as alice-next --stopped`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := os.Stdin
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return control.Failed("cannot read %s: %v", args[0], reason(err))
				}
				defer f.Close()
				in = f
			} else if isTerminal(in) {
				return misused(cmd, "an archive cannot be typed on a terminal; write: rlminit profile import - <FILE")
			}
			client := t.open()
			return o.attempt(cmd.Context(), t, what.Name, what.Stopped, func(ctx context.Context, wait *control.Wait) (control.Outcome, error) {
				what.Wait = wait
				return client.ImportProfile(ctx, what, in)
			}).end()
		},
	}
	f := cmd.Flags()
	f.StringVar(&what.Name, "as", "", "under another name, `NEW`")
	f.BoolVar(&what.Stopped, "stopped", false, "only record it, and start nothing")
	o.waitFlags(t, cmd)
	return cmd
}

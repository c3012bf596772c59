package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/internal/durable"
	"rlminit/journal"
)

func journalVerb(t *terminal) *cobra.Command {
	return group("journal", "check and export the journal on the volume", `The journal records commands to rlminit and their results. These verbs read its
files, ask no supervisor and change nothing, so they work on the volume of a
stopped container too. Only root and the supervisor's own user may use them;
docker exec runs as root unless it is told otherwise.`, journalVerifyVerb(t), journalExportVerb(t))
}

func journalVerifyVerb(t *terminal) *cobra.Command {
	return forPrograms(t, &cobra.Command{
		Use:   "verify [DIR]",
		Short: "look for damage in the journal",
		Long: `Reads each segment of the journal to its end and reports damage, and what the
next boot would do about it. DIR is the directory of the volume or of the
segments; the default is that of the configuration in use. The exit code is 0 if
there is no damage, and 1 otherwise.`,
		Example: `  rlminit journal verify
  docker run --rm -v box-data:/data IMAGE rlminit journal verify /data`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o, err := openJournal(args)
			if err != nil {
				return err
			}
			defer o.Close()
			verdicts, summary, err := o.Verify()
			if t.json {
				return verdictsAsJSON(t, verdicts, summary, err)
			}
			sound := true
			for _, v := range verdicts {
				if len(v.Faults) == 0 {
					t.printf("%s: %d records, sound\n", printable(v.Name), v.Records)
					continue
				}
				sound = false
				for _, fault := range v.Faults {
					t.complain(v.Name + ": " + fault)
				}
			}
			if err != nil {
				return control.Failed("cannot use %s: %v", o.Path(), err)
			}
			t.printf("%s\n", printable(summary))
			if !sound {
				return exitStatus(control.ExitFailed)
			}
			return nil
		},
	}, "write JSON")
}

// verified is the outcome for a journal.
type verified struct {
	Sound    bool              `json:"sound"`
	Segments []journal.Verdict `json:"segments"`
	Summary  string            `json:"summary,omitempty"`
	Refused  string            `json:"refused,omitempty"`
}

func verdictsAsJSON(t *terminal, verdicts []journal.Verdict, summary string, refused error) error {
	answer := verified{Sound: refused == nil, Segments: append([]journal.Verdict{}, verdicts...), Summary: summary}
	if refused != nil {
		answer.Refused = refused.Error()
	}
	for _, v := range verdicts {
		answer.Sound = answer.Sound && len(v.Faults) == 0
	}
	if err := t.printJSON(answer); err != nil || answer.Sound {
		return err
	}
	return exitStatus(control.ExitFailed)
}

func journalExportVerb(t *terminal) *cobra.Command {
	var q journalFlags
	cmd := &cobra.Command{
		Use:   "export [DIR]",
		Short: "write the records of the journal, one object a line",
		Long: `Writes the undamaged records of all segments as they are, oldest first; with
--type only those of that type. DIR is as for verify.`,
		Example: `  rlminit journal export > journal.jsonl
  rlminit journal export --type operation --since 2h | jq -c '{at, verb, services, actor}'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := q.query(cmd, t, nil)
			if err != nil {
				return err
			}
			o, err := openJournal(args)
			if err != nil {
				return err
			}
			defer o.Close()
			err = o.Read(cmd.Context(), query, func(r journal.Record) error {
				t.printf("%s\n", document.Harmless(r.Line))
				return t.out.failed
			})
			if err != nil && !errors.Is(err, t.out.failed) {
				return control.Failed("cannot read %s: %v", o.Path(), err)
			}
			return err
		},
	}
	q.add(cmd)
	return cmd
}

// journalFlags are those that say which records are wanted.
type journalFlags struct {
	since, until string
	types        []string
}

func (f *journalFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.since, "since", "", "what happened since `TIME`: 10m ago, 2026-05-24T18:05:33Z, or 2026-05-24 18:05")
	cmd.Flags().StringVar(&f.until, "until", "", "what happened until `TIME`")
	cmd.Flags().StringArrayVar(&f.types, "type", nil, "records of `TYPE`; may be given several times")
}

// query is the flags as a query.
func (f *journalFlags) query(cmd *cobra.Command, t *terminal, names []string) (q journal.Query, err error) {
	for _, when := range []struct {
		flag, text string
		at         *time.Time
	}{{"since", f.since, &q.Since}, {"until", f.until, &q.Until}} {
		if when.text == "" {
			continue
		}
		at, ok := parseWhen(when.text, t.now())
		if !ok {
			return q, misused(cmd, "%q is no time for --%s; write %s", when.text, when.flag, timesTaken)
		}
		*when.at = at
	}
	q.Types, q.Names = f.types, names
	return q, control.CheckTypes(f.types)
}

// openJournal opens the journal of the directory that was named, or of the one
// that the configuration has.
func openJournal(args []string) (*journal.Offline, error) {
	dir := ""
	if len(args) > 0 {
		dir = args[0]
	} else {
		var err error
		if dir, err = configuredHome(); err != nil {
			return nil, err
		}
	}
	o, err := journal.OpenOffline(dir)
	var denied *durable.Error
	if errors.As(err, &denied) && errors.Is(err, fs.ErrPermission) { // by its owner's will
		return nil, control.Failed("cannot read %s: you are uid %d, and only root and the supervisor's own user may; try again as root, with docker exec -u 0",
			denied.Path, os.Geteuid())
	}
	if err != nil {
		return nil, control.Failed("%s", strings.TrimSpace(err.Error()))
	}
	return o, nil
}

// configuredHome is the volume's directory as the configuration has it.
func configuredHome() (string, error) {
	path := configPath()
	bundle, err := config.ReadBundle(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", control.Failed("cannot tell where the volume is: there is no %s; name its directory", path)
	}
	if err != nil {
		return "", err
	}
	bundle.Flags = containersInit().flags
	c, faults := config.Parse(bundle, os.LookupEnv)
	if err := faults.Err(); err != nil {
		return "", control.Failed("cannot tell where the volume is: %s; name its directory", firstLine(err.Error()))
	}
	return c.Home, nil
}

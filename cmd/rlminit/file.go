package main

import (
	"os"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func fileVerb(t *terminal) *cobra.Command {
	return group("file", "read and write files of a profile", `Files below a profile's directory (or the service user's home), with that user's
rights. A path is relative to it, and never leads out of it.`, fileReadVerb(t), fileWriteVerb(t))
}

func fileReadVerb(t *terminal) *cobra.Command {
	var f control.ReadFile
	cmd := &cobra.Command{
		Use:   "read [--profile P] PATH",
		Short: "print a file of a profile",
		Args:  exactly("PATH"),
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			f.Path = args[0]
			out := &passer{out: t.out, err: t.err}
			r, err := client.ReadFile(cmd.Context(), f, out.pass)
			if err == nil && r.Error != nil {
				err = control.Failed("%s", *r.Error)
			}
			return err
		}),
	}
	cmd.Flags().StringVarP(&f.Profile, "profile", "p", "", "below the directory of profile or service `NAME`")
	return limited(cmd)
}

func fileWriteVerb(t *terminal) *cobra.Command {
	var w control.WriteFile
	cmd := &cobra.Command{
		Use:   "write [--profile P] PATH",
		Short: "replace a file of a profile by standard input",
		Long: `Replaces a file by standard input, in one step, and keeps the old content.
Prints the id of the job for rlminit job undo; on a terminal, the whole command
that undoes the write. Mode and owner stay; a new file has mode 0640.`,
		Example: `  rlminit file write --profile alice config.yaml <config.yaml`,
		Args:    exactly("PATH"),
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			w.Path = args[0]
			stdin, _, err := openStdin("-")
			if err != nil {
				return err
			}
			r, err := client.WriteFile(cmd.Context(), w, stdin)
			switch {
			case err != nil:
				return err
			case t.json:
				return t.printJSON(r)
			}
			if isTerminal(os.Stdout) {
				t.printf("wrote %s; to put back what was there: rlminit job undo %s\n", printable(w.Path), r.Job)
				return nil
			}
			t.printf("%s\n", r.Job)
			return nil
		}),
	}
	cmd.Flags().StringVarP(&w.Profile, "profile", "p", "", "below the directory of profile or service `NAME`")
	cmd.Flags().BoolVar(&w.Parents, "parents", false, "make missing parent directories")
	return limited(forPrograms(t, cmd, "write the job's result, a JSON object"))
}

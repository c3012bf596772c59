package verbs

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"rlminit/control"
)

// checked is `fleet check --json`.
type checked struct {
	File   string   `json:"file"`
	Valid  bool     `json:"valid"`
	Faults []string `json:"faults"`
}

func checkVerb(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "validate the section fleet, and ask nobody",
		Long: `Reads the section fleet as the agent does, with the files that it names, opens the
bucket of data, and says all that is wrong. Neither etcd nor rlminit is asked, nor an S3
server. What it finds is so in this place, with the variables and the rights of who asks.
The exit code is 0 if there is no fault, and 1 otherwise.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := checked{File: o.config}
			if len(args) == 1 {
				c.File = args[0]
			}
			_, bucket, err := readAll(cmd.Context(), c.File)
			if bucket != nil {
				defer bucket.Close()
			}
			c.Valid, c.Faults = err == nil, []string{}
			if err != nil && !o.json {
				return exit(control.ExitFailed, "%w", err)
			}
			if err != nil {
				c.Faults, err = strings.Split(err.Error(), "\n"), exitError{code: control.ExitFailed}
			}
			return errors.Join(o.write(cmd.OutOrStdout(), []checked{c}, func(t *screen) { t.println(c.File + ": valid") }), err)
		},
	}
}

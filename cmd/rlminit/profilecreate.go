package main

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/service"
)

func profileCreateVerb(t *terminal) *cobra.Command {
	o := &operation{verb: "start"}
	var env, secret []string
	body := control.CreateProfile{}
	cmd := &cobra.Command{
		Use:   "create NAME…",
		Short: "create profiles and start their gateways",
		Long: `Makes the profile's directory on the volume from the template, records the
profile, starts its gateway and waits until it is ready. A gateway without a
readiness probe must have run for 50 ms. A name has 1 to 64 of a-z, 0-9, _ and
-, and begins with a letter or digit, but not with gateway-. With several names
each one is tried, even if another fails.`,
		Example: `  rlminit profile create alice
  rlminit profile create carol dave erin --env CHANNEL=next
  rlminit profile create bob --stopped --env LANG=C --port 9300
  rlminit profile create carol --secret TOKEN=- <token`,
		Args: atLeast("NAME"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if body.Environment, err = assignments(cmd, env); err != nil {
				return err
			}
			if body.Secrets, err = secrets(t, cmd, secret); err != nil {
				return err
			}
			names := once(args)
			if len(names) == 1 {
				body.Name = names[0]
				return createOne(cmd, t, o, body)
			}
			if cmd.Flags().Changed("port") {
				return misused(cmd, "--port takes one NAME only: each profile has its own port")
			}
			client := t.open()
			return forEach(t, names, func(name string) answered {
				own := body
				own.Name = name
				return o.create(cmd.Context(), t, client, own)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&body.Stopped, "stopped", false, "only record it, and start nothing")
	f.StringArrayVar(&env, "env", nil, "set a variable, `KEY=VALUE`, in its environment; may be repeated")
	f.StringArrayVar(&secret, "secret", nil, "a secret, `NAME=-` from stdin or NAME=@FILE; its gateway finds it in CREDENTIALS_DIRECTORY; may be repeated")
	f.IntVar(&body.Port, "port", 0, "its port, `N` (default: one that follows from the name)")
	f.BoolVar(&body.PortAny, "port-any", false, "allow a --port outside of gateway.ports")
	f.BoolVar(&body.ExistOK, "exist-ok", false, "accept a profile that exists already, and change only what --env and --secret say")
	o.waitFlags(t, cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// secrets reads the secrets that --secret names, each byte of them. It takes no value from
// the command line, where everybody could see it.
func secrets(t *terminal, cmd *cobra.Command, list []string) (map[string]string, error) {
	values := map[string]string{}
	stdin := ""
	for _, entry := range list {
		name, source, _ := strings.Cut(entry, "=")
		if fault := service.CheckSecret(name); fault != "" {
			return nil, misused(cmd, "%q %s", name, fault)
		}
		var from io.Reader
		switch path, isFile := strings.CutPrefix(source, "@"); {
		case source == "-" && stdin != "":
			return nil, misused(cmd, "stdin is used for %s already; write --secret %s=@FILE", stdin, name)
		case source == "-":
			stdin, from = name, cmd.InOrStdin()
		case isFile && path != "":
			file, err := os.Open(path)
			if err != nil {
				return nil, control.Failed("cannot read the secret %s: %v", name, err)
			}
			defer file.Close()
			from = file
		default:
			return nil, misused(cmd, "a secret is not given on the command line, where everybody can see it; write --secret %s=- and give it on stdin, or %s=@FILE", name, name)
		}
		value, err := io.ReadAll(io.LimitReader(from, service.MaxSecret+1))
		if err != nil {
			return nil, control.Failed("cannot read the secret %s: %v", name, err)
		}
		values[name] = string(value)
		t.noteNewline(name, values[name])
	}
	return values, nil
}

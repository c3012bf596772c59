package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rlminit/control"
	"rlminit/service"
)

func profileCreateVerb(t *terminal) *cobra.Command {
	o, c := &operation{verb: "start"}, &creation{}
	cmd := &cobra.Command{
		Use:   "create NAME… [--command PROG ARG…]",
		Short: "create profiles and start their gateways",
		Long: `Makes the profile's directory on the volume from the template, records the
profile, starts its gateway and waits until it is ready. A gateway without a
readiness probe must have run for 50 ms. A name has 1 to 64 of a-z, 0-9, _ and
-, and begins with a letter or digit, but not with gateway-. With several names
each one is tried, even if another fails. --kind says of which kind the gateway
is (gateways.KIND in rlminit.yaml). A kind with command: any has no command of
its own: all that follows --command is the profile's, flags too, so write it
last.`,
		Example: `  rlminit profile create alice
  rlminit profile create web1 web2 --kind web
  rlminit profile create job --kind script --command sh -c 'exec sleep 60'
  rlminit profile create carol dave erin --env CHANNEL=next
  rlminit profile create bob --stopped --env LANG=C --port 9300
  rlminit profile create carol --secret TOKEN=- <token`,
		Args: atLeast("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, t, o, args) },
	}
	c.flags(cmd.Flags())
	o.waitFlags(t, cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// creation is what rlminit profile create was asked for.
type creation struct {
	env, secret []string
	command     rest
	body        control.CreateProfile
}

func (c *creation) flags(f *pflag.FlagSet) {
	f.StringVar(&c.body.Kind, "kind", "", "the `KIND` of its gateway (default: default, the section gateway)")
	c.command.flag(f, "its own command: PROG and all that follows; for a kind with command: any")
	f.BoolVar(&c.body.Stopped, "stopped", false, "only record it, and start nothing")
	f.StringArrayVar(&c.env, "env", nil, "set a variable, `KEY=VALUE`, in its environment; may be repeated")
	f.StringArrayVar(&c.secret, "secret", nil, "a secret, `NAME=-` from stdin or NAME=FILE; its gateway finds it in CREDENTIALS_DIRECTORY; may be repeated")
	f.IntVar(&c.body.Port, "port", 0, "its port, `N` (default: one that follows from the name)")
	f.BoolVar(&c.body.PortAny, "port-any", false, "allow a --port outside of gateway.ports")
	f.BoolVar(&c.body.Restart, "restart", false, "with --exist-ok: restart a gateway that runs with older values")
	f.BoolVar(&c.body.ExistOK, "exist-ok", false, "accept a profile that exists already, and change only what --kind, --command, --env and --secret say")
}

// run creates the profiles that the command line names.
func (c *creation) run(cmd *cobra.Command, t *terminal, o *operation, args []string) (err error) {
	if c.body.Environment, err = assignments(cmd, c.env); err != nil {
		return err
	}
	if c.body.Secrets, err = secrets(t, cmd, c.secret); err != nil {
		return err
	}
	if c.body.Command, err = c.command.of(cmd, &args); err != nil {
		return err
	}
	names := once(args)
	if len(names) == 1 {
		c.body.Name = names[0]
		return createOne(cmd, t, o, c.body)
	}
	if cmd.Flags().Changed("port") {
		return misused(cmd, "--port takes one NAME only: each profile has its own port")
	}
	client := t.open()
	return forEach(t, names, func(name string) answered {
		own := c.body
		own.Name = name
		return o.create(cmd.Context(), t, client, own)
	})
}

// rest is a flag that takes all that follows it on the command line.
type rest struct {
	flags *pflag.FlagSet
	first string // --command=PROG
	given bool
	at    int // how many arguments stand before it
}

func (r *rest) String() string { return "" }
func (r *rest) Type() string   { return "" }

func (r *rest) Set(text string) error {
	if r.given {
		return errors.New("it can be given only once")
	}
	r.given, r.at = true, r.flags.NArg()
	if r.first = text; text == nothing {
		r.first = ""
	}
	r.flags.SetInterspersed(false) // what follows is an argument, whatever it begins with
	return nil
}

// nothing is the value of the flag without =, which no program is called.
const nothing = "\x00"

func (r *rest) flag(f *pflag.FlagSet, usage string) {
	r.flags = f
	f.Var(r, "command", usage)
	f.Lookup("command").NoOptDefVal = nothing
}

// of is the command, which is taken out of the arguments; nil: none was given.
func (r *rest) of(cmd *cobra.Command, args *[]string) ([]string, error) {
	if !r.given {
		return nil, nil
	}
	command := slices.Clone((*args)[r.at:])
	*args = (*args)[:r.at]
	if r.first != "" {
		command = append([]string{r.first}, command...)
	}
	switch {
	case len(*args) == 0:
		return nil, misused(cmd, "NAME stands before --command, which takes all that follows it")
	case len(command) == 0 || command[0] == "":
		return nil, misused(cmd, "--command is followed by nothing; write --command PROG ARG…")
	case len(command) == 1 && strings.ContainsAny(command[0], " \t"):
		return nil, misused(cmd, "%q is one word; write --command %s, or --command sh -c %q", command[0], strings.Join(strings.Fields(command[0]), " "), command[0])
	}
	return command, nil
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
			return nil, misused(cmd, "stdin is used for %s already; write --secret %s=FILE", stdin, name)
		case source == "-":
			stdin, from = name, cmd.InOrStdin()
		case isFile && path != "", isRegular(source), strings.HasPrefix(source, "/"), strings.HasPrefix(source, "./"), strings.HasPrefix(source, "../"):
			file, err := os.Open(path)
			if err != nil {
				return nil, control.Failed("cannot read the secret %s: %v", name, err)
			}
			defer file.Close()
			from = file
		default:
			return nil, misused(cmd, "a secret is not given on the command line, where everybody can see it; write --secret %s=- and give it on stdin, or %s=FILE", name, name)
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

// isRegular tells whether there is a regular file.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/internal/durable"
	"rlminit/plan"
	"rlminit/service"
)

func planVerb(t *terminal) *cobra.Command {
	var ask declaredSet
	var out, by string
	var detailed bool
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "show what an apply of a declared set would change",
		Long: `Compares the profiles that FILE declares (- is standard input) with those that
exist, and shows what an apply would do: + creates, - deletes, ~ changes. A
profile in the scope that is not declared would be deleted. For root, FILE may
declare the configuration too. Nothing is changed.

--out writes the plan to a file for rlminit apply. Apply carries out exactly
that plan if its hash is approved, within an hour, and only if nobody has
changed the plan's starting point. The plan has digests in place of secrets.

--propose has it wait for somebody's approval, for a day, also over restarts of
the container: rlminit plan proposed lists such plans, rlminit apply --approve
HASH applies one, and so does the web page. The values of its secrets
wait with it, where no service can read them. A plan of the configuration cannot
wait, for root alone may apply it.`,
		Example: `  rlminit plan -f agents.yaml
  rlminit plan -f agents.yaml --source "$(git rev-parse HEAD)" --require-clean --out plan.json
  rlminit plan -f agents.yaml --propose --by "bob, for more memory"
  rlminit plan -f alice.yaml --scope profile/alice --detailed-exitcode`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(cmd, args[0])
			}
			if ask.file == "" {
				return misused(cmd, "-f FILE is missing")
			}
			p, err := ask.made(cmd.Context(), t, out, by)
			if err != nil {
				return err
			}
			if detailed && !p.Empty() {
				return exitStatus(control.ExitPending)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&ask.file, "file", "f", "", "the declared set, `FILE`")
	f.StringVar(&ask.scope, "scope", "", "limit the plan to: all, profiles, profile/NAME, configuration or service/NAME, `SCOPE` (default: what FILE declares)")
	f.StringVar(&ask.revision, "source", "", "the revision of the source, `REV` (default: git's, where FILE lies in a work tree)")
	f.BoolVar(&ask.clean, "require-clean", false, "refuse a source with changes that are not committed, with exit code 15")
	f.StringVar(&out, "out", "", "write the plan to `PLAN`")
	f.BoolVar(&ask.propose, "propose", false, "have the plan wait for approval")
	f.StringVar(&by, "by", "", "the proposer, a `NAME`; recorded beside the uid of the caller")
	cmd.AddCommand(planProposedVerb(t), planWithdrawVerb(t))
	forPrograms(t, cmd, "write the plan itself")
	f.BoolVar(&detailed, "detailed-exitcode", false, "exit with 14 if something would change")
	return cmd
}

// declaredSet is a file that is planned.
type declaredSet struct {
	file, scope, revision string
	clean, propose        bool
}

// made makes the plan of the set, keeps it in the file out, has it wait for approval, and
// shows it, as far as that is wanted.
func (d declaredSet) made(ctx context.Context, t *terminal, out, by string) (*plan.Plan, error) {
	text, err := d.plan(ctx, t)
	if err != nil {
		return nil, err
	}
	p, err := plan.Read([]byte(text))
	if err != nil {
		return nil, control.Failed("%v; is the rlminit that runs of another version?", err)
	}
	if out != "" {
		if err := durable.WriteWhole(out, []byte(text), 0o644); err != nil {
			return nil, control.Failed("cannot write %s: %v", out, reason(err))
		}
	}
	if d.propose && !p.Empty() {
		if err := propose(ctx, t, p, text, by); err != nil {
			return nil, err
		}
	}
	if t.json {
		t.printf("%s\n", text)
	} else {
		tellPlan(t, p, out, d.propose)
	}
	return p, nil
}

// plan asks for the plan of the set, after all that only its reader can know.
func (d declaredSet) plan(ctx context.Context, t *terminal) (string, error) {
	if _, err := scopeFlag(d.scope); err != nil {
		return "", err
	}
	data, name, dir, err := readDeclared(t, d.file)
	if err != nil {
		return "", err
	}
	salt, digests, mask := rand.Text(), map[string]map[string]string{}, map[string][]string{}
	ask := control.PlanRequest{File: name, Dir: dir, Text: string(data), Scope: d.scope, Salt: salt, Digests: digests, Mask: mask, Propose: d.propose}
	ask.Revision, ask.Clean, err = sourceOf(ctx, dir, name, d.revision, d.clean)
	if err != nil {
		ask.Unclean = err.Error()
		return "", told(ctx, t, ask, err)
	}
	declared, reading := plan.Parse(name, dir, data)
	if faults := reading.Faults(); len(faults) > 0 {
		return "", told(ctx, t, ask, control.BadRequest("%v", faults))
	}
	for profile, files := range declared.Files() {
		for place, file := range files {
			value, err := readSecret(place, file)
			if err != nil {
				err = control.BadRequest("%s: profiles.%s.%s: %v", name, profile, place, err)
				ask.Unread = err.Error()
				return "", told(ctx, t, ask, err)
			}
			t.noteNewline(profile+"."+place, value)
			if digests[profile] == nil {
				digests[profile] = map[string]string{}
			}
			digests[profile][place] = plan.Digest(salt, place, value)
			mask[profile] = append(mask[profile], value)
		}
	}
	if declared.Configuration != "" {
		text, err := readConfiguration(declared.Configuration)
		if err != nil {
			err = control.BadRequest("%s: configuration: %v", name, err)
			ask.Unread = err.Error()
			return "", told(ctx, t, ask, err)
		}
		ask.Configuration = &text
	}
	client := t.open()
	planned, err := client.Plan(ctx, ask)
	return planned.Plan, err
}

// told has the supervisor record why there is no plan, if it answers.
func told(ctx context.Context, t *terminal, ask control.PlanRequest, why error) error {
	_, _ = t.open().Plan(ctx, ask) // which refuses it as well
	return why
}

func scopeFlag(scope string) (plan.Scope, error) {
	if scope == "" {
		return plan.Profiles, nil
	}
	s, err := plan.ParseScope(scope)
	if err != nil {
		return s, control.BadRequest("--scope: %v", err)
	}
	return s, nil
}

// readDeclared reads a declared set, and finds what its faults and its paths are
// called after.
func readDeclared(t *terminal, file string) (data []byte, name, dir string, err error) {
	if name = file; file != "-" {
		if name, err = filepath.Abs(file); err != nil {
			return nil, "", "", control.Failed("cannot read %s: %v", file, err)
		}
		dir = filepath.Dir(name)
	}
	data, err = readInput(t, name, document.MaxSize)
	return data, name, dir, err
}

// readInput reads the file that an argument names, - for standard input, and at most
// one byte more than is allowed.
func readInput(t *terminal, file string, most int) ([]byte, error) {
	if file == "-" {
		data, err := io.ReadAll(io.LimitReader(t.in, int64(most)+1))
		if err != nil {
			return nil, control.Failed("cannot read standard input: %v", err)
		}
		return data, nil
	}
	data, err := config.ReadUntrustedFile(file, most)
	if err != nil {
		return nil, control.BadRequest("%v", err)
	}
	return data, nil
}

// readConfiguration reads a declared configuration, which is JSON's to carry.
func readConfiguration(file string) (string, error) {
	data, err := config.ReadUntrustedFile(file, document.MaxSize)
	switch {
	case err != nil:
		return "", err
	case len(data) > document.MaxSize:
		return "", fmt.Errorf("cannot read %s: a configuration has at most %d bytes", file, document.MaxSize)
	case !utf8.Valid(data):
		return "", fmt.Errorf("cannot read %s: it is not UTF-8", file)
	}
	return string(data), nil
}

// readSecret reads the file of a secret's place: each byte of it, or for a variable of
// the environment less one newline at its end, as in the configuration.
func readSecret(place, file string) (string, error) {
	data, err := config.ReadUntrustedFile(file, service.MaxSecret)
	if err == nil && len(data) > service.MaxSecret {
		err = fmt.Errorf("cannot read %s: a secret has at most %d bytes", file, service.MaxSecret)
	}
	if plan.IsVariable(place) {
		data = bytes.TrimSuffix(data, []byte("\n"))
	}
	return string(data), err
}

// noteNewline says that a secret ends in a newline, which is a part of it: most who
// wrote the file with an editor, or echo, did not mean it.
func (t *terminal) noteNewline(name, value string) {
	if strings.HasSuffix(value, "\n") {
		fmt.Fprintf(t.err, "rlminit: note: the secret %s ends in a newline, which is a part of it; printf %%s writes none\n", printable(name))
	}
}

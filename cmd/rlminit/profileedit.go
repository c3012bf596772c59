package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func profileEditVerb(t *terminal) *cobra.Command {
	restart := false
	cmd := &cobra.Command{
		Use:   "edit NAME",
		Short: "edit a profile's profile.yaml, and take it up",
		Long: `Opens a copy of the profile's profile.yaml in $VISUAL, $EDITOR or vi. Below the
text stand, as comments, the values of its gateway's kind for each key; these
lines are not kept. When the editor exits with 0 and has changed the text, the
text is checked, replaces the old one and is in force. A running gateway goes on
with its old values until it is restarted: with --restart it is, if it must be;
else the last line names the command. If the text has a fault, if somebody else
has changed the file meanwhile, or if the profile was renamed or deleted and
another one has its name, nothing changes: the text is kept in a file, which is
named. If the editor fails, its text is ignored.`,
		Example:           `  EDITOR=nano rlminit profile edit alice`,
		Args:              exactly("NAME"),
		ValidArgsFunction: completeProfiles,
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			return editProfile(cmd.Context(), t, client, args[0], restart)
		}),
	}
	cmd.Flags().BoolVar(&restart, "restart", false, "restart the gateway, if the change takes a restart")
	return cmd
}

func editProfile(ctx context.Context, t *terminal, client *control.Client, name string, restart bool) error {
	before, err := client.ProfileText(ctx, name)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rlminit-edit-")
	if err != nil {
		return control.Failed("cannot edit %s: %v", name, reason(err))
	}
	file := filepath.Join(dir, "profile.yaml")
	forget := func() { os.RemoveAll(dir) } // what is left of it is in the temporary directory, and nobody else's to read
	if err := os.WriteFile(file, []byte(withKind(before)), 0o600); err != nil {
		forget()
		return control.Failed("cannot edit %s: %v", name, reason(err))
	}
	if err := runEditor(ctx, file); err != nil {
		forget()
		return control.Failed("the editor failed (%v); %s is as it was", err, name)
	}
	after, err := os.ReadFile(file)
	after = withoutKind(after)
	switch {
	case err != nil:
		forget()
		return control.Failed("cannot read what the editor wrote: %v; %s is as it was", reason(err), name)
	case bytes.Equal(after, []byte(before.Text)), bytes.Equal(after, []byte(before.Text+"\n")):
		forget()
		t.printf("%s: nothing was changed\n", printable(name))
		return nil
	}
	profile, err := client.ReplaceProfile(ctx, name, control.ReplaceProfile{Text: string(after), Base: &before.Text, ID: &before.ID, Restart: restart})
	if err != nil {
		code := t.report(err)
		t.complain("your text is kept in " + file)
		return status(code)
	}
	forget()
	t.printf("%s: changed\n", printable(name))
	tellOutdated(t, name, profile.Outdated)
	return nil
}

// kindMark begins the part that the editor shows below a profile.yaml.
const kindMark = "# ---- What the kind "

// withKind is a profile.yaml with what its kind says below it.
func withKind(p control.ProfileText) string {
	if p.Says == "" {
		return p.Text
	}
	var text strings.Builder
	text.WriteString(p.Text)
	if p.Text != "" && !strings.HasSuffix(p.Text, "\n") {
		text.WriteString("\n")
	}
	text.WriteString(kindMark + p.Kind + " says. A key above takes its place. From here on nothing is kept.\n")
	for line := range strings.Lines(p.Says) {
		text.WriteString("# " + line)
	}
	return text.String()
}

// withoutKind is what of an edited text is kept.
func withoutKind(text []byte) []byte {
	if bytes.HasPrefix(text, []byte(kindMark)) {
		return nil
	}
	if kept, _, found := bytes.Cut(text, []byte("\n"+kindMark)); found {
		return append(kept, '\n')
	}
	return text
}

// runEditor runs the person's editor on a file. Its variable may hold flags, as
// sh reads them.
func runEditor(ctx context.Context, file string) error {
	editor := "vi"
	for _, name := range []string{"EDITOR", "VISUAL"} {
		if value := os.Getenv(name); value != "" {
			editor = value
		}
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$@"`, editor, file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

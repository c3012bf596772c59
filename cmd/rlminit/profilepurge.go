package main

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/internal/nearest"
	"rlminit/service"
)

// purgedEntry is what became of an entry of the trash, for programs.
type purgedEntry struct {
	control.Trashed
	control.Purged
}

// purge is the part of the trash that is to be removed.
type purge struct {
	words  []string  // "ENTRY", "NAME" or a pattern; none: all
	until  time.Time // the latest deletion that is meant; zero: any
	needed bool      // also entries that a rollback takes
	dryRun bool
	named  map[string]bool // entries that are meant by a word that is no pattern
}

func profilePurgeVerb(t *terminal) *cobra.Command {
	p := &purge{}
	var older time.Duration
	cmd := &cobra.Command{
		Use:   "purge [ENTRY|NAME|'GLOB'…]",
		Short: "remove deleted profiles from the trash for good",
		Long: `Removes an ENTRY of the trash (see rlminit profile list --trash), all entries of
a profile NAME, or all whose entry or profile matches a pattern. --older-than
limits this to entries that are at least so old; without any name it
removes all of that. Nothing can be restored afterwards. A name that matches
nothing is refused before anything is removed.

An entry that a rollback still needs is kept, and a line names the revision. The
exit code is then 17 if ENTRY or NAME was given, and 0 for a pattern or an age.
--needed removes it too, and that rollback is refused from then on. While a
revision is being applied, the entries that it may need are kept even with
--needed, with exit code 17.`,
		Example: `  rlminit profile purge --older-than 30d
  rlminit profile purge alice 'test-*' --dry-run
  rlminit profile purge alice-20260524T180533Z`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !cmd.Flags().Changed("older-than") {
				return misused(cmd, "ENTRY, NAME or --older-than AGE is missing")
			}
			return nil
		},
		ValidArgsFunction: completeMoreTrash,
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			list, err := client.Trash().List(cmd.Context())
			if err != nil {
				return err
			}
			if p.words = args; cmd.Flags().Changed("older-than") {
				p.until = t.now().Add(-older)
			}
			chosen, err := p.choose(list)
			if err != nil {
				return err
			}
			if len(chosen) == 0 && !t.json {
				t.printf("nothing in the trash is that old\n")
			}
			return forEach(t, slices.Sorted(maps.Keys(chosen)), func(entry string) answered {
				return p.purge(cmd.Context(), t, client, chosen[entry])
			})
		}),
	}
	f := cmd.Flags()
	f.Var((*seconds)(&older), "older-than", "only entries deleted at least `AGE` ago, such as 12h or 30d")
	f.BoolVar(&p.needed, "needed", false, "also entries that a rollback still needs")
	f.BoolVar(&p.dryRun, "dry-run", false, "say what would be removed, and remove nothing")
	return limited(forPrograms(t, cmd, "write a JSON object for each that was removed, or would be"))
}

// purge removes an entry, unless a rollback takes it.
func (p *purge) purge(ctx context.Context, t *terminal, client *control.Client, e control.Trashed) answered {
	gone, err := purgedEntry{Trashed: e}, error(nil)
	switch {
	case gone.Needed && !p.needed:
		return p.leave(t, e.Entry, control.StillNeeded(e.Entry, gone.Revision))
	case !p.dryRun:
		gone.Purged, err = client.Trash().Purge(ctx, e.Entry, p.needed)
	}
	if exitCodeOf(err) == control.ExitExists && !p.needed { // needed since, or there is no telling who does
		return p.leave(t, e.Entry, err)
	}
	return answered{err: err, tell: func() error { return gone.tell(t, p.dryRun) }}
}

// choose is what of the trash is meant, by entry. A word that is for nothing there is a
// problem.
func (p *purge) choose(list []control.Trashed) (chosen map[string]control.Trashed, err error) {
	meant, missing := map[string]bool{}, []string(nil)
	p.named = map[string]bool{}
	for _, word := range p.words {
		entries := entriesOf(word, list)
		if len(entries) == 0 {
			missing = append(missing, nothingOf(word, list))
		}
		for _, entry := range entries {
			meant[entry] = true
			p.named[entry] = p.named[entry] || !control.IsSet(word)
		}
	}
	if len(missing) > 0 {
		return nil, control.NewProblem(control.KindNoSuchName, strings.Join(missing, "\n"))
	}
	chosen = map[string]control.Trashed{}
	for _, e := range list {
		if (len(p.words) == 0 || meant[e.Entry]) && (p.until.IsZero() || !e.At.After(p.until)) {
			chosen[e.Entry] = e
		}
	}
	return chosen, nil
}

// entriesOf is what of the trash a word is for: the entry of that name, or else all of
// which it is the profile, by its name or its service's, or a pattern of either.
func entriesOf(word string, list []control.Trashed) (entries []string) {
	for _, e := range list {
		if e.Entry == word {
			return []string{word}
		}
		for _, name := range []string{e.Entry, e.Profile, service.GatewayPrefix + e.Profile} {
			if fits, err := path.Match(word, name); fits && err == nil {
				entries = append(entries, e.Entry)
				break
			}
		}
	}
	return entries
}

func nothingOf(word string, list []control.Trashed) string {
	var known []string
	for _, e := range list {
		known = append(known, e.Profile, e.Entry)
	}
	if near := nearest.Name(word, known); near != "" {
		return fmt.Sprintf("%q is not in the trash; did you mean %q?", word, near)
	}
	return fmt.Sprintf("%q is not in the trash; rlminit profile list --trash shows what is", word)
}

// leave tells of an entry that is left for a rollback. A caller that named it does not get
// its request.
func (p *purge) leave(t *terminal, entry string, why error) answered {
	if p.named[entry] {
		return answered{err: why}
	}
	return answered{tell: func() error {
		t.complain(why.Error())
		return nil
	}}
}

// tell tells of an entry that was removed, or would be.
func (e purgedEntry) tell(t *terminal, would bool) error {
	switch {
	case t.json:
		return t.printJSON(e)
	case would:
		t.printf("%s: would be removed\n", printable(e.Entry))
	default:
		t.printf("%s: removed\n", printable(e.Entry))
	}
	t.tellLeft(e.Entry, e.Left)
	return nil
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func sessionVerb(t *terminal) *cobra.Command {
	return group("session", "sets of jobs with a directory and a budget", `A session is a set of jobs (rlminit run --session ID) with its own directory and
a budget. When the session or its time to live ends, its jobs are ended and its
directory is removed. The directory is on the volume: a container without a
volume of its own cannot open a session.`, sessionCreateVerb(t, "create"), sessionCreateVerb(t, "ensure"), sessionListVerb(t), sessionShowVerb(t),
		sessionExtendVerb(t), sessionEndVerb(t))
}

// sessionCreateVerb is create, or ensure, which takes a key.
func sessionCreateVerb(t *terminal, name string) *cobra.Command {
	var s control.CreateSession
	var ttl, total time.Duration
	cmd := &cobra.Command{
		Use:     "create",
		Short:   "open a session and print its id",
		Args:    exactly(),
		Example: `  id=$(rlminit session create --profile alice --ttl 10m)`,
	}
	if name == "ensure" {
		cmd.Use, cmd.Short, cmd.Args = "ensure KEY", "print the id of the open session with a key, or open one", exactly("KEY")
		cmd.Long = `Prints the id of the session that is open under a key, or opens one. Callers
that ask at the same time all get the same session. The bounds apply if one is
opened.`
		cmd.Example = `  rlminit run --session "$(rlminit session ensure review-17)" -- make test`
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if name == "ensure" {
			if s.Key = args[0]; s.Key == "" {
				return misused(cmd, "a key cannot be empty")
			}
		}
		if cmd.Flags().Changed("ttl") && ttl <= 0 || cmd.Flags().Changed("time") && total <= 0 || cmd.Flags().Changed("jobs") && s.Jobs <= 0 {
			return misused(cmd, "the bounds of a session must be above 0")
		}
		s.TTLMS, s.TimeMS = ttl.Milliseconds(), total.Milliseconds()
		client := t.open()
		session, err := client.CreateSession(cmd.Context(), s)
		if err != nil {
			return err
		}
		return answer(t, session, func() { t.printf("%s\n", session.Session) })
	}
	f := cmd.Flags()
	f.StringVarP(&s.Profile, "profile", "p", "", "its jobs belong to profile or service `NAME`")
	f.Var((*seconds)(&ttl), "ttl", "its time to live, `TIME` (default 30m, at most 24h)")
	f.IntVar(&s.Jobs, "jobs", 0, "it may run `N` jobs (default 1000)")
	f.Var((*seconds)(&total), "time", "the `TIME` that its jobs may take together (default: no bound)")
	return formatted(t, forPrograms(t, cmd, "write a JSON object"))
}

func sessionListVerb(t *terminal) *cobra.Command {
	return lists(t, &cobra.Command{
		Use:   "list",
		Short: "list the sessions",
		Args:  exactly(),
	}, (*control.Client).Sessions, func(sessions []control.Session) {
		b := new(table)
		b.header("SESSION", "STATE", "KEY", "PROFILE", "JOBS", "UNTIL", "DIR")
		for _, s := range sessions {
			b.row(s.Session, s.State, textOr(s.Key, "-"), ownerText(s.Profile, s.Service),
				number(&s.Jobs), localTime(s.Until), s.Dir)
		}
		b.write(t)
	})
}

func sessionShowVerb(t *terminal) *cobra.Command {
	return shows(t, &cobra.Command{
		Use:   "show ID",
		Short: "show a session and the rest of its budget",
		Args:  exactly("ID"),
	}, (*control.Client).Session, showSession)
}

func showSession(t *terminal, s control.Session) {
	took := (time.Duration(s.TookMS) * time.Millisecond).String()
	if s.TimeMS > 0 {
		took += fmt.Sprintf(" of %s", time.Duration(s.TimeMS)*time.Millisecond)
	}
	facts(t, 10, "session", s.Session, "state", s.State, "key", textOr(s.Key, "-"), "profile", ownerText(s.Profile, s.Service), "directory", s.Dir,
		"until", stamp(&s.Until)+extensions(s), "jobs", fmt.Sprintf("%d of %d", s.Jobs, s.JobsMax), "time", took, "ended", s.Cause)
}

// extensions is how often an open session may be given another time to live.
func extensions(s control.Session) string {
	if s.State != "open" {
		return ""
	}
	return fmt.Sprintf(", may be extended %d times", s.Extends)
}

func sessionExtendVerb(t *terminal) *cobra.Command {
	var ttl time.Duration
	cmd := shows(t, &cobra.Command{
		Use:   "extend ID",
		Short: "give a session another time to live, from now",
		Long:  "Gives a session another time to live, from now; three times at most.",
		Args:  exactly("ID"),
	}, func(client *control.Client, ctx context.Context, id string) (control.Session, error) {
		return client.ExtendSession(ctx, id, ttl)
	}, func(t *terminal, s control.Session) {
		t.printf("session %s lives until %s\n", s.Session, s.Until.Format(time.RFC3339))
	})
	cmd.Flags().Var((*seconds)(&ttl), "ttl", "`TIME` from now (default: as it was created)")
	return cmd
}

func sessionEndVerb(t *terminal) *cobra.Command {
	return shows(t, &cobra.Command{
		Use:   "end ID",
		Short: "end a session: its jobs, and then its directory",
		Args:  exactly("ID"),
	}, (*control.Client).EndSession, func(t *terminal, s control.Session) { t.printf("session %s %s\n", s.Session, s.State) })
}

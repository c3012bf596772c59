package verbs

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/fleet/agent"
	"rlminit/fleet/data"
	"rlminit/fleet/keep"
	"rlminit/fleet/local"
	"rlminit/fleet/member"
	"rlminit/fleet/store"
)

func agentVerb(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "agent [FILE]",
		Short: "run the agent of this container",
		Long: `Runs the agent of this container, which the section fleet of the configuration makes a service.
It claims profiles, and has the rlminit of this container run them. When it ends, what
runs goes on until its deadline, and the next agent takes it over.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.config = args[0]
			}
			return runAgent(cmd.Context(), o)
		},
	}
}

// version is what the agent says it is; the linker sets it.
var version = "devel"

// SetVersion says which version this is.
func SetVersion(v string) { version = v }

func runAgent(ctx context.Context, o *options) error {
	s, err := readSettings(o.config)
	if err != nil {
		return exit(control.ExitUsage, "%w", err)
	}
	logger := log.New(os.Stderr, "fleet: ", 0)
	st, err := connect(ctx, s.Store, logger)
	if err != nil {
		return err
	}
	defer st.Close()
	logger.Printf("member %s of the fleet %s, on the etcd cluster %s", s.Member, s.Store.Fleet, st.Cluster())
	c := member.Config{
		Fleet: s.Store.Fleet, Agent: s.agent(), Dir: s.dir(), Store: st, Log: logger,
		Member: agent.Member{Weight: s.Weight, Capacity: s.Capacity, Labels: s.Labels, Version: version},
		Box:    &local.Box{Client: control.Open()}, Release: s.Release, Listen: s.Listen,
	}
	if s.Bucket != "" {
		bucket, err := data.Open(ctx, s.Bucket)
		if err != nil {
			return exit(control.ExitUsage, "data.bucket: %w", err)
		}
		defer bucket.Close()
		c.Data = &keep.Keeper{Data: bucket, Store: st, Client: control.Open()}
	}
	return member.Run(ctx, c)
}

// connect waits until etcd answers. What is wrong with it for good ends the agent.
func connect(ctx context.Context, c store.Config, logger *log.Logger) (*store.Store, error) {
	for said := ""; ; {
		st, err := store.Open(ctx, c)
		if err == nil || ctx.Err() != nil || store.Wrong(err) {
			return st, err
		}
		if said != err.Error() {
			said = err.Error()
			logger.Print(said)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

package verbs

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
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
	logger := log.New(os.Stderr, "fleet: ", 0)
	s, bucket, err := readAll(ctx, o.config)
	if err != nil {
		linger(ctx, logger, err)
		return exit(control.ExitUsage, "%w", err)
	}
	if bucket != nil {
		defer bucket.Close()
	}
	local.Notify(false, "it connects to etcd")
	s.Store.Ignored = func(text string) { logger.Print(text) }
	st, err := connect(ctx, s.Store, logger)
	if err != nil {
		linger(ctx, logger, err)
		return err
	}
	defer st.Close()
	if s.Store.User != "" && !st.Authenticates(ctx) {
		logger.Print("etcd asks nobody for a user, so etcd.user protects nothing; have it ask with etcdctl auth enable")
	}
	logger.Printf("member %s of the fleet %s, on the etcd cluster %s", s.Member, s.Store.Fleet, st.Cluster())
	c := member.Config{
		Fleet: s.Store.Fleet, Agent: s.agent(), Dir: s.dir(), Store: st, Log: logger,
		Member: agent.Member{Weight: s.Weight, Capacity: s.Capacity, Labels: s.Labels, Version: version},
		Box:    local.Open(), Release: s.Release, Listen: s.Listen,
		Tell: func(text string) { local.Notify(true, text) },
	}
	if bucket != nil {
		c.Data = &keep.Keeper{Data: bucket, Store: st, Client: control.Open(), Log: c.Log}
	}
	return member.Run(ctx, c)
}

// readAll reads all that an agent needs, and opens the bucket; nil: there is none. Its error
// has all that is wrong.
func readAll(ctx context.Context, path string) (*settings, *data.Store, error) {
	s, err := readMember(path)
	if s == nil {
		return nil, nil, err
	}
	faults := []error{err, s.readPassword(), s.Store.Files()}
	var bucket *data.Store
	if s.Bucket != "" {
		if bucket, err = data.Open(ctx, s.Bucket); err != nil {
			faults = append(faults, fmt.Errorf("data.bucket: %w", err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		if bucket != nil {
			err = errors.Join(err, bucket.Close())
		}
		return s, nil, err
	}
	return s, bucket, nil
}

// lasts is for how long an agent that cannot begin shows why, before it ends.
const lasts = 30 * time.Second

// linger waits before the agent ends, so that rlminit status can show why it does: a service
// that has ended shows no text of its own.
func linger(ctx context.Context, logger *log.Logger, why error) {
	if os.Getenv("NOTIFY_SOCKET") == "" || ctx.Err() != nil {
		return
	}
	for line := range strings.SplitSeq(why.Error(), "\n") {
		logger.Print(line)
	}
	local.Notify(false, why.Error())
	select {
	case <-ctx.Done():
	case <-time.After(lasts):
	}
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
			local.Notify(true, said)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

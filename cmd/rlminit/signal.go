package main

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/service"
	"rlminit/usage"
)

func signalVerb(t *terminal) *cobra.Command {
	pid := 0
	cmd := &cobra.Command{
		Use:   "signal SIG {NAME…|--pid PID}",
		Short: "send a signal to services",
		Long: `Sends a signal, given by name (HUP, SIGHUP) or number, to the main process of
each service. The desired state stays as it is: a service that ends by the
signal is restarted as its policy says. With --pid the signal goes to one
process of a service or a job, with the caller's own rights; any other process
is refused.`,
		Example: `  rlminit signal HUP alice
  rlminit signal USR1 --pid 4711`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("pid") {
				return exactly("SIG")(cmd, args)
			}
			return atLeast("SIG", "NAME")(cmd, args)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []string{"HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "KILL"}, cobra.ShellCompDirectiveNoFileComp
			}
			return completeServices(cmd, args, part)
		},
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			if cmd.Flags().Changed("pid") {
				return signalProcess(cmd.Context(), client, args[0], pid)
			}
			worst := 0
			for _, name := range once(args[1:]) {
				s, err := client.Signal(cmd.Context(), name, args[0])
				var problem *control.Problem
				if errors.As(err, &problem) && (problem.ExitCode == control.ExitNoAnswer || problem.Status == http.StatusBadRequest) {
					return err // as it would be for each of the others
				}
				if err == nil && t.json {
					err = t.printJSON(s)
				}
				worst = max(worst, t.report(err))
			}
			return status(worst)
		}),
	}
	forPrograms(t, cmd, "write a JSON object for each that was sent it")
	cmd.Flags().IntVar(&pid, "pid", 0, "the process `PID`, of a service or a job, in place of services")
	return cmd
}

// signalProcess sends a signal to one process of a service or a job, as the caller. The
// pidfd is opened before the process is looked at, pidfd_open(2): whoever gets its number
// after that is not signalled.
func signalProcess(ctx context.Context, client *control.Client, name string, pid int) error {
	signal, ok := service.ParseSignal(name)
	if !ok {
		return control.BadRequest("unknown signal %q; write HUP or 1, say", name)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return control.Failed("cannot signal process %d: %v", pid, err)
	}
	defer unix.Close(fd)
	supervised, err := isSupervised(ctx, client, pid)
	if err != nil {
		return err
	}
	if !supervised {
		return control.NotPermitted("process %d belongs to no service and no job; rlminit show NAME lists those of a service", pid)
	}
	switch err := unix.PidfdSendSignal(fd, signal, nil, 0); err {
	case nil:
		return nil
	case unix.EPERM:
		return control.NotPermitted("cannot signal process %d: it is another user's; call as root", pid)
	default:
		return control.Failed("cannot signal process %d: %v", pid, err)
	}
}

// isSupervised tells whether a process belongs to a service or a job that runs.
func isSupervised(ctx context.Context, client *control.Client, pid int) (bool, error) {
	services, err := client.Services(ctx)
	if err != nil {
		return false, err
	}
	jobs, err := client.Jobs(ctx)
	if err != nil {
		return false, err
	}
	var roots []int
	for _, s := range services {
		if s.PID != nil {
			roots = append(roots, *s.PID)
		}
	}
	for _, j := range jobs {
		if j.PID != nil {
			roots = append(roots, *j.PID)
		}
	}
	all, err := usage.Processes(procDir)
	if err != nil {
		return false, control.Failed("cannot see which processes there are: %v", err)
	}
	for _, sum := range usage.ByRoot(all, roots, usage.Tags(procDir, roots)) {
		if slices.ContainsFunc(sum.Processes, func(p usage.Process) bool { return p.PID == pid }) {
			return true, nil
		}
	}
	return false, nil
}

// status makes an error of an exit code that needs no more words, and nil of 0.
func status(code int) error {
	if code == 0 {
		return nil
	}
	return exitStatus(code)
}

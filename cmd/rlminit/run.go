package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/supervise/process"
)

// The exit codes of run that are not the command's.
const (
	exitTimedOut  = 124
	exitRunFailed = 125
)

// runOptions are the flags of run.
type runOptions struct {
	job       control.RunJob
	timeout   time.Duration
	maxOutput string
	stdin     string
	env       []string
	limits    []string
}

func runCommandVerb(t *terminal) *cobra.Command {
	o := runOptions{timeout: control.DefaultJobTimeout}
	cmd := &cobra.Command{
		Use:   "run [--profile P] [--timeout 30s] [--json] [--detach] -- CMD ARG…",
		Short: "run a command as a job, with a deadline, and wait for it",
		Long: `Runs a command once, as the user that services run as, or as the user of a
profile, with its environment and in its directory. Passes the output on as it
comes. PID 1 holds the deadline. At the deadline, at ^C and at rlminit job
cancel, every process that the command has started is ended, even those that
tried to get away: TERM, a second, KILL. So are processes that the command leaves
when it ends by itself. The job goes on while the supervisor is replaced. Without
--detach it is cancelled when its client has been gone for 5 s. Time in which
the container is paused counts too.

Exit code: the command's; 128+n for a signal; 124 at the deadline; 126 if it
cannot be executed and 127 if it is not found; 10 if a guard refused it, or if
it asks for something that is not possible here; 125 if rlminit failed.

If a stream has more output than --max-output, the result has its head and tail,
and the file that the result names has all of it.`,
		Example: `  rlminit run --profile alice --timeout 10m -- python3 migrate.py
  echo 'print(6*7)' | rlminit run --json --stdin - -- python3 -
  rlminit run --detach --timeout 2h -- ./nightly`,
		Args: atLeast("CMD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.job.Command = args
			if err := o.complete(cmd); err != nil {
				return err
			}
			return o.run(cmd, t)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVarP(&o.job.Profile, "profile", "p", "", "as the user, with the environment and in the directory of profile or service `NAME`")
	f.Var((*seconds)(&o.timeout), "timeout", "the deadline: `TIME` from its start, at most 7 days (default 30s)")
	f.StringVar(&o.maxOutput, "max-output", "64KiB", "keep at most `SIZE` of each stream in the result")
	f.StringVar(&o.stdin, "stdin", "", "its input: `FILE`, or - for standard input (default: nothing)")
	f.StringArrayVar(&o.env, "env", nil, "set a variable, `K=V`; K alone takes over one of yours")
	f.StringVar(&o.job.Dir, "dir", "", "start in `DIR`, relative to where it would start")
	f.StringVar(&o.job.Session, "session", "", "as part of session `ID`, in its directory")
	f.StringVar(&o.job.Isolation, "isolation", "", "`LEVEL` strict, profile or none")
	f.BoolVar(&o.job.IsolationFallback, "isolation-fallback", false, "run it all the same where the isolation, or a limit, cannot be enforced here")
	f.StringArrayVar(&o.limits, "limit", nil, "bound it: `NAME=VALUE`, such as memory=512MiB or nofile=256; rlminit capabilities lists them")
	f.BoolVar(&o.job.DryRun, "dry-run", false, "only say what would run, as which user, where, and what would refuse it")
	forPrograms(t, cmd, "write the result as JSON, and nothing else")
	f.BoolVar(&o.job.Detach, "detach", false, "print the job's id and do not wait")
	f.BoolVar(&o.job.Retry, "retry", false, "run it again if the container ends before it does")
	return cmd
}

// complete turns flags into a request.
func (o *runOptions) complete(cmd *cobra.Command) error {
	for i, arg := range append([]string{o.job.Dir}, o.job.Command...) {
		switch {
		case utf8.ValidString(arg):
		case i == 0:
			return misused(cmd, "--dir is not UTF-8; the control socket carries nothing else")
		default:
			return misused(cmd, "argument %d is not UTF-8; the control socket carries nothing else: give it on standard input, or in a file", i)
		}
	}
	if o.timeout <= 0 {
		return misused(cmd, "--timeout must be above 0")
	}
	if o.job.TimeoutMS = o.timeout.Milliseconds(); o.job.TimeoutMS == 0 {
		o.job.TimeoutMS = 1
	}
	if o.timeout > control.MostJobTimeout {
		return misused(cmd, "--timeout may be %d days at most; what runs for longer is a service", control.MostJobTimeout/(24*time.Hour))
	}
	size, err := document.ParseSize(o.maxOutput)
	if err != nil {
		return misused(cmd, "--max-output: %q %v", o.maxOutput, err)
	}
	if size < 1 || size > control.MostJobOutput {
		return misused(cmd, "--max-output may be 1 to %d bytes; all of a longer output is in a file", control.MostJobOutput)
	}
	o.job.MaxOutput = size
	env := []string{}
	for _, e := range o.env {
		if !strings.Contains(e, "=") {
			value, set := os.LookupEnv(e)
			if !set {
				continue
			}
			e += "=" + value
		}
		env = append(env, e)
	}
	if o.job.Environment, err = assignments(cmd, env); err != nil {
		return err
	}
	limits, err := assignments(cmd, o.limits)
	if err != nil {
		return err
	}
	o.job.Limits = maps.Clone(limits)
	return nil
}

// run asks for the job and passes its output on.
func (o *runOptions) run(cmd *cobra.Command, t *terminal) error {
	client := t.open()
	if o.job.DryRun {
		return o.dryRun(cmd, t, client)
	}
	stdin, read, err := openStdin(o.stdin)
	if err != nil {
		return o.failed(t, err)
	}
	if stdin != nil {
		defer stdin.Close()
	}
	if o.job.Detach {
		job, err := client.Submit(cmd.Context(), o.job, stdin)
		if err != nil {
			return o.failed(t, err)
		}
		<-read
		return answer(t, job, func() { t.printf("%s\n", job.Job) })
	}
	result, err := attended(cmd.Context(), t, client, func(ctx context.Context, each func(*control.JobOutput) error) (*control.JobResult, error) {
		return client.Run(ctx, o.job, stdin, each)
	})
	if err != nil {
		return o.failed(t, err)
	}
	if !t.json && (o.job.Isolation != "" || len(o.limits) > 0) {
		for _, lacks := range result.Tried {
			what := "isolation " + lacks.Isolation
			if lacks.Limit != "" {
				what = "limit " + lacks.Limit
			}
			t.complain(what + ": " + lacks.Error)
		}
	}
	return finishRun(t, result)
}

// attended follows a job until it is over. At ^C, TERM and HUP it is cancelled, and
// its end waited for; at the second one nothing is. To ask the runtime for signals takes
// a tenth of the time of a job that does nothing, so it is done beside the request; and
// they are not given back, for the process ends with the job.
func attended(ctx context.Context, t *terminal, client *control.Client,
	follow func(context.Context, func(*control.JobOutput) error) (*control.JobResult, error),
) (*control.JobResult, error) {
	id := make(chan string, 1)
	caught, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	go func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
		close(caught)
		select {
		case <-signals:
			signal.Stop(signals) // the second one ends us
			select {
			case job := <-id:
				_, _ = client.CancelJob(ctx, job) // a follower sees that it is over already
			case <-over:
			}
		case <-over:
		}
	}()
	out := &passer{out: t.out, err: t.err, quiet: t.json}
	return follow(ctx, func(o *control.JobOutput) error {
		if o.Job != "" {
			<-caught // before anybody can know of the job
			select {
			case id <- o.Job:
			default:
			}
		}
		return out.pass(o)
	})
}

// passer passes a job's output on.
type passer struct {
	out   *output
	err   io.Writer
	quiet bool
}

func (p *passer) pass(o *control.JobOutput) error {
	if p.quiet || o.Stream == "" {
		return nil
	}
	if o.Lost > 0 {
		fmt.Fprintf(p.err, "rlminit: %d bytes of %s are lost: this reader was too slow, and the file is full\n", o.Lost, o.Stream)
	}
	if o.Stream == "stderr" {
		_, _ = p.err.Write(o.Bytes()) // there is nowhere to complain to
		return nil
	}
	_, err := p.out.Write(o.Bytes())
	return err
}

// openStdin opens what a job is to read; nil: nothing. We are not needed for that any
// more when read is closed.
func openStdin(name string) (stdin *os.File, read <-chan struct{}, err error) {
	over := make(chan struct{})
	file, err := openNamed(name)
	if err != nil {
		return nil, nil, err
	}
	if file == nil || mayPass(file) {
		close(over)
		return file, over, nil
	}
	// The supervisor takes no file that PID 1 might wait for.
	from, to, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	_ = unix.SetNonblock(int(from.Fd()), false) // the job shares the description
	go func() {
		defer close(over)
		_, _ = io.Copy(to, file) // until the job has enough, too
		_ = to.Close()
	}()
	return from, over, nil
}

func mayPass(file *os.File) bool {
	// A client may have mounts of its own, which the supervisor does not know.
	_, ok := process.MayPass(int(file.Fd()), process.InitMounts)
	return ok
}

// openNamed opens a file, or the verb's own input; nil: nothing.
func openNamed(name string) (*os.File, error) {
	switch name {
	case "":
		return nil, nil
	case "-":
		return os.Stdin, nil
	}
	// Not waiting for a FIFO's writer: the job does that.
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, control.BadRequest("cannot read %s: %v", name, err)
	}
	_ = unix.SetNonblock(fd, false) // the job shares the description
	file := os.NewFile(uintptr(fd), name)
	if info, err := file.Stat(); err == nil && info.IsDir() {
		file.Close()
		return nil, control.BadRequest("cannot read %s: it is a directory", name)
	}
	return file, nil
}

// failed says why there is no job, with JSON also there.
func (o *runOptions) failed(t *terminal, err error) error {
	state, code := "failed", exitCodeOf(err)
	switch {
	case code == control.ExitFailed:
		code = exitRunFailed
	case code == control.ExitRefused:
		state = "refused"
	}
	var problem *control.Problem
	if errors.As(err, &problem) && problem.Type == "urn:rlminit:"+control.KindTooLarge {
		state, code = "refused", control.ExitRefused
	}
	if t.json {
		what := err.Error()
		r := &control.JobResult{State: state, Error: &what, LeftBehind: []control.LeftBehind{}, Isolation: "none", Tried: []control.IsolationTried{}}
		if state == "refused" {
			r.Refused = &what
		}
		if problem != nil {
			r.Job = problem.Job
		}
		if failure := t.printJSON(r); failure != nil {
			return failure
		}
	}
	t.complain(err.Error())
	return exitStatus(code)
}

// finishRun prints the rest about a job, and makes its exit code.
func finishRun(t *terminal, r *control.JobResult) error {
	return cmp.Or(answer(t, r, func() { t.complain(verdict(r)) }), status(runCode(r)))
}

// verdict is the message about a job's end besides its output.
func verdict(r *control.JobResult) string {
	why := ""
	if r.Error != nil {
		why = ": " + *r.Error
	}
	switch r.State {
	case "timed_out":
		return fmt.Sprintf("job %s was ended at its deadline, after %s", r.Job, (time.Duration(r.ExecutionTimeMS) * time.Millisecond).Round(100*time.Millisecond))
	case "cancelled", "interrupted":
		return "job " + r.Job + " was " + r.State + why
	case "refused":
		if r.Refused != nil {
			return "refused: " + *r.Refused
		}
		return "refused" + why
	}
	return strings.TrimPrefix(why, ": ")
}

// runCode is the exit code of a job.
func runCode(r *control.JobResult) int {
	switch {
	case r.State == "timed_out":
		return exitTimedOut
	case r.State == "refused":
		return control.ExitRefused
	case r.Signal != nil:
		if n := unix.SignalNum("SIG" + *r.Signal); n != 0 {
			return 128 + int(n)
		}
		var n int
		if _, err := fmt.Sscan(*r.Signal, &n); err == nil {
			return 128 + n
		}
		return exitRunFailed
	case r.State == "cancelled" && (r.ExitCode == nil || *r.ExitCode == 0):
		return 128 + int(syscall.SIGTERM) // it was to end, whatever it said of it
	case r.State == "interrupted" || r.ExitCode == nil:
		return exitRunFailed
	}
	return *r.ExitCode
}

// dryRun prints what would be run.
func (o *runOptions) dryRun(cmd *cobra.Command, t *terminal, client *control.Client) error {
	d, err := client.TryJob(cmd.Context(), o.job)
	if err != nil {
		return o.failed(t, err)
	}
	err = answer(t, d, func() {
		quoted := make([]string, len(d.Command))
		for i, arg := range d.Command {
			quoted[i] = document.Quote(arg)
		}
		t.printf("command    %s\nprogram    %s\nuser       %d:%d, groups %v\ndirectory  %s\ntimeout    %s\nisolation  %s\nwaiting    %d jobs before it\n",
			printable(strings.Join(quoted, " ")), printable(d.Program), d.UID, d.GID, d.Groups, printable(d.Dir),
			time.Duration(d.TimeoutMS)*time.Millisecond, d.Isolation, d.Waiting)
		for _, kv := range d.Environment {
			t.printf("  %s\n", printable(kv))
		}
	})
	switch {
	case err != nil:
		return err
	case d.Refused != nil:
		t.complain("would be refused: " + *d.Refused)
		return exitStatus(control.ExitRefused)
	case d.Error != nil:
		t.complain(*d.Error)
		return exitStatus(exitRunFailed)
	}
	return nil
}

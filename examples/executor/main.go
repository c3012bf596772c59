// Command executor runs code for an agent: a program on stdin, in a session of its
// own, with a deadline, and its output as it comes. It is an example of a client of
// rlminit's control socket; control.Client is the library.
//
//	echo 'print(6 * 7)' | executor --profile alice --session review-17 python3 -
//	executor --timeout 5s --json sh -c 'sleep 100' </dev/null
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
)

func main() {
	profile := flag.String("profile", "", "run as this profile")
	session := flag.String("session", "", "the key of the session to run in; it is opened if it is not there")
	timeout := flag.Duration("timeout", 30*time.Second, "the deadline of the run")
	asJSON := flag.Bool("json", false, "print the result as JSON, and nothing else")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "executor: a command is missing")
		os.Exit(control.ExitUsage)
	}
	result, err := execute(&control.RunJob{
		Command: flag.Args(), Profile: *profile, TimeoutMS: timeout.Milliseconds(),
	}, *session, !*asJSON)
	if err != nil {
		fmt.Fprintln(os.Stderr, "executor:", err)
		os.Exit(exitOf(err))
	}
	if *asJSON {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		if err := out.Encode(result); err != nil {
			fmt.Fprintln(os.Stderr, "executor:", err)
			os.Exit(control.ExitFailed)
		}
	}
	os.Exit(codeOf(result))
}

// execute runs a job with our stdin as its own, in the session with the key if
// there is one. ^C cancels it.
func execute(job *control.RunJob, key string, show bool) (*control.JobResult, error) {
	client := control.Open()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if key != "" {
		s, err := client.CreateSession(ctx, control.CreateSession{Key: key, Profile: job.Profile})
		if err != nil {
			return nil, err
		}
		job.Session = s.Session
	}
	id := ""
	result, err := client.Run(ctx, *job, os.Stdin, func(o *control.JobOutput) error {
		switch {
		case o.Job != "":
			id = o.Job
		case !show:
		case o.Stream == "stderr":
			return write(os.Stderr, o)
		default:
			return write(os.Stdout, o)
		}
		return nil
	})
	if ctx.Err() != nil && id != "" {
		return client.CancelJob(context.Background(), id)
	}
	return result, err
}

func exitOf(err error) int {
	var problem *control.Problem
	if errors.As(err, &problem) {
		return problem.ExitCode
	}
	return control.ExitFailed
}

// codeOf is what a shell would make of the end of a job.
func codeOf(r *control.JobResult) int {
	switch {
	case r.TimedOut:
		return 124
	case r.ExitCode != nil:
		return *r.ExitCode
	case r.Signal != nil:
		return 128 + int(unix.SignalNum("SIG"+*r.Signal))
	}
	return 125
}

func write(to *os.File, o *control.JobOutput) error {
	_, err := to.Write(o.Bytes())
	return err
}

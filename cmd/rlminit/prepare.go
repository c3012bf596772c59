package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/prepare"
	"rlminit/wire"
)

// Descriptors that init gives to prepare: the sealed memfds that compile filled.
const (
	preparedBundleFD = wire.PreparedBundleFD
	preparedPolicyFD = wire.PreparedPolicyFD
	preparedStepsFD  = wire.PreparedStepsFD
	environmentsFD   = 5 // a memfd to be filled
)

// runPrepare is the short-lived child of init that puts the volume in order
// before anything is started. As root it does root's part first, and then
// executes itself as the service user for the rest.
func runPrepare(args []string) int {
	c, policy, err := prepared(config.ParseTop)
	if err != nil {
		refuse(err)
		return control.ExitFailed
	}
	over := func(step string) { wire.NoteBootStep(preparedStepsFD, step) }
	if len(wire.ReadBootSteps(preparedStepsFD)) == 0 { // else root's part has been
		over("configuration")
	}
	if os.Geteuid() == 0 {
		for _, note := range prepare.AsRoot(c, policy.User, policy.Supervisor, policy.Profiles) {
			if c.Strict {
				refuse(fmt.Errorf("cannot start: %s; strict is set", note))
				return exitConfiguration
			}
			fmt.Fprintf(os.Stderr, "rlminit: %s\n", printable(note))
		}
		over("owners")
		if err := becomeUser(args, policy); err != nil {
			refuse(err)
		}
		return control.ExitFailed
	}
	unix.CloseOnExec(preparedBundleFD)
	unix.CloseOnExec(preparedPolicyFD)
	unix.CloseOnExec(preparedStepsFD)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		refuse(fmt.Errorf("cannot set no_new_privs: %w", err))
		return control.ExitFailed
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	defer stop()
	failure := prepare.AsUser(ctx, c, policy.User, func(line string) {
		fmt.Fprintf(os.Stderr, "rlminit: %s\n", printable(line))
	}, over)
	if failure == nil {
		return 0
	}
	refuse(failure)
	return failure.Code
}

// runEnvironments is the short-lived child of init that makes the environments of
// what PID 1 starts by itself once the volume is in order: their files may be on
// it. It passes the policy on with them.
func runEnvironments([]string) int {
	c, policy, err := prepared(config.Parse)
	if err != nil {
		refuse(err)
		return control.ExitFailed
	}
	host, err := config.ThisHost()
	if err == nil {
		err = config.Environments(c, host, policy)
	}
	if err == nil {
		err = fill(environmentsFD, wire.EncodePolicy(policy))
	}
	if err != nil {
		refuse(err)
		return exitConfiguration
	}
	return 0
}

// prepared reads what init passes on, and parses as much of the configuration as is needed.
func prepared(parse func(config.Bundle, config.Lookup) (*config.Config, config.Faults)) (*config.Config, *wire.Policy, error) {
	const largest = 128 << 20
	raw, err := wire.ReadSealed(preparedPolicyFD, largest)
	if err != nil {
		return nil, nil, errors.New("cannot prepare: prepare is run by init itself, and is no verb for people")
	}
	policy, err := wire.DecodePolicy(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the policy: %w", err)
	}
	if raw, err = wire.ReadSealed(preparedBundleFD, largest); err != nil {
		return nil, nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	bundle, err := config.DecodeBundle(raw)
	if err != nil {
		return nil, nil, err
	}
	c, faults := parse(bundle, os.LookupEnv)
	if err := faults.Err(); err != nil {
		return nil, nil, err
	}
	c.Carry(bundle.Run)
	return c, policy, nil
}

// becomeUser gives every privilege up for good and executes rlminit again. It
// returns only if that fails.
func becomeUser(args []string, policy *wire.Policy) error {
	who := policy.User
	if err := drop(&control.Environment{UID: who.UID, GID: who.GID, Groups: slices.Clone(who.Groups)}); err != nil {
		return err
	}
	err := syscall.Exec("/proc/self/exe", args, os.Environ())
	if errors.Is(err, syscall.ENOENT) { // there is no /proc
		if path, lookErr := exec.LookPath(args[0]); lookErr == nil {
			err = syscall.Exec(path, args, os.Environ())
		}
	}
	return fmt.Errorf("cannot prepare the volume as user %s: cannot run rlminit itself: %w", who.Name, err)
}

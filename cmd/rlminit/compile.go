package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/isolate"
	"rlminit/prepare"
	"rlminit/rights"
	"rlminit/supervise/garbage"
	"rlminit/wire"
)

// Descriptors that init gives to compile: memfds to be filled.
const (
	policyFD = wire.CompiledPolicyFD
	bundleFD = wire.CompiledBundleFD

	enclosureFD = wire.EnclosureFD // a ruleset, where the kernel has Landlock
)

// runCompile is the short-lived child of init that reads the configuration, so
// that PID 1 never parses anything. Its arguments are those of init.
func runCompile(args []string) int {
	o, help, err := initArguments(args[2:])
	if err == nil && (help || !isMemfd(policyFD) || !isMemfd(bundleFD)) {
		err = &usageError{"check", "compile is a part of init; to validate a configuration there is check"}
	}
	if err != nil {
		return newTerminal().report(err)
	}
	if err := compileTo(o); err != nil {
		refuse(err)
		return exitConfiguration
	}
	return 0
}

// compileTo reads and understands the configuration, and passes on what came
// of it.
func compileTo(o initOptions) error {
	garbage.Hurry(garbage.Boot) // it ends soon
	path := o.config
	if path == "" {
		path = unnamedConfig()
	}
	host, err := config.ThisHost()
	if err != nil {
		return err
	}
	bundle, err := config.ReadBundle(path)
	if err != nil {
		return err
	}
	bundle.Flags, bundle.Args = o.flags, o.command
	c, faults := config.Parse(bundle, host.Lookup)
	if err := faults.Err(); err != nil {
		return err
	}
	host.Unprepared = prepare.Needed(c)
	host.Separable = func(home string, user, supervisor wire.Identity) (bool, string) {
		if why := rights.Unavailable(); why != "" {
			return false, why
		}
		return prepare.Separable(home, user, supervisor, prepare.FormerUser(c))
	}
	compiled, err := config.Compile(c, host, o.command)
	if err != nil {
		return err
	}
	bundle.Run, bundle.Services = compiled.Run, c.Bundle().Services
	compiled.Policy.Strict = c.Strict
	user, supervisor := compiled.Policy.User, compiled.Policy.Supervisor
	compiled.Policy.Prepare = host.Unprepared || os.Geteuid() == 0 && prepare.HasProfiles(c) || supervisor.UID != user.UID && !prepare.Separated(c.Home, user, supervisor)
	if supervisor.UID != user.UID && !compiled.Policy.Prepare {
		if what := prepare.Reach(c.Home, user); what != "" {
			compiled.Notes = append(compiled.Notes, prepare.Reached(c.Home, what))
		}
	}
	if compiled.Policy.Enclosed {
		enclose(c, &compiled.Policy)
	}
	for _, note := range slices.Concat(compiled.Notes, compiled.Cautions) {
		fmt.Fprintf(os.Stderr, "rlminit: %s\n", printable(note))
	}
	return errors.Join(
		fill(policyFD, wire.EncodePolicy(&compiled.Policy)),
		fill(bundleFD, bundle.Encode()),
	)
}

// enclose fills PID 1's own ruleset, and tells the policy whether there is one: what
// PID 1 does not open itself, for it must not wait for a file.
func enclose(c *config.Config, policy *wire.Policy) {
	policy.Enclosed = false
	able := isolate.Capable()
	if able.Landlock == 0 {
		return
	}
	runtime := cmp.Or(os.Getenv("RLMINIT_RUNTIME_DIR"), control.DefaultRuntimeDir)
	temporary, err := isolate.Enclose(enclosureFD, wire.EnclosureRights(able.Landlock), c.Home, control.DefaultRuntimeDir, runtime)
	policy.Enclosed, policy.Temporary, policy.Published = err == nil, temporary, filepath.Join(runtime, "services")
}

// fill writes a memfd that init reads once we have ended.
func fill(fd int, content []byte) error {
	if _, err := os.NewFile(uintptr(fd), "memfd").Write(content); err != nil {
		return fmt.Errorf("cannot pass on the configuration: %w", err)
	}
	return nil
}

// isMemfd tells whether a descriptor is one that can be sealed.
func isMemfd(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	return err == nil
}

// refuse says why the container does not start: on stderr, and where Kubernetes
// looks for it.
func refuse(err error) {
	var said strings.Builder
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(&said, "rlminit: %s\n", printable(line))
	}
	os.Stderr.WriteString(said.String())
	fd, err := unix.Open("/dev/termination-log", unix.O_WRONLY|unix.O_TRUNC|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return // nobody reads it
	}
	log := os.NewFile(uintptr(fd), "/dev/termination-log")
	log.WriteString(said.String())
	log.Close()
}

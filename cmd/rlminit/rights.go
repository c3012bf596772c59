package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"

	"rlminit/control"
	"rlminit/rights"
	"rlminit/supervise/threads"
	"rlminit/wire"
)

// runRights is the process that touches the services' files with their user's
// rights, for a supervisor that has a uid of its own. PID 1 starts it, with the
// ids of both.
func runRights(args []string) int {
	at := max(slices.Index(args, "of"), 2)
	ids, err := numbers(args[2:at])
	of, bad := numbers(args[min(at+1, len(args)):])
	if err = errors.Join(err, bad); err == nil && (len(ids) < 4 || len(of) < 2) || os.Geteuid() != 0 {
		err = errors.New("rights is run by init itself, and is no verb for people")
	}
	var users *rights.Users
	if err == nil { // before anything else: every thread that comes later is as this one
		users, err = rights.Become(
			wire.Identity{UID: ids[0], GID: ids[1]}, wire.Identity{UID: ids[2], GID: ids[3], Groups: ids[4:]},
			wire.Profiles{Low: of[0], High: of[1], Groups: of[2:]})
	}
	if err != nil {
		refuse(fmt.Errorf("cannot touch the services' files: %w", err))
		return control.ExitFailed
	}
	// It ends with the supervisor, which may have something to record until then.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
	debug.SetGCPercent(50)
	if err = threads.ReserveSome(wire.FilesThreads); err == nil {
		err = rights.Serve(wire.FilesFD, threads.FilesAtOnce(), users)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "rlminit: cannot touch the services' files: %s\n", printable(err.Error()))
		return control.ExitFailed
	}
	return 0
}

func numbers(args []string) (ids []uint32, err error) {
	for _, arg := range args {
		id, err := strconv.ParseUint(arg, 10, 32)
		if err != nil {
			return nil, err
		}
		ids = append(ids, uint32(id))
	}
	return ids, nil
}

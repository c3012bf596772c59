package main

import (
	"errors"
	"fmt"
	"os"

	"rlminit/control"
	"rlminit/prepare"
	"rlminit/wire"
)

// runOwner is the process that gives a profile's directory to its user, or back.
// PID 1 starts it, with what it is to do, and answers are read by the supervisor:
// nothing where it is done, or else why not.
func runOwner(args []string) int {
	var ids []uint32
	err := errors.New("owner is a part of init, and not for people")
	if len(args) == 6 && os.Geteuid() == 0 {
		ids, err = numbers(args[3:])
	}
	if err != nil {
		refuse(err)
		return control.ExitFailed
	}
	answer := os.NewFile(wire.AnswerFD, "answer")
	services := wire.Identity{UID: ids[0], GID: ids[1]}
	err = prepare.HandOver(args[2], wire.GivenFD, services, ids[2])
	if err != nil {
		fmt.Fprint(answer, err)
		return control.ExitFailed
	}
	fmt.Fprint(answer, wire.Done)
	return 0
}

package main

import (
	"errors"
	"fmt"
	"os"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/prepare"
	"rlminit/wire"
)

// runDirectories is the process that makes the supervisor's directories on the volume again,
// which somebody has removed, or takes root's files in profiles. PID 1 starts it, and the
// supervisor reads its answer: a line for each that it has made, and then that it is done,
// or why it could not.
func runDirectories(args []string) int {
	c, policy, err := prepared(config.ParseTop)
	if err != nil {
		refuse(err)
		return control.ExitFailed
	}
	if len(args) == 3 {
		did, err := prepare.TakeRoots(c.Home, args[2], policy.User)
		if err != nil {
			fmt.Println(wire.Failed + printable(err.Error()))
			return control.ExitFailed
		}
		fmt.Println(prepare.Answer(did))
		return 0
	}
	made, err := prepare.Directories(c.Home, policy.User, policy.Supervisor)
	for _, dir := range made {
		fmt.Println(dir)
	}
	if err != nil {
		fmt.Println(wire.Failed + printable(err.Error()))
		return control.ExitFailed
	}
	fmt.Println(wire.Done)
	return 0
}

// runOwner is the process that gives a profile's directory to its user, or back, or
// removes a directory for temporary files.
// PID 1 starts it, with what it is to do, and answers are read by the supervisor:
// nothing where it is done, or else why not.
func runOwner(args []string) int {
	var ids []uint32
	err := errors.New("owner is run by init itself, and is no verb for people")
	remove := len(args) == 3 && args[2] == wire.RemoveProgram
	switch {
	case os.Geteuid() != 0:
	case remove:
		err = nil
	case len(args) == 6:
		ids, err = numbers(args[3:])
	}
	if err != nil {
		refuse(err)
		return control.ExitFailed
	}
	var did durable.Handed
	answer := os.NewFile(wire.AnswerFD, "answer")
	if remove {
		err = prepare.RemoveTemporary(wire.GivenFD)
	} else {
		did, err = prepare.HandOver(args[2], wire.GivenFD, wire.Identity{UID: ids[0], GID: ids[1]}, ids[2])
	}
	if err != nil {
		fmt.Fprint(answer, err)
		return control.ExitFailed
	}
	fmt.Fprint(answer, prepare.Answer(did))
	return 0
}

// Command recorder is the gateway of the fleet's tests. It does nothing but say
// that it runs: into a file of its own, with the times of CLOCK_BOOTTIME, which all
// containers of a machine share. So two that ran at once are seen to the beat. In its
// working directory it keeps when it did so, and says what it found there when it began:
// so data that was lost is seen.
//
//	recorder DIRECTORY
//
// PROFILE, MEMBER, RLMINIT_FENCE and REVISION say what it is; STUBBORN=1 makes it
// go on after a TERM, until it is killed.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"rlminit/fleet/test/check"
)

func main() {
	if err := record(); err != nil {
		fmt.Fprintln(os.Stderr, "recorder:", err)
		os.Exit(1)
	}
}

// keepEvery is how many beats pass between two states.
const keepEvery = 4

func record() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("name the directory of the recordings: recorder DIRECTORY")
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	now := check.Now()
	run := check.Run{
		Profile: os.Getenv("PROFILE"), Member: os.Getenv("MEMBER"),
		Fence: os.Getenv("RLMINIT_FENCE"), Revision: os.Getenv("REVISION"),
	}
	var err error
	if run.Found, err = check.ReadState("."); err != nil {
		return err
	}
	name := fmt.Sprintf("%s.%s.%s.%d", run.Profile, run.Member, run.Fence, now)
	f, err := os.OpenFile(filepath.Join(os.Args[1], name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("cannot record: %w", err)
	}
	defer f.Close()
	if err := check.Write(f, check.Header(now, run)); err != nil {
		return err
	}
	fence, _ := strconv.ParseInt(run.Fence, 10, 64) // 0: none, which the recording says
	beat := time.NewTicker(check.Beat)
	defer beat.Stop()
	for n := 0; ; n++ {
		select {
		case <-beat.C:
			now, what := check.Now(), "beat"
			// A disk that is full is no fault of the gateway's.
			if n%keepEvery == 0 && check.WriteState(".", check.State{Fence: fence, At: now}) == nil && check.Now()-now < check.Sure/2 {
				what = "kept" // and not long after now, or a save may have begun in between
			}
			err = check.Write(f, fmt.Sprintf("%d %s", now, what))
		case <-terminated:
			if err = check.Write(f, fmt.Sprintf("%d term", check.Now())); err == nil && os.Getenv("STUBBORN") != "1" {
				return check.Write(f, fmt.Sprintf("%d end", check.Now()))
			}
		}
		if err != nil {
			return err
		}
	}
}

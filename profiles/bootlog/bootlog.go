// Package bootlog keeps container-boot.log: one line a profile a boot, of what the boot did
// about it.
package bootlog

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

const (
	dir = "logs"
	// File is where it is on the volume.
	File = dir + "/container-boot.log"
	// Max is the size from which the file is set aside as .1, bytes.
	Max = 256 << 10
)

// Line is what a boot did about one profile.
type Line struct {
	Profile, PriorState, Action string
	Said                        string // what its state file wanted, where that was something else than the journal; "": nothing
}

// Log is container-boot.log on a volume.
type Log struct {
	Volume *durable.Dir
	Now    func() time.Time
}

// Size is where the lines of a boot will begin.
func (log Log) Size() int64 {
	info, err := log.Volume.Lstat(File)
	if err != nil {
		return 0
	}
	return info.Size
}

// Add adds one line a profile to container-boot.log, in one write; not of
// those profiles that have one already from the byte since on. prior is how the
// boot before ended.
func (log Log) Add(since int64, lines []Line, prior string) error {
	told := log.toldSince(since)
	at := log.Now().UTC().Format("2006-01-02T15:04:05-0700")
	var b bytes.Buffer
	for _, l := range lines {
		if !told[l.Profile] {
			fmt.Fprintf(&b, "%s profile=%s prior_state=%s action=%s", at, l.Profile, l.PriorState, l.Action)
			if l.Said != "" {
				fmt.Fprintf(&b, " overruled_file=%s", l.Said)
			}
			fmt.Fprintf(&b, " prior_exit=%s\n", prior)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	if err := log.Volume.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return log.Volume.Append(File, b.Bytes(), 0o640, Max)
}

// toldSince are the profiles that have a line from the byte since on. A shorter
// file is one that began anew since.
func (log Log) toldSince(since int64) map[string]bool {
	told := map[string]bool{}
	f, err := log.Volume.OpenRegular(File, unix.O_RDONLY, 0)
	if err != nil {
		return told
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() < since {
		since = 0
	}
	lines := bufio.NewScanner(io.NewSectionReader(f, since, 2*Max))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 {
			if name, ok := strings.CutPrefix(fields[1], "profile="); ok {
				told[name] = true
			}
		}
	}
	return told
}

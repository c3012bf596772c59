package profiles

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	bootLogDir  = "logs"
	bootLogFile = bootLogDir + "/container-boot.log"
	// maxBootLog is the size from which the file is set aside as .1, bytes.
	maxBootLog = 256 << 10
)

// Booted is what the boot did about one profile.
type Booted struct {
	Profile, PriorState, Action string
	Said                        string // what its state file wanted, where that was something else than the journal; "": nothing
}

// BootLog is container-boot.log.
type BootLog struct{ tree *tree }

// Size is where the lines of a boot will begin, for LogBoot.
func (log *BootLog) Size() int64 {
	info, err := log.tree.ours.Lstat(bootLogFile)
	if err != nil {
		return 0
	}
	return info.Size
}

// Add adds one line a profile to container-boot.log, in one write; not of
// those profiles that have one already from the byte since on. prior is how the
// boot before ended.
func (log *BootLog) Add(since int64, lines []Booted, prior string) error {
	told := log.toldSince(since)
	at := log.tree.now().UTC().Format("2006-01-02T15:04:05-0700")
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
	if err := log.tree.ours.MkdirAll(bootLogDir, dirMode); err != nil {
		return err
	}
	return log.tree.ours.Append(bootLogFile, b.Bytes(), 0o640, maxBootLog)
}

// toldSince are the profiles that have a line from the byte since on. A shorter
// file is one that began anew since.
func (log *BootLog) toldSince(since int64) map[string]bool {
	told := map[string]bool{}
	f, err := log.tree.ours.OpenRegular(bootLogFile, unix.O_RDONLY, 0)
	if err != nil {
		return told
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() < since {
		since = 0
	}
	lines := bufio.NewScanner(io.NewSectionReader(f, since, 2*maxBootLog))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 {
			if name, ok := strings.CutPrefix(fields[1], "profile="); ok {
				told[name] = true
			}
		}
	}
	return told
}

package profiles

import (
	"bytes"
	"fmt"
)

const (
	bootLogDir  = "logs"
	bootLogFile = bootLogDir + "/container-boot.log"
	// maxBootLog is the size from which the file is set aside as .1, bytes.
	maxBootLog = 4 << 20
)

// Booted is what the boot did about one profile.
type Booted struct {
	Profile, PriorState, Action string
}

// LogBoot adds one line a profile to container-boot.log, in one write.
func (s *Store) LogBoot(lines []Booted) error {
	if len(lines) == 0 {
		return nil
	}
	at := s.now().UTC().Format("2006-01-02T15:04:05-0700")
	var b bytes.Buffer
	for _, l := range lines {
		fmt.Fprintf(&b, "%s profile=%s prior_state=%s action=%s\n", at, l.Profile, l.PriorState, l.Action)
	}
	if err := s.home.MkdirAll(bootLogDir, dirMode); err != nil {
		return err
	}
	return s.home.Append(bootLogFile, b.Bytes(), 0o640, maxBootLog)
}

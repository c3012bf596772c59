// Package archive is a profile as one file: a tar of its directory, its intent and
// its log, which `rlminit profile export` writes and `import` makes a profile of.
//
//	rlminit-profile.json   what it is of; the first entry
//	profile/…              its directory
//	log/…                  its log's files
//	rlminit-end.json       how many entries there were; the last one, without
//	                       which the archive is cut short
//
// What an archive holds is nobody's word: Unpack writes only below the places that
// it is given, follows no link, makes no device and no second name of a file, and
// refuses an archive that asks for it. The package owns nothing.
package archive

import (
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"
)

// Format is what is written, and the only one that is read.
const Format = 1

// Manifest says what an archive is of.
type Manifest struct {
	Format  int       `json:"format"`
	Profile string    `json:"profile"`
	Desired string    `json:"desired"` // running or stopped; "": nobody has said
	Port    int       `json:"port"`    // 0: none
	At      time.Time `json:"at"`
	Version string    `json:"rlminit"` // that has written it

	Secrets []string `json:"secrets,omitempty"` // the names of the profile's secrets, which are not in it
}

// end is the last entry.
type end struct {
	Entries int `json:"entries"` // before it
}

const (
	manifestName = "rlminit-profile.json"
	endName      = "rlminit-end.json"
	profilePart  = "profile"
	logPart      = "log"

	definitionName = "profile.yaml" // which is never followed, so never a link
)

// Bounds of what is read.
const (
	maxManifest = 64 << 10
	maxEntries  = 1 << 20
	maxName     = 4095
	maxPart     = 255 // bytes of one name on the way, as file systems have it
	maxDepth    = 64  // of directories, as of those that are copied
)

// logName is the name of a file of a log: the current one, or one that was rotated.
var logName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(current|\d{8}T\d{6}\.\d{6}Z\.log(\.gz)?)$`) })

// ErrFault is wrapped by what is wrong with an archive itself.
var ErrFault = errors.New("the archive cannot be used")

func fault(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrFault}, args...)...)
}

// cutShort is what an archive is that ends before its end.
func cutShort() error { return fault("it is cut short; export the profile again") }

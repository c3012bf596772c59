package journal

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"rlminit/internal/durable"
)

// Where things are below the volume's directory.
const (
	Home       = ".rlminit"
	Dir        = Home + "/journal"
	FormatFile = Home + "/format"
	// Lock is locked by the container whose volume it is, and so is OldLock, which
	// is all that an older one looks at.
	Lock    = Home + "/lock"
	OldLock = ".rlminit.lock"
)

// rule stands in the format file, for a finder of the volume.
const rule = `
The number in the first line is the format of what rlminit keeps in this
directory. A program that knows only smaller numbers reads and changes nothing
here, and says so. The number grows only when a program that knows the one
before would misread or lose something; the first line is a number for ever.
`

// volumeFormat is the content of the format file; volume is "" where it has none.
type volumeFormat struct {
	number int
	volume string
}

// readFormat reads the format file. Where there is none the number is 0.
func readFormat(home *durable.Dir) (volumeFormat, error) {
	b, err := home.ReadFile(FormatFile, 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return volumeFormat{}, nil
	}
	if err != nil {
		return volumeFormat{}, err
	}
	first, rest, _ := strings.Cut(string(b), "\n")
	number, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || number < 1 {
		return volumeFormat{}, fmt.Errorf("cannot use %s: its first line is no number; put there 1, or what it was", home.Path(FormatFile))
	}
	if number > Format {
		return volumeFormat{}, fmt.Errorf("cannot use %s: %w: its format is %d, and this one knows %d", home.Path(Home), ErrNewer, number, Format)
	}
	f := volumeFormat{number: number}
	second, _, _ := strings.Cut(rest, "\n")
	if id, ok := strings.CutPrefix(second, "volume "); ok && isID(id) {
		f.volume = id
	}
	return f, nil
}

func writeFormat(home *durable.Dir, volume string) error {
	text := fmt.Sprintf("%d\nvolume %s\n%s", Format, volume, rule)
	return home.WriteFile(FormatFile, []byte(text), durable.Write{Mode: 0o600, Names: true})
}

func isID(s string) bool {
	return len(s) >= 8 && len(s) <= 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// newID makes an id that nothing else has.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// trusted refuses a directory that is a link, a file or another user's. What is
// not there is made when the first segment is.
func trusted(home *durable.Dir) error {
	for _, rel := range []string{Home, Dir} {
		info, err := home.Lstat(rel)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case info.Type == fs.ModeSymlink:
			return fmt.Errorf("cannot use %s: it is a symbolic link; remove it, or put the directory back", home.Path(rel))
		case info.Type != fs.ModeDir:
			return fmt.Errorf("cannot use %s: it is no directory; move it away", home.Path(rel))
		case int(info.UID) != os.Geteuid() && info.UID != 0:
			return fmt.Errorf("cannot use %s: it belongs to uid %d, and the supervisor is uid %d; move it away, or give it back: chown -R %[3]d %[1]s", home.Path(rel), info.UID, os.Geteuid())
		}
	}
	return nil
}

package prepare

import (
	"errors"
	"fmt"
	"strings"

	"rlminit/internal/durable"
	"rlminit/wire"
)

// HandOver gives the directory of a profile to its user, or back to the services'
// user, as wire.GiveProgram and wire.TakeProgram say. The directory is that of the
// descriptor: no name is followed to it, nor in it.
// An error names what in it could not be given, if it is not itself.
func HandOver(program string, directory int, services wire.Identity, own uint32) (err error) {
	const top = "."
	switch program {
	case wire.GiveProgram:
		err = durable.HandOver(directory, top, services.UID, own, own, false)
	case wire.TakeProgram:
		err = durable.HandOver(directory, top, own, services.UID, services.GID, true)
	default:
		return fmt.Errorf("there is no %s", program)
	}
	var failed *durable.Error
	if !errors.As(err, &failed) {
		return err
	}
	if below, inside := strings.CutPrefix(failed.Path, top+"/"); inside {
		return fmt.Errorf("%s: %w", below, failed.Err)
	}
	return failed.Err
}

package supervise

import (
	"log/slog"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notifyManager tells what runs this container (podman --sdnotify=container,
// systemd-nspawn) how it is: sd_notify(3). Without one it does nothing.
func notifyManager(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		slog.Warn("cannot tell the container's manager", "state", state, "err", err)
	}
}

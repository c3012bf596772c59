package local

import (
	"net"
	"os"
	"strings"
	"time"
)

// Notify has rlminit show how this service is, and that it is ready, by sd_notify(3). Outside
// of a service it does nothing; and what cannot be told is let be.
func Notify(ready bool, status string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	text := "STATUS=" + strings.ReplaceAll(status, "\n", "; ")
	if ready {
		text = "READY=1\n" + text
	}
	_ = conn.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)) // the agent must not wait for a supervisor that reads nothing
	_, _ = conn.Write([]byte(text))
}

// Package console is what the supervisor says of itself where the container's engine
// listens: a line for each message, and rather one lost than one that is waited for.
package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"rlminit/internal/document"
)

// Open opens descriptor fd anew, non-blocking: O_NONBLOCK on the one that
// we inherited would be everybody's. -1: it cannot be opened anew.
func Open(fd int) int {
	own, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_APPEND|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return -1
	}
	return own
}

// rawOutput writes to a descriptor that does not block, and rather loses a line
// than waits: nobody may stop the loop by not reading our messages.
type rawOutput int

func (fd rawOutput) Write(p []byte) (int, error) { return unix.Write(int(fd), p) }

// Stderr is stderr, opened anew so that it does not block, where that can
// be done.
func Stderr() io.Writer {
	if fd := Open(2); fd >= 0 {
		return rawOutput(fd)
	}
	return os.Stderr
}

// NewHandler writes our own messages, one line each, and rather drops one
// than waits for a reader that does not read.
func NewHandler(w io.Writer) slog.Handler {
	return &handler{mu: new(sync.Mutex), out: w}
}

// handler formats as `rlminit: message key=value …`: the time is the
// container engine's to add.
type handler struct {
	mu    *sync.Mutex
	out   io.Writer
	attrs []slog.Attr
}

func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var line bytes.Buffer
	line.WriteString("rlminit: ")
	// A message takes no more than its line, and says nothing to a terminal: the name of a
	// file that a service made may be in it.
	line.WriteString(document.Printable(strings.ReplaceAll(r.Message, "\n", "; "), utf8.RuneError))
	add := func(a slog.Attr) bool {
		value := a.Value.Resolve().String()
		if value == "" || strings.ContainsFunc(value, needsQuotes) {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&line, " %s=%s", a.Key, value)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	line.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.out.Write(line.Bytes())
	return err
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{mu: h.mu, out: h.out, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

func (h *handler) WithGroup(string) slog.Handler { return h }

// needsQuotes tells whether a character of a value may be taken for the end of
// it, or be obeyed by a terminal.
func needsQuotes(r rune) bool {
	return strings.ContainsRune(" \"=", r) || !strconv.IsPrint(r) || r == utf8.RuneError
}

// NotifyManager tells what runs this container (podman --sdnotify=container,
// systemd-nspawn) how it is: sd_notify(3). Without one it does nothing.
func NotifyManager(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		slog.Warn("cannot tell the container's manager", "state", state, "err", err)
	}
}

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"rlminit/beside/page/gate"
	"rlminit/beside/page/live"
	"rlminit/beside/page/view"
	"rlminit/control"
)

const (
	// connectionsMost is how many connections there may be; further ones are closed at once.
	connectionsMost = 1024
	// How long a client may take for its headers, for the whole request, and to read an
	// answer; and how long a connection may be idle. A stream of events sets deadlines of
	// its own.
	headerTime = 5 * time.Second
	readTime   = 10 * time.Second
	writeTime  = 30 * time.Second
	idleTime   = time.Minute
	headerMost = 16 << 10 // bytes
	// bufferMost is how many bytes the kernel keeps for who does not read: or it would be
	// megabytes for each, and nobody would notice.
	bufferMost = 128 << 10
	// endTime is how long requests may take that are under way at the end.
	endTime = 3 * time.Second
)

// serve serves the page until the context is done.
func serve(ctx context.Context, set *settings) error {
	c, err := set.check()
	if err != nil {
		return err
	}
	listener, err := listen(c, set.Listen)
	if err != nil {
		return err
	}
	ask := live.NewSupervisor(control.Open())
	hub := live.New(ask, "/proc")
	pages, err := view.New(ask, hub, c.allow, set.Fleet)
	if err != nil {
		return err
	}
	g := gate.New(c.gate, pages.Refused)
	pages.Behind(g)
	log.SetOutput(&fewLines{to: os.Stderr})
	log.SetFlags(0)
	log.SetPrefix("rlminit-page: ")
	server := &http.Server{
		Handler:           g.Wrap(pages.Handler()),
		ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: headerMost,
		ErrorLog:       log.Default(),
		TLSConfig:      c.tls,
	}
	hubEnded := make(chan struct{})
	go func() {
		defer close(hubEnded)
		hub.Run(ctx)
	}()
	over := make(chan error, 1)
	go func() { over <- server.Serve(listener) }()
	where := address(c, listener)
	fmt.Printf("serves %s, allows %s\n", where, set.Allow)
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady+"\nSTATUS=serves "+where); err != nil {
		fmt.Fprintf(os.Stderr, "rlminit-page: cannot say that it is ready: %v\n", err)
	}
	select {
	case err := <-over:
		return fmt.Errorf("cannot serve: %w", err)
	case <-ctx.Done():
	}
	<-hubEnded
	ending, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		_ = server.Close() // whoever is left has had its time
	}
	return nil
}

// listen takes the socket that was passed, as the supervisor does, which holds it while the
// page is down. A page that is run by hand has none, and binds its address.
func listen(c checked, at string) (net.Listener, error) {
	l, err := passed()
	switch {
	case err == nil && l == nil && c.unix != "":
		l, err = bindPath(c.unix)
	case err == nil && l == nil:
		l, err = net.Listen("tcp", at)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	l = &limited{Listener: l, room: make(chan struct{}, connectionsMost)}
	if c.tls != nil {
		l = tls.NewListener(l, c.tls)
	}
	return l, nil
}

// passed is the socket that whoever started us has passed, sd_listen_fds(3); nil: none.
func passed() (net.Listener, error) {
	all, err := activation.Listeners()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if len(all) > 1 || all[0] == nil {
		return nil, errors.New("LISTEN_FDS is to be one socket that listens")
	}
	return all[0], nil
}

// socketMode is that of a socket at a path: its user and group may connect.
const socketMode = 0o660

// bindPath binds a path. A socket that a process before has left is removed.
func bindPath(path string) (net.Listener, error) {
	if why := replaceable(filepath.Dir(path)); why != "" {
		fmt.Fprintf(os.Stderr, "rlminit-page: another socket can be put in the place of %s: %s; use a directory that only root and the page can change, with all above it\n", path, why)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		if conn, err := net.Dial("unix", path); err == nil {
			conn.Close()
			return nil, fmt.Errorf("somebody listens on %s already", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	before := syscall.Umask(0o777 &^ socketMode)
	defer syscall.Umask(before)
	return net.Listen("unix", path)
}

// replaceable names the first directory on the way to a path in which somebody else than root and
// the page can rename, and so put something in the path's place; "": none.
func replaceable(dir string) string {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err.Error()
		}
		switch owner := info.Sys().(*syscall.Stat_t).Uid; {
		case owner != 0 && int(owner) != os.Geteuid():
			return fmt.Sprintf("%s belongs to uid %d", dir, owner)
		case info.Mode()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0:
			return dir + " can be written by others than its owner"
		case dir == "/":
			return ""
		}
	}
}

func address(c checked, l net.Listener) string {
	switch {
	case c.unix != "":
		return "unix:" + c.unix
	case c.tls != nil:
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

// limited closes connections beyond a number at once: a client that opens many must not
// use up descriptors.
type limited struct {
	net.Listener
	room chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				time.Sleep(100 * time.Millisecond) // until one of ours is closed
				continue
			}
			return nil, err
		}
		select {
		case l.room <- struct{}{}:
			if c, ok := conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
				_ = c.SetWriteBuffer(bufferMost) // where it cannot be set, it is as large as the kernel has it
			}
			return &counted{Conn: conn, leave: func() { <-l.room }}, nil
		default:
			conn.Close()
		}
	}
}

// counted is a connection that makes room when it is closed.
type counted struct {
	net.Conn
	once  sync.Once
	leave func()
}

func (c *counted) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close()
}

// fewLines lets twenty lines a minute through: a stranger can cause any number, by a
// handshake that fails.
type fewLines struct {
	to    *os.File
	since time.Time
	n     int
}

func (f *fewLines) Write(b []byte) (int, error) {
	if now := time.Now(); now.Sub(f.since) > time.Minute {
		f.since, f.n = now, 0
	}
	if f.n++; f.n > 20 {
		return len(b), nil
	}
	return f.to.Write(b)
}

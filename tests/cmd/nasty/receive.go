package main

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// share takes connections at an address at which others listen too, and closes them.
func share(address string) error {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); e != nil {
			return e
		}
		return err
	}}
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		conn.Close()
	}
}

// receive adds to a file what is sent to a socket, until it is killed.
func receive(at, file string) error {
	network, address, _ := strings.Cut(at, ":")
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if network != "tcp" {
		_ = os.Remove(address) // of the one before, which was killed
	}
	open := func() {
		if network != "tcp" {
			_ = os.Chmod(address, 0o666)
		}
	}
	if network == "unixgram" {
		conn, err := net.ListenPacket(network, address)
		if err != nil {
			return err
		}
		open()
		text := make([]byte, 1<<20)
		for {
			n, _, err := conn.ReadFrom(text)
			if err == nil {
				_, err = out.Write(append(text[:n:n], '\n'))
			}
			if err != nil {
				return err
			}
		}
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	open()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		if _, err := out.WriteString("\n"); err != nil { // the connection before may have ended in a line
			return err
		}
		if _, err := io.Copy(out, conn); err != nil {
			conn.Close()
		}
	}
}

package main

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// A connection one past the room is closed at once, and one that follows when another has
// gone is not.
func TestOneConnectionTooMany(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	room := &limited{Listener: l, room: make(chan struct{}, 1)}
	taken := make(chan net.Conn, 2)
	go func() {
		for {
			c, err := room.Accept()
			if err != nil {
				return
			}
			taken <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first, over := dial(), dial()
	defer first.Close()
	defer over.Close()
	served := <-taken
	if err := over.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := over.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one too many: %v", err)
	}
	served.Close()
	third := dial()
	defer third.Close()
	(<-taken).Close()
}

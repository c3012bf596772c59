package main

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// crowd connects to a control socket so many times at once and goes on saying
// what is no end of a request: nothing, a header without end, a body that
// trickles, streams that nobody reads. It prints "crowded" and does not stop.
func crowd(path string, count int) error {
	for i := range count {
		go func() {
			for {
				occupy(path, i%4)
				time.Sleep(time.Millisecond)
			}
		}()
	}
	time.Sleep(time.Second)
	fmt.Println("crowded")
	forever()
	return nil
}

// occupy is one connection. However it ends, it has been tried.
func occupy(path string, kind int) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return
	}
	defer c.Close()
	trickle := strings.Repeat("x", 512)
	switch kind {
	case 1:
		fmt.Fprint(c, "GET /v1/services HTTP/1.1\r\nHost: x\r\nX-Long: ")
	case 2:
		fmt.Fprint(c, "POST /v1/profiles HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
	case 3:
		fmt.Fprint(c, "GET /v1/events?follow=true HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	for {
		if _, err := c.Write([]byte(trickle[:min(len(trickle), 512*kind)])); err != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
		if kind == 0 {
			b := make([]byte, 1)
			if _, err := c.Read(b); err != nil {
				return
			}
		}
	}
}

package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"time"
)

// flood sends a request with a body of so many megabytes to a control socket,
// and prints whether it was refused: by an answer of 4xx, or by hanging up.
func flood(path string, megabytes int) error {
	c, err := net.Dial("unix", path)
	if err != nil {
		return fmt.Errorf("cannot flood: %w", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return fmt.Errorf("cannot flood: %w", err)
	}
	block := []byte(strings.Repeat("x", 1<<20))
	_, err = fmt.Fprintf(c, "POST /v1/profiles HTTP/1.1\r\nHost: rlminit\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{\"name\":\"", megabytes<<20)
	for range megabytes {
		if err != nil {
			break // hung up, perhaps with an answer
		}
		_, err = c.Write(block)
	}
	line, readErr := bufio.NewReader(c).ReadString('\n')
	switch {
	case strings.HasPrefix(line, "HTTP/1.1 4"):
		fmt.Println("refused:", strings.TrimSpace(line))
	case readErr != nil && err != nil:
		fmt.Println("refused:", err)
	default:
		return fmt.Errorf("answered %q (%v, %v)", line, err, readErr)
	}
	return nil
}

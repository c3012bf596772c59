package main

import (
	"bufio"
	"fmt"
	"io"
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

// requests makes each request of a control socket, on a connection of its own, and prints
// its status and whether the answer has the word.
func requests(path, word string, all []string) error {
	for _, request := range all {
		words := append(strings.SplitN(request, " ", 3), "") // method, path and perhaps a body
		request = words[0] + " " + words[1]
		c, err := net.Dial("unix", path)
		if err != nil {
			return fmt.Errorf("cannot request: %w", err)
		}
		err = c.SetDeadline(time.Now().Add(20 * time.Second))
		if err == nil {
			_, err = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: rlminit\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", request, len(words[2]), words[2])
		}
		var answer []byte
		if err == nil {
			answer, err = io.ReadAll(c)
		}
		c.Close()
		line := strings.Fields(string(answer))
		if err != nil || len(line) < 2 {
			return fmt.Errorf("%s is answered %q: %w", request, answer, err)
		}
		shows := map[bool]string{true: "shows it", false: "-"}[strings.Contains(string(answer), word)]
		fmt.Println("request:", request, line[1], shows)
	}
	fmt.Println("requests: over")
	return nil
}

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
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
// its status and whether the answer has the word; of the word = the body alone.
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
		if word == "=" {
			_, body, _ := strings.Cut(string(answer), "\r\n\r\n")
			fmt.Println(body)
			continue
		}
		shows := map[bool]string{true: "shows it", false: "-"}[strings.Contains(string(answer), word)]
		fmt.Println("request:", request, line[1], shows)
	}
	fmt.Println("requests: over")
	return nil
}

// atOnce makes a request n times, each on a connection of its own, all of which are there
// before the first request is sent. It prints how many answers have each status; 0: none came.
func atOnce(path string, n int, request string) error {
	all := make([]net.Conn, n)
	for i := range all {
		c, err := net.Dial("unix", path)
		for errors.Is(err, syscall.EAGAIN) { // the backlog is full, connect(2)
			time.Sleep(time.Millisecond)
			c, err = net.Dial("unix", path)
		}
		if err != nil {
			return fmt.Errorf("cannot request: %w", err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			return fmt.Errorf("cannot request: %w", err)
		}
		all[i] = c
	}
	for _, c := range all {
		_, _ = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: rlminit\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", request) // the answer tells
	}
	count := map[string]int{}
	for _, c := range all {
		answer, _ := io.ReadAll(c) // what was answered counts
		words := append(strings.Fields(string(answer)), "0", "0")
		count[words[1]]++
	}
	fmt.Println("at once:", n, count)
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Asked is what came of asking a server over and over.
type Asked struct {
	Answered int    `json:"answered"`
	Refused  int    `json:"refused"` // connect(2) failed
	Broken   int    `json:"broken"`  // the server took the connection and did not answer
	Last     string `json:"last"`    // the last error
}

// ask requests a URL over and over, each time on a new connection, until its
// standard input ends, and prints what came of it.
func ask(url string) error {
	ended := make(chan struct{})
	go func() {
		// An error ends it as the end of the input does.
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	client := http.Client{
		Timeout: 20 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				if err != nil {
					return nil, errors.Join(errRefused, err)
				}
				return conn, nil
			},
		},
	}
	var asked Asked
	for {
		select {
		case <-ended:
			return json.NewEncoder(os.Stdout).Encode(asked)
		default:
		}
		answer, err := client.Get(url)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
		switch {
		case err == nil:
			asked.Answered++
		case errors.Is(err, errRefused):
			asked.Refused++
			asked.Last = err.Error()
		default:
			asked.Broken++
			asked.Last = err.Error()
		}
	}
}

var errRefused = errors.New("refused")

// keep counts its starts in a file that has no name: it is kept over restarts
// by the service manager alone, FDSTORE=1 of sd_notify(3). It prints the count
// and the names of what it was passed. With "forget" it takes the file out of
// the store once it has counted.
func keep(forget bool) error {
	names := strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	passed, err := strconv.Atoi("0" + os.Getenv("LISTEN_FDS"))
	if err != nil {
		return err
	}
	fd := -1
	for i := range min(passed, len(names)) {
		if names[i] == "count" {
			fd = 3 + i
		}
	}
	stored := fd >= 0
	if !stored {
		if fd, err = unix.MemfdCreate("count", unix.MFD_CLOEXEC); err != nil {
			return err
		}
	}
	count := os.NewFile(uintptr(fd), "count")
	if _, err := count.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	if _, err := count.WriteString("x"); err != nil {
		return err
	}
	info, err := count.Stat()
	if err != nil {
		return err
	}
	fmt.Printf("count %d, passed %q, listen pid is ours: %t\n", info.Size(), os.Getenv("LISTEN_FDNAMES"), os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid()))
	switch {
	case forget:
		err = tell("FDSTOREREMOVE=1\nFDNAME=count\nREADY=1\n")
	case stored:
		err = tell("READY=1\n")
	default:
		err = tell("FDSTORE=1\nFDNAME=count\nREADY=1\n", fd)
	}
	if err != nil {
		return err
	}
	forever()
	return nil
}

// tell sends one message of sd_notify(3), with descriptors.
func tell(text string, fds ...int) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: os.Getenv("NOTIFY_SOCKET"), Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Write(func(fd uintptr) bool {
		failure = unix.Sendmsg(int(fd), []byte(text), unix.UnixRights(fds...), nil, 0)
		return !errors.Is(failure, unix.EAGAIN)
	})
	return errors.Join(err, failure)
}

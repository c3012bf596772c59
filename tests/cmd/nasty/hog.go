package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// hogs take all that they can have of a resource, keep it, and try for more.
var hogs = map[string]func(where string) error{
	"memory":      memoryHog,
	"forks":       forkHog,
	"cpu":         cpuHog,
	"disk":        diskHog,
	"descriptors": descriptorHog,
	"log":         logHog,
	"connections": connectionHog,
	"inotify":     inotifyHog,
}

// timed prints how long a server takes to answer, the median.
func timed(url string, count int) error {
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var times []time.Duration
	for range count {
		began := time.Now()
		answer, err := client.Get(url)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if err != nil {
			return err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	fmt.Println(times[count/2].Microseconds())
	return nil
}

// mebibyte is what hogs take at a time.
const mebibyte = 1 << 20

func memoryHog(string) error {
	var all [][]byte
	for {
		b := make([]byte, mebibyte)
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1
		}
		all = append(all, b)
		if len(all)%8 == 0 {
			fmt.Println(len(all), "MiB")
		}
	}
}

// forkHog is a bomb: each child forks in its turn.
func forkHog(string) error {
	fmt.Println("forking")
	for {
		if _, errno := fork(); errno != 0 {
			pause(50e6)
		}
	}
}

func cpuHog(string) error {
	fmt.Println("spinning")
	const threads = 12 // however many processors there are
	runtime.GOMAXPROCS(threads)
	var turns atomic.Uint64
	for range threads {
		go func() {
			for {
				turns.Add(1)
			}
		}()
	}
	forever()
	return nil
}

func diskHog(dir string) error {
	f, err := os.Create(filepath.Join(dir, "hog"))
	if err != nil {
		return err
	}
	if err := os.Remove(f.Name()); err != nil { // with us it goes
		return err
	}
	block := make([]byte, mebibyte)
	for said := false; ; {
		if _, err := f.Write(block); err != nil {
			if !said {
				fmt.Println("full:", err)
				said = true
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func descriptorHog(string) error {
	for n := 0; ; n++ {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			fmt.Println(n, "descriptors:", err)
			forever()
		}
	}
}

func logHog(string) error {
	line := make([]byte, 4095)
	for i := range line {
		line[i] = 'x'
	}
	line = append(line, '\n')
	for {
		if _, err := os.Stdout.Write(line); err != nil {
			return err
		}
	}
}

func connectionHog(address string) error {
	var all []io.Closer
	for {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if all = append(all, c); len(all)%100 == 0 {
			fmt.Println(len(all), "connections")
		}
	}
}

// inotifyHog takes every set of watches that its user can have.
func inotifyHog(string) error {
	for {
		if _, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
			pause(10e6)
		}
	}
}

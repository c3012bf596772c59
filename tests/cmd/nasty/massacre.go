package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// massacre kills children of PID 1 that run a program, at random, until so many
// have been killed, each of them once. It prints how often it was for each last
// argument that they had, as JSON. It gives up when nobody is left to kill for
// 20 s.
func massacre(program string, kills int) error {
	tally := map[string]int{}
	killed := map[string]bool{} // by pid and start time
	for last := time.Now(); len(killed) < kills; {
		children, err := childrenOf(1)
		if err != nil {
			return err
		}
		for _, pid := range children {
			name, start := runs(pid)
			if name != program || killed[pid+" "+start] || rand.IntN(2) == 0 || len(killed) == kills {
				continue
			}
			line, err := os.ReadFile("/proc/" + pid + "/cmdline")
			if err != nil || len(line) == 0 {
				continue // it has gone, or execve(2) has yet to lay out its arguments
			}
			number, err := strconv.Atoi(pid)
			if err != nil {
				return err
			}
			if err := unix.Kill(number, unix.SIGKILL); err != nil {
				continue
			}
			last = time.Now()
			killed[pid+" "+start] = true
			args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
			tally[args[len(args)-1]]++
		}
		if time.Since(last) > 20*time.Second {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return json.NewEncoder(os.Stdout).Encode(tally)
}

// runs is the name of a process's program and its start time, or nothing if it
// lives no more: proc_pid_stat(5).
func runs(pid string) (program, start string) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return "", ""
	}
	text := string(stat)
	from, to := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	fields := strings.Fields(text[to+1:])
	if fields[0] == "Z" || fields[0] == "X" {
		return "", ""
	}
	return text[from+1 : to], fmt.Sprint(fields[19])
}

// childrenOf lists the children of all threads of a process: the kernel counts
// a child as that of the thread that forked, proc_pid_task(5).
func childrenOf(pid int) ([]string, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}
		all = append(all, strings.Fields(string(children))...)
	}
	return all, nil
}

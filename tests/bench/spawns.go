package main

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// roles are the processes of which countSpawns tells, in the order of its table.
var roles = []string{"PID 1", "supervisor", "file helper", "child"}

// roleOf tells which of rlminit's processes this is.
func roleOf(p process) string {
	switch {
	case slices.Contains(p.argv, "supervise"):
		return "supervisor"
	case slices.Contains(p.argv, "init"):
		return "PID 1"
	default:
		return "file helper"
	}
}

// countSpawns prints what a start costs: the processor time of a boot by process,
// beside that of the floor, and each process's system calls for one service of a boot
// and for one restart, as strace(1) sees them.
func countSpawns() error {
	if err := bootTimes(); err != nil {
		return err
	}
	if _, err := exec.LookPath("strace"); err != nil {
		fmt.Println("strace is not there: system calls are not counted")
		return nil
	}
	n := min(*services, 300)
	boot, restart, err := bootCalls(n)
	if err != nil {
		return err
	}
	printCalls(fmt.Sprintf("system calls for each service of a boot of %d", n), boot, float64(n))
	printCalls("system calls for one restart", restart, float64(min(n, restarts)))
	return nil
}

// bootTimes prints the processor time that each process of a boot used.
func bootTimes() error {
	before, whole := map[string][]float64{}, map[string][]float64{}
	var took []float64
	var floorTook []float64
	for range *rounds {
		for _, s := range supervisors() {
			if s.name != "rlminit" && s.name != "floor" {
				continue
			}
			sc, err := s.stage(*services)
			if err != nil {
				return err
			}
			if s.name == "floor" {
				floorTook = append(floorTook, ms(sc.took))
			} else {
				took = append(took, ms(sc.took))
			}
			sc.addTimes(before)
			time.Sleep(3 * time.Second) // until what the start had to write is written
			sc.addTimes(whole)
			sc.end()
		}
	}
	fmt.Printf("boot of %d services: %.0f ms, %.2f of the floor's %.0f ms\n", *services, median(took), median(took)/median(floorTook), median(floorTook))
	fmt.Printf("processor time in ms for each service: until the last has started; in all\n")
	var sum, sumAll float64
	for _, role := range append(slices.Clone(roles), "floor", "floor's child") {
		one, all := median(before[role])/float64(*services), median(whole[role])/float64(*services)
		if role != "child" && !strings.HasPrefix(role, "floor") {
			sum, sumAll = sum+one, sumAll+all
		}
		fmt.Printf("    %-14s %7.3f %7.3f\n", role, one, all)
	}
	fmt.Printf("    %-14s %7.3f %7.3f\n\n", "supervising", sum, sumAll)
	return nil
}

// addTimes adds what the processes of a scene have used so far, in ms, by their role.
func (sc *scene) addTimes(to map[string][]float64) {
	all, _ := within(sc.cmd.Process.Pid)
	used := map[string]float64{}
	for _, p := range all {
		role := "child"
		switch {
		case sc.name == "floor" && p.pid == sc.cmd.Process.Pid:
			role = "floor"
		case sc.name == "floor":
			role = "floor's child"
		case filepath.Base(p.argv[0]) != "service":
			role = roleOf(p)
		}
		used[role] += processorTime(p.pid)
	}
	for role, t := range used {
		to[role] = append(to[role], t)
	}
}

// processorTime is what the threads of a process have used, in ms: the first figure of
// schedstat, in ns. What threads used that have ended is not in it.
func processorTime(pid int) (sum float64) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, stat := range tasks {
		content, _ := os.ReadFile(stat)
		first, _, _ := strings.Cut(string(content), " ")
		ns, _ := strconv.ParseFloat(first, 64)
		sum += ns / 1e6
	}
	return sum
}

// counts are numbers of system calls, by the role of the process and the call's name.
type counts map[string]map[string]int

// restarts is how many services are started again where the calls of one are counted: so
// many that what comes now and then is little of each.
const restarts = 20

// bootCalls counts the system calls of a boot of n services, and of restarts of them.
func bootCalls(n int) (boot, restart counts, err error) {
	s := supervisors()[0]
	s.outside = true
	sc, err := s.stage(n)
	if err != nil {
		return nil, nil, err
	}
	defer sc.end()
	if err := sc.quiet(); err != nil {
		return nil, nil, err
	}
	// PID 1 is not the child that was started, but a grandchild.
	one, err := sc.pidOne()
	if err != nil {
		return nil, nil, err
	}
	defer syscall.Kill(one, syscall.SIGKILL) // which outlives strace
	threads := map[int]string{}
	processes, err := within(one)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range processes {
		if filepath.Base(p.argv[0]) == "service" {
			continue
		}
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.pid))
		for _, task := range tasks {
			tid, _ := strconv.Atoi(filepath.Base(task))
			threads[tid] = roleOf(p)
		}
	}
	boot, size, err := sc.calls(0, threads)
	if err != nil {
		return nil, nil, err
	}
	again := sc.names[:min(n, restarts)]
	for _, p := range processes {
		if len(p.argv) == 2 && slices.ContainsFunc(again, func(name string) bool { return p.argv[1] == fifo(sc.dir, name) }) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	if err := sc.opened.await(again...); err != nil {
		return nil, nil, err
	}
	if err := sc.quiet(); err != nil {
		return nil, nil, err
	}
	restart, _, err = sc.calls(size, threads)
	return boot, restart, err
}

// quiet waits until strace has written nearly nothing for longer than the mark of a
// start waits for its log's file: all that a start brings with it has been done.
func (sc *scene) quiet() error {
	const while, nearly = 3 * time.Second, 4096
	size := int64(0)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(while) {
		info, err := os.Stat(filepath.Join(sc.dir, "strace"))
		if err != nil {
			return err
		}
		if info.Size()-size < nearly {
			return nil
		}
		size = info.Size()
	}
	return fmt.Errorf("rlminit is not quiet after %s", patience)
}

// pidOne is the process that is the first of the namespace in a scene below strace.
func (sc *scene) pidOne() (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		line, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if strings.HasPrefix(string(line), *binary+"\x00init\x00") && strings.Contains(string(line), sc.dir) {
			return strconv.Atoi(entry.Name())
		}
	}
	return 0, fmt.Errorf("PID 1 of %s is not there", sc.dir)
}

// A call in strace's output: of which thread, and its name; what is resumed is counted
// where it began.
var callLine = regexp.MustCompile(`^(\d+) +([a-z_0-9]+)\(`)

// calls counts, from an offset of what strace has written, the calls by role and name. A
// thread that is none of those given is a child if it runs a service, until it does.
func (sc *scene) calls(from int64, threads map[int]string) (all counts, size int64, err error) {
	f, err := os.Open(filepath.Join(sc.dir, "strace"))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if size, err = f.Seek(0, 2); err != nil {
		return nil, 0, err
	}
	if _, err := f.Seek(from, 0); err != nil {
		return nil, 0, err
	}
	byThread := map[int]map[string]int{}
	serves := map[int]bool{} // the program is a service's
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		found := callLine.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		tid, _ := strconv.Atoi(found[1])
		if serves[tid] {
			continue
		}
		if byThread[tid] == nil {
			byThread[tid] = map[string]int{}
		}
		byThread[tid][found[2]+argumentsOf(lines.Text()[len(found[0]):])]++
		serves[tid] = threads[tid] == "" && found[2] == "execve" && strings.Contains(lines.Text(), service())
	}
	all = counts{}
	for tid, calls := range byThread {
		role := threads[tid]
		if serves[tid] {
			role = "child"
		}
		if all[role] == nil {
			all[role] = map[string]int{}
		}
		for call, n := range calls {
			all[role][call] += n
		}
	}
	return all, size, lines.Err()
}

// What differs in the arguments of calls that are alike.
var differs = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+| = .*| <unfinished.*`)

// argumentsOf are the arguments of a call where they are asked for, without numbers.
func argumentsOf(text string) string {
	if !*arguments {
		return ""
	}
	text = differs.ReplaceAllStringFunc(text, func(s string) string {
		if s[0] == ' ' {
			return ""
		}
		return "N"
	})
	return "\n        (" + text[:min(len(text), 120)]
}

func printCalls(title string, all counts, per float64) {
	fmt.Println(title)
	most := 14
	if *arguments {
		most = 80
	}
	for _, role := range roles {
		names := slices.SortedFunc(maps.Keys(all[role]), func(a, b string) int { return cmp.Compare(all[role][b], all[role][a]) })
		sum := 0
		for _, n := range all[role] {
			sum += n
		}
		fmt.Printf("    %-12s %7.1f:", role, float64(sum)/per)
		for _, name := range names[:min(len(names), most)] {
			fmt.Printf(" %s %.1f", name, float64(all[role][name])/per)
		}
		fmt.Println()
	}
	fmt.Println()
}

// outside starts the namespace from a process of its own, which strace follows.
func outside(argv []string) error {
	cmd := boxed(argv...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

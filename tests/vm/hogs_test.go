//go:build vm

package vm

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// TestHogs: whatever one service takes all of that its limits leave it, another
// answers about as soon as before: within twice the time.
func TestHogs(t *testing.T) {
	hogs := []string{"memory", "forks", "cpu", "disk /data", "descriptors", "log", "connections 127.0.0.1:8080"}
	b := machine(t, contract.Services(hogging(hogs)...))
	ready(b)
	contained(b, hogs)
}

// hogging are a service that answers, and a hog of each kind that is not started.
func hogging(hogs []string) []string {
	const limits = "limits: {memory: 48MiB, pids: 20, cpu: 0.2, nofile: 1024}"
	services := []string{`answers: {command: [gateway, --port, "8080"], ready: {notify: true}}`}
	for _, hog := range hogs {
		words := strings.Fields(hog)
		services = append(services, fmt.Sprintf(
			`%s: {command: [nasty, hog, %s], %s, enabled: false, log: {tee: off}, stop: {timeout: 1s}, restart: {policy: always, delay: 100ms, limit: 1000}}`,
			words[0], strings.Join(words, ", "), limits))
	}
	return services
}

// contained has each hog take what it can beside the service that answers.
func contained(b *box.Box, hogs []string) {
	b.Helper()
	b.Await("answers", "running")
	answers := func() int {
		r := b.As(box.Root, "nasty", "time", "http://127.0.0.1:8080/healthz", "100")
		n, err := strconv.Atoi(strings.TrimSpace(r.Out))
		if err != nil {
			b.Fatalf("nothing answers: %s", r)
		}
		return n
	}
	answers() // the first ones find nothing in memory
	for _, hog := range hogs {
		name, _, _ := strings.Cut(hog, " ")
		b.Must("start", "--no-wait", name)
		atWork(b, name)
		// The machine may have something else to do, but not each time.
		for tries := 5; ; tries-- {
			taken := answers()
			b.Must("stop", name)
			quiet := answers()
			b.Logf("figure: with a hog of %s: %d µs, quiet: %d µs", name, taken, quiet)
			if taken <= 2*quiet {
				break
			}
			if tries == 1 {
				b.Errorf("with a hog of %s the other answers after %d µs, and without after %d", name, taken, quiet)
				break
			}
			b.Must("start", "--no-wait", name)
			atWork(b, name)
		}
	}
}

// atWork waits until a hog has told that it is.
func atWork(b *box.Box, name string) {
	b.Helper()
	box.Eventually(b, patience, name+" is at work", func() (bool, any) {
		r := b.Run("logs", name)
		return strings.TrimSpace(r.Out) != "", r
	})
}

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/term"

	testbox "rlminit/tests/box"
)

// shellOn runs a script of root's shell on a terminal, types what is to be typed
// when a line "type" comes, and returns all that it shows, and its exit code.
func shellOn(t *testing.T, b *box, script, typed string) (shown string, code int) {
	t.Helper()
	master, slave := testbox.OpenTerminal(t)
	was, err := term.GetState(int(slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(b.command().Env, "RLMINIT="+self)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	over := make(chan struct{})
	go func() {
		defer close(over)
		for r := bufio.NewReader(master); ; {
			line, err := r.ReadString('\n')
			all.WriteString(line)
			if err != nil {
				return
			}
			if strings.TrimSpace(line) == "type" {
				_, _ = io.WriteString(master, typed)
			}
		}
	}()
	err = cmd.Wait()
	if now, stateErr := term.GetState(int(slave.Fd())); stateErr != nil || *now != *was {
		t.Errorf("the terminal is not what it was: %v", stateErr)
	}
	slave.Close()
	<-over
	if exit, ok := err.(*exec.ExitError); ok {
		return all.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return all.String(), 0
}

// What is no terminal stays what it is, and ^C ends the command.
func TestExecOnATerminalWithPipes(t *testing.T) {
	b, _ := execBox(t, nil)
	shown, code := shellOn(t, b, `echo piped | "$RLMINIT" exec --profile alice -- sh -c 'cat; tty <&2 >&2; test -t 0 || echo a pipe' | cat`, "")
	if code != 0 || !strings.Contains(shown, "piped") || !strings.Contains(shown, "a pipe") {
		t.Errorf("exit %d, shown: %q", code, shown)
	}
	// The kernel throws away what a terminal is to show once it has sent the signal, termios(3) on NOFLSH.
	shown, code = shellOn(t, b, `trap : INT; "$RLMINIT" exec --profile alice -- sh -c 'trap "sleep 0.2; echo ended; exit 9" INT; echo type; while :; do read x; done'; exit $?`, "\x03")
	if code != 9 || !strings.Contains(shown, "ended") {
		t.Errorf("^C: exit %d, shown: %q", code, shown)
	}
}

// The leader of a session, as docker exec -t makes one, has its terminal for
// itself, and the command may open it by name.
func TestExecAsTheLeaderOfASession(t *testing.T) {
	b, _ := execBox(t, nil)
	shown, code := shellOn(t, b, `exec "$RLMINIT" exec --profile alice -- sh -c 'echo "$(ps -o sid= -p $$ | tr -d " ") $$"; test -w "$(tty)" && echo mine'`, "")
	ids := strings.Fields(shown)
	if code != 0 || len(ids) != 3 || ids[0] != ids[1] || ids[2] != "mine" {
		t.Errorf("exit %d, shown: %q", code, shown)
	}
}

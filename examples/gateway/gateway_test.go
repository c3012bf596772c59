package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rlminit/examples/gateway/process"
)

// The test binary plays the gateway: with this variable it runs main.
const playGateway = "GATEWAY_TEST_PLAY"

func TestMain(m *testing.M) {
	if os.Getenv(playGateway) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is a gateway started by a test.
type instance struct {
	*exec.Cmd
	url   string
	lines chan string // its standard output; closed at its end
}

// start runs the gateway and waits until it says that it listens.
func start(t *testing.T, files []*os.File, environment ...string) *instance {
	t.Helper()
	cmd := exec.Command(os.Args[0], "--profile", "alice")
	cmd.Env = append(append(os.Environ(), playGateway+"=1"), environment...)
	cmd.ExtraFiles = files
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &instance{Cmd: cmd, lines: make(chan string, 1<<16)}
	go func() {
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
		close(p.lines)
	}()
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	first, ok := <-p.lines
	_, address, found := strings.Cut(first, "listens on ")
	if !ok || !found {
		t.Fatalf("first line %q", first)
	}
	p.url = "http://" + address
	return p
}

// post sends a body and returns the answer's status and body.
func (p *instance) post(t *testing.T, path, body string) (int, string) {
	t.Helper()
	answer, err := http.Post(p.url+path, "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

// manager is a notify socket as a service manager holds one.
func manager(t *testing.T) (*net.UnixConn, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, "NOTIFY_SOCKET=" + path
}

// expect reads messages until one has the line.
func expect(t *testing.T, c *net.UnixConn, line string) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		if err != nil {
			t.Fatalf("no %s: %v", line, err)
		}
		if strings.Contains("\n"+string(b[:n]), "\n"+line+"\n") {
			return
		}
	}
}

func TestServesReportsReadyAndStops(t *testing.T) {
	socket, variable := manager(t)
	p := start(t, nil, variable)
	expect(t, socket, "READY=1")

	status, body := p.post(t, "/chat", "hello")
	var r reply
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	if status != 200 || r.Text != "hello" || r.Profile != "alice" || r.PID != p.Process.Pid || r.Chats != 1 {
		t.Errorf("status %d, %+v", status, r)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	expect(t, socket, "STOPPING=1")
	if err := p.Wait(); err != nil {
		t.Errorf("SIGTERM ended it with %v, want exit 0", err)
	}
}

func TestSelfIsTheProcess(t *testing.T) {
	p := start(t, nil, "MARK=here")
	var out bytes.Buffer
	if err := call([]string{p.url + "/self"}, &out); err != nil {
		t.Fatal(err)
	}
	var r process.Info
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.PID != p.Process.Pid || r.Parent != os.Getpid() || !strings.Contains(strings.Join(r.Environment, "\n"), "MARK=here") {
		t.Errorf("%+v", r)
	}
}

func TestWatchdogIsPingedUntilItHangs(t *testing.T) {
	socket, variable := manager(t)
	p := start(t, nil, variable, "WATCHDOG_USEC=20000")
	expect(t, socket, "WATCHDOG=1")
	p.post(t, "/fault/hang", "")

	client := http.Client{Timeout: 50 * time.Millisecond}
	if _, err := client.Get(p.url + "/healthz"); err == nil {
		t.Error("a hung gateway answered")
	}
	// What was sent before the hang may still be queued; then there is silence
	// for many intervals.
	b := make([]byte, 4096)
	for {
		if err := socket.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := socket.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil || time.Since(began) > 100*time.Millisecond {
			t.Fatalf("a hung gateway pinged (%v)", err)
		}
	}
}

func TestTakesAPassedSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// LISTEN_PID must be the process itself, which only it knows: a shell in
	// between does as a manager does after its fork.
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" --profile alice --port 1`, os.Args[0])
	cmd.Env = append(os.Environ(), playGateway+"=1", "LISTEN_FDS=1")
	cmd.ExtraFiles = []*os.File{f}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	// The socket listens already, so the request waits for the gateway.
	if err := call([]string{"-d", "hello", "http://" + l.Addr().String() + "/chat"}, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestCrashes(t *testing.T) {
	for _, c := range []struct {
		query string
		ended func(s syscall.WaitStatus) bool
	}{
		{"", func(s syscall.WaitStatus) bool { return s.ExitStatus() == 1 }},
		{"code=42", func(s syscall.WaitStatus) bool { return s.ExitStatus() == 42 }},
		{"panic=1", func(s syscall.WaitStatus) bool { return s.ExitStatus() == 2 }},
		{"signal=kill", func(s syscall.WaitStatus) bool { return s.Signal() == syscall.SIGKILL }},
	} {
		t.Run(c.query, func(t *testing.T) {
			p := start(t, nil)
			p.Stderr = nil
			if status, _ := p.post(t, "/fault/crash?"+c.query, ""); status != http.StatusNoContent {
				t.Errorf("status %d", status)
			}
			_ = p.Wait()
			if s := p.ProcessState.Sys().(syscall.WaitStatus); !c.ended(s) {
				t.Errorf("ended with %s", p.ProcessState)
			}
		})
	}
}

func TestIgnoresTermWhenTold(t *testing.T) {
	p := start(t, nil)
	p.post(t, "/fault/ignore-term", "")
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for line := range p.lines {
		if strings.Contains(line, "ignored, as told") {
			break
		}
	}
	if status, _ := p.post(t, "/chat", "still there?"); status != 200 {
		t.Errorf("status %d", status)
	}
}

func TestUnhealthyWhenTold(t *testing.T) {
	p := start(t, nil)
	if err := call([]string{p.url + "/healthz"}, io.Discard); err != nil {
		t.Error(err)
	}
	p.post(t, "/fault/unhealthy", "")
	if err := call([]string{p.url + "/healthz"}, io.Discard); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("error %v, want a 503", err)
	}
}

func TestLeaksAnOrphanInItsOwnSession(t *testing.T) {
	p := start(t, nil)
	status, body := p.post(t, "/fault/leak", "")
	pid, err := strconv.Atoi(strings.TrimSpace(body))
	if status != 200 || err != nil {
		t.Fatalf("status %d, %q", status, body)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// After the name: state, parent, process group, session.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if fields[1] == strconv.Itoa(p.Process.Pid) || fields[3] != strconv.Itoa(pid) {
		t.Errorf("parent %s session %s, want an orphan that leads its session", fields[1], fields[3])
	}
}

func TestLogsAsManyLinesAsTold(t *testing.T) {
	p := start(t, nil)
	if status, _ := p.post(t, "/fault/log?lines=1000&bytes=100", ""); status != http.StatusNoContent {
		t.Fatalf("status %d", status)
	}
	n := 0
	for line := range p.lines {
		if strings.HasPrefix(line, "line ") {
			n++
			if len(line) != 100 {
				t.Errorf("line %d has %d bytes", n, len(line))
			}
			if n == 1000 {
				return
			}
		}
	}
	t.Errorf("%d lines", n)
}

func TestBadRequests(t *testing.T) {
	p := start(t, nil)
	for path, want := range map[string]int{
		"/fault/dance":                404,
		"/fault/crash?code=x":         400,
		"/fault/crash?signal=DANCE":   400,
		"/fault/log?lines=0":          400,
		"/fault/log?lines=1&bytes=-1": 400,
		"/nowhere":                    404,
	} {
		if status, _ := p.post(t, path, ""); status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
	}
	if status, _ := p.post(t, "/chat", strings.Repeat("x", maxBody+1)); status != 400 {
		t.Errorf("a body over the bound: status %d", status)
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"--port", "x"}, {"dance"}, {"sleep", "x"}, {"call"}, {"detach"}, {"call", "http://127.0.0.1:1/"},
	} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

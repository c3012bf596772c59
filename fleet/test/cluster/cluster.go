// Package cluster runs real etcd servers as processes on the loopback interface,
// for tests. It owns their processes and their directories: both are gone when
// the test has ended.
//
//	c := cluster.Start(t, 3)
//	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints()})
//
// A node can be stopped for a while (Pause), killed, and started again on the
// data that it had.
package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
)

// patience is how long a node may take to answer on a busy machine.
const patience = 60 * time.Second

// Cluster is etcd of some nodes.
type Cluster struct {
	Nodes []*Node
}

// Node is one server. Its addresses and its directory stay the same over restarts.
type Node struct {
	Name   string
	Client string // http://127.0.0.1:PORT, or https
	tls    *tls.Config
	peer   string
	args   []string
	log    *os.File

	mu      sync.Mutex
	process *exec.Cmd     // nil while it does not run
	ended   chan struct{} // closed when process has been waited for
}

// Start starts a cluster of n nodes and waits until each of them answers. The
// servers end with the test; what they printed is shown if it fails.
func Start(t testing.TB, n int) *Cluster {
	t.Helper()
	return Secured(t, n, nil)
}

// Secured is Start with further flags for the servers. If conf is not nil, clients reach
// them by TLS, for which the flags name the servers' files.
func Secured(t testing.TB, n int, conf *tls.Config, flags ...string) *Cluster {
	t.Helper()
	server, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c, err := plan(dir, n, conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, node := range c.Nodes {
			node.Kill()
			if t.Failed() {
				t.Logf("%s:\n%s", node.Name, node.tail())
			}
			_ = node.log.Close()
		}
	})
	for _, node := range c.Nodes {
		node.args[0] = server
		node.args = append(node.args, flags...)
		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, node := range c.Nodes {
		if err := node.Await(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// plan chooses the ports of n nodes and writes their command lines.
func plan(dir string, n int, conf *tls.Config) (*Cluster, error) {
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	scheme := "http"
	if conf != nil {
		scheme = "https"
	}
	var peers []string
	for i := range n {
		node := &Node{
			Name:   fmt.Sprintf("etcd-%d", i),
			Client: fmt.Sprintf("%s://127.0.0.1:%d", scheme, ports[2*i]),
			tls:    conf,
			peer:   fmt.Sprintf("http://127.0.0.1:%d", ports[2*i+1]),
		}
		c.Nodes = append(c.Nodes, node)
		peers = append(peers, node.Name+"="+node.peer)
	}
	for _, node := range c.Nodes {
		if node.log, err = os.Create(filepath.Join(dir, node.Name+".log")); err != nil {
			return nil, fmt.Errorf("cannot start etcd: %w", err)
		}
		node.args = append([]string{""}, Flags(node.Name, filepath.Join(dir, node.Name), node.Client, node.peer, strings.Join(peers, ","))...)
	}
	return c, nil
}

// Flags are the flags of one server: its name, its directory, the addresses at
// which clients and peers reach it, and all nodes as NAME=PEER,…
func Flags(name, dir, client, peer, all string) []string {
	return []string{
		"--name", name, "--data-dir", dir,
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", all, "--initial-cluster-state", "new",
		"--logger", "zap", "--log-level", "warn",
		// The bounds of a test are those of a quiet network: a lost leader is replaced within a second or two.
		"--heartbeat-interval", "100", "--election-timeout", "1000",
	}
}

// freePorts finds ports that nobody listens on. They are held all at once, so that
// no two are the same.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("cannot find a port for etcd: %w", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// Endpoints are the addresses of all nodes, as a client takes them.
func (c *Cluster) Endpoints() []string {
	var all []string
	for _, node := range c.Nodes {
		all = append(all, node.Client)
	}
	return all
}

// Leader is the node that leads now.
func (c *Cluster) Leader(ctx context.Context) (*Node, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints()})
	if err != nil {
		return nil, fmt.Errorf("cannot ask who leads: %w", err)
	}
	defer client.Close()
	for _, node := range c.Nodes {
		status, err := client.Status(ctx, node.Client)
		if err == nil && status.Leader == status.Header.MemberId {
			return node, nil
		}
	}
	return nil, errors.New("no node leads")
}

// Start starts a node that does not run.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		return fmt.Errorf("cannot start %s: it runs", n.Name)
	}
	cmd := exec.Command(n.args[0], n.args[1:]...)
	cmd.Stdout, cmd.Stderr = n.log, n.log
	// A test that is killed leaves no server behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", n.Name, err)
	}
	ended := make(chan struct{})
	n.process, n.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(ended)
	}()
	return nil
}

// Await waits until a node answers a read that its leader confirms.
func (n *Node) Await(ctx context.Context) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{n.Client}, TLS: n.tls})
	if err != nil {
		return fmt.Errorf("cannot reach %s: %w", n.Name, err)
	}
	defer client.Close()
	for {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := client.Get(try, "nothing")
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || n.hasEnded() {
			return fmt.Errorf("%s does not answer: %w\n%s", n.Name, err, n.tail())
		}
		time.Sleep(50 * time.Millisecond) // between two looks at the condition
	}
}

func (n *Node) hasEnded() bool {
	n.mu.Lock()
	ended := n.ended
	n.mu.Unlock()
	if ended == nil {
		return true
	}
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// Pause stops the node's process where it is: it answers nobody, and its
// connections stay.
func (n *Node) Pause() error { return n.signal(unix.SIGSTOP) }

// Resume lets a paused node go on.
func (n *Node) Resume() error { return n.signal(unix.SIGCONT) }

func (n *Node) signal(s os.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return fmt.Errorf("cannot signal %s: it does not run", n.Name)
	}
	return n.process.Process.Signal(s)
}

// PID is that of the node's process; 0: it does not run.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return 0
	}
	return n.process.Process.Pid
}

// Kill ends the node's process by SIGKILL, and waits for its end.
func (n *Node) Kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return
	}
	_ = n.process.Process.Kill() // it may have ended
	<-n.ended
	n.process = nil
}

// tail is the end of what a node printed.
func (n *Node) tail() string {
	const most = 4000
	content, err := os.ReadFile(n.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-most):])
}

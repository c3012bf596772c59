package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"rlminit/fleet/test/cluster"
)

// label marks what a run makes in Docker: its value is the pid of the run.
const label = "rlminit.fleet.test"

// The rooms of the volumes. etcd keeps two segments of 64 MB for its log.
const (
	roomOfNode   = 256 << 20
	roomOfMember = 32 << 20
)

// World is a fleet in a Docker network.
type World struct {
	Nodes, Members []*Container
	Client         *clientv3.Client
	Recordings     string // the directory that all gateways write to
	Files          string // one that all members see as /exchange

	bucket  string // where the profiles' data are stored
	dir     string
	image   string
	network string
	undo    []func() error
}

// Spec says how large a fleet is to be.
type Spec struct {
	Nodes, Members int
	Lease          time.Duration
	NoDeadline     bool // the members have the build whose deadlines are off
}

// fleetName is the name of the fleet.
const fleetName = "nemesis"

// New builds the image, starts etcd and the members, and waits until etcd answers.
// What was begun is there to be removed also where an error is returned.
func New(ctx context.Context, dir string, spec Spec) (*World, error) {
	pid := strconv.Itoa(os.Getpid())
	w := &World{dir: dir, image: "rlminit-fleet-test:" + pid, network: "rlminit-fleet-" + pid}
	if err := w.build(spec); err != nil {
		return w, err
	}
	subnet, err := w.connect()
	if err != nil {
		return w, err
	}
	w.Recordings, w.Files, w.bucket = filepath.Join(dir, "recordings"), filepath.Join(dir, "exchange"), filepath.Join(dir, "bucket")
	for _, d := range []string{w.Recordings, w.Files, w.bucket} {
		err := os.Mkdir(d, 0o755)
		if err == nil {
			err = os.Chown(d, serviceUser, serviceUser)
		}
		if err != nil {
			return w, fmt.Errorf("cannot make a fleet: %w", err)
		}
	}
	if err := w.startNodes(spec, subnet, pid); err != nil {
		return w, err
	}
	if err := w.reach(ctx); err != nil {
		return w, err
	}
	if err := w.startMembers(spec, subnet, pid); err != nil {
		return w, err
	}
	return w, w.awaitMembers(ctx)
}

// awaitMembers waits until etcd knows all members. One whose container has ended never
// comes.
func (w *World) awaitMembers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for ; ; time.Sleep(100 * time.Millisecond) { // between two looks at the condition
		known, err := w.Client.Get(ctx, "/rlminit/"+fleetName+"/members/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return fmt.Errorf("not all members came up: %w", err)
		}
		if known.Count == int64(len(w.Members)) {
			return nil
		}
		for _, c := range w.Members {
			if _, err := c.pid(); err != nil {
				return fmt.Errorf("cannot start a member: %w", err)
			}
		}
	}
}

// connect makes the network, with the first subnet that is free.
func (w *World) connect() (subnet string, err error) {
	for third := range 250 {
		subnet = fmt.Sprintf("10.231.%d.", (os.Getpid()+third)%250)
		_, err = docker("network", "create", "--label", label+"="+strings.TrimPrefix(w.network, "rlminit-fleet-"), "--subnet", subnet+"0/24", w.network)
		if err == nil {
			w.undo = append(w.undo, func() error { _, err := docker("network", "rm", w.network); return err })
			return subnet, nil
		}
		if !strings.Contains(err.Error(), "overlap") {
			break
		}
	}
	return "", err
}

// startNodes starts etcd.
func (w *World) startNodes(spec Spec, subnet, pid string) error {
	var peers []string
	for i := range spec.Nodes {
		c := &Container{Name: fmt.Sprintf("etcd-%d", i), Address: fmt.Sprintf("%s%d", subnet, 10+i)}
		c.full = w.network + "-" + c.Name
		w.Nodes = append(w.Nodes, c)
		peers = append(peers, c.Name+"=http://"+c.Address+":2380")
	}
	for _, c := range w.Nodes {
		if err := w.mount(c, roomOfNode); err != nil {
			return err
		}
		flags := cluster.Flags(c.Name, "/data/etcd", "http://"+c.Address+":2379", "http://"+c.Address+":2380", strings.Join(peers, ","))
		args := append([]string{"--entrypoint", "/usr/local/bin/etcd", "-v", c.volume + ":/data", w.image}, flags...)
		if err := w.run(c, pid, args...); err != nil {
			return err
		}
	}
	return nil
}

// startMembers starts the boxes.
func (w *World) startMembers(spec Spec, subnet, pid string) error {
	for i := range spec.Members {
		c := &Container{Name: fmt.Sprintf("m%d", i), Address: fmt.Sprintf("%s%d", subnet, 100+i)}
		c.full = w.network + "-" + c.Name
		w.Members = append(w.Members, c)
		if err := w.mount(c, roomOfMember); err != nil {
			return err
		}
		if err := os.Chown(c.volume, serviceUser, serviceUser); err != nil {
			return fmt.Errorf("cannot make a fleet: %w", err)
		}
		etc := filepath.Join(w.dir, c.Name+".etc")
		if err := writeConfiguration(etc, c.Name, w.Endpoints(), spec); err != nil {
			return err
		}
		if err := w.run(c, pid, "--tmpfs", "/run", "-v", c.volume+":/data", "-v", etc+":/etc/rlminit:ro",
			"-v", w.Recordings+":/recordings", "-v", w.Files+":/exchange", "-v", w.bucket+":/bucket", "-e", "MEMBER="+c.Name, w.image); err != nil {
			return err
		}
	}
	return nil
}

// run starts a container with an address of its own.
func (w *World) run(c *Container, pid string, args ...string) error {
	w.undo = append(w.undo, func() error { _, err := docker("rm", "-f", "-v", c.full); return err })
	_, err := docker(append([]string{
		"run", "-d", "--name", c.full, "--hostname", c.Name, "--label", label + "=" + pid,
		"--network", w.network, "--ip", c.Address,
	}, args...)...)
	return err
}

// mount gives a container a volume of a size.
func (w *World) mount(c *Container, room int64) error {
	c.volume = filepath.Join(w.dir, c.Name)
	if err := os.Mkdir(c.volume, 0o755); err != nil {
		return fmt.Errorf("cannot make a volume: %w", err)
	}
	if err := unix.Mount("tmpfs", c.volume, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0755", room)); err != nil {
		return fmt.Errorf("cannot make a volume: %w", err)
	}
	w.undo = append(w.undo, func() error {
		if err := unix.Unmount(c.volume, 0); err != nil {
			return fmt.Errorf("cannot unmount %s: %w", c.volume, err)
		}
		return nil
	})
	return nil
}

// Endpoints are the addresses of etcd, from everywhere.
func (w *World) Endpoints() []string {
	var all []string
	for _, c := range w.Nodes {
		all = append(all, "http://"+c.Address+":2379")
	}
	return all
}

// reach connects to etcd and waits for its answer.
func (w *World) reach(ctx context.Context) (err error) {
	w.Client, err = clientv3.New(clientv3.Config{
		Endpoints: w.Endpoints(), Logger: zap.NewNop(),
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 2 * time.Second, // gRPC takes no less
	})
	if err != nil {
		return fmt.Errorf("cannot reach etcd: %w", err)
	}
	w.undo = append(w.undo, w.Client.Close)
	for ; ; time.Sleep(100 * time.Millisecond) { // between two looks at the condition
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := w.Client.Get(try, "nothing")
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// leader is the node that leads now.
func (w *World) leader() (*Container, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var errs []error
	for i, at := range w.Endpoints() {
		status, err := w.Client.Status(ctx, at)
		if err == nil && status.Leader == status.Header.MemberId {
			return w.Nodes[i], nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no node of etcd leads: %w", errors.Join(errs...))
}

// Logs is what a container printed.
func (c *Container) Logs() string {
	out, err := run("sh", "-c", "docker logs --timestamps --tail 200 "+c.full+" 2>&1")
	if err != nil {
		return err.Error()
	}
	return out
}

// Remove removes everything that was made, the last first.
func (w *World) Remove() error {
	var errs []error
	for len(w.undo) > 0 {
		last := len(w.undo) - 1
		errs = append(errs, w.undo[last]())
		w.undo = w.undo[:last]
	}
	return errors.Join(errs...)
}

package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// What Chaos counts.
type chaos struct {
	b      *box.Box
	second *box.Box // another container, which has the same volume when the first is not there
	home   string
	of     Trouble
	rooms  sync.RWMutex // held for writing by whoever ends PID 1

	acknowledged, refused, kills, boots, takeovers, fills, disks, freezes, failures, blinds atomic.Int64
}

// Trouble is what Chaos is made of.
type Trouble struct {
	Seed    uint64
	Lasts   time.Duration
	Clients int
	Each    int    // profiles of a client
	Home    string // the volume: small, for it is filled, and kept by nothing that a box ends with

	// Fail has the volume's disk fail for whatever is asked of it, as of now and with
	// nothing written that was not synced. Mend has it work again, when no box is
	// there. nil: there is no such disk here.
	Fail, Mend func() error
}

// Chaos commands profiles from several clients at once while the supervisor is
// killed and frozen, PID 1 is killed, /run and the volume are filled, the disk fails
// beneath both, the supervisor gets no inotify, and another container waits for the
// volume and takes it over. In the end what was
// acknowledged last of each profile is true of it: nothing is lost, nothing runs
// twice, and nothing is there by half. The seed names what the clients ask for, and what
// befalls the box; the rest is the machine's.
func Chaos(t *testing.T, start contract.New, of Trouble) {
	t.Logf("figure: chaos: seed %d", of.Seed)
	spec := box.Spec{Config: contract.Config(fmt.Sprintf("supervisor_user: \"%d:%d\"\n", chaosSupervisor.UID, chaosSupervisor.GID)), Env: []string{"RLMINIT_HOME=" + of.Home}}
	c := &chaos{b: start(t, spec), home: of.Home, of: of}
	c.small()
	c.second = start(t, spec)
	ctx, cancel := context.WithTimeout(t.Context(), of.Lasts)
	defer cancel()
	var all sync.WaitGroup
	truth := make([]map[string]string, of.Clients)
	for i := range of.Clients {
		truth[i] = map[string]string{}
		r := rand.New(rand.NewPCG(of.Seed, uint64(i)))
		all.Go(func() { c.client(ctx, r, fmt.Sprintf("c%d", i), of.Each, truth[i]) })
	}
	all.Go(func() { c.meddle(ctx, rand.New(rand.NewPCG(of.Seed, 1<<32))) })
	all.Wait()
	c.b.Shell(box.Root, "rm -f /run/filling "+c.home+"/filling")
	c.kill(c.second)
	c.b.AwaitReady()
	c.check(t, truth)
}

// chaosSupervisor is the supervisor of these boxes and of no other: what it is kept
// from, the kernel counts by user.
var chaosSupervisor = box.User{UID: 48888, GID: 48888}

// client commands its own profiles, one after the other. truth is what was
// acknowledged last: running, stopped or gone; "" where a command had no answer.
func (c *chaos) client(ctx context.Context, r *rand.Rand, prefix string, profiles int, truth map[string]string) {
	for ctx.Err() == nil {
		name := fmt.Sprintf("%s-%d", prefix, r.IntN(profiles))
		was, known := truth[name]
		var args []string
		next := ""
		switch luck := r.IntN(10); {
		case !known || was == "gone":
			args, next = []string{"profile", "create", name}, "running"
		case was == "" && luck < 5:
			args, next = []string{"profile", "delete", "--purge", name}, "gone"
		case luck < 2:
			args, next = []string{"profile", "delete", "--purge", name}, "gone"
		case luck < 5:
			args, next = []string{"stop", name}, "stopped"
		case luck < 8:
			args, next = []string{"start", name}, "running"
		default:
			args, next = []string{"restart", name}, "running"
		}
		c.rooms.RLock()
		result, err := c.b.Exec(box.Service, nil, append([]string{"rlminit"}, args...))
		c.rooms.RUnlock()
		switch {
		case err != nil:
			truth[name] = ""
		case result.Code == 0:
			c.acknowledged.Add(1)
			truth[name] = next
		case was == "" && result.Code == 4: // there is no such profile
			truth[name] = "gone"
		default:
			c.refused.Add(1)
			truth[name] = ""
		}
	}
}

// meddle is what befalls the box.
func (c *chaos) meddle(ctx context.Context, r *rand.Rand) {
	pause := func(most time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(r.Int64N(int64(most)))):
		}
	}
	supervisor := func(signal string) {
		c.b.As(box.Root, "pkill", "-"+signal, "-f", "^rlminit supervise|^/.*rlminit supervise")
	}
	for ctx.Err() == nil {
		pause(600 * time.Millisecond)
		switch luck := r.IntN(29); {
		case luck < 11:
			supervisor("KILL")
			c.kills.Add(1)
		case luck < 13:
			supervisor("STOP")
			pause(300 * time.Millisecond)
			supervisor("CONT")
			c.freezes.Add(1)
		case luck < 14:
			supervisor("USR1")
		case luck < 17:
			c.fill("/run/filling", pause)
			c.fills.Add(1)
		case luck < 19:
			c.fill(c.home+"/filling", pause)
			c.disks.Add(1)
		case luck < 21:
			c.kill(c.second)
			c.begin(c.second)
		case luck < 24:
			c.blind(pause)
			c.blinds.Add(1)
		case luck < 26 && c.of.Fail != nil:
			c.fail(pause)
			c.failures.Add(1)
		default:
			c.reboot(r.IntN(2) == 0)
		}
	}
}

// fill leaves no room in a file system for a while.
func (c *chaos) fill(file string, pause func(time.Duration)) {
	c.b.As(box.Root, "dd", "if=/dev/zero", "of="+file, "bs=4k")
	pause(2 * time.Second)
	c.b.As(box.Root, "rm", "-f", file)
}

// blind uses up what the supervisor's user may have of inotify for a while, in which
// a successor has to begin without.
func (c *chaos) blind(pause func(time.Duration)) {
	const hog = "nasty hog inotify"
	c.b.As(chaosSupervisor, "bash", "-c", hog+" >/dev/null 2>&1 </dev/null &")
	c.b.As(box.Root, "pkill", "-KILL", "-f", "rlminit supervise$")
	pause(2 * time.Second)
	c.b.As(box.Root, "pkill", "-KILL", "-f", "^"+hog)
}

// fail has the disk fail beneath both containers, and work again for those that are
// started afterwards. Clients go on meanwhile: what is acknowledged is on the disk.
func (c *chaos) fail(pause func(time.Duration)) {
	if err := c.of.Fail(); err != nil {
		c.b.Errorf("%v", err)
		return
	}
	pause(2 * time.Second)
	c.kill(c.b)
	c.rooms.Lock()
	defer c.rooms.Unlock()
	c.kill(c.second)
	if err := c.of.Mend(); err != nil {
		c.b.Errorf("%v", err)
	}
	c.begin(c.b)
	c.b.AwaitReady()
	c.small()
	c.begin(c.second)
}

// small makes of /run what it is in many containers.
func (c *chaos) small() { c.b.As(box.Root, "mount", "-o", "remount,size=4m", "/run") }

// kill ends a container as the machine's end does.
func (c *chaos) kill(b *box.Box) {
	if err := b.Signal(9); err != nil {
		c.b.Errorf("%v", err)
	}
	if _, err := b.Ended(20 * time.Second); err != nil {
		c.b.Errorf("%v", err)
	}
}

func (c *chaos) begin(b *box.Box) {
	if err := b.Start(); err != nil {
		c.b.Errorf("%v", err)
	}
}

// reboot kills PID 1, and starts the box again, perhaps after the second one has
// taken the volume over and was killed in its turn. A client that is in the middle
// of a command gets no answer.
func (c *chaos) reboot(takeover bool) {
	c.kill(c.b)
	c.rooms.Lock() // clients go on when there is a box
	defer c.rooms.Unlock()
	if takeover {
		box.Eventually(c.b, 30*time.Second, "another container has the volume", func() (bool, any) {
			r, err := c.second.Exec(box.Service, nil, []string{"rlminit", "health", "--level", "ready"})
			return err == nil && r.Code == 0, fmt.Sprint(r, err)
		})
		c.takeovers.Add(1)
	}
	c.kill(c.second)
	c.begin(c.b)
	c.b.AwaitReady()
	c.small()
	c.begin(c.second)
	c.boots.Add(1)
}

// check holds what there is against what was acknowledged.
func (c *chaos) check(t *testing.T, truth []map[string]string) {
	t.Helper()
	var lost, doubled, half []string
	certain := 0
	settled := func() (bool, any) {
		lost, doubled, half, certain = nil, nil, nil, 0
		status := c.b.Status()
		processes := map[string]int{}
		for _, p := range c.b.Processes() {
			if i := slices.Index(p.Args, "--profile"); i > 0 && i+1 < len(p.Args) && path.Base(p.Args[0]) == "gateway" {
				processes[p.Args[i+1]]++
			}
		}
		there := map[string]bool{}
		for name := range strings.FieldsSeq(c.b.Shell(box.Root, "ls -A "+path.Join(c.home, "profiles"))) {
			there[name] = true
		}
		for _, of := range truth {
			for name, want := range of {
				s, known := status["gateway-"+name]
				n := processes[name]
				if n > 1 {
					doubled = append(doubled, fmt.Sprintf("%s has %d processes", name, n))
				}
				if there[name] != known || !known && n > 0 {
					half = append(half, fmt.Sprintf("%s: a directory %v, a service %v, %d processes", name, there[name], known, n))
				}
				if want == "" {
					continue
				}
				certain++
				is := "gone"
				if known {
					is = string(s.Desired)
				}
				if is != want || want == "running" && (s.State != "running" || n != 1) || want != "running" && n != 0 {
					lost = append(lost, fmt.Sprintf("%s is to be %s: %s, %d processes", name, want, box.Describe(s), n))
				}
			}
		}
		return len(lost)+len(doubled)+len(half) == 0, [][]string{lost, doubled, half}
	}
	defer func() {
		t.Logf("figure: chaos: %d commands acknowledged, %d refused or unanswered; %d kills and %d freezes of the supervisor, %d kills of PID 1, after %d of which another container took over, %d times a full /run and %d a full volume, %d times a disk that failed and %d no inotify; of %d profiles: lost %d, doubled %d, half-made %d",
			c.acknowledged.Load(), c.refused.Load(), c.kills.Load(), c.freezes.Load(), c.boots.Load(), c.takeovers.Load(), c.fills.Load(), c.disks.Load(), c.failures.Load(), c.blinds.Load(), certain, len(lost), len(doubled), len(half))
	}()
	box.Eventually(c.b, 30*time.Second, "what was acknowledged is true", settled)
	if r := c.b.As(box.Root, "rlminit", "journal", "verify"); r.Code != 0 {
		c.b.Errorf("the journal: %s", r)
	}
	for _, of := range truth {
		for name, want := range of {
			if want != "gone" { // whatever it is: it can be commanded
				c.b.Run("start", name)
			}
		}
	}
	if c.kills.Load() == 0 || c.acknowledged.Load() == 0 {
		t.Error("nothing happened")
	}
}

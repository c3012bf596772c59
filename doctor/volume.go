package doctor

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The file systems that are told apart, by their magic of statfs(2).
var fileSystems = map[int64]string{
	unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.EXT4_SUPER_MAGIC: "ext4",
	unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.NFS_SUPER_MAGIC: "NFS",
	unix.SMB_SUPER_MAGIC: "SMB", 0xfe534d42: "SMB", unix.V9FS_MAGIC: "9p", unix.FUSE_SUPER_MAGIC: "FUSE",
	0x2fc12fc1: "ZFS", unix.F2FS_SUPER_MAGIC: "f2fs", 0x00c36400: "Ceph", 0x6a656a63: "virtiofs",
}

func fsName(magic int64) string {
	if name := fileSystems[magic]; name != "" {
		return name
	}
	return fmt.Sprintf("a file system of type %#x", magic)
}

// slow is from where on a person notices that a command waits for the volume.
const slow = 100 * time.Millisecond

func (e *examination) volume() {
	if e.Home == "" {
		return
	}
	if e.Missing != "" {
		e.add("volume", Fail, e.Missing, "mend that; docker logs CONTAINER has what was met, and docker restart has everything looked at anew")
	}
	st, err := e.kernel.Statfs(e.Home)
	if err != nil {
		e.add("volume", Fail, fmt.Sprintf("cannot look at %s: %v", e.Home, errno(err)), "mount the volume: docker run -v NAME:"+e.Home)
		return
	}
	name := fsName(st.Type)
	if st.Flags&unix.ST_RDONLY != 0 {
		e.add("volume", Fail, e.Home+" is read-only: intents and logs cannot be kept", "mount it without :ro")
		return
	}
	mount := e.mountOf(e.Home)
	switch {
	case mount == "/" || name == "overlay":
		e.add("volume", Warn, e.Home+" is in the container's own layer: it is lost with the container", "docker run -v NAME:"+e.Home)
	case name == "tmpfs":
		e.add("volume", Warn, e.Home+" is on tmpfs: it is lost with the container, and takes its memory", "docker run -v NAME:"+e.Home)
	case name == "NFS" || name == "SMB" || name == "9p" || name == "FUSE" || name == "Ceph" || name == "virtiofs":
		e.add("volume", Warn, e.Home+" is on "+name+": whether its locks reach other machines depends on the server; a second container may start beside this one for as long as a heartbeat lasts",
			"give each volume to one machine at a time")
	default:
		e.add("volume", OK, e.Home+" is on "+name+", mounted at "+mount, "")
	}
	e.room(st)
	switch took, err := e.kernel.FsyncTime(e.Home); {
	case errors.Is(err, errSlow):
		e.add("volume", Fail, e.Home+" does not make a page durable within 3 s: commands wait for it", "look at what else uses that disk, on the host: iostat -x")
	case errors.Is(err, unix.EIO) || errors.Is(err, unix.EROFS):
		e.add("volume", Fail, fmt.Sprintf("%s cannot be written: %v", e.Home, errno(err)), "look at the disk, on the host: dmesg; intents and logs cannot be kept")
	case err != nil: // no right to write there, or no files without names
	case took > slow:
		e.add("volume", Warn, fmt.Sprintf("%s takes %d ms to make a page durable: each command waits that long", e.Home, took.Milliseconds()), "look at what else uses that disk, on the host: iostat -x")
	default:
		e.add("volume", OK, fmt.Sprintf("%s makes a page durable within %s", e.Home, took.Round(10*time.Microsecond)), "")
	}
}

// room is what is left on the volume.
func (e *examination) room(st unix.Statfs_t) {
	free := int64(st.Bavail) * st.Bsize
	switch {
	case free < 16<<20:
		e.add("volume", Fail, fmt.Sprintf("%s has %s free: intents and logs cannot be kept much longer", e.Home, bytesText(free, 0)), "make room: rlminit profile purge --older-than 30d, rlminit profile delete --purge, or a larger volume")
	case st.Blocks > 0 && st.Bavail < st.Blocks/20:
		e.add("volume", Warn, fmt.Sprintf("%s has %s free, %d %%", e.Home, bytesText(free, 0), st.Bavail*100/st.Blocks), "make room, as with rlminit profile purge --older-than 30d, or use a larger volume")
	default:
		e.add("volume", OK, fmt.Sprintf("%s has %s free", e.Home, bytesText(free, 0)), "")
	}
	if st.Files > 0 && st.Ffree < st.Files/50 {
		e.add("volume", Warn, fmt.Sprintf("%s has %d of %d inodes left", e.Home, st.Ffree, st.Files), "remove small files, or make the file system anew with more inodes")
	}
}

// mountOf returns the mount point that a path is below.
func (e *examination) mountOf(path string) string {
	best := "/"
	for line := range strings.Lines(e.read("/proc/self/mountinfo")) {
		words := strings.Fields(line)
		if len(words) < 5 {
			continue
		}
		at := unescapeMount(words[4])
		if (path == at || strings.HasPrefix(path, strings.TrimSuffix(at, "/")+"/")) && len(at) >= len(best) {
			best = at
		}
	}
	return best
}

// unescapeMount undoes what proc_pid_mountinfo(5) does to blanks.
func unescapeMount(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

func errno(err error) error {
	var number unix.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}

func (e *examination) clock() {
	// Before this was written no clock that is right can be.
	earliest := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if now := e.kernel.Now(); now.Before(earliest) {
		e.add("clock", Fail, "the clock says "+now.UTC().Format(time.DateTime)+": logs, events and schedules go by it", "set the host's clock")
		return
	}
	switch right, err := e.kernel.Synchronised(); {
	case err != nil:
		e.add("clock", Unknown, "cannot ask whether the clock is synchronised: "+errno(err).Error(), "")
	case !right:
		e.add("clock", Warn, "nobody keeps the host's clock right: times of logs, events and schedules may be wrong, and jump", "run chrony or systemd-timesyncd on the host")
	default:
		e.add("clock", OK, "the host's clock is synchronised", "")
	}
}

// ports of services: taken by others, or such as the kernel gives to anybody.
func (e *examination) ports() {
	listening := e.listening()
	var low, high int
	fmt.Sscanf(e.read("/proc/sys/net/ipv4/ip_local_port_range"), "%d %d", &low, &high)
	have, bad := 0, 0
	for _, s := range e.Services {
		if s.Port == 0 {
			continue
		}
		have++
		if listening[s.Port] && s.State != "running" && s.State != "starting" && s.State != "stopping" {
			bad++
			e.add("ports", Warn, fmt.Sprintf("something listens on port %d, which is %s's, while that is %s", s.Port, s.Name, s.State),
				fmt.Sprintf("find it on the host: ss -ltnp 'sport = :%d'", s.Port))
		}
		if low > 0 && s.Port >= low && s.Port <= high {
			bad++
			e.add("ports", Warn, fmt.Sprintf("port %d of %s is one that the kernel gives to outgoing connections (%d to %d): it may be taken when %s starts", s.Port, s.Name, low, high, s.Name),
				"choose gateway.ports below "+strconv.Itoa(low))
		}
	}
	if have > 0 && bad == 0 {
		e.add("ports", OK, fmt.Sprintf("%d services have a port each, and none is taken", have), "")
	}
}

// listening are the TCP ports on which somebody listens, proc_pid_net(5).
func (e *examination) listening() map[int]bool {
	const listen = "0A"
	ports := map[int]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		for line := range strings.Lines(e.read(filepath.Join("/proc/net", table))) {
			words := strings.Fields(line)
			if len(words) < 4 || words[3] != listen {
				continue
			}
			_, port, _ := strings.Cut(words[1], ":")
			if n, err := strconv.ParseInt(port, 16, 32); err == nil {
				ports[int(n)] = true
			}
		}
	}
	return ports
}

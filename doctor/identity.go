package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rlminit/usage"
)

// identity: who the supervisor is, and what of it the services cannot touch: its
// process, its records on the volume, and what it publishes. Each may fail alone.
func (e *examination) identity() {
	services, _, _ := strings.Cut(e.read(filepath.Join(e.Runtime, "user")), ":")
	supervisor := e.supervisor()
	if services == "" || supervisor == "" {
		return // it is not running, which is said elsewhere
	}
	if supervisor == services {
		remedy := "docker logs CONTAINER says why: for most places, docker run --cap-add CHOWN --cap-add DAC_OVERRIDE, or --pids-limit 40 or more"
		if strings.Fields(e.status["Uid"] + " ?")[0] != "0" {
			remedy = "leave out docker run --user: then rlminit starts services as that user itself"
		}
		e.add("identity", Warn, "the supervisor has the uid of the services, "+services+": one of them can stop it and forge its records", remedy)
		return
	}
	const remedy = "give the container CAP_CHOWN, and a volume whose file system heeds owners; docker logs CONTAINER says more"
	whole := true
	lacks := func(what string) {
		whole = false
		e.add("identity", Warn, what, remedy)
	}
	records := filepath.Join(e.Home, ".rlminit")
	owner := func(path string) string {
		uid, err := e.kernel.Owner(path)
		if err != nil {
			return "" // there is none, or none for us to see
		}
		return strconv.FormatUint(uint64(uid), 10)
	}
	switch {
	case owner(records) == "":
	case owner(records) != supervisor:
		lacks(fmt.Sprintf("%s belongs to uid %s, who can forge the supervisor's records", records, owner(records)))
	case owner(e.Home) == services:
		lacks(fmt.Sprintf("%s belongs to the services, uid %s, who can move the supervisor's records away", e.Home, services))
	}
	if published := filepath.Join(e.Runtime, "services"); owner(published) != "" && owner(published) != supervisor {
		lacks(fmt.Sprintf("%s belongs to uid %s, who can change what services there are", published, owner(published)))
	}
	if logs := filepath.Join(e.Home, "logs"); owner(e.Home) == "0" && e.gone(logs) {
		// The supervisor may not make it in a directory of root's.
		e.add("logs", Fail, logs+" is missing: what services write is not kept", "docker restart CONTAINER makes it again, with its rights")
	}
	if whole {
		e.add("identity", OK, fmt.Sprintf("the supervisor is uid %s, services are uid %s: none can touch it, its records, or what it publishes", supervisor, services), "")
	}
}

// gone tells whether nothing lies at a path.
func (e *examination) gone(path string) bool {
	_, err := e.kernel.Owner(path)
	return errors.Is(err, fs.ErrNotExist)
}

// supervisor is the real uid of the one that PID 1 has, "" for none.
func (e *examination) supervisor() string {
	proc := filepath.Join("/", e.Root, "/proc")
	entries, err := os.ReadDir(proc)
	if err != nil {
		return ""
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !strings.HasPrefix(e.read("/proc/"+entry.Name()+"/cmdline"), "rlminit\x00supervise") {
			continue
		}
		if status := usage.Status(proc, pid); status["PPid"] == "1" {
			return strings.Fields(status["Uid"] + " ?")[0]
		}
	}
	return ""
}

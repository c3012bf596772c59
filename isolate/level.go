package isolate

// Level is how much stands between a service and the others.
type Level string

// The levels, each with all that the one before it has.
const (
	None    Level = "none"    // what its user may
	Profile Level = "profile" // its own directory and the image; no signal or trace out
	Strict  Level = "strict"  // seccomp's denials; TCP by port lists alone
)

// Above tells whether l holds back more than other does.
func (l Level) Above(other Level) bool { return l.rank() > other.rank() }

func (l Level) rank() int {
	switch l {
	case Profile:
		return 1
	case Strict:
		return 2
	}
	return 0
}

// Ports are TCP ports: a list of ranges, or any. The zero value is none.
type Ports struct {
	Any    bool
	Ranges []Range
}

// Range is a range of ports, both ends included. Port 0 is the kernel's choice,
// of bind(2).
type Range struct {
	Low, High int
}

// MaxPorts is the most ports that the lists of one service may name: the kernel
// has a rule for each.
const MaxPorts = 4096

// Count is how many ports the ranges name.
func (p Ports) Count() int {
	n := 0
	for _, r := range p.Ranges {
		n += r.High - r.Low + 1
	}
	return n
}

// Within tells whether every port of p is one of other.
func (p Ports) Within(other Ports) bool {
	if other.Any {
		return true
	}
	if p.Any {
		return false
	}
	for _, r := range p.Ranges {
		for port := r.Low; port <= r.High; port++ {
			if !other.has(port) {
				return false
			}
		}
	}
	return true
}

func (p Ports) has(port int) bool {
	for _, r := range p.Ranges {
		if r.Low <= port && port <= r.High {
			return true
		}
	}
	return p.Any
}

// Rules are what one service may do beyond what every isolated one may. Paths
// are absolute.
type Rules struct {
	Level Level
	Own   []string // directories that are its own: everything in them
	Read  []string // may be read
	Write []string // may be read and written, and sockets there spoken to
	Exec  []string // may be read and executed
	Speak []string // sockets that may be spoken to; before ABI 9 all may

	Connect, Bind Ports

	// Open opens a path for its rule (O_PATH), following links or none, as somebody
	// who may go there; nil: as ourselves.
	Open func(path string, links bool) (fd int, err error) `json:"-"`
}

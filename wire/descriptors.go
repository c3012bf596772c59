package wire

// Descriptors that tier 1 gives to what it executes of itself.
const (
	// To `rlminit supervise`.
	LinkFD    = 3 // the SOCK_SEQPACKET pair
	ControlFD = 4 // the listening control socket
	BundleFD  = 5 // memfd: the configuration
	PolicyFD  = 6 // memfd: Policy

	// To `rlminit compile`, which fills them, and to the readers of what it has.
	CompiledPolicyFD = 3
	CompiledBundleFD = 4
	EnclosureFD      = 5 // a ruleset, where the kernel has Landlock
	PreparedBundleFD = 3
	PreparedPolicyFD = 4
	PreparedStepsFD  = 5 // to be filled by NoteBootStep; of the second part, the environments
)

// RuntimeDir is where rlminit keeps its socket and its published state, unless
// another place was given, or it cannot be had.
const RuntimeDir = "/run/rlminit"

// DefaultPath is PATH where the container has none, as in Docker's images.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

package sys

// bound is a limit below which Go's runtime does not start, but ends with a trace. The figures
// were measured: with them all programs of rlminit start.
type bound struct {
	resource, least uint64 // of getrlimit(2); bytes
	text            string // what is said
}

// least are the limits that entry looks at. A program with a data segment, or an address
// space, that is too small for its own variables (36 and 51 MB) is ended by the kernel before
// it comes to that.
var least = [3]bound{
	{2, 76_000_000, "rlminit: cannot start: RLIMIT_DATA is below 76000000 bytes; docker run --ulimit data=200000000 or more\n"},
	{9, 770_000_000, "rlminit: cannot start: RLIMIT_AS is below 770000000 bytes; run it with ulimit -v 4000000 or more\n"},
	{3, 32 << 10, "rlminit: cannot start: RLIMIT_STACK is below 32768 bytes; docker run --ulimit stack=8388608\n"},
}

// The paths that entry opens.
var (
	nullPath = [...]byte{'/', 'd', 'e', 'v', '/', 'n', 'u', 'l', 'l', 0}
	rootPath = [...]byte{'/', 0}
)

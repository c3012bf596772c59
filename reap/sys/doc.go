// Package sys is what tier 1 needs of the kernel that Go's own packages do not
// give: a vfork whose child does everything by raw system calls, and signals
// that are recorded in descriptors without a goroutine or a thread.
//
// It imports nothing but unsafe, and that is on purpose. Packages are
// initialised in the order of their paths as far as imports allow, so this one
// comes before syscall, which raises RLIMIT_NOFILE, and before net/http, yaml
// and the rest of the binary. It can thus see what PID 1 was given, and package
// pure can be done before the others have begun.
package sys

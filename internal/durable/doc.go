// Package durable reads and writes files below a directory that others may
// write, so that a power cut leaves the old content or the new one, and so that
// nothing put there leads outside.
//
// A Dir is a descriptor. Every path given to its methods is relative to it,
// slash-separated, without "." and "..", and is resolved without following a
// symbolic link in any component (openat2(2), RESOLVE_BENEATH and
// RESOLVE_NO_SYMLINKS; component by component with O_NOFOLLOW where a seccomp
// filter refuses openat2). Reads are bounded and take regular files only: a
// FIFO, a device or a file of any size costs neither time nor memory.
//
// What Dir can be asked for is carried out here, or by a process with other
// rights (helper.go). resolve.go has the way to a name, disk.go what puts one in
// the place of another; copy.go, remove.go and own.go each walk a tree.
//
// The package holds no state but its descriptors, and never runs anything.
// What it leaves behind when it is killed are entries whose name IsTemp knows;
// CleanTemps removes them.
package durable

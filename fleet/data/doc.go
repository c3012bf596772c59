// Package data keeps what lies in a profile's directory in a bucket, so that the
// profile finds it on whichever member it runs next.
//
// A save writes one object, the whole directory, and then its manifest. Neither is
// ever written again:
//
//	NAME/CLUSTER/FENCE/SEQ-RANDOM.tar.zst   the archive
//	NAME/CLUSTER/FENCE/SEQ-RANDOM.json      its manifest
//
// What is current is not decided here: the caller puts the manifest into etcd, in a
// transaction that compares the claim's create revision, and a restore takes that
// manifest alone. So an object that was begun and not finished, or written by a member
// that has lost its claim, is never restored. Collect drops it later.
//
// The archive is that of `rlminit profile export` (package profiles/archive), compressed
// with zstd. The caller must be the user that owns the directory. That is so for an agent
// which is an ordinary service of the box, and for profiles without a user of their own.
//
// Why the archive of export, and no format of its own: import reads it, it refuses what
// an enemy could put into a tar, and one reader is enough to get right. What it leaves
// out, so does a save: owners (all below a profile's directory is its user's), extended
// attributes, second names of a file (each becomes a file), holes, the log, what jobs
// keep, sockets, pipes, devices, and links that lead out of the directory. Modes,
// times and links are kept; an owner can always read and write what is restored.
//
// A digest over the archive is in the manifest. Restore holds the end of the archive
// back until the digest was right, and an archive without its end is refused.
//
// Memory is bounded and does not grow with the data: measured with 1 GB, a process had at
// most 36 MB with a bucket in a directory and 117 MB with one of S3, whose client holds
// parts of 16 MB. A save of a directory needs 50 bytes for each file besides. An object of
// S3 may have 160 GB when it is compressed (10,000 parts).
//
// The package never talks to etcd, starts nothing and holds no state but the bucket. One
// caller at a time may restore into a directory.
package data

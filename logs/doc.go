// Package logs is the log path of tier 2: from the pipes that services write
// to, into their `current` files, and back out to those who read.
//
// A service has a slot: a pipe for stdout and one for stderr, which outlive
// its processes and, held by tier 1 under "log/NAME", also this process. One
// goroutine, the collector, owns all slots and is the only reader of the pipes
// and the only writer of the files.
//
// # No byte lost, doubled or torn
//
// This process may be killed at any instant. What has left a pipe must then be
// somewhere that survives, and the successor must know how far it got. One
// memfd does both (arena.go); tier 1 holds it under "log".
//
// Bytes leave a pipe by splice(2) into the memfd's stage, without a file
// offset: the kernel moves the bytes and advances the position of the open file
// description in one system call that a signal can shorten, but not tear. The
// description is shared with tier 1, so its position survives, and position
// minus `base` is what has not been dealt with.
//
// Where a place refuses splice(2), the pipe is read into the mapped stage: the record says
// beforehand how many bytes are to come, and the stage has a pattern there, by which a
// successor sees whether they came (kernel.Receiver).
//
// Bytes in the stage are dealt with in segments (segment.go). The record at the
// memfd's start tells what is under way:
//
//	idle       nothing of the segment has been done
//	appending  the output is being appended to the file (device, inode) whose
//	           size was off before
//	applying   the output is where it belongs; the results in the record (length
//	           of the unfinished line, new base, …) are being put into force
//
// A segment's output follows from stage, unfinished line and the time in the
// record, so a successor that finds `appending` makes it again, compares it
// with what the file holds from off, and appends the rest; `applying` is done
// over, which changes nothing where it was done already.
//
// # What a file holds
//
// A line is the time it was read at, a stream mark, and the text:
//
//	2026-05-24T18:05:33.123456Z out listening on 9471
//	2026-05-24T18:05:33.124112Z err+ no newline ended this
//	2026-05-24T18:05:35.000871Z --- exited with status 1
//
// The stream is out, err, or --- for rlminit itself. A plus says that the
// newline is rlminit's: the line was longer than MaxLine, or its writer ended
// without one; the next line of that stream goes on where this one stopped.
// Everything else stands as it was written, NUL and invalid UTF-8 included.
// Without timestamps a file holds the bytes of both streams as they came, and
// nothing of rlminit's.
//
// # What is masked
//
// With Config.Redact each line is masked when it is made of the stage, so that file, tee,
// queue and readers have it masked; unfinished lines in the arena are not, which is memory.
// Masking follows from the line and the patterns alone. The record has the patterns too: a
// successor makes a segment's output again with those that it was begun with, whatever its
// own configuration says, and what it takes from the pipes itself with its own. So a line
// is masked by the one set or the other, and is there once. What internal/redact has by
// name is as much a part of that: where it comes to mask otherwise, arenaVersion changes.
//
// Without timestamps, lines are held until they are whole, as with them. A line that is too
// long is cut where no secret is (redact.Lines.Cut): what is left of it stays the unfinished
// line, whose end moves to its beginning. Patterns of one's own are matched against 64 KiB
// at most, a service that has some is read so much at a time, and the matches of a line are
// bounded (redact.Lines.most): a costly pattern keeps nobody else waiting for long.
//
// # Marks that wait for a file
//
// A mark that would make the slot's file waits in memory, in the order in which marks
// came, and has the time at which it was made (marks.go):
//
//	output, the end of a run, Close   written before that
//	a reader                          written then
//	no other mark for 100 ms, or 2 s  written then
//	somebody follows a log            no mark waits
//	the disk is late or full          no mark waits: it goes to the queue
//	this process dies                 lost; what follows is whole
//
// TestDeathAtEveryStep has marks among what it writes, and
// TestDeathAtEveryStepWhileMasking collectors with other patterns, one after the other.
//
// # Its parts
//
// Each is a type with fields of its own, and only the collector's goroutine reaches
// those that are not said to have a lock: inbox is the way in, roll which slots there
// are, poller and pace how pipes are waited for, memory what the arena keeps of each
// slot, composer makes lines of what is staged, disk calls what may never answer,
// package tee has the container's stdout, packer compresses, bells wake those who follow.
// feed.go reads for package forward, which sends lines on.
// What is left to Collector is what makes one of them: bytes leave a pipe, become
// lines, and go to the file or, where that is not to be had, to the queue.
//
// # What it never does
//
// It never waits for a pipe's end (a grandchild may hold it), never blocks a
// service because a disk is slow or full, and never removes a file that it did
// not name.
package logs

// Package forward sends what is logged on to where people collect it: each line of a
// service's log goes to a destination, as JSON or as syslog has it.
//
// Nothing here is in the way of a service. The collector writes the files, as it does
// without; what is sent is read from them, by somebody who may be as late as the rotated
// files reach back. The collector only rings: a flag, and a word to the destination's
// goroutine where that does not know yet. Where nothing is written, nobody wakes.
//
// # Who owns what
//
//	Forwarder     which log goes where, and the cursors on the volume (store.go)
//	destination   a goroutine: who has lines for it, its connection, what of that the
//	              receiver does not have for sure yet (flow.go)
//	member        a log, which one destination has at a time, and nobody else touches then
//	link          a connection; one goroutine at a time writes to it, for as long as the
//	              receiver makes it wait
//
// A destination reads 64 KiB of lines, from one log after the other, and sends them; it
// has no more in memory. Of many logs it opens each for as long as it reads there.
//
// # No line is lost, and each has its number
//
// A cursor is a place between two lines of a log and the number of the next one. Numbers
// grow by one with each line; the first is the time at which a log was first looked at, in
// µs. A cursor names its file, by inode and first bytes, and is written before the first line
// of a log is sent. A file's first line has its number noted before it is sent, so that a line that
// is sent again has its old number, also where rotation has removed the place of a cursor. A
// file without a note was not begun: numbers go on at the present time in µs, and
// so no two lines have one number, even if cursors were lost.
//
// A cursor moves over what the receiver's kernel has taken (SIOCOUTQ, tcp(7), unix(7)), and
// no sooner than a second after it was sent: a receiver that is killed loses what it had not
// read. It is written to the volume within another second. So:
//
//	the receiver is killed, or goes     what was sent in the last two seconds is sent again
//	this process is killed              the same, and what was sent since the cursor was written
//	the receiver does not read          it is waited for; the socket's buffer is all that it holds up;
//	                                    after a minute it is named
//	the receiver resets connections     it is tried again once a second, and named
//	the machine's power is cut          the same as of this process, from an older cursor;
//	                                    a file that is shorter than the cursor says, or
//	                                    comes after one that is gone, is sent again with
//	                                    new numbers
//	a rotation removes what was not     it is counted, by reading ahead, and said; the numbers
//	sent yet                            of what follows leave room for what is missing
//	there is no volume                  the cursor is in memory, as the log is
//
// What a receiver's kernel took more than a second ago, and its process had not read when it
// was killed, is lost over TCP; with a unix socket it is seen and sent again.
package forward

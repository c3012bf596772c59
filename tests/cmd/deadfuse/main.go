// Command deadfuse mounts a FUSE file system that answers INIT and then never
// again, so that whoever looks into it waits in the kernel, uninterruptible
// but by a kill. It prints "mounted" and waits for standard input to end.
//
// It needs /dev/fuse and CAP_SYS_ADMIN.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// What is used of linux/fuse.h.
const (
	opInit        = 26
	major         = 7
	minor         = 31
	inHeaderSize  = 40
	outHeaderSize = 16
	initOutSize   = 64
	bufferSize    = 1 << 17 // at least 8 kB and the longest write
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: deadfuse DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "deadfuse:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot open /dev/fuse: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device)
	if err := unix.Mount("deadfuse", dir, "fuse.deadfuse", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		return fmt.Errorf("cannot mount on %s: %w", dir, err)
	}
	if err := answerInit(device); err != nil {
		return err
	}
	fmt.Println("mounted")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	// Closing the device aborts the connection: all who wait get ENOTCONN.
	if err := unix.Close(device); err != nil {
		return err
	}
	return unix.Unmount(dir, unix.MNT_DETACH)
}

// answerInit reads the kernel's first request and accepts its terms.
func answerInit(device int) error {
	request := make([]byte, bufferSize)
	n, err := unix.Read(device, request)
	if err != nil {
		return fmt.Errorf("cannot read from /dev/fuse: %w", err)
	}
	order := binary.NativeEndian
	if n < inHeaderSize || order.Uint32(request[4:]) != opInit {
		return fmt.Errorf("the first request has %d bytes and is not INIT", n)
	}
	answer := make([]byte, outHeaderSize+initOutSize)
	order.PutUint32(answer[0:], uint32(len(answer)))
	copy(answer[8:16], request[8:16]) // the request's id
	body := answer[outHeaderSize:]
	order.PutUint32(body[0:], major)
	order.PutUint32(body[4:], minor)
	order.PutUint32(body[20:], 4096) // max_write
	if _, err := unix.Write(device, answer); err != nil {
		return fmt.Errorf("cannot answer INIT: %w", err)
	}
	return nil
}

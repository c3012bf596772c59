package notify

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// scmMaxFD is SCM_MAX_FD of the kernel: no message brings more descriptors. The
// buffer holds them all, so that none is lost track of.
const scmMaxFD = 253

// Receive reads messages and gives them to handler, one at a time and in order,
// until Close; then it returns nil. It has one caller at a time. While handler
// runs, the socket's queue fills and senders wait: a service that floods slows
// down itself.
func (s *Socket) Receive(handler func(*Message)) error {
	text := make([]byte, maxDatagram+1)
	control := make([]byte, unix.CmsgSpace(scmMaxFD*4)+unix.CmsgSpace(unix.SizeofUcred))
	for {
		n, cn, flags, _, err := s.conn.ReadMsgUnix(text, control)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		m := decode(text[:n], control[:cn], flags)
		handler(&m)
		m.close()
	}
}

// decode makes a Message of what recvmsg(2) gave. Every descriptor in control is
// in the Message when it returns, or closed.
func decode(text, control []byte, flags int) Message {
	files, cred, err := unpack(control)
	var m Message
	switch {
	case flags&unix.MSG_TRUNC != 0 || len(text) > maxDatagram:
		m.fault("a message of more than %d bytes", maxDatagram)
	case flags&unix.MSG_CTRUNC != 0:
		m.fault("descriptors were lost: too many are open")
	case err != nil:
		m.fault("its control data are malformed")
	case len(files) > MaxFiles:
		m.fault("a message with more than %d descriptors", MaxFiles)
	default:
		m = Parse(text)
		m.attach(files)
		files = nil
	}
	for _, f := range files {
		_ = f.Close()
	}
	if cred != nil {
		m.PID, m.UID = int(cred.Pid), cred.Uid
	}
	return m
}

// attach keeps the descriptors that the message has a use for, and closes the
// others.
func (m *Message) attach(files []*os.File) {
	m.files = files
	switch {
	case m.Barrier && len(files) != 1:
		m.fault("BARRIER=1 with %d descriptors", len(files))
		m.Barrier = false
		m.close()
	case m.FDStore && len(files) == 0:
		m.fault("FDSTORE=1 without a descriptor")
		m.FDStore = false
	case len(files) > 0 && !m.Barrier && !m.FDStore:
		m.fault("descriptors without FDSTORE=1")
		m.close()
	}
}

// unpack takes descriptors and credentials out of control data, as far as it can
// be read.
func unpack(control []byte) (files []*os.File, cred *unix.Ucred, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	for i := range messages {
		switch c := &messages[i]; c.Header.Type {
		case unix.SCM_RIGHTS:
			fds, bad := unix.ParseUnixRights(c)
			err = errors.Join(err, bad)
			for _, fd := range fds {
				files = append(files, os.NewFile(uintptr(fd), "notify"))
			}
		case unix.SCM_CREDENTIALS:
			var bad error
			cred, bad = unix.ParseUnixCredentials(c)
			err = errors.Join(err, bad)
		}
	}
	return files, cred, err
}

package rights

import (
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"rlminit/internal/coder"
	"rlminit/internal/durable"
	"rlminit/wire"
)

// A call is one thing to be done, an answer what came of it.
type call struct {
	ID    uint64
	Kind  kind
	UID   uint32          // in whose name
	File  durable.Request // of kindFile
	Path  string
	Paths []string // of kindLook
	Name  string   // the network of a socket
	Flags int
	Mode  uint32

	Offset int64 // of kindRead; of kindPing the id of a call that is asked about, or 0

	at *Progress // is told which process is asked, and by which id; nil: nothing is. It is not sent
}

type answer struct {
	ID    uint64
	File  durable.Answer
	Value int64    // of kindWatch; of kindPing 1 if the call that is asked about is under way
	Looks []looked // of kindLook

	Refused string // of kindBelow: as job/files refuses it
}

// looked is a Look in a form that can be sent.
type looked struct {
	Mode            uint32
	Denied, Failure *durable.Failure
}

func (m *call) fields(c *coder.Coder) {
	c.U64(&m.ID)
	c.U8((*uint8)(&m.Kind))
	c.U32(&m.UID)
	m.File.Fields(c)
	c.Str(&m.Path)
	c.Strings(&m.Paths)
	c.Str(&m.Name)
	c.Int(&m.Flags)
	c.U32(&m.Mode)
	c.I64(&m.Offset)
}

func (m *answer) fields(c *coder.Coder) {
	c.U64(&m.ID)
	m.File.Fields(c)
	c.I64(&m.Value)
	c.Str(&m.Refused)
	coder.List(c, &m.Looks, func(l *looked) {
		c.U32(&l.Mode)
		for _, failure := range []**durable.Failure{&l.Denied, &l.Failure} {
			coder.Optional(c, failure, func(f *durable.Failure) { f.Fields(c) })
		}
	})
}

// message is a call or an answer.
type message interface{ fields(*coder.Coder) }

// kind is what a call is about.
type kind uint8

const (
	kindPing   kind = iota
	kindFile        // an operation of durable.Dir
	kindOpen        // a path
	kindLook        // what paths are, up to the first file that may be used so
	kindListen      // a socket with a name among files
	kindWatch       // one more watch in a set
	kindBelow       // a file of a person's path below a directory
	kindRead        // what is in an open file
)

const (
	// inline is how much of a message goes in the packet itself; a larger one is
	// in a memfd that goes along. A socket's buffer holds several of these.
	inline = 48 << 10
	// usual is more than most messages have.
	usual = 512
	// most bounds a message.
	most = 64 << 20
	// mostFDs is how many descriptors a packet has at most, the memfd among them.
	mostFDs = 4
)

// link is one end of the pair.
type link struct {
	conn *net.UnixConn

	// Of whoever receives, who is one: a packet is decoded before the next comes.
	packet  [inline + 1]byte
	control [controlSize]byte
}

// controlSize has room for what unix.CmsgSpace says of mostFDs.
const controlSize = 64

// newLink takes the descriptor over.
func newLink(fd int) (*link, error) {
	file := os.NewFile(uintptr(fd), "rights")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return &link{conn: conn.(*net.UnixConn)}, nil
}

// shut ends what both ends are waiting for.
func (l *link) shut() {
	if raw, err := l.conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
}

// send sends a message and descriptors, which stay the caller's.
func (l *link) send(m message, fds ...int) error {
	packet := coder.Encode(make([]byte, 1, usual), m.fields)
	if len(packet) > inline {
		memory, err := wire.Sealed("rlminit-rights", packet[1:])
		if err != nil {
			return err
		}
		defer unix.Close(memory)
		packet, fds = []byte{1}, append(fds[:len(fds):len(fds)], memory)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err := l.conn.WriteMsgUnix(packet, rights, nil)
	return err
}

// receive waits for a message. The descriptors are the caller's. One goroutine
// receives.
func (l *link) receive(m message) (fds []int, err error) {
	packet, control := l.packet[:], l.control[:unix.CmsgSpace(4*mostFDs)]
	n, controls, flags, _, err := l.conn.ReadMsgUnix(packet, control)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	defer func() {
		if err != nil {
			wire.CloseAll(fds)
			fds = nil
		}
	}()
	if controls > 0 {
		messages, err := unix.ParseSocketControlMessage(control[:controls])
		if err != nil {
			return nil, err
		}
		for i := range messages {
			got, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				return fds, err
			}
			fds = append(fds, got...)
		}
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return fds, unix.EMSGSIZE
	}
	content := packet[1:n]
	if packet[0] == 1 {
		if len(fds) == 0 {
			return fds, unix.EPROTO
		}
		memory := fds[len(fds)-1]
		fds = fds[:len(fds)-1]
		content, err = wire.ReadSealed(memory, most)
		unix.Close(memory)
		if err != nil {
			return fds, err
		}
	}
	return fds, coder.Decode(content, m.fields)
}

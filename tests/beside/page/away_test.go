package page

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// between is a way to the page that accepts connections whatever is behind it, as docker -p
// and ssh -L do, and that can be cut without a word.
func (s *site) between(t *testing.T) (port int, cut *atomic.Bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	cut = &atomic.Bool{}
	pass := func(to, from net.Conn) {
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				to.Close()
				return
			}
			if cut.Load() {
				_, _ = io.Copy(io.Discard, from)
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				from.Close()
				return
			}
		}
	}
	go func() {
		for {
			out, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				in, err := s.dials.dial()
				if err != nil {
					out.Close()
					return
				}
				go pass(in, out)
				pass(out, in)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, cut
}

// A page that cannot reach its box says so, whatever lies between, and dims its rows; when it
// can again, it is as before, and shows what has happened. The time is measured with the
// browser's clock: it is a figure, since a busy machine has other times.
func TestPageIsAway(t *testing.T) {
	t.Parallel()
	s := house(t, "read")
	port, cut := s.between(t)
	s.port = port
	b := s.enter(t)
	b.run(`window.stays = true`)
	away := `document.body.dataset.away === "yes" && !document.querySelector("#link").hidden && document.querySelector("#link").textContent.includes("does not answer") && +getComputedStyle(document.querySelector("main")).opacity < 0.6`
	back := `window.stays && !document.body.dataset.away && document.querySelector("#link").hidden && document.body.dataset.open === "yes"`

	b.watch(away)
	b.run(`window.began = Date.now()`)
	cut.Store(true)
	b.awaitTrue(away)
	b.awaitTrue("window.trueAt")
	t.Logf("figure: a page whose connection leads nowhere says so after %s ms", b.text("window.trueAt - window.began"))
	cut.Store(false)
	b.awaitTrue(back)

	s.Must("stop", "page")
	b.awaitTrue(away)
	s.Must("start", "page")
	b.awaitTrue(`document.querySelector("#token")`) // the sessions of the page before are over
}

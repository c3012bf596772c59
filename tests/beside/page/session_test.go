package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"rlminit/control"
)

// neighbour is a server at another port of the page's host name. It notes what browsers send
// it.
type neighbour struct {
	*httptest.Server
	mu  sync.Mutex
	got []string // cookies, referrers and paths
}

func newNeighbour(t *testing.T, answer http.HandlerFunc) *neighbour {
	t.Helper()
	n := &neighbour{}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.got = append(n.got, fmt.Sprintf("%s, cookie %q, referrer %q", r.URL, r.Header.Get("Cookie"), r.Referer()))
		n.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(n.Close)
	return n
}

// heard is all that it was sent.
func (n *neighbour) heard() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.got, "\n")
}

// session is the path of the one that a tab is in.
func (b *tab) session() string {
	b.Helper()
	return b.text(`(location.pathname.match(/^\/s\/\w+/) || [""])[0]`)
}

// A server at another port of the page's host name gets neither the cookie of a session nor
// its path: not by a visit, not by a picture or a form of its own, not where the page was
// left for it, and not by leading a browser to the page and back.
func TestNeighbour(t *testing.T) {
	t.Parallel()
	s := house(t, "operate")
	b := s.enter(t)
	session := b.session()
	var there, itself string
	n := newNeighbour(t, func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes", Path: "/"})
		switch r.URL.Path {
		case "/lead":
			http.Redirect(w, r, there+"/service/web", http.StatusFound)
		case "/name": // the page's name, at the neighbour's own port
			http.Redirect(w, r, itself+"/s/", http.StatusFound)
		default:
			fmt.Fprintf(w, `<body><h1>neighbour</h1><img src="/picture"><iframe src="%s/"></iframe><a id="there" href="%[1]s/operations">there</a></body>`, there)
		}
	})
	there, itself = s.url(""), n.URL
	b.run(`const a = document.createElement("a"); a.href = "` + n.URL + `/left"; a.id = "away"; document.querySelector("main").append(a); a.click()`)
	b.awaitTrue(`document.querySelector("h1")?.textContent === "neighbour"`)
	for _, path := range []string{"/", "/name"} {
		b.do(chromedp.Navigate(n.URL + path))
		b.awaitTrue(`document.querySelector("h1")?.textContent === "neighbour"`)
	}
	// A link of elsewhere leads into the session all the same, and so does a redirect.
	b.run(`document.querySelector("#there").click()`)
	b.awaitTrue(inSession + ` === "/operations" && document.body.dataset.session`)
	b.do(chromedp.Navigate(n.URL + "/lead"))
	b.awaitTrue(inSession + ` === "/service/web" && document.querySelector("#about")`)
	if now := b.session(); now != session {
		t.Errorf("the session is at %s, and was at %s", now, session)
	}
	heard := n.heard()
	if !strings.Contains(heard, "/left") || !strings.Contains(heard, "/picture") || !strings.Contains(heard, "/s/, ") {
		t.Fatalf("the neighbour was not visited as it should be: %s", heard)
	}
	for line := range strings.Lines(heard) {
		if strings.Contains(line, "rlminit") || strings.Contains(line, session) {
			t.Errorf("the neighbour has heard %s", line)
		}
	}
}

// An address without a session's path leads into the session, in each tab; where that is
// over, to the form for the token, and from there to the page that was asked for. So it is
// after a restart of the page too, and for all tabs with one login.
func TestAddressWithoutSession(t *testing.T) {
	t.Parallel()
	s := house(t, "read")
	first := s.enter(t)
	session := first.session()
	if session == "" {
		t.Fatalf("after the login the tab is at %s", first.where())
	}
	second := first.beside()
	for _, b := range []*tab{first, second} {
		b.front()
		b.do(chromedp.Navigate(s.url("/events?name=web")))
		b.awaitTrue(inSession + ` === "/events" && location.search === "?name=web" && document.querySelector("#events")`)
		if now := b.session(); now != session {
			t.Errorf("a tab is at %s, and not at %s", now, session)
		}
	}
	s.Must("restart", "page")
	s.Await("page", "running")
	first.front()
	first.do(chromedp.Reload())
	first.awaitTrue(`document.querySelector("#token")`)
	first.do(chromedp.SendKeys("#token", annesToken), chromedp.Click("#login button"))
	first.awaitTrue(inSession + ` === "/events" && document.querySelector("#events")`)
	if now := first.session(); now == session || now == "" {
		t.Errorf("the next session is at %s, and the one before was at %s", now, session)
	}
	second.front()
	second.do(chromedp.Reload())
	second.awaitTrue(inSession + ` === "/events" && document.querySelector("#events")`)
	if first.session() != second.session() {
		t.Errorf("two tabs of one browser are in %s and %s", first.session(), second.session())
	}
	// What another server has left at this address leads nowhere.
	second.run(`localStorage.setItem("session", "//evil.example/")`)
	second.do(chromedp.Navigate(s.url("/jobs")))
	second.awaitTrue(`location.pathname === "/jobs" && document.querySelector("#token")`)
	first.front()
	first.press("Log out anne")
	first.awaitTrue(`document.querySelector("#token") && !(localStorage.getItem("session") || "").startsWith("/s/")`)
}

// Without scripts one logs in and goes from page to page; an address without the session's
// path asks for the token.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	s := house(t, "operate")
	pid := *s.Await("web", "running").PID
	b := s.visit(t)
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(s.url("/service/web")), chromedp.WaitVisible("#token"), chromedp.SendKeys("#token", annesToken), chromedp.Click("#login button"), chromedp.WaitVisible("#about"))
	session := b.session()
	if session == "" || !strings.HasSuffix(b.where(), session+"/service/web") {
		t.Errorf("after the login the tab is at %s", b.where())
	}
	b.do(chromedp.Click(`a[data-focus=restart]`), chromedp.WaitVisible("button[autofocus]"), chromedp.Click("button[autofocus]"), chromedp.WaitVisible("#operation"))
	if !strings.Contains(b.where(), session+"/operations/") {
		t.Errorf("after the command the tab is at %s", b.where())
	}
	s.AwaitThat("web", "has another process", func(now control.Service) bool { return now.State == "running" && now.PID != nil && *now.PID != pid })
	b.do(chromedp.Navigate(s.url("/service/web")), chromedp.WaitVisible("#token"))
	n := newNeighbour(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `<a id="there" href="%s">there</a>`, s.url(session+"/jobs"))
	})
	b.do(chromedp.Navigate(strings.Replace(n.URL, "127.0.0.1", "localhost", 1)), chromedp.Click("#there"), chromedp.WaitVisible("#jobs"))
}

// front brings a tab to the front: Chromium paints and runs no other.
func (b *tab) front() {
	b.Helper()
	if _, err := chromedp.Call(b.ctx, page.BringToFront, cdp.Empty{}); err != nil {
		b.Fatal(err)
	}
}

// beside is another tab of the same browser, with its cookies.
func (b *tab) beside() *tab {
	b.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.Cleanup(cancel)
	return &tab{T: b.T, site: b.site, ctx: ctx}
}

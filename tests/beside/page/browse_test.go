package page

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"rlminit/tests/box"
)

// tab is a tab of the browser, logged in at a site.
type tab struct {
	*testing.T
	site *site
	ctx  context.Context

	mu   sync.Mutex
	said []string // errors on the console, as of a policy that was broken
}

// visit opens a tab with no cookies.
func (s *site) visit(t *testing.T) *tab {
	t.Helper()
	if browser == nil {
		t.Skip("there is no chromium; install the Debian package chromium")
	}
	if err := browserStarted(); err != nil {
		t.Fatalf("cannot start chromium: %v", err)
	}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{T: t, site: s, ctx: ctx}
	hear := func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.said = append(b.said, fmt.Sprint(e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
		case *cdplog.EventEntryAdded:
			if e.Entry.Level == cdplog.EntryLevelError {
				b.said = append(b.said, e.Entry.Text+" "+e.Entry.URL)
			}
		}
	}
	if err := chromedp.Listen(ctx, hear); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, cdplog.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// enter opens a tab and logs in.
func (s *site) enter(t *testing.T) *tab {
	t.Helper()
	b := s.visit(t)
	b.do(chromedp.Navigate(s.url("/")), chromedp.WaitVisible("#token"), chromedp.SendKeys("#token", annesToken), chromedp.Click("#login button"), chromedp.WaitVisible("#rows"))
	b.open()
	return b
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, long)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.Fatalf("%v\nat %s\n%s\nthe console: %q", err, b.where(), b.see(), b.console())
	}
}

func (b *tab) where() (url string) {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	url, _ = chromedp.Run(ctx, chromedp.Location()) // it is for a complaint only
	return url
}

// see is the text that is on the page.
func (b *tab) see() (text string) {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, _ = chromedp.Run(ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText : ""`)) // of a page that is just loading there is none
	return text
}

func (b *tab) console() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.said...)
}

// open waits until the page hears of what happens.
func (b *tab) open() {
	b.Helper()
	b.awaitTrue(`document.body.dataset.open === "yes"`)
}

// inSession is the path of a page within its session, as an expression.
const inSession = `location.pathname.replace(/^\/s\/\w+/, "")`

// to goes to another page: of the session that the tab is in, if it is in one.
func (b *tab) to(path string) {
	b.Helper()
	session := b.text(`(location.pathname.match(/^\/s\/\w+/) || [""])[0]`)
	b.do(chromedp.Navigate(b.site.url(session+path)), chromedp.WaitReady("main"))
}

// awaitTrue waits until an expression of JavaScript is true.
func (b *tab) awaitTrue(expression string) {
	b.Helper()
	box.Eventually(b.T, long, expression, func() (bool, any) {
		// A page that a script leaves at this moment may never answer: it is asked again.
		ctx, cancel := context.WithTimeout(b.ctx, 3*time.Second)
		defer cancel()
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && is, fmt.Sprint(err, "\n", b.where(), "\n", b.see(), "\n", b.console())
	})
}

// text is the value of an expression, as text.
func (b *tab) text(expression string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, long)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

// run runs statements of JavaScript.
func (b *tab) run(statements string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, long)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[int](statements+"\n;1")); err != nil {
		b.Fatalf("%.200s: %.2000v", statements, err)
	}
}

// quiet fails the test if the page has said something on the console.
func (b *tab) quiet() {
	b.Helper()
	for _, line := range b.console() {
		// A stream that was cut, as it is meant to be, and pages that say no.
		if !strings.Contains(line, "/live") && !strings.Contains(line, "status of 4") {
			b.Errorf("on the console: %s", line)
		}
	}
}

// as shows the page in a size, light or dark.
func (b *tab) as(width, height int64, scheme string) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
		b.Fatal(err)
	}
}

// picture writes what is on the screen below SHOTS, if that is set: make screenshots.
func (b *tab) picture(name string) {
	b.Helper()
	dir := os.Getenv("RLMINIT_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), png, 0o644); err != nil {
		b.Fatal(err)
	}
}

package page

import (
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"rlminit/tests/box"
)

// house is a box with a bit of everything.
func house(t *testing.T, allow string, more ...string) *site {
	t.Helper()
	s := start(t, allow, append([]string{`services:
  web: {command: [nasty, sleep]}
  broken: {command: [bash, -c, "echo cannot open /etc/agent.yaml: no such file >&2; exit 3"], restart: {policy: on-failure, delay: 10ms, limit: 2, window: 60s}}
  nightly: {command: [echo, done], type: oneshot, schedule: {cron: "0 3 * * *"}}
`}, more...)...)
	for _, name := range []string{"alice", "bob", "carol"} {
		s.Must("profile", "create", name)
	}
	s.Await("broken", "failed")
	return s
}

// propose has a plan wait that changes alice and adds dave, and returns its hash.
func (s *site) propose(model string) string {
	s.Helper()
	set := `version: 1
profiles:
  alice: {environment: {MODEL: ` + model + `}}
`
	s.Write(box.Service, "/tmp/agents.yaml", set)
	s.Must("plan", "-f", "/tmp/agents.yaml", "--scope", "profile/alice", "--propose", "--by", "bob")
	r := s.Must("plan", "proposed", "--json")
	_, rest, ok := strings.Cut(r, `"hash":`)
	_, rest, _ = strings.Cut(rest, `"`)
	hash, _, _ := strings.Cut(rest, `"`)
	if !ok || !strings.HasPrefix(hash, "sha256:") {
		s.Fatalf("no plan waits: %s", r)
	}
	return hash
}

// rules are what a reader of the screen, a keyboard and somebody who sees few colours need
// of each page: the value is what is wrong with this one.
const rules = `(() => {
  const wrong = [], seen = new Set();
  const name = (e) => e.outerHTML.slice(0, 120);
  if (!document.documentElement.lang) wrong.push("no language");
  if (!document.title) wrong.push("no title");
  for (const [what, n] of [["main", 1], ["h1", 1], ["header", 1], ["nav", 1]]) if (document.querySelectorAll(what).length !== n) wrong.push("not one " + what);
  if (!document.querySelector("a.skip[href$='#main']")) wrong.push("no link that skips to the content");
  for (const e of document.querySelectorAll("[id]")) { if (seen.has(e.id)) wrong.push("twice: #" + e.id); seen.add(e.id); }
  for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea")) if (!e.labels.length && !e.ariaLabel) wrong.push("no label: " + name(e));
  for (const e of document.querySelectorAll("a, button")) if (!e.textContent.trim() && !e.ariaLabel) wrong.push("no name: " + name(e));
  for (const e of document.querySelectorAll("svg[role=img], progress, nav, form[role=search]")) if (!e.getAttribute("aria-label")) wrong.push("no name: " + name(e));
  for (const e of document.querySelectorAll("table")) if (!e.querySelector("th[scope=col]")) wrong.push("a table without headers: " + name(e));
  for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
    for (const id of ((e.getAttribute("aria-labelledby") || "") + " " + (e.getAttribute("aria-describedby") || "")).trim().split(/\s+/)) if (!document.getElementById(id)) wrong.push("names what is not there: " + name(e));
  for (const e of document.querySelectorAll("[style], [onclick], script:not([src]), style")) wrong.push("inline: " + name(e));
  for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) wrong.push("an order of its own: " + name(e));
  let level = 0;
  for (const e of document.querySelectorAll("h1, h2, h3, h4")) { const l = +e.tagName[1]; if (l > level + 1) wrong.push("skips a level: " + name(e)); level = l; }
  for (const e of document.querySelectorAll(".state")) if (!e.textContent.trim()) wrong.push("a state by colour alone: " + name(e));
  const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const rgb = (s) => { const m = s.match(/[\d.]+/g).map(Number); return m.length === 4 && m[3] === 0 ? null : m.slice(0, 3); };
  const told = new Set();
  for (const e of document.querySelectorAll("main *, header *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.getClientRects().length) continue;
    let under = null;
    for (let p = e; p && !under; p = p.parentElement) under = rgb(getComputedStyle(p).backgroundColor);
    const a = light(rgb(getComputedStyle(e).color)), b = light(under || [255, 255, 255]);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), what = e.tagName + "." + e.className;
    if (contrast < 4.5 && !told.has(what)) { told.add(what); wrong.push("contrast " + contrast.toFixed(1) + ": " + name(e)); }
  }
  return wrong.join("\n");
})()`

// checkRules holds a page against them; and, if RLMINIT_AXE names an axe.min.js, against
// those of axe-core, which is not kept here.
func (b *tab) checkRules(path string) {
	b.Helper()
	if wrong := b.text(rules); wrong != "" {
		b.Errorf("%s: %s", path, wrong)
	}
	file := os.Getenv("RLMINIT_AXE")
	if file == "" {
		return
	}
	script, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	b.run(string(script))
	b.run(`axe.run().then((r) => { window.axed = r.violations.map((v) => v.impact + " " + v.id + ": " + v.nodes.map((n) => n.html).join(" | ")).join("\n") || "nothing" })`)
	b.awaitTrue("window.axed")
	if found := b.text("window.axed"); found != "nothing" {
		b.Errorf("%s: axe-core finds %s", path, found)
	}
}

// Every page is shown without a complaint of the browser's, is of use to who has a keyboard
// alone or sees no colours, light and dark, and fits on a phone.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	s := house(t, "approve")
	hash := s.propose("large")
	s.Must("restart", "web")
	b := s.enter(t)
	pages := map[string]string{
		"/":                      "broken",
		"/?state=ill":            "cannot open /etc/agent.yaml",
		"/service/broken":        "cannot open /etc/agent.yaml",
		"/service/gateway-alice": "listening on",
		"/service/broken?q=open": "2 lines fit",
		"/operations":            "restart of web",
		"/operations/1":          "done",
		"/plans":                 "1 to change",
		"/plans/" + hash:         "environment.MODEL",
		"/jobs":                  "nightly",
		"/events":                "running",
		"/events?name=broken":    "exit 3",
		"/logs":                  "Search all logs",
		"/logs?q=OPEN":           "cannot open",
		"/boot":                  "critical chain",
		"/do?verb=stop&name=web": "It stays stopped",
		"/operations/1/cancel":   "It goes no further",
		"/rollback":              "Roll back?",
		"/nowhere":               "there is no such page",
	}
	for path, has := range pages {
		b.to(path)
		for _, scheme := range []string{"dark", "light"} {
			b.as(1280, 900, scheme)
			b.checkRules(path + ", " + scheme)
		}
		if text := b.see(); !strings.Contains(text, has) {
			t.Errorf("%s does not say %q: %s", path, has, text)
		}
		b.as(360, 740, "light")
		if wide := b.text("document.documentElement.scrollWidth"); wide != "360" {
			t.Errorf("%s is %s wide on a phone: %s", path, wide, b.text(`[...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > 361).map((e) => e.outerHTML.slice(0, 150)).join("\n")`))
		}
	}
	b.quiet()
}

// Who has a keyboard alone comes to a service, and restarts it.
func TestKeyboard(t *testing.T) {
	s := house(t, "operate")
	b := s.visit(t)
	b.to("/service/broken")
	b.awaitTrue(`document.activeElement.id === "token"`)
	b.do(chromedp.KeyEvent(annesToken), chromedp.KeyEvent(kb.Enter))
	b.awaitTrue(inSession + ` === "/service/broken" && document.querySelector("#about")`)
	b.do(chromedp.KeyEvent(kb.Tab))
	b.awaitTrue(`document.activeElement.className === "skip" && document.activeElement.getBoundingClientRect().left >= 0`)
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab))
	b.awaitTrue(`document.activeElement.textContent === "restart…" && getComputedStyle(document.activeElement).outlineStyle === "solid"`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.awaitTrue(inSession + ` === "/do" && document.activeElement.textContent === "Restart broken"`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.awaitTrue(inSession + `.startsWith("/operations/")`)
	b.to("/")
	b.do(chromedp.KeyEvent("/"))
	b.awaitTrue(`document.activeElement.id === "q"`)
	b.run(`document.activeElement.value = ""`) // the driver types the key all the same
	b.do(chromedp.KeyEvent("ali"))
	b.awaitTrue(`[...document.querySelectorAll("#rows tr")].filter((r) => !r.hidden).length === 1 && document.querySelector("#fits").textContent === "1 service fits"`)
	b.quiet()
}

package page

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// What a page of elsewhere, a stranger, or a service of the box could try. The unit tests of
// the gate have more of each; this is the whole program.
func TestAttacks(t *testing.T) {
	t.Parallel()
	s := house(t, "operate")
	stranger, anne := s.client(t), s.loggedIn(t, annesToken)
	csrf := s.send(t, anne, "GET", "/", "").csrf(t)
	other := s.send(t, s.loggedIn(t, bareToken), "GET", "/", "").csrf(t)
	deed := "verb=stop&name=web&csrf="
	tries := 0
	for name, of := range map[string]struct {
		as      *client
		method  string
		path    string
		form    string
		headers []string
		want    int
	}{
		"no token":                    {stranger, "GET", "/", "", nil, 401},
		"no token, a stream":          {stranger, "GET", "/live?view=overview", "", nil, 401},
		"no token, a command":         {stranger, "POST", "/do", deed + csrf, nil, 401},
		"a forged cookie":             {stranger, "GET", "/", "", []string{"Cookie", "rlminit=" + strings.Repeat("A", 52)}, 401},
		"a token in the query":        {stranger, "GET", "/?token=" + annesToken, "", nil, 401},
		"a token in a header":         {stranger, "GET", "/", "", []string{"Authorization", "Bearer " + annesToken}, 401},
		"an expired token":            {stranger, "POST", "/login", "token=" + expiredToken, nil, 401},
		"a name for a token":          {stranger, "POST", "/login", "token=anne", nil, 401},
		"a login of elsewhere":        {stranger, "POST", "/login", "token=" + annesToken, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"a name that points here":     {anne, "GET", "/", "", []string{"Host", "evil.example"}, 421},
		"the same, for a file":        {anne, "GET", "/static/page.js", "", []string{"Host", "evil.example:9118"}, 421},
		"an address that is another":  {anne, "GET", "/", "", []string{"Host", "10.9.9.9:9118"}, 421},
		"any address":                 {anne, "GET", "/", "", []string{"Host", "0.0.0.0:9118"}, 421},
		"a name that looks like one":  {anne, "GET", "/", "", []string{"Host", "127.0.0.1:9118.evil.example"}, 421},
		"the same, for a stream":      {anne, "GET", "/live?view=overview", "", []string{"Host", "evil.example"}, 421},
		"a form of elsewhere":         {anne, "POST", "/do", deed + csrf, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"a form of another port":      {anne, "POST", "/do", deed + csrf, []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1"}, 403},
		"a form of a sandbox":         {anne, "POST", "/do", deed + csrf, []string{"Sec-Fetch-Site", "", "Origin", "null"}, 403},
		"a form without its secret":   {anne, "POST", "/do", deed, nil, 403},
		"a form of another session":   {anne, "POST", "/do", deed + other, nil, 403},
		"a command by a link":         {anne, "GET", "/do?" + deed + csrf, "", nil, 200}, // asks, and does nothing
		"a cancel by a link":          {anne, "GET", "/operations/1/cancel", "", nil, 404},
		"an approval without a right": {anne, "POST", "/plans/sha256:0/approve", "csrf=" + csrf, nil, 403},
		"another method":              {anne, "DELETE", "/operations/1", "", nil, 405},
		"a path upwards":              {anne, "GET", "/static/..%2f..%2f..%2fetc%2fpasswd", "", nil, 404},
		"a name upwards":              {anne, "GET", "/service/..%2f..%2fv1%2fshutdown", "", nil, 404},
		"a name with a script":        {anne, "GET", "/service/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "", nil, 404},
		"a search with a script":      {anne, "GET", "/logs?q=%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E", "", nil, 200},
		"a large form":                {anne, "POST", "/do", deed + csrf + "&x=" + strings.Repeat("x", 66<<10), nil, 403},
		"a page to go to elsewhere":   {anne, "GET", "/login?next=//evil.example", "", nil, 303},
	} {
		a := s.send(t, of.as, of.method, of.path, of.form, of.headers...)
		tries++
		if a.StatusCode != of.want {
			t.Errorf("%s is answered with %s, and not %d: %.300s", name, a.Status, of.want, a.text)
		}
		if strings.Contains(a.text, "<script>alert") || strings.Contains(a.text, "0123456789abcdef") || a.Header.Get("Location") != "" && a.Header.Get("Location") != of.as.session+"/" {
			t.Errorf("%s: %s %.500s", name, a.Header.Get("Location"), a.text)
		}
		if a.Header.Get("Content-Security-Policy") == "" || a.Header.Get("X-Frame-Options") != "DENY" || a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: the headers are %v", name, a.Header)
		}
	}
	t.Logf("figure: %d attacks were tried", tries)
	if now := s.Status()["web"]; now.State != "running" {
		t.Errorf("web is %s", now.State)
	}
}

// A token that is taken out of the file is of no use from the next start of the page on. All
// sessions are over with that start; who has a token logs in again.
func TestTokenIsRevoked(t *testing.T) {
	t.Parallel()
	s := house(t, "read")
	anne, bare := s.loggedIn(t, annesToken), s.loggedIn(t, bareToken)
	if err := os.WriteFile(s.tokens, []byte(bareToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Must("restart", "page")
	s.Await("page", "running")
	for _, c := range []*client{anne, bare} {
		if a := s.send(t, c, "GET", "/", ""); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("a session of the page before is answered with %s", a.Status)
		}
	}
	if a := s.send(t, s.client(t), "POST", "/login", "token="+annesToken); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("a token that was taken away is answered with %s", a.Status)
	}
	if a := s.send(t, s.loggedIn(t, bareToken), "GET", "/", ""); a.StatusCode != http.StatusOK {
		t.Errorf("who has a token is answered with %s", a.Status)
	}
}

// A logout ends the session for whoever has its cookie, also after another start of the page,
// and what its other tabs show. It ends no other session.
func TestLogOut(t *testing.T) {
	t.Parallel()
	s := house(t, "read")
	anne, other := s.loggedIn(t, annesToken), s.loggedIn(t, annesToken)
	b := s.enter(t)
	b.open()
	cookie := s.cookie(anne)
	kept := []string{"Cookie", cookie.Name + "=" + cookie.Value}
	stranger := s.client(t)
	if a := s.send(t, stranger, "GET", "/", "", kept...); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the path of its session the cookie is answered with %s", a.Status)
	}
	stranger.session = anne.session
	if a := s.send(t, stranger, "GET", "/", "", kept...); a.StatusCode != http.StatusOK {
		t.Fatalf("with path and cookie it is answered with %s", a.Status)
	}
	tab, err := s.stream(t.Context(), anne, "view=overview")
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Body.Close()
	a := s.send(t, anne, "POST", "/logout", "csrf="+s.send(t, anne, "GET", "/", "").csrf(t))
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != anne.session+"/login" {
		t.Errorf("a logout is answered with %s to %s", a.Status, a.Header.Get("Location"))
	}
	if text, err := io.ReadAll(tab.Body); err != nil || !strings.HasSuffix(string(text), "event: over\ndata: null\n\n") {
		t.Errorf("a tab of the session goes on: %v", err)
	}
	if a := s.send(t, stranger, "GET", "/", "", kept...); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("after a logout its cookie is answered with %s", a.Status)
	}
	if a := s.send(t, other, "GET", "/", ""); a.StatusCode != http.StatusOK {
		t.Errorf("another session of the token is answered with %s", a.Status)
	}
	s.Must("restart", "page")
	s.Await("page", "running")
	if a := s.send(t, stranger, "GET", "/", "", kept...); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("after a restart of the page the cookie is answered with %s", a.Status)
	}
	b.awaitTrue(`document.querySelector("#token")`) // the tab that was open asks for the token by itself
}

// No page shows what a service was given as a secret, though the service prints it.
func TestNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	file := secretFile(t, secret)
	s := start(t, "approve", `services:
  leaky: {command: [bash, -c, "echo my value is $TOKEN; echo $TOKEN >&2; sleep infinity"], environment: {TOKEN: {file: `+file+`}}}
  dying: {command: [bash, -c, "echo bad value $TOKEN; echo bad value $TOKEN >&2; exit 1"], restart: {policy: on-failure, delay: 10ms, limit: 2, window: 60s}, environment: {TOKEN: {file: `+file+`}}}
`)
	s.Await("dying", "failed")
	s.Must("profile", "create", "alice", "--env", "API_TOKEN="+secret)
	s.Await("gateway-alice", "running")
	c := s.loggedIn(t, annesToken)
	box.Eventually(t, long, "the log has its lines", func() (bool, any) {
		a := s.send(t, c, "GET", "/service/leaky", "")
		return strings.Contains(a.text, "my value is ***"), a.text
	})
	own := strings.NewReplacer(`value="hunter2"`, "", `href="./logs?q=hunter2#main"`, "") // what was searched
	for _, path := range []string{"/", "/service/leaky", "/service/leaky?q=value", "/service/dying", "/events?name=dying", "/do?verb=restart&name=dying", "/service/gateway-alice", "/logs?q=value", "/logs?q=hunter2", "/events", "/jobs", "/plans", "/boot"} {
		if a := s.send(t, c, "GET", path, ""); a.StatusCode != http.StatusOK || strings.Contains(own.Replace(a.text), "hunter2") {
			t.Errorf("%s is answered with %s: %s", path, a.Status, a.text)
		}
	}
	// What is followed is read by another request than what is read once.
	b := s.enter(t)
	b.to("/service/leaky")
	b.open()
	s.Must("restart", "leaky")
	b.awaitTrue(`document.querySelector("#log").textContent.split("my value is ***").length > 2`)
	if strings.Contains(b.see(), "hunter2") {
		t.Errorf("the page shows it: %s", b.see())
	}
}

// secretFile is a file of the services' user with a secret in it.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	f, err := os.CreateTemp("", "rlminit-secret-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(f.Name()) })
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Chown(box.Service.UID, box.Service.GID); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

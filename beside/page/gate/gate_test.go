package gate

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	annes = "anne-0123456789abcdef"
	bare  = "bare-0123456789abcdef"
	late  = "late-0123456789abcdef"
)

// tokens is a file with these lines.
func tokens(t *testing.T, lines ...string) *Tokens {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, lines...)
	all, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// write puts another file in the place of the one that is there, as an editor does.
func write(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func refuse(w http.ResponseWriter, _ *http.Request, status int, why string) {
	http.Error(w, why, status)
}

// guarded is a page behind a gate: it says who is in.
func guarded(g *Gate) http.Handler {
	return g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login" {
			if _, outcome, _ := g.LogIn(w, r); outcome != Welcome {
				w.WriteHeader(http.StatusUnauthorized)
			}
			return
		}
		key, page := "", r.URL.Path
		if below, is := strings.CutPrefix(page, Below); is {
			key, page, _ = strings.Cut(below, "/")
			page = "/" + page
		}
		s := g.Enter(r, key)
		switch {
		case s == nil:
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == http.MethodPost && !Posted(w, r, s):
			w.WriteHeader(http.StatusForbidden)
		case page == "/logout":
			g.LogOut(w, r, s)
		default:
			_, _ = w.Write([]byte(s.Token.By()))
		}
	}))
}

func request(method, host, path, form string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, "http://"+host+path, strings.NewReader(form))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	return r
}

func answer(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// A name of elsewhere that points here is refused, whatever it looks like.
func TestHost(t *testing.T) {
	for _, of := range []struct {
		listen string
		hosts  []string
		good   []string
		bad    []string
	}{
		{
			"127.0.0.1:9118", nil,
			[]string{"127.0.0.1:9118", "127.0.0.1", "localhost:9118", "LOCALHOST", "localhost.", "box.localhost:1", "[::1]:9118", "127.0.0.2", "127.0.0.1:8080"},
			[]string{
				"evil.example", "evil.example:9118", "127.0.0.1.evil.example", "localhost.evil.example", "evillocalhost", "10.0.0.1", "0.0.0.0", "0.0.0.0:9118", "[::]", "192.168.0.7:9118", "2130706433", "127.1",
				"127.0.0.1:9118.evil.example", "localhost:evil.example", "[::1]evil.example", "evil.example@localhost", "localhost/evil.example", "localhost#evil.example", "localhost?evil", "localhost ",
			},
		},
		// The connection of these requests has come to 172.17.0.2.
		{"0.0.0.0:9118", []string{"box.example.org", "192.168.0.7", "fe80::1"}, []string{"172.17.0.2:9118", "192.168.0.7:8080", "[fe80::1]:9118", "[FE80:0::1]", "box.example.org", "BOX.example.org:443", "localhost"}, []string{"10.9.9.9:9118", "0.0.0.0:9118", "[::]:9118", "example.org", "xbox.example.org", "evil.example"}},
		{":9118", nil, []string{"172.17.0.2:9118", "127.0.0.1"}, []string{"10.9.9.9:9118", "", ":9118", "[::]"}},
		{"192.168.0.7:9118", nil, []string{"192.168.0.7", "localhost"}, []string{"192.168.0.8", "evil.example"}},
		{"unix:/run/page.sock", nil, []string{"localhost:8000", "127.0.0.1:8000"}, []string{"192.168.0.7", "evil.example", "unix"}},
	} {
		g := New(Settings{Listen: of.listen, Hosts: of.hosts, Tokens: tokens(t, bare)}, refuse)
		for _, host := range slices.Concat(of.good, of.bad) {
			want := http.StatusUnauthorized
			if slices.Contains(of.bad, host) {
				want = http.StatusMisdirectedRequest
			}
			r := request("GET", "x", "/", "")
			r.Host = host
			if !strings.HasPrefix(of.listen, "unix:") {
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(172, 17, 0, 2), Port: 9118}))
			}
			if got := answer(guarded(g), r); got.StatusCode != want {
				t.Errorf("listening on %s, Host %s is answered with %d, and not %d", of.listen, host, got.StatusCode, want)
			}
		}
		r := request("GET", "x", "/", "")
		r.Host = ""
		if got := answer(guarded(g), r); got.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("listening on %s, no Host is answered with %d", of.listen, got.StatusCode)
		}
	}
}

// logIn logs in and returns the cookie.
func logIn(t *testing.T, h http.Handler, token string) *http.Cookie {
	t.Helper()
	got := answer(h, request("POST", "localhost:9118", "/login", url.Values{"token": {token}}.Encode()))
	if got.StatusCode != http.StatusOK || len(got.Cookies()) != 1 {
		t.Fatalf("the login is answered with %d and %v", got.StatusCode, got.Cookies())
	}
	return got.Cookies()[0]
}

// status asks for a page with a cookie, below its path.
func status(h http.Handler, c *http.Cookie) int {
	r := request("GET", "localhost:9118", c.Path, "")
	r.AddCookie(c)
	return answer(h, r).StatusCode
}

// keyOf is that of the path of a cookie.
func keyOf(c *http.Cookie) string { return strings.Trim(strings.TrimPrefix(c.Path, Below), "/") }

// A session is over with its time, with its token's time, and as soon as the token is taken
// out of the file; nobody can make one, or lengthen it.
func TestSession(t *testing.T) {
	now := time.Date(2026, 5, 24, 12, 0, 0, 0, time.UTC)
	all := tokens(t, "anne "+annes, bare, "late "+late+" 2026-05-24T13:00:00Z")
	g := New(Settings{Listen: "127.0.0.1:9118", Tokens: all}, refuse)
	g.now = func() time.Time { return now }
	h := guarded(g)
	anne, lates := logIn(t, h, annes), logIn(t, h, late)
	if !anne.HttpOnly || anne.SameSite != http.SameSiteStrictMode || anne.Secure || len(keyOf(anne)) < 26 || anne.Name != "rlminit" {
		t.Errorf("the cookie is %v", anne)
	}
	if strings.Contains(anne.Value, annes) || status(h, anne) != http.StatusOK || status(h, lates) != http.StatusOK {
		t.Errorf("who is logged in does not come in")
	}
	for _, forged := range []string{"", "x", anne.Value[:len(anne.Value)-1], anne.Value + "A", strings.ToLower(anne.Value), "22222" + anne.Value[5:], lates.Value[:26] + anne.Value[26:], annes} {
		if got := status(h, &http.Cookie{Name: anne.Name, Value: forged, Path: anne.Path}); got != http.StatusUnauthorized {
			t.Errorf("%q is answered with %d", forged, got)
		}
	}
	now = now.Add(time.Hour)
	if status(h, anne) != http.StatusOK || status(h, lates) != http.StatusUnauthorized {
		t.Error("a session outlives its token's time")
	}
	now = now.Add(sessionTime - time.Hour)
	if status(h, anne) != http.StatusUnauthorized {
		t.Error("a session outlives its own time")
	}
	anne, second := logIn(t, h, annes), logIn(t, h, bare)
	write(t, all.Path(), bare)
	if status(h, anne) != http.StatusUnauthorized || status(h, second) != http.StatusOK {
		t.Error("a session outlives its token, or another's goes with it")
	}
	if err := os.Remove(all.Path()); err != nil {
		t.Fatal(err)
	}
	if status(h, second) != http.StatusUnauthorized {
		t.Error("a session outlives the file")
	}
	write(t, all.Path(), bare)
	if status(h, second) != http.StatusOK {
		t.Error("a session is not back with the file")
	}
	if again := guarded(New(g.set, refuse)); status(again, second) != http.StatusUnauthorized {
		t.Error("a session outlives the page")
	}
}

// Who logs out ends this session for whoever has its cookie, and no other one.
func TestLogOut(t *testing.T) {
	g := New(Settings{Listen: "127.0.0.1:9118", Tokens: tokens(t, "anne "+annes)}, refuse)
	h := guarded(g)
	mine, other := logIn(t, h, annes), logIn(t, h, annes)
	s := g.logged.find(mine.Value, time.Now())
	form := url.Values{"csrf": {s.CSRF()}}.Encode()
	r := request("POST", "localhost:9118", mine.Path+"logout", form)
	r.AddCookie(mine)
	if got := answer(h, r); len(got.Cookies()) != 1 || got.Cookies()[0].MaxAge >= 0 || got.Cookies()[0].Path != mine.Path {
		t.Errorf("the logout is answered with %d and %v", got.StatusCode, got.Cookies())
	}
	if status(h, mine) != http.StatusUnauthorized || status(h, other) != http.StatusOK {
		t.Error("a session outlives its logout, or another's goes with it")
	}
	select {
	case <-s.Ended():
	default:
		t.Error("what serves the session is not told of its end")
	}
	if answer(h, r).StatusCode != http.StatusUnauthorized {
		t.Error("somebody can log out twice")
	}
}

// A session is at a path of its own: path or cookie alone open nothing, nor do those of two
// sessions, and what others have a browser send besides is in nobody's way.
func TestPathAndCookie(t *testing.T) {
	g := New(Settings{Listen: "127.0.0.1:9118", Tokens: tokens(t, "anne "+annes)}, refuse)
	h := guarded(g)
	mine, other := logIn(t, h, annes), logIn(t, h, annes)
	if mine.Path == other.Path || mine.Value == other.Value {
		t.Fatalf("two logins have one path or cookie: %v, %v", mine, other)
	}
	for name, of := range map[string]struct {
		path    string
		cookies []string
		want    int
	}{
		"path and cookie":              {mine.Path, []string{mine.Value}, http.StatusOK},
		"beside a cookie of elsewhere": {mine.Path, []string{"tossed", other.Value, mine.Value}, http.StatusOK},
		"the path alone":               {mine.Path, nil, http.StatusUnauthorized},
		"the cookie alone":             {"/", []string{mine.Value}, http.StatusUnauthorized},
		"the cookie and no key":        {"/s//", []string{mine.Value}, http.StatusUnauthorized},
		"the path of another":          {other.Path, []string{mine.Value}, http.StatusUnauthorized},
		"a path like it":               {strings.ToLower(mine.Path), []string{mine.Value}, http.StatusUnauthorized},
		"a part of the path":           {mine.Path[:len(mine.Path)-2] + "/", []string{mine.Value}, http.StatusUnauthorized},
	} {
		r := request("GET", "localhost:9118", of.path, "")
		for _, value := range of.cookies {
			r.AddCookie(&http.Cookie{Name: mine.Name, Value: value})
		}
		if got := answer(h, r); got.StatusCode != of.want {
			t.Errorf("%s: answered with %d, and not %d", name, got.StatusCode, of.want)
		}
	}
}

// A token has so many sessions and not more; the oldest ends, and none of another token.
func TestManySessions(t *testing.T) {
	now := time.Now()
	g := New(Settings{Listen: "127.0.0.1:9118", Tokens: tokens(t, "anne "+annes, bare)}, refuse)
	g.now = func() time.Time { return now }
	h := guarded(g)
	others, first := logIn(t, h, bare), logIn(t, h, annes)
	for range sessionsOfOne - 1 {
		now = now.Add(time.Second)
		logIn(t, h, annes)
	}
	if status(h, first) != http.StatusOK {
		t.Errorf("a token has less than %d sessions", sessionsOfOne)
	}
	now = now.Add(time.Second)
	last := logIn(t, h, annes)
	if status(h, first) != http.StatusUnauthorized || status(h, last) != http.StatusOK || status(h, others) != http.StatusOK {
		t.Error("not the oldest session has ended")
	}
	now = now.Add(sessionTime)
	logIn(t, h, bare)
	if n := len(g.logged.open); n != 1 {
		t.Errorf("%d sessions are kept after their time", n)
	}
}

// What changes something comes from a page of this session, and from nowhere else.
func TestForeignForm(t *testing.T) {
	g := New(Settings{Listen: "127.0.0.1:9118", Tokens: tokens(t, "anne "+annes, bare)}, refuse)
	h := guarded(g)
	cookie, other := logIn(t, h, annes), logIn(t, h, annes)
	csrf := func(c *http.Cookie) string {
		return url.Values{"csrf": {g.logged.find(c.Value, time.Now()).CSRF()}}.Encode()
	}
	for name, of := range map[string]struct {
		form    string
		headers []string
		want    int
	}{
		"its own":                  {csrf(cookie), nil, http.StatusOK},
		"no Sec-Fetch-Site":        {csrf(cookie), []string{"Sec-Fetch-Site", "", "Origin", "http://localhost:9118"}, http.StatusOK},
		"no token":                 {"a=b", nil, http.StatusForbidden},
		"an empty token":           {"csrf=", nil, http.StatusForbidden},
		"of another session":       {csrf(other), nil, http.StatusForbidden},
		"of another site":          {csrf(cookie), []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"of another port":          {csrf(cookie), []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		"of another origin":        {csrf(cookie), []string{"Sec-Fetch-Site", "", "Origin", "http://evil.example"}, http.StatusForbidden},
		"of another origin's port": {csrf(cookie), []string{"Sec-Fetch-Site", "", "Origin", "http://localhost:80"}, http.StatusForbidden},
		"of a sandbox":             {csrf(cookie), []string{"Sec-Fetch-Site", "", "Origin", "null"}, http.StatusForbidden},
		"of nowhere":               {csrf(cookie), []string{"Sec-Fetch-Site", ""}, http.StatusForbidden},
		"as JSON":                  {csrf(cookie), []string{"Content-Type", "application/json"}, http.StatusForbidden},
		"too large":                {csrf(cookie) + "&a=" + strings.Repeat("x", formMost), nil, http.StatusForbidden},
	} {
		r := request("POST", "localhost:9118", cookie.Path+"do", of.form, of.headers...)
		r.AddCookie(cookie)
		if got := answer(h, r); got.StatusCode != of.want {
			t.Errorf("a form %s is answered with %d, and not %d", name, got.StatusCode, of.want)
		}
	}
	for _, method := range []string{"PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"} {
		r := request("GET", "localhost:9118", "/", "")
		r.Method = method
		r.AddCookie(cookie)
		if got := answer(h, r); got.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s is answered with %d", method, got.StatusCode)
		}
	}
}

// Every answer has the headers that keep others from using it, also one that says no.
func TestHeaders(t *testing.T) {
	h := guarded(New(Settings{Listen: "127.0.0.1:9118", Tokens: tokens(t, bare), TLS: true}, refuse))
	for _, r := range []*http.Request{request("GET", "localhost", "/", ""), request("GET", "evil.example", "/", ""), request("PUT", "localhost", "/", "")} {
		got := answer(h, r).Header
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'self'",
			"X-Frame-Options":         "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Strict-Transport-Security": "max-age=31536000", "Access-Control-Allow-Origin": "",
		} {
			if got.Get(name) != want {
				t.Errorf("%s is %q", name, got.Get(name))
			}
		}
	}
	if c := logIn(t, h, bare); !c.Secure || c.Name != "__Secure-rlminit" {
		t.Errorf("under TLS the cookie is %v", c)
	}
}

// Behind a proxy, a cookie goes over TLS alone, unless the browser is on this very machine.
func TestSecureBehind(t *testing.T) {
	g := New(Settings{Listen: "0.0.0.0:9118", Tokens: tokens(t, bare), Behind: true, Hosts: []string{"box.example.org"}}, refuse)
	for _, of := range []struct {
		host, proto string
		want        bool
	}{
		{"box.example.org", "", true},
		{"box.example.org", "http", true},
		{"box.example.org", "https", true},
		{"192.0.2.1:9118", "", true},
		{"127.0.0.1:9118", "", false},
		{"localhost:80", "http", false},
		{"[::1]:80", "", false},
		{"localhost", "https", true},
	} {
		if got := g.secure(request("GET", of.host, "/", "", "X-Forwarded-Proto", of.proto)); got != of.want {
			t.Errorf("%v: %v", of, got)
		}
	}
}

// A file of tokens that is wrong is refused by its line, and no token is told.
func TestTokenFile(t *testing.T) {
	for text, fragment := range map[string]string{
		"":                                    "it has no token",
		"# none\n\n":                          "it has no token",
		"short":                               "line 1: the token has less than 20",
		bare + "\nanne tooshort":              "line 2: the token has less than 20",
		"anne " + annes + " tomorrow":         "line 1: the third word is not a time",
		"a b c d":                             "line 1: it has more than NAME TOKEN EXPIRES",
		"anne " + annes + "\xff":              "line 1: it is not UTF-8",
		strings.Repeat("x", 513):              "more than 512 bytes",
		strings.Repeat("n", 65) + " " + annes: "the name has more than 64",
		strings.Repeat(bare+"\n", 1001):       "more than 1000 tokens",
		strings.Repeat("#", fileMost+1):       "more than 1048576 bytes",
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := OpenTokens(path)
		if err == nil || !strings.Contains(err.Error(), fragment) || strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%.40q: %v; want %q", text, err, fragment)
		}
	}
	if _, err := OpenTokens("/dev/zero"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("/dev/zero: %v", err)
	}
}

// A token after wrong ones waits, longer and longer, few at a time, and where many addresses
// guess the first of each too; a right one does not count.
func TestWrongTokens(t *testing.T) {
	var s slowness
	now := time.Now()
	from := netip.MustParseAddr("192.0.2.1")
	last := -time.Second
	for range slowPerAddress {
		pause, ok := s.enter(from, now)
		if !ok || pause <= last {
			t.Errorf("a token waits %s after %s: %v", pause, last, ok)
		}
		last = pause
	}
	if _, ok := s.enter(from, now); ok {
		t.Error("an address may have any number waiting")
	}
	for i := range slowInTotal - slowPerAddress {
		if pause, ok := s.enter(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), now); !ok || pause != 0 {
			t.Fatalf("the first of the %dth address waits %s: %v", i, pause, ok)
		}
	}
	if _, ok := s.enter(netip.MustParseAddr("192.0.2.2"), now); ok {
		t.Error("any number may wait in total")
	}
	s.leave(from, false)
	if pause, ok := s.enter(netip.MustParseAddr("192.0.2.2"), now); !ok || pause != slowFirst {
		t.Errorf("while many addresses guess, the first of another waits %s: %v", pause, ok)
	}
	if pause, ok := s.enter(from, now.Add(2*slowForgotten)); ok {
		t.Errorf("more wait than may: %s", pause)
	}

	s = slowness{}
	for i := range 3 * slowRemembered {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		if _, ok := s.enter(a, now); !ok {
			t.Fatalf("the %dth address is refused", i)
		}
		s.leave(a, false)
	}
	if len(s.by) > slowRemembered {
		t.Errorf("%d addresses are remembered", len(s.by))
	}

	s = slowness{}
	for range 10 {
		if pause, ok := s.enter(from, now); !ok || pause != 0 {
			t.Errorf("after right tokens one waits %s: %v", pause, ok)
		}
		s.leave(from, true)
	}
}

// Whoever does not wait for the answer guesses no faster: of any number of tokens, by clients
// that hang up at once, as many are looked at as if they had waited. The right one is not
// found out so either.
func TestClientHangsUp(t *testing.T) {
	g := New(Settings{Listen: "127.0.0.1:9118", Tokens: tokens(t, bare)}, refuse)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	looked := 0
	began := time.Now()
	for range 2000 {
		r := request("POST", "localhost:9118", "/login", "token=wrong").WithContext(ctx)
		if _, outcome, _ := g.LogIn(httptest.NewRecorder(), r); outcome == WrongToken {
			looked++
		}
	}
	if took := time.Since(began); looked > 1+int(took/slowFirst) {
		t.Errorf("in %s %d tokens were looked at", took, looked)
	}
	g.wrong.mu.Lock()
	waiting := g.wrong.waiting
	g.wrong.mu.Unlock()
	if waiting == 0 && time.Since(began) < slowFirst {
		t.Error("no token waits any more, though its time is not over")
	}
}

// Behind a proxy, an address is what the proxy has added; a client cannot pass for another.
func TestFrom(t *testing.T) {
	for _, of := range []struct {
		behind          bool
		remote, forward string
		want            string
	}{
		{false, "192.0.2.1:5", "203.0.113.9", "192.0.2.1"},
		{true, "127.0.0.1:5", "203.0.113.9, 198.51.100.7", "198.51.100.7"},
		{true, "127.0.0.1:5", "198.51.100.7, rubbish", "127.0.0.1"},
		{true, "127.0.0.1:5", "", "127.0.0.1"},
		{false, "[2001:db8:1:2:3:4:5:6]:5", "", "2001:db8:1:2::"},
		{false, "@", "", "invalid IP"},
	} {
		g := New(Settings{Listen: "127.0.0.1:9118", Tokens: tokens(t, bare), Behind: of.behind}, refuse)
		r := request("GET", "localhost", "/", "", "X-Forwarded-For", of.forward)
		r.RemoteAddr = of.remote
		if got := g.from(r).String(); got != of.want {
			t.Errorf("%v: %s", of, got)
		}
	}
}

// After a login one is led to a page of ours, whatever was asked for.
func TestNext(t *testing.T) {
	for asked, want := range map[string]string{
		"/service/a?q=b": "/service/a?q=b", "/": "/", "": "/", "//evil.example": "/", "/\\evil.example": "/", "https://evil.example": "/",
		"javascript:alert(1)": "/", "evil": "/", "/login?next=/login": "/", "/s/KEY/service/a?q=b": "/service/a?q=b", "/s/KEY": "/", "/s/KEY//evil.example": "/", "/s/KEY/login": "/", "/a\r\nSet-Cookie: x": "/", "/\t/evil.example": "/", "/a?token=x&b=c": "/a",
	} {
		if got := Next(asked); got != want {
			t.Errorf("%q leads to %q", asked, got)
		}
	}
}

// Where no tokens are needed, who reaches the page is in; a form of elsewhere is refused all
// the same.
func TestOpen(t *testing.T) {
	g := New(Settings{Listen: "unix:/run/page.sock"}, refuse)
	h := guarded(g)
	if got := answer(h, request("GET", "localhost", "/", "")); got.StatusCode != http.StatusOK {
		t.Errorf("a page is answered with %d", got.StatusCode)
	}
	if got := answer(h, request("POST", "localhost", "/do", "csrf=x")); got.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign form is answered with %d", got.StatusCode)
	}
	form := url.Values{"csrf": {g.Enter(request("GET", "localhost", "/", ""), "").CSRF()}}.Encode()
	if got := answer(h, request("POST", "localhost", "/do", form)); got.StatusCode != http.StatusOK {
		t.Errorf("its own form is answered with %d", got.StatusCode)
	}
}

package page

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
	"rlminit/tests/ns"
)

// certificate makes one for a name, and its key, as files of the supervisor's.
func certificate(t *testing.T, name string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(chain)
	cert, key = secretFile(t, string(chain)), secretFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	for _, file := range []string{cert, key} {
		if err := os.Chown(file, box.Supervisor.UID, box.Supervisor.GID); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, pool
}

// Off loopback the page speaks TLS, and HTTP/2; its cookie goes nowhere else.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificate(t, "box.example.org")
	tokens := secretFile(t, annesToken)
	if err := os.Chown(tokens, box.Supervisor.UID, box.Supervisor.GID); err != nil {
		t.Fatal(err)
	}
	page := fmt.Sprintf("page: {listen: \"0.0.0.0:9118\", token: {file: %s}, tls: {cert: %s, key: %s}, hosts: [box.example.org]}\n", tokens, cert, key)
	s := &site{Box: ns.Start(t, box.Spec{Config: contract.Config(page)})}
	s.Await("page", "running")
	s.forward(t)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(context.Context, string, string) (net.Conn, error) { return s.dials.dial() },
	}
	defer transport.CloseIdleConnections()
	c := &http.Client{Jar: jar, Transport: transport, Timeout: long, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	const site = "https://box.example.org:9118"
	r, err := http.NewRequest(http.MethodPost, site+"/login", strings.NewReader(url.Values{"token": {annesToken}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", site)
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if cookies := response.Cookies(); response.StatusCode != http.StatusSeeOther || response.ProtoMajor != 2 || len(cookies) != 1 || !cookies[0].Secure || cookies[0].Name != "__Secure-rlminit" || cookies[0].Path != response.Header.Get("Location") || response.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("the login is answered with %s %s, %v", response.Proto, response.Status, cookies)
	}
	stream, err := c.Get(site + response.Header.Get("Location") + "live?view=overview")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	for lines := bufio.NewScanner(stream.Body); ; {
		if !lines.Scan() {
			t.Fatalf("the stream over TLS ends: %v", lines.Err())
		}
		if strings.Contains(lines.Text(), `id="s-page"`) {
			break
		}
	}
	plain, err := s.dials.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	fmt.Fprint(plain, "GET / HTTP/1.1\r\nHost: box.example.org\r\n\r\n")
	if answer, _ := io.ReadAll(plain); !strings.Contains(string(answer), "400 Bad Request") || strings.Contains(string(answer), "<html") {
		t.Errorf("without TLS it answers %q", answer)
	}
}

// On a socket, who may enter its directory needs no token, and nobody else comes in. An old
// socket is in nobody's way.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	s := &site{Box: ns.Start(t, box.Spec{Config: contract.Config(
		"page: {listen: \"unix:${RLMINIT_HOME}/page/page.sock\", allow: operate}\n",
		"dirs: [{path: page, owner: \"49998:49998\", mode: \"0750\"}]\n",
		"services: {web: {command: [nasty, sleep]}}\n")})}
	s.Await("page", "running")
	path := filepath.Join(s.Home(), "page/page.sock")
	c := &http.Client{Timeout: long, Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	get := func() string {
		t.Helper()
		response, err := c.Get("http://localhost:9118/do?verb=stop&name=web")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.Status + string(text)
	}
	if text := get(); !strings.HasPrefix(text, "200") || !strings.Contains(text, "Stop web") || strings.Contains(text, "Log out") {
		t.Errorf("it answers %s", text)
	}
	if r := s.As(box.Service, "bash", "-c", "exec 3<>/dev/null; cat "+path); r.Code == 0 || !strings.Contains(r.Err, "Permission denied") {
		t.Errorf("a service's user comes to the socket: %s", r)
	}
	pid := *s.Await("page", "running").PID
	s.Shell(box.Root, fmt.Sprintf("kill -KILL %d", pid))
	s.AwaitThat("page", "runs again", func(s control.Service) bool { return s.State == "running" && s.PID != nil && *s.PID != pid })
	if text := get(); !strings.HasPrefix(text, "200") {
		t.Errorf("after it was killed it answers %s", text)
	}
}

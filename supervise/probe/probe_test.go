package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := TCP(t.Context(), l.Addr().String()); err != nil {
		t.Errorf("a listener: %v", err)
	}
	l.Close()
	if err := TCP(t.Context(), l.Addr().String()); err == nil || err.Error() != "connection refused" {
		t.Errorf("a closed port: %v, want connection refused", err)
	}
	path := filepath.Join(t.TempDir(), "s")
	if err := TCP(t.Context(), "unix:"+path); err == nil || err.Error() != "no such file or directory" {
		t.Errorf("no socket: %v", err)
	}
	u, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if err := TCP(t.Context(), "unix:"+path); err != nil {
		t.Errorf("a unix socket: %v", err)
	}
}

func TestTCPEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := TCP(ctx, "127.0.0.1:1"); err == nil || !strings.HasPrefix(err.Error(), "no answer within") {
		t.Errorf("past its deadline: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := TCP(ctx, "127.0.0.1:1"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestHTTP(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Error("followed to another host")
	}))
	defer elsewhere.Close()
	var hops atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		var code int
		fmt.Sscan(r.PathValue("code"), &code)
		w.WriteHeader(code)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/status/503", http.StatusFound)
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	})
	mux.HandleFunc("/circle", func(w http.ResponseWriter, r *http.Request) {
		hops.Add(1)
		http.Redirect(w, r, "/circle", http.StatusFound)
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Write([]byte("half"))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]string{
		"/status/200": "", "/status/204": "", "/status/304": "", "/status/404": "status 404", "/status/503": "status 503",
		"/moved": "status 503", "/away": "", "/circle": "", "/endless": "",
		"/cut": "connection closed before the answer was complete",
	} {
		err := HTTP(t.Context(), server.URL+path)
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && got != want {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if n := hops.Load(); n != maxRedirects+1 {
		t.Errorf("%d requests in a circle of redirects, want %d", n, maxRedirects+1)
	}
}

func TestHTTPOverTLSWithAnyCertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	if err := HTTP(t.Context(), server.URL); err != nil {
		t.Error(err)
	}
}

// A service that accepts and then says nothing is not well.
func TestHTTPAgainstAHungService(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := HTTP(ctx, "http://"+l.Addr().String()); err == nil || !strings.HasPrefix(err.Error(), "no answer within") {
		t.Errorf("%v", err)
	}
}

func TestHTTPAgainstRubbish(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("\x1b[2Jrubbish " + strings.Repeat("x", 5000) + "\r\n\r\n"))
			c.Close()
		}
	}()
	err = HTTP(t.Context(), "http://"+l.Addr().String())
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\n") || len(err.Error()) > maxReason+10 {
		t.Errorf("%q", err)
	}
}

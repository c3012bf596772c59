package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"rlminit/control"
)

func TestServe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go Serve(listener, func() (Snapshot, error) { return some(), nil })
	url := "http://" + listener.Addr().String()
	get := func(path, accept string) (int, string, string) {
		t.Helper()
		r, _ := http.NewRequest(http.MethodGet, url+path, nil)
		r.Header.Set("Accept", accept)
		answer, err := (&http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, answer.Header.Get("Content-Type"), string(body)
	}
	if code, kind, body := get("/metrics", OpenMetrics); code != 200 || kind != OpenMetrics || !strings.HasSuffix(body, "# EOF\n") {
		t.Errorf("%d %s %s", code, kind, body)
	}
	if code, kind, _ := get("/metrics", "*/*"); code != 200 || kind != Prometheus {
		t.Errorf("%d %s", code, kind)
	}
	if code, _, _ := get("/", ""); code != 404 {
		t.Errorf("%d", code)
	}
}

// Those who connect and say nothing, or ask and never read, keep nobody out.
func TestSlowScrapers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	large := some()
	for i := range 2000 { // more than a socket takes whose other end does not read
		large.Services = append(large.Services, control.Service{Name: fmt.Sprintf("service-%d", i), State: "running"})
	}
	go Serve(listener, func() (Snapshot, error) { return large, nil })
	for i := range scrapers + 8 {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.(*net.TCPConn).SetReadBuffer(4096)
		if i%2 == 0 {
			io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
		} else {
			io.WriteString(conn, "GET /me")
		}
		answer, err := http.Get("http://" + listener.Addr().String() + "/metrics")
		if err != nil {
			t.Fatalf("with %d beside it: %v", i+1, err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != 200 || !bytes.Contains(body, []byte("service-1999")) {
			t.Fatalf("with %d beside it: %d, %d bytes, %v", i+1, answer.StatusCode, len(body), err)
		}
		http.DefaultClient.CloseIdleConnections()
	}
}

func TestServeWithoutSnapshot(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go Serve(listener, func() (Snapshot, error) { return Snapshot{}, errors.New("no /proc") })
	answer, err := http.Get("http://" + listener.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, _ := io.ReadAll(answer.Body); answer.StatusCode != 503 || !strings.Contains(string(body), "no /proc") {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
}

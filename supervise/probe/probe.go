package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"rlminit/internal/document"
)

const (
	// maxRedirects is how many are followed, and only to the same host: whether
	// some other one is well says nothing of the service.
	maxRedirects = 3
	// maxHeader and maxBody bound what is read of an answer, in bytes. The body is
	// read so that a service which hangs in the middle of it does not pass.
	maxHeader = 64 << 10
	maxBody   = 64 << 10
	// maxReason bounds a reason, in bytes.
	maxReason = 200
)

// TCP reports whether address, host:port or unix:/path, accepts a connection
// before ctx ends. The connection is closed at once, by a reset where it is TCP,
// so that no TIME_WAIT is left by each probe.
func TCP(ctx context.Context, address string) error {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	start := time.Now()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return reason(ctx, err, start)
	}
	if t, ok := conn.(*net.TCPConn); ok {
		// If it cannot be set the connection is closed in the usual way.
		_ = t.SetLinger(0)
	}
	// What was to be known is known; an error here says nothing of the service.
	_ = conn.Close()
	return nil
}

// HTTP reports whether url answers 2xx or 3xx before ctx ends. Redirects within
// the same host are followed up to three times. Certificates are not checked:
// the question is whether it answers, and most of them name no 127.0.0.1. The
// proxy variables of the environment are not used.
func HTTP(ctx context.Context, url string) error {
	transport := &http.Transport{
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
	}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: stay}

	start := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return reason(ctx, err, start)
	}
	request.Header.Set("User-Agent", "rlminit")
	request.Header.Set("Accept", "*/*")
	answer, err := client.Do(request)
	if err != nil {
		return reason(ctx, err, start)
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 399 {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, maxBody)); err != nil {
		return reason(ctx, err, start)
	}
	return nil
}

// stay ends the following of redirects: the last answer then counts, and a 3xx
// is a good one.
func stay(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects || next.URL.Host != via[0].URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// reason puts an error in a few words.
func reason(ctx context.Context, err error, start time.Time) error {
	var dns *net.DNSError
	var no syscall.Errno
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled):
		return context.Canceled
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no answer within %s", time.Since(start).Round(100*time.Millisecond))
	case errors.As(err, &dns):
		return fmt.Errorf("host %s not found", plain(dns.Name))
	case errors.As(err, &no):
		return errors.New(no.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("connection closed before the answer was complete")
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return errors.New(plain(err.Error()))
}

// plain makes text fit for one line of a terminal: part of it may come from the
// service.
func plain(text string) string {
	text = document.Printable(strings.ToValidUTF8(text, "?"), ' ')
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}

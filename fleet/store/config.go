// Package store is what a fleet keeps in etcd: the keys, how they are read and watched, and
// the transactions by which a member gets a lease, claims a profile and lets it go.
//
// It decides nothing. What is said here to have happened has happened: an answer that was
// lost is an error of its own, ErrUnsure.
package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Config says where etcd is, and whose keys are meant.
type Config struct {
	Fleet     string
	Endpoints []string

	CA, Cert, Key string // files; "": none
	User          string
	Password      string

	// Timeout bounds each request; 0: 5 s.
	Timeout time.Duration
	// Lease is that of a session: what renews it is given a fifth of it, so that there is
	// time to ask another endpoint. 0: as any other request.
	Lease time.Duration
}

// Store is a fleet's keys in one etcd.
type Store struct {
	client  *clientv3.Client
	prefix  string
	cluster uint64
	timeout time.Duration
	renew   time.Duration // bounds a renewal

	// One endpoint is asked at a time. A request that it does not answer has the next one
	// asked from then on: with all of them in turn, one that hangs would keep its share of
	// the requests waiting, and with them the renewals.
	mutex     sync.Mutex
	endpoints []string
	at        int
	asked     Asked
}

// Asked is what was asked of etcd, and how long it took. What has failed has had no answer,
// or one that the request could not be carried out.
type Asked struct {
	Requests, Failed int64
	Took             time.Duration
}

// Asked is all requests so far, but for the watch of changes.
func (s *Store) Asked() Asked {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.asked
}

// begin bounds a request to etcd. over is called with what came of it.
func (s *Store) begin(ctx context.Context, within time.Duration) (bounded context.Context, over func(*error)) {
	bounded, cancel := context.WithTimeout(ctx, within)
	s.mutex.Lock()
	asked := s.at
	s.mutex.Unlock()
	begun := time.Now()
	return bounded, func(err *error) {
		failed := *err != nil && ctx.Err() == nil && !errors.Is(*err, ErrTaken) && !errors.Is(*err, ErrExpired)
		silent := *err != nil && (bounded.Err() != nil || unavailable(*err)) && ctx.Err() == nil
		cancel()
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.asked.Requests, s.asked.Took = s.asked.Requests+1, s.asked.Took+time.Since(begun)
		if failed {
			s.asked.Failed++
		}
		if silent && s.at == asked && len(s.endpoints) > 1 { // else another request has moved on already
			s.at = (s.at + 1) % len(s.endpoints)
			s.client.SetEndpoints(s.endpoints[s.at])
		}
	}
}

// oldest are the versions of etcd from which on a server asks, before it renews a lease,
// whether it still leads, and takes no notice of what an old leader wants to end: older
// ones say that a lease was renewed which another member has ended.
var oldest = [3]int{3, 5, 11}

// Open connects to etcd and refuses one that is too old. It waits until one of the
// endpoints answers, or ctx is done.
func Open(ctx context.Context, c Config) (*Store, error) {
	conf := clientv3.Config{
		Endpoints: c.Endpoints, Username: c.User, Password: c.Password,
		DialTimeout: 5 * time.Second, DialKeepAliveTime: pings, DialKeepAliveTimeout: 3 * time.Second,
		Logger: zap.NewNop(),
	}
	var err error
	if conf.TLS, err = c.tls(); err != nil {
		return nil, err
	}
	client, err := clientv3.New(conf)
	if err != nil {
		return nil, fmt.Errorf("cannot use etcd: %w", because(ctx, c.Endpoints[0], conf.TLS, err))
	}
	s := &Store{client: client, prefix: "/rlminit/" + c.Fleet + "/", timeout: c.Timeout, endpoints: c.Endpoints}
	if s.timeout == 0 {
		s.timeout = 5 * time.Second
	}
	if s.renew = s.timeout; c.Lease > 0 {
		s.renew = min(s.timeout, c.Lease/5)
	}
	if at, err := s.check(ctx, c.Endpoints); err != nil {
		client.Close()
		return nil, because(ctx, at, conf.TLS, err)
	}
	client.SetEndpoints(s.endpoints[s.at])
	return s, nil
}

// unavailable tells whether an endpoint has said, or the connection to it, that it can do
// nothing now.
func unavailable(err error) bool {
	if of, is := errors.AsType[rpctypes.EtcdError](err); is {
		return of.Code() == codes.Unavailable
	}
	return status.Code(err) == codes.Unavailable
}

// Close ends the connection.
func (s *Store) Close() error { return s.client.Close() }

// Cluster is the id of the etcd cluster.
func (s *Store) Cluster() string { return fmt.Sprintf("%x", s.cluster) }

func (c Config) tls() (*tls.Config, error) {
	if c.CA == "" && c.Cert == "" {
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, wrong("cannot read etcd.tls.ca: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, wrong("cannot use etcd.tls.ca: there is no certificate in %s", c.CA)
		}
	}
	if c.Cert != "" {
		// Who renews the files need not restart the agent: they are read for each connection.
		load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
			if err != nil {
				return nil, wrong("cannot use etcd.tls.cert and etcd.tls.key: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(nil); err != nil {
			return nil, err
		}
		conf.GetClientCertificate = load
	}
	return conf, nil
}

// because is the error of a connection to an endpoint, if there is one: the client says no
// more of it than that time has run out.
func because(ctx context.Context, endpoint string, conf *tls.Config, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && !unavailable(err) {
		return err
	}
	at, parsed := url.Parse(endpoint)
	if parsed != nil || at.Host == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	dial := (&net.Dialer{}).DialContext
	if at.Scheme == "https" {
		dial = (&tls.Dialer{Config: conf}).DialContext
	}
	connection, why := dial(ctx, "tcp", at.Host)
	if why != nil {
		return fmt.Errorf("etcd at %s does not answer: %w", endpoint, why)
	}
	connection.Close()
	return err
}

// check asks every endpoint for its version. Those that do not answer are let be, as long
// as one does: they may be down just now. An error is of the endpoint at.
func (s *Store) check(ctx context.Context, endpoints []string) (at string, err error) {
	answered := false
	for i, endpoint := range endpoints {
		bounded, cancel := context.WithTimeout(ctx, s.timeout)
		is, asked := s.client.Status(bounded, endpoint)
		cancel()
		if asked != nil {
			at, err = endpoint, fmt.Errorf("etcd at %s does not answer: %w", endpoint, asked)
			continue
		}
		if err := checkVersion(endpoint, is.Version); err != nil {
			return endpoint, err
		}
		if answered && is.Header.ClusterId != s.cluster {
			return endpoint, wrong("the etcd at %s is of another cluster than the others; correct etcd.endpoints", endpoint)
		}
		if !answered || rand.IntN(len(endpoints)) == 0 { // members do not all begin with the same one
			s.at = i
		}
		s.cluster, answered = is.Header.ClusterId, true
	}
	if answered {
		return "", nil
	}
	return at, err
}

// pings are sent so often on a connection that says nothing: etcd ends one that has them
// more often than every 5 s (--grpc-keepalive-min-time), or that has them and no stream.
const pings = 10 * time.Second

// wrongError is what does not become right by itself.
type wrongError struct{ error }

func wrong(format string, args ...any) error { return wrongError{fmt.Errorf(format, args...)} }

// Wrong tells whether an error of Open is one that does not become right by itself.
func Wrong(err error) bool { return errors.As(err, new(wrongError)) }

func checkVersion(at, version string) error {
	numbers, err := parseVersion(version)
	if err != nil {
		return wrong("cannot understand the version %q of etcd at %s", version, at)
	}
	for i := range oldest {
		if numbers[i] != oldest[i] {
			if numbers[i] < oldest[i] {
				return wrong("etcd at %s is %s: it renews leases without asking whether it still leads; use 3.5.11, 3.6.0 or later", at, version)
			}
			return nil
		}
	}
	return nil
}

func parseVersion(version string) (out [3]int, err error) {
	version, _, _ = strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	if len(parts) != 3 {
		return out, errors.New("it has not three parts")
	}
	for i, part := range parts {
		if out[i], err = strconv.Atoi(part); err != nil {
			return out, err
		}
	}
	return out, nil
}

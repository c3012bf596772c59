// Package store is what a fleet keeps in etcd: the keys, how they are read and watched, and
// the transactions by which a member gets a lease, claims a profile and lets it go.
//
// It decides nothing. What is said here to have happened has happened: an answer that was
// lost is an error of its own, ErrUnsure.
package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rlminit/fleet/agent"
)

// Config says where etcd is, and whose keys are meant.
type Config struct {
	Fleet     string
	Endpoints []string

	CA, Cert, Key string // files; "": none
	User          string
	Password      string

	// Ignored is told of keys with names that nothing can have; nil: nobody is.
	Ignored func(text string)

	// Timeout bounds each request; 0: 5 s.
	Timeout time.Duration
	// Lease is that of a session: what it waits for, such as a renewal or a claim, is given a
	// fifth of it, so that there is time to ask another endpoint. 0: as any other request.
	Lease time.Duration
}

// Store is a fleet's keys in one etcd.
type Store struct {
	client  *clientv3.Client
	prefix  string
	cluster uint64
	timeout time.Duration
	brief   time.Duration // bounds what a session waits for

	confirmed atomic.Int64 // the revision of the last beat that was confirmed: the watch is to tell it

	// One endpoint is asked at a time. A request that it does not answer has the next one
	// asked from then on: with all of them in turn, one that hangs would keep its share of
	// the requests waiting, and with them the renewals.
	mutex     sync.Mutex
	endpoints []string
	at        int
	asked     Asked
	silent    []string

	odd  map[string]bool // keys that are ignored, and that tell was told of
	tell func(string)
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
		if errors.Is(*err, rpctypes.ErrNoSpace) {
			*err = fmt.Errorf("%w; %s", *err, agent.Remedy)
		}
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

// oldest is the version of etcd from which on a server that leads no more seldom ends leases.
// An older one does so each time. That is safe (fleet/SAFETY.md, R3), and stops profiles in vain.
var oldest = semver.Version{Major: 3, Minor: 5, Patch: 11}

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
	s := &Store{client: client, prefix: "/rlminit/" + c.Fleet + "/", timeout: cmp.Or(c.Timeout, 5*time.Second), endpoints: c.Endpoints, odd: map[string]bool{}, tell: c.Ignored}
	if s.brief = s.timeout; c.Lease > 0 {
		s.brief = min(s.timeout, c.Lease/5)
	}
	if at, err := s.check(ctx); err != nil {
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
	if at.Scheme == "https" && (errors.Is(why, io.EOF) || errors.As(why, new(tls.RecordHeaderError))) {
		return fmt.Errorf("etcd at %s does not speak TLS; write http:// if it is to be so", endpoint)
	}
	if why != nil {
		return fmt.Errorf("etcd at %s does not answer: %w", endpoint, why)
	}
	connection.Close()
	return err
}

// answer is what an endpoint says of itself.
type answer struct {
	at  int
	is  *clientv3.StatusResponse
	err error
}

// ask asks all endpoints how they are, at once, within a time. Once one has answered the
// others have a second more.
func (s *Store) ask(ctx context.Context, within time.Duration) (out []answer) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	answers := make(chan answer)
	for i, endpoint := range s.endpoints {
		go func() {
			is, err := s.client.Status(ctx, endpoint)
			answers <- answer{i, is, err}
		}()
	}
	for range s.endpoints {
		a := <-answers
		if out = append(out, a); a.err == nil {
			time.AfterFunc(time.Second, cancel)
		}
	}
	return out
}

// check asks every endpoint for its version. Those that do not answer are let be, as long
// as one does: they may be down just now. An error is of the endpoint at.
func (s *Store) check(ctx context.Context) (at string, err error) {
	var answered []int
	for _, a := range s.ask(ctx, s.timeout) {
		endpoint := s.endpoints[a.at]
		if a.err != nil {
			at, err = endpoint, fmt.Errorf("etcd at %s does not answer: %w", endpoint, a.err)
			s.silent = append(s.silent, endpoint)
			continue
		}
		if err := checkVersion(endpoint, a.is.Version); err != nil {
			return endpoint, err
		}
		if len(answered) > 0 && a.is.Header.ClusterId != s.cluster {
			return endpoint, wrong("the etcd at %s is of another cluster than the others; correct etcd.endpoints", endpoint)
		}
		s.cluster, answered = a.is.Header.ClusterId, append(answered, a.at)
	}
	if len(answered) == 0 {
		return at, err
	}
	s.at = answered[rand.IntN(len(answered))] // members do not all begin with the same one
	return "", nil
}

// Silent is the endpoints that did not answer when Open asked.
func (s *Store) Silent() []string { return s.silent }

// quorum says that etcd has none, if it is so, of a request that had no answer.
func (s *Store) quorum(ctx context.Context, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && !unavailable(err) {
		return err
	}
	there := slices.DeleteFunc(s.ask(context.WithoutCancel(ctx), time.Second), func(a answer) bool { return a.err != nil })
	if len(there) == 0 || slices.ContainsFunc(there, func(a answer) bool { return a.is.Leader != 0 }) {
		return err
	}
	return fmt.Errorf("etcd has no quorum: %d of %d endpoints answer, and they have no leader", len(there), len(s.endpoints))
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
	is, err := semver.NewVersion(version)
	if err != nil {
		return wrong("cannot understand the version %q of etcd at %s", version, at)
	}
	if is.PreRelease = ""; is.LessThan(oldest) {
		return wrong("etcd at %s is %s, which ends leases of members that live after each change of its leader; use 3.5.11, 3.6.0 or later", at, version)
	}
	return nil
}

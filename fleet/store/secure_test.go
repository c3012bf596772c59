package store

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"rlminit/fleet/agent"
	"rlminit/fleet/test/cluster"
)

// authority signs certificates.
type authority struct {
	*testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{T: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// sign writes NAME.crt and NAME.key, and replaces those that are there.
func (a *authority) sign(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	a.n++
	c.SerialNumber, c.Subject = big.NewInt(a.n), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	a.must(err)
	secret, err := x509.MarshalECPrivateKey(key)
	a.must(err)
	a.must(os.WriteFile(a.path(name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	a.must(os.WriteFile(a.path(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
	made, err := x509.ParseCertificate(der)
	a.must(err)
	return made, key
}

func (a *authority) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// secured starts etcd with TLS in both directions, users, and tokens that end after 2 s.
// The user fleet may use the keys of the fleet f and no others.
func secured(a *authority) (endpoint string) {
	a.sign("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	a.sign("member", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	conf, err := Config{CA: a.path("ca.crt"), Cert: a.path("member.crt"), Key: a.path("member.key")}.tls()
	a.must(err)
	c := cluster.Secured(a.T, 1, conf, "--cert-file", a.path("server.crt"), "--key-file", a.path("server.key"),
		"--client-cert-auth", "--trusted-ca-file", a.path("ca.crt"), "--auth-token-ttl", "2")
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), TLS: conf})
	a.must(err)
	defer client.Close()
	ctx := a.Context()
	for _, do := range []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", "r"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.RoleAdd(ctx, "fleet"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "fleet", "/rlminit/f/", clientv3.GetPrefixRangeEnd("/rlminit/f/"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := client.UserAdd(ctx, "fleet", "p"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "fleet", "fleet"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		a.must(do())
	}
	return c.Endpoints()[0]
}

// An etcd with TLS and users does for a fleet all that one without does, also after its
// token has ended, and after its certificate was replaced. What is wrong is said at once.
func TestSecured(t *testing.T) {
	a := newAuthority(t)
	good := Config{Fleet: "f", Endpoints: []string{secured(a)}, CA: a.path("ca.crt"), Cert: a.path("member.crt"), Key: a.path("member.key"), User: "fleet", Password: "p", Timeout: 3 * time.Second}
	s, err := Open(t.Context(), good)
	a.must(err)
	defer s.Close()
	seen := make(chan agent.Change, 64)
	go s.Watch(t.Context(), func(changes []agent.Change, _ bool, _ int64) {
		for _, c := range changes {
			seen <- c
		}
	}, func(err error) { t.Logf("the watch: %v", err) })
	lease, _, err := s.Grant(t.Context(), "m", agent.Member{}, 60*time.Second)
	a.must(err)
	for round := range 3 {
		a.must(beat(s, "m", 2, lease))
		fence, err := s.Claim(t.Context(), "alice", "m", lease, 0, 0)
		a.must(err)
		a.must(s.Release(t.Context(), "alice", fence))
		await(t, seen, fence)
		if round == 0 {
			time.Sleep(5 * time.Second) // the token's time, and a bit
			a.sign("member", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		}
	}
	whole, _, err := s.Whole(t.Context())
	a.must(err)
	view := agent.NewView()
	view.Take(whole)
	if done, err := s.Evict(t.Context(), "m", lease, s.confirmed.Load(), view.Space); !done || err != nil {
		t.Errorf("the member is ended: %v, %v", done, err)
	}
	if _, err := s.Renew(t.Context(), "m", agent.Member{Weight: 2, TTL: int64(60 * time.Second)}, lease); !errors.Is(err, ErrExpired) {
		t.Errorf("a lease that was revoked: %v", err)
	}
	for what, c := range map[string]Config{
		"authentication failed": with(good, func(c *Config) { c.Password = "x" }),
		"permission denied":     with(good, func(c *Config) { c.Fleet = "g" }),
		"certificate":           with(good, func(c *Config) { c.CA = "" }),
		"there is no":           with(good, func(c *Config) { c.CA = a.path("member.key") }),
	} {
		began := time.Now()
		s, err := Open(t.Context(), c)
		if err == nil {
			_, _, err = s.Grant(t.Context(), "n", agent.Member{}, 60*time.Second)
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q is not in the error %v", what, err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%q was said after %s", what, took)
		}
		t.Logf("%v", err)
	}
}

func with(c Config, change func(*Config)) Config {
	change(&c)
	return c
}

// await waits until a claim has been seen.
func await(t *testing.T, seen <-chan agent.Change, fence int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		select {
		case c := <-seen:
			if o, is := c.Value.(*agent.Owner); is && o != nil && o.Fence == fence {
				return
			}
		case <-ctx.Done():
			t.Fatalf("the claim %d was not seen", fence)
		}
	}
}

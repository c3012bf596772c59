package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"rlminit/fleet/status"
	"rlminit/metrics"
)

// asked is what an agent answers.
type asked struct {
	*testing.T
	client *http.Client
	url    string
}

func at(t *testing.T, listen string) *asked {
	a := &asked{T: t, url: "http://" + listen, client: &http.Client{Timeout: 10 * time.Second}}
	if path, is := strings.CutPrefix(listen, "unix:"); is {
		a.url = "http://localhost"
		a.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}
	}
	return a
}

func (a *asked) get(path, host string) (code int, body string, header http.Header) {
	a.Helper()
	r, err := http.NewRequest(http.MethodGet, a.url+path, nil)
	if err != nil {
		a.Fatal(err)
	}
	r.Host = host
	answer, err := a.client.Do(r)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		a.Fatal(err)
	}
	return answer.StatusCode, string(text), answer.Header
}

// values are the samples of GET /metrics, by name and labels.
func (a *asked) values() map[string]float64 {
	a.Helper()
	_, body, _ := a.get("/metrics", "")
	all := map[string]float64{}
	for _, m := range regexp.MustCompile(`(?m)^(rlminit_fleet_\S+) (\S+)$`).FindAllStringSubmatch(body, -1) {
		value, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			a.Fatal(err)
		}
		all[m[1]] = value
	}
	return all
}

// until waits until all of these samples have these values.
func (a *asked) until(what string, want map[string]float64) map[string]float64 {
	a.Helper()
	for begun := time.Now(); ; <-time.After(100 * time.Millisecond) {
		have, wrong := a.values(), ""
		for name, value := range want {
			if got, there := have[name]; !there || got != value {
				wrong += fmt.Sprintf("\n%s is %v, not %v", name, got, value)
			}
		}
		if wrong == "" {
			return have
		}
		if time.Since(begun) > time.Minute {
			a.Fatalf("not within a minute: %s:%s", what, wrong)
		}
	}
}

// stored is data that keeps nothing; what is saved of bad fails.
type stored struct{}

func (stored) Restore(context.Context, string, int64, func(int64, int64)) (int64, error) {
	return 0, nil
}

func (stored) Save(_ context.Context, name string, _ int64, _ bool) (int64, error) {
	if name == "bad" {
		return 0, errors.New("the bucket is away")
	}
	return 1000, nil
}

// TestServe asks two members how the fleet is while its claims change.
func TestServe(t *testing.T) {
	f := newFleet(t, 1, 0)
	f.data = stored{}
	f.listen = map[string]string{"m0": free(t), "m1": "unix:" + filepath.Join(t.TempDir(), "m1.sock")}
	for _, name := range []string{"m0", "m1"} {
		f.boxes[name] = &pretended{name: name, all: f.all, runs: map[string]*gateway{}}
		f.run(name, t.TempDir())
	}
	m0, m1 := at(t, f.listen["m0"]), at(t, f.listen["m1"])
	m0.until("both are there", map[string]float64{`rlminit_fleet_members{state="live"}`: 2, `rlminit_fleet_profiles{state="running"}`: 0, "rlminit_fleet_member_weight": 1})
	const n = 6
	f.declare(n)
	f.eventually("all run", n, nil)
	have := m0.until("all are said to run", map[string]float64{`rlminit_fleet_profiles{state="running"}`: n, "rlminit_fleet_profiles_unplaced": 0})
	m1.until("and by the other", map[string]float64{`rlminit_fleet_profiles{state="running"}`: n})
	own, others := have[`rlminit_fleet_claims{phase="running"}`], m1.values()[`rlminit_fleet_claims{phase="running"}`]
	if own+others != n || have[`rlminit_fleet_claim_attempts_total{outcome="won"}`] != own {
		t.Errorf("m0 has %v, m1 has %v; m0 has won %v", own, others, have[`rlminit_fleet_claim_attempts_total{outcome="won"}`])
	}
	if have["rlminit_fleet_deadline_seconds"] <= 0 || have["rlminit_fleet_deadline_seconds"] > lease.Seconds() || have["rlminit_fleet_revision"] == 0 ||
		have["rlminit_fleet_etcd_request_seconds_count"] == 0 || have["rlminit_fleet_etcd_request_seconds_sum"] <= 0 {
		t.Errorf("it says %v", have)
	}
	// One that nobody takes.
	if _, _, err := f.store.Declare(t.Context(), "odd", `{"labels":{"zone":"nowhere"}}`, 0); err != nil {
		t.Fatal(err)
	}
	m1.until("one has no place", map[string]float64{`rlminit_fleet_profiles{state="waiting"}`: 1, "rlminit_fleet_profiles_unplaced": 1})
	f.must(f.store.Drain(t.Context(), "m0", n))
	f.eventually("m0 is empty", n, func(_, at string) bool { return at == "m1" })
	drained := map[string]float64{
		`rlminit_fleet_claims{phase="running"}`: 0, `rlminit_fleet_profiles{state="running"}`: n, `rlminit_fleet_members{state="drained"}`: 1, `rlminit_fleet_members{state="live"}`: 1,
		"rlminit_fleet_data_save_seconds_count": own, "rlminit_fleet_data_saved_bytes_total": 1000 * own, "rlminit_fleet_data_restore_failures_total": 0,
	}
	if have = m0.until("m0 has none", drained); own > 0 && have["rlminit_fleet_data_last_save_timestamp_seconds"] < float64(time.Now().Add(-time.Hour).Unix()) {
		t.Errorf("it says %v", have)
	}
	m1.until("m1 has all", map[string]float64{`rlminit_fleet_claims{phase="running"}`: n})
	m0.lists(n)
	m0.promtool()
	m0.silent(f)
}

// lists looks at what is told as JSON, and to whom.
func (a *asked) lists(n int) {
	a.Helper()
	var profiles []status.Profile
	code, body, header := a.get("/status", "")
	if err := json.Unmarshal([]byte(body), &profiles); code != 200 || err != nil || len(profiles) != n+1 || header.Get("Rlminit-Trouble") != "" {
		a.Fatalf("%d %v %v %s", code, err, header, body)
	}
	for _, p := range profiles {
		if p.Name == "odd" && (p.State != "waiting" || !strings.HasPrefix(p.Why, "no member takes it: ")) || p.Name != "odd" && (p.State != "running" || p.Owner != "m1" || p.Fence == 0) {
			a.Errorf("%+v", p)
		}
	}
	var members []status.Member
	if code, body, _ := a.get("/members", ""); code != 200 || json.Unmarshal([]byte(body), &members) != nil || len(members) != 2 || members[0].State != "drained" || members[1].Profiles != n {
		a.Errorf("%d %s", code, body)
	}
	for host, want := range map[string]int{"evil.example.org": 421, "evil.example.org:9119": 421, "a.b@localhost": 421, "10.1.2.3:9119": 200, "[::1]:9119": 200, "box.localhost": 200, "box-1:9119": 200} {
		if code, body, _ := a.get("/status", host); code != want {
			a.Errorf("to %s it is answered with %d: %s", host, code, body)
		}
	}
	if answer, err := a.client.Post(a.url+"/status", "text/plain", nil); err != nil || answer.StatusCode != 405 {
		a.Errorf("a POST is answered with %v, %v", answer, err)
	}
	if code, _, _ := a.get("/", ""); code != 404 {
		a.Errorf("/ is answered with %d", code)
	}
}

// promtool has Prometheus' own tool look at the metrics.
func (a *asked) promtool() {
	a.Helper()
	_, body, header := a.get("/metrics", "")
	if header.Get("Content-Type") != metrics.Prometheus {
		a.Errorf("the metrics are %s", header.Get("Content-Type"))
	}
	if _, err := exec.LookPath("promtool"); err != nil {
		a.Log("promtool is not installed: the metrics are not checked by it")
		return
	}
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(body)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		a.Errorf("promtool: %v\n%s\n%s", err, out, body)
	}
}

// silent takes etcd away: the agent answers, and says so.
func (a *asked) silent(f *fleet) {
	a.Helper()
	f.must(f.etcd.Nodes[0].Pause())
	eventually := func(what string, right func(have map[string]float64, trouble string) bool) {
		a.Helper()
		for begun := time.Now(); ; <-time.After(100 * time.Millisecond) {
			code, _, header := a.get("/status", "")
			have := a.values()
			if right(have, header.Get("Rlminit-Trouble")) {
				return
			}
			if time.Since(begun) > time.Minute {
				a.Fatalf("not within a minute: %s: %d %v %v", what, code, header, have)
			}
		}
	}
	eventually("it is said that etcd does not answer", func(have map[string]float64, trouble string) bool {
		return trouble != "" && have["rlminit_fleet_deadline_seconds"] == 0 && have["rlminit_fleet_keepalive_failures_total"] > 0 && have["rlminit_fleet_etcd_request_failures_total"] > 0
	})
	f.must(f.etcd.Nodes[0].Resume())
	eventually("and that it does again", func(have map[string]float64, trouble string) bool {
		return trouble == "" && have["rlminit_fleet_deadline_seconds"] > 0
	})
}

// free is an address that nobody listens on.
func free(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// What a save or a restore came to is counted; a restore of nothing is none.
func TestTransfers(t *testing.T) {
	m := &Member{}
	for name, want := range map[string]status.Transfers{"good": {Done: 1, Bytes: 1000}, "bad": {Failed: 1}} {
		m.counts.Saves = status.Transfers{}
		err := m.transfer(&m.counts.Saves, func() (int64, error) { return stored{}.Save(t.Context(), name, 0, false) })
		got := m.counts.Saves
		if (err != nil) != (want.Failed > 0) || got.Done != want.Done || got.Failed != want.Failed || got.Bytes != want.Bytes || got.Last.IsZero() != (want.Done == 0) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if err := m.transfer(&m.counts.Restores, func() (int64, error) { return 0, nil }); err != nil || m.counts.Restores != (status.Transfers{}) {
		t.Errorf("%+v, %v", m.counts.Restores, err)
	}
}

// A socket that an agent before has left is taken over; one that is in use is not.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.sock")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if _, err := listen("unix:" + path); err == nil || !strings.Contains(err.Error(), "somebody listens") {
		t.Errorf("a socket in use: %v", err)
	}
	left.Close()
	l, err := listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

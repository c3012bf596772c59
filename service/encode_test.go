package service

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/schedule"
	"rlminit/isolate"
)

// random makes definitions that Decode could have made.
type random struct{ *rand.Rand }

func (r random) maybe() bool { return r.IntN(2) == 0 }

// text is a string with everything that YAML, a shell or an expansion could
// take for its own.
func (r random) text() string {
	parts := []string{
		"a", " ", "$", "${HOME}", "$$", "${", "}", "\"", "'", "\\", "\n", "\t", "\r", ":", "#", "- ", "[", "{", "&x", "*x", "!", "|", ">", "%",
		"\u0085", "\u2028", "\ufeff", "\ufffd", "é", "日本", "🙂", "\x1b", "\x7f", "null", "~", "true", "08", "1e3", "---", "?",
	}
	var b strings.Builder
	for range r.IntN(8) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

func (r random) texts() []string {
	var list []string
	for range r.IntN(4) {
		list = append(list, "x"+r.text())
	}
	return list
}

func (r random) words(pool ...string) []string {
	var list []string
	for _, w := range pool {
		if r.maybe() {
			list = append(list, w)
		}
	}
	return list
}

func (r random) duration() time.Duration {
	return time.Duration(1+r.IntN(1_000_000)) * time.Millisecond
}

func (r random) ports() *isolate.Ports {
	switch r.IntN(3) {
	case 0:
		return &isolate.Ports{Any: true}
	case 1:
		low := r.IntN(65536)
		return &isolate.Ports{Ranges: []isolate.Range{{Low: low, High: min(low+r.IntN(100), 65535)}, {Low: 80, High: 80}}}
	}
	return nil
}

func (r random) probe() Probe {
	p := Probe{Timeout: r.duration()}
	switch r.IntN(3) {
	case 0:
		p.TCP = "127.0.0.1:80"
	case 1:
		p.HTTP = "http://localhost:8080/${x}?a=$b"
	default:
		p.Exec = append([]string{"probe"}, r.texts()...)
	}
	return p
}

func (r random) schedule() Schedule {
	return Schedule{
		Cron: []string{"0 3 * * *", "@daily", "*/5 * * * 1-5"}[r.IntN(3)], Timezone: []string{"", "Europe/Berlin"}[r.IntN(2)],
		CatchUp: schedule.CatchUpNone, Overlap: []Overlap{OverlapSkip, OverlapQueue, OverlapKill}[r.IntN(3)], Jitter: r.duration(), Timeout: time.Second + r.duration(),
	}
}

func (r random) definition() *Definition {
	d := Default("gateway-alice")
	d.Command = append([]string{"prog"}, r.texts()...)
	d.Umask = uint32(r.IntN(0o1000))
	d.Enabled, d.Control = r.maybe(), controls[r.IntN(len(controls))]
	d.Type = []Type{Daemon, Oneshot}[r.IntN(2)]
	if r.maybe() {
		d.Profile, d.Port = "alice", 9200+r.IntN(600)
		d.Kind, d.SecretsVersion = "web", r.IntN(3)
		d.User, d.Group, d.WorkingDir = "app:staff", "44", "/srv/ $x \"y\""
		d.Groups = r.words("audio", "44", "video")
	}
	for range r.IntN(4) {
		if d.Environment == nil {
			d.Environment = map[string]Value{}
		}
		name := []string{"A", "B_C", "a.b", "x-y", "null", "é", "#", "&a"}[r.IntN(8)]
		d.Environment[name] = Value{Text: r.text()}
		if r.maybe() {
			d.Environment[name] = Value{File: "/run/" + strings.NewReplacer("/", "").Replace("x"+r.text())}
		}
	}
	d.EnvFile = r.words("/etc/a.env", "?/etc/${b}.env")
	d.Requires, d.Wants, d.After = r.words("db", "cache"), r.words("x"), r.words("gateway-bob")
	d.Restart = Restart{
		Policy: []RestartPolicy{RestartOnFailure, RestartNo}[r.IntN(2)], Delay: r.duration(), Factor: 1 + r.Float64(),
		Jitter: r.Float64(), ResetAfter: r.duration(), Limit: r.IntN(10), Window: r.duration(), RetryFailed: r.duration(),
	}
	d.Restart.MaxDelay = d.Restart.Delay + r.duration()
	d.Exits = Exits{Success: []int{0, r.IntN(50) + 1}}
	if r.maybe() {
		d.Exits.Fatal, d.Exits.Restart = []int{78, 100 + r.IntN(50)}, []int{75}
	}
	if r.maybe() {
		p := r.probe()
		if r.maybe() {
			p = Probe{Notify: true, Timeout: r.duration()}
		}
		d.Ready = &p
	}
	if r.maybe() {
		d.Health = &Health{
			Probe: r.probe(), Interval: r.duration(), Retries: 1 + r.IntN(5), StartPeriod: r.duration(),
			Action: []HealthAction{HealthRestart, HealthNone}[r.IntN(2)],
		}
	}
	d.Watchdog = r.duration()
	if d.Type != Oneshot && r.IntN(2) == 0 {
		d.Deadline = DeadlineRequired
	}
	d.Stop = Stop{
		Signal:  []unix.Signal{unix.SIGTERM, unix.SIGKILL, unix.SIGUSR1, 34, 64}[r.IntN(5)],
		Timeout: r.duration(), Kill: []KillScope{KillGroup, KillMain}[r.IntN(2)],
	}
	if r.maybe() {
		d.Sockets = []Socket{{"tcp", "[::1]:80", "http"}, {"unix", "/run/$x y.sock", "a\"b"}, {"udp4", ":53", "dns"}}
	}
	d.Log = Log{
		File: r.maybe(), MaxSize: 1 + r.Int64N(1<<50), MaxAge: r.duration(), MaxFiles: r.IntN(50), Compress: r.IntN(2) == 0,
		Tee: []Tee{TeeAuto, TeeOn, TeeOff}[r.IntN(3)], Timestamps: r.maybe(),
	}
	d.Log.Redact = r.words("secrets", `sk-(\w+)`, "a$", "${x}")
	if r.maybe() {
		d.Log.Forward = &Forward{
			To:     []string{ForwardStdout, "unix:/run/$x y.sock", "tcp:[::1]:6514", "tcp:vector:9000"}[r.IntN(4)],
			Format: []ForwardFormat{ForwardJSON, ForwardRFC5424}[r.IntN(2)],
		}
	}
	for _, l := range rlimits {
		if r.IntN(4) == 0 {
			if d.Limits.Rlimits == nil {
				d.Limits.Rlimits = map[int]Rlimit{}
			}
			soft := r.Uint64()
			d.Limits.Rlimits[l.number] = Rlimit{soft, max(soft, r.Uint64())}
			if r.maybe() {
				d.Limits.Rlimits[l.number] = Rlimit{soft, Unlimited}
			}
		}
	}
	if r.maybe() {
		d.Limits.Memory, d.Limits.Pids, d.Limits.CPU = 1+r.Int64N(1<<50), 1+r.Int64N(1000), 0.25+r.Float64()
	}
	d.Sandbox = Sandbox{Capabilities: r.words("CAP_CHOWN", "CAP_NET_BIND_SERVICE"), NoNewPrivs: r.maybe()}
	if d.Sandbox.NoNewPrivs && r.maybe() {
		d.Isolation = Isolation{
			Level: []isolate.Level{isolate.Profile, isolate.Strict}[r.IntN(2)],
			Read:  r.words("/srv/$x", "/x y"), Write: r.words("/a"), Exec: r.words("/b", "/c"), Connect: r.ports(), Bind: r.ports(),
		}
	}
	if r.maybe() {
		d.Secrets = map[string]string{"TOKEN": "/run/${x}", "a.b-c_1": "/y"}
	}
	if d.User+d.Group == "" && len(d.Groups) == 0 && len(d.Sandbox.Capabilities) == 0 && d.Sandbox.NoNewPrivs { // else it can have none
		for _, name := range r.words("nightly", "0") {
			if d.Schedules == nil {
				d.Schedules = map[string]Recurring{}
			}
			d.Schedules[name] = Recurring{Schedule: r.schedule(), Command: append([]string{"job"}, r.texts()...)}
		}
	}
	return d
}

func TestEncodeDecodeRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	r := random{rand.New(rand.NewPCG(seed, 0))}
	for range 500 {
		want := r.definition()
		text := Encode(want)
		got, faults := Decode("service.yaml", want.Name, text, vars)
		if len(faults) > 0 || !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d:\n%s\nfaults %v\ngot  %+v\nwant %+v", seed, text, faults, got, want)
		}
	}
}

func TestQuotedIsReadBack(t *testing.T) {
	check := func(s string) bool {
		s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
		d := Default("web")
		d.Command = []string{"a", s}
		got, faults := Decode("f", "web", Encode(d), nil)
		return len(faults) == 0 && got.Command[1] == s
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 3000}); err != nil {
		t.Error(err)
	}
}

func TestNeedsRestart(t *testing.T) {
	base := random{rand.New(rand.NewPCG(1, 2))}.definition()
	base.Ready, base.Requires = nil, nil
	for _, c := range []struct {
		change func(*Definition)
		why    string
	}{
		{func(*Definition) {}, ""},
		{func(d *Definition) { d.Restart.Policy = RestartAlways }, ""},
		{func(d *Definition) { d.Stop.Timeout++ }, ""},
		{func(d *Definition) { d.Log.MaxFiles++ }, ""},
		{func(d *Definition) { d.Log.Compress = true }, ""},
		{func(d *Definition) { d.Log.Redact = []string{"other"} }, ""},
		{func(d *Definition) { d.Log.Forward = &Forward{To: ForwardStdout} }, ""},
		{func(d *Definition) { d.Health = nil }, ""},
		{func(d *Definition) { d.Ready = &Probe{TCP: "a:1"} }, ""},
		{func(d *Definition) { d.Requires = []string{"db"} }, ""},
		{func(d *Definition) { d.Exits.Fatal = nil }, ""},
		{func(d *Definition) { d.Enabled = !d.Enabled }, ""},
		{func(d *Definition) { d.Command = []string{"other"} }, "command changed"},
		{func(d *Definition) { d.Environment = map[string]Value{"NEW": {Text: "x"}} }, "environment changed"},
		{func(d *Definition) { d.Environment, d.Umask = nil, d.Umask^1 }, "umask and environment changed"},
		{func(d *Definition) { d.User, d.Group, d.Port = "x", "y", 1 }, "user, group and port changed"},
		{func(d *Definition) { d.Ready = &Probe{Notify: true} }, "ready changed"},
		{func(d *Definition) { d.Watchdog++ }, "watchdog changed"},
		{func(d *Definition) { d.Deadline += "x" }, "deadline changed"},
		{func(d *Definition) { d.Limits = Limits{Pids: 77777} }, "limits changed"},
		{func(d *Definition) { d.Sandbox.NoNewPrivs = !d.Sandbox.NoNewPrivs }, "sandbox changed"},
		{func(d *Definition) { d.Sockets = []Socket{{"tcp", ":1", "x"}} }, "sockets changed"},
	} {
		changed := new(*base)
		c.change(changed)
		if needed, why := NeedsRestart(base, changed); why != c.why || needed != (c.why != "") {
			t.Errorf("got %v %q, want %q", needed, why, c.why)
		}
	}
}

// TestNeedsRestartKnowsEveryField fails for a field that was added to Definition
// and not thought of here.
func TestNeedsRestartKnowsEveryField(t *testing.T) {
	known := strings.Fields(`Name Profile Kind Port SecretsVersion Command User Group Groups WorkingDir Umask Environment EnvFile Type Schedule Enabled Schedules Control
		Requires Wants After Restart Exits Ready Health Watchdog Deadline Stop Sockets Log Limits Sandbox Isolation Secrets`)
	var fields []string
	for f := range reflect.TypeFor[Definition]().Fields() {
		fields = append(fields, f.Name)
	}
	if !reflect.DeepEqual(fields, known) {
		t.Errorf("fields of Definition: %v; decide about the new ones in NeedsRestart, Encode and Fields", fields)
	}
}

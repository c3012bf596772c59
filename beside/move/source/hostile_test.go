package source

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/beside/move"
)

// Whatever lies there, one error or a valid result comes of it, and twice the same.
func sane(t *testing.T, dir, path string) {
	t.Helper()
	once := func() string {
		full := filepath.Join(dir, path)
		files, err := move.NewTree("", []string{full})
		if err != nil {
			return err.Error()
		}
		var out bytes.Buffer
		for i := range sources {
			plan, err := sources[i].Read(files, []string{full})
			if err == nil {
				plan.ChooseUser("")
				var text []byte
				text, err = plan.Settle()
				out.Write(text)
				for _, l := range plan.Left() {
					if strings.ContainsAny(l.String(), "\n\x1b\x00\r") || l.What == "" || l.Why == "" {
						t.Errorf("no line for people: %q", l)
					}
					out.WriteString(l.String())
				}
			}
			if err != nil {
				if strings.Contains(err.Error(), "what came of it is not valid") {
					t.Error(err)
				}
				// Of several faults the Compose library names any.
				out.WriteString(sources[i].Name + " fails: " + line(err.Error(), sources[i].Name != "compose"))
			}
		}
		return out.String()
	}
	if a, b := once(), once(); a != b {
		t.Errorf("twice, and not the same:\n%s\n%s", a, b)
	}
}

func line(text string, whole bool) string {
	if !whole {
		return ""
	}
	return move.OneLine(text)
}

func TestHostile(t *testing.T) {
	long := strings.Repeat("x", 1_000_000)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'l'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	dir := tree(t, map[string]string{
		"long/supervisord.conf":     "[program:" + long[:900_000] + "]\ncommand=" + long[:90_000] + "\n",
		"bomb/compose.yaml":         bomb + "services: {a: {command: *k}}\n",
		"self/compose.yaml":         "services: &s\n  a: {command: x, <<: *s}\n",
		"loop/compose.yaml":         "include: [compose.yaml]\nservices: {a: {command: x, extends: {service: b}}, b: {extends: {service: a}}}\n",
		"out/compose.yaml":          "services: {a: {extends: {file: /etc/passwd, service: b}}}\ninclude: [{path: /dev/zero}]\n",
		"types/compose.yaml":        "services: {a: [1], b: 3, c: {command: {x: 1}, environment: 3, depends_on: [[a]], healthcheck: [1], deploy: 4, ulimits: [x], ports: {a: b}, env_file: {a: 1}, logging: 3}}\n",
		"unit/a.service":            "[Service]\nExecStart=" + long + "\n",
		"unit/b.service":            "[Service\nExecStart=x",
		"unit/c.service":            "[Service]\nExecStart=\"no end\nType=\x01\nUser=a b\x00\n",
		"unit/d.service":            "[Service]\nExecStart=/d ${A\\x zz} %q %\nEnvironment=1A=b =c LISTEN_FDS=3 X=\xff\nRequires=e.service\n[Install]\nWantedBy=x.target\n",
		"unit/e.service":            "[Service]\nExecStart=/e\nRequires=d.service\n",
		"rc/s6-rc.d/a/type":         "longrun",
		"rc/s6-rc.d/a/run":          "#!",
		"rc/s6-rc.d/a/dependencies": "b\n../../../etc\n",
		"rc/s6-rc.d/b/type":         "bundle",
		"rc/s6-rc.d/b/contents":     "b\nc\na\n",
		"rc/s6-rc.d/c/type":         "bundle",
		"rc/s6-rc.d/c/contents":     "b\n",
		"proc/Procfile":             "web: \x1b[31m\nmain: a\ndefault: ${X\n" + long[:200_000] + ": x\n",
	})
	if err := os.Symlink("/etc/shadow", filepath.Join(dir, "rc/s6-rc.d/a/finish")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "proc/supervisord.conf"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("loop.service", filepath.Join(dir, "unit/loop.service")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"long", "bomb", "self", "loop", "out", "types", "unit", "rc/s6-rc.d", "proc"} {
		t.Run(path, func(t *testing.T) {
			files, err := os.ReadDir(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}
			sane(t, dir, path)
			for _, f := range files {
				if !f.IsDir() {
					sane(t, dir, filepath.Join(path, f.Name()))
				}
			}
		})
	}
	full := filepath.Join(dir, "out/compose.yaml")
	if files, err := move.NewTree("", []string{full}); err != nil {
		t.Error(err)
	} else if s, err := Named("compose"); err != nil {
		t.Error(err)
	} else if _, err := s.Read(files, []string{full}); err == nil || strings.Contains(err.Error(), "root:") || !strings.Contains(err.Error(), "leads out") {
		t.Errorf("what lies outside: %v", err)
	}
}

// TestMutated spoils texts of each source at random, by seeds that a failure names.
func TestMutated(t *testing.T) {
	pieces := []string{"\n", " ", "=", ":", "[", "]", "{", "}", "$", "${", "%", "%(", "\"", "'", "\\", "\x00", "\xff", "\x1b[1m", "- ", "&a ", "*a", "<<: ", "!!int ", "../", "999999999999999999999", "-1", "none", "ü"}
	for name, text := range map[string]string{
		"supervisord.conf":       "[supervisord]\nuser=x\nenvironment=A=\"b\",C='d'\n[include]\nfiles=*.ini\n[program:a]\ncommand=x %(ENV_A)s \"b c\"\nprocess_name=%(program_name)s_%(process_num)02d\nnumprocs=2\nstartsecs=3\nstopsignal=INT\nautorestart=true\nstdout_logfile_maxbytes=1MB\nexitcodes=0,2\n[group:g]\nprograms=a\npriority=1\n",
		"compose.yaml":           "include: [b.yaml]\nservices:\n  a:\n    image: x\n    command: x ${A:-b} $$c\n    environment: {A: 1, B: null}\n    depends_on: {b: {condition: service_healthy}}\n    deploy: {replicas: 2, resources: {limits: {cpus: '0.5', memory: 1M}}}\n    ulimits: {nofile: {soft: 1, hard: 2}}\n  b: &b\n    entrypoint: [x]\n    healthcheck: {test: [CMD, y], interval: 5s, retries: 3}\n    restart: on-failure:3\n    env_file: [a, {path: b, required: false}]\n    logging: {options: {max-size: 10m}}\n    user: 1:2\n  c: {extends: {service: b}, <<: *b}\n",
		"a@.service":             "[Unit]\nAfter=b.service\nRequires=c.service\n[Service]\nType=notify\nExecStartPre=-/x\nExecStart=@/x %i $A ${B}c 'd e' \\\n  f\nUser=%i\nEnvironment=A=b \"C=d e\"\nLimitNOFILE=1K:2K\nCPUQuota=5%\nRestart=always\nRestartSec=1min 2s\nSuccessExitStatus=3 TEMPFAIL\nProtectSystem=strict\nReadWritePaths=/x\nTimeoutStopSec=infinity\n[Install]\nWantedBy=x.target\n",
		"b.service":              "[Service]\nExecStart=/x ; /y\nType=oneshot\nAmbientCapabilities=CAP_CHOWN\nMemoryMax=1G\nTasksMax=5%\nUMask=022\nWorkingDirectory=-/x\nEnvironmentFile=-/y\nKillSignal=SIGINT\n",
		"Procfile":               "web: x -p $PORT\nworker: y 'z'\nrelease: w\n",
		"etc/services.d/web/run": "#!/usr/bin/with-contenv bash -e\n# x\nexec s6-setuidgid a:b c\ns6-svc -d /run/service/x\n",
	} {
		for seed := range uint64(30) {
			random := rand.New(rand.NewPCG(seed, uint64(len(name))))
			data := []byte(text)
			for range 1 + random.IntN(4) {
				at := random.IntN(len(data) + 1)
				switch random.IntN(3) {
				case 0:
					data = slices.Insert(data, at, []byte(pieces[random.IntN(len(pieces))])...)
				case 1:
					data = slices.Delete(data, at, min(at+1+random.IntN(8), len(data)))
				case 2:
					data = slices.Insert(data, at, data[at:min(at+random.IntN(60), len(data))]...)
				}
			}
			dir := tree(t, map[string]string{name: string(data)})
			sane(t, dir, name)
			sane(t, dir, ".")
			if t.Failed() {
				t.Fatalf("%s, seed %d:\n%q", name, seed, data)
			}
		}
	}
}

func fuzz(f *testing.F, name string, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := tree(t, map[string]string{name: string(data)})
		sane(t, dir, name)
		if filepath.Dir(name) != "." {
			sane(t, dir, ".")
		}
	})
}

func FuzzSupervisord(f *testing.F) {
	fuzz(f, "supervisord.conf", "[program:a]\ncommand=x %(ENV_A)s\nnumprocs=2\nenvironment=A=\"b\"\n[group:g]\nprograms=a\n", "[supervisord]\nuser=x\n[program:b]\ncommand='\n")
}

func FuzzCompose(f *testing.F) {
	fuzz(f, "compose.yaml", "services:\n  a: {command: x, depends_on: [b], healthcheck: {test: y}}\n  b: {command: ${A:-b}}\n", "include: [a]\nservices: {a: {extends: {service: a}}}\n")
}

func FuzzSystemd(f *testing.F) {
	fuzz(f, "a@.service", "[Service]\nExecStart=/x %i $A\nType=oneshot\nUser=a\n[Install]\nWantedBy=x\n", "[Service]\nExecStart=-/x ; y\nLimitNOFILE=1\nCPUQuota=5%\n")
}

func FuzzProcfile(f *testing.F) { fuzz(f, "Procfile", "web: x\nrelease: $y\n") }

func FuzzS6(f *testing.F) {
	fuzz(f, "etc/services.d/web/run", "#!/usr/bin/with-contenv sh\nexec s6-setuidgid a b\n", "#!/bin/execlineb -P\n")
}

# make help says what there is. The recipes need bash, and nothing that they do
# not install or ask for in one line.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO ?= go
DOCKER ?= docker
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
# Begins where it can see the signal state that it was given: reap/sys/entry_amd64.s.
INIT_LDFLAGS := $(LDFLAGS) -E rlminit/reap/sys.entry
# Nothing here speaks HTTP/2: it is left out of net/http, half a megabyte in memory.
INIT_BUILD := -tags nethttpomithttp2 -trimpath -ldflags '$(INIT_LDFLAGS)'
# The programs that are verbs of their own, and lie beside it.
BESIDE := $(patsubst %/,./%,$(filter-out cmd/rlminit/,$(sort $(dir $(wildcard cmd/*/main.go)))))
TOOL := $(GO) tool -modfile=tools/go.mod
IMAGE ?= rlminit
BASE ?= debian:bookworm-slim
DEMO ?= box
ARCHS ?= amd64 arm64
PROFILES ?= 3

# What a machine without a C compiler cannot do, it says: see test-unit.
RACE = $(shell command -v gcc >/dev/null || command -v clang >/dev/null && echo -race)
# A program with the race detector sleeps for a second before it exits, unless this is set.
HASTE = GORACE=atexit_sleep_ms=10
# The engine's architecture decides, for on Docker Desktop it is not the host's.
ENGINE_ARCH = $(shell $(DOCKER) version -f '{{.Server.Arch}}' 2>/dev/null)
HOST_ARCH = $(shell $(GO) env GOARCH)
# The Dockerfile less its build stage, for an architecture: see its first lines.
prebuilt = sed -e '/ AS build$$/,/^FROM scratch/{/^FROM scratch/!d}' -e "s|--from=build /out/|dist/linux-$(1)/|" Dockerfile >dist/Dockerfile
PLAIN = $(shell $(GO) list ./... | grep -vE '/tests/(dist|docker|laws|ns|programs|vm)$$|/tests/beside/')
# One goroutine has no races, and the race detector makes a search ten times as slow:
# these packages and their tests start none, which tests/structure sees to.
ALONE = analyze beside/top/screen beside/top/table beside/top/text cgroup internal/document internal/nearest internal/redact internal/schedule job job/files job/table job/threshold journal/places plan plan/apply \
	reconcile reap/footprint service supervise/core supervise/handover supervise/machine supervise/operation supervise/order wire

.PHONY: help
help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: go ## bin/rlminit, the programs beside it, and bin/gateway for this machine, static
	CGO_ENABLED=0 $(GO) build $(INIT_BUILD) -o bin/ ./cmd/rlminit
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./examples/gateway $(BESIDE)
	cd fleet && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o ../bin/ ./cmd/rlminit-fleet

.PHONY: check
check: go ## formatting, vet, staticcheck, govulncheck, shellcheck, Dockerfiles, promtool, generated files
	@tests/install-tools shellcheck promtool
	@echo 'gofumpt'; out=$$($(TOOL) gofumpt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { printf 'not formatted; run make fmt:\n%s\n' "$$out"; exit 1; }
	@echo 'go mod tidy'; $(GO) mod tidy -diff; $(GO) mod verify >/dev/null
	@echo 'go vet'; $(GO) vet -tags vm ./...
	@echo 'go vet, arm64'; GOARCH=arm64 CGO_ENABLED=0 $(GO) vet -tags vm ./...
	@echo 'go build, arm64'; GOARCH=arm64 CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/rlminit # the linker bounds the stack of a child
	@echo 'staticcheck'; $(TOOL) staticcheck -tags vm ./...
	@echo 'shellcheck'; shellcheck $$(git grep -lE '^#!.*\b(ba)?sh$$' -- ':!*.go' ':!*.md')
	@echo 'Dockerfiles'; if command -v shellcheck >/dev/null; then files=($$(git ls-files '*Dockerfile' README.md | sed "s|^|$$PWD/|")); \
		cd tests/dockerlint; $(GO) mod verify >/dev/null; $(GO) vet .; out=$$($(GO) test -vet=off . 2>&1) || { echo "$$out"; exit 1; }; $(GO) run . "$${files[@]}"; fi
	@echo 'tools/release'; cd tools/release; $(GO) mod verify >/dev/null; $(GO) vet ./bill
	@echo 'fleet'; cd fleet; $(GO) mod tidy -diff; $(GO) vet ./...; GOARCH=arm64 CGO_ENABLED=0 $(GO) vet ./...; $(GO) tool -modfile=../tools/go.mod staticcheck ./...
	@echo 'promtool'; if command -v promtool >/dev/null; then cd examples/metrics; \
		out=$$({ promtool check config prometheus.yaml && promtool test rules alerts_test.yaml; } 2>&1) || { echo "$$out"; exit 1; }; fi
	@echo 'govulncheck'; out=$$($(TOOL) govulncheck ./... 2>&1) || { \
		case "$$out" in *'fetching vulnerabilities'*) echo '  not run: the vulnerability database cannot be reached from here';; *) echo "$$out"; exit 1;; esac; }
	@echo 'structure'; out=$$($(GO) test -vet=off ./tests/structure 2>&1) || { echo "$$out"; exit 1; }
	@$(MAKE) docs-check

.PHONY: fmt
fmt: go ## formats all Go code
	$(TOOL) gofumpt -w $$(git ls-files '*.go')

# Verbs of the command line as tables: no box, no terminal.
CLI := Verb|JSON|Docs|Help|Man|Completion|TestCheck|TestPlan|Profile|Status|Unknown|Words
.PHONY: quick
quick: go ## a minute: formatting, vet, structure, generated pages, pure packages, command line, one contract; no root, no Docker
	@part() { local began=$$SECONDS; "$${@:2}"; printf '%4d s  %s\n' $$((SECONDS - began)) "$$1"; }; \
	formatted() { local out; out=$$($(TOOL) gofumpt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { printf 'not formatted; run make fmt:\n%s\n' "$$out"; exit 1; }; }; \
	tested() { local out; out=$$($(GO) test -short -vet=off "$$@" 2>&1) || { grep -v '^ok\|no test files' <<<"$$out"; exit 1; }; }; \
	part 'gofumpt' formatted; \
	part 'go vet' $(GO) vet ./...; \
	part 'structure' tested ./tests/structure; \
	part 'pure packages' tested $(addprefix ./,$(ALONE)) ./config ./control; \
	part 'generated pages' $(MAKE) -s docs-check >/dev/null; \
	part 'command line' tested ./cmd/rlminit -run '$(CLI)'; \
	part 'one contract, in a namespace' tested ./tests/ns -run '^TestContract$$/^StartStopRestart$$'; \
	echo "quick: $$SECONDS s"

.PHONY: soak
soak: go ## twenty runs of each package with a process, socket or clock in its tests, beside four busy threads; goes on where it was interrupted; RUNS=3, SOAK='./reap ./logs' for some
	@mkdir -p bin; $(HASTE) $(GO) run ./tests/cmd/soak -runs $(or $(RUNS),20) $(RACE) -table bin/soak.tsv \
		$(or $(SOAK),$(patsubst rlminit/%,./%,$(filter-out $(addprefix rlminit/,$(ALONE)),$(PLAIN))) ./tests/ns ./tests/programs ./tests/docker)

.PHONY: nightly
nightly: go ## all that is too long for each change: releases, the virtual machines, the fleet with boxes and the nemesis, chaos, mutants
	$(MAKE) dist
	$(MAKE) test-dist
	$(MAKE) test-vm
	$(MAKE) test-fleet
	$(MAKE) test-fleet-nemesis MINUTES=$(or $(MINUTES),10) SLACK=30s
	$(MAKE) chaos
	$(MAKE) mutants
	$(MAKE) mutants-laws

.PHONY: test
test: ## everything: unit tests, PID namespaces, Docker; ends with what was left out
	@mkdir -p bin; : >bin/left-out
	@LEFT_OUT=$(CURDIR)/bin/left-out $(MAKE) test-unit test-ns test-docker
	@if [ -s bin/left-out ]; then echo "left out: $$(sort -u bin/left-out | paste -sd';' | sed 's/;/; /g')"; else echo 'nothing was left out'; fi

.PHONY: test-unit
test-unit: go ## unit tests, with the race detector where there are goroutines
	@tests/install-tools curl
	@[ -n '$(RACE)' ] || { echo 'no C compiler: the tests run without the race detector'; [ "$${CI:-}" != true ]; }
	@# Many tests wait for most of their time: three packages at once keep two cores busy.
	@{ rc=0; $(GO) test -vet=off -json $(addprefix ./,$(ALONE)) || rc=$$?; \
		$(if $(RACE),$(GO) test -vet=off -json -run Simulation ./supervise/loop || rc=$$?;) \
		$(if $(RACE),CGO_ENABLED=1 $(HASTE)) $(GO) test -p 3 $(RACE) -vet=off -timeout 20m -json $(filter-out $(addprefix rlminit/,$(ALONE)),$(PLAIN)) || rc=$$?; echo "exit $$rc"; } | \
		$(GO) run ./tests/cmd/testlog unit $(RACE) # make check vets

.PHONY: test-ns
test-ns: go ## the real binary in PID namespaces, without Docker
	@tests/install-tools redis-server redis-cli haproxy nginx systemd-notify rsyslogd tmux chromium s6-svscan execlineb supervisord
	@{ rc=0; $(if $(RACE),CGO_ENABLED=1 $(HASTE)) $(GO) test $(RACE) -count=1 -timeout 20m -json ./tests/ns ./tests/programs ./tests/laws || rc=$$?; \
		$(if $(RACE),CGO_ENABLED=1 $(HASTE)) $(GO) test $(RACE) -count=1 -p 1 -timeout 20m -json ./tests/beside/... || rc=$$?; echo "exit $$rc"; } | $(if $(RACE),CGO_ENABLED=1) $(GO) run ./tests/cmd/testlog ns $(RACE) -timeout 20m

.PHONY: test-refused
test-refused: go ## a box in which one system call is refused, with EPERM and ENOSYS: each that strace sees, or CALLS=splice,statx
	RLMINIT_TEST_REFUSED=$(or $(CALLS),all) $(GO) test -count=1 -timeout 60m -run '^TestRefused$$' ./tests/ns

.PHONY: test-load
test-load: go ## 1,000 services: killed ten thousand times, started and stopped in order; prints figures
	RLMINIT_TEST_LOAD=full $(GO) test -count=1 -timeout 30m -v -run 'TestLoad/(Massacre|Order|Kinds)' ./tests/ns

.PHONY: laws
laws: go ## random sequences of verbs on a real box, held against what a user takes for granted, for MINUTES (10); a sequence that breaks a law is shrunk and printed as a script
	$(GO) test -count=1 -timeout 24h -v ./tests/laws -run '^TestLaws$$' -minutes $(or $(MINUTES),10) | grep -v 'rapid. draw'

.PHONY: chaos
chaos: go ## kills of both tiers, a full /run and volume, a disk that fails, no inotify, a second container and clients at once, for CHAOS (10m), with CHAOS_SEED; prints what was lost, which is nothing
	RLMINIT_CHAOS=$(or $(CHAOS),10m) RLMINIT_CHAOS_SEED=$(CHAOS_SEED) $(GO) test -count=1 -timeout 24h -v -run '^TestChaos$$' ./tests/ns

.PHONY: explore
explore: go ## every graph of three services, of four daemons without a ring, and many more of four, through every command and fault, an apply through two kills, the supervisor through thousands of random lives, and every end that a power cut and a failing disk can make of a journal: hours of one core
	$(GO) test ./supervise/order -run EveryGraph -three -1 -four 200 -acyclic -1 -timeout 0 -v
	$(GO) test ./supervise/core -run EverySmallSet -walks 500 -timeout 0 -v
	$(GO) test ./supervise/loop -run '^TestSimulation$$' -simulations 10000 -timeout 0 -v
	$(GO) test ./supervise/loop -run '^TestSimulationOfProfiles$$' -simulations 10000 -timeout 0 -v
	$(GO) test ./supervise -run '^TestKindsInEveryGraph$$' -everykind -v
	$(GO) test ./logs/forward -run NumbersInAnyOrder -rounds 200 -parallel 16 -timeout 0 -v
	EXPLORE_LONG=1 $(GO) test ./plan/apply -run NeverAHalf -timeout 0 -v
	EXPLORE_LONG=1 $(GO) test ./journal -run EveryCrash -timeout 0 -v

.PHONY: mutants
mutants: go ## breaks the core in one place after the other, and names the faults that its exploration does not find; ONE=PATTERN for some: half an hour
	$(GO) run ./tests/cmd/mutants '$(ONE)'

.PHONY: mutants-laws
mutants-laws: go ## puts seven faults that once were there into the product, one after the other, and names those that make laws does not find within five minutes; ONE=PATTERN for some, SEARCHES=3 for each
	$(GO) run ./tests/cmd/mutants -laws -searches $(or $(SEARCHES),1) '$(ONE)'

.PHONY: test-fleet
test-fleet: go ## the fleet: its agent's exploration and the faults that it must find, real etcd, members in namespaces and in Docker; SHORT=-short: without an S3 server, FLEET=./agent: of that alone
	@{ $(GO) test -C fleet $(SHORT) -timeout 60m -json $(or $(FLEET),./...) && echo "exit 0" || echo "exit $$?"; } | $(GO) run ./tests/cmd/testlog fleet -C fleet $(SHORT) -timeout 60m
	$(if $(FLEET),,cd fleet/test/deploy && $(GO) test ./...) # a module of its own, as the etcd of the tests is

.PHONY: test-docker
test-docker: go ## the real binary in a real Docker engine, with what an engine changes of the contract
	@if [ -n '$(ENGINE_ARCH)' ]; then \
		tests/install-tools mmdebstrap podman runc busybox; \
		{ $(GO) test -count=1 -timeout 40m -json ./tests/docker && echo "exit 0" || echo "exit $$?"; } | $(GO) run ./tests/cmd/testlog docker -timeout 40m; \
	else \
		echo 'no Docker engine answers: the Docker tests were not run' | tee -a "$${LEFT_OUT:-/dev/null}"; [ "$${CI:-}" != true ]; \
	fi

.PHONY: test-docker-all
test-docker-all: ## the same with the whole contract, which test-ns runs in namespaces
	@RLMINIT_TEST_ALL=1 $(MAKE) test-docker

.PHONY: test-vm
test-vm: go ## rlminit as PID 1 of virtual machines: power cuts, cgroups, hogs, a container of podman's; ONE=TestCgroups/Born for a part
	@tests/install-tools qemu-system-x86_64 podman runc
	@{ $(GO) test -count=1 -timeout 30m -tags vm -json $(if $(ONE),-run '$(ONE)') ./tests/vm && echo "exit 0" || echo "exit $$?"; } | $(GO) run ./tests/cmd/testlog vm -timeout 30m -tags vm

.PHONY: test-dumb-init
test-dumb-init: build ## dumb-init's own suite, of a checkout of it in SUITE, with dumb-init and with rlminit in its place
	@tests/install-tools pytest-3 dumb-init
	@tests/dumb-init '$(SUITE)'

.PHONY: bench
bench: build ## times and memory beside tini, s6, runit and others, and the ratios; JSON=FILE for all figures, PEER_PEBBLE and PEER_SUPERVISORD for two more
	@tests/install-tools gcc tini dumb-init catatonit s6-svscan runsvdir supervisord mkfs.ext4
	@ulimit -n "$$(ulimit -Hn)"; $(GO) run ./tests/bench $(if $(JSON),-json '$(JSON)')
	@echo 'init: CPU time for 100,000 orphans (promised: at most 1.5 of tini'"'"'s; at most 1000 zombies)'; $(GO) test -run '^$$' -bench Orphans -benchtime 1x ./reap/sys | grep Benchmark
	@echo 'jobs: telemetry, once (promised: less than 2 ms, with a hundred processes)'; $(GO) test -run '^$$' -bench Telemetry -benchtime 100x ./supervise/telemetry | grep Benchmark
	@echo 'plan: 1,000 profiles, each changed, from the text to the hash (promised: less than 0.3 s)'; $(GO) test -run '^$$' -bench Plan -benchtime 10x ./plan | grep Benchmark

.PHONY: bench-spawn
bench-spawn: build ## what each process does for one start: processor time of a boot, system calls of a boot and of a restart
	@tests/install-tools gcc strace
	@ulimit -n "$$(ulimit -Hn)"; $(GO) run ./tests/bench -spawns

.PHONY: bench-plot
bench-plot: build ## docs/scale.svg: boot, stop, restart and memory with 10 to 10,000 services, beside s6 and the floor; ROUNDS=3: ten minutes
	@tests/install-tools gcc s6-svscan
	@ulimit -n "$$(ulimit -Hn)"; $(GO) run ./tests/bench -plot docs -rounds $(or $(ROUNDS),3)

.PHONY: figures
figures: go ## how much code the product is, by package, file, type and function; SINCE=COMMIT: and the change since
	@$(GO) run ./tests/cmd/figures $(SINCE)

.PHONY: bench-logs
bench-logs: go ## throughput of the log pipes, beside s6-log, svlogd and cat
	@tests/install-tools s6-log svlogd
	$(GO) run ./tests/benchlogs

.PHONY: image
image: go ## the images $(IMAGE):latest and $(IMAGE):demo, from the local Go, without pulling anything
	@[ -n '$(ENGINE_ARCH)' ] || { echo 'no Docker engine answers; start it, or run: make try'; exit 1; }
	@$(MAKE) dist-tree ARCHS=$(ENGINE_ARCH)
	@$(call prebuilt,$(ENGINE_ARCH))
	$(DOCKER) build -q -f dist/Dockerfile --target rlminit -t $(IMAGE):latest .
	$(DOCKER) build -q -f dist/Dockerfile --target demo -t $(IMAGE):demo .

.PHONY: image-based
image-based: image ## $(IMAGE):based, the same on a base image: make image-based BASE=debian:bookworm-slim
	$(DOCKER) build -q -f dist/Dockerfile --target based --build-arg BASE=$(BASE) -t $(IMAGE):based .

.PHONY: demo
demo: image ## starts a container with the example gateway, says what to try next
	@DOCKER='$(DOCKER)' examples/demo $(DEMO) $(IMAGE):demo

.PHONY: try
try: build ## the whole thing without Docker and without root, in a throw-away PID namespace
	@PATH="$(CURDIR)/bin:$$PATH" bin/rlminit try --profiles $(PROFILES)

.PHONY: dist
dist: ## a release in dist/: static binaries, archives, .deb and .apk for amd64 and arm64, of rlminit and of the fleet, licences, bills of materials, SHA256SUMS
	@rm -f dist/SHA256SUMS; $(MAKE) dist-tree ARCHS='$(ARCHS)'
	@GO='$(GO)' VERSION='$(VERSION)' tools/release/assemble $(ARCHS)

.PHONY: test-fleet-nemesis
test-fleet-nemesis: go ## torments a fleet of five on an etcd of three in Docker, for MINUTES (3), with SEED; SLACK=30s on a slow machine; then the build without deadlines, in which the checker must find two gateways at once
	cd fleet && $(GO) test -count=1 -timeout 24h -v -run '^TestNemesis$$' ./test/nemesis -args -minutes $(or $(MINUTES),3) -seed $(or $(SEED),0) -slack $(or $(SLACK),0s)
	cd fleet && $(GO) test -count=1 -timeout 1h -v -run '^TestNemesis$$' ./test/nemesis -args -minutes 1 -no-deadline

.PHONY: fleet-image
fleet-image: image ## rlminit:fleet, the image of deploy/, and rlminit:fleet-etcd, an etcd for the demo
	@rm -rf dist/fleet; mkdir -p dist/fleet; cp deploy/rlminit.yaml dist/fleet; chmod 644 dist/fleet/*.yaml
	@cd fleet && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o ../dist/fleet/ ./cmd/rlminit-fleet
	@cd fleet/test/etcd && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o ../../../dist/fleet/ .
	@$(DOCKER) build -q -f deploy/Dockerfile --build-arg DEMO=$(IMAGE):demo -t rlminit:fleet dist/fleet
	@printf 'FROM scratch\nCOPY etcd /\nENTRYPOINT ["/etcd"]\n' | $(DOCKER) build -q -f - -t rlminit:fleet-etcd dist/fleet

.PHONY: fleet-demo
fleet-demo: fleet-image ## three members and an etcd of three on this machine: moves a profile, kills a member, says what it saw; KEEP=1 leaves them running
	@DOCKER='$(DOCKER)' deploy/demo

.PHONY: test-dist
test-dist: go ## looks at what make dist has made: packages, licences, arm64 under an emulator, the .deb in a Debian container
	@tests/install-tools qemu-aarch64-static mmdebstrap dpkg-deb file
	$(GO) test -count=1 ./tests/dist

.PHONY: dist-check
dist-check: go ## makes a release of HEAD twice, in two places, and compares: minutes
	tools/release/twice

.PHONY: dist-images
dist-images: ## an image tar of the demo for each architecture, by the Docker engine: it has the time in it
	@[ -n '$(ENGINE_ARCH)' ] || { echo 'no Docker engine answers; start it'; exit 1; }
	@$(MAKE) dist-tree ARCHS='$(ARCHS)'
	@for arch in $(ARCHS); do \
		$(call prebuilt,$$arch); \
		$(DOCKER) build -q --platform "linux/$$arch" -f dist/Dockerfile --target demo -t "$(IMAGE):demo-$$arch" .; \
		$(DOCKER) save "$(IMAGE):demo-$$arch" | gzip -n >"dist/image-demo-linux-$$arch.tar.gz"; \
	done

# dist/linux-ARCH/ is what the images are made of. The modes are set here, for
# a checkout's depend on the umask, and a configuration that a group can write
# is refused.
.PHONY: dist-tree
dist-tree: go
	@for arch in $(ARCHS); do \
		tree=dist/linux-$$arch; rm -rf "$$tree"; mkdir -p "$$tree/data" "$$tree/rootfs"; \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build $(INIT_BUILD) -o "$$tree/" ./cmd/rlminit; \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o "$$tree/" ./examples/gateway; \
		mkdir "$$tree/beside"; [ -z '$(BESIDE)' ] || CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o "$$tree/beside/" $(BESIDE); \
		(cd fleet && CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o "../$$tree/fleet/" ./cmd/rlminit-fleet); \
		cp -R rootfs/. "$$tree/rootfs/"; mkdir "$$tree/rootfs/run" "$$tree/rootfs/tmp"; \
		chmod -R u=rwX,go=rX "$$tree"; chmod 1777 "$$tree/rootfs/tmp"; chmod 0750 "$$tree/data"; \
	done

.PHONY: screenshots
screenshots: go ## makes the pictures in docs/ anew, in real browsers and terminals
	@tests/install-tools tmux chromium
	RLMINIT_SCREENSHOTS=$(CURDIR)/docs $(GO) test -count=1 -run '^TestScreenshots$$' ./tests/beside/...

.PHONY: docs
docs: go ## makes the generated pages: docs/commands.md, docs/man, docs/openapi.yaml, config/described/keys.tsv
	@RLMINIT_DOCS=$(CURDIR)/docs $(GO) test ./cmd/rlminit -run '^TestWriteDocs$$' -count=1 >/dev/null
	@$(GO) test ./config/described -run '^TestKeysAreTheDocuments$$' -write >/dev/null
	@$(GO) test ./tests/openapi -run '^TestDocument$$' -write >/dev/null

.PHONY: docs-check
docs-check: go
	@echo 'generated pages'; new=$$(mktemp -d); trap 'rm -rf "$$new"' EXIT; \
	RLMINIT_DOCS="$$new" $(GO) test ./cmd/rlminit -run '^TestWriteDocs$$' -count=1 >/dev/null && \
	diff -u docs/commands.md "$$new/commands.md" && diff -ru docs/man "$$new/man" || { echo 'docs/ is stale; run make docs'; exit 1; }

.PHONY: clean
clean: ## removes bin/ and dist/
	rm -rf bin dist

# One clear line in place of what an old Go says about a go.mod it cannot read.
.PHONY: go
go:
	@need=$$(awk '$$1 == "go" {print $$2}' go.mod); \
	command -v $(GO) >/dev/null || { echo "no Go here; install Go $$need, or use Docker alone: docker build --target demo -t rlminit:demo ."; exit 1; }; \
	have=$$($(GO) env GOVERSION 2>/dev/null || $(GO) version | awk '{print $$3}'); have=$${have#go}; \
	[ "$$(printf '%s\n%s\n' "$$need" "$${have%%[- ]*}" | sort -V | head -n 1)" = "$$need" ] || \
	{ echo "Go $$have is too old; rlminit needs Go $$need"; exit 1; }

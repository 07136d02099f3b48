# Every target works from a bare Debian machine: what is missing is installed, or built once into the cache
# ($UNISCHED_CACHE, default ~/.cache/unisched), never into the tree. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
# One shell for each recipe: the first line's environment holds for the others.
.ONESHELL:

# HiGHS is found or built by this script, which exports what cgo needs.
HIGHS := . contrib/highs/env.sh
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo unknown)
# The daemon and the command line are static, so that one file runs on any x86-64 node.
STATIC := -trimpath -tags netgo,osusergo -ldflags '-linkmode external -extldflags "-static" -X main.version=$(VERSION)'
# Slurm of the end-to-end tests and the demo: 24.11 (Debian 13) or 26.05 (Debian sid).
SLURM ?= 24.11
# The folder of the cluster of cluster-up and cluster-down.
DIR ?= /tmp/unisched-cluster-default
PKGS := ./...

.PHONY: help build test unit test-e2e test-torch soak sweep bench-web fidelity demo lint fuzz bench packages test-packages experiments cluster-up cluster-down clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

build: ## bin/unischedd, bin/unisched, bin/unisched-node, bin/unisched-gpu, bin/unisched-gpu-smi
	$(HIGHS)
	mkdir -p bin
	go build $(STATIC) -o bin/ ./bridge/cmd/unischedd ./bridge/cmd/unisched
	CGO_ENABLED=0 go build -trimpath -ldflags '-X main.release=$(VERSION)' -o bin/unisched-node ./hooks/cmd/unisched-node
	go build -trimpath -ldflags '-X main.release=$(VERSION)' -o bin/unisched-gpu ./hooks/cmd/unisched-gpu
	CGO_ENABLED=0 go build -trimpath -ldflags '-X main.release=$(VERSION)' -o bin/unisched-gpu-smi ./hooks/cmd/unisched-gpu

test: lint unit test-e2e ## everything CI runs

unit: ## unit tests, with the race detector; then the sweeps and the long runs of the loop without it
	contrib/ci/needs unit
	$(HIGHS)
	UNISCHED_BROWSER=1 go test -race -short -count=1 -timeout 20m $(PKGS)
	go test -count=1 -timeout 20m -run 'Scenario|SameSeed|EveryPolicy' ./bridge ./bridge/sim

test-e2e: build ## the main scenarios on a real Slurm (SLURM=24.11 or 26.05)
	contrib/ci/needs cluster
	contrib/testcluster/cluster bootstrap --slurm $(SLURM)
	$(HIGHS)
	UNISCHED_E2E=$(SLURM) UNISCHED_BIN=$(CURDIR)/bin go test -count=1 -timeout 25m -parallel 3 -v ./contrib/e2e

# Not part of test: starting PyTorch eight times at once on a busy host takes longer than the deadlines in it allow.
test-torch: export UNISCHED_CLUSTER_EXTRA := python3-torch
test-torch: build ## the PyTorch DDP example, by srun and by torchrun, preempted twice (installs PyTorch into the test cluster)
	contrib/ci/needs cluster
	contrib/testcluster/cluster bootstrap --slurm $(SLURM)
	$(HIGHS)
	UNISCHED_E2E=$(SLURM) UNISCHED_BIN=$(CURDIR)/bin go test -count=1 -timeout 25m -run TestTorch -v ./contrib/e2e

SOAK ?= 30m
soak: build ## the long runs: faults every 20 s on both versions of Slurm for SOAK each, nights of random faults, every fuzz target for 5 minutes
	contrib/ci/needs cluster
	$(HIGHS)
	for slurm in 24.11 26.05; do
		contrib/testcluster/cluster bootstrap --slurm $$slurm
		UNISCHED_E2E=$$slurm UNISCHED_BIN=$(CURDIR)/bin UNISCHED_SOAK=$(SOAK) go test -count=1 -timeout 3h -run TestSoak -v ./contrib/e2e
	done
	CHAOS_NIGHTS=600 go test -count=1 -timeout 2h -run Chaos ./bridge
	contrib/ci/fuzz 5m

CHAOS ?= 200
sweep: ## every crash, torn write, failed call and intervention in small worlds; the same without each safeguard; CHAOS nights of random faults
	contrib/ci/needs unit
	$(HIGHS)
	CHAOS_NIGHTS=$(CHAOS) go test -count=1 -timeout 2h -run Chaos ./bridge
	go vet -tags sweep ./bridge
	go run ./contrib/sweep

fidelity: build ## the simulator against a real Slurm of 16 x 4 GPUs: two loads, about half an hour; figures in out/fidelity
	contrib/ci/needs cluster
	contrib/testcluster/cluster bootstrap --slurm $(SLURM)
	$(HIGHS)
	go run ./contrib/fidelity -slurm $(SLURM) -load 360
	go run ./contrib/fidelity -slurm $(SLURM) -load 720

SEEDS ?= 5
bench: build ## the planner on clusters of four sizes, tables and one line of ratios (SEEDS=1 is quick)
	$(HIGHS)
	go run ./contrib/planbench -seeds $(SEEDS)

bench-web: ## first paint and updates of the web page with 1,000 jobs and 120 nodes, in Chromium
	contrib/ci/needs unit
	$(HIGHS)
	UNISCHED_BROWSER=1 go test -run '^$$' -bench Page -benchtime 3x ./contrib/webdemo

demo: build ## a real Slurm, real training jobs with deadlines, a report in out/
	contrib/ci/needs cluster
	contrib/testcluster/cluster bootstrap --slurm $(SLURM)
	$(HIGHS)
	mkdir -p out
	go run ./contrib/demo --slurm $(SLURM) --bin bin --out out

# EXPERIMENTS holds flags of contrib/experiments, such as --quick, --only '^chronus2d/' or --slurm.
EXPERIMENTS ?=
experiments: build ## every experiment of the docs, into out/experiments; goes on where it stood (EXPERIMENTS=--quick for minutes)
	$(HIGHS)
	go build -o bin/experiments ./contrib/experiments
	bin/experiments $(EXPERIMENTS) run

lint: ## gofmt, vet, staticcheck
	$(HIGHS)
	test -z "$$(gofmt -l .)" || { echo 'gofmt these files:'; gofmt -l .; exit 1; }
	go vet $(PKGS)
	go tool staticcheck $(PKGS)

FUZZTIME ?= 30s
fuzz: ## every fuzz target for FUZZTIME
	$(HIGHS)
	contrib/ci/fuzz $(FUZZTIME)

packages: ## deb and rpm in dist/
	contrib/packaging/build

test-packages: packages ## install, upgrade, remove and purge them in bare Debian 12 and 13 roots
	contrib/packaging/test dist

cluster-up: build ## a test cluster to play with (DIR=/tmp/unisched-cluster-default)
	contrib/ci/needs cluster
	contrib/testcluster/cluster bootstrap --slurm $(SLURM)
	contrib/testcluster/cluster up --slurm $(SLURM) --dir $(DIR)

cluster-down: ## end it
	contrib/testcluster/cluster down --dir $(DIR)

clean: ## what was built in the tree (the cache stays)
	rm -rf bin out dist

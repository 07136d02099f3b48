# Targets are few and each one works from a bare Debian machine: what is missing is installed or built once into
# the cache ($UNISCHED_CACHE, default ~/.cache/unisched), never into the tree.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

# HiGHS is found or built by this script; it exports what cgo needs.
HIGHS := . contrib/highs/env.sh

.PHONY: build test test-e2e demo lint cluster-up cluster-down clean

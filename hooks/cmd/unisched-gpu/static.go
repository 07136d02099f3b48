//go:build !cgo

package main

import (
	"errors"

	"unisched/hooks/gpu"
)

// driver is none: a static program, for nodes whose glibc is older than the other one needs, can load no library, and asks nvidia-smi.
type driver struct{}

func newDriver(string) *driver { return nil }

func (*driver) look() ([]gpu.Sample, error) {
	return nil, errors.New("NVML: a static program cannot load it")
}

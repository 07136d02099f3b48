//go:build cgo

package main

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"unisched/hooks/gpu"
)

// driver reads GPUs through the vendor's library. It is loaded when the first look needs it, and again after it was lost.
type driver struct {
	lib  nvml.Interface
	open bool
	have map[string]bool // functions that this version of the library has
}

// newDriver is the vendor's library at a path, "" for where the system finds it.
func newDriver(path string) *driver {
	if path == "" {
		return &driver{lib: nvml.New()}
	}
	return &driver{lib: nvml.New(nvml.WithLibraryPath(path))}
}

// functions are those that drivers still in use may lack; calling one that is not there would end the process.
var functions = []string{"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetGpuInstanceId",
	"nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetTotalEccErrors"}

var errNVML = errors.New("NVML")

func nvmlError(what string, ret nvml.Return) error {
	return fmt.Errorf("%w: %s: %s", errNVML, what, gpu.Plain(returnText(ret)))
}

// returnText names a code without asking the library, which may not be loaded.
func returnText(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "the library is not there"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the driver is not loaded"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "the library and the driver are of different versions"
	case nvml.ERROR_NO_PERMISSION:
		return "no permission"
	}
	return fmt.Sprintf("error %d", int(ret))
}

// look reads all GPUs. An error means that nothing can be said of any.
func (d *driver) look() ([]gpu.Sample, error) {
	if !d.open {
		if ret := d.lib.Init(); ret != nvml.SUCCESS {
			return nil, nvmlError("load", ret)
		}
		d.open, d.have = true, map[string]bool{}
		for _, name := range functions {
			d.have[name] = d.lib.Extensions().LookupSymbol(name) == nil
		}
	}
	n, ret := d.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		d.close()
		return nil, nvmlError("count devices", ret)
	}
	var out []gpu.Sample
	for i := range min(n, gpu.MaxSamples) {
		dev, ret := d.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			out = append(out, gpu.Sample{Index: i, Slice: -1, Health: health(ret), MIG: "unavailable", Throttled: []string{}})
			continue
		}
		s := d.device(i, dev)
		out = append(out, s)
		if s.MIG == "on" {
			out = append(out, d.slices(i, dev)...)
		}
	}
	return out[:min(len(out), gpu.MaxSamples)], nil
}

// close lets go of the library, so that the next look begins anew: a driver that was replaced is found that way.
func (d *driver) close() {
	if d.open {
		d.lib.Shutdown()
	}
	d.open = false
}

func health(ret nvml.Return) gpu.Health {
	switch ret {
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED, nvml.ERROR_GPU_NOT_FOUND:
		return gpu.Lost
	}
	return gpu.Silent
}

// reading collects the answers of one device: a value whose call fails is unavailable, and what the failures mean is remembered.
type reading struct {
	s     gpu.Sample
	bad   int // calls that failed for another reason than that the device does not have it
	worst gpu.Health
}

func (r *reading) ok(ret nvml.Return) bool {
	switch ret {
	case nvml.SUCCESS:
		return true
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_INVALID_ARGUMENT, nvml.ERROR_NO_PERMISSION, nvml.ERROR_NO_DATA:
		return false
	}
	r.bad++
	if h := health(ret); r.worst != gpu.Lost {
		r.worst = h
	}
	return false
}

// done is the sample. A device that fell off the bus while it was read has no values at all.
func (r *reading) done() gpu.Sample {
	s := r.s
	switch {
	case r.worst == gpu.Lost:
		return gpu.Sample{Index: s.Index, Slice: s.Slice, UUID: s.UUID, Name: s.Name, Health: gpu.Lost, MIG: "unavailable", Throttled: []string{}}
	case r.bad > 0 && !s.MemoryTotal.Known:
		s.Health = gpu.Silent
	}
	return s
}

func begin(index, slice int, dev nvml.Device) *reading {
	r := &reading{s: gpu.Sample{Index: index, Slice: slice, Health: gpu.Well, MIG: "unavailable", Throttled: []string{}}}
	if uuid, ret := dev.GetUUID(); r.ok(ret) {
		r.s.UUID = gpu.Plain(uuid)
	}
	if name, ret := dev.GetName(); r.ok(ret) {
		r.s.Name = gpu.Plain(name)
	}
	if m, ret := dev.GetMemoryInfo(); r.ok(ret) {
		r.s.MemoryUsed, r.s.MemoryTotal = gpu.Of(float64(m.Used)), gpu.Of(float64(m.Total))
	}
	return r
}

func (d *driver) device(index int, dev nvml.Device) gpu.Sample {
	r := begin(index, -1, dev)
	if d.have["nvmlDeviceGetMigMode"] {
		switch current, _, ret := dev.GetMigMode(); {
		case ret == nvml.ERROR_NOT_SUPPORTED:
			r.s.MIG = "off" // it has no such thing
		case r.ok(ret) && current == nvml.DEVICE_MIG_ENABLE:
			r.s.MIG = "on"
		case ret == nvml.SUCCESS:
			r.s.MIG = "off"
		}
	}
	if minor, ret := dev.GetMinorNumber(); r.ok(ret) && minor >= 0 {
		r.s.Minor = gpu.Of(float64(minor))
	}
	if r.s.MIG != "on" { // with slices the device's own figure means nothing, where there is one
		if u, ret := dev.GetUtilizationRates(); r.ok(ret) && u.Gpu <= 100 {
			r.s.Utilization = gpu.Of(float64(u.Gpu))
		}
	}
	if d.have["nvmlDeviceGetCurrentClocksThrottleReasons"] {
		if mask, ret := dev.GetCurrentClocksThrottleReasons(); r.ok(ret) {
			r.s.Throttled, r.s.ThrottledKnown = gpu.Throttles(mask), true
		}
	}
	if d.have["nvmlDeviceGetTotalEccErrors"] {
		if n, ret := dev.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC); r.ok(ret) {
			r.s.Corrected = gpu.Of(float64(n))
		}
		if n, ret := dev.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); r.ok(ret) {
			r.s.Uncorrected = gpu.Of(float64(n))
		}
	}
	return r.done()
}

// maxSlices bounds the slices of one device.
const maxSlices = 16

// slices reads the MIG slices of a device: memory is theirs, utilisation nobody gives.
func (d *driver) slices(index int, dev nvml.Device) []gpu.Sample {
	if !d.have["nvmlDeviceGetMaxMigDeviceCount"] || !d.have["nvmlDeviceGetMigDeviceHandleByIndex"] {
		return nil
	}
	n, ret := dev.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	var out []gpu.Sample
	for i := range min(n, maxSlices) {
		slice, ret := dev.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // that place is empty
		}
		r := begin(index, i, slice)
		r.s.MIG = "on"
		out = append(out, r.done())
	}
	return out
}

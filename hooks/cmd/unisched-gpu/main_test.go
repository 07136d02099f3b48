//go:build cgo

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"unisched/hooks/gpu"
)

var at = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// whole is a device on which everything works; tests break parts of it.
func whole(uuid string) *mock.Device {
	return &mock.Device{
		GetUUIDFunc:             func() (string, nvml.Return) { return uuid, nvml.SUCCESS },
		GetNameFunc:             func() (string, nvml.Return) { return "NVIDIA H200", nvml.SUCCESS },
		GetMinorNumberFunc:      func() (int, nvml.Return) { return 3, nvml.SUCCESS },
		GetMemoryInfoFunc:       func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 1000, Used: 250}, nvml.SUCCESS },
		GetMigModeFunc:          func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_DISABLE, 0, nvml.SUCCESS },
		GetUtilizationRatesFunc: func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 97, Memory: 40}, nvml.SUCCESS },
		GetCurrentClocksThrottleReasonsFunc: func() (uint64, nvml.Return) {
			return nvml.ClocksThrottleReasonHwThermalSlowdown | nvml.ClocksEventReasonSwPowerCap, nvml.SUCCESS
		},
		GetTotalEccErrorsFunc: func(kind nvml.MemoryErrorType, _ nvml.EccCounterType) (uint64, nvml.Return) {
			return map[nvml.MemoryErrorType]uint64{nvml.MEMORY_ERROR_TYPE_CORRECTED: 3, nvml.MEMORY_ERROR_TYPE_UNCORRECTED: 1}[kind], nvml.SUCCESS
		},
		GetMaxMigDeviceCountFunc:      func() (int, nvml.Return) { return 0, nvml.SUCCESS },
		GetMigDeviceHandleByIndexFunc: func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_NOT_FOUND },
	}
}

func sampleOf(uuid string, change func(*gpu.Sample)) gpu.Sample {
	s := gpu.Sample{Index: 0, Slice: -1, Minor: gpu.Of(3), UUID: uuid, Name: "NVIDIA H200", Health: gpu.Well, MIG: "off", Utilization: gpu.Of(97), MemoryUsed: gpu.Of(250), MemoryTotal: gpu.Of(1000),
		Corrected: gpu.Of(3), Uncorrected: gpu.Of(1), Throttled: []string{"hardware-thermal", "power"}, ThrottledKnown: true}
	if change != nil {
		change(&s)
	}
	return s
}

// library is a fake of the vendor's with these devices; lacks names functions that this version does not have.
func library(lacks string, devices ...nvml.Device) *mock.Interface {
	return &mock.Interface{
		InitFunc:           func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc:       func() nvml.Return { return nvml.SUCCESS },
		DeviceGetCountFunc: func() (int, nvml.Return) { return len(devices), nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
			if devices[i] == nil {
				return nil, nvml.ERROR_GPU_IS_LOST
			}
			return devices[i], nvml.SUCCESS
		},
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error {
				if lacks != "" && strings.Contains(name, lacks) {
					return errors.New("no such symbol")
				}
				return nil
			}}
		},
	}
}

// case 39: what one device does not give, or gives wrongly, is unavailable; the rest stands.
func TestDevice(t *testing.T) {
	unknown := gpu.Value{}
	for _, tt := range []struct {
		name  string
		lacks string
		spoil func(*mock.Device)
		want  func(*gpu.Sample)
	}{
		{"all well", "", nil, nil},
		{"utilisation not supported", "", func(d *mock.Device) {
			d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED }
		}, func(s *gpu.Sample) { s.Utilization = unknown }},
		{"utilisation: unknown error", "", func(d *mock.Device) {
			d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_UNKNOWN }
		}, func(s *gpu.Sample) { s.Utilization = unknown }},
		{"utilisation beyond reason", "", func(d *mock.Device) {
			d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 4294967295}, nvml.SUCCESS }
		}, func(s *gpu.Sample) { s.Utilization = unknown }},
		{"no ECC counters", "", func(d *mock.Device) {
			d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
				return 0, nvml.ERROR_NOT_SUPPORTED
			}
		}, func(s *gpu.Sample) { s.Corrected, s.Uncorrected = unknown, unknown }},
		{"no throttle reasons", "", func(d *mock.Device) {
			d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		}, func(s *gpu.Sample) { s.Throttled, s.ThrottledKnown = []string{}, false }},
		{"not throttled is known", "", func(d *mock.Device) {
			d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return 0, nvml.SUCCESS }
		}, func(s *gpu.Sample) { s.Throttled = []string{} }},
		{"no number of its file", "", func(d *mock.Device) {
			d.GetMinorNumberFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		}, func(s *gpu.Sample) { s.Minor = unknown }},
		{"before MIG", "", func(d *mock.Device) {
			d.GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_NOT_SUPPORTED }
		}, nil},
		{"an old library without MIG", "Mig", func(d *mock.Device) {
			d.GetMigModeFunc = func() (int, int, nvml.Return) { panic("called") }
		}, func(s *gpu.Sample) { s.MIG = "unavailable" }},
		{"an old library without ECC totals", "TotalEcc", func(d *mock.Device) {
			d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { panic("called") }
		}, func(s *gpu.Sample) { s.Corrected, s.Uncorrected = unknown, unknown }},
		{"lost while it was read", "", func(d *mock.Device) {
			d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
				return 0, nvml.ERROR_GPU_IS_LOST
			}
		}, func(s *gpu.Sample) {
			*s = gpu.Sample{Slice: -1, UUID: s.UUID, Name: s.Name, Health: gpu.Lost, MIG: "unavailable", Throttled: []string{}}
		}},
		{"answers nothing but errors", "", func(d *mock.Device) {
			*d = mock.Device{
				GetUUIDFunc:                         func() (string, nvml.Return) { return "", nvml.ERROR_UNKNOWN },
				GetNameFunc:                         func() (string, nvml.Return) { return "", nvml.ERROR_UNKNOWN },
				GetMinorNumberFunc:                  func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN },
				GetMemoryInfoFunc:                   func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_UNKNOWN },
				GetMigModeFunc:                      func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_UNKNOWN },
				GetUtilizationRatesFunc:             func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_UNKNOWN },
				GetCurrentClocksThrottleReasonsFunc: func() (uint64, nvml.Return) { return 0, nvml.ERROR_UNKNOWN },
				GetTotalEccErrorsFunc:               func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 0, nvml.ERROR_UNKNOWN },
			}
		}, func(s *gpu.Sample) {
			*s = gpu.Sample{Slice: -1, Health: gpu.Silent, MIG: "unavailable", Throttled: []string{}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := whole("GPU-a")
			if tt.spoil != nil {
				tt.spoil(d)
			}
			s := sampler{driver: &driver{lib: library(tt.lacks, d)}, now: func() time.Time { return at }}
			want := gpu.Report{SchemaVersion: 1, Time: at, Source: gpu.NVML, GPUs: []gpu.Sample{sampleOf("GPU-a", tt.want)}}
			if d := cmp.Diff(want, s.look(t.Context())); d != "" {
				t.Error(d)
			}
		})
	}
}

// case 39: a MIG device has no utilisation of its own, and its slices have memory only.
func TestMIG(t *testing.T) {
	slice := whole("MIG-1")
	slice.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 100, Used: 50}, nvml.SUCCESS }
	slice.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { panic("asked") }
	d := whole("GPU-a")
	d.GetMigModeFunc = func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_ENABLE, 1, nvml.SUCCESS }
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { panic("asked") }
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	d.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i != 2 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return slice, nvml.SUCCESS
	}
	got, err := (&driver{lib: library("", d)}).look()
	want := []gpu.Sample{
		sampleOf("GPU-a", func(s *gpu.Sample) { s.MIG, s.Utilization = "on", gpu.Value{} }),
		{Index: 0, Slice: 2, UUID: "MIG-1", Name: "NVIDIA H200", Health: gpu.Well, MIG: "on", MemoryUsed: gpu.Of(50), MemoryTotal: gpu.Of(100), Throttled: []string{}},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
}

// case 39: a GPU that is lost in the middle of a run costs no other one its figures.
func TestLostGPU(t *testing.T) {
	devices := []nvml.Device{whole("GPU-a"), whole("GPU-b")}
	lib := library("", devices...)
	d := &driver{lib: lib}
	if got, err := d.look(); err != nil || len(got) != 2 || got[1].Health != gpu.Well {
		t.Fatal(got, err)
	}
	devices[0] = nil
	got, err := d.look()
	want := []gpu.Sample{{Index: 0, Slice: -1, Health: gpu.Lost, MIG: "unavailable", Throttled: []string{}}, sampleOf("GPU-b", func(s *gpu.Sample) { s.Index = 1 })}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	if n := len(lib.InitCalls()); n != 1 {
		t.Errorf("loaded %d times", n)
	}
	// The driver is replaced under it: the next look begins anew.
	lib.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNINITIALIZED }
	if _, err := d.look(); !errors.Is(err, errNVML) {
		t.Error(err)
	}
	lib.DeviceGetCountFunc = func() (int, nvml.Return) { return 1, nvml.SUCCESS }
	if got, err := d.look(); err != nil || len(got) != 1 || len(lib.InitCalls()) != 2 {
		t.Error(got, err, len(lib.InitCalls()))
	}
}

// Without the library nvidia-smi is asked, and without either the report says so and holds no GPU.
func TestFallback(t *testing.T) {
	dead := func(ret nvml.Return) *driver {
		return &driver{lib: &mock.Interface{InitFunc: func() nvml.Return { return ret }}}
	}
	line := "0, GPU-a, NVIDIA H200, Disabled, 97, 1, 2, 0x0, 3, 1\n"
	for _, tt := range []struct {
		name   string
		driver *driver
		smi    func(context.Context) ([]byte, error)
		source string
		gpus   int
		why    string
	}{
		{"no library, but nvidia-smi", dead(nvml.ERROR_LIBRARY_NOT_FOUND), func(context.Context) ([]byte, error) { return []byte(line), nil }, gpu.SMI, 1, "the library is not there"},
		{"neither", dead(nvml.ERROR_LIBRARY_NOT_FOUND), func(context.Context) ([]byte, error) { return nil, errors.New("nvidia-smi: not found") }, gpu.Nobody, 0, "nvidia-smi: not found"},
		{"another driver than library", dead(nvml.ERROR_LIB_RM_VERSION_MISMATCH), nil, gpu.Nobody, 0, "different versions"},
		{"nvidia-smi writes prose", nil, func(context.Context) ([]byte, error) { return []byte("NVIDIA-SMI has failed\n"), nil }, gpu.Nobody, 0, "columns"},
		{"nvidia-smi breaks off", nil, func(context.Context) ([]byte, error) { return []byte(line + "1, x"), nil }, gpu.SMI, 1, "columns"},
		{"nothing wanted", nil, nil, gpu.Nobody, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := (&sampler{driver: tt.driver, smi: tt.smi, now: func() time.Time { return at }}).look(t.Context())
			if r.Source != tt.source || len(r.GPUs) != tt.gpus || !strings.Contains(r.Why, tt.why) {
				t.Errorf("%+v", r)
			}
			if _, err := r.Line(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The program itself, with the real library if there is one: a machine without GPUs says "unavailable", and a stand-in of nvidia-smi is read.
func TestProgram(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"-once", "-library", "/nonexistent/libnvidia-ml.so.1", "-nvidia-smi", "/nonexistent/nvidia-smi"}, &out, &errs); code != exitOK {
		t.Fatal(code, errs.String())
	}
	if r, err := gpu.Parse(bytes.TrimSpace(out.Bytes())); err != nil || r.Source != gpu.Nobody || len(r.GPUs) != 0 || r.Why == "" {
		t.Errorf("%+v, %v", r, err)
	}
	script := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho '0, GPU-a, H200, Disabled, [N/A], 1, 2, 0x0, 3, 1'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if code := run([]string{"-once", "-library", "none", "-nvidia-smi", script}, &out, &errs); code != exitOK {
		t.Fatal(code, errs.String())
	}
	if r, err := gpu.Parse(bytes.TrimSpace(out.Bytes())); err != nil || r.Source != gpu.SMI || len(r.GPUs) != 1 || r.GPUs[0].Utilization.Known {
		t.Errorf("%+v, %v", r, err)
	}
	for _, args := range [][]string{{"x"}, {"-interval", "1ms"}, {"-nope"}} {
		if code := run(args, &out, &errs); code != exitUsage {
			t.Errorf("%v: %d", args, code)
		}
	}
}

// Nobody reads any more: the sampler ends.
func TestReaderGone(t *testing.T) {
	s := sampler{now: func() time.Time { return at }}
	if err := s.loop(t.Context(), time.Hour, false, broken{}); err == nil {
		t.Error("it goes on")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("closed") }
